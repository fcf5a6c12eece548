//! The input of an assembler: the parts of one prompt, and its budget.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::context::{ContextOptions, context_for, format_addressees};
use crate::escape::Escaping;
use crate::json::{InvalidField, take_string, whole_number};
use crate::message::ConversationMessage;

/// The default budget of a prompt and its system text together: 768 KiB.
pub const DEFAULT_MAX_BYTES: u64 = 768 * 1024;

/// Whether content is set off from the text around it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Fencing {
    /// The bytes stay as written. Content that looks forged is reported.
    #[default]
    AsWritten,
    /// Every line of content is indented, so that no line of content looks like a header or a speaker's line.
    Indented,
}

/// Where white space and byte order marks are removed around the message to answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Trimming {
    /// At both ends.
    #[default]
    BothEnds,
    /// At the end only: the first line keeps its indentation.
    End,
}

/// A context message as an assembler reads it: without markers, and with the recipients as one text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PromptContextMessage<'a> {
    /// The author.
    pub from: Cow<'a, str>,
    /// The recipients; `None` means everyone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<Cow<'a, str>>,
    /// The text.
    pub content: Cow<'a, str>,
    /// The source, for the ledger.
    #[serde(skip)]
    pub source: ContextSource<'a>,
}

/// The source of a context message.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ContextSource<'a> {
    /// A message of the conversation, by its id if it has one.
    Message(Option<Cow<'a, str>>),
    /// A text of Convoke for which a setting asks, by the name of the setting.
    Setting(&'static str),
}

impl<'a> PromptContextMessage<'a> {
    /// Creates a context message from a message and its text without markers.
    pub fn new(message: &'a ConversationMessage, text: &'a str) -> Self {
        Self {
            from: Cow::Borrowed(message.speaker.name()),
            to: Some(format_addressees(message.addressees())),
            content: Cow::Borrowed(text),
            source: ContextSource::Message(Some(Cow::Borrowed(message.id.as_str()))),
        }
    }

    /// Returns the id of the message, if it is one of the conversation and has an id.
    pub fn id(&self) -> Option<&str> {
        match &self.source {
            ContextSource::Message(id) => id.as_deref(),
            ContextSource::Setting(_) => None,
        }
    }
}

/// A file that the message to answer attaches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttachedFile<'a> {
    /// The path, as the person wrote it.
    pub path: Cow<'a, str>,
    /// The text of the file.
    pub text: Cow<'a, str>,
}

impl AttachedFile<'_> {
    /// Returns the lines before and after the text: the path, and a code fence that the text cannot close.
    pub fn frame(&self) -> (String, String) {
        let path: String =
            self.path.chars().map(|c| if c.is_control() { '\u{FFFD}' } else { c }).collect();
        let mut longest = 0;
        let mut ticks = 0;
        for byte in self.text.bytes() {
            ticks = if byte == b'`' { ticks + 1 } else { 0 };
            longest = longest.max(ticks);
        }
        let fence = "`".repeat(3.max(longest + 1));
        let line_break = if self.text.is_empty() || self.text.ends_with('\n') { "" } else { "\n" };
        (format!("{path}:\n{fence}\n"), format!("{line_break}{fence}"))
    }
}

/// The texts of an agent's prompt that do not come from the conversation.
#[derive(Debug, Clone, Copy, Default)]
pub struct AgentContext<'a> {
    /// The window for this turn; `None` means the agent's own.
    pub window_size_override: Option<usize>,
    /// Names of the agent besides its id.
    pub agent_names: &'a [&'a str],
    /// A short description of the agent's role.
    pub role_summary: Option<&'a str>,
    /// The configured part of the system text.
    pub system_instruction: Option<&'a str>,
    /// The text about teammates and how to address them.
    pub briefing: Option<&'a str>,
    /// The instruction file's text.
    pub instruction_file_text: Option<&'a str>,
    /// The instruction file's path, for the ledger.
    pub instruction_file_path: Option<&'a str>,
}

