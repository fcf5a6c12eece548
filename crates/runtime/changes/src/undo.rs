//! Undo: which changes taking a record back would make, and whether it may.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::change::{Change, Content, Node, change_at, joined, shown};
use crate::concurrent::{ConcurrentTurn, Left, last_of, left_by_undos};
use crate::content::Job;
use crate::error::ChangesError;
use crate::git::Deadline;
use crate::journal::{Journal, unwritable_directories};
use crate::manifest::{Access, FileKind, MODE_BITS, Manifest, Stamp};
use crate::part::{Part, PartOf};
use crate::record::{Applied, Author, Direction, Record, RecordId, TurnKey, direction};
use crate::repository::{RepositoryChange, git_in};
use crate::scan::{file_kind, is_gone};
use crate::store::{Changes, Place};
use crate::tree_path::TreePath;
use crate::undone::{Selection, Step, steps};

/// The plan of an undo.
#[derive(Debug, Clone)]
pub struct UndoPlan {
    pub turn: TurnKey,
    /// Whether this is a redo: it makes the changes of an undone turn or merge again.
    pub is_redo: bool,
    /// Whether a turn is running in the directory. Nothing is undone before its end.
    pub is_busy: bool,
    /// The changes of the turn to the repository of the directory, which are not undone.
    pub repository: Option<RepositoryChange>,
    /// The merge of a workspace that is undone or redone; `None` for a turn.
    pub applied: Option<Applied>,
    pub directory: PathBuf,
    /// The changes that the undo would make: `before` is there now, `after` would be there.
    pub changes: Vec<Change>,
    /// Paths that something else has changed since. With any of them, nothing is undone.
    pub conflicts: Vec<Conflict>,
    /// Paths that cannot be restored and stay as they are.
    pub left_alone: Vec<LeftAlone>,
    /// What is not as before the turn although all of its files are: directories that hold something else, and repositories.
    pub not_restored: Vec<LeftAlone>,
    /// The turns that ran in the directory at the same time, each with the changes that may be its own.
    pub shared_with: Vec<SharedTurn>,
    /// The paths of an interrupted turn that a person may have changed after its end.
    pub uncertain: Vec<TreePath>,
    /// The files whose restored content is known by their size and time alone.
    pub unverified: Vec<TreePath>,
    /// Whether a change that may be another turn's or a person's is taken back too. Without that, such an undo is refused.
    pub takes_shared: bool,
    /// Turns that were not recorded, so that this takes nothing of them back, with the reason: later ones, or other
    /// attempts at the turn.
    pub not_recorded: Vec<(TurnKey, String)>,
    /// The part of the turn that is taken back, or made again.
    pub part: Part,
    /// Whether the changes of a turn that is not undone are made again, after some of them were taken back.
    is_again: bool,
    undoes: RecordId,
}

/// A turn that ran in the directory at the same time as the one that is taken back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedTurn {
    pub turn: TurnKey,
    /// The paths that changed in both turns. Either may have changed them.
    pub paths: Vec<TreePath>,
}

impl UndoPlan {
    /// Returns whether the undo is refused because a change may be another turn's or a person's. An undo that is taken back
    /// is not.
    pub fn is_refused_as_shared(&self) -> bool {
        let is_shared =
            !self.uncertain.is_empty() || self.shared_with.iter().any(|it| !it.paths.is_empty());
        is_shared && !self.takes_shared && !self.is_redo
    }

    /// Returns whether the undo is refused as planned.
    pub fn is_refused(&self) -> bool {
        self.is_busy || !self.conflicts.is_empty() || self.is_refused_as_shared()
    }
}

/// A path that changed since the turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    pub path: TreePath,
    pub reason: String,
}

/// A path that an undo cannot restore.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftAlone {
    pub path: TreePath,
    pub reason: Cow<'static, str>,
}

impl Changes {
    /// Returns what an undo would do: of a turn, or of the latest turn or merge of a session that is not undone. Each undo
    /// goes further back.
    pub fn plan_undo(&self, session: &str, turn: Option<u64>) -> Result<UndoPlan, ChangesError> {
        self.plan_undo_of(session, turn, &Part::default())
    }

    /// Returns what an undo of a part would do: of a turn, or of the latest one that is not undone and changed the paths.
    pub fn plan_undo_of(
        &self,
        session: &str,
        turn: Option<u64>,
        part: &Part,
    ) -> Result<UndoPlan, ChangesError> {
        let records = self.records(session)?;
        let step = selection(turn, part).to_undo(&records).map_err(ChangesError::NothingToUndo)?;
        let after = step.made.id;
        let mut plan = self.plan_for(session, &records, step, Wanted::back(part))?;
        plan.not_recorded = records
            .iter()
            .filter(|record| turn.map_or(record.id > after, |turn| record.turn.turn == turn))
            .filter_map(|record| Some((record.turn.clone(), record.not_recorded.clone()?)))
            .collect();
        Ok(plan)
    }

