//! Questions that an agent asks before it acts, and their answers.

use std::path::PathBuf;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

/// An action that an agent asks to take.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PermissionQuestion {
    /// The id of the question in its turn.
    pub id: String,
    /// The name of the tool.
    pub tool: String,
    /// The command, or a description of the action, in a few lines.
    pub summary: String,
    /// The tool's input as JSON text; serialized as a JSON value.
    #[serde(serialize_with = "as_json", deserialize_with = "from_json")]
    pub input: String,
    /// The change to a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
    /// The directory that the command would run in, if it is not the member's working directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directory: Option<Box<PathBuf>>,
    /// Whether the summary is a shell command.
    #[serde(skip)]
    pub is_command: bool,
    /// Whether part of the question is too long to show. A yes to such a question counts once.
    #[serde(skip)]
    pub is_cut: bool,
    /// The files that the tool would read and change.
    #[serde(skip)]
    pub files: Box<TouchedFiles>,
}

/// The files of a tool call, as far as they are known.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TouchedFiles {
    /// The files that the call would read.
    pub reads: Vec<PathBuf>,
    /// The files that the call would change.
    pub changes: Vec<PathBuf>,
}

/// Serializes JSON text as a JSON value. Truncated text is not valid JSON and stays a string.
fn as_json<S: Serializer>(text: &str, serializer: S) -> Result<S::Ok, S::Error> {
    let value = serde_json::from_str(text).unwrap_or_else(|_| Value::from(text));
    value.serialize(serializer)
}

/// Reads JSON text that was serialized as a JSON value.
fn from_json<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    Ok(match Value::deserialize(deserializer)? {
        // A text that is JSON itself was a JSON string.
        Value::String(text) if serde_json::from_str::<Value>(&text).is_err() => text,
        value => value.to_string(),
    })
}

/// The maximum number of bytes shown of each text of a question.
const SHOWN: usize = 64 << 10;
/// The number of them that are from the end of the text.
const SHOWN_END: usize = 16 << 10;

impl PermissionQuestion {
    /// Cuts the middle of long texts. A command that was cut matches no rule and no earlier answer.
    pub fn shorten(&mut self) {
        let Self { tool, summary, input, diff, is_command, is_cut, .. } = self;
        for text in [tool, summary, input].into_iter().chain(diff) {
            if text.len() > SHOWN {
                (*is_command, *is_cut) = (false, true);
                let start = text.floor_char_boundary(SHOWN - SHOWN_END);
                let end = text.ceil_char_boundary(text.len() - SHOWN_END);
                let mark = format!("\n[… {} bytes cut]\n", end - start);
                text.replace_range(start..end, &mark);
            }
        }
    }
}

/// The answer of a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PermissionAnswer {
    /// Yes, this time.
    Once,
    /// Yes, and again in this session.
    Session,
    /// No, this time.
    No,
    /// No, and not again in this session.
    Never,
}

impl PermissionAnswer {
    /// Every answer.
    pub const ALL: [Self; 4] = [Self::Once, Self::Session, Self::No, Self::Never];
    /// The answers offered at a terminal and on the web page.
    pub const OFFERED: [Self; 3] = [Self::Once, Self::Session, Self::Never];
    /// The answers offered for a question that cannot be shown whole.
    pub const OFFERED_ONCE: [Self; 2] = [Self::Once, Self::Never];

    /// Returns the name of the answer.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Once => "once",
            Self::Session => "session",
            Self::No => "no",
            Self::Never => "never",
        }
    }

    /// Returns whether the answer allows the action.
    pub const fn allows(self) -> bool {
        matches!(self, Self::Once | Self::Session)
    }
}

/// The origin of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum AnsweredBy {
    /// A person, to this question.
    Person,
    /// A person, to the same question earlier in the session.
    Session,
    /// A rule of the user's `permissions.toml`.
    Rule,
    /// Refused without asking, because the sandbox would stop the action.
    Sandbox,
    /// No person answered in time.
    Timeout,
    /// Refused without asking, because there is no person to ask.
    Nobody,
    /// Not answered, because the turn was stopped or the agent withdrew the question.
    Withdrawn,
}

impl AnsweredBy {
    /// Returns the name in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Person => "person",
            Self::Session => "session",
            Self::Rule => "rule",
            Self::Sandbox => "sandbox",
            Self::Timeout => "timeout",
            Self::Nobody => "nobody",
            Self::Withdrawn => "withdrawn",
        }
    }
}
