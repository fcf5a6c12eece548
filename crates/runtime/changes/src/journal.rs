//! The journal of an undo or a merge: makes many changes of files look like one, also after a crash.
//!
//! First everything is prepared beside the directory: the journal names the changes and a staging directory
//! holds the files to restore. A crash up to here changes nothing. Then the journal is committed, and from
//! there on every process that opens the store completes it before anything else. Each file is compared once more
//! before it is replaced or removed: if something else has changed it meanwhile, the changes that were made are
//! reverted. The log of the journal names what is done before it is done: nothing else is reverted.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fs::{self, DirBuilder, File, Permissions};
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use convoke_files::limit::FileKind;
use convoke_files::{Disk, Files as _};
use serde::{Deserialize, Serialize};

use crate::change::{Change, FileMode, Node, Oid};
use crate::closed::ModeChange;
use crate::content::{COMPARED_FILES, batches, in_parts, read};
use crate::entry::{Entries, Entry, Found};
use crate::error::ChangesError;
use crate::git::Deadline;
use crate::manifest::Stamp;
use crate::record::{Record, write_whole};
use crate::scan::is_gone;
use crate::store::Place;
use crate::tree_path::TreePath;
use crate::undo::{Stamps, matches, nodes, nodes_and_stamps};

/// The permissions that changing a directory needs.
const OWNER_ALL: FileMode = 0o700;
/// The files up to which each is flushed alone. One flush of the whole file system is faster for more of them.
const FLUSHED_FILES: usize = 64;
/// The changes that are noted in the log of a journal at once, because each note waits for the disk. After a crash, those
/// of the last note count as begun.
const NOTED_CHANGES: usize = 64;
/// The files between two reports of the progress.
const PROGRESS_FILES: usize = 64;

/// An undo that is prepared or running.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Journal {
    /// The record that the undo becomes; its changes are the ones to make.
    record: Record,
    /// The directory of the files to restore, each named by the number of its change.
    staging: PathBuf,
    /// The stamps of those that this process has staged.
    #[serde(skip)]
    staged: HashMap<usize, Stamp>,
}

impl Journal {
    /// Writes the journal of an undo and stages its files. Changes nothing in the directory.
    pub(crate) fn write(place: &Place, record: Record) -> Result<Self, ChangesError> {
        if let Some((path, error)) =
            unwritable_directories(place, &record.changes).into_iter().next()
        {
            return Err(ChangesError::io(&path.under(&place.directory))(error));
        }
        let staging = staging(place, &record);
        let mut journal = Self { record, staging, staged: HashMap::new() };
        let staging = &journal.staging;
        if !staging.starts_with(&place.store)
            && fs::symlink_metadata(journal.staging_in(place)).is_ok()
        {
            let exists = io::Error::from(io::ErrorKind::AlreadyExists);
            return Err(ChangesError::io(staging)(exists));
        }
        let path = path(place);
        let text =
            serde_json::to_vec(&journal).map_err(|error| ChangesError::damaged(&path, error))?;
        let _ = fs::remove_file(DoneLog::path(place));
        write_whole(&path, &text, place.failpoint())?;
        match journal.stage(place, &journal.record.changes) {
            Ok(staged) => {
                journal.staged = staged;
                Ok(journal)
            }
            Err(error) => {
                journal.clear(place);
                Err(error)
            }
        }
    }

    /// Commits the journal, makes its changes, and stores the record. Fails without a change if files changed since the
    /// changes were planned.
    pub(crate) fn run(self, place: &Place) -> Result<Record, ChangesError> {
        let mut log = DoneLog::open(place)?;
        let expected = open_directories(place, &self.record.changes, &mut log)
            .and_then(|()| self.expected(place, &log));
        let expected = match expected {
            Ok(expected) => expected,
            Err(error) => {
                log.restore_modes(place)?;
                self.clear(place);
                return Err(error);
            }
        };
        write_whole(&committed(place), b"", place.failpoint())?;
        // The directory may be on another file system, where a change can reach the disk before this.
        let path = place.store.join("journal");
        let flushed = File::open(&path).and_then(|directory| directory.sync_all());
        flushed.map_err(ChangesError::io(&path))?;
        match self.make(place, &self.record.changes, Some(&expected), &mut log) {
            Ok(placed) => {
                let record = self.add_record(place)?;
                self.complete(place, &placed)?;
                Ok(record)
            }
            Err(error) => Err(self.rolled_back(place, error, &log)),
        }
    }