    /// Returns what a redo would do: of an undone turn, or of the turn or merge that was undone last, unless another one
    /// changed files of the directory since.
    pub fn plan_redo(&self, session: &str, turn: Option<u64>) -> Result<UndoPlan, ChangesError> {
        self.plan_redo_of(session, turn, &Part::default())
    }

    /// Returns what a redo of a part would do: of a turn, or of the latest one whose changes of the paths were taken back.
    pub fn plan_redo_of(
        &self,
        session: &str,
        turn: Option<u64>,
        part: &Part,
    ) -> Result<UndoPlan, ChangesError> {
        let records = self.records(session)?;
        let step = selection(turn, part).to_redo(&records).map_err(ChangesError::NothingToUndo)?;
        // Of a turn that is not undone, only a part was taken back.
        let is_again = !step.is_undone;
        self.plan_for(session, &records, step, Wanted { part, is_again })
    }

    /// Returns what an undo of the latest merge of a member's workspace that is not undone would do, whatever happened
    /// since.
    pub fn plan_undo_of_merge(
        &self,
        session: &str,
        member: &str,
    ) -> Result<UndoPlan, ChangesError> {
        let records = self.records(session)?;
        let step = Selection::MergeOf(member).to_undo(&records);
        let step = step.map_err(ChangesError::NothingToUndo)?;
        self.plan_for(session, &records, step, Wanted::back(&Part::default()))
    }

    /// Returns what a redo of the merge of a member's workspace that was undone last would do.
    pub fn plan_redo_of_merge(
        &self,
        session: &str,
        member: &str,
    ) -> Result<UndoPlan, ChangesError> {
        let records = self.records(session)?;
        let step = Selection::MergeOf(member).to_redo(&records);
        let step = step.map_err(ChangesError::NothingToUndo)?;
        self.plan_for(session, &records, step, Wanted::back(&Part::default()))
    }

    fn plan_for(
        &self,
        session: &str,
        records: &[Record],
        step: Step<'_>,
        wanted: Wanted<'_>,
    ) -> Result<UndoPlan, ChangesError> {
        let target = Target::by_id(records, step.last.id)?;
        let workspace = self.workspace_path(&target.directory);
        if workspace.is_some_and(|workspace| workspace.session != *self.session(session).name()) {
            let turn = target.turn.turn;
            let why = format!(
                "turn {turn} ran in a workspace of the session that this one was copied from"
            );
            return Err(ChangesError::NothingToUndo(why));
        }
        if self.is_workspace(&target.directory) && !target.directory.exists() {
            let turn = target.turn.turn;
            let is_discarded =
                self.workspaces(session)?.iter().all(|it| it.directory != target.directory);
            let why = if is_discarded {
                format!("turn {turn} ran in a workspace that has been discarded")
            } else {
                let member = &target.turn.member;
                format!(
                    "turn {turn} ran in a directory that is gone; the next turn of {member} restores it"
                )
            };
            return Err(ChangesError::NothingToUndo(why));
        }
        let place = self.place(&target.directory)?;
        let _lock = place.lock()?;
        let is_busy = place.is_busy()?;
        Ok(UndoPlan { is_busy, ..place.plan(records, target, wanted)? })
    }

    /// Carries an undo or a redo out as planned, completely or not at all, and stores it as a record of its own.
    /// Fails if files changed since the plan was made.
    pub fn undo(&self, plan: &UndoPlan) -> Result<Record, ChangesError> {
        let session = &plan.turn.session;
        if plan.is_refused_as_shared() {
            return Err(ChangesError::Shared);
        }
        let place = self.place(&plan.directory)?;
        let _lock = place.lock()?;
        if place.is_busy()? {
            return Err(ChangesError::Busy { path: place.directory });
        }
        // What a person changed since the last turn is recorded first, and stays a person's.
        let old = place.load()?;
        let now = place.record_state(&old)?;
        let mut records = self.session(session).load()?;
        if place.record_person(&old, &now, &next_turn(&records, &plan.turn))?.is_some() {
            records = self.session(session).load()?;
        }
        place.save(&now)?;
        place.attribute_again();
        // It may have been undone and redone since the plan was made.
        if steps(&records).iter().all(|step| step.last.id != plan.undoes) {
            let paths = plan.changes.iter().map(|change| change.path.clone()).collect();
            return Err(ChangesError::Conflicts { paths });
        }
        let target = Target::by_id(&records, plan.undoes)?;
        let wanted = Wanted { part: &plan.part, is_again: plan.is_again };
        let fresh = place.plan(&records, target, wanted)?;
        if !fresh.conflicts.is_empty() || fresh.changes != plan.changes {
            let paths = fresh.conflicts.into_iter().map(|conflict| conflict.path).collect();
            return Err(ChangesError::Conflicts { paths });
        }
        let is_part = plan.part.is_of_paths();
        let record = Record {
            id: self.session(session).next()?,
            undoes: Some(plan.undoes).filter(|_| !is_part),
            part_of: is_part.then_some(PartOf { record: plan.undoes, is_redo: plan.is_redo }),
            shared_with: plan.shared_with.iter().map(|shared| shared.turn.clone()).collect(),
            applied: plan.applied.clone(),
            ..Record::new(plan.turn.clone(), Author::Person, place.directory.clone(), fresh.changes)
        };
        Journal::write(&place, record)?.run(&place)
    }
}

