//! Sessions of other coding agents, read where they lie.
//!
//! A [`SessionSource`] is one program: it finds the sessions in a home and opens them. A [`SessionReader`] reads one
//! session from its files, streaming and read-only, and hands [entries](Entry) to a [`Sink`] in the order of the file: what
//! was said and done, and each request to a model with its window. The file may grow meanwhile: every call of
//! [`SessionReader::advance`] reads what is new.
//!
//! What is not known is counted in a [`Report`], never an error that hides the rest. Memory is bounded, whatever the size
//! of the files: see [`lines`] and [`history`].
//!
//! [`files`] finds the files of a home, [`record`] reads fields of any type, [`requests`] writes the requests of a session as
//! JSON, and `report` counts what was not understood.

pub mod files;
pub mod history;
pub mod lines;
pub mod record;
mod report;
pub mod requests;

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use convoke_protocol::agent_event::{FileChange, RequestPurpose, TodoItem};
use convoke_protocol::id::Millis;
use convoke_protocol::usage::Usage;
use convoke_protocol::window::{Grade, Place, Window};

pub use report::Report;

/// A program that stores its sessions in files.
pub trait SessionSource: fmt::Debug + Sync {
    /// Returns the name of the program, which is also the prefix of its sessions' names: `claude`.
    fn program(&self) -> &'static str;

    /// Returns the provider of the program's models, if it has but one, as the table of prices names it.
    fn provider(&self) -> Option<&'static str> {
        None
    }

    /// Returns the command with which the program itself resumes a session, but for the id that follows it.
    fn resume_command(&self) -> Option<&'static str> {
        None
    }

    /// Finds the sessions in a home, by the names of files and a bounded beginning of each. A directory that cannot be
    /// read is an error of that directory alone.
    fn list(&self, home: &Home<'_>, found: &mut dyn FnMut(Result<FoundSession, SourceError>));

    /// Returns the session that a file or directory belongs to, if it is one of this program.
    fn at(&self, path: &Path) -> Result<Option<FoundSession>, SourceError>;

    /// Opens a session.
    fn open(
        &self,
        session: &FoundSession,
        kept: Kept,
    ) -> Result<Box<dyn SessionReader>, SourceError>;
}

/// A reader of one session.
pub trait SessionReader {
    /// Reads what was added since the last call. A request whose answer may still change is handed out as it is now, with
    /// [`Request::is_settled`] unset, and again by a later call with the same key.
    fn advance(&mut self, sink: &mut dyn Sink) -> Result<(), SourceError>;

    /// Returns what was found in the files so far.
    fn report(&self) -> &Report;
}

/// Receives the entries of a session.
pub trait Sink {
    /// Takes an entry. After a break, the reader returns; the rest of the session is not read.
    fn take(&mut self, entry: Entry<'_>) -> ControlFlow<()>;
}

impl<F: FnMut(Entry<'_>) -> ControlFlow<()>> Sink for F {
    fn take(&mut self, entry: Entry<'_>) -> ControlFlow<()> {
        self(entry)
    }
}

/// The place in which a program looks for its files.
#[derive(Clone, Copy)]
pub struct Home<'h> {
    /// The home directory.
    pub directory: &'h Path,
    /// Returns an environment variable; none of another person's home.
    pub variable: &'h dyn Fn(&str) -> Option<OsString>,
}

impl Home<'_> {
    /// Returns the directory that a variable names, or the one below the home.
    pub fn moved(&self, variable: &str, below_home: &str) -> PathBuf {
        let moved = (self.variable)(variable).filter(|value| !value.is_empty());
        moved.map_or_else(|| self.directory.join(below_home), PathBuf::from)
    }
}

/// A session that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundSession {
    pub program: &'static str,
    /// The program's own id.
    pub id: String,
    /// The file that a person would name: the session's own, or the database.
    pub path: PathBuf,
    /// All files of the session, with that one first: those of sub-agents and of large outputs too.
    pub files: Vec<PathBuf>,
    /// The working directory, where it is known without reading the session.
    pub cwd: Option<String>,
    /// The last change of a file.
    pub changed_at: Millis,
    /// The size of the files, in bytes.
    pub bytes: u64,
    /// The session that started this one or that this one was forked from.
    pub parent: Option<String>,
}

