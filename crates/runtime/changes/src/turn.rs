//! Recording of a turn: the state before it, the state after it, and the difference.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use convoke_files::limit::FileKind;
use convoke_files::{Disk, Files as _};
use serde::{Deserialize, Serialize};

use crate::change::{Change, Content, Node, change_at, changes};
use crate::closed::Opened;
use crate::completed::Completed;
use crate::content::{COMPARED_FILES, Job, fill, in_parts, pending};
use crate::copier::Wait;
use crate::error::ChangesError;
use crate::git::Deadline;
use crate::ignore_rules::WorkTree;
use crate::interruption::Pulse;
use crate::manifest::{FileEntry, Manifest};
use crate::moved_in::moved_in;
use crate::record::{Author, Record, TurnKey, read_if_there};
use crate::repository::{Repository, lost_repositories};
use crate::scan::IGNORE_FILE;
use crate::scan::now;
use crate::store::{Changes, Place};
use crate::tracked_contents::TrackedContents;
use crate::tree_path::TreePath;
use crate::undo::Stamps;

/// The files whose first copy may take longer than the start of a turn.
const MANY_FILES: usize = 256;
/// The bytes whose first copy may take longer than the start of a turn.
const MANY_BYTES: u64 = 8 << 20;
/// The age of a copy for a moment whose process is gone.
const SCRATCH_AGE: Duration = Duration::from_hours(1);
/// The bytes of the log of ended turns; older lines are dropped.
const LOG_BYTES: u64 = 64 << 10;

/// A turn that has begun.
#[derive(Debug)]
pub struct Begun {
    /// The running turn.
    pub turn: RunningTurn,
    /// The changes of a person since the last turn of the session.
    pub person: Option<Record>,
    /// Undos and merges of the session that were interrupted, and are complete now.
    pub completed: Vec<Completed>,
    /// Whether all contents are copied. If not, undo cannot restore a file that the turn changes before its
    /// copy.
    pub is_complete: bool,
    /// The files without any other copy that are not copied yet.
    pub uncopied: Option<Uncopied>,
}

/// Files that a turn begins without a copy of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Uncopied {
    /// The number of them.
    pub files: u64,
    /// The bytes of all files that had no other copy.
    pub bytes: u64,
    /// The bytes of those that were copied in time.
    pub copied_bytes: u64,
}

/// A turn whose changes are being recorded. Dropped without [`Self::finish`], its changes are recorded as
/// those of an interrupted turn.
#[derive(Debug)]
pub struct RunningTurn {
    place: Place,
    key: TurnKey,
    began: i64,
    before: Manifest,
    /// Contents that were not copied when the turn began.
    tracked: TrackedContents,
    /// The ignore patterns outside the working tree before the turn.
    patterns: Vec<u8>,
    /// The repository before the turn. A workspace has one of its own, which is the agent's.
    repository: Option<Repository>,
    marker: Marker,
}

/// The files that name a running turn. The first is locked as long as the turn runs.
#[derive(Debug)]
struct Marker {
    file: PathBuf,
    manifest: PathBuf,
    _pulse: Pulse,
    lock: File,
}

/// A running or ended turn, as it is stored.
#[derive(Debug, Serialize, Deserialize)]
struct TurnTimes {
    key: TurnKey,
    began: i64,
    ended: Option<i64>,
}

impl Changes {
    /// Records the state of a directory before a turn. If that fails, the session's records say so.
    pub fn begin(&self, directory: &Path, key: TurnKey) -> Result<Begun, ChangesError> {
        let begun = self.try_begin(directory, key.clone());
        if let Err(error) = &begun {
            if let Ok(place) = self.place(directory)
                && place.manifest_path().exists()
            {
                // What the turn changes is not a person's.
                let _ = File::create(place.unattributed());
            }
            self.add_not_recorded(directory, key, error);
        }
        begun
    }

    /// Stores that the changes of a turn are not recorded. What fails here has failed before: the caller has the error.
    pub fn add_not_recorded(&self, directory: &Path, turn: TurnKey, why: &dyn std::fmt::Display) {
        let records = self.session(&turn.session);
        let mut record = Record {
            not_recorded: Some(why.to_string()),
            ..Record::new(turn, Author::Agent, directory.to_owned(), Vec::new())
        };
        let _ = records.add(&mut record);
    }

