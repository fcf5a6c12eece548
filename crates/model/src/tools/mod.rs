//! The tools that a model may be offered: they look into the working directory, and can do nothing else.
//!
//! Every call is bounded in time and in what it returns, and no path leads out of the directory, by
//! whatever links. What goes wrong is told to the model as text, so that it can try something else.

mod confine;
mod ignored;
mod list;
mod read;
mod search;

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use self::confine::Root;

/// The longest that a call may take.
const CALL_TIME: Duration = Duration::from_secs(10);

/// The most that a call returns, whoever reads it.
const MOST_BYTES: usize = 48 << 10;
/// What is left for the last line, which says how much of it all was returned.
const LAST_LINE_BYTES: usize = 512;

/// What a call returned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolOutput {
    /// Whether it worked.
    pub ok: bool,
    /// What the model reads.
    pub text: String,
}

/// The tools over one directory.
#[derive(Debug, Clone)]
pub struct Toolbox {
    root: Root,
    /// How much of what was found a call returns.
    room: usize,
}

/// Why a call returned nothing, in words for the model.
#[derive(Debug, thiserror::Error)]
enum Refusal {
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

impl Refusal {
    fn new(why: impl Into<String>) -> Self {
        Self::Other(why.into())
    }

    fn io(path: &str, error: &io::Error) -> Self {
        // The words of the system differ from one to the other.
        let why = error.get_ref().map_or_else(|| error.kind().to_string(), ToString::to_string);
        Self::Other(format!("cannot read `{path}`: {why}"))
    }
}

impl Toolbox {
    /// Opens the tools over a directory.
    pub fn open(directory: &Path) -> io::Result<Self> {
        Ok(Self { root: Root::open(directory)?, room: MOST_BYTES })
    }

    /// Returns the same tools for a model that is shown so many bytes of an output: what they say of
    /// how much they return is only true when nothing is cut out of it afterwards.
    #[must_use]
    pub fn within(&self, output_bytes: u64) -> Self {
        let output_bytes = usize::try_from(output_bytes).unwrap_or(usize::MAX);
        let room = output_bytes.saturating_sub(LAST_LINE_BYTES).min(MOST_BYTES);
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
                &json!({"path": path("The directory, relative to the working directory; `.` for the whole.")}),
                &["path"],
            ),
            spec(
                "read_file",
                "Reads lines of a text file below the working directory.",
                &json!({
                    "path": path("The file, relative to the working directory."),
                    "first_line": number("The first line to read, from 1. Default 1."),
                    "line_count": number("How many lines to read. Default 500."),
                }),
                &["path"],
            ),
            spec(
                "search_text",
                "Finds the lines that contain a text, in the text files below a directory. What .gitignore \
                 leaves out is not searched, unless `path` names it.",
                &json!({
                    "text": path("The text to find, as it is written; upper and lower case differ."),
                    "path": path("The directory or file to search. Default the whole working directory."),
                }),
                &["text"],
            ),
        ]
    }

    /// Runs a call. It blocks, for as long as a call may take.
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

/// What a model is told that calls a tool which it does not have.
pub(crate) fn unsupported(name: &str) -> ToolOutput {
    ToolOutput { ok: false, text: format!("there is no tool `{name}`") }
}

/// What a model is told when a tool broke.
pub(crate) fn failed() -> ToolOutput {
    ToolOutput { ok: false, text: "the tool failed".to_owned() }
}

fn parse<T: DeserializeOwned>(arguments: &str) -> Result<T, Refusal> {
    serde_json::from_str(arguments)
        .map_err(|error| Refusal::new(format!("the arguments cannot be understood: {error}")))
}

fn spec(name: &str, description: &str, properties: &Value, required: &[&str]) -> Value {
    json!({
        "type": "function",
        "name": name,
        "description": description,
        "strict": false,
        "parameters": {
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": false,
        },
    })
}

/// Some models write numbers as strings.
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