/// The parts of one prompt, and its options.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AssemblerInput<'a> {
    /// Earlier messages, oldest first.
    pub context_messages: Vec<PromptContextMessage<'a>>,
    /// The message to answer.
    pub current_message: Cow<'a, str>,
    /// The id of the message to answer, for the ledger.
    #[serde(skip)]
    pub current_message_id: Option<Cow<'a, str>>,
    /// The files that the message attaches, which follow its text.
    #[serde(skip)]
    pub attachments: Vec<AttachedFile<'a>>,
    /// The team's task.
    pub team_task: Option<Cow<'a, str>>,
    /// The role summary of the agent. First in the system text, never cut.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role_summary: Option<Cow<'a, str>>,
    /// The configured part of the system text. Never cut.
    pub system_instruction: Option<Cow<'a, str>>,
    /// The briefing about teammates. After the configured part, never cut.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub briefing: Option<Cow<'a, str>>,
    /// The instruction file's text.
    pub instruction_file_text: Option<Cow<'a, str>>,
    /// The instruction file's path, for the ledger.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instruction_file_path: Option<Cow<'a, str>>,
    /// The maximum size of prompt and system text together, in bytes.
    pub max_bytes: u64,
    /// Whether content is set off.
    #[serde(skip)]
    pub fencing: Fencing,
    /// The characters of content that are escaped.
    #[serde(skip)]
    pub escaping: Escaping,
    /// The white space that is removed around the message.
    #[serde(skip)]
    pub trimming: Trimming,
}

impl Default for AssemblerInput<'_> {
    fn default() -> Self {
        Self {
            context_messages: Vec::new(),
            current_message: Cow::Borrowed(""),
            current_message_id: None,
            attachments: Vec::new(),
            team_task: None,
            role_summary: None,
            system_instruction: None,
            briefing: None,
            instruction_file_text: None,
            instruction_file_path: None,
            max_bytes: DEFAULT_MAX_BYTES,
            fencing: Fencing::default(),
            escaping: Escaping::default(),
            trimming: Trimming::default(),
        }
    }
}

impl<'a> AssemblerInput<'a> {
    /// Creates the input of a prompt without a conversation.
    pub fn new(
        agent: &AgentContext<'a>,
        team_task: Option<&'a str>,
        options: &ContextOptions,
    ) -> Self {
        Self {
            team_task: team_task.map(Cow::Borrowed),
            role_summary: agent.role_summary.map(Cow::Borrowed),
            system_instruction: agent.system_instruction.map(Cow::Borrowed),
            briefing: agent.briefing.map(Cow::Borrowed),
            instruction_file_text: agent.instruction_file_text.map(Cow::Borrowed),
            instruction_file_path: agent.instruction_file_path.map(Cow::Borrowed),
            max_bytes: options.max_bytes,
            fencing: options.fencing,
            escaping: options.escaping,
            trimming: options.trimming,
            ..Self::default()
        }
    }

    /// Adds the message to answer, with its text without markers, and the earlier messages, newest first. No
    /// more are read than the window holds.
    #[must_use]
    pub fn answering(
        mut self,
        current: &'a ConversationMessage,
        text: &'a str,
        earlier: impl Iterator<Item = PromptContextMessage<'a>>,
        window: usize,
    ) -> Self {
        self.current_message = Cow::Borrowed(text);
        self.current_message_id = Some(Cow::Borrowed(current.id.as_str()));
        self.context_messages = context_for(current, text, earlier, window);
        self
    }
}