    fn try_begin(&self, directory: &Path, key: TurnKey) -> Result<Begun, ChangesError> {
        let place = self.place(directory)?;
        let _lock = place.lock()?;
        place.recover()?;
        let deadline = place.deadline();
        let records = self.session(&key.session);
        let old = place.load()?;
        let mut before = place.scan(&old, None, deadline)?;
        let FirstCopy { tracked, is_complete, uncopied } =
            place.copy_before(&old, &mut before, self.is_workspace(&place.directory))?;
        let person = if records.has_any(&place.directory)? {
            place.record_person(&old, &before, &key)?
        } else {
            None
        };
        records.visit(&place.directory)?;
        let completed = records.take_completed()?;
        place.save_over(&old, &before)?;
        place.attribute_again();
        if let Some(copier) = place.copier().filter(|copier| !copier.is_running()) {
            copier.forget();
        }
        let began = milliseconds();
        let marker = Marker::create(&place, &key, began)?;
        let repository = if self.is_workspace(&place.directory) {
            None
        } else {
            Repository::find(&place.directory, &place.host().home)
        };
        let patterns = place.patterns();
        let place = place.clone();
        let turn = RunningTurn { place, key, began, before, tracked, patterns, repository, marker };
        Ok(Begun { turn, person, completed, is_complete, uncopied })
    }
}

/// What an undo or a merge has written.
#[derive(Clone, Copy)]
struct Written<'a> {
    changes: &'a [Change],
    /// The stamps of the files that are as they were staged.
    placed: &'a Stamps,
}

/// The result of the copy before a turn.
#[derive(Default)]
struct FirstCopy {
    tracked: TrackedContents,
    is_complete: bool,
    uncopied: Option<Uncopied>,
}

impl Place {
    /// Copies the contents that the state before a turn lacks, as far as a person can wait for it. The rest is copied while the
    /// turn runs.
    fn copy_before(
        &self,
        old: &Manifest,
        before: &mut Manifest,
        is_workspace: bool,
    ) -> Result<FirstCopy, ChangesError> {
        let mut jobs = pending(before);
        if jobs.is_empty() {
            return Ok(FirstCopy { is_complete: true, ..FirstCopy::default() });
        }
        let (writer, limits) = (self.writer(), self.limits());
        writer.check(&jobs)?;
        let (started, mut tracked) = (Instant::now(), TrackedContents::default());
        let bytes = jobs.iter().map(|job| job.size).filter(|&size| size <= limits.file_bytes);
        let are_many = jobs.len() > MANY_FILES || bytes.sum::<u64>() > MANY_BYTES;
        if are_many && !is_workspace {
            tracked = self.tracked_contents(before, limits.wait);
        }
        let is_tracked = |job: &Job| tracked.contains(&job.path);
        let lone = jobs.iter_mut().filter(|job| !is_tracked(job));
        writer.clone_files(lone, Deadline::within(limits.wait));
        let is_lone =
            |job: &Job| job.path.name() == IGNORE_FILE || !is_tracked(job) && !job.is_cloned();
        sort_for_copy(&mut jobs, is_lone);
        let lone: Vec<Job> = jobs.iter().filter(|job| is_lone(job)).cloned().collect();
        let bytes = lone.iter().map(|job| job.size).sum();
        let all = limits.wait.saturating_sub(started.elapsed());
        let lone_wait = limits.wait_for(lone.len(), bytes);
        let wait = Wait { all, lone: lone_wait, lone_most: limits.lone_wait };
        let copier = self.start_copier();
        let mut is_complete = copier.copy(&writer, jobs, lone.len(), wait);
        // A few files can take long, too.
        if !is_complete && !are_many && !is_workspace {
            tracked = self.tracked_contents(before, limits.wait);
        }
        fill(before, &copier.copied());
        before.inherit(old);
        if !copier.is_running() {
            is_complete = pending(before).is_empty();
        }
        let is_left = |job: &&Job| {
            let entry = before.entry(&job.path);
            entry.is_some_and(|it| it.content == Content::Pending) && !tracked.contains(&job.path)
        };
        let left: Vec<&Job> = lone.iter().filter(is_left).collect();
        let left_bytes = left.iter().map(|job| job.size).sum::<u64>();
        let uncopied = (!left.is_empty()).then(|| Uncopied {
            files: left.len() as u64,
            bytes,
            copied_bytes: bytes - left_bytes,
        });
        Ok(FirstCopy { tracked, is_complete, uncopied })
    }
}