/// Returns what to undo or redo.
fn selection(turn: Option<u64>, part: &Part) -> Selection<'_> {
    match turn {
        _ if part.is_of_paths() => Selection::Part { turn, part },
        Some(turn) => Selection::Turn(turn),
        None => Selection::Latest,
    }
}

/// The changes that are wanted of a record.
#[derive(Clone, Copy)]
struct Wanted<'p> {
    part: &'p Part,
    /// Whether they are made again as they were, instead of being taken back.
    is_again: bool,
}

impl<'p> Wanted<'p> {
    const fn back(part: &'p Part) -> Self {
        Self { part, is_again: false }
    }
}

/// The record that is undone.
struct Target {
    id: RecordId,
    turn: TurnKey,
    direction: Direction,
    repository: Option<RepositoryChange>,
    applied: Option<Applied>,
    directory: PathBuf,
    changes: Vec<Change>,
    /// The time at which its first attempt began.
    began: i64,
    hidden: Vec<TreePath>,
    moved_in: BTreeSet<TreePath>,
    lost_repositories: BTreeSet<TreePath>,
    shared_with: Vec<TurnKey>,
    uncertain: BTreeSet<TreePath>,
    unverified: BTreeSet<TreePath>,
}

impl Target {
    /// Returns the target of a record: of a turn all its attempts together.
    fn by_id(records: &[Record], id: RecordId) -> Result<Self, ChangesError> {
        let found = records.iter().find(|record| record.id == id);
        let found = found
            .ok_or_else(|| ChangesError::NothingToUndo(format!("there is no record {}", id.0)))?;
        let direction = direction(records, found);
        // What was redone is what the turn changed, with what an undo of it could not take back.
        let source = if direction == Direction::Redo { origin(records, found) } else { found };
        let attempts = attempts(records, source);
        let changes = joined(attempts.iter().map(|record| record.changes.as_slice()));
        let mut shared_with: Vec<TurnKey> = Vec::new();
        for other in attempts.iter().flat_map(|record| &record.shared_with) {
            if !shared_with.contains(other) {
                shared_with.push(other.clone());
            }
        }
        Ok(Self {
            id,
            turn: found.turn.clone(),
            direction,
            repository: found.repository.clone(),
            applied: found.applied.clone(),
            directory: found.directory.clone(),
            changes,
            began: attempts.iter().map(|record| record.began).min().unwrap_or_default(),
            hidden: attempts.iter().flat_map(|record| record.hidden.iter().cloned()).collect(),
            lost_repositories: attempts
                .iter()
                .flat_map(|it| it.lost_repositories.iter().map(git_in))
                .collect(),
            moved_in: attempts.iter().flat_map(|it| it.moved_in.iter().cloned()).collect(),
            unverified: attempts.iter().flat_map(|it| it.unverified.iter().cloned()).collect(),
            uncertain: attempts.iter().flat_map(|it| it.uncertain.iter().cloned()).collect(),
            shared_with,
        })
    }
}

/// Returns the turn that comes after all recorded ones, to attribute a person's changes to.
pub(crate) fn next_turn(records: &[Record], turn: &TurnKey) -> TurnKey {
    let last = records.iter().map(|record| record.turn.turn).max().unwrap_or_default();
    TurnKey { turn: last + 1, attempt: 0, ..turn.clone() }
}

/// Returns the record that a chain of undos began with.
fn origin<'a>(records: &'a [Record], last: &'a Record) -> &'a Record {
    let mut found = last;
    for _ in records {
        let undone = found.undoes.and_then(|id| records.iter().find(|record| record.id == id));
        let Some(undone) = undone else { break };
        found = undone;
    }
    found
}

