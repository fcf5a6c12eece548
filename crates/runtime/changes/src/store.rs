//! The store: Convoke's directory of records, and one private repository for each recorded directory.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::ErrorKind::NotFound;
use std::path::{Path, PathBuf};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, PoisonError};

use convoke_files::{Disk, Files as _};
use sha2::{Digest as _, Sha256};

use crate::change::Oid;
use crate::content::{ContentWriter, Copied, CopiedFile, Job, fill, in_parts};
use crate::copier::Copier;
use crate::error::ChangesError;
use crate::git::{Deadline, Git, Host};
use crate::held::HeldDirectory;
use crate::limits::Limits;
use crate::manifest::{FileEntry, FileKind, LINK_MODE, Manifest, ManifestHash, manifest_hash};
use crate::progress::Progress;
use crate::record::{Record, SessionRecords, private_directory, write_cache, write_whole};
use crate::scan::Scan;
use crate::tree_path::hex;
use crate::workspace::WorkspacePath;
use convoke_files::failpoint::Failpoint;

/// The attributes of every file: its bytes are recorded as they are.
pub(crate) const ATTRIBUTES: &str =
    "* -text !eol !crlf !filter !ident !working-tree-encoding -diff -merge\n";
/// The files that are worth another thread when they are copied.
const FILES_OF_THREAD: usize = 512;
const HEAD: &str = "ref: refs/heads/convoke\n";
const CONFIG: &str = "[core]\n\trepositoryformatversion = 0\n\tlogAllRefUpdates = false\n";

/// Records changes and takes them back. Clones share their background copies.
#[derive(Debug, Clone)]
pub struct Changes {
    /// The directory `changes` of Convoke's data.
    root: PathBuf,
    /// The directory `workspaces` of Convoke's data.
    pub(crate) workspaces: PathBuf,
    host: Host,
    limits: Limits,
    failpoint: Failpoint,
    pub(crate) progress: Progress,
    copiers: Arc<Mutex<HashMap<PathBuf, Arc<Copier>>>>,
    /// The last state of each directory, by the file that has it, with the hash of that.
    states: Arc<Mutex<HashMap<PathBuf, (ManifestHash, Manifest)>>>,
}

impl Changes {
    /// Creates a handle on the store in Convoke's data directory. Nothing is written yet.
    pub fn new(data: &Path, mut host: Host) -> Self {
        // Recorded directories are compared with it, and their paths have no links.
        if let Ok(home) = Disk.canonicalize(&host.home) {
            host.home = home;
        }
        Self {
            root: data.join("changes"),
            workspaces: data.join("workspaces"),
            host,
            limits: Limits::default(),
            failpoint: Failpoint::default(),
            progress: Progress::default(),
            copiers: Arc::default(),
            states: Arc::default(),
        }
    }

    /// Sets the limits.
    #[must_use]
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Ends the process at a write, for crash tests.
    #[must_use]
    pub fn with_failpoint(mut self, failpoint: Failpoint) -> Self {
        self.failpoint = failpoint;
        self
    }

    /// Reports the progress of undos and merges.
    #[must_use]
    pub fn with_progress(mut self, progress: Progress) -> Self {
        self.progress = progress;
        self
    }

    /// Returns the records of a session, the oldest first. Turns and undos that were interrupted by a crash
    /// are completed first.
    pub fn records(&self, session: &str) -> Result<Vec<Record>, ChangesError> {
        self.recover(session)?;
        self.session(session).load()
    }

    /// Completes what was interrupted in the directories of a session.
    pub(crate) fn recover(&self, session: &str) -> Result<(), ChangesError> {
        for directory in self.session(session).directories()? {
            if directory.is_dir() || self.is_recorded(&directory) {
                let place = match self.place(&directory) {
                    // What took its place is not recorded, and hides nothing that is.
                    Err(ChangesError::Replaced { .. }) => continue,
                    place => place?,
                };
                let _lock = place.lock()?;
                place.recover()?;
            }
        }
        Ok(())
    }

    /// Copies the records of some turns to a copy of their session. Workspaces are not copied.
    pub fn fork(
        &self,
        from: &str,
        to: &str,
        is_copied: impl Fn(u64) -> bool,
    ) -> Result<(), ChangesError> {
        let copy = self.session(to);
        let records = self.records(from)?;
        for mut record in records.into_iter().filter(|record| is_copied(record.turn.turn)) {
            to.clone_into(&mut record.turn.session);
            if record.not_recorded.is_none() {
                copy.visit(&record.directory)?;
            }
            copy.add_as(&record)?;
        }
        Ok(())
    }

