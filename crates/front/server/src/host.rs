//! The interface of a server to the machine that it runs on.

use std::any::Any;
use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

use convoke_core::Diagnostic;
use convoke_explain::DirectoryReport;
use convoke_protocol::id::{MemberName, SessionId, TurnId};
use convoke_session::event_queue::Observer;
use convoke_session::file_changes::UndoRequest;
use convoke_session::{AnyStore, Coordinator, NewMessage};
use serde::Serialize;
use serde_json::Value;

use crate::other_sessions::OtherSessions;

/// A future of a host. The error is a text for the person.
pub type HostFuture<T> = Pin<Box<dyn Future<Output = HostResult<T>> + Send>>;
/// The result of a call of the host; the error is a text for the person.
pub type HostResult<T> = Result<T, String>;

/// The machine: its agents, the recorded changes, and `explain`.
pub trait Host: Send + Sync + 'static {
    /// Opens a session with its agents; `None` starts a new one in the directory of the server.
    fn open(
        &self,
        session: Option<SessionId>,
        observer: Box<dyn Observer>,
    ) -> HostFuture<OpenedSession>;

    /// Returns the changes of a session's turns, in order, and the workspaces of its members.
    fn changes(&self, session: SessionId) -> HostFuture<SessionChanges>;

    /// Undoes or redoes the changes of a turn, or previews that.
    fn undo(&self, request: UndoRequest) -> HostFuture<UndoReply>;

    /// Returns which instruction files and skills agents load in a directory, by default in that of the server.
    fn explain(&self, directory: Option<PathBuf>) -> HostFuture<DirectoryReport>;

    /// Returns each request of a session, compared with the one before it.
    fn cache(&self, session: SessionId) -> HostFuture<Vec<CacheRow>>;

    /// Writes a session to a new file.
    fn export(&self, session: SessionId, form: ExportForm) -> HostFuture<Vec<u8>>;

    /// Returns a directory formatted for people.
    fn shown_directory(&self, directory: &str) -> String;

    /// Returns why no new conversation can be started; `None` if one can.
    fn no_new_session(&self) -> Option<String>;

    /// Returns the reader of other programs' sessions.
    fn other_sessions(&self) -> Arc<dyn OtherSessions>;
}

/// A session that was opened with its agents.
pub struct OpenedSession {
    pub coordinator: Coordinator<AnyStore>,
    /// The diagnostics of opening it.
    pub diagnostics: Vec<Diagnostic>,
    /// Completes the messages of people.
    pub compose: Compose,
    /// Resources that must live as long as the conversation, for example the model servers of a rehearsal.
    pub keep: Box<dyn Any + Send>,
}

/// Completes a message of a person as the terminal does, with its recipients and attached files. The error is a
/// message for the person.
pub type Compose = Arc<dyn Fn(NewMessage) -> HostFuture<NewMessage> + Send + Sync>;

/// The reply to a request to undo or redo.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UndoReply {
    /// A text for the person: what would be done, or what was done.
    pub text: String,
    /// The turn; `None` for a merge. The request that follows a preview names it.
    pub turn: Option<TurnId>,
}

/// The changes of a session's turns.
#[derive(Debug, Clone, Default)]
pub struct SessionChanges {
    /// The changes, in order.
    pub turns: Vec<TurnChanges>,
    /// The members' own copies of the directory.
    pub workspaces: Vec<MemberWorkspace>,
}

/// A member's own copy of the directory.
#[derive(Debug, Clone, Serialize)]
pub struct MemberWorkspace {
    pub member: String,
    /// The directory of the copy.
    pub directory: PathBuf,
    /// The directory that was copied.
    pub project: PathBuf,
    /// The branch of its commits.
    pub branch: String,
    /// The number of changed files that are not merged.
    pub unmerged: usize,
}

/// The changes of a turn in its working directory.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TurnChanges {
    pub turn: u64,
    pub attempt: u32,
    /// The member; `None` for changes of a person.
    pub member: Option<MemberName>,
    /// The author: `agent` or `person`.
    pub by: &'static str,
    /// Whether it is an undo or a redo.
    pub undo: bool,
    /// Whether it is a redo: it takes an undo back.
    pub redo: bool,
    /// Whether the turn or merge is undone; `None` for undos, redos, changes of a person and all attempts but the last.
    pub undone: Option<bool>,
    /// The changes of the turn to the repository of the directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repository: Option<String>,
    /// The reason why the turn is not recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_recorded: Option<String>,
    /// The names of turns that ran in the directory at the same time.
    pub shared_with: Vec<String>,
    /// The member whose workspace was merged; `None` for other changes.
    pub merged: Option<String>,
    /// Whether the turn was interrupted.
    pub interrupted: bool,
    /// The files of an interrupted turn that a person may have changed after its end.
    pub uncertain: Vec<String>,
    pub directory: PathBuf,
    /// Whether the directory is the member's workspace.
    #[serde(skip)]
    pub is_workspace: bool,
    pub files: Vec<ChangedFile>,
}

/// A changed file.
#[derive(Debug, Clone, Serialize)]
pub struct ChangedFile {
    pub path: String,
    /// The kind of change.
    pub status: String,
    /// The added lines; `None` for a binary file.
    pub added: Option<u64>,
    /// The removed lines; `None` for a binary file.
    pub removed: Option<u64>,
    /// The size.
    pub bytes: u64,
    #[serde(skip)]
    pub diff: String,
}

/// A request to a model, compared with the one before it of the same member.
#[derive(Debug, Clone)]
pub struct CacheRow {
    pub turn: Option<u64>,
    /// The number of the request in its thread.
    pub number: u64,
    /// The request that it is compared with: its turn and its number.
    pub before: Option<(u64, u64)>,
    /// What it cost that the provider read again what its cache could have served, in dollars; `None` if the price is unknown.
    pub lost_usd: Option<f64>,
    /// The JSON form, as `sessions show --cache --json` writes it.
    pub json: Value,
    /// The line that the terminal shows.
    pub line: String,
    /// The lines that the terminal shows below: the first difference and its cause.
    pub remarks: Vec<String>,
}

/// The form of an exported session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExportForm {
    /// The messages, for another program.
    Snapshot,
    /// Everything, for another store.
    Archive,
    /// The log of events, for another program.
    Log,
    /// Markdown.
    Markdown,
    /// One HTML file.
    Html,
}

impl ExportForm {
    /// Parses the name of a form.
    pub fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "snapshot" => Self::Snapshot,
            "archive" => Self::Archive,
            "log" => Self::Log,
            "markdown" => Self::Markdown,
            "html" => Self::Html,
            _ => return None,
        })
    }

    /// Returns the extension of its files.
    pub const fn extension(self) -> &'static str {
        match self {
            Self::Snapshot => "json",
            Self::Archive | Self::Log => "jsonl",
            Self::Markdown => "md",
            Self::Html => "html",
        }
    }
}