/// Completes changes of files that were moved before they were copied, by the files that they became. Returns them: a turn can
/// set the time of a file that it wrote to, and moving one changes its ctime, so that size and time are all that is known.
fn complete_moved(changes: &mut [Change], before: &Manifest, after: &Manifest) -> Vec<TreePath> {
    let mut completed = Vec::new();
    if !changes.iter().any(Change::is_incomplete) {
        return completed;
    }
    let data = |it: &FileEntry| (it.stamp.inode, it.stamp.modified, it.size);
    let new = changes.iter().filter(|change| change.before.is_none());
    let new = new.filter_map(|change| after.entry(&change.path));
    let new: HashMap<_, Content> = new.map(|entry| (data(entry), entry.content)).collect();
    for change in changes.iter_mut().filter(|change| change.is_incomplete()) {
        let moved = before.entry(&change.path).and_then(|entry| new.get(&data(entry)));
        if let (Some(moved), Some(Node::File { content, .. } | Node::Link { content })) =
            (moved.filter(|moved| moved.oid().is_some()), &mut change.before)
        {
            *content = *moved;
            completed.push(change.path.clone());
        }
    }
    completed
}

impl RunningTurn {
    /// Records the state after the turn, and stores what changed. If that fails, the changes are nobody's: the turn cannot be
    /// undone, a person did not make them, and the session's records say so.
    pub fn finish(mut self) -> Result<Record, ChangesError> {
        let recorded = self.record();
        match &recorded {
            Ok(_) => self.marker.remove(&self.place),
            Err(error) => {
                let Self { place, key, .. } = &self;
                place.changes.add_not_recorded(&place.directory, key.clone(), error);
                // Turns that run at the same time know of this one all the same.
                if let Some(_lock) = place.try_lock() {
                    let _ = self.log(milliseconds());
                }
                self.marker.set_aside(place);
            }
        }
        recorded
    }

    fn record(&mut self) -> Result<Record, ChangesError> {
        let _lock = self.place.lock()?;
        let is_current = self.marker.is_current(&self.place);
        let last = if is_current { self.before.clone() } else { self.place.load()? };
        if let Some(copier) = self.place.copier() {
            fill(&mut self.before, &copier.copied());
        }
        let after = self.place.record_turn(&self.before, &last, &self.patterns)?;
        let mut changes = changes(&self.before, &after);
        if let Some(copier) = self.place.copier()
            && changes.iter().any(Change::is_incomplete)
        {
            let lost = changes.iter().filter(|change| change.is_incomplete());
            copier.copy_clones(
                &lost.map(|change| &change.path).collect(),
                self.place.deadline().left(),
            );
            fill(&mut self.before, &copier.copied());
            changes = crate::change::changes(&self.before, &after);
        }
        let mut unverified = complete_moved(&mut changes, &self.before, &after);
        let place = &self.place;
        unverified.extend(place.complete(&mut changes, &self.tracked)?);
        let repository = self.repository.take();
        let repository =
            repository.and_then(|repository| repository.change(&self.patterns, &place.patterns()));
        let mut record = Record {
            began: self.began,
            unverified,
            shared_with: place.shared_with(&self.marker.file, self.began)?,
            unread: after.unreadable(&place.directory),
            hidden: after.hidden.clone(),
            moved_in: moved_in(place.root(), &self.before, &changes, self.began),
            repository,
            lost_repositories: lost_repositories(place.root(), &self.before, &after),
            copy_failed: place.copier().and_then(|copier| copier.failure()),
            ..Record::new(self.key.clone(), Author::Agent, place.directory.clone(), changes)
        };
        self.place.changes.session(&self.key.session).add(&mut record)?;
        self.place.save_over(&last, &after)?;
        self.log(record.at)?;
        Ok(record)
    }

