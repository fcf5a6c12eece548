//! The context of a turn: the earlier messages that an agent gets.
//!
//! These are functions over messages. The owner of the messages (a [`ContextManager`](crate::ContextManager), a
//! store) passes the message to answer and the earlier ones, newest first. No more are read than the window
//! holds.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::escape::Escaping;
use crate::input::{DEFAULT_MAX_BYTES, Fencing, PromptContextMessage, Trimming};
use crate::marker::TextPolicy;
use crate::message::ConversationMessage;
use crate::name::NameKey;

/// The default number of context messages.
pub const DEFAULT_CONTEXT_WINDOW: usize = 5;

/// The options of an agent's prompts: of a team, of a member, and in the record of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ContextOptions {
    /// The number of context messages; 0 is none.
    pub window: usize,
    /// The maximum size of prompt and system text together, in bytes.
    pub max_bytes: u64,
    /// The policy for removing markers from messages.
    pub text: TextPolicy,
    /// The messages that the agent sees.
    pub visibility: Visibility,
    /// Whether content is indented.
    pub fencing: Fencing,
    /// The characters of content that are escaped. Records of earlier versions lack this field and mean none.
    #[serde(default)]
    pub escaping: Escaping,
    /// The white space that is removed around the message to answer. Records of earlier versions lack this
    /// field and mean none.
    #[serde(default)]
    pub trimming: Trimming,
}

impl Default for ContextOptions {
    fn default() -> Self {
        Self {
            window: DEFAULT_CONTEXT_WINDOW,
            max_bytes: DEFAULT_MAX_BYTES,
            text: TextPolicy::default(),
            visibility: Visibility::default(),
            fencing: Fencing::default(),
            escaping: Escaping::default(),
            trimming: Trimming::default(),
        }
    }
}

/// The messages that a member sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Visibility {
    /// Every message; each line names its recipients.
    #[default]
    All,
    /// Only messages from the member, to it, or to everyone.
    Addressed,
}

/// Returns the context for answering a message, oldest first; `text` is that message without markers.
///
/// `earlier` gives messages newest first and is read no further than the window. In an answer to an agent, a
/// last context message that repeats the agent's message (same id, or same speaker and text) is left out.
pub fn context_for<'a>(
    current: &ConversationMessage,
    text: &str,
    earlier: impl Iterator<Item = PromptContextMessage<'a>>,
    window: usize,
) -> Vec<PromptContextMessage<'a>> {
    let mut context = Vec::with_capacity(window.min(64));
    for (index, candidate) in earlier.take(window).enumerate() {
        if index == 0 && repeats(&candidate, current, text) {
            tracing::debug!("[ContextManager] Deduplicated context for AI→AI");
            continue;
        }
        context.push(candidate);
    }
    context.reverse();
    context
}

/// Returns whether a message repeats the agent's message that is answered.
fn repeats(
    candidate: &PromptContextMessage<'_>,
    current: &ConversationMessage,
    text: &str,
) -> bool {
    let speaker = &current.speaker;
    speaker.is_ai()
        && (candidate.id() == Some(current.id.as_str())
            || (candidate.from == speaker.name() && candidate.content == text))
}

/// Returns the addressees of a message as one text; `all` if there are none.
pub(crate) fn format_addressees(addressees: &[String]) -> Cow<'_, str> {
    match addressees {
        [] => Cow::Borrowed("all"),
        [one] => Cow::Borrowed(one),
        several => Cow::Owned(several.join(", ")),
    }
}

/// Returns whether a member, known by any of these names, sees a message.
pub fn is_visible_to(message: &ConversationMessage, names: &[NameKey]) -> bool {
    message.is_to_everyone() || readers(message).any(|name| names.contains(&name))
}

/// Returns the members that see a message even if it is not for everyone: its speaker and its recipients.
pub fn readers(message: &ConversationMessage) -> impl Iterator<Item = NameKey> {
    let speaker = &message.speaker;
    let names = [&*speaker.role_id, speaker.name()].into_iter();
    names.chain(message.addressees().iter().map(String::as_str)).map(NameKey::new)
}