    /// Removes the records and the workspaces of a session, and the contents that no other record needs.
    pub fn remove(&self, session: &str) -> Result<(), ChangesError> {
        let records = self.session(session);
        let directories = records.directories()?;
        self.remove_workspaces(session)?;
        records.remove()?;
        for directory in directories {
            self.prune(&directory)?;
        }
        Ok(())
    }

    pub(crate) fn failpoint(&self) -> &Failpoint {
        &self.failpoint
    }

    pub(crate) fn sessions_directory(&self) -> PathBuf {
        self.root.join("sessions")
    }

    pub(crate) fn session(&self, session: &str) -> SessionRecords {
        SessionRecords::new(&self.root, session, self.failpoint.clone())
    }

    /// Opens the store of a directory, by its real path. What has taken the place of the directory is refused.
    pub(crate) fn place(&self, directory: &Path) -> Result<Place, ChangesError> {
        let held = match HeldDirectory::open(directory) {
            // A directory that was recorded and is gone can be restored.
            Err(ChangesError::Io { source, .. })
                if source.kind() == NotFound && self.is_recorded(directory) =>
            {
                None
            }
            held => Some(held?),
        };
        let directory = directory.to_owned();
        if directory.parent().is_none() || self.host.home.starts_with(&directory) {
            return Err(ChangesError::NotAProject { path: directory });
        }
        let workspace = self.workspace_path(&directory);
        let store = match &workspace {
            Some(workspace) => workspace.store(),
            None => self.store_of(&store_name(&directory)),
        };
        let git = self.repository_of(&directory, &store);
        let held = held.unwrap_or_else(|| HeldDirectory::gone(&named_in(&store)));
        let place = Place { changes: self.clone(), directory, held, store, git };
        place.create(workspace.is_some())?;
        Ok(place)
    }

    /// Returns whether there is a store of a directory, by the path that it had when it was recorded.
    fn is_recorded(&self, directory: &Path) -> bool {
        named_in(&self.store_of(&store_name(directory))).exists()
    }

    /// Opens the store of a directory that was recorded, whatever is in its place. Only what is recorded may be read.
    pub(crate) fn stored_place(&self, directory: &Path) -> Option<Place> {
        let store = self.store_of(&store_name(directory));
        let held = HeldDirectory::gone(&named_in(&store));
        let git = self.repository_of(directory, &store);
        let (changes, directory) = (self.clone(), directory.to_owned());
        let is_recorded = self.is_recorded(&directory);
        is_recorded.then_some(Place { changes, directory, held, store, git })
    }

    /// Opens the store of a workspace whose working tree may be gone. Only what is recorded may be read.
    pub(crate) fn recorded_place(&self, workspace: &WorkspacePath, tree: &Path) -> Place {
        let store = workspace.store();
        let git = self.repository_of(tree, &store);
        let held = HeldDirectory::gone(&named_in(&store));
        Place { changes: self.clone(), directory: tree.to_owned(), held, store, git }
    }

    /// Returns the directory of a store.
    pub(crate) fn store_of(&self, name: &str) -> PathBuf {
        self.root.join("stores").join(name)
    }

    /// Returns the repository with the recorded contents of a directory, which may be gone: a workspace has
    /// that of its project.
    pub(crate) fn repository_of(&self, directory: &Path, scratch: &Path) -> Git {
        let name = match self.workspace_path(directory) {
            Some(workspace) => workspace.project_store,
            None => store_name(directory),
        };
        let of_agents = [directory, &self.workspaces];
        Git::new(&self.host, self.store_of(&name).join("git"), scratch, &of_agents)
    }

    /// Reads recorded contents of a directory, each up to a limit of bytes.
    pub(crate) fn contents(
        &self,
        directory: &Path,
        oids: &[Oid],
        limit: u64,
    ) -> Result<HashMap<Oid, Vec<u8>>, ChangesError> {
        let git = self.repository_of(directory, &self.root);
        let repository = git.repository.clone();
        crate::content::read(&git, &repository, oids, limit, Deadline::after(&self.limits))
    }
}

/// Returns the name of a directory's store.
pub(crate) fn store_name(directory: &Path) -> String {
    let digest = Sha256::digest(directory.as_os_str().as_encoded_bytes());
    hex(&digest[..16])
}

/// Returns the file of a store that names its directory.
fn named_in(store: &Path) -> PathBuf {
    store.join("directory")
}