/// Which texts a reader keeps in memory. The others are known by hash and size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kept {
    /// None: only facts and requests without their windows are wanted, and a reader may leave out everything else.
    Figures,
    /// None: what was said and done is wanted, and windows may be left out.
    Said,
    /// Those that the JSON form of a window holds.
    Shown,
    /// All of them, while they fit into the [history](history::MAX_BYTES).
    All,
}

impl Kept {
    /// Returns the maximum size of a text that is kept.
    pub const fn max_bytes(self) -> usize {
        match self {
            Self::Figures | Self::Said => 0,
            Self::Shown => convoke_protocol::window::MAX_SHOWN_TEXT,
            Self::All => history::MAX_BYTES,
        }
    }
}

/// One thing that a session tells.
#[derive(Debug)]
pub struct Entry<'e> {
    pub place: Place,
    /// The time, if the file tells it.
    pub at: Option<Millis>,
    /// The sub-agent that it is of; `None` for the session's own agent.
    pub agent: Option<&'e str>,
    pub kind: EntryKind<'e>,
}

/// What an entry tells.
#[derive(Debug)]
pub enum EntryKind<'e> {
    /// Facts about the session; a later entry replaces only what it has.
    Facts(Facts<'e>),
    /// A person wrote a message: without reminders and wrappers of the program.
    Person { text: &'e str },
    /// A person answered a question of the agent.
    PersonAnswered { question: &'e str, answer: &'e str },
    /// A person approved a plan.
    PlanApproved { plan: &'e str },
    /// The agent wrote a text, whole.
    Text { text: &'e str },
    /// The agent reasoned; the text may be empty where it is encrypted.
    Thinking { text: &'e str },
    /// The agent called a tool.
    Call {
        id: &'e str,
        name: &'e str,
        /// The input, as JSON.
        input: &'e str,
    },
    /// A tool returned.
    Result { id: &'e str, ok: bool, output: &'e str },
    /// Files that a tool changed, as the program recorded it.
    Changed(Vec<FileChange<'e>>),
    /// The agent's whole to-do list.
    Todo(Vec<TodoItem<'e>>),
    /// A summary took the place of earlier messages.
    Compacted {
        summary: &'e str,
        /// The parts that are no longer in the window.
        dropped: u64,
    },
    /// Something failed: a request that was refused, or an interruption.
    Failed {
        /// The HTTP status, if there was one.
        status: Option<u16>,
        message: &'e str,
    },
    /// A request to the model.
    Request(&'e Request<'e>),
}

/// Facts about a session.
#[derive(Debug, Clone, Copy, Default)]
pub struct Facts<'e> {
    /// The version of the program.
    pub version: Option<&'e str>,
    pub cwd: Option<&'e str>,
    pub model: Option<&'e str>,
    pub branch: Option<&'e str>,
    /// The title that the program or a person gave it.
    pub title: Option<&'e str>,
}

/// A request to a model, as far as the files tell.
#[derive(Debug, Clone)]
pub struct Request<'e> {
    /// A number that this request keeps in its session and its sub-agent's.
    pub key: u64,
    /// The provider's id of the answer, the same in every copy of it: forks and resumed sessions repeat answers.
    pub answer_id: Option<&'e str>,
    pub purpose: RequestPurpose,
    pub model: Option<&'e str>,
    pub window: &'e Window,
    pub grade: Grade,
    /// Why the grade is not better.
    pub missing: Vec<String>,
    /// The tokens that the provider counted.
    pub usage: Option<Usage>,
    /// Of the tokens written to the cache, those that it keeps for an hour.
    pub cache_write_hour: u64,
    /// The service tier that was charged, if the provider named one.
    pub tier: Option<&'e str>,
    /// The HTTP status; `None` if it is not known.
    pub status: Option<u16>,
    /// Whether the answer is complete.
    pub is_settled: bool,
}

/// A session could not be read.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// A file or directory could not be read.
    #[error("cannot read {}", path.display())]
    Read { path: PathBuf, source: io::Error },
    /// A file is not what its name says.
    #[error("{} is not a session of {program}: {problem}", path.display())]
    Format { program: &'static str, path: PathBuf, problem: String },
}

impl SourceError {
    /// Creates the error of a path that could not be read.
    pub fn read(path: &Path) -> impl FnOnce(io::Error) -> Self + '_ {
        move |source| Self::Read { path: path.to_owned(), source }
    }
}
