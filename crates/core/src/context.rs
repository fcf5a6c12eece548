//! Context: what an agent is told of the conversation when it is its turn.
//!
//! It is a function over messages. Whoever owns them (a [`ContextManager`](crate::ContextManager), a
//! store) hands in the message to answer and the earlier ones, newest first; no more of those are
//! looked at than the window holds.

use std::borrow::Cow;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::input::PromptContextMessage;
use crate::message::ConversationMessage;
use crate::name::NameKey;

/// How many context messages an agent gets when nothing else is said.
pub const DEFAULT_CONTEXT_WINDOW: usize = 5;

/// A message and its text without markers.
#[derive(Debug, Clone, Copy)]
pub struct CleanMessage<'a> {
    /// The message.
    pub message: &'a ConversationMessage,
    /// Its content without markers.
    pub text: &'a str,
}

/// Which messages a member sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Visibility {
    /// Every message; the line of each says whom it was sent to.
    #[default]
    All,
    /// Only what the member wrote, what was sent to it, and what was sent to everyone.
    Addressed,
}

impl FromStr for Visibility {
    type Err = UnknownVisibility;

    fn from_str(name: &str) -> Result<Self, UnknownVisibility> {
        match name {
            "all" => Ok(Self::All),
            "addressed" => Ok(Self::Addressed),
            _ => Err(UnknownVisibility),
        }
    }
}

/// No visibility has this name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be \"all\" or \"addressed\"")]
pub struct UnknownVisibility;

/// Returns the context for answering a message, oldest first.
///
/// `earlier` gives messages newest first and is read no further than the window. When an agent is
/// answered, a last message that repeats it (the same id, or the same speaker and text) is left out.
pub fn context_for<'a>(
    current: CleanMessage<'a>,
    earlier: impl Iterator<Item = CleanMessage<'a>>,
    window: usize,
) -> Vec<PromptContextMessage<'a>> {
    let mut context = Vec::with_capacity(window.min(64));
    for (index, candidate) in earlier.take(window).enumerate() {
        if index == 0 && repeats(candidate, current) {
            tracing::debug!("[ContextManager] Deduplicated context for AI→AI");
            continue;
        }
        context.push(context_message(candidate));
    }
    context.reverse();
    context
}

/// Tells whether a message says again what the agent's message that is answered says.
fn repeats(candidate: CleanMessage<'_>, current: CleanMessage<'_>) -> bool {
    let speaker = &current.message.said.speaker;
    speaker.is_ai()
        && (candidate.message.id == current.message.id
            || (candidate.message.said.speaker.name() == speaker.name()
                && candidate.text == current.text))
}

/// Returns a message in the form that assemblers read.
pub fn context_message(clean: CleanMessage<'_>) -> PromptContextMessage<'_> {
    let CleanMessage { message, text } = clean;
    PromptContextMessage {
        from: Cow::Borrowed(message.said.speaker.name()),
        to: Some(format_addressees(message.addressees())),
        content: Cow::Borrowed(text),
        id: Some(Cow::Borrowed(message.id.as_str())),
    }
}

/// Names whom a message was sent to: `all` when nobody is named.
pub fn format_addressees(addressees: &[String]) -> Cow<'_, str> {
    match addressees {
        [] => Cow::Borrowed("all"),
        [one] => Cow::Borrowed(one),
        several => Cow::Owned(several.join(", ")),
    }
}

/// Tells whether a member, known by any of these names, sees a message.
pub fn is_visible_to(message: &ConversationMessage, names: &[NameKey]) -> bool {
    message.is_to_everyone() || readers(message).any(|name| names.contains(&name))
}

/// Returns the names of those who see a message even when it is not for everyone: its speaker, and whom
/// it was sent to.
pub fn readers(message: &ConversationMessage) -> impl Iterator<Item = NameKey> {
    let speaker = &message.said.speaker;
    let names = [&*speaker.role_id, speaker.name()].into_iter();
    names.chain(message.addressees().iter().map(String::as_str)).map(NameKey::new)
}
