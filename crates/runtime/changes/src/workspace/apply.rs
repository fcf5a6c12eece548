//! `apply`: merges a workspace into the directory of its project, completely or not at all.

use std::path::PathBuf;

use super::merge::{Merge, MergeConflict, Merged, Resolution};
use super::{Workspace, WorkspacePath, WorkspaceTree};
use crate::change::Change;
use crate::error::ChangesError;
use crate::git::Deadline;
use crate::journal::Journal;
use crate::manifest::Manifest;
use crate::record::{Applied, Author, Record, TurnKey, write_cache};
use crate::store::{Changes, Place};
use crate::turn::milliseconds;
use crate::undo::{LeftAlone, next_turn};

/// The plan of a merge.
#[derive(Debug, Clone)]
pub struct ApplyPlan {
    pub session: String,
    pub workspace: Workspace,
    /// The changes that the merge would make in the project: `before` is there now, `after` would be there.
    pub changes: Vec<Change>,
    /// Paths that both sides changed. With any of them, nothing is merged.
    pub conflicts: Vec<MergeConflict>,
    /// Changes of the workspace that cannot be merged and are left out.
    pub left_alone: Vec<LeftAlone>,
    /// What was chosen for files that both sides changed.
    pub resolution: Resolution,
}

impl Changes {
    /// Returns what merging the workspace of a member would do.
    pub fn plan_apply(&self, session: &str, member: &str) -> Result<ApplyPlan, ChangesError> {
        self.plan_apply_with(session, member, &Resolution::default())
    }

    /// Returns what merging the workspace of a member would do, with a choice for files that both sides changed.
    pub fn plan_apply_with(
        &self,
        session: &str,
        member: &str,
        resolution: &Resolution,
    ) -> Result<ApplyPlan, ChangesError> {
        let workspace = self.workspace_of(session, member)?;
        let places = Places::open(self, &workspace)?;
        let _locks = (places.workspace.lock()?, places.project.lock()?);
        let states = places.states()?;
        places.plan(session, workspace, &states, resolution)
    }

    /// Merges a workspace as planned, completely or not at all, and stores that as a record, which can be
    /// undone. Fails if files changed since the plan was made.
    pub fn apply(&self, plan: &ApplyPlan) -> Result<Record, ChangesError> {
        let (session, workspace) = (&plan.session, &plan.workspace);
        let places = Places::open(self, workspace)?;
        let _locks = (places.workspace.lock()?, places.project.lock()?);
        let project = &places.project;
        let states = places.states()?;
        let (ours, theirs) = &states;
        let records = self.session(session).load()?;
        let turn = last_turn(&records, session, &workspace.member);
        project.record_person(&project.load()?, ours, &next_turn(&records, &turn))?;
        project.save(ours)?;
        project.attribute_again();
        let fresh = places.plan(session, workspace.clone(), &states, &plan.resolution)?;
        if !fresh.conflicts.is_empty() || fresh.changes != plan.changes {
            let paths = fresh.conflicts.into_iter().map(|conflict| conflict.path).collect();
            return Err(ChangesError::Conflicts { paths });
        }
        let path = WorkspacePath::of_tree(&workspace.directory);
        let at = milliseconds();
        write_cache(&path.merged(at), &theirs.encode(), self.failpoint())?;
        let applied = Applied {
            member: workspace.member.clone(),
            workspace: path.read()?.created,
            state: at,
        };
        let record = Record {
            id: self.session(session).next()?,
            at,
            applied: Some(applied),
            ..Record::new(turn, Author::Person, project.directory.clone(), fresh.changes)
        };
        Journal::write(project, record)?.run(project)
    }
}

/// Returns the last recorded turn of a member.
fn last_turn(records: &[Record], session: &str, member: &str) -> TurnKey {
    let mut own = records.iter().rev().filter(|record| record.by == Author::Agent);
    let last = own.find(|record| record.turn.member == member);
    last.map_or_else(
        || TurnKey { session: session.to_owned(), turn: 0, attempt: 0, member: member.to_owned() },
        |record| record.turn.clone(),
    )
}

/// A workspace and its project.
struct Places {
    workspace: Place,
    project: Place,
}

impl Places {
    fn open(changes: &Changes, workspace: &Workspace) -> Result<Self, ChangesError> {
        let project: &PathBuf = &workspace.project;
        if workspace.tree == WorkspaceTree::Missing {
            return Err(ChangesError::Missing { path: workspace.directory.clone() });
        }
        Ok(Self {
            workspace: changes.place(&workspace.directory)?,
            project: changes.place(project)?,
        })
    }

    /// Returns the states of the project and of the workspace now. Needs both locks.
    fn states(&self) -> Result<(Manifest, Manifest), ChangesError> {
        for place in [&self.workspace, &self.project] {
            place.recover()?;
            if place.is_busy()? {
                return Err(ChangesError::Busy { path: place.directory.clone() });
            }
        }
        let state = |place: &Place| place.record_state(&place.load()?);
        Ok((state(&self.project)?, state(&self.workspace)?))
    }

    fn plan(
        &self,
        session: &str,
        workspace: Workspace,
        (ours, theirs): &(Manifest, Manifest),
        resolution: &Resolution,
    ) -> Result<ApplyPlan, ChangesError> {
        let changes = &self.project.changes;
        let base = self.workspace.merge_base(&changes.session(session).load()?)?;
        let deadline = Deadline::of_command();
        let (project, member) = (&self.project, &*workspace.member);
        let merge = Merge { project, member, ours, deadline, resolution };
        let Merged { changes, conflicts, left_alone } = merge.run(&base, theirs)?;
        let (session, resolution) = (session.to_owned(), resolution.clone());
        Ok(ApplyPlan { session, workspace, changes, conflicts, left_alone, resolution })
    }
}
