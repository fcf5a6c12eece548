//! File contents as objects of the store: written by `git hash-object`, and read from their files or by `git cat-file`.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{CWD, Mode, OFlags, openat};
use sha1::{Digest as _, Sha1};

use crate::change::{Content, FileMode, Oid};
use crate::entry::Entry;
use crate::error::ChangesError;
use crate::git::{Deadline, Git};
use crate::held::HeldDirectory;
use crate::limits::Limits;
use crate::manifest::{FileEntry, FileKind, MODE_BITS, Manifest, Stamp};
use crate::object::read_loose;
use crate::scan::file_kind;
use crate::tree_path::TreePath;
use crate::undo::status;

/// The files that one `git hash-object` reads.
const BATCH_FILES: usize = 512;
/// The bytes of files that one `git hash-object` reads, unless one alone has more: what is stored is known at once.
const BATCH_BYTES: u64 = 4 << 20;
/// The maximum number of times that a file is read again because it changed meanwhile.
const TRIES: u32 = 3;
/// The bytes of an object name with its line break.
const OID_LINE: usize = 41;

/// A file whose content is to be stored.
#[derive(Debug, Clone)]
pub(crate) struct Job {
    pub(crate) path: TreePath,
    pub(crate) kind: FileKind,
    pub(crate) size: u64,
    pub(crate) stamp: Stamp,
    /// A clone of the file, which is read in its place.
    clone: Option<Arc<FileClone>>,
}

impl Job {
    pub(crate) fn new(path: TreePath, kind: FileKind, size: u64, stamp: Stamp) -> Self {
        Self { path, kind, size, stamp, clone: None }
    }

    /// Returns whether the content is safe, whatever happens to the file.
    pub(crate) fn is_cloned(&self) -> bool {
        self.clone.is_some()
    }
}

/// A private file that shares its blocks with another. Removed with its last job.
#[derive(Debug)]
struct FileClone(PathBuf);

impl Drop for FileClone {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// The files that were copied.
pub(crate) type Copied = HashMap<TreePath, CopiedFile>;

/// A file as it was when its content was copied.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CopiedFile {
    pub(crate) kind: FileKind,
    /// The permission bits; `None` for a file that was cloned, which did not change.
    pub(crate) mode: Option<FileMode>,
    pub(crate) size: u64,
    pub(crate) stamp: Stamp,
    pub(crate) content: Content,
}

/// Writes contents of one directory to the store.
#[derive(Debug, Clone)]
pub(crate) struct ContentWriter {
    pub(crate) git: Git,
    pub(crate) root: HeldDirectory,
    /// A private directory for copies of files.
    pub(crate) scratch: PathBuf,
    pub(crate) limits: Limits,
}

/// Returns the files of a manifest without a content.
pub(crate) fn pending(manifest: &Manifest) -> Vec<Job> {
    let mut jobs = Vec::new();
    for (path, directory) in &manifest.directories {
        let pending = directory.files.iter().filter(|(_, it)| it.content == Content::Pending);
        jobs.extend(pending.map(|(name, &FileEntry { kind, size, stamp, .. })| {
            let path = path.join(name);
            Job::new(path, kind, size, stamp)
        }));
    }
    jobs
}

/// Sets the contents of files that did not change since they were copied.
pub(crate) fn fill(manifest: &mut Manifest, copied: &Copied) {
    for (path, file) in copied {
        if let Some(entry) = manifest.file_mut(path)
            && entry.stamp == file.stamp
            && entry.content == Content::Pending
        {
            entry.content = file.content;
        }
    }
}

/// The bytes of a file that is hashed here.
const HASHED_BYTES: u64 = 1 << 20;

/// Returns whether a small file still has its recorded content, if its stamp does not decide it.
pub(crate) fn has_content(root: &Path, path: &TreePath, entry: &FileEntry) -> bool {
    let Some(oid) = entry.content.oid().filter(|_| entry.size <= HASHED_BYTES) else {
        return false;
    };
    let at = path.under(root);
    let content = match entry.kind {
        FileKind::Link => fs::read_link(&at).map(|target| target.into_os_string().into_vec()),
        FileKind::Regular => read_small(&at),
    };
    let is_stamp = || {
        fs::symlink_metadata(&at)
            .is_ok_and(|metadata| Stamp::from_metadata(&metadata) == entry.stamp)
    };
    content.is_ok_and(|content| blob(&content) == oid) && is_stamp()
}