/// Returns the records that are taken back together: all attempts at a turn, or one record. Attempts before an undo of
/// the turn are taken back already.
fn attempts<'a>(records: &'a [Record], last: &'a Record) -> Vec<&'a Record> {
    if !last.is_of_agent() {
        return vec![last];
    }
    let is_of_turn = |record: &&Record| record.turn.turn == last.turn.turn && record.id <= last.id;
    let of_turn = records.iter().filter(is_of_turn);
    let is_undo = |record: &&Record| record.undoes.is_some() && record.applied.is_none();
    let undone = of_turn.clone().filter(is_undo).map(|record| record.id).max();
    of_turn
        .filter(|record| record.is_of_agent() && record.directory == last.directory)
        .filter(|record| undone.is_none_or(|undone| record.id > undone))
        .collect()
}

impl Place {
    /// Compares the changes to undo with the current state.
    fn plan(
        &self,
        records: &[Record],
        target: Target,
        Wanted { part, is_again }: Wanted<'_>,
    ) -> Result<UndoPlan, ChangesError> {
        let mut plan = UndoPlan {
            turn: target.turn,
            is_redo: is_again || target.direction == Direction::Undo,
            is_busy: false,
            repository: target.repository,
            applied: target.applied,
            directory: target.directory,
            changes: Vec::new(),
            conflicts: Vec::new(),
            left_alone: Vec::new(),
            not_restored: Vec::new(),
            shared_with: Vec::new(),
            uncertain: Vec::new(),
            unverified: Vec::new(),
            takes_shared: false,
            not_recorded: Vec::new(),
            part: part.clone(),
            is_again,
            undoes: target.id,
        };
        let others = target.shared_with.into_iter();
        let others: Vec<ConcurrentTurn> =
            others.map(|turn| ConcurrentTurn::load(&self.changes, turn)).collect();
        let wanted = if is_again {
            target.changes
        } else {
            target.changes.iter().map(Change::reversed).collect()
        };
        let wanted = part.select(wanted);
        let collisions = self.collisions(&wanted);
        let paths = wanted.iter().map(|change| &change.path);
        let now = nodes(self, paths, Deadline::of_command())?;
        let mut lost_sizes = HashSet::new();
        for change in wanted {
            let found = now.get(&change.path).cloned().flatten();
            if matches(found.as_ref(), change.after.as_ref()) {
                continue;
            }
            if change.after.is_none() && target.moved_in.contains(&change.path) {
                let reason = "the turn moved it here from where nothing is recorded";
                plan.left_alone.push(LeftAlone { path: change.path, reason: reason.into() });
            } else if let Some(reason) = obstacle(&change) {
                let is_lost = found.is_none();
                lost_sizes.extend(change.after.as_ref().filter(|_| is_lost).map(Node::size));
                plan.left_alone.push(LeftAlone { path: change.path, reason: reason.into() });
            } else if matches(found.as_ref(), change.before.as_ref()) {
                plan.changes.push(change);
            } else {
                let began = Some(target.began).filter(|_| !plan.is_redo);
                let left = began.and_then(|it| left_by_undos(&others, it, &change, found.as_ref()));
                match left {
                    Some(Left::Own(before)) => plan.changes.push(Change { before, ..change }),
                    Some(Left::Nothing) => {}
                    None => {
                        let special = self.special(&change.path).map(str::to_owned);
                        let reason =
                            special.or_else(|| changed_by(records, target.id, &change.path));
                        let reason = reason.or_else(|| {
                            let other = last_of(&others, &change.path, found.as_ref())?;
                            let other = other.name_in(&plan.turn.session);
                            let when = "which ran at the same time; undo that one first";
                            Some(format!("changed by {other}, {when}"))
                        });
                        let reason = reason.unwrap_or_else(|| "changed since".to_owned());
                        plan.conflicts.push(Conflict { path: change.path, reason });
                    }
                }
            }
        }
        if !lost_sizes.is_empty() {
            // A file that is not restored may have been copied to one that would be removed.
            let reason =
                "the turn removed a file that cannot be restored, and this may be its copy";
            let is_copy = |change: &Change| {
                let there = change.before.as_ref().filter(|it| matches!(it, Node::File { .. }));
                change.after.is_none() && there.is_some_and(|it| lost_sizes.contains(&it.size()))
            };
            let (copies, others): (Vec<Change>, Vec<Change>) =
                plan.changes.into_iter().partition(is_copy);
            plan.changes = others;
            let copies = copies.into_iter().map(|change| change.path);
            plan.left_alone.extend(copies.map(|path| LeftAlone { path, reason: reason.into() }));
        }
        leave_what_is_in_the_way(&mut plan);
        let hidden = target.hidden.into_iter().filter(|path| part.names(path));
        for path in hidden.filter(|path| path.under(self.root()).exists()) {
            let reason = "the turn created and ignored it, and it is too large to be recorded";
            plan.left_alone.push(LeftAlone { path, reason: reason.into() });
        }
        let lost = target.lost_repositories.into_iter().filter(|path| part.names(path));
        for path in lost {
            if let Ok(None) = status(&path.under(self.root())) {
                let reason = "the turn removed or moved this repository, which is not recorded";
                plan.not_restored.push(LeftAlone { path, reason: reason.into() });
            }
        }
        self.leave_directories_of_others(&mut plan);
        plan.not_restored.sort_by(|one, other| one.path.cmp(&other.path));
        plan.left_alone.sort_by(|one, other| one.path.cmp(&other.path));
        plan.conflicts.extend(collisions);
        plan.conflicts.extend(self.obstructions(&plan.changes));
        plan.conflicts.extend(self.unwritable(&plan.changes));
        plan.conflicts.sort_by(|one, other| one.path.cmp(&other.path));
        // The first reason says most.
        plan.conflicts.dedup_by(|later, first| later.path == first.path);
        part.leave(&mut plan);
        part.choose(&mut plan);
        let among = |paths: &BTreeSet<TreePath>| {
            let changed = shown(&plan.changes).map(|change| &change.path);
            changed.filter(|path| paths.contains(path)).cloned().collect()
        };
        (plan.uncertain, plan.unverified) = (among(&target.uncertain), among(&target.unverified));
        for other in others {
            let is_theirs = |path: &TreePath| {
                let is_changed =
                    other.changes.as_ref().is_none_or(|it| change_at(it, path).is_some());
                // What it changed there is taken back already.
                is_changed && change_at(&other.undone, path).is_none()
            };
            let changed = shown(&plan.changes).map(|change| &change.path);
            let paths: BTreeSet<&TreePath> =
                changed.chain(plan.conflicts.iter().map(|it| &it.path)).collect();
            let paths = paths.into_iter().filter(|path| is_theirs(path)).cloned().collect();
            plan.shared_with.push(SharedTurn { turn: other.turn, paths });
        }
        Ok(plan)
    }