    /// Adds the turn to the log of ended turns.
    fn log(&self, ended: i64) -> Result<(), ChangesError> {
        let path = self.place.store.join("ended");
        let times = TurnTimes { key: self.key.clone(), began: self.began, ended: Some(ended) };
        let line =
            serde_json::to_string(&times).map_err(|error| ChangesError::damaged(&path, error))?;
        let log = File::options().append(true).create(true).open(&path);
        let mut log = log.map_err(ChangesError::io(&path))?;
        if log.metadata().is_ok_and(|found| found.len() > LOG_BYTES) {
            self.shorten(&path)?;
            log = File::options().append(true).open(&path).map_err(ChangesError::io(&path))?;
        }
        // A line that a power failure has cut stays alone.
        log.write_all(format!("\n{line}\n").as_bytes()).map_err(ChangesError::io(&path))?;
        self.place.failpoint().reach();
        Ok(())
    }

    /// Drops the older half of the log.
    fn shorten(&self, path: &Path) -> Result<(), ChangesError> {
        let log = Disk.read(path, FileKind::State).map_err(ChangesError::io(path))?;
        let middle = log.len() / 2;
        let line = log[middle..].iter().position(|&byte| byte == b'\n').unwrap_or(0);
        crate::record::write_cache(path, &log[middle + line..], self.place.failpoint())
    }
}

impl Place {
    /// Records the state now, for a person who waits for it: [`Self::state_now`] without what is ignored.
    pub(crate) fn record_state(&self, last: &Manifest) -> Result<Manifest, ChangesError> {
        self.record_written(last, &[], &Stamps::new())
    }

    /// Records the state after changes were made whose contents are in the store. `placed` are the stamps of files that have
    /// those contents.
    pub(crate) fn record_written(
        &self,
        last: &Manifest,
        changes: &[Change],
        placed: &Stamps,
    ) -> Result<Manifest, ChangesError> {
        self.state_now(last, last, None, Written { changes, placed }, Deadline::of_command())
    }

    /// Records the state after a turn: [`Self::state_now`] with what the turn created and ignored itself.
    fn record_turn(
        &self,
        earlier: &Manifest,
        last: &Manifest,
        earlier_patterns: &[u8],
    ) -> Result<Manifest, ChangesError> {
        let written = Written { changes: &[], placed: &Stamps::new() };
        self.state_now(earlier, last, Some(earlier_patterns), written, self.deadline())
    }

    /// Returns the ignore patterns that lie outside the working tree of the directory.
    fn patterns(&self) -> Vec<u8> {
        WorkTree::containing(&self.directory, self.host()).into_patterns()
    }

    /// Compares the directory with the last state and stores the contents that changed since an earlier one. What that
    /// still waits for is left to the background copy. A directory that is gone has nothing in it.
    fn state_now(
        &self,
        earlier: &Manifest,
        last: &Manifest,
        earlier_patterns: Option<&[u8]>,
        written: Written<'_>,
        deadline: Deadline,
    ) -> Result<Manifest, ChangesError> {
        let place = match self.opened_again() {
            // A workspace is restored by the next turn of its member.
            Err(ChangesError::Io { source, .. })
                if source.kind() == std::io::ErrorKind::NotFound
                    && !self.changes.is_workspace(&self.directory) =>
            {
                return Ok(Manifest::default());
            }
            opened => opened?,
        };
        let is_left = |job: &Job| {
            let entry = earlier.entry(&job.path);
            entry.is_some_and(|entry| entry.content == Content::Pending && entry.stamp == job.stamp)
        };
        let may_open = earlier_patterns.is_some() || !written.changes.is_empty();
        let mut opened = Opened::new(&place);
        let (mut state, jobs) = loop {
            let state = place.scan(last, earlier_patterns, deadline)?;
            let jobs: Vec<Job> = pending(&state).into_iter().filter(|job| !is_left(job)).collect();
            // One that is opened may hold others.
            if !may_open || !opened.open(earlier, &state, &jobs)? {
                break (state, jobs);
            }
        };
        let jobs = place.not_written(&mut state, jobs, written);
        let is_new = |job: &Job| earlier.entry(&job.path).is_none();
        let (new, changed): (Vec<Job>, Vec<Job>) = jobs.into_iter().partition(is_new);
        let new = place.writer().within_limits(new, &changed);
        let deadline = deadline.with_files(changed.len() + new.len());
        if !changed.is_empty() {
            place.copy(&mut state, &changed, deadline)?;
        }
        if !new.is_empty() {
            match place.copy(&mut state, &new, deadline) {
                // What there is no time for can be left alone: the rest of the turn can be undone.
                Err(ChangesError::OverTime { .. }) if earlier_patterns.is_some() => {}
                copied => copied?,
            }
        }
        state.inherit(last);
        opened.close(&mut state)?;
        Ok(state)
    }

