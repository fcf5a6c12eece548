//! Assemblers: from an input to the prompt in the format that one kind of agent reads.

mod builtin;
mod format;
mod registry;

pub use builtin::{
    ClaudeAssembler, CodexAssembler, GeminiAssembler, InlineClaudeAssembler, PlainTextAssembler,
};
pub use format::{Format, Headers, LineStyle, SystemPlace};
pub use registry::Assemblers;

use crate::agent_type::AgentType;
use crate::budget::{self, BudgetTooSmall};
use crate::diagnostic::Diagnostic;
use crate::diagnostics;
use crate::fragment::Fragments;
use crate::input::AssemblerInput;
use crate::ledger::Ledger;
use crate::render;

/// Turns an input into a prompt.
pub trait ContextAssembler: Send + Sync {
    /// Returns the type of agent that reads this format.
    fn agent_type(&self) -> AgentType;

    /// Assembles the prompt.
    fn assemble<'a>(
        &self,
        input: &'a AssemblerInput<'a>,
    ) -> Result<AssemblerOutput<'a>, BudgetTooSmall>;
}

/// A prompt, its separate system text, and the ledger of both.
#[derive(Debug, Clone, PartialEq)]
pub struct AssemblerOutput<'a> {
    /// The prompt.
    pub prompt: String,
    /// The system text, if it is separate from the prompt.
    pub system_flag: Option<String>,
    /// The ledger.
    pub ledger: Ledger<'a>,
    /// The diagnostics.
    pub diagnostics: Vec<Diagnostic>,
}

impl AssemblerOutput<'_> {
    /// Returns the output with a ledger that borrows nothing from the input.
    pub fn into_owned(self) -> AssemblerOutput<'static> {
        AssemblerOutput {
            prompt: self.prompt,
            system_flag: self.system_flag,
            ledger: self.ledger.into_owned(),
            diagnostics: self.diagnostics,
        }
    }
}

/// Assembles a prompt in a format: fragments, budget, text and ledger.
///
/// O(context messages + written bytes).
pub fn assemble<'a>(
    format: &Format,
    input: &'a AssemblerInput<'a>,
) -> Result<AssemblerOutput<'a>, BudgetTooSmall> {
    let fragments = Fragments::new(format, input);
    let plan = budget::plan(format, &fragments, input.max_bytes)?;
    let mut diagnostics = plan.diagnostics();
    diagnostics.extend(escaped(fragments.escapes(plan.dropped)));
    let rendered = render::render(format, fragments, &plan);
    let render::Rendered { prompt, system_flag, ledger, forged } = rendered;
    diagnostics.extend(forged);
    Ok(AssemblerOutput { prompt, system_flag, ledger, diagnostics })
}

fn escaped(count: usize) -> Option<Diagnostic> {
    let message = match count {
        0 => return None,
        1 => "one `@` is sent as `\\@`, so that the agent's program does not act on it".to_owned(),
        _ => format!(
            "{count} `@` are sent as `\\@`, so that the agent's program does not act on them"
        ),
    };
    Some(Diagnostic::new(diagnostics::CONTENT_ESCAPED, message).with_count(count as u64))
}