    /// Reverts what was done before an error, and returns the error.
    fn rolled_back(&self, place: &Place, error: ChangesError, log: &DoneLog) -> ChangesError {
        match self.roll_back(place, log) {
            Ok(()) => error,
            Err(reason) => {
                let (error, reason) = (Box::new(error), Box::new(reason));
                ChangesError::HalfDone { error, reason }
            }
        }
    }

    /// Returns the stamps of the files to replace or remove. Staging them may have taken long, so that they are compared
    /// again.
    fn expected(&self, place: &Place, log: &DoneLog) -> Result<Stamps, ChangesError> {
        let changes = &self.record.changes;
        let paths = changes.iter().map(|it| &it.path);
        let (now, expected) = nodes_and_stamps(place, paths, Deadline::of_command())?;
        let is_changed = |change: &&Change| {
            let mut found = now.get(&change.path).cloned().flatten();
            // A directory that was opened had another mode.
            if let (Some(Node::Directory { mode }), Some(opened)) =
                (&mut found, log.modes.get(&change.path))
            {
                *mode = opened.had;
            }
            !matches(found.as_ref(), change.before.as_ref())
        };
        let changed = changes.iter().filter(is_changed);
        let paths: Vec<TreePath> = changed.map(|change| change.path.clone()).collect();
        if paths.is_empty() { Ok(expected) } else { Err(ChangesError::Conflicts { paths }) }
    }

    /// Stores the record.
    fn add_record(&self, place: &Place) -> Result<Record, ChangesError> {
        let mut record = self.record.clone();
        place.changes.session(&record.turn.session).add(&mut record)?;
        Ok(record)
    }

    /// Returns whether the record was stored before the process was killed.
    fn is_stored(&self, place: &Place) -> Result<bool, ChangesError> {
        let name =
            |record: &Record| (record.at, record.undoes, record.part_of, record.applied.clone());
        let records = place.changes.session(&self.record.turn.session).load()?;
        let own = name(&self.record);
        Ok(records.iter().any(|other| other.by == self.record.by && name(other) == own))
    }

    /// Stores the new state, and removes the journal.
    fn complete(self, place: &Place, placed: &Stamps) -> Result<(), ChangesError> {
        // It may be in the directory, which is recorded without it.
        let _ = fs::remove_dir_all(self.staging_in(place));
        place.failpoint().reach();
        let last = place.load()?;
        let state = place.record_written(&last, &self.record.changes, placed)?;
        place.save(&state)?;
        self.clear(place);
        Ok(())
    }

    /// Removes the journal; the staging directory goes first.
    fn clear(&self, place: &Place) {
        let _ = fs::remove_dir_all(self.staging_in(place));
        place.failpoint().reach();
        let _ = fs::remove_file(path(place));
        place.failpoint().reach();
        let _ = fs::remove_file(committed(place));
        let _ = fs::remove_file(DoneLog::path(place));
    }

    /// Returns the path to the staging directory, through the descriptor of the recorded directory if it is in that.
    fn staging_in(&self, place: &Place) -> PathBuf {
        let below = self.staging.strip_prefix(&place.directory);
        match below.ok().filter(|_| !self.staging.starts_with(&place.store)) {
            Some(below) => place.root().join(below),
            None => self.staging.clone(),
        }
    }

    /// Reverts the changes that were made before one failed: those that the log names. What is somebody else's since is not
    /// touched.
    fn roll_back(&self, place: &Place, log: &DoneLog) -> Result<(), ChangesError> {
        let made = self.record.changes.iter().enumerate();
        let made: Vec<&Change> = made
            .filter(|(number, _)| log.made.contains(number))
            .map(|(_, change)| change)
            .collect();
        let now = nodes(place, made.iter().map(|it| &it.path), Deadline::of_command())?;
        let is_ours = |change: &&&Change| {
            let found = now.get(&change.path).and_then(Option::as_ref);
            // The modes of directories are set in the end. What was removed may not have been replaced yet.
            let is_directory = matches!(found, Some(Node::Directory { .. }));
            found.is_none() || is_directory || matches(found, change.after.as_ref())
        };
        let reversed: Vec<Change> = made.iter().filter(is_ours).map(|it| it.reversed()).collect();
        self.stage(place, &reversed)?;
        self.make(place, &reversed, None, &mut DoneLog::default())?;
        log.restore_modes(place)?;
        self.clear(place);
        Ok(())
    }