/// A recorded directory and its store.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) changes: Changes,
    /// The real path of the recorded directory: its name. What it holds is reached by [`Self::root`].
    pub(crate) directory: PathBuf,
    held: HeldDirectory,
    pub(crate) store: PathBuf,
    pub(crate) git: Git,
}

/// Exclusive access to the store of a directory, across processes.
#[derive(Debug)]
pub(crate) struct StoreLock {
    file: File,
}

impl Drop for StoreLock {
    fn drop(&mut self) {
        // A process that is being started has a copy of the file for a moment, and would keep the lock.
        let _ = self.file.unlock();
    }
}

impl Place {
    /// Creates the store. A complete one has the file `directory`, which is written last.
    fn create(&self, is_workspace: bool) -> Result<(), ChangesError> {
        let name = named_in(&self.store);
        if name.exists() {
            return Ok(());
        }
        for directory in ["running", "journal", "scratch"] {
            private_directory(&self.store.join(directory))?;
        }
        if is_workspace {
            return write_whole(
                &name,
                self.directory.as_os_str().as_encoded_bytes(),
                self.failpoint(),
            );
        }
        for directory in ["git/info", "git/refs/heads", "git/objects/info", "git/objects/pack"] {
            private_directory(&self.store.join(directory))?;
        }
        for byte in 0..=u8::MAX {
            private_directory(&self.store.join(format!("git/objects/{byte:02x}")))?;
        }
        let failpoint = self.failpoint();
        for (file, text) in [("info/attributes", ATTRIBUTES), ("config", CONFIG), ("HEAD", HEAD)] {
            write_whole(&self.git.repository.join(file), text.as_bytes(), failpoint)?;
        }
        write_whole(&name, self.directory.as_os_str().as_encoded_bytes(), failpoint)
    }

    pub(crate) fn failpoint(&self) -> &Failpoint {
        &self.changes.failpoint
    }

    /// Returns the path to what the directory holds, through its descriptor.
    pub(crate) fn root(&self) -> &Path {
        self.held.root()
    }

    pub(crate) fn is_gone(&self) -> bool {
        self.held.is_gone()
    }

    /// Opens the directory again: something may have removed it, and created another one.
    pub(crate) fn opened_again(&self) -> Result<Self, ChangesError> {
        Ok(Self { held: HeldDirectory::open(&self.directory)?, ..self.clone() })
    }

    /// Creates the directory if it was gone.
    pub(crate) fn restored(&self) -> Result<Self, ChangesError> {
        if !self.is_gone() {
            return Ok(self.clone());
        }
        Ok(Self { held: HeldDirectory::create(&self.directory)?, ..self.clone() })
    }

    pub(crate) fn host(&self) -> &Host {
        &self.changes.host
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.changes.limits
    }

    pub(crate) fn deadline(&self) -> Deadline {
        Deadline::after(self.limits())
    }

    /// Locks the store, if it is not locked.
    pub(crate) fn try_lock(&self) -> Option<StoreLock> {
        let file = File::create(self.store.join("lock")).ok()?;
        file.try_lock().ok().map(|()| StoreLock { file })
    }

    /// Waits for exclusive access to the store.
    pub(crate) fn lock(&self) -> Result<StoreLock, ChangesError> {
        let path = self.store.join("lock");
        let file = File::create(&path).map_err(ChangesError::io(&path))?;
        match file.try_lock() {
            Ok(()) => return Ok(StoreLock { file }),
            Err(fs::TryLockError::WouldBlock) => {}
            Err(fs::TryLockError::Error(error)) => return Err(ChangesError::io(&path)(error)),
        }
        // A lock has no time limit of its own. One that comes too late is dropped with the channel.
        let deadline = Deadline::within(self.limits().time * 3);
        let (sender, locked) = sync_channel(1);
        std::thread::spawn(move || sender.send(file.lock().map(|()| file)));
        match locked.recv_timeout(deadline.left()) {
            Ok(locked) => locked.map(|file| StoreLock { file }).map_err(ChangesError::io(&path)),
            Err(_) => Err(deadline.over()),
        }
    }

    pub(crate) fn manifest_path(&self) -> PathBuf {
        self.store.join("manifest")
    }

    /// Reads the last state, unless this process has it.
    pub(crate) fn load(&self) -> Result<Manifest, ChangesError> {
        let path = self.manifest_path();
        let hash = manifest_hash(&path);
        let states = self.changes.states.lock().ok();
        let known = states.as_ref().and_then(|states| states.get(&path));
        if let Some((_, state)) = known.filter(|(known, _)| hash == Some(*known)) {
            return Ok(state.clone());
        }
        drop(states);
        let state = Manifest::load(&path)?;
        // Something else may have replaced the file meanwhile, and a damaged one knows nothing.
        if hash.is_some() && hash == manifest_hash(&path) && state.is_known() {
            self.remember(path, hash, &state);
        }
        Ok(state)
    }