fn read_small(path: &Path) -> std::io::Result<Vec<u8>> {
    // A pipe that has taken the place of the file is not waited for.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = fs::File::from(openat(CWD, path, flags, Mode::empty())?);
    let mut bytes = Vec::new();
    #[expect(clippy::disallowed_methods, reason = "bounded by `take`")]
    file.take(HASHED_BYTES + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Returns the name that git gives a content.
pub(crate) fn blob(content: &[u8]) -> Oid {
    let mut hash = Sha1::new();
    hash.update(format!("blob {}\0", content.len()));
    hash.update(content);
    Oid(hash.finalize().into())
}

impl ContentWriter {
    /// Checks the limits on bytes for some jobs.
    pub(crate) fn check(&self, jobs: &[Job]) -> Result<(), ChangesError> {
        let sizes = jobs.iter().map(|job| job.size).filter(|&size| size <= self.limits.file_bytes);
        let bytes: u64 = sizes.sum();
        if bytes > self.limits.bytes {
            return Err(ChangesError::OverBytes { limit: self.limits.bytes });
        }
        let path = &self.git.repository;
        let disk =
            rustix::fs::statvfs(path).map_err(|error| ChangesError::io(path)(error.into()))?;
        let free = disk.f_bavail.saturating_mul(disk.f_frsize);
        let needed = self.limits.free_bytes;
        if free < needed.saturating_add(bytes) {
            return Err(ChangesError::DiskFull { path: path.clone(), needed });
        }
        Ok(())
    }

    /// Returns those of new files that the limit on bytes allows besides others, the small ones first.
    pub(crate) fn within_limits(&self, mut new: Vec<Job>, others: &[Job]) -> Vec<Job> {
        let stored = |job: &Job| if job.size > self.limits.file_bytes { 0 } else { job.size };
        let mut bytes: u64 = others.iter().map(stored).sum();
        new.sort_by_key(|job| job.size);
        new.retain(|job| {
            bytes = bytes.saturating_add(stored(job));
            bytes <= self.limits.bytes
        });
        new
    }

    /// Clones files, where the file system can, so that their contents are safe at once. Stops at the first that cannot be
    /// cloned, or at the deadline.
    pub(crate) fn clone_files<'a>(
        &self,
        jobs: impl Iterator<Item = &'a mut Job>,
        deadline: Deadline,
    ) {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let is_cloned =
            |job: &Job| job.kind == FileKind::Regular && job.size <= self.limits.file_bytes;
        for job in jobs.filter(|job| is_cloned(job)) {
            let number = NUMBER.fetch_add(1, Ordering::Relaxed);
            let path = self.scratch.join(format!("clone-{}-{number}", std::process::id()));
            let Ok(to) = fs::File::create_new(&path) else { return };
            let clone = FileClone(path);
            let from = Entry::open(self.root.root(), &job.path).and_then(|entry| entry.open_file());
            // One that cannot be read says so when it is copied.
            let Ok(from) = from else { continue };
            if deadline.check().is_err() || !share_blocks(&from, &to) {
                return;
            }
            let found = fs::symlink_metadata(job.path.under(self.root.root()));
            if found.is_ok_and(|found| Stamp::from_metadata(&found) == job.stamp) {
                job.clone = Some(Arc::new(clone));
            }
        }
    }

    /// Returns an empty set of private copies.
    pub(crate) fn staged(&self) -> StagedFiles {
        let thread = std::thread::current().id();
        let name = format!("copy-{}-{thread:?}", std::process::id());
        StagedFiles { name: self.scratch.join(name), count: 0 }
    }

    /// Stores the contents of files. `each` is called with what is done so far and returns whether to
    /// continue.
    pub(crate) fn copy(
        &self,
        jobs: &[Job],
        staged: &mut StagedFiles,
        deadline: Deadline,
        mut each: impl FnMut(Copied) -> bool,
    ) -> Result<(), ChangesError> {
        let is_large = |job: &&Job| job.size > self.limits.file_bytes;
        let (large, small): (Vec<&Job>, Vec<&Job>) = jobs.iter().partition(is_large);
        for (jobs, is_stored) in [(small, true), (large, false)] {
            for batch in parts(&jobs) {
                let staged = is_stored.then_some(&mut *staged);
                if !each(self.batch(batch, staged, deadline)?) {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn batch(
        &self,
        jobs: &[&Job],
        mut staged: Option<&mut StagedFiles>,
        deadline: Deadline,
    ) -> Result<Copied, ChangesError> {
        let mut copied = Copied::new();
        let mut left: Vec<Job> = jobs.iter().map(|&job| job.clone()).collect();
        for attempt in 1..=TRIES {
            let contents = match &mut staged {
                Some(staged) => self.store_all(&left, staged, deadline)?,
                None => self.hash(&left, deadline)?,
            };
            let mut again = Vec::new();
            for (job, content) in left.into_iter().zip(contents) {
                let Job { kind, size, stamp, .. } = job;
                if job.is_cloned() {
                    copied.insert(job.path, CopiedFile { kind, mode: None, size, stamp, content });
                    continue;
                }
                // A file is stored whole or not at all: it must not change while it is read.
                let found = status(&job.path.under(self.root.root()));
                let found = match found {
                    Ok(Some(found)) => found,
                    // It is gone.
                    Ok(None) => continue,
                    Err(_) => {
                        let content = Content::Unreadable;
                        let file = CopiedFile { kind, mode: None, size, stamp, content };
                        copied.insert(job.path, file);
                        continue;
                    }
                };
                // A directory or a pipe in its place is found by the next scan.
                let Some(kind) = file_kind(&found) else { continue };
                let (mode, size) = (Some(found.mode() & MODE_BITS), found.len());
                let stamp = Stamp::from_metadata(&found);
                if (stamp, kind) == (job.stamp, job.kind) {
                    copied.insert(job.path, CopiedFile { kind, mode, size, stamp, content });
                } else if attempt < TRIES {
                    again.push(Job::new(job.path, kind, size, stamp));
                } else {
                    let content = Content::Unreadable;
                    copied.insert(job.path, CopiedFile { kind, mode, size, stamp, content });
                }
            }
            if again.is_empty() {
                break;
            }
            left = again;
        }
        Ok(copied)
    }

    /// Returns the hashes of files in their order. A file that cannot be read is unreadable.
    fn hash(&self, jobs: &[Job], deadline: Deadline) -> Result<Vec<Content>, ChangesError> {
        let hashed = jobs.iter().map(|job| {
            deadline.check()?;
            Ok(self.hash_of(job).map_or(Content::Unreadable, Content::HashOnly))
        });
        hashed.collect()
    }

    /// Stores the contents of files and returns them in their order. A file that cannot be read is unreadable; the others
    /// are stored anyway.
    fn store_all(
        &self,
        jobs: &[Job],
        staged: &mut StagedFiles,
        deadline: Deadline,
    ) -> Result<Vec<Content>, ChangesError> {
        let files = self.stage(jobs, staged, deadline)?;
        self.store(&files, deadline)
    }

    /// Returns whether a file has the content of an object, and did not change while it was read.
    pub(crate) fn has_object(&self, job: &Job, oid: Oid) -> bool {
        let is_stamp = || {
            let found = fs::symlink_metadata(job.path.under(self.root.root()));
            found.is_ok_and(|metadata| Stamp::from_metadata(&metadata) == job.stamp)
        };
        self.hash_of(job).is_ok_and(|hash| hash == oid) && is_stamp()
    }

    /// Returns the hash of a file, or of the target of a link.
    fn hash_of(&self, job: &Job) -> std::io::Result<Oid> {
        let entry = Entry::open(self.root.root(), &job.path)?;
        if job.kind == FileKind::Link {
            return Ok(blob(&entry.link_target()?));
        }
        let mut file = entry.open_file()?;
        let size = file.metadata()?.len();
        let mut hash = Sha1::new();
        hash.update(format!("blob {size}\0"));
        let mut buffer = vec![0; 1 << 16];
        let mut left = size;
        while left > 0 {
            let count = file.read(&mut buffer)?;
            let count = count.min(usize::try_from(left).unwrap_or(count));
            if count == 0 {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
            hash.update(&buffer[..count]);
            left -= count as u64;
        }
        Ok(Oid(hash.finalize().into()))
    }

    /// Copies files into the private directory, since git would follow a link that takes the place of one: no path of the
    /// recorded directory is given to it. `None` for a file that cannot be read.
    fn stage(
        &self,
        jobs: &[Job],
        staged: &mut StagedFiles,
        deadline: Deadline,
    ) -> Result<Vec<Option<PathBuf>>, ChangesError> {
        let mut files = Vec::with_capacity(jobs.len());
        for (number, job) in jobs.iter().enumerate() {
            deadline.check()?;
            if let Some(clone) = &job.clone {
                files.push(Some(clone.0.clone()));
                continue;
            }
            let (file, mut to) = staged.create(number)?;
            let from = Entry::open(self.root.root(), &job.path).and_then(|entry| match job.kind {
                FileKind::Link => Ok(Opened::Link(entry.link_target()?)),
                FileKind::Regular => Ok(Opened::File(entry.open_file()?)),
            });
            let is_read = match from {
                Ok(Opened::Link(target)) => {
                    to.write_all(&target).map_err(ChangesError::io(&file))?;
                    true
                }
                Ok(Opened::File(from)) if share_blocks(&from, &to) => true,
                // One that grows meanwhile is read again.
                Ok(Opened::File(from)) => copy(from, &mut to, job.size.saturating_add(1))
                    .map_err(ChangesError::io(&file))?,
                Err(_) => false,
            };
            files.push(is_read.then_some(file));
        }
        Ok(files)
    }

    /// Stores private copies of files.
    fn store(
        &self,
        staged: &[Option<PathBuf>],
        deadline: Deadline,
    ) -> Result<Vec<Content>, ChangesError> {
        let mut input = Vec::new();
        for file in staged.iter().flatten() {
            input.extend(quoted(file.as_os_str().as_bytes()));
            input.push(b'\n');
        }
        let mut oids = Vec::new();
        if !input.is_empty() {
            let mut command = self.git.command(&self.scratch);
            command.args(["hash-object", "--no-filters", "--stdin-paths", "-t", "blob", "-w"]);
            let limit = (staged.len() * OID_LINE) as u64;
            let output = Git::output(command, "hash-object", input, limit, deadline)?;
            for line in String::from_utf8_lossy(&output).lines() {
                oids.push(Oid::parse(line).ok_or_else(|| ChangesError::Git {
                    command: "hash-object",
                    message: format!("unexpected output: {line}"),
                })?);
            }
        }
        if oids.len() != staged.iter().flatten().count() {
            let message = format!("{} names for {} files", oids.len(), staged.len());
            return Err(ChangesError::Git { command: "hash-object", message });
        }
        let mut oids = oids.into_iter();
        let content = |file: &Option<PathBuf>| {
            let oid = file.as_ref().and_then(|_| oids.next());
            oid.map_or(Content::Unreadable, Content::Stored)
        };
        Ok(staged.iter().map(content).collect())
    }

    /// Stores contents that are in memory.
    pub(crate) fn store_contents(
        &self,
        contents: &[(Oid, &[u8])],
        deadline: Deadline,
    ) -> Result<(), ChangesError> {
        let mut staged = self.staged();
        let mut files = Vec::with_capacity(contents.len());
        for (number, (_, content)) in contents.iter().enumerate() {
            let (file, mut to) = staged.create(number)?;
            to.write_all(content).map_err(ChangesError::io(&file))?;
            files.push(Some(file));
        }
        self.store(&files, deadline).map(drop)
    }

    /// Returns the hashes of files as they are now, without storing them.
    pub(crate) fn hashes(
        &self,
        jobs: &[Job],
        deadline: Deadline,
    ) -> Result<Vec<Option<Oid>>, ChangesError> {
        Ok(self.hash(jobs, deadline)?.into_iter().map(Content::oid).collect())
    }
}

/// Private copies of files. They are written again and again, and removed in the end: a file system may search long for a
/// free inode after many files were removed.
pub(crate) struct StagedFiles {
    /// The path that the number of a copy is added to.
    name: PathBuf,
    count: usize,
}

impl StagedFiles {
    fn path(&self, number: usize) -> PathBuf {
        self.name.with_extension(number.to_string())
    }

    /// Creates a copy, empty.
    fn create(&mut self, number: usize) -> Result<(PathBuf, fs::File), ChangesError> {
        let path = self.path(number);
        self.count = self.count.max(number + 1);
        let file = fs::File::create(&path).map_err(ChangesError::io(&path))?;
        Ok((path, file))
    }
}

impl Drop for StagedFiles {
    fn drop(&mut self) {
        for number in 0..self.count {
            let _ = fs::remove_file(self.path(number));
        }
    }
}

/// Makes a new file share the blocks of another. Returns whether the file system can.
#[cfg(target_os = "linux")]
fn share_blocks(from: &fs::File, to: &fs::File) -> bool {
    rustix::fs::ioctl_ficlone(to, from).is_ok()
}

/// Makes a new file share the blocks of another. Returns whether the file system can.
#[cfg(not(target_os = "linux"))]
fn share_blocks(_from: &fs::File, _to: &fs::File) -> bool {
    false
}

/// Divides files into those that are stored together.
pub(crate) fn parts<J: std::borrow::Borrow<Job>>(mut rest: &[J]) -> Vec<&[J]> {
    let mut parts = Vec::new();
    while !rest.is_empty() {
        let mut bytes = 0;
        let is_within = |job: &&J| {
            bytes += (**job).borrow().size;
            bytes <= BATCH_BYTES
        };
        let count = rest.iter().take(BATCH_FILES).take_while(is_within).count().max(1);
        let (part, others) = rest.split_at(count);
        parts.push(part);
        rest = others;
    }
    parts
}

/// An entry that is read.
enum Opened {
    File(fs::File),
    Link(Vec<u8>),
}

/// Copies at most `most` bytes. Returns `false` if they cannot be read, and an error if they cannot be written.
fn copy(from: fs::File, to: &mut fs::File, most: u64) -> std::io::Result<bool> {
    let mut from = from.take(most);
    let mut buffer = vec![0; 1 << 16];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return Ok(true),
            Ok(count) => to.write_all(&buffer[..count])?,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => return Ok(false),
        }
    }
}

/// Returns a path in quotes, as git reads it.
pub(crate) fn quoted(path: &[u8]) -> Vec<u8> {
    let mut out = vec![b'"'];
    for &byte in path {
        if byte.is_ascii_graphic() && byte != b'"' && byte != b'\\' || byte == b' ' {
            out.push(byte);
        } else {
            out.extend_from_slice(format!("\\{byte:03o}").as_bytes());
        }
    }
    out.push(b'"');
    out
}

/// The files that are worth another thread when they are compared with their objects.
pub(crate) const COMPARED_FILES: usize = 64;
/// The most threads that work on files.
const MAX_THREADS: usize = 4;

/// Does something with parts of a list, in threads if it is long enough. Returns the results in order.
pub(crate) fn in_parts<T: Sync, R: Send>(
    all: &[T],
    least: usize,
    act: impl Fn(&[T]) -> R + Sync,
) -> Vec<R> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(MAX_THREADS);
    let parts = all.chunks(all.len().div_ceil(threads).max(least));
    std::thread::scope(|scope| {
        let act = &act;
        let mut parts: Vec<&[T]> = parts.collect();
        let own = parts.pop();
        let others: Vec<_> = parts.into_iter().map(|part| scope.spawn(move || act(part))).collect();
        let own = own.map(act);
        let joined = others.into_iter().map(|other| match other.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        joined.chain(own).collect()
    })
}

/// The objects that are read at a time.
const READ_OBJECTS: usize = 512;
/// The bytes of objects that are read at a time, unless one alone has more.
const READ_BYTES: u64 = 16 << 20;

/// Divides objects into parts that are read at a time.
pub(crate) fn batches<T>(mut rest: &[T], size: impl Fn(&T) -> u64) -> Vec<&[T]> {
    let mut batches = Vec::new();
    while !rest.is_empty() {
        let mut bytes = 0;
        let is_within = |object: &&T| {
            bytes += size(object);
            bytes <= READ_BYTES
        };
        let count = rest.iter().take(READ_OBJECTS).take_while(is_within).count().max(1);
        let (batch, others) = rest.split_at(count);
        batches.push(batch);
        rest = others;
    }
    batches
}

/// Reads objects of the store, each up to `limit` bytes. Git reads those that are no files of their own, and says what is wrong
/// with one that cannot be read.
pub(crate) fn read(
    git: &Git,
    work_tree: &Path,
    oids: &[Oid],
    limit: u64,
    deadline: Deadline,
) -> Result<HashMap<Oid, Vec<u8>>, ChangesError> {
    let own = in_parts(oids, COMPARED_FILES, |part| {
        let loose = |&oid: &Oid| Some((oid, read_loose(&git.repository, oid, limit)?));
        part.iter().filter_map(loose).collect::<Vec<_>>()
    });
    let mut contents: HashMap<Oid, Vec<u8>> = own.into_iter().flatten().collect();
    let others: Vec<Oid> = oids.iter().filter(|oid| !contents.contains_key(oid)).copied().collect();
    for batch in others.chunks(READ_OBJECTS) {
        let found = read_found(git.command(work_tree), batch, limit, deadline)?;
        if batch.iter().any(|oid| !found.contains_key(oid)) {
            return Err(ChangesError::damaged(&git.repository, "an object is missing"));
        }
        contents.extend(found);
    }
    Ok(contents)
}

/// Reads those of some objects that a git command finds, each up to `limit` bytes.
pub(crate) fn read_found(
    mut command: Command,
    oids: &[Oid],
    limit: u64,
    deadline: Deadline,
) -> Result<HashMap<Oid, Vec<u8>>, ChangesError> {
    command.args(["cat-file", "--batch"]);
    let mut input = String::new();
    for oid in oids {
        let _ = writeln!(input, "{oid}");
    }
    let most = (limit + 128) * oids.len() as u64;
    let output = Git::output(command, "cat-file", input.into_bytes(), most, deadline)?;
    let mut contents = HashMap::new();
    let mut rest = output.as_slice();
    for &oid in oids {
        let Some(end) = rest.iter().position(|&byte| byte == b'\n') else { break };
        let header = String::from_utf8_lossy(&rest[..end]).into_owned();
        rest = &rest[end + 1..];
        let Some(size) = header.strip_prefix(&format!("{oid} blob ")) else {
            if header == format!("{oid} missing") {
                continue;
            }
            break;
        };
        let Some(content) = size.parse().ok().and_then(|size: usize| rest.get(..size)) else {
            break;
        };
        contents.insert(oid, content.to_vec());
        rest = rest.get(content.len() + 1..).unwrap_or_default();
    }
    // An object is not taken for another, whoever wrote it.
    contents.retain(|oid, content| blob(content) == *oid);
    Ok(contents)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::git::Host;
    use crate::store::Changes;

    /// An agent that cannot read a file must not get it into the store by a link.
    #[test]
    fn a_link_that_takes_the_place_of_a_file_is_not_followed() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        for name in ["home", "data", "project", "project/d", "outside"] {
            fs::create_dir(at(name)).unwrap();
        }
        fs::write(at("outside/secret"), "the key").unwrap();
        for name in ["project/a", "project/d/secret", "project/plain"] {
            fs::write(at(name), "theirs").unwrap();
        }
        let host = Host {
            path: std::env::var_os("PATH").unwrap(),
            config: at("home/.config"),
            home: at("home"),
        };
        let project = Changes::new(&at("data"), host).place(&at("project")).unwrap();
        let job = |name: &str| {
            let metadata = fs::symlink_metadata(at("project").join(name)).unwrap();
            let (size, stamp) = (metadata.len(), Stamp::from_metadata(&metadata));
            Job::new(TreePath::new(name), FileKind::Regular, size, stamp)
        };
        let jobs = [job("a"), job("d/secret"), job("plain")];
        fs::remove_file(at("project/a")).unwrap();
        symlink(at("outside/secret"), at("project/a")).unwrap();
        fs::rename(at("project/d"), at("project/away")).unwrap();
        symlink(at("outside"), at("project/d")).unwrap();

        let writer = project.writer();
        let contents = writer.store_all(&jobs, &mut writer.staged(), project.deadline()).unwrap();
        let plain = blob(b"theirs");
        assert_eq!(contents, [Content::Unreadable, Content::Unreadable, Content::Stored(plain)]);
        let hashes = writer.hashes(&jobs, project.deadline()).unwrap();
        assert_eq!(hashes, [None, None, Some(plain)]);
        let secret = read(&project.git, &at("data"), &[blob(b"the key")], 99, project.deadline());
        assert!(secret.is_err(), "the store has the secret");
        assert_eq!(fs::read_dir(project.scratch()).unwrap().count(), 0);
    }

    /// A file may become a link while it is copied.
    #[test]
    fn a_file_that_became_a_link_is_recorded_as_one() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        for name in ["home", "data", "project"] {
            fs::create_dir(at(name)).unwrap();
        }
        fs::write(at("project/a"), "a file").unwrap();
        fs::write(at("project/gone"), "a file").unwrap();
        let host = Host {
            path: std::env::var_os("PATH").unwrap(),
            config: at("home/.config"),
            home: at("home"),
        };
        let project = Changes::new(&at("data"), host).place(&at("project")).unwrap();
        let mut state = project.scan(&Manifest::default(), None, project.deadline()).unwrap();
        fs::remove_file(at("project/a")).unwrap();
        fs::remove_file(at("project/gone")).unwrap();
        symlink("elsewhere", at("project/a")).unwrap();
        let jobs = pending(&state);
        project.copy(&mut state, &jobs, project.deadline()).unwrap();
        let entry = state.entry(&TreePath::new("a")).unwrap();
        let content = Content::Stored(blob(b"elsewhere"));
        assert_eq!((entry.kind, entry.content), (FileKind::Link, content));
        assert!(state.entry(&TreePath::new("gone")).is_none());
    }
}