    /// Writes the files to restore into the staging directory, a new one. Returns their stamps.
    fn stage(
        &self,
        place: &Place,
        changes: &[Change],
    ) -> Result<HashMap<usize, Stamp>, ChangesError> {
        let staging = self.staging_in(place);
        let _ = fs::remove_dir_all(&staging);
        let parent = staging.parent().unwrap_or(&staging);
        let created = fs::create_dir_all(parent)
            .and_then(|()| DirBuilder::new().mode(OWNER_ALL).create(&staging));
        created.map_err(ChangesError::io(&self.staging))?;
        place.failpoint().reach();
        let wanted: Vec<(usize, &Node, Oid)> = changes
            .iter()
            .enumerate()
            .filter_map(|(number, change)| {
                let node = change.after.as_ref()?;
                Some((number, node, node.content()?.stored()?))
            })
            .collect();
        let limit = place.limits().file_bytes;
        let deadline = Deadline::of_command();
        let is_flushed_at_once = wanted.len() > FLUSHED_FILES;
        let mut staged = HashMap::new();
        for batch in batches(&wanted, |(_, node, _)| node.size()) {
            let oids: Vec<Oid> = batch.iter().map(|(_, _, oid)| *oid).collect();
            // The directory itself may be gone.
            let contents = read(&place.git, &place.git.repository, &oids, limit, deadline)?;
            let missing = || ChangesError::damaged(&place.git.repository, "an object is missing");
            let stage = |(number, node, oid): &(usize, &Node, Oid)| {
                let path = staging.join(number.to_string());
                let content = contents.get(oid).ok_or_else(missing)?;
                let staged = stage_node(&path, node, content, !is_flushed_at_once);
                let stamp = staged.map_err(ChangesError::io(&path))?;
                place.failpoint().reach();
                Ok((*number, stamp))
            };
            let parts = in_parts(batch, COMPARED_FILES, |part| {
                part.iter().map(stage).collect::<Result<Vec<_>, ChangesError>>()
            });
            for part in parts {
                staged.extend(part?);
            }
            place.changes.progress.report(staged.len(), 2 * wanted.len());
        }
        if is_flushed_at_once {
            flush(&staging, wanted.iter().map(|(number, _, _)| number))?;
        }
        Ok(staged)
    }