/// The JSON schema of an input.
pub fn input_schema() -> Value {
    let text = |about: &str| json!({ "type": ["string", "null"], "description": about });
    let required = |about: &str| json!({ "type": "string", "description": about });
    let message = json!({
        "type": "object",
        "properties": {
            "from": required("The author."),
            "to": text("The recipients; without it, everyone."),
            "content": required("The text."),
            "messageId": text("The id, for the ledger."),
        },
        "required": ["from", "content"],
        "additionalProperties": false,
    });
    json!({
        "type": "object",
        "description": "The parts of one prompt, and its budget.",
        "properties": {
            "contextMessages": {
                "type": ["array", "null"],
                "items": message,
                "description": "The messages before the one to answer, oldest first.",
            },
            "currentMessage": text("The message to answer."),
            "currentMessageId": text("The id of the message to answer, for the ledger."),
            "teamTask": text("The team's task."),
            "roleSummary": text("The first line of the system text; never cut."),
            "systemInstruction": text("The configured system text; never cut."),
            "briefing": text("Who the teammates are and how to address them; never cut."),
            "instructionFileText": text("The text of the instruction file."),
            "instructionFilePath": text("The path of the instruction file, for the ledger."),
            "maxBytes": {
                "type": ["integer", "null"],
                "minimum": 0,
                "default": DEFAULT_MAX_BYTES,
                "description": "The budget of the prompt and its system text together.",
            },
            "fence": {
                "type": ["boolean", "null"],
                "default": false,
                "description": "Indents content, so that it cannot imitate a header or a speaker.",
            },
        },
        "minProperties": 1,
        "additionalProperties": false,
    })
}

/// Returns the first field of an object that its schema does not have, in the object or in a value within it.
pub fn unknown_field(object: &Map<String, Value>, schema: &Value) -> Option<InvalidField> {
    object.iter().find_map(|(field, value)| {
        let Some(schema) = schema["properties"].get(field) else {
            let problem = "is not a known field".to_owned();
            return Some(InvalidField { field: field.clone(), problem });
        };
        match value {
            Value::Object(object) => {
                unknown_field(object, schema).map(|unknown| unknown.within(field))
            }
            Value::Array(list) => list.iter().enumerate().find_map(|(index, value)| {
                let unknown = unknown_field(value.as_object()?, &schema["items"])?;
                Some(unknown.within(&format!("{field}[{index}]")))
            }),
            _ => None,
        }
    })
}

/// Returns an error if an object has none of the fields of an input: it is something else, or every name is misspelt.
pub fn without_known_field(object: &Map<String, Value>) -> Option<InvalidField> {
    let schema = input_schema();
    let known = schema["properties"].as_object()?;
    if object.keys().any(|field| known.contains_key(field)) {
        return None;
    }
    let known: Vec<&str> = known.keys().map(String::as_str).collect();
    let problem = format!("has none of the known fields: {}", known.join(", "));
    Some(InvalidField { field: "input".to_owned(), problem })
}

impl AssemblerInput<'static> {
    /// Parses an input; unknown fields are ignored.
    pub fn from_json(value: Value) -> Result<Self, InvalidField> {
        let Value::Object(mut object) = value else {
            return Err(InvalidField::must_be("input", "an object"));
        };
        let object = &mut object;
        Ok(Self {
            context_messages: read_context(object)?,
            current_message: take_text(object, "currentMessage")?.unwrap_or_default(),
            current_message_id: take_text(object, "currentMessageId")?,
            attachments: Vec::new(),
            team_task: take_text(object, "teamTask")?,
            role_summary: take_text(object, "roleSummary")?,
            system_instruction: take_text(object, "systemInstruction")?,
            briefing: take_text(object, "briefing")?,
            instruction_file_text: take_text(object, "instructionFileText")?,
            instruction_file_path: take_text(object, "instructionFilePath")?,
            max_bytes: read_max_bytes(object)?,
            fencing: read_fencing(object)?,
            escaping: Escaping::default(),
            trimming: Trimming::default(),
        })
    }
}

fn take_text(
    object: &mut Map<String, Value>,
    field: &'static str,
) -> Result<Option<Cow<'static, str>>, InvalidField> {
    Ok(take_string(object, field)?.map(Cow::Owned))
}

