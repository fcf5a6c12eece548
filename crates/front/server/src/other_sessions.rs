//! Sessions of other programs: what the page asks of the machine, as plain data.

use std::fmt::Write as _;
use std::sync::Arc;

use convoke_open::request::SentRequest;
use convoke_open::summary::Summary;
use convoke_protocol::agent_event::{RequestPurpose, TodoState};
use convoke_protocol::id::Millis;
use convoke_protocol::usage::Usage;
use convoke_protocol::window::Grade;
use convoke_source::FoundSession;
use serde::{Deserialize, Serialize};

use crate::host::ChangedFile;

/// The maximum number of steps, requests or parts of a page.
pub const PAGE: usize = 200;
/// The maximum number of bytes of a message that are on a page; the rest is loaded on request.
pub const MAX_SHOWN: usize = 64 << 10;
/// The same for the input and the output of a tool, which are folded.
pub const MAX_TOOL_SHOWN: usize = 16 << 10;

/// Reads the sessions of other programs. Its functions block: the server calls them on threads of their own.
pub trait OtherSessions: Send + Sync + 'static {
    /// Returns the names of the programs whose sessions can be read.
    fn programs(&self) -> Vec<&'static str>;

    /// Lists sessions, the one that changed last first.
    fn list(&self, filter: &OtherFilter, from: usize, limit: usize)
    -> Result<OtherList, ReadError>;

    /// Reads the figures of a session, and a page of its requests and its steps.
    fn read(&self, name: &OtherName, ends: &PageEnds) -> Result<OtherSession, ReadError>;

    /// Reads a request with its texts.
    fn request(&self, name: &OtherName, number: u64) -> Result<Arc<PricedRequest>, ReadError>;

    /// Reads a text of a step, whole.
    fn text(&self, name: &OtherName, text: &TextName) -> Result<String, ReadError>;

    /// Adds up the tokens since a moment, each response counted once, as `convoke usage` does.
    fn usage(&self, since: Option<Millis>) -> Result<UsageFigures, ReadError>;

    /// Returns the state of a session's files, without reading them.
    fn state(&self, name: &OtherName) -> Result<FileState, ReadError>;
}

/// Something of another program's session could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// There is no such thing.
    #[error("{0}")]
    NotFound(String),
    /// It could not be read.
    #[error("{0}")]
    Failed(String),
}

/// The name of a session: its program and the program's own id.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Deserialize)]
pub struct OtherName {
    pub program: String,
    pub id: String,
}

impl OtherName {
    /// Returns the name of a session that was found.
    pub fn of(found: &FoundSession) -> Self {
        Self { program: found.program.to_owned(), id: found.id.clone() }
    }

    /// Returns the path of its view.
    pub fn path(&self) -> String {
        format!("/programs/{}/{}", encoded(&self.program), encoded(&self.id))
    }

    /// Returns the name with the beginning of the id, as the terminal shows it.
    pub fn short(&self) -> String {
        let id: String = self.id.chars().take(8).collect();
        format!("{}:{id}", self.program)
    }
}

/// Returns a text as a segment of a path or as a part of a query.
pub(crate) fn encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => {
                encoded.push(char::from(byte));
            }
            _ => {
                let _ = write!(encoded, "%{byte:02X}");
            }
        }
    }
    encoded
}

/// Which sessions are listed; by default all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OtherFilter {
    /// The program; empty for any.
    pub program: String,
    /// A part of the name of the directory; empty for any.
    pub project: String,
    /// The first moment of a last change.
    pub since: Option<Millis>,
}

impl OtherFilter {
    /// Returns whether a session is listed.
    pub fn has(&self, session: &FoundSession) -> bool {
        let Self { program, project, since } = self;
        let cwd = || session.cwd.as_deref().unwrap_or_default().to_lowercase();
        (program.is_empty() || session.program == program)
            && (project.is_empty() || cwd().contains(&project.to_lowercase()))
            && since.is_none_or(|since| session.changed_at >= since)
    }
}

/// A page of the list.
#[derive(Debug, Default)]
pub struct OtherList {
    pub sessions: Vec<ListedOther>,
    /// The number of all sessions.
    pub total: usize,
    /// What could not be read.
    pub problems: Vec<String>,
}

/// A session in the list.
#[derive(Debug, Clone)]
pub struct ListedOther {
    pub found: FoundSession,
    pub summary: Arc<Summary>,
}

/// The ends of the pages that are read; by default those of the session.
#[derive(Debug, Clone, Default)]
pub struct PageEnds {
    /// The step after the last one of the page.
    pub steps: Option<StepKey>,
    /// The number of the request after the last one of the page.
    pub requests: Option<u64>,
}

/// The tokens of all sessions, by what they were used for.
#[derive(Debug, Default)]
pub struct UsageFigures {
    pub by_day: Vec<UsageRow>,
    pub by_program: Vec<UsageRow>,
    pub by_model: Vec<UsageRow>,
    pub by_project: Vec<UsageRow>,
    pub total: UsageRow,
    /// The number of sessions that were read.
    pub sessions: usize,
    /// What could not be read.
    pub problems: Vec<String>,
    /// The name of the table of prices.
    pub prices: String,
}