    /// Leaves the directories that would be removed, but hold what stays.
    fn leave_directories_of_others(&self, plan: &mut UndoPlan) {
        let removed = |change: &&Change| {
            change.after.is_none() && matches!(change.before, Some(Node::Directory { .. }))
        };
        let goes = plan.changes.iter().filter(|change| change.after.is_none());
        let mut goes: BTreeSet<TreePath> = goes.map(|change| change.path.clone()).collect();
        // With a conflict nothing is done: it is named, and need not be repeated.
        goes.extend(plan.conflicts.iter().map(|conflict| conflict.path.clone()));
        let left: BTreeSet<TreePath> = plan.left_alone.iter().map(|it| it.path.clone()).collect();
        let mut kept = BTreeSet::new();
        // What a directory holds is looked at before it.
        for change in plan.changes.iter().filter(removed).rev() {
            let listing = fs::read_dir(change.path.under(self.root())).into_iter().flatten();
            let inside = listing.flatten().map(|it| change.path.join(&it.file_name().into_vec()));
            let stays: Vec<TreePath> = inside.filter(|path| !goes.contains(path)).collect();
            if stays.is_empty() {
                continue;
            }
            goes.remove(&change.path);
            if stays.iter().any(|path| !left.contains(path) && !kept.contains(path)) {
                let reason = "it holds something that would not be removed";
                let path = change.path.clone();
                plan.not_restored.push(LeftAlone { path, reason: reason.into() });
            }
            kept.insert(change.path.clone());
        }
        plan.changes.retain(|change| !kept.contains(&change.path));
    }