fn read_context(
    object: &mut Map<String, Value>,
) -> Result<Vec<PromptContextMessage<'static>>, InvalidField> {
    let list = match object.shift_remove("contextMessages") {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Array(list)) => list,
        Some(_) => return Err(InvalidField::must_be("contextMessages", "a list")),
    };
    let read = |(index, value)| {
        read_context_message(value)
            .map_err(|error| error.within(&format!("contextMessages[{index}]")))
    };
    list.into_iter().enumerate().map(read).collect()
}

fn read_context_message(value: Value) -> Result<PromptContextMessage<'static>, InvalidField> {
    let Value::Object(mut object) = value else {
        return Err(InvalidField::must_be("", "an object"));
    };
    let object = &mut object;
    let required = |field| InvalidField::must_be(field, "a string");
    Ok(PromptContextMessage {
        from: take_text(object, "from")?.ok_or_else(|| required("from"))?,
        to: take_text(object, "to")?,
        content: take_text(object, "content")?.ok_or_else(|| required("content"))?,
        source: ContextSource::Message(take_text(object, "messageId")?),
    })
}

fn read_max_bytes(object: &Map<String, Value>) -> Result<u64, InvalidField> {
    match object.get("maxBytes") {
        None | Some(Value::Null) => Ok(DEFAULT_MAX_BYTES),
        Some(value) => whole_number(value).ok_or_else(|| {
            InvalidField::must_be("maxBytes", &format!("a whole number of bytes, not {value}"))
        }),
    }
}

fn read_fencing(object: &Map<String, Value>) -> Result<Fencing, InvalidField> {
    match object.get("fence") {
        None | Some(Value::Null | Value::Bool(false)) => Ok(Fencing::AsWritten),
        Some(Value::Bool(true)) => Ok(Fencing::Indented),
        Some(_) => Err(InvalidField::must_be("fence", "true or false")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_has_exactly_the_fields_that_are_read() {
        let schema = input_schema();
        for field in schema["properties"].as_object().unwrap().keys() {
            let wrong = json!({ field: { "odd": 1 } });
            let error = AssemblerInput::from_json(wrong).unwrap_err();
            assert_eq!(&error.field, field);
        }
        let some = || Some(Cow::Borrowed("a"));
        let written = AssemblerInput {
            role_summary: some(),
            briefing: some(),
            instruction_file_path: some(),
            ..AssemblerInput::default()
        };
        let written = serde_json::to_value(written).unwrap();
        assert_eq!(unknown_field(written.as_object().unwrap(), &schema), None);
    }

    #[test]
    fn an_unknown_field_is_named_with_its_path() {
        let named = |value: Value| {
            unknown_field(value.as_object().unwrap(), &input_schema()).map(|it| it.to_string())
        };
        assert_eq!(
            named(
                json!({"currentMessage": "a", "contextMessages": [{"from": "a", "content": "b"}]})
            ),
            None
        );
        assert_eq!(
            named(json!({"currentMesage": "a"})).unwrap(),
            "`currentMesage` is not a known field"
        );
        assert_eq!(
            named(json!({"contextMessages": [{"from": "a", "content": "b", "at": 1}]})).unwrap(),
            "`contextMessages[0].at` is not a known field"
        );
    }

    #[test]
    fn absent_means_null() {
        let input = AssemblerInput::from_json(json!({"unknown": 1})).unwrap();
        assert_eq!(input, AssemblerInput::default());
        assert_eq!(input.max_bytes, 786_432);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let cases = [
            (json!([]), "`input` must be an object"),
            (json!({"maxBytes": -1}), "`maxBytes` must be a whole number of bytes, not -1"),
            (json!({"maxBytes": 0.5}), "`maxBytes` must be a whole number of bytes, not 0.5"),
            (json!({"teamTask": 5}), "`teamTask` must be a string"),
            (json!({"contextMessages": {}}), "`contextMessages` must be a list"),
            (
                json!({"contextMessages": [{"from": "a", "content": ""}, {"from": "b"}]}),
                "`contextMessages[1].content` must be a string",
            ),
        ];
        for (input, why) in cases {
            assert_eq!(AssemblerInput::from_json(input).unwrap_err().to_string(), why);
        }
    }
}