    /// Applies changes: removes entries, creates directories, then moves the staged files into place. Fails at a file that
    /// is not one of the expected ones. Returns the stamps of files that are as they were staged, whatever is written to them
    /// later: that changes the stamp.
    fn make(
        &self,
        place: &Place,
        changes: &[Change],
        expected: Option<&Stamps>,
        log: &mut DoneLog,
    ) -> Result<Stamps, ChangesError> {
        let restored;
        let place = if changes.iter().any(|change| change.after.is_some()) {
            restored = place.restored()?;
            &restored
        } else {
            place
        };
        let (root, directory) = (place.root(), &place.directory);
        let staging = self.staging_in(place);
        open_directories(place, changes, log)?;
        let mut untouched = Untouched { expected, inodes: HashSet::new() };
        let changed = |path: &TreePath| ChangesError::Conflicts { paths: vec![path.clone()] };
        let by_depth = |change: &&(usize, &Change)| change.1.path.depth();
        let mut numbered: Vec<(usize, &Change)> = changes.iter().enumerate().collect();
        numbered.sort_by_key(|change| std::cmp::Reverse(by_depth(&change)));
        let mut entries = Entries::below(root);
        // What was a file and becomes another one is replaced below.
        let stays = |change: &Change| {
            let becomes_file = matches!(change.after, Some(Node::File { .. } | Node::Link { .. }));
            becomes_file && expected.is_some_and(|it| it.contains_key(&change.path))
        };
        for (at_change, (_, change)) in numbered.iter().enumerate() {
            if stays(change) {
                continue;
            }
            let at = change.path.under(directory);
            let found = entries.open(&change.path).and_then(|entry| Ok((entry.found()?, entry)));
            let (found, entry) = match found {
                Ok(found) => found,
                // A link on the way leads elsewhere, where nothing is ours.
                Err(error) if is_gone(&error) || is_link(&error) => continue,
                Err(error) => return Err(ChangesError::io(&at)(error)),
            };
            let goes = match &change.after {
                None => true,
                Some(Node::Directory { .. }) => !found.is_directory,
                Some(_) => found.is_directory,
            };
            if goes {
                if !untouched.contains(&change.path, &found) {
                    return Err(changed(&change.path));
                }
                log.note_made(&numbered[at_change..])?;
                untouched.alter(&found);
                let is_leftover = found.is_directory && change.after.is_none();
                match entry.remove(found) {
                    // A directory that holds something else stays.
                    Err(error)
                        if is_leftover && error.kind() == io::ErrorKind::DirectoryNotEmpty => {}
                    removed => removed.map_err(ChangesError::io(&at))?,
                }
                place.failpoint().reach();
            }
        }
        numbered.reverse();
        let mut entries = Entries::below(root);
        for (at_change, (_, change)) in numbered.iter().enumerate() {
            if matches!(change.after, Some(Node::Directory { .. })) {
                log.note_made(&numbered[at_change..])?;
                let made = entries.create(&change.path);
                let made = made.and_then(|entry| entry.create_directory());
                made.map_err(ChangesError::io(&change.path.under(directory)))?;
                place.failpoint().reach();
            }
        }
        let mut placed = Stamps::new();
        for (done, (number, change)) in numbered.iter().enumerate() {
            if done % PROGRESS_FILES == 0 {
                place.changes.progress.report(numbered.len() + done, 2 * numbered.len());
            }
            let staged = staging.join(number.to_string());
            if fs::symlink_metadata(&staged).is_err() {
                continue;
            }
            let at = change.path.under(directory);
            let entry = entries.create(&change.path).map_err(ChangesError::io(&at))?;
            let found = entry.found().ok();
            if found.is_some_and(|found| !untouched.contains(&change.path, &found)) {
                return Err(changed(&change.path));
            }
            log.note_made(&numbered[done..])?;
            if let Some(found) = &found {
                untouched.alter(found);
            }
            // A file that only has another mode stays the same file, with its group and its other names.
            if is_of_mode_alone(change) && found.is_some_and(|found| !found.is_directory) {
                let set =
                    change.after.as_ref().and_then(Node::mode).map(|it| entry.set_file_mode(it));
                if set.is_some_and(|set| set.is_ok()) {
                    fs::remove_file(&staged).map_err(ChangesError::io(&staged))?;
                    place.failpoint().reach();
                    continue;
                }
            }
            let beside = format!("{}.{number}", hidden_name(&self.record));
            let moved = entry.replace_by(&staged, Path::new(&beside));
            let is_moved = moved.map_err(ChangesError::io(&at))?;
            place.failpoint().reach();
            let staged = self.staged.get(number).filter(|_| is_moved && expected.is_some());
            if let (Some(staged), Ok(found)) = (staged, entry.found())
                && found.stamp.is_moved(staged)
            {
                placed.insert(change.path.clone(), found.stamp);
            }
        }
        place.changes.progress.report(2 * numbered.len(), 2 * numbered.len());
        let mut modes = BTreeMap::new();
        for (path, change) in &log.modes {
            // What a person has set since the process was killed is theirs.
            let found = directory_at(root, path)?;
            if found.is_some_and(|(_, found)| change.is_as_set(&found)) {
                modes.insert(path.clone(), change.had);
            }
        }
        modes.extend(changes.iter().filter_map(|change| match change.after {
            Some(Node::Directory { mode }) => Some((change.path.clone(), mode)),
            _ => None,
        }));
        for (path, mode) in modes.into_iter().rev() {
            let Some((entry, found)) = directory_at(root, &path)? else { continue };
            if found.mode != mode {
                // The mode of a directory that was not opened is part of a change, which is noted.
                if log.modes.contains_key(&path) {
                    log.note_mode(&path, &found, mode)?;
                }
                let set = entry.set_directory_mode(mode);
                set.map_err(ChangesError::io(&path.under(directory)))?;
                place.failpoint().reach();
            }
        }
        Ok(placed)
    }
}

/// The files that nothing but this undo has changed since they were compared.
struct Untouched<'a> {
    /// Their stamps; `None` if any file may be there.
    expected: Option<&'a Stamps>,
    /// The files of which this undo has removed a name or set the mode, which changes the stamps of their other names.
    inodes: HashSet<u64>,
}

