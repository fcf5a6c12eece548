//! Tools for models: list, read and search the working directory, and reach the team.
//!
//! Every call in the directory is bounded in time and output, and no path or link leads out of the directory. Errors are returned to the
//! model as text.

mod confine;
mod ignored;
mod list;
mod read;
mod search;

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use convoke_agent::sandbox::Secrets;
use convoke_agent::team_tools::{TeamAnswer, TeamTool, TeamTools};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use tokio::task::JoinError;

use self::confine::Root;

/// The time limit of a call.
const CALL_TIME: Duration = Duration::from_secs(10);

/// The maximum size of an output.
const MAX_BYTES: usize = 48 << 10;
/// The size reserved for the last line, which reports how much was returned.
const LAST_LINE_BYTES: usize = 512;

/// The output of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolOutput {
    /// Whether it succeeded.
    pub ok: bool,
    /// The text for the model.
    pub text: String,
}

/// The tools over one directory.
#[derive(Debug, Clone)]
pub struct Toolbox {
    root: Root,
    /// The maximum size of the results in an output.
    room: usize,
}

/// The reason why a call failed, for the model.
#[derive(Debug, thiserror::Error)]
enum ToolError {
    /// A file is too large to be text.
    #[error("{0}")]
    TooLarge(String),
    /// A file is not text.
    #[error("{0}")]
    NoText(String),
    /// Anything else.
    #[error("{0}")]
    Other(String),
}

impl ToolError {
    fn new(why: impl Into<String>) -> Self {
        Self::Other(why.into())
    }

    fn io(path: &str, error: &io::Error) -> Self {
        // Error texts of the system differ between systems.
        let why = error.get_ref().map_or_else(|| error.kind().to_string(), ToString::to_string);
        Self::Other(format!("cannot read `{path}`: {why}"))
    }
}

impl Toolbox {
    /// Opens the tools over a directory.
    pub fn open(directory: &Path) -> io::Result<Self> {
        Ok(Self { root: Root::open(directory)?, room: MAX_BYTES })
    }

    /// Hides the user's secrets in the directory. Fails if it is itself inside one, unless a person started Convoke there.
    pub fn without(self, secrets: &Secrets, started_in: &Path) -> io::Result<Self> {
        Ok(Self { root: self.root.without(secrets, started_in)?, ..self })
    }

    /// Returns the tools with a limit on outputs, so that outputs need not be cut afterwards.
    #[must_use]
    pub fn within(&self, output_bytes: u64) -> Self {
        let output_bytes = usize::try_from(output_bytes).unwrap_or(usize::MAX);
        let room = output_bytes.saturating_sub(LAST_LINE_BYTES).min(MAX_BYTES);
        Self { root: self.root.clone(), room }
    }

    /// Returns the tools in the form of the Responses API.
    pub fn specs() -> Vec<Value> {
        let path = |what: &str| json!({"type": "string", "description": what});
        let number = |what: &str| json!({"type": "integer", "description": what});
        vec![
            spec(
                "list_files",
                "Lists a directory below the working directory. Directories end with a slash.",
                &json!({"path": path("The directory, relative to the working directory; `.` for the working directory itself.")}),
                &["path"],
            ),
            spec(
                "read_file",
                "Reads lines of a text file below the working directory.",
                &json!({
                    "path": path("The file, relative to the working directory."),
                    "first_line": number("The first line to read, from 1. Default 1."),
                    "line_count": number("The number of lines to read. Default 500."),
                }),
                &["path"],
            ),
            spec(
                "search_text",
                "Finds the lines that contain a text, in the text files below a directory. Files that \
                 .gitignore excludes are searched only if `path` names them.",
                &json!({
                    "text": path("The text to find, taken literally and case-sensitive."),
                    "path": path("The directory or file to search. Default: the working directory."),
                }),
                &["text"],
            ),
        ]
    }

    /// Runs a call. Blocking.
    pub fn run(&self, name: &str, arguments: &str) -> ToolOutput {
        let deadline = Instant::now() + CALL_TIME;
        let result = match name {
            "list_files" => {
                parse(arguments).and_then(|given| list::run(&self.root, &given, self.room))
            }
            "read_file" => {
                parse(arguments).and_then(|given| read::run(&self.root, &given, self.room))
            }
            "search_text" => {
                let bounds = search::Bounds { deadline, room: self.room };
                parse(arguments).and_then(|given| search::run(&self.root, &given, bounds))
            }
            other => return unsupported(other),
        };
        match result {
            Ok(text) => ToolOutput { ok: true, text },
            Err(refusal) => ToolOutput { ok: false, text: refusal.to_string() },
        }
    }
}

/// Returns the output of an unknown tool.
pub(crate) fn unsupported(name: &str) -> ToolOutput {
    ToolOutput { ok: false, text: format!("unknown tool `{name}`") }
}

/// Returns the output of a tool that panicked.
pub(crate) fn failed(error: &JoinError) -> ToolOutput {
    ToolOutput { ok: false, text: format!("the tool failed: {error}") }
}

fn parse<T: DeserializeOwned>(arguments: &str) -> Result<T, ToolError> {
    serde_json::from_str(arguments)
        .map_err(|error| ToolError::new(format!("invalid arguments: {error}")))
}

/// Returns the tools that reach the team, in the form of the Responses API.
pub(crate) fn team_specs() -> Vec<Value> {
    let spec = |tool: TeamTool| function(tool.name(), tool.description(), &tool.schema());
    TeamTool::ALL.map(spec).into()
}

/// Calls a tool that reaches the team.
pub(crate) async fn call_team(team: &TeamTools, name: &str, arguments: &str) -> ToolOutput {
    let arguments = if arguments.trim().is_empty() { "{}" } else { arguments };
    let arguments: Map<String, Value> = match parse(arguments) {
        Ok(arguments) => arguments,
        Err(refusal) => return ToolOutput { ok: false, text: refusal.to_string() },
    };
    let TeamAnswer { text, is_error } = team.call(name, arguments).await;
    ToolOutput { ok: !is_error, text }
}

fn spec(name: &str, description: &str, properties: &Value, required: &[&str]) -> Value {
    let parameters = json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    });
    function(name, description, &parameters)
}

fn function(name: &str, description: &str, parameters: &Value) -> Value {
    json!({
        "type": "function",
        "name": name,
        "description": description,
        "strict": false,
        "parameters": parameters,
    })
}

/// Parses a number, which some models write as a string.
fn lenient_number<'de, D: serde::Deserializer<'de>>(given: D) -> Result<Option<usize>, D::Error> {
    let value = Option::<Value>::deserialize(given)?;
    let number = match &value {
        Some(Value::Number(number)) => number.as_u64(),
        Some(Value::String(text)) => text.trim().parse().ok(),
        _ => None,
    };
    Ok(number.map(|number| usize::try_from(number).unwrap_or(usize::MAX)))
}

#[cfg(test)]
mod tests;