    /// Returns why a path cannot be undone, if something is there that is not recorded: a turn may have made it, or a person.
    fn special(&self, path: &TreePath) -> Option<&'static str> {
        let found = status(&path.under(self.root())).ok()??;
        let is_recorded = found.is_dir() || file_kind(&found).is_some();
        let reason =
            "a pipe, a socket or a device is in its place, which is not recorded; remove it first";
        (!is_recorded).then_some(reason)
    }

    /// Returns what is in the way of files and directories that changes would create.
    pub(crate) fn obstructions(&self, changes: &[Change]) -> Vec<Conflict> {
        let removed: HashSet<&TreePath> = changes
            .iter()
            .filter(|change| change.after.is_none())
            .map(|change| &change.path)
            .collect();
        let created: BTreeSet<&TreePath> = changes
            .iter()
            .filter(|change| matches!(change.after, Some(Node::Directory { .. })))
            .map(|change| &change.path)
            .collect();
        let mut found = BTreeMap::new();
        let mut seen = HashSet::new();
        for change in changes {
            let is_directory = |node: &Option<Node>| matches!(node, Some(Node::Directory { .. }));
            if is_directory(&change.before)
                && change.after.is_some()
                && !is_directory(&change.after)
            {
                let inside = entries_below(self.root(), &change.path);
                let strange = inside.into_iter().filter(|path| !removed.contains(path));
                found.extend(strange.map(|path| (path, "it is in the way".to_owned())));
            }
            if change.after.is_none() {
                continue;
            }
            for above in change.path.ancestors().filter(|above| !above.is_root()) {
                if created.contains(&above) {
                    continue;
                }
                // Those above it were seen with it.
                if !seen.insert(above.clone()) {
                    break;
                }
                let is_in_the_way = fs::symlink_metadata(above.under(self.root()))
                    .is_ok_and(|metadata| !metadata.is_dir());
                if is_in_the_way {
                    found.insert(above, "it is in the way".to_owned());
                }
            }
        }
        found.into_iter().map(|(path, reason)| Conflict { path, reason }).collect()
    }

    /// Returns the changed paths that are one and the same on the file system of the directory. One of them is not removed,
    /// since that would remove the other.
    pub(crate) fn collisions(&self, changes: &[Change]) -> Vec<Conflict> {
        if changes.len() < 2 || !is_case_insensitive(self.root()) {
            return Vec::new();
        }
        let reason =
            "its name differs from another only in case, and this file system cannot hold both";
        let collisions = collisions(changes).into_iter();
        collisions.map(|path| Conflict { path, reason: reason.to_owned() }).collect()
    }

    /// Returns the directories of changed entries that cannot be written to.
    fn unwritable(&self, changes: &[Change]) -> Vec<Conflict> {
        let conflict = |(path, error): (TreePath, io::Error)| {
            let path = if path.is_root() { TreePath::new(".") } else { path };
            Conflict { path, reason: format!("it cannot be written to: {error}") }
        };
        unwritable_directories(self, changes).into_iter().map(conflict).collect()
    }
}

/// Leaves a directory as it is if it would become a file, but holds something of the turn that stays.
fn leave_what_is_in_the_way(plan: &mut UndoPlan) {
    let is_directory = |node: &Option<Node>| matches!(node, Some(Node::Directory { .. }));
    let becomes_file = |change: &Change| {
        is_directory(&change.before) && change.after.is_some() && !is_directory(&change.after)
    };
    let holds = |change: &Change| plan.left_alone.iter().any(|it| it.path.is_below(&change.path));
    let (kept, others): (Vec<Change>, Vec<Change>) = std::mem::take(&mut plan.changes)
        .into_iter()
        .partition(|change| becomes_file(change) && holds(change));
    plan.changes = others;
    let reason = "a file that the turn created in its place stays";
    let kept = kept.into_iter();
    plan.left_alone.extend(kept.map(|it| LeftAlone { path: it.path, reason: reason.into() }));
}

/// Returns the reason why a change cannot be made, now or later in reverse.
fn obstacle(change: &Change) -> Option<&'static str> {
    if change.before.as_ref().and_then(Node::content) == Some(Content::Pending) {
        return Some("there was no time to copy it at the end of the turn");
    }
    let contents = [&change.before, &change.after].into_iter().flatten().filter_map(Node::content);
    let mut reasons = contents.filter_map(|content| match content {
        Content::Stored(_) => None,
        Content::HashOnly(_) => Some("it is over the size limit, and only its hash is recorded"),
        Content::Pending => Some("the turn changed it before its first copy was complete"),
        Content::Unreadable => Some("it could not be read when it was recorded"),
    });
    reasons.next()
}

/// Returns who changed a path after a record, as far as records tell. What was taken back since is no obstacle.
fn changed_by(records: &[Record], after: RecordId, path: &TreePath) -> Option<String> {
    let mut later = records.iter().rev().filter(|record| record.id > after);
    let mut taken_back = HashSet::new();
    let found = later.find(|record| {
        let undone = record.undoes.and_then(|id| records.iter().find(|other| other.id == id));
        if let Some(undone) = undone.filter(|it| it.id > after && !taken_back.contains(&record.id))
        {
            taken_back.extend(attempts(records, undone).iter().map(|it| it.id));
            taken_back.insert(record.id);
        }
        !taken_back.contains(&record.id) && change_at(&record.changes, path).is_some()
    });
    let record = found?;
    Some(match &record.applied {
        Some(applied) if record.undoes.is_none() => {
            format!("changed by applying the workspace of {}", applied.member)
        }
        _ if let Some(part) = record.part_of => {
            let what = if part.is_redo { "redo" } else { "undo" };
            format!("changed by the {what} of a part of turn {}", record.turn.turn)
        }
        _ if direction(records, record) == Direction::Undo => {
            format!("changed by the undo of turn {}", record.turn.turn)
        }
        _ if record.undoes.is_some() => format!("changed by the redo of turn {}", record.turn.turn),
        _ if record.by == Author::Agent => {
            let (turn, member) = (record.turn.turn, &record.turn.member);
            format!("changed by turn {turn} ({member}); undo that one first")
        }
        _ => format!("changed by a person before turn {}", record.turn.turn),
    })
}