    pub(crate) fn save(&self, manifest: &Manifest) -> Result<(), ChangesError> {
        let path = self.manifest_path();
        let bytes = manifest.encode();
        write_cache(&path, &bytes, self.failpoint())?;
        self.remember(path, bytes.last_chunk().copied(), manifest);
        Ok(())
    }

    /// Stores a state in place of the last one, unless that is as good. A new file costs more than most looks at a directory.
    pub(crate) fn save_over(&self, last: &Manifest, new: &Manifest) -> Result<(), ChangesError> {
        if new == last {
            return Ok(());
        }
        let path = self.manifest_path();
        if new.is_settled_form_of(last) && path.exists() {
            let hash = manifest_hash(&path);
            self.remember(path, hash, new);
            return Ok(());
        }
        self.save(new)
    }

    fn remember(&self, path: PathBuf, hash: Option<ManifestHash>, state: &Manifest) {
        if let (Some(hash), Ok(mut states)) = (hash, self.changes.states.lock()) {
            states.insert(path, (hash, state.stored()));
        }
    }

    pub(crate) fn scan(
        &self,
        old: &Manifest,
        earlier_patterns: Option<&[u8]>,
        deadline: Deadline,
    ) -> Result<Manifest, ChangesError> {
        let scratch = &self.scratch();
        let scan = Scan {
            root: self.root(),
            directory: &self.directory,
            git: &self.git,
            host: self.host(),
            limits: self.limits(),
            deadline,
            scratch,
            data: self.changes.root.parent().unwrap_or(&self.changes.root),
            earlier_patterns,
        };
        let mut new = scan.run(old)?;
        if let Some(copier) = self.copier() {
            fill(&mut new, &copier.copied());
        }
        Ok(new)
    }

    /// Returns the directory of temporary files of commands.
    pub(crate) fn scratch(&self) -> PathBuf {
        self.store.join("scratch")
    }

    pub(crate) fn writer(&self) -> ContentWriter {
        ContentWriter {
            git: self.git.clone(),
            root: self.held.clone(),
            scratch: self.scratch(),
            limits: self.limits().clone(),
        }
    }

    /// Stores contents of files before it returns. After an error, those that were stored are known. A file that went away
    /// meanwhile is gone.
    pub(crate) fn copy(
        &self,
        manifest: &mut Manifest,
        jobs: &[Job],
        deadline: Deadline,
    ) -> Result<(), ChangesError> {
        let writer = self.writer();
        writer.check(jobs)?;
        let all = Mutex::new(Copied::new());
        let add = |some: Copied| {
            self.failpoint().reach();
            all.lock().unwrap_or_else(PoisonError::into_inner).extend(some);
            true
        };
        let ended = in_parts(jobs, FILES_OF_THREAD, |jobs: &[Job]| {
            writer.copy(jobs, &mut writer.staged(), deadline, add)
        });
        let copied = all.into_inner().unwrap_or_else(PoisonError::into_inner);
        let ended: Result<(), ChangesError> = ended.into_iter().collect();
        for (path, file) in &copied {
            // A file that changed between the scan and its copy is recorded as it was copied.
            if let Some(entry) = manifest.file_mut(path)
                && entry.stamp != file.stamp
            {
                let &CopiedFile { kind, mode, size, stamp, content } = file;
                let mode =
                    if kind == FileKind::Link { LINK_MODE } else { mode.unwrap_or(entry.mode) };
                *entry = FileEntry { kind, mode, size, stamp, settled: false, content };
            }
        }
        fill(manifest, &copied);
        if ended.is_ok() {
            for job in jobs.iter().filter(|job| !copied.contains_key(&job.path)) {
                manifest.remove_file(&job.path);
            }
        }
        ended
    }

    /// Returns the running background copy.
    pub(crate) fn copier(&self) -> Option<Arc<Copier>> {
        let copiers = self.changes.copiers.lock().ok()?;
        copiers.get(&self.directory).cloned()
    }

    /// Returns the background copy, started if it is not running.
    pub(crate) fn start_copier(&self) -> Arc<Copier> {
        let new = || Arc::new(Copier::default());
        match self.changes.copiers.lock() {
            Ok(mut copiers) => copiers.entry(self.directory.clone()).or_insert_with(new).clone(),
            Err(_) => new(),
        }
    }
}
