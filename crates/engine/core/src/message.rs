//! Messages of a conversation, in their stored and exchanged form.
//!
//! Unknown fields are kept and returned on export.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::json::{InvalidField, take_string};
use crate::marker::{TextPolicy, strip_all_markers};
use crate::name::NameKey;
use crate::timestamp::Timestamp;

/// The id of a message, unique within a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MessageId(String);

impl MessageId {
    /// Returns the id of the n-th message: `msg-N`.
    pub fn numbered(n: u64) -> Self {
        Self(format!("msg-{n}"))
    }

    /// Returns the id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the digits of an id of the form `msg-N`.
    pub fn digits(&self) -> Option<&str> {
        let digits = self.0.strip_prefix("msg-")?;
        let numeric = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
        numeric.then_some(digits)
    }
}

impl From<String> for MessageId {
    fn from(id: String) -> Self {
        Self(id)
    }
}

impl From<&str> for MessageId {
    fn from(id: &str) -> Self {
        Self(id.to_owned())
    }
}

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The kind of a speaker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum SpeakerType {
    /// A person.
    Human,
    /// An agent.
    Ai,
    /// Convoke itself, or another program.
    System,
    /// An unknown kind, as it was written.
    #[serde(untagged)]
    Other(String),
}

impl From<String> for SpeakerType {
    fn from(name: String) -> Self {
        match name.as_str() {
            "human" => Self::Human,
            "ai" => Self::Ai,
            "system" => Self::System,
            _ => Self::Other(name),
        }
    }
}

/// The author of a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Speaker {
    /// The member's id.
    pub role_id: String,
    /// The member's name, as other members see it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role_name: Option<String>,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<SpeakerType>,
    /// Unknown fields.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

impl Speaker {
    /// Creates a speaker with an id and a name.
    pub fn new(
        role_id: impl Into<String>,
        role_name: impl Into<String>,
        kind: SpeakerType,
    ) -> Self {
        Self {
            role_id: role_id.into(),
            role_name: Some(role_name.into()),
            kind: Some(kind),
            extra: Map::new(),
        }
    }

    /// Returns the name that other members see; without one, the id.
    pub fn name(&self) -> &str {
        self.role_name.as_deref().unwrap_or(&self.role_id)
    }

    /// Returns whether the speaker is an agent.
    pub fn is_ai(&self) -> bool {
        self.kind == Some(SpeakerType::Ai)
    }
}

/// The routing of a message.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Routing {
    /// The `[NEXT: …]` markers as written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub raw_next_markers: Option<Value>,
    /// The recipients that the markers name; none means everyone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resolved_addressees: Option<Vec<String>>,
    /// Unknown fields.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// A message of a conversation, with its id. A message without an id is a [`NewMessage`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ConversationMessage<Id = MessageId> {
    pub id: Id,
    /// The text, with markers.
    pub content: String,
    /// The author.
    pub speaker: Speaker,
    /// The time, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub routing: Option<Routing>,
    /// The message that this one answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_reply_to: Option<MessageId>,
    /// Unknown fields.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// A message that has no id yet.
pub type NewMessage = ConversationMessage<()>;

impl NewMessage {
    /// Creates a message from a person whose name is also the id.
    pub fn from_person(name: impl Into<String>, content: impl Into<String>) -> Self {
        let name = name.into();
        Self::new(Speaker::new(name.clone(), name, SpeakerType::Human), content)
    }

    /// Creates a message to everyone.
    pub fn new(speaker: Speaker, content: impl Into<String>) -> Self {
        Self {
            id: (),
            content: content.into(),
            speaker,
            timestamp: None,
            routing: None,
            in_reply_to: None,
            extra: Map::new(),
        }
    }

    /// Sets the recipients.
    #[must_use]
    pub fn to<S: Into<String>>(mut self, addressees: impl IntoIterator<Item = S>) -> Self {
        let routing = self.routing.get_or_insert_default();
        routing.resolved_addressees = Some(addressees.into_iter().map(Into::into).collect());
        self
    }

    /// Sets the message that this one answers.
    #[must_use]
    pub fn in_reply_to(mut self, id: impl Into<MessageId>) -> Self {
        self.in_reply_to = Some(id.into());
        self
    }

    /// Reads a message; an `id` in it is ignored.
    ///
    /// The error texts are stable.
    pub fn from_json(value: Value) -> Result<Self, InvalidMessage> {
        if is_falsy(&value) {
            return Err(InvalidMessage::Absent);
        }
        let Value::Object(mut object) = value else {
            return Err(InvalidMessage::Content);
        };
        object.shift_remove("id");
        let Some(Value::String(content)) = object.shift_remove("content") else {
            return Err(InvalidMessage::Content);
        };
        let speaker = read_speaker(object.shift_remove("speaker"))?;
        let routing = read_routing(object.shift_remove("routing"))?;
        let in_reply_to = take_string(&mut object, "inReplyTo")?.map(MessageId::from);
        let timestamp = match object.shift_remove("timestamp") {
            None | Some(Value::Null) => None,
            Some(Value::Number(millis)) => Some(Timestamp::Millis(millis)),
            Some(Value::String(text)) => Some(Timestamp::Text(text)),
            Some(_) => {
                return Err(InvalidField::must_be("timestamp", "a number or a string").into());
            }
        };
        Ok(Self { id: (), content, speaker, timestamp, routing, in_reply_to, extra: object })
    }