/// Returns whether a path is in the state of a record.
pub(crate) fn matches(found: Option<&Node>, recorded: Option<&Node>) -> bool {
    match (found, recorded) {
        (None, None) => true,
        (
            Some(Node::File { mode, content, .. }),
            Some(Node::File { mode: other_mode, content: other, .. }),
        ) => mode == other_mode && content.oid().is_some() && content.oid() == other.oid(),
        (Some(Node::Link { content }), Some(Node::Link { content: other })) => {
            content.oid().is_some() && content.oid() == other.oid()
        }
        (Some(Node::Directory { mode }), Some(Node::Directory { mode: other })) => mode == other,
        _ => false,
    }
}

/// Returns what is at each path now. A path below a symbolic link is not there. A file whose stamp did not change since the last
/// state is not read.
pub(crate) fn nodes<'a>(
    place: &Place,
    paths: impl Iterator<Item = &'a TreePath>,
    deadline: Deadline,
) -> Result<Nodes, ChangesError> {
    Ok(nodes_and_stamps(place, paths, deadline)?.0)
}

/// What is at each path.
pub(crate) type Nodes = BTreeMap<TreePath, Option<Node>>;

/// The stamps of files and links.
pub(crate) type Stamps = HashMap<TreePath, Stamp>;

/// Returns what [`nodes`] does, and the stamps that the files and links had before they were read.
pub(crate) fn nodes_and_stamps<'a>(
    place: &Place,
    paths: impl Iterator<Item = &'a TreePath>,
    deadline: Deadline,
) -> Result<(Nodes, Stamps), ChangesError> {
    let mut stamps = Stamps::new();
    let last = place.load()?;
    let known = |path: &TreePath, kind: FileKind, stamp: Stamp| {
        let entry = last.entry(path)?;
        let is_same = entry.settled && entry.stamp == stamp && entry.kind == kind;
        entry.content.oid().filter(|_| is_same).map(Content::HashOnly)
    };
    let mut nodes = BTreeMap::new();
    let mut jobs = Vec::new();
    let mut looked = Looked::below(place.root());
    for path in paths {
        let Ok(metadata) = looked.at(path) else {
            let node = if is_closed_as_known(place, &last, path) {
                last.node(path)
            } else {
                // What is not known matches nothing.
                Some(Node::Link { content: Content::Unreadable })
            };
            nodes.insert(path.clone(), node);
            continue;
        };
        if let Some(metadata) = metadata.as_ref().filter(|it| !it.is_dir()) {
            stamps.insert(path.clone(), Stamp::from_metadata(metadata));
        }
        let node = metadata.map(|metadata| {
            let mode = metadata.mode() & MODE_BITS;
            let mut content = |kind| {
                let (size, stamp) = (metadata.len(), Stamp::from_metadata(&metadata));
                known(path, kind, stamp).unwrap_or_else(|| {
                    jobs.push(Job::new(path.clone(), kind, size, stamp));
                    Content::Unreadable
                })
            };
            if metadata.is_dir() {
                Node::Directory { mode }
            } else if metadata.is_symlink() {
                Node::Link { content: content(FileKind::Link) }
            } else if metadata.is_file() {
                let content = content(FileKind::Regular);
                Node::File { mode, size: metadata.len(), content }
            } else {
                // Something special matches nothing.
                Node::Link { content: Content::Unreadable }
            }
        });
        nodes.insert(path.clone(), node);
    }
    let oids = place.writer().hashes(&jobs, deadline)?;
    for (job, oid) in jobs.into_iter().zip(oids) {
        // Of one that cannot be read, the status alone decides. A change of the mode, such as that of an undo which was put back,
        // leaves its size and the time of its last write.
        let status = |kind, size, stamp: Stamp| (kind, size, stamp.inode, stamp.modified);
        let found = status(job.kind, job.size, job.stamp);
        let entry =
            || last.entry(&job.path).filter(|it| status(it.kind, it.size, it.stamp) == found);
        let oid = oid.or_else(|| entry()?.content.oid());
        let found = oid.map_or(Content::Unreadable, Content::HashOnly);
        if let Some(Some(Node::File { content, .. } | Node::Link { content })) =
            nodes.get_mut(&job.path)
        {
            *content = found;
        }
    }
    Ok((nodes, stamps))
}