    /// Sets the contents of files that are as changes have left them, which the store has. Returns the others.
    fn not_written(&self, state: &mut Manifest, jobs: Vec<Job>, written: Written<'_>) -> Vec<Job> {
        if written.changes.is_empty() {
            return jobs;
        }
        let writer = self.writer();
        let content = |job: &Job| {
            let after = change_at(written.changes, &job.path)?.after.as_ref()?;
            let oid = after.content()?.stored()?;
            let is_placed = written.placed.get(&job.path) == Some(&job.stamp);
            (is_placed || writer.has_object(job, oid)).then_some(Content::Stored(oid))
        };
        let contents = in_parts(&jobs, COMPARED_FILES, |part| {
            part.iter().map(content).collect::<Vec<Option<Content>>>()
        });
        let mut others = Vec::new();
        for (job, content) in jobs.into_iter().zip(contents.into_iter().flatten()) {
            match (content, state.file_mut(&job.path)) {
                (Some(content), Some(entry)) => entry.content = content,
                _ => others.push(job),
            }
        }
        others
    }

    /// Returns the turns that ran in the directory at the same time as one that began at a time, named by its file.
    fn shared_with(&self, of: &Path, began: i64) -> Result<Vec<TurnKey>, ChangesError> {
        let mut shared = Vec::new();
        for file in markers(self)? {
            if file != of && is_locked(&file) {
                shared.extend(read_times(&file).map(|times| times.key));
            }
        }
        // Without it, an undo would take the work of another turn for this one's.
        let log = read_if_there(&self.store.join("ended"))?;
        let lines = log.split(|&byte| byte == b'\n');
        let ended = lines.filter_map(|line| serde_json::from_slice::<TurnTimes>(line).ok());
        let overlapping = ended.filter(|times| times.ended.is_some_and(|ended| ended > began));
        shared.extend(overlapping.map(|times| times.key));
        Ok(shared)
    }

    /// Stores what changed between two states as a person's record.
    pub(crate) fn record_person(
        &self,
        old: &Manifest,
        new: &Manifest,
        next: &TurnKey,
    ) -> Result<Option<Record>, ChangesError> {
        // Nothing is reported about an unknown state.
        if !old.is_known() || self.unattributed().exists() {
            return Ok(None);
        }
        let changes = changes(old, new);
        if changes.is_empty() {
            return Ok(None);
        }
        let mut record = Record {
            unread: new.unreadable(&self.directory),
            ..Record::new(next.clone(), Author::Person, self.directory.clone(), changes)
        };
        self.changes.session(&next.session).add(&mut record)?;
        Ok(Some(record))
    }

    /// Returns the file that says that a turn since the last state could not be recorded.
    fn unattributed(&self) -> PathBuf {
        self.store.join("unattributed")
    }

    /// Attributes later changes to a person again, once the state before them is stored.
    pub(crate) fn attribute_again(&self) {
        let _ = fs::remove_file(self.unattributed());
    }

