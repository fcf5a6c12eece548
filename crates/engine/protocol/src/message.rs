//! Messages of a session.

use std::fmt;

use convoke_core::figures::thousands;
use convoke_core::marker::TextPolicy;
use convoke_core::{ConversationMessage, MessageId};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::attachment::Attachment;
use crate::id::{MemberName, MessageNumber, TurnId};
use crate::image::Image;

/// A message of a session.
#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    /// The number in the session. The id may come from an import.
    pub number: MessageNumber,
    /// The number of the message that it answers.
    pub answers: Option<MessageNumber>,
    /// The turn whose reply it is; `None` for a message that somebody sent otherwise.
    pub turn: Option<TurnId>,
    /// The person who wrote the first message of the chain that led to this one.
    pub asker: MemberName,
    /// The text without markers.
    pub text: String,
    pub message: ConversationMessage,
}

impl Message {
    /// The field of a message that names the call of a team tool that sent it.
    pub const TEAM_CALL: &str = "teamCall";

    /// Creates a message that its author sent unasked.
    pub fn new(
        number: MessageNumber,
        answers: Option<MessageNumber>,
        message: ConversationMessage,
        policy: TextPolicy,
    ) -> Self {
        let asker = MemberName::new(&*message.speaker.role_id);
        let text = message.text(policy).into_owned();
        Self { number, answers, turn: None, asker, text, message }
    }

    /// Returns the id.
    pub fn id(&self) -> &MessageId {
        &self.message.id
    }

    /// Returns the author.
    pub fn from(&self) -> MemberName {
        MemberName::new(&*self.message.speaker.role_id)
    }

    /// Returns the recipients; none means everyone.
    pub fn to(&self) -> impl Iterator<Item = MemberName> {
        self.message.addressees().iter().map(|name| MemberName::new(&**name))
    }

    /// Returns the team tool that sent the message during its author's turn; `None` for a reply or a person's message.
    pub fn tool(&self) -> Option<&str> {
        self.message.extra.get(Self::TEAM_CALL)?["tool"].as_str()
    }

    /// Returns the files that the message attaches, images included.
    pub fn attachments(&self) -> Vec<AttachedBytes> {
        AttachedBytes::from_message(&self.message)
    }
}

/// A file that a message attaches, without its text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AttachedBytes {
    pub path: String,
    pub bytes: u64,
}

impl AttachedBytes {
    /// Returns the files that a message attaches, images included.
    pub fn from_message<Id>(message: &ConversationMessage<Id>) -> Vec<Self> {
        let files = Attachment::from_message(message).into_iter();
        let files = files.map(|Attachment { path, text }| Self { path, bytes: text.len() as u64 });
        let images = Image::from_message(message).into_iter();
        let images = images.map(|image| Self { bytes: image.bytes(), path: image.path });
        files.chain(images).collect()
    }
}

impl fmt::Display for AttachedBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {} bytes", self.path, thousands(self.bytes))
    }
}

/// The fields that are read. The others follow from the message, and are written for those who show it.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Fields<T> {
    // An event has a number of its own.
    #[serde(rename = "messageNumber")]
    number: MessageNumber,
    answers: Option<MessageNumber>,
    turn: Option<TurnId>,
    asker: MemberName,
    text: String,
    message: T,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown<'m> {
    id: &'m MessageId,
    from: &'m str,
    to: &'m [String],
    in_reply_to: &'m Option<MessageId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool: Option<&'m str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    attachments: Vec<AttachedBytes>,
    #[serde(flatten)]
    fields: Fields<&'m ConversationMessage>,
}

impl Serialize for Message {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { number, answers, turn, asker, text, message } = self;
        let (asker, text) = (asker.clone(), text.clone());
        let fields =
            Fields { number: *number, answers: *answers, turn: *turn, asker, text, message };
        let shown = Shown {
            id: &message.id,
            from: &message.speaker.role_id,
            to: message.addressees(),
            in_reply_to: &message.in_reply_to,
            tool: self.tool(),
            attachments: self.attachments(),
            fields,
        };
        shown.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Message {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Fields { number, answers, turn, asker, text, message } =
            Fields::<Value>::deserialize(deserializer)?;
        let message = ConversationMessage::from_json_with_id(message).map_err(D::Error::custom)?;
        Ok(Self { number, answers, turn, asker, text, message })
    }
}
