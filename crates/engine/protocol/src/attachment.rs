//! Files that a person attaches to a message. They are stored with the message, so that its prompts can be
//! assembled again.

use std::borrow::Cow;

use convoke_core::{AttachedFile, ConversationMessage, NewMessage};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The field of a stored message that holds its attachments.
const FIELD: &str = "attachments";

/// A file that a person attached to a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attachment {
    /// The path, as the person wrote it.
    pub path: String,
    /// The text of the file when it was attached.
    pub text: String,
}

impl Attachment {
    /// Returns the files that a message attaches. Skips invalid entries, which an imported session can contain.
    pub fn from_message<Id>(message: &ConversationMessage<Id>) -> Vec<Self> {
        let Some(Value::Array(list)) = message.extra.get(FIELD) else { return Vec::new() };
        list.iter().filter_map(|value| Self::deserialize(value).ok()).collect()
    }

    /// Adds attachments to a message that has none.
    pub fn add(attachments: Vec<Self>, message: &mut NewMessage) {
        let list = attachments.into_iter().map(|Self { path, text }| {
            let fields = [("path".to_owned(), path.into()), ("text".to_owned(), text.into())];
            Value::Object(fields.into_iter().collect())
        });
        let list: Vec<Value> = list.collect();
        if !list.is_empty() {
            message.extra.insert(FIELD.to_owned(), Value::Array(list));
        }
    }

    /// Returns the file as an assembler reads it.
    pub fn file(&self) -> AttachedFile<'_> {
        AttachedFile { path: Cow::Borrowed(&self.path), text: Cow::Borrowed(&self.text) }
    }
}

/// Returns the text of a context message, followed by its attached files.
pub fn with_attachments(mut text: String, message: &ConversationMessage) -> String {
    for attachment in Attachment::from_message(message) {
        let (opening, closing) = attachment.file().frame();
        if !text.is_empty() {
            text.push_str("\n\n");
        }
        text.extend([&*opening, &*attachment.text, &*closing]);
    }
    text
}