    /// Completes undos and records turns that were interrupted by a crash. Needs the lock.
    pub(crate) fn recover(&self) -> Result<(), ChangesError> {
        self.close_opened()?;
        self.recover_undo()?;
        self.clear_scratch();
        for file in markers(self)? {
            let Some(lock) = take(&file) else { continue };
            let manifest = file.with_extension("manifest");
            let Some(times) = read_times(&file).filter(|_| manifest.exists()) else {
                remove_both(&file, &manifest);
                continue;
            };
            let before = Manifest::load(&manifest)?;
            if !before.is_known() {
                let why = "it was interrupted, and the recorded state before it is damaged";
                self.changes.add_not_recorded(&self.directory, times.key, &why);
                let _ = fs::rename(&file, self.unattributed());
                remove_both(&file, &manifest);
                continue;
            }
            let after = self.record_turn(&before, &self.load()?, &self.patterns())?;
            let mut changes = changes(&before, &after);
            let mut unverified = complete_moved(&mut changes, &before, &after);
            if changes.iter().any(Change::is_incomplete) {
                let tracked = self.tracked_contents(&before, Duration::ZERO);
                unverified.extend(self.complete(&mut changes, &tracked)?);
            }
            let mut record = Record {
                began: times.began,
                unverified,
                interrupted: true,
                moved_in: moved_in(self.root(), &before, &changes, times.began),
                lost_repositories: lost_repositories(self.root(), &before, &after),
                uncertain: self.perhaps_later(&file, &before, &changes),
                shared_with: self.shared_with(&file, times.began)?,
                unread: after.unreadable(&self.directory),
                ..Record::new(times.key, Author::Agent, self.directory.clone(), changes)
            };
            let records = self.changes.session(&record.turn.session);
            let is_stored = records.load()?.iter().any(|other| {
                other.by == Author::Agent && other.turn == record.turn && other.undoes.is_none()
            });
            if !is_stored {
                records.add(&mut record)?;
            }
            self.save(&after)?;
            remove_both(&file, &manifest);
            drop(lock);
        }
        Ok(())
    }

    /// Removes copies of files that a killed process left. Those of a running one are younger.
    fn clear_scratch(&self) {
        for entry in fs::read_dir(self.scratch()).into_iter().flatten().flatten() {
            let modified = entry.metadata().and_then(|metadata| metadata.modified());
            if modified.is_ok_and(|at| at.elapsed().is_ok_and(|age| age > SCRATCH_AGE)) {
                let _ = fs::remove_file(entry.path());
            }
        }
    }

    /// Returns whether a turn is running in the directory.
    pub(crate) fn is_busy(&self) -> Result<bool, ChangesError> {
        Ok(markers(self)?.iter().any(|file| is_locked(file)))
    }
}

impl Drop for Marker {
    fn drop(&mut self) {
        // A process that is being started has a copy of the file for a moment, and would keep the lock.
        let _ = self.lock.unlock();
    }
}

impl Marker {
    fn create(place: &Place, key: &TurnKey, began: i64) -> Result<Self, ChangesError> {
        let name =
            format!("{}.{}.{}", place.changes.session(&key.session).name(), key.turn, key.attempt);
        let file = place.store.join("running").join(format!("{name}.json"));
        let manifest = file.with_extension("manifest");
        // The manifest is replaced and never written to: a link keeps this state of it.
        let _ = fs::remove_file(&manifest);
        if !place.manifest_path().exists() {
            place.save(&Manifest::default())?;
        }
        let linked = fs::hard_link(place.manifest_path(), &manifest)
            .or_else(|_| fs::copy(place.manifest_path(), &manifest).map(drop));
        linked.map_err(ChangesError::io(&manifest))?;
        place.failpoint().reach();
        let times = TurnTimes { key: key.clone(), began, ended: None };
        let text =
            serde_json::to_vec(&times).map_err(|error| ChangesError::damaged(&file, error))?;
        // It is read under the lock of the store alone, and one that a crash left incomplete names no turn.
        let mut lock = if let Some(lock) = spare(place, &file) {
            lock
        } else {
            let _ = fs::remove_file(&file);
            let lock = File::create(&file).map_err(ChangesError::io(&file))?;
            lock.try_lock().map_err(|error| ChangesError::io(&file)(error.into()))?;
            lock
        };
        place.failpoint().reach();
        lock.write_all(&text).map_err(ChangesError::io(&file))?;
        place.failpoint().reach();
        let pulse = Pulse::start(file.clone());
        Ok(Self { file, manifest, _pulse: pulse, lock })
    }

