//! Options for `ContextManager`.

use std::collections::HashMap;
use std::fmt;
use std::num::NonZeroUsize;

use crate::context::ContextOptions;
use crate::message::ConversationMessage;

/// Options for [`ContextManager`](crate::ContextManager).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ContextManagerOptions {
    /// The options of every agent's prompts.
    pub context: ContextOptions,
    /// The windows of agents with a window of their own, by agent id.
    pub agent_windows: HashMap<String, usize>,
}

impl From<ContextOptions> for ContextManagerOptions {
    fn from(context: ContextOptions) -> Self {
        Self { context, agent_windows: HashMap::new() }
    }
}

impl ContextManagerOptions {
    /// Returns an agent's window: the override, else the agent's own, else the default.
    pub(super) fn window_for(&self, agent_id: &str, window_size_override: Option<usize>) -> usize {
        let own = || self.agent_windows.get(agent_id).copied();
        window_size_override.or_else(own).unwrap_or(self.context.window)
    }
}

/// A callback for messages that are added.
pub type MessageHook = Box<dyn FnMut(&ConversationMessage) + Send>;
/// A callback for the team task.
pub type TaskHook = Box<dyn FnMut(Option<&str>) + Send>;
/// A callback for messages that leave the manager.
pub type ArchiveHook = Box<dyn FnMut(ConversationMessage) + Send>;

/// The callbacks of a manager.
#[derive(Default)]
pub struct Hooks {
    /// Called after a message was added.
    pub message_added: Option<MessageHook>,
    /// Called after the team task was set or cleared.
    pub team_task_changed: Option<TaskHook>,
    /// The limit on messages.
    pub limit: Option<MessageLimit>,
}

/// The limit on messages, and the archive for those beyond it.
pub struct MessageLimit {
    /// The maximum number of messages.
    pub keep: NonZeroUsize,
    /// The callback that receives the oldest messages.
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
