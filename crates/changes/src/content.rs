//! File contents as objects of the store: written by `git hash-object`, read by `git cat-file`.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, openat};
use sha1::{Digest as _, Sha1};

use crate::change::{Content, Oid};
use crate::error::ChangesError;
use crate::git::{Deadline, Git};
use crate::limits::Limits;
use crate::manifest::{FileEntry, FileKind, Manifest, Stamp};
use crate::tree_path::TreePath;

/// The files that one `git hash-object` reads.
const BATCH_FILES: usize = 512;
/// How often a file that changes while it is read is read again.
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
}

/// The contents of files, as their jobs saw them.
pub(crate) type Copied = HashMap<TreePath, (Stamp, Content)>;

/// Writes contents of one directory to the store.
#[derive(Debug, Clone)]
pub(crate) struct ContentWriter {
    pub(crate) git: Git,
    pub(crate) root: PathBuf,
    /// A directory for the targets of links.
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
            Job { path, kind, size, stamp }
        }));
    }
    jobs
}

/// Sets the contents of files that did not change since they were copied.
pub(crate) fn fill(manifest: &mut Manifest, copied: &Copied) {
    for (path, (stamp, content)) in copied {
        if let Some(entry) = manifest.file_mut(path)
            && entry.stamp == *stamp
            && entry.content == Content::Pending
        {
            entry.content = *content;
        }
    }
}

/// The bytes of a file that is hashed here.
const HASHED_BYTES: u64 = 1 << 20;