    /// Returns whether the stored state is still the one from which the turn began. A link to it is a name of the same file.
    fn is_current(&self, place: &Place) -> bool {
        use std::os::unix::fs::MetadataExt as _;
        let file = |path: &Path| fs::metadata(path).ok().map(|file| (file.dev(), file.ino()));
        let began = file(&self.manifest);
        began.is_some() && began == file(&place.manifest_path())
    }

    /// Ends the turn. Its file is kept for the next one, without its content.
    fn remove(&self, place: &Place) {
        let is_empty = self.lock.set_len(0);
        place.failpoint().reach();
        let is_kept = is_empty.and_then(|()| fs::rename(&self.file, spare_path(place)));
        if is_kept.is_err() {
            let _ = fs::remove_file(&self.file);
        }
        place.failpoint().reach();
        let _ = fs::remove_file(&self.manifest);
    }

    /// Marks the changes since the turn began as unrecorded. Renaming needs no disk space.
    fn set_aside(&self, place: &Place) {
        if fs::rename(&self.file, place.unattributed()).is_err() {
            let _ = fs::remove_file(&self.file);
        }
        let _ = fs::remove_file(&self.manifest);
    }
}

/// Returns the path of an empty file of a turn that has ended. Some file systems search long for a new one.
fn spare_path(place: &Place) -> PathBuf {
    place.store.join("running/spare")
}

/// Takes the file of a turn that has ended, locked. It may still be locked by that turn.
fn spare(place: &Place, file: &Path) -> Option<File> {
    fs::rename(spare_path(place), file).ok()?;
    let lock = File::options().write(true).open(file).ok()?;
    let is_empty = lock.metadata().is_ok_and(|found| found.len() == 0);
    (is_empty && lock.try_lock().is_ok()).then_some(lock)
}

/// Removes the files of a turn, the one that names it first.
fn remove_both(file: &Path, manifest: &Path) {
    let _ = fs::remove_file(file);
    let _ = fs::remove_file(manifest);
}

fn markers(place: &Place) -> Result<Vec<PathBuf>, ChangesError> {
    let directory = place.store.join("running");
    let mut files = Vec::new();
    for entry in fs::read_dir(&directory).map_err(ChangesError::io(&directory))? {
        let path = entry.map_err(ChangesError::io(&directory))?.path();
        if path.extension().is_some_and(|extension| extension == "json") {
            files.push(path);
        }
    }
    files.sort_unstable();
    Ok(files)
}

/// Locks the file of a turn whose process is gone.
fn take(file: &Path) -> Option<File> {
    let opened = File::options().write(true).open(file).ok()?;
    opened.try_lock().is_ok().then_some(opened)
}

fn is_locked(file: &Path) -> bool {
    file.exists() && take(file).is_none()
}

fn read_times(file: &Path) -> Option<TurnTimes> {
    let text = Disk.read(file, FileKind::State).ok()?;
    serde_json::from_slice(&text).ok()
}

/// Returns the current time in milliseconds.
pub(crate) fn milliseconds() -> i64 {
    i64::try_from(now() / 1_000_000).unwrap_or(i64::MAX)
}

/// Sorts files in the order of their copy: rules, then files without another copy. The small ones come before the large,
/// so that most are safe soon.
fn sort_for_copy(jobs: &mut [Job], is_lone: impl Fn(&Job) -> bool) {
    jobs.sort_by_key(|job| (!is_lone(job), job.path.name() != IGNORE_FILE, job.size));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::{FileKind, Stamp};

    #[test]
    fn small_files_without_another_copy_are_copied_first() {
        let job =
            |(name, size)| Job::new(TreePath::new(name), FileKind::Regular, size, Stamp::default());
        let files = [("large", 9), ("tracked", 1), ("text", 2), (".gitignore", 5)];
        let mut jobs = files.map(job);
        sort_for_copy(&mut jobs, |job| job.path != TreePath::new("tracked"));
        let sorted = jobs.map(|job| job.path.to_string());
        assert_eq!(sorted, [".gitignore", "text", "large", "tracked"]);
    }
}
