//! The interface to a recorder of the changes that turns make in their working directories.
//!
//! The coordinator calls a [`ChangeRecorder`] around every turn that may write. It does not know how states are
//! recorded.

use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;

use convoke_core::Diagnostic;
use convoke_protocol::changes::ChangeCounts;
use convoke_protocol::id::{AttemptRef, MemberName, SessionId, TurnId};
use convoke_team::ChangesInContext;

/// A future of a recorder.
pub type RecorderFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Records the state of a directory before and after a turn. Never fails: a turn that cannot be recorded still runs,
/// and a diagnostic gives the reason.
pub trait ChangeRecorder: Send + Sync {
    /// Records the state before a turn.
    fn begin(&self, turn: TurnDirectory) -> RecorderFuture<RecordingBegun>;

    /// Returns the changes of other members since a member's last turn, as text for its prompt. Fails with the diagnostic that
    /// gives the reason.
    fn teammate_changes(
        &self,
        request: TeammateChanges,
    ) -> RecorderFuture<Result<Option<String>, Diagnostic>>;

    /// Prepares the workspace of a member, if it has one, and describes the team's workspaces. Fails if the
    /// member's workspace cannot be created.
    fn workspaces(
        &self,
        request: WorkspacesRequest,
    ) -> RecorderFuture<Result<TeamWorkspaces, String>>;

    /// Undoes or redoes the changes of a turn, or previews that. Returns a text for the person.
    fn undo(&self, request: UndoRequest) -> RecorderFuture<Result<String, String>>;
}

/// A recording that has begun.
pub trait Recording: Send + Sync {
    /// Records the state after the turn.
    fn finish(self: Box<Self>) -> RecorderFuture<RecordingEnded>;
}

/// A request for the changes of other members since a member's last turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TeammateChanges {
    pub session: SessionId,
    pub member: MemberName,
    /// The form of the text.
    pub form: ChangesInContext,
}

/// A member's own copy of the directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnWorkspace {
    /// The directory that is copied.
    pub project: PathBuf,
    /// The member's working directory in the copy.
    pub below: PathBuf,
    /// Ignored files that are copied.
    pub copy: Vec<String>,
    /// Ignored files that are linked to.
    pub link: Vec<String>,
}

/// A request for the workspaces of a team before a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkspacesRequest {
    pub attempt: AttemptRef,
    /// The member whose turn it is.
    pub member: MemberName,
    /// The member's own workspace.
    pub own: Option<OwnWorkspace>,
}

/// The workspaces of a team before a turn.
#[derive(Debug, Clone, Default)]
pub struct TeamWorkspaces {
    /// The root of the member's workspace; `None` if it works in the shared directory.
    pub root: Option<PathBuf>,
    /// The text about workspaces for the member's prompt.
    pub text: Option<String>,
    /// The directories that the member must be able to read.
    pub readable: Vec<PathBuf>,
    pub diagnostics: Vec<Diagnostic>,
}

/// A person's request to undo or redo the changes of a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UndoRequest {
    pub session: SessionId,
    pub action: UndoAction,
    /// The turn; `None` for the latest turn or merge that is not undone, or for the one that was undone last.
    pub turn: Option<TurnId>,
    /// The paths that are restored, below the directory of the turn; none for all.
    pub paths: Vec<String>,
    /// The consent of the person.
    pub consent: UndoConsent,
}

/// Whether changes are taken back or made again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UndoAction {
    /// Take changes back.
    Undo,
    /// Make undone changes again.
    Redo,
}

/// The consent of a person to an undo or a redo.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum UndoConsent {
    /// Nothing: it is only previewed.
    Preview,
    /// Undo or redo the changes of the turn.
    Turn,
    /// Also undo changes that may belong to another turn that ran at the same time, or to a person after an
    /// interruption.
    Shared,
}

/// An attempt and the directory that it works in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnDirectory {
    pub attempt: AttemptRef,
    /// The member whose turn it is.
    pub member: MemberName,
    pub directory: PathBuf,
}

/// The result of [`ChangeRecorder::begin`].
#[derive(Default)]
pub struct RecordingBegun {
    /// The recording; `None` if the turn is not recorded.
    pub recording: Option<Box<dyn Recording>>,
    /// The changes of a person since the last turn.
    pub by_person: Option<ChangeCounts>,
    pub diagnostics: Vec<Diagnostic>,
}

/// The result of [`Recording::finish`].
#[derive(Debug, Default)]
pub struct RecordingEnded {
    /// The changes of the turn; `None` if they could not be recorded.
    pub counts: Option<ChangeCounts>,
    pub diagnostics: Vec<Diagnostic>,
}
