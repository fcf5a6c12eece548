//! The context manager: owns a conversation's messages and its team task.
//!
//! The rules are functions over messages (`context`, `marker`, `assembler`). Each message is cleaned once, and the context of
//! an agent is O(window), however long the history is.

mod history;
mod options;
mod provider;
mod snapshot;
mod task;

pub use history::History;
pub use options::{ContextManagerOptions, Hooks, MessageLimit};
pub use provider::ContextProvider;
pub use snapshot::{ContextSnapshot, InvalidSnapshot, SnapshotReason};
pub use task::{MAX_TEAM_TASK_BYTES, cut_team_task};

use crate::assembler::{AssemblerOutput, Assemblers, ContextAssembler};
use crate::budget::BudgetTooSmall;
use crate::context::Visibility;
use crate::diagnostic::Diagnostic;
use crate::input::{AgentContext, AssemblerInput};
use crate::message::{ConversationMessage, MessageId, NewMessage};
use crate::name::NameKey;
use crate::timestamp::Millis;

/// Owns a conversation's messages and its team task, and prepares the context of each agent.
///
/// ```
/// use convoke_core::{AgentContext, ContextManager, NewMessage, Speaker, SpeakerType};
///
/// let mut manager = ContextManager::default();
/// manager.set_team_task("Review the authentication module");
/// let kailai = Speaker::new("kailai", "kailai", SpeakerType::Human);
/// manager.add_message(NewMessage::new(kailai, "Where do we stand? [NEXT: max]"));
///
/// let input = manager.context_for_agent("max", AgentContext::default());
/// let output = manager.assemble_prompt("codex", &input)?;
/// assert!(output.prompt.ends_with("[MESSAGE]\nWhere do we stand?"));
/// assert_eq!(output.ledger.used_bytes(), output.prompt.len() as u64);
/// # Ok::<(), convoke_core::BudgetTooSmall>(())
/// ```
#[derive(Debug, Default)]
pub struct ContextManager {
    history: History,
    team_task: Option<String>,
    options: ContextManagerOptions,
    assemblers: Assemblers,
    hooks: Hooks,
}

impl ContextManager {
    /// Creates a manager.
    pub fn new(options: ContextManagerOptions, hooks: Hooks) -> Self {
        Self {
            history: History::new(options.context.text),
            team_task: None,
            options,
            assemblers: Assemblers::default(),
            hooks,
        }
    }

    /// Registers an assembler for its type of agent.
    pub fn register_assembler(&mut self, assembler: Box<dyn ContextAssembler>) {
        self.assemblers.register(assembler);
    }

    /// Stores a message under a new id. Markers in the message are not applied. O(1).
    ///
    /// Beyond the message limit, if there is one, the oldest message goes to the archive.
    pub fn add_message(&mut self, message: NewMessage) -> &ConversationMessage {
        let id = self.history.push(message);
        tracing::debug!("[ContextManager] Message added: {id}");
        self.archive_beyond_limit();
        let added = self.history.newest();
        if let Some(hook) = &mut self.hooks.message_added {
            hook(added);
        }
        added
    }

    /// Returns the history, for lookup by id, speaker, time or reply.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// Returns the messages, oldest first.
    pub fn messages(
        &self,
    ) -> impl DoubleEndedIterator<Item = &ConversationMessage> + ExactSizeIterator {
        self.history.messages()
    }

    /// Returns the newest message.
    pub fn latest_message(&self) -> Option<&ConversationMessage> {
        self.history.latest()
    }

    /// Sets the team task. A task over 5 KiB is cut at a character boundary, and the cut is reported.
    pub fn set_team_task(&mut self, task: &str) -> Option<Diagnostic> {
        let (task, cut) = cut_team_task(task);
        self.replace_team_task(Some(task.to_owned()));
        cut
    }

    /// Returns the team task.
    pub fn team_task(&self) -> Option<&str> {
        self.team_task.as_deref()
    }

    /// Prepares the input of a prompt that answers the newest message. O(window).
    pub fn context_for_agent<'a>(
        &'a self,
        agent_id: &str,
        context: AgentContext<'a>,
    ) -> AssemblerInput<'a> {
        let newest = self.history.len().checked_sub(1);
        self.context_at(newest, agent_id, context)
    }

    /// Prepares the input of a prompt that answers an earlier message: the messages before it, and the other replies to
    /// it. O(window).
    pub fn context_for_reply<'a>(
        &'a self,
        in_reply_to: &MessageId,
        agent_id: &str,
        context: AgentContext<'a>,
    ) -> Result<AssemblerInput<'a>, UnknownMessage> {
        let found = self.history.position(in_reply_to);
        let position = found.ok_or_else(|| UnknownMessage(in_reply_to.clone()))?;
        Ok(self.context_at(Some(position), agent_id, context))
    }

    fn context_at<'a>(
        &'a self,
        position: Option<usize>,
        agent_id: &str,
        context: AgentContext<'a>,
    ) -> AssemblerInput<'a> {
        let options = &self.options.context;
        let input = AssemblerInput::new(&context, self.team_task(), options);
        let Some(position) = position else {
            return input;
        };
        let (current, text) = self.history.clean(position);
        let window = self.options.window_for(agent_id, context.window_size_override);
        match options.visibility {
            Visibility::All => {
                input.answering(current, text, self.history.before(position), window)
            }
            Visibility::Addressed => {
                let mut names = vec![NameKey::new(agent_id)];
                names.extend(context.agent_names.iter().map(|name| NameKey::new(name)));
                let earlier = self.history.visible_before(position, &names);
                input.answering(current, text, earlier, window)
            }
        }
    }

    /// Assembles the prompt for a type of agent; an unknown type gets plain text and a diagnostic.
    pub fn assemble_prompt<'a>(
        &self,
        agent_type: &str,
        input: &'a AssemblerInput<'a>,
    ) -> Result<AssemblerOutput<'a>, BudgetTooSmall> {
        self.assemblers.assemble(agent_type, input)
    }

    /// Removes all messages and the team task; ids begin again at `msg-1`.
    pub fn clear(&mut self) {
        self.history.clear();
        self.replace_team_task(None);
    }

    /// Returns the state for storage, with the given time.
    pub fn export_snapshot(&self, timestamp: Millis) -> ContextSnapshot<'_> {
        ContextSnapshot { history: &self.history, team_task: self.team_task(), timestamp }
    }

    /// Replaces the state with a stored one. An invalid snapshot is refused and changes nothing.
    ///
    /// Beyond the message limit, if there is one, the oldest messages go to the archive.
    pub fn import_snapshot(
        &mut self,
        snapshot: serde_json::Value,
    ) -> Result<Vec<Diagnostic>, InvalidSnapshot> {
        let (state, diagnostics) = snapshot::read(snapshot)?;
        self.history.replace(state.messages, state.next_number);
        self.archive_beyond_limit();
        self.replace_team_task(state.team_task);
        Ok(diagnostics)
    }

    /// Moves the oldest messages to the archive until the limit is met.
    fn archive_beyond_limit(&mut self) {
        let Some(limit) = &mut self.hooks.limit else {
            return;
        };
        while self.history.len() > limit.keep.get()
            && let Some(oldest) = self.history.pop_oldest()
        {
            (limit.archive)(oldest);
        }
    }

    fn replace_team_task(&mut self, task: Option<String>) {
        self.team_task = task;
        if let Some(hook) = &mut self.hooks.team_task_changed {
            hook(self.team_task.as_deref());
        }
    }
}

/// No message has this id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no message has the id `{0}`")]
pub struct UnknownMessage(pub MessageId);