/// Tells whether a small file still has its recorded content, though its stamp cannot tell.
pub(crate) fn has_content(root: &Path, path: &TreePath, entry: &FileEntry) -> bool {
    let Some(oid) = entry.content.oid().filter(|_| entry.size <= HASHED_BYTES) else {
        return false;
    };
    let at = path.under(root);
    let content = match entry.kind {
        FileKind::Link => fs::read_link(&at).map(|target| target.into_os_string().into_vec()),
        FileKind::Regular => read_small(&at),
    };
    let is_stamp =
        || fs::symlink_metadata(&at).is_ok_and(|metadata| Stamp::of(&metadata) == entry.stamp);
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
fn blob(content: &[u8]) -> Oid {
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

    /// Stores the contents of files. `each` is called with what is done so far and returns whether to
    /// continue.
    pub(crate) fn copy(
        &self,
        jobs: &[Job],
        deadline: Deadline,
        mut each: impl FnMut(Copied) -> bool,
    ) -> Result<(), ChangesError> {
        let is_large = |job: &&Job| job.size > self.limits.file_bytes;
        let (large, small): (Vec<&Job>, Vec<&Job>) = jobs.iter().partition(is_large);
        for (jobs, is_stored) in [(small, true), (large, false)] {
            for batch in jobs.chunks(BATCH_FILES) {
                if !each(self.batch(batch, is_stored, deadline)?) {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn batch(
        &self,
        jobs: &[&Job],
        is_stored: bool,
        deadline: Deadline,
    ) -> Result<Copied, ChangesError> {
        let mut copied = Copied::new();
        let mut left: Vec<Job> = jobs.iter().map(|&job| job.clone()).collect();
        for attempt in 1..=TRIES {
            let contents = self.hash(&left, is_stored, deadline)?;
            let mut again = Vec::new();
            for (job, content) in left.into_iter().zip(contents) {
                // A file is stored whole or not at all: it must not change while it is read.
                let stamp = fs::symlink_metadata(job.path.under(&self.root));
                let stamp = stamp.ok().map(|metadata| (Stamp::of(&metadata), metadata.len()));
                match stamp {
                    Some((stamp, _)) if stamp == job.stamp => {
                        copied.insert(job.path, (stamp, content));
                    }
                    Some((stamp, size)) if attempt < TRIES => {
                        again.push(Job { size, stamp, ..job });
                    }
                    Some((stamp, _)) => {
                        copied.insert(job.path, (stamp, Content::Unreadable));
                    }
                    None => {}
                }
            }
            if again.is_empty() {
                break;
            }
            left = again;
        }
        Ok(copied)
    }

    /// Returns the contents of files in their order. A file that cannot be read is unreadable; the others
    /// are stored all the same.
    fn hash(
        &self,
        jobs: &[Job],
        is_stored: bool,
        deadline: Deadline,
    ) -> Result<Vec<Content>, ChangesError> {
        let mut contents = Vec::with_capacity(jobs.len());
        let links = self.link_targets(jobs)?;
        while contents.len() < jobs.len() {
            let mut input = Vec::new();
            for job in &jobs[contents.len()..] {
                match links.get(&job.path) {
                    Some(file) => quote(&mut input, file.as_os_str().as_bytes()),
                    None => quote(&mut input, &[b"./", job.path.as_bytes()].concat()),
                }
            }
            let mut command = self.git.command(&self.root);
            command.args(["hash-object", "--no-filters", "--stdin-paths", "-t", "blob"]);
            if is_stored {
                command.arg("-w");
            }
            let limit = (jobs.len() * OID_LINE) as u64;
            let finished = Git::run(command, "hash-object", input, limit, deadline)?;
            let text = String::from_utf8_lossy(&finished.stdout);
            let done = contents.len();
            for line in text.lines() {
                let oid = Oid::parse(line).ok_or_else(|| ChangesError::Git {
                    command: "hash-object",
                    message: format!("unexpected output: {line}"),
                })?;
                contents.push(if is_stored {
                    Content::Stored(oid)
                } else {
                    Content::HashOnly(oid)
                });
            }
            if finished.status.success() {
                continue_if_progress(contents.len() > done, &finished)?;
            } else if contents.len() < jobs.len() && is_about_a_file(&finished.message) {
                contents.push(Content::Unreadable);
            } else {
                return Err(finished.error("hash-object"));
            }
        }
        for file in links.values() {
            let _ = fs::remove_file(file);
        }
        Ok(contents)
    }

    /// Writes the targets of links to files, since git would read what they lead to.
    fn link_targets(&self, jobs: &[Job]) -> Result<HashMap<TreePath, PathBuf>, ChangesError> {
        let mut files = HashMap::new();
        for (number, job) in jobs.iter().filter(|job| job.kind == FileKind::Link).enumerate() {
            if let Ok(target) = fs::read_link(job.path.under(&self.root)) {
                let thread = std::thread::current().id();
                let name = format!("link-{}-{thread:?}-{number}", std::process::id());
                let file = self.scratch.join(name);
                let written = fs::File::create(&file)
                    .and_then(|mut file| file.write_all(target.as_os_str().as_bytes()));
                written.map_err(ChangesError::io(&file))?;
                files.insert(job.path.clone(), file);
            }
        }
        Ok(files)
    }

    /// Returns the hashes of files as they are now, without storing them.
    pub(crate) fn hashes(
        &self,
        jobs: &[Job],
        deadline: Deadline,
    ) -> Result<Vec<Option<Oid>>, ChangesError> {
        let mut oids = Vec::new();
        for batch in jobs.chunks(BATCH_FILES) {
            oids.extend(self.hash(batch, false, deadline)?.into_iter().map(Content::oid));
        }
        Ok(oids)
    }
}

fn continue_if_progress(
    has_progress: bool,
    finished: &crate::git::Finished,
) -> Result<(), ChangesError> {
    if has_progress {
        return Ok(());
    }
    let message = format!("no output: {}", finished.message);
    Err(ChangesError::Git { command: "hash-object", message })
}

/// Tells whether an error of `git hash-object` concerns the file that it read, and not the store.
fn is_about_a_file(message: &str) -> bool {
    message.contains("could not open")
        || message.contains("for reading")
        || message.contains("Unable to hash")
        || message.contains("short read")
        || message.contains("read error")
}

/// Writes a path as a quoted line.
fn quote(out: &mut Vec<u8>, path: &[u8]) {
    out.push(b'"');
    for &byte in path {
        if byte.is_ascii_graphic() && byte != b'"' && byte != b'\\' || byte == b' ' {
            out.push(byte);
        } else {
            out.extend_from_slice(format!("\\{byte:03o}").as_bytes());
        }
    }
    out.extend_from_slice(b"\"\n");
}

/// Reads objects of the store, each up to `limit` bytes.
pub(crate) fn read(
    git: &Git,
    work_tree: &Path,
    oids: &[Oid],
    limit: u64,
    deadline: Deadline,
) -> Result<HashMap<Oid, Vec<u8>>, ChangesError> {
    let mut contents = HashMap::new();
    // A batch at a time, so that memory stays within some large files.
    for batch in oids.chunks(64) {
        let mut command = git.command(work_tree);
        command.args(["cat-file", "--batch"]);
        let mut input = String::new();
        for oid in batch {
            let _ = writeln!(input, "{oid}");
        }
        let most = (limit + 128) * batch.len() as u64;
        let output = Git::output(command, "cat-file", input.into_bytes(), most, deadline)?;
        let damaged = || ChangesError::damaged(&git.repository, "an object is missing");
        let mut rest = output.as_slice();
        for &oid in batch {
            let end = rest.iter().position(|&byte| byte == b'\n').ok_or_else(damaged)?;
            let header = String::from_utf8_lossy(&rest[..end]).into_owned();
            let size = header.strip_prefix(&format!("{oid} blob ")).ok_or_else(damaged)?;
            let size: usize = size.parse().map_err(|_| damaged())?;
            let content = rest.get(end + 1..end + 1 + size).ok_or_else(damaged)?;
            contents.insert(oid, content.to_vec());
            rest = rest.get(end + 2 + size..).ok_or_else(damaged)?;
        }
    }
    Ok(contents)
}
