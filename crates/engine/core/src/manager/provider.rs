//! The interface between a context manager and the rest of a program.

use serde_json::Value;

use super::{ContextManager, ContextSnapshot, InvalidSnapshot};
use crate::diagnostic::Diagnostic;
use crate::input::{AgentContext, AssemblerInput};
use crate::message::{ConversationMessage, NewMessage};
use crate::timestamp::Millis;

/// Stores a conversation and prepares the context of each agent.
pub trait ContextProvider {
    /// Stores a message under a new id.
    fn add_message(&mut self, message: NewMessage) -> &ConversationMessage;
    /// Returns the messages, oldest first.
    fn messages(&self) -> Vec<&ConversationMessage>;
    /// Returns the newest message.
    fn latest_message(&self) -> Option<&ConversationMessage>;
    /// Sets the team task, and reports whether it was cut.
    fn set_team_task(&mut self, task: &str) -> Option<Diagnostic>;
    /// Returns the team task.
    fn team_task(&self) -> Option<&str>;
    /// Prepares the input of a prompt that answers the newest message.
    fn context_for_agent<'a>(
        &'a self,
        agent_id: &str,
        context: AgentContext<'a>,
    ) -> AssemblerInput<'a>;
    /// Removes all messages and the team task.
    fn clear(&mut self);
    /// Returns the state for storage, with the given time.
    fn export_snapshot(&self, timestamp: Millis) -> ContextSnapshot<'_>;
    /// Replaces the state with a stored one. An invalid snapshot is refused and changes nothing.
    fn import_snapshot(&mut self, snapshot: Value) -> Result<Vec<Diagnostic>, InvalidSnapshot>;
}

impl ContextProvider for ContextManager {
    fn add_message(&mut self, message: NewMessage) -> &ConversationMessage {
        Self::add_message(self, message)
    }

    fn messages(&self) -> Vec<&ConversationMessage> {
        Self::messages(self).collect()
    }

    fn latest_message(&self) -> Option<&ConversationMessage> {
        Self::latest_message(self)
    }

    fn set_team_task(&mut self, task: &str) -> Option<Diagnostic> {
        Self::set_team_task(self, task)
    }

    fn team_task(&self) -> Option<&str> {
        Self::team_task(self)
    }

    fn context_for_agent<'a>(
        &'a self,
        agent_id: &str,
        context: AgentContext<'a>,
    ) -> AssemblerInput<'a> {
        Self::context_for_agent(self, agent_id, context)
    }

    fn clear(&mut self) {
        Self::clear(self);
    }

    fn export_snapshot(&self, timestamp: Millis) -> ContextSnapshot<'_> {
        Self::export_snapshot(self, timestamp)
    }

    fn import_snapshot(&mut self, snapshot: Value) -> Result<Vec<Diagnostic>, InvalidSnapshot> {
        Self::import_snapshot(self, snapshot)
    }
}