impl Untouched<'_> {
    fn contains(&self, path: &TreePath, found: &Found) -> bool {
        let is_same = |expected: &Stamp| {
            *expected == found.stamp
                || self.inodes.contains(&found.stamp.inode) && found.stamp.is_written_as(expected)
        };
        found.is_directory || self.expected.is_none_or(|it| it.get(path).is_some_and(is_same))
    }

    /// Notes that a name of a file is removed, or its mode set.
    fn alter(&mut self, found: &Found) {
        self.inodes.insert(found.stamp.inode);
    }
}

/// The log of a journal: what it has done, noted before it is done.
#[derive(Debug, Default)]
struct DoneLog {
    /// The file; `None` for what is not completed after a crash.
    file: Option<(PathBuf, File)>,
    /// The numbers of the changes that were begun.
    made: BTreeSet<usize>,
    /// The numbers in the file: those that were begun, and some that come next.
    noted: BTreeSet<usize>,
    /// The modes of directories that were changed: the first and the last one.
    modes: BTreeMap<TreePath, ModeChange>,
}

/// A line of the log.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Done {
    Made(Vec<usize>),
    Mode(TreePath, ModeChange),
}

impl DoneLog {
    fn path(place: &Place) -> PathBuf {
        place.store.join("journal/done")
    }

    /// Opens the log, with what a process that was killed has noted.
    fn open(place: &Place) -> Result<Self, ChangesError> {
        let path = Self::path(place);
        let file = File::options().append(true).create(true).open(&path);
        let file = file.map_err(ChangesError::io(&path))?;
        let text = Disk.read(&path, FileKind::Record).map_err(ChangesError::io(&path))?;
        let mut log = Self { file: Some((path, file)), ..Self::default() };
        for line in text.split(|&byte| byte == b'\n') {
            match serde_json::from_slice(line) {
                Ok(Done::Made(numbers)) => {
                    log.made.extend(&numbers);
                    log.noted.extend(numbers);
                }
                Ok(Done::Mode(path, change)) => log.add_mode(path, change),
                // A line that was not written whole was not acted upon.
                Err(_) => {}
            }
        }
        Ok(log)
    }

    /// Notes that the first of some changes is begun, which are made in this order.
    fn note_made(&mut self, next: &[(usize, &Change)]) -> Result<(), ChangesError> {
        let Some(&(number, _)) = next.first() else { return Ok(()) };
        self.made.insert(number);
        if self.noted.contains(&number) {
            return Ok(());
        }
        let numbers: Vec<usize> =
            next.iter().take(NOTED_CHANGES).map(|&(number, _)| number).collect();
        self.noted.extend(&numbers);
        self.write(&Done::Made(numbers))
    }

    /// Notes that the mode of a directory is changed.
    fn note_mode(
        &mut self,
        path: &TreePath,
        found: &Found,
        set: FileMode,
    ) -> Result<(), ChangesError> {
        let change = ModeChange { had: found.mode, set, inode: found.stamp.inode };
        self.add_mode(path.clone(), change);
        self.write(&Done::Mode(path.clone(), change))
    }

    /// Adds a change to the earlier ones of a directory.
    fn add_mode(&mut self, path: TreePath, change: ModeChange) {
        let known = self.modes.get(&path).filter(|known| known.inode == change.inode);
        let had = known.map_or(change.had, |known| known.had);
        self.modes.insert(path, ModeChange { had, ..change });
    }

    fn write(&mut self, done: &Done) -> Result<(), ChangesError> {
        let Some((path, file)) = &mut self.file else { return Ok(()) };
        let line = serde_json::to_string(done).map_err(|it| ChangesError::damaged(path, it))?;
        // What is done may reach the disk before the note of it.
        let written = file.write_all(format!("\n{line}\n").as_bytes());
        written.and_then(|()| file.sync_data()).map_err(ChangesError::io(path))
    }

    /// Gives directories the modes that they had, unless something else has changed them since.
    fn restore_modes(&self, place: &Place) -> Result<(), ChangesError> {
        let root = place.root();
        for (path, change) in self.modes.iter().rev() {
            let Some((entry, found)) = directory_at(root, path)? else { continue };
            if change.is_as_set(&found) {
                let set = entry.set_directory_mode(change.had);
                set.map_err(ChangesError::io(&path.under(&place.directory)))?;
                place.failpoint().reach();
            }
        }
        Ok(())
    }
}

