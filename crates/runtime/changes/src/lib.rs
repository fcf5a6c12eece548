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
//!
//! # Modules
//!
//! Records what turns change in a working directory, and undoes it. Synchronous.
//!
//! Recording:
//!
//! - `turn` records the state of a directory before and after a turn; `record` stores the difference by session.
//! - `unchanged` looks at every known file once and finds the directories that may differ from the last state; `scan` reads those.
//! - `manifest` is the recorded state of a directory: full modes, empty directories, times in nanoseconds.
//! - `ignore_rules` asks git about new names only; `earlier_rules` finds the files that a turn created and ignored itself;
//!   `pattern_file` reads files of patterns without following links.
//! - `closed` opens what a turn closed to its owner, while it is recorded.
//! - `content` stores file contents as objects of a private repository, `object` reads them; `copier` makes the first copy in the background.
//! - `tracked` reads the user's index; `tracked_contents` completes a first turn from the user's objects, unless `attributes` convert a
//!   file; `repository` reads the branch and the stash.
//! - `interruption` separates the changes of an interrupted turn from those that may be a person's.
//! - `moved_in` finds what a turn moved from where nothing is recorded.
//! - `git` starts the `git` program; `store` is the directory of everything recorded; `prune` removes what no record needs; `limits` bounds it.
//!
//! Changes and undo:
//!
//! - `change` is the difference of one path, `diff` its text, `blame` the turn of each line of a file, `tree_path` a path as bytes, `entry` an entry that is reached without
//!   following links, `held` a recorded directory that is held open and opened through no link.
//! - `undone` knows which turns and merges are undone, and which one an undo or a redo takes next; `undo` plans it; `journal` makes
//!   many changes look like one, also after a crash; `progress` reports how far one is. `part` limits an undo to some paths (`hunks`: to some lines), or to
//!   what nothing else has changed since.
//! - `concurrent` decides what turns that ran at the same time leave for each other's undo.
//! - `users_repository` reads commits of the user's repository, and what differs from them.
//! - `completed` lists undos and merges that were interrupted and completed later; `error` has the errors of the crate.
//! - `workspace` gives a member a copy of a directory: `checkout` creates it, `commit` follows its turns, `merge` and `apply` merge it
//!   back, `leftover` removes what crashes left of it.
//!
//! # Invariants
//!
//! - No program but `git` is started (`crates/runtime/changes/tests/it/isolation.rs:
//!   git_is_the_only_program_that_starts`), with no configuration but ours
//!   (`crates/runtime/changes/tests/it/isolation.rs: no_configuration_starts_a_program`); the user's repository is
//!   never written to (`crates/runtime/changes/tests/it/isolation.rs: the_users_repository_is_not_touched`).
//! - A turn that changes nothing costs one look at each file before it and one after it: no program starts, and no
//!   state is written (`crates/runtime/changes/tests/it/quick.rs:
//!   a_turn_without_changes_starts_no_program_and_writes_no_state`).
//! - After `kill -9` at any write, an undo or a merge is done or not done
//!   (`crates/runtime/changes/tests/crash/main.rs: an_undo_killed_at_any_write_is_done_or_not`,
//!   `crates/runtime/changes/tests/crash/main.rs: an_apply_killed_at_any_write_is_done_or_not`), a workspace is
//!   whole or not there (`crates/runtime/changes/tests/crash/main.rs:
//!   a_workspace_whose_creation_is_killed_is_created_again`), and a turn is recorded once
//!   (`crates/runtime/changes/tests/crash/main.rs: a_recording_killed_at_any_write_records_the_turn_once`).
//! - The repository of a workspace belongs to its agent: `git` is never run with it
//!   (`crates/runtime/changes/tests/it/workspaces.rs: no_configuration_of_a_workspace_starts_a_program`).
//! - Undo restores exactly what was recorded (`crates/runtime/changes/tests/it/properties.rs:
//!   undo_restores_bytes_modes_links_and_empty_directories`), and changes nothing that something else has changed
//!   since (`crates/runtime/changes/tests/it/turns.rs:
//!   a_file_that_changed_since_is_named_and_nothing_is_taken_back`), in every kind of repository
//!   (`crates/runtime/changes/tests/it/histories.rs: every_history_can_be_taken_back_in_every_kind_of_repository`),
//!   nor, without `--shared`, what another turn may have changed (`crates/runtime/changes/tests/it/bad_cases.rs:
//!   an_undo_of_what_may_be_the_work_of_another_turn_is_refused`).

mod attributes;
mod blame;
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
mod hunks;
mod ignore_rules;
mod interruption;
mod journal;
mod limits;
mod manifest;
mod moved_in;
mod object;
mod part;
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
mod users_repository;
mod workspace;

pub use blame::{BlamedLine, Origin};
pub use change::{Change, Content, FileMode, Node, Oid, Status, joined, listed_count, shown};
pub use completed::Completed;
pub use convoke_files::failpoint::Failpoint;
pub use diff::{FileDiff, LineCounts};
pub use error::ChangesError;
pub use git::{Host, git_command};
pub use hunks::FileHunks;
pub use limits::Limits;
pub use part::{Part, PartOf};
pub use progress::Progress;
pub use record::{Applied, Author, Direction, Record, RecordId, TurnKey, direction};
pub use repository::{RepositoryChange, RepositoryState};
pub use store::Changes;
pub use tree_path::TreePath;
pub use turn::{Begun, RunningTurn, Uncopied};
pub use undo::{Conflict, LeftAlone, SharedTurn, UndoPlan};
pub use undone::{Step, steps, without_changes};
pub use users_repository::{Changed, Commit, How, UsersRepository};
pub use workspace::{
    ApplyPlan, ConflictChoice, Leftover, MergeConflict, Resolution, Workspace, WorkspaceSettings,
    WorkspaceTree,
};