/// The tokens of one day, program, model or project.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UsageRow {
    pub name: String,
    pub requests: u64,
    pub usage: Usage,
    /// Dollars at API prices, without requests of unknown price.
    pub cost_usd: f64,
    /// The number of requests whose price is unknown.
    pub unpriced: u64,
}

/// A session, with a page of its requests and its steps.
#[derive(Debug)]
pub struct OtherSession {
    pub found: FoundSession,
    pub summary: Summary,
    /// What was found in the files that is not known or cannot be read; empty if there is nothing.
    pub report: String,
    pub state: FileState,
    pub requests: Vec<RequestRow>,
    /// The number of requests before the page.
    pub earlier_requests: u64,
    /// The tokens of the largest request, read and written: the scale of the bars.
    pub most_tokens: u64,
    pub steps: Vec<Step>,
    /// The number of steps before the page.
    pub earlier_steps: u64,
}

/// The size and the last change of a session's files: a session that has grown has another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FileState {
    pub bytes: u64,
    pub changed_at: Millis,
}

/// A request in the list of a session.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RequestRow {
    /// The number in the session, from 1, in the order of sending.
    pub number: u64,
    pub at: Option<Millis>,
    /// The sub-agent that sent it.
    pub agent: Option<String>,
    pub purpose: RequestPurpose,
    pub model: Option<String>,
    pub usage: Option<Usage>,
    /// Dollars at API prices; `None` if the price is unknown.
    pub cost: Option<f64>,
    pub grade: Grade,
    pub status: Option<u16>,
}

/// One request with its texts.
#[derive(Debug)]
pub struct PricedRequest {
    pub request: SentRequest,
    /// Dollars at API prices; `None` if the price is unknown.
    pub cost: Option<f64>,
}

/// The place of a step in its session: by time, and the steps of one agent in the order of its file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct StepKey {
    /// The time, never before that of an earlier step of the agent.
    pub at: i64,
    /// The sub-agent; `None` for the session's own agent.
    pub agent: Option<String>,
    /// The number among the steps of the agent.
    pub number: u64,
}

/// One thing that was said or done.
#[derive(Debug, Clone, Serialize)]
pub struct Step {
    pub key: StepKey,
    /// The time, if the file tells it.
    pub at: Option<Millis>,
    /// The place in the files.
    pub place: String,
    pub kind: StepKind,
}

/// What was said or done.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub enum StepKind {
    Person {
        text: Excerpt,
    },
    /// A person answered a question of the agent.
    Answer {
        question: Excerpt,
        text: Excerpt,
    },
    /// A person approved a plan.
    Plan {
        text: Excerpt,
    },
    Reply {
        text: Excerpt,
    },
    Thinking {
        text: Excerpt,
    },
    Tool {
        name: String,
        input: Excerpt,
        /// Nothing while it runs.
        output: Option<ToolOutput>,
    },
    Changed {
        files: Vec<ChangedFile>,
    },
    Todo {
        items: Vec<TodoLine>,
    },
    Compacted {
        text: Excerpt,
        /// The parts that are no longer in the window.
        dropped: u64,
    },
    Failed {
        status: Option<u16>,
        text: Excerpt,
    },
}

/// What a tool returned.
#[derive(Debug, Clone, Serialize)]
pub struct ToolOutput {
    pub ok: bool,
    pub text: Excerpt,
}

/// An item of a to-do list.
#[derive(Debug, Clone, Serialize)]
pub struct TodoLine {
    pub text: String,
    pub state: TodoState,
}

/// The beginning of a text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Excerpt {
    pub text: String,
    /// The size of the whole text.
    pub bytes: u64,
}

impl Excerpt {
    /// Returns the beginning of a text, with at most this number of bytes.
    pub fn new(text: &str, max_bytes: usize) -> Self {
        let shown = &text[..text.floor_char_boundary(max_bytes)];
        Self { text: shown.to_owned(), bytes: text.len() as u64 }
    }

    /// Returns the number of bytes that follow the beginning.
    pub fn rest(&self) -> usize {
        usize::try_from(self.bytes).unwrap_or(usize::MAX).saturating_sub(self.text.len())
    }
}

/// The name of a text of a step.
#[derive(Debug, Clone, Deserialize)]
pub struct TextName {
    pub agent: Option<String>,
    pub number: u64,
    pub part: TextPart,
}

/// A text of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TextPart {
    /// Its main text.
    Text,
    /// The question that it answers.
    Question,
    /// The input of a tool.
    Input,
    /// The output of a tool.
    Output,
}

impl TextPart {
    /// Returns the name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Question => "question",
            Self::Input => "input",
            Self::Output => "output",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_stays_one_segment_of_a_path() {
        let name = OtherName { program: "claude".to_owned(), id: "../a b?#%".to_owned() };
        assert_eq!(name.path(), "/programs/claude/..%2Fa%20b%3F%23%25");
        assert_eq!(encoded("a b&from=1#x"), "a%20b%26from%3D1%23x");
    }

    #[test]
    fn an_excerpt_keeps_characters_whole() {
        let excerpt = Excerpt::new("äöü", 3);
        assert_eq!((&*excerpt.text, excerpt.rest()), ("ä", 4));
    }
}