impl Place {
    /// Completes an undo that was committed, and forgets one that was not. Needs the lock.
    pub(crate) fn recover_undo(&self) -> Result<(), ChangesError> {
        let path = path(self);
        let text = match Disk.read(&path, FileKind::Record) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let _ = fs::remove_file(committed(self));
                return Ok(());
            }
            Err(error) => return Err(ChangesError::io(&path)(error)),
        };
        let mut journal: Journal =
            serde_json::from_slice(&text).map_err(|error| ChangesError::damaged(&path, error))?;
        let mut log = DoneLog::open(self)?;
        if !committed(self).exists() {
            log.restore_modes(self)?;
            journal.clear(self);
            return Ok(());
        }
        open_directories(self, &journal.record.changes, &mut log)?;
        // Files that were changed since the crash stay as they are.
        let paths = journal.record.changes.iter().map(|change| &change.path);
        let now = nodes(self, paths, Deadline::of_command())?;
        let is_as_recorded = |change: &Change| {
            let found = now.get(&change.path).and_then(Option::as_ref);
            let both = [change.before.as_ref(), change.after.as_ref()];
            found.is_none()
                || matches!(found, Some(Node::Directory { .. }))
                || both.into_iter().any(|node| matches(found, node))
        };
        let changes = journal.record.changes.iter();
        let replaced: BTreeSet<TreePath> =
            changes.filter(|it| is_as_recorded(it)).map(|it| it.path.clone()).collect();
        // A directory that was replaced by a link or a file leads elsewhere.
        let is_elsewhere = |above: TreePath| {
            let found = fs::symlink_metadata(above.under(self.root()));
            found.is_ok_and(|found| !found.is_dir()) && !replaced.contains(&above)
        };
        let is_ours = |change: &Change| {
            let mut above = change.path.ancestors().filter(|above| !above.is_root());
            is_as_recorded(change) && !above.any(is_elsewhere)
        };
        for (number, change) in journal.record.changes.iter().enumerate() {
            if !is_ours(change) {
                let _ = fs::remove_file(journal.staging_in(self).join(number.to_string()));
            }
        }
        let ours: Vec<Change> = journal
            .record
            .changes
            .iter()
            .map(|change| if is_ours(change) { change.clone() } else { unchanged(change) })
            .collect();
        if let Err(error) = journal.make(self, &ours, None, &mut log) {
            return Err(journal.rolled_back(self, error, &log));
        }
        let others = journal.record.changes.iter().filter(|change| !is_ours(change));
        let left_alone = others.map(|change| change.path.clone()).collect();
        journal.record.changes.retain(|change| is_ours(change));
        let records = self.changes.session(&journal.record.turn.session);
        records.add_notice(&journal.record, left_alone)?;
        if !journal.is_stored(self)? {
            journal.add_record(self)?;
        }
        journal.complete(self, &Stamps::new())
    }
}

/// Returns whether a change keeps the content of a file.
fn is_of_mode_alone(change: &Change) -> bool {
    match (&change.before, &change.after) {
        (Some(Node::File { content: before, .. }), Some(Node::File { content: after, .. })) => {
            before.oid().is_some() && before.oid() == after.oid()
        }
        _ => false,
    }
}

/// Returns a change that does nothing, to keep the numbers of the others.
fn unchanged(change: &Change) -> Change {
    Change {
        path: change.path.clone(),
        before: change.before.clone(),
        after: change.before.clone(),
    }
}

/// Returns the directories of changed entries that cannot be written to, with the reason.
pub(crate) fn unwritable_directories(
    place: &Place,
    changes: &[Change],
) -> Vec<(TreePath, io::Error)> {
    use rustix::fs::{Access, access};
    // The store is ours. A directory of ours is made writable.
    let own = fs::metadata(&place.store).ok().map(|metadata| metadata.uid());
    let parents: BTreeSet<TreePath> =
        changes.iter().filter_map(|change| change.path.parent()).collect();
    let error = |path: TreePath| {
        let at = path.under(place.root());
        let metadata = fs::symlink_metadata(&at).ok().filter(fs::Metadata::is_dir)?;
        let error = access(&at, Access::WRITE_OK | Access::EXEC_OK).err()?;
        let is_made_writable = error == rustix::io::Errno::ACCESS && Some(metadata.uid()) == own;
        (!is_made_writable).then(|| (path, error.into()))
    };
    parents.into_iter().filter_map(error).collect()
}

