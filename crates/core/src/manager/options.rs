//! What a context manager can be told.

use std::collections::HashMap;
use std::fmt;
use std::num::NonZeroUsize;

use crate::context::{DEFAULT_CONTEXT_WINDOW, Visibility};
use crate::input::{DEFAULT_MAX_BYTES, Fencing};
use crate::marker::TextPolicy;
use crate::message::ConversationMessage;

/// How contexts are prepared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContextManagerOptions {
    /// How many context messages an agent gets; 0 is none.
    pub context_window_size: usize,
    /// The windows of agents that have one of their own, by agent id.
    pub agent_windows: HashMap<String, usize>,
    /// The most bytes of prompt and system text together.
    pub max_bytes: u64,
    /// How messages are cleaned of their markers.
    pub text: TextPolicy,
    /// Which messages an agent sees.
    pub visibility: Visibility,
    /// Whether content is set off.
    pub fencing: Fencing,
}

impl Default for ContextManagerOptions {
    fn default() -> Self {
        Self {
            context_window_size: DEFAULT_CONTEXT_WINDOW,
            agent_windows: HashMap::new(),
            max_bytes: DEFAULT_MAX_BYTES,
            text: TextPolicy::default(),
            visibility: Visibility::default(),
            fencing: Fencing::default(),
        }
    }
}

impl ContextManagerOptions {
    /// Returns an agent's window: the override, else its own, else everybody's.
    pub(super) fn window_for(&self, agent_id: &str, window_size_override: Option<usize>) -> usize {
        let own = || self.agent_windows.get(agent_id).copied();
        window_size_override.or_else(own).unwrap_or(self.context_window_size)
    }
}

/// What one agent's context is prepared with.
#[derive(Debug, Clone, Copy, Default)]
pub struct AgentContext<'a> {
    /// The window for this turn.
    pub window_size_override: Option<usize>,
    /// Names that the agent is known by besides its id.
    pub agent_names: &'a [&'a str],
    /// A short line that says who the agent is.
    pub role_summary: Option<&'a str>,
    /// The configured part of the system text.
    pub system_instruction: Option<&'a str>,
    /// The instruction file's text.
    pub instruction_file_text: Option<&'a str>,
    /// The instruction file's path, for the ledger.
    pub instruction_file_path: Option<&'a str>,
}

/// Called with each message that is added.
pub type MessageHook = Box<dyn FnMut(&ConversationMessage) + Send>;
/// Called with the team task whenever it is set.
pub type TaskHook = Box<dyn FnMut(Option<&str>) + Send>;
/// Takes over a message that the manager no longer holds.
pub type ArchiveHook = Box<dyn FnMut(ConversationMessage) + Send>;

/// What is called when something changes.
#[derive(Default)]
pub struct Hooks {
    /// Called after a message was added.
    pub message_added: Option<MessageHook>,
    /// Called after the team task was set or cleared.
    pub team_task_changed: Option<TaskHook>,
    /// How many messages are held, and who takes the oldest beyond that.
    pub limit: Option<MessageLimit>,
}

/// A limit cannot be set without somebody who takes what goes over it.
pub struct MessageLimit {
    /// How many messages are held.
    pub keep: NonZeroUsize,
    /// Who takes the oldest.
    pub archive: ArchiveHook,
}

impl fmt::Debug for Hooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hooks")
            .field("message_added", &self.message_added.is_some())
            .field("team_task_changed", &self.team_task_changed.is_some())
            .field("limit", &self.limit.as_ref().map(|limit| limit.keep))
            .finish()
    }
}