/// Looks at paths below a directory, and remembers the directories on their way.
struct Looked<'a> {
    root: &'a Path,
    /// Whether there is a directory at a path; `None` if that could not be looked at.
    directories: HashMap<TreePath, Option<bool>>,
}

impl<'a> Looked<'a> {
    fn below(root: &'a Path) -> Self {
        Self { root, directories: HashMap::new() }
    }

    /// Returns the status of what is at a path; `None` if there is nothing, as below a link. Fails if that cannot be looked at.
    fn at(&mut self, path: &TreePath) -> io::Result<Option<fs::Metadata>> {
        let mut above: Vec<TreePath> = path.ancestors().filter(|above| !above.is_root()).collect();
        while let Some(above) = above.pop() {
            let is_directory = *self.directories.entry(above).or_insert_with_key(|above| {
                let found = status(&above.under(self.root)).ok()?;
                Some(found.is_some_and(|found| found.is_dir()))
            });
            match is_directory {
                Some(true) => {}
                Some(false) => return Ok(None),
                None => return Err(io::ErrorKind::PermissionDenied.into()),
            }
        }
        status(&path.under(self.root))
    }
}

/// Returns the status of a path; `None` if there is nothing.
pub(crate) fn status(path: &Path) -> io::Result<Option<fs::Metadata>> {
    match fs::symlink_metadata(path) {
        Err(error) if is_gone(&error) => Ok(None),
        found => found.map(Some),
    }
}

/// Returns whether the directory that hides a path is closed as it was in the last state, so that nothing below it can have changed
/// since.
fn is_closed_as_known(place: &Place, last: &Manifest, path: &TreePath) -> bool {
    let closed = path.ancestors().filter_map(|above| {
        let known = last.directories.get(&above).filter(|known| known.access != Access::Open)?;
        Some((above, known))
    });
    closed.last().is_some_and(|(above, known)| {
        let found = fs::symlink_metadata(above.under(place.root()));
        found.is_ok_and(|found| Stamp::from_metadata(&found) == known.stamp)
    })
}

/// Returns every path below a directory.
fn entries_below(root: &Path, directory: &TreePath) -> Vec<TreePath> {
    let mut found = Vec::new();
    let mut waiting = vec![directory.clone()];
    while let Some(path) = waiting.pop() {
        for entry in fs::read_dir(path.under(root)).into_iter().flatten().flatten() {
            let inside = path.join(&entry.file_name().into_vec());
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                waiting.push(inside.clone());
            }
            found.push(inside);
        }
    }
    found
}

/// Returns the paths that a file system without case cannot hold together.
fn collisions(changes: &[Change]) -> BTreeSet<TreePath> {
    let mut folded: BTreeMap<String, &TreePath> = BTreeMap::new();
    let mut found = BTreeSet::new();
    for change in changes {
        let key = String::from_utf8_lossy(change.path.as_bytes()).to_lowercase();
        if let Some(other) = folded.insert(key, &change.path) {
            found.extend([other.clone(), change.path.clone()]);
        }
    }
    found
}

/// Returns whether a directory ignores case in names.
fn is_case_insensitive(directory: &Path) -> bool {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(name) = name.to_str() else { continue };
        let swapped: String = name
            .chars()
            .map(|c| {
                if c.is_ascii_lowercase() { c.to_ascii_uppercase() } else { c.to_ascii_lowercase() }
            })
            .collect();
        if swapped == name {
            continue;
        }
        let inode =
            |name: &str| fs::symlink_metadata(directory.join(name)).map(|found| found.ino());
        return matches!((inode(name), inode(&swapped)), (Ok(one), Ok(other)) if one == other);
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_differ_in_case_alone_collide() {
        let added = |path: &str| Change {
            path: TreePath::new(path),
            before: None,
            after: Some(Node::Directory { mode: 0o755 }),
        };
        let found = |changes: &[Change]| -> Vec<String> {
            collisions(changes).iter().map(ToString::to_string).collect()
        };
        assert_eq!(found(&[added("Aa"), added("aa"), added("b")]), ["Aa", "aa"]);
        // A rename: what one name has is what the other has.
        assert_eq!(found(&[added("Aa"), added("aa").reversed(), added("AA")]), ["AA", "Aa", "aa"]);
    }
}
