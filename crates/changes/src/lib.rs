//! Records what agents change in a working directory, and takes it back.
//!
//! [`Changes`] is the entry point. [`Changes::begin`] records the state of a directory before a turn and
//! [`RunningTurn::finish`] the state after it; the difference is a [`Record`], stored by session. What a
//! person changed between two turns of a session becomes a record of its own. [`Changes::plan_undo`] shows
//! what taking a record back would change, and [`Changes::undo`] does it: completely or not at all, also
//! when the process is killed.
//!
//! A [`Workspace`] is a member's own copy of a directory. [`Changes::plan_apply`] shows what merging it back
//! would change, and [`Changes::apply`] does it in the same way.
//!
//! File contents are objects of a private repository in git's format, one for each directory, written by
//! the `git` program. The repository of the user is never written to, and no program but `git`
//! is started. Everything here is synchronous.

mod attributes;
mod change;
mod closed;
mod completed;
mod concurrent;
mod content;
mod copier;
pub mod diagnostics;
mod diff;
mod earlier_rules;
mod entry;
mod error;
mod git;
mod held;
mod ignore_rules;
mod interruption;
mod journal;
mod limits;
mod manifest;
mod pattern_file;
mod progress;
mod prune;
mod record;
mod repository;
mod scan;
mod store;
mod tracked;
mod tracked_contents;
mod tree_path;
mod turn;
mod unchanged;
mod undo;
mod undone;
mod workspace;

pub use change::{Change, Content, FileMode, Node, Oid, Status, listed_count, shown};
pub use completed::Completed;
pub use convoke_files::failpoint::Failpoint;
pub use diff::{FileDiff, LineCounts};
pub use error::ChangesError;
pub use git::Host;
pub use limits::Limits;
pub use progress::Progress;
pub use record::{Applied, Author, Direction, Record, RecordId, TurnKey, direction};
pub use repository::{RepositoryChange, RepositoryState};
pub use store::Changes;
pub use tree_path::TreePath;
pub use turn::{Begun, RunningTurn, Uncopied};
pub use undo::{Conflict, LeftAlone, SharedTurn, UndoPlan};
pub use undone::{Step, steps, without_changes};
pub use workspace::{
    ApplyPlan, Leftover, MergeConflict, Workspace, WorkspaceSettings, WorkspaceTree,
};