    /// Adds the id.
    pub fn with_id(self, id: MessageId) -> ConversationMessage {
        let Self { id: (), content, speaker, timestamp, routing, in_reply_to, extra } = self;
        ConversationMessage { id, content, speaker, timestamp, routing, in_reply_to, extra }
    }
}

impl ConversationMessage {
    /// Reads a message that has its id.
    pub fn from_json_with_id(mut value: Value) -> Result<Self, InvalidMessage> {
        let id = match &mut value {
            Value::Object(object) => take_string(object, "id")?,
            _ => None,
        };
        let id = id.ok_or_else(|| InvalidField::must_be("id", "a string"))?;
        Ok(NewMessage::from_json(value)?.with_id(id.into()))
    }

    /// Removes the id.
    pub fn without_id(self) -> NewMessage {
        let Self { id: _, content, speaker, timestamp, routing, in_reply_to, extra } = self;
        ConversationMessage { id: (), content, speaker, timestamp, routing, in_reply_to, extra }
    }
}

impl<Id> ConversationMessage<Id> {
    /// Returns the text without markers.
    pub fn text(&self, policy: TextPolicy) -> Cow<'_, str> {
        strip_all_markers(&self.content, policy)
    }

    /// Returns the recipients; none means everyone.
    pub fn addressees(&self) -> &[String] {
        let routing = self.routing.as_ref();
        routing.and_then(|routing| routing.resolved_addressees.as_deref()).unwrap_or_default()
    }

    /// Returns whether the message was sent to everyone.
    pub fn is_to_everyone(&self) -> bool {
        let addressees = self.addressees();
        addressees.is_empty() || addressees.iter().any(|name| NameKey::new(name).is_all())
    }
}

/// A message that cannot be stored, with the reason.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidMessage {
    /// The message is missing.
    #[error("Message cannot be null or undefined")]
    Absent,
    /// The content is not a string.
    #[error("Message content must be a string")]
    Content,
    /// There is no speaker.
    #[error("Message speaker is required")]
    Speaker,
    /// The speaker has no id.
    #[error("Message speaker.roleId is required")]
    RoleId,
    /// Another field is invalid.
    #[error("Message {0}")]
    Field(#[from] InvalidField),
}

/// Returns whether a value is falsy in JavaScript.
fn is_falsy(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(yes) => !yes,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(_) | Value::Object(_) => false,
    }
}

fn read_speaker(value: Option<Value>) -> Result<Speaker, InvalidMessage> {
    let value = value.filter(|value| !is_falsy(value)).ok_or(InvalidMessage::Speaker)?;
    let Value::Object(mut object) = value else {
        return Err(InvalidMessage::RoleId);
    };
    let role_id = match object.shift_remove("roleId") {
        Some(Value::String(id)) if !id.is_empty() => id,
        _ => return Err(InvalidMessage::RoleId),
    };
    let within = |error: InvalidField| error.within("speaker");
    let role_name = take_string(&mut object, "roleName").map_err(within)?;
    let kind = take_string(&mut object, "type").map_err(within)?.map(SpeakerType::from);
    Ok(Speaker { role_id, role_name, kind, extra: object })
}

fn read_routing(value: Option<Value>) -> Result<Option<Routing>, InvalidMessage> {
    let mut object = match value {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::Object(object)) => object,
        Some(_) => return Err(InvalidField::must_be("routing", "an object").into()),
    };
    let resolved_addressees = match object.shift_remove("resolvedAddressees") {
        None | Some(Value::Null) => None,
        Some(list) => Some(serde_json::from_value(list).map_err(|_| {
            InvalidField::must_be("routing.resolvedAddressees", "a list of strings")
        })?),
    };
    let raw_next_markers = object.shift_remove("rawNextMarkers");
    Ok(Some(Routing { raw_next_markers, resolved_addressees, extra: object }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_not_known_comes_back() {
        let message = json!({
            "id": "m", "content": "x",
            "speaker": {"roleId": "r", "roleName": "R", "type": "robot", "colour": "red"},
            "timestamp": "2026-01-01T00:00:00Z",
            "routing": {"rawNextMarkers": ["[NEXT: a]"], "resolvedAddressees": ["a"], "parent": 7},
            "inReplyTo": "msg-1", "mood": {"deep": [1, 2]},
        });
        let read = ConversationMessage::from_json_with_id(message.clone()).unwrap();
        assert_eq!(serde_json::to_value(&read).unwrap(), message);
    }

    #[test]
    fn what_cannot_be_stored_is_refused_in_the_specifications_words() {
        let speaker = json!({"roleId": "r"});
        let cases = [
            (json!(null), "Message cannot be null or undefined"),
            (json!(0), "Message cannot be null or undefined"),
            (json!(""), "Message cannot be null or undefined"),
            (json!("text"), "Message content must be a string"),
            (json!({"content": 1}), "Message content must be a string"),
            (json!({"content": ""}), "Message speaker is required"),
            (json!({"content": "", "speaker": "r"}), "Message speaker.roleId is required"),
            (
                json!({"content": "", "speaker": {"roleId": 1}}),
                "Message speaker.roleId is required",
            ),
            (
                json!({"content": "", "speaker": speaker, "routing": {"resolvedAddressees": "a"}}),
                "Message `routing.resolvedAddressees` must be a list of strings",
            ),
            (
                json!({"content": "", "speaker": {"roleId": "r", "roleName": 1}}),
                "Message `speaker.roleName` must be a string",
            ),
        ];
        for (message, why) in cases {
            assert_eq!(NewMessage::from_json(message.clone()).unwrap_err().to_string(), why);
        }
    }
}
