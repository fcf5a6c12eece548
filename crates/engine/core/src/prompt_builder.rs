//! The simple entry point: builds one prompt from its parts.

use std::borrow::Cow;
use std::fmt;

use crate::agent_type::AgentType;
use crate::assembler::{AssemblerOutput, Assemblers, ContextAssembler, InlineClaudeAssembler};
use crate::budget::BudgetTooSmall;
use crate::context::{ContextOptions, Visibility};
use crate::input::{AgentContext, AssemblerInput, PromptContextMessage};
use crate::name::NameKey;

/// The delivery of the system text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum SystemDelivery {
    /// As the agent's type requires: separate from the prompt for Claude, in the prompt for others.
    #[default]
    AsUsual,
    /// In the prompt, for a Claude without a flag for system text.
    Inline,
}

/// The parts of one prompt.
#[derive(Debug, Clone)]
pub struct PromptInput<'a> {
    /// The type of agent that reads the prompt.
    pub agent_type: &'a str,
    /// The agent's name, by which messages are addressed to it.
    pub agent_name: &'a str,
    /// The role summary of the agent; first in the system text and never cut.
    pub role_summary: Option<&'a str>,
    /// The configured system text.
    pub system_instruction_text: Option<&'a str>,
    /// The instruction file's text, which follows the configured system text.
    pub instruction_file_text: Option<&'a str>,
    /// The team's task.
    pub team_task: Option<&'a str>,
    /// Earlier messages, oldest first.
    pub context_messages: Vec<PromptContextMessage<'a>>,
    /// The message to answer.
    pub message: &'a str,
    /// The delivery of the system text.
    pub system_delivery: SystemDelivery,
    /// The window, visibility, budget and fencing. `text` is not used, because messages are given without
    /// markers.
    pub options: ContextOptions,
}

impl<'a> PromptInput<'a> {
    /// Creates the parts of a prompt that has only a message.
    pub fn new(agent_type: &'a str, agent_name: &'a str, message: &'a str) -> Self {
        Self {
            agent_type,
            agent_name,
            role_summary: None,
            system_instruction_text: None,
            instruction_file_text: None,
            team_task: None,
            context_messages: Vec::new(),
            message,
            system_delivery: SystemDelivery::default(),
            options: ContextOptions::default(),
        }
    }

    /// Returns the input of the agent's assembler, with the newest visible messages up to the window.
    fn assembler_input(&self) -> AssemblerInput<'_> {
        let me = NameKey::new(self.agent_name);
        let is_seen = |message: &&PromptContextMessage<'_>| match self.options.visibility {
            Visibility::All => true,
            Visibility::Addressed => {
                NameKey::new(&message.from) == me || is_addressed(message.to.as_deref(), &me)
            }
        };
        let newest = self.context_messages.iter().rev().filter(is_seen).take(self.options.window);
        let mut context_messages: Vec<_> = newest.cloned().collect();
        context_messages.reverse();
        let agent = AgentContext {
            role_summary: self.role_summary,
            system_instruction: self.system_instruction_text,
            instruction_file_text: self.instruction_file_text,
            ..AgentContext::default()
        };
        AssemblerInput {
            context_messages,
            current_message: Cow::Borrowed(self.message),
            ..AssemblerInput::new(&agent, self.team_task, &self.options)
        }
    }
}

/// Returns whether a list of recipients, as one text, names a member or everyone.
fn is_addressed(to: Option<&str>, member: &NameKey) -> bool {
    let Some(to) = to else { return true };
    let names = to.split([',', '，']).map(NameKey::new);
    names.into_iter().any(|name| name == *member || name.is_all())
}

/// Assembles a prompt.
///
/// ```
/// use convoke_core::prompt_builder::{PromptInput, build_prompt};
///
/// let mut input = PromptInput::new("claude", "max", "What is left to do?");
/// input.system_instruction_text = Some("You are Max.");
/// input.instruction_file_text = Some("Be brief.");
///
/// let output = build_prompt(&input)?;
/// assert_eq!(output.prompt, "[MESSAGE]\nWhat is left to do?");
/// assert_eq!(output.system_flag.as_deref(), Some("You are Max.\n\nBe brief."));
/// # Ok::<(), convoke_core::BudgetTooSmall>(())
/// ```
pub fn build_prompt(input: &PromptInput<'_>) -> Result<AssemblerOutput<'static>, BudgetTooSmall> {
    let parts = input.assembler_input();
    let is_claude = AgentType::normalize(input.agent_type) == AgentType::ClaudeCode;
    let output = match input.system_delivery {
        SystemDelivery::Inline if is_claude => InlineClaudeAssembler.assemble(&parts)?,
        _ => Assemblers::default().assemble(input.agent_type, &parts)?,
    };
    Ok(output.into_owned())
}

/// Displays a prompt for debugging: the prompt, the system text, and every omission.
#[derive(Debug, Clone, Copy)]
pub struct DebugSend<'o, 'a>(pub &'o AssemblerOutput<'a>);

impl fmt::Display for DebugSend<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let output = self.0;
        writeln!(f, "[Debug][Send] prompt ({} bytes):\n{}", output.prompt.len(), output.prompt)?;
        if let Some(system) = &output.system_flag {
            writeln!(f, "[Debug][Send] system ({} bytes):\n{system}", system.len())?;
        }
        for diagnostic in &output.diagnostics {
            writeln!(f, "[Debug][Send] {diagnostic}")?;
        }
        if output.diagnostics.is_empty() {
            f.write_str("[Debug][Send] nothing was left out\n")?;
        }
        Ok(())
    }
}