fn path(place: &Place) -> PathBuf {
    place.store.join("journal/undo.json")
}

fn committed(place: &Place) -> PathBuf {
    place.store.join("journal/committed")
}

/// Returns the staging directory, which is on the file system of the directory: in the store if that is on the same one.
fn staging(place: &Place, record: &Record) -> PathBuf {
    let device = |path: &Path| {
        let mut found = path.ancestors().filter_map(|at| fs::metadata(at).ok());
        found.next().map(|metadata| metadata.dev())
    };
    if place.is_gone() || device(&place.store) == device(place.root()) {
        place.store.join("journal/staging")
    } else {
        place.directory.join(hidden_name(record))
    }
}

/// Returns a name for temporary files in the directory, which nothing else has.
fn hidden_name(record: &Record) -> String {
    format!(".convoke-undo-{}", record.at)
}

/// Makes the directories of changed entries writable; their modes are set at the end.
fn open_directories(
    place: &Place,
    changes: &[Change],
    log: &mut DoneLog,
) -> Result<(), ChangesError> {
    let root = place.root();
    let parents: BTreeSet<TreePath> =
        changes.iter().flat_map(|change| change.path.ancestors()).collect();
    for path in parents {
        let Some((entry, found)) = directory_at(root, &path)? else { continue };
        if found.mode & OWNER_ALL != OWNER_ALL {
            log.note_mode(&path, &found, found.mode | OWNER_ALL)?;
            let set = entry.set_directory_mode(found.mode | OWNER_ALL);
            set.map_err(ChangesError::io(&path.under(&place.directory)))?;
            place.failpoint().reach();
        }
    }
    Ok(())
}

/// Writes a file to restore. Returns its stamp.
fn stage_node(path: &Path, node: &Node, content: &[u8], is_flushed: bool) -> io::Result<Stamp> {
    let metadata = match node {
        Node::File { mode, .. } => {
            let mut file = File::create(path)?;
            file.write_all(content)?;
            file.set_permissions(Permissions::from_mode(*mode))?;
            if is_flushed {
                file.sync_data()?;
            }
            file.metadata()?
        }
        Node::Link { .. } => {
            symlink(std::ffi::OsStr::from_bytes(content), path)?;
            fs::symlink_metadata(path)?
        }
        // It has no content.
        Node::Directory { .. } => return Err(io::ErrorKind::InvalidInput.into()),
    };
    Ok(Stamp::from_metadata(&metadata))
}

/// Flushes many staged files to the disk.
#[cfg(target_os = "linux")]
fn flush<'a>(
    staging: &Path,
    _numbers: impl Iterator<Item = &'a usize>,
) -> Result<(), ChangesError> {
    let flushed = File::open(staging).and_then(|opened| Ok(rustix::fs::syncfs(opened)?));
    flushed.map_err(ChangesError::io(staging))
}

/// Flushes many staged files to the disk.
#[cfg(not(target_os = "linux"))]
fn flush<'a>(staging: &Path, numbers: impl Iterator<Item = &'a usize>) -> Result<(), ChangesError> {
    for path in numbers.map(|number| staging.join(number.to_string())) {
        let is_file = fs::symlink_metadata(&path).is_ok_and(|found| found.is_file());
        if is_file {
            let flushed = File::open(&path).and_then(|file| file.sync_data());
            flushed.map_err(ChangesError::io(&path))?;
        }
    }
    Ok(())
}

/// Returns a directory, if there is one at a path.
fn directory_at(root: &Path, path: &TreePath) -> Result<Option<(Entry, Found)>, ChangesError> {
    // The root has no name of its own.
    let named = if path.is_root() { TreePath::new(".") } else { path.clone() };
    let found = Entry::open(root, &named).and_then(|entry| Ok((entry.found()?, entry)));
    match found {
        Ok((found, entry)) => Ok(found.is_directory.then_some((entry, found))),
        Err(error) if is_gone(&error) || is_link(&error) => Ok(None),
        Err(error) => Err(ChangesError::io(&path.under(root))(error)),
    }
}

/// Returns whether an error says that a directory on the way is a link.
fn is_link(error: &io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error())
}
