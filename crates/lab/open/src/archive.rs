//! Copies of sessions, byte for byte, that stay when their program has deleted its files.
//!
//! Contents are compressed and stored once, under their SHA-256: several sessions can lie in one database. A session is a
//! small file that names its contents. Everything is readable by its owner only.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, BufReader, Read, Write};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Component, Path, PathBuf};

use convoke_core::figures::hexadecimal;
use convoke_files::draft::{self, Draft};
use convoke_protocol::content::ContentHash;
use convoke_protocol::id::Millis;
use convoke_source::{FoundSession, SessionSource, SourceError, lines};
use rustix::fs::{FlockOperation, flock};
use ruzstd::decoding::StreamingDecoder;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;

/// The bytes that are compressed at a time: each is a frame of its own.
const FRAME: u64 = 4 << 20;
/// The maximum size of the file that describes a session.
const MAX_ENTRY: u64 = 64 << 20;
/// How often a session is copied again because its program changed it meanwhile.
const ATTEMPTS: usize = 5;

/// The kept sessions of a user.
#[derive(Debug, Clone)]
pub struct Archive {
    directory: PathBuf,
}

/// A session that was kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KeptSession {
    pub program: String,
    pub id: String,
    /// Where the program had it.
    pub path: PathBuf,
    pub cwd: Option<String>,
    pub parent: Option<String>,
    pub changed_at: Millis,
    pub bytes: u64,
    pub files: Vec<KeptFile>,
}

/// A file of a kept session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KeptFile {
    pub path: PathBuf,
    pub bytes: u64,
    /// The time of the last change, in nanoseconds.
    pub changed_ns: i128,
    pub content: ContentHash,
}

/// What keeping a session did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keeping {
    /// It was copied.
    Copied,
    /// The copy was up to date.
    Unchanged,
}

/// A session could not be kept or restored.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    #[error("cannot read {}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("cannot write {}", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("{} was changed while it was copied", .0.display())]
    Busy(PathBuf),
    #[error("{} is damaged: {problem}", path.display())]
    Damaged { path: PathBuf, problem: String },
}

impl ArchiveError {
    fn read(path: &Path) -> impl FnOnce(io::Error) -> Self + '_ {
        move |source| Self::Read { path: path.to_owned(), source }
    }

    fn write(path: &Path) -> impl FnOnce(io::Error) -> Self + '_ {
        move |source| Self::Write { path: path.to_owned(), source }
    }
}

impl From<ArchiveError> for SourceError {
    fn from(error: ArchiveError) -> Self {
        let path = match &error {
            ArchiveError::Read { path, .. }
            | ArchiveError::Write { path, .. }
            | ArchiveError::Busy(path)
            | ArchiveError::Damaged { path, .. } => path.clone(),
        };
        Self::Read { path, source: io::Error::other(error) }
    }
}

impl Archive {
    /// Uses the archive in a directory, which need not exist.
    pub fn new(directory: PathBuf) -> Self {
        Self { directory }
    }

    /// Copies a session, unless its copy is up to date.
    pub fn keep(&self, session: &FoundSession) -> Result<Keeping, ArchiveError> {
        let _lock = self.lock()?;
        let entry = self.entry(session);
        let kept = read_entry(&entry)?;
        let mut attempts = 0;
        loop {
            let states = states(&session.files)?;
            if kept.as_ref().is_some_and(|kept| kept.is_of(&states)) {
                return Ok(Keeping::Unchanged);
            }
            let mut files = Vec::with_capacity(states.len());
            for state in &states {
                files.push(self.copy(state)?);
            }
            attempts += 1;
            if self::states(&session.files)? == states {
                self.write_entry(&entry, session, files)?;
                return Ok(Keeping::Copied);
            }
            if attempts == ATTEMPTS {
                return Err(ArchiveError::Busy(session.path.clone()));
            }
        }
    }

    /// Returns the kept sessions.
    pub fn list(&self) -> Result<Vec<KeptSession>, ArchiveError> {
        let directory = self.directory.join("sessions");
        let entries = match fs::read_dir(&directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(ArchiveError::read(&directory)(error)),
        };
        let mut kept = Vec::new();
        for entry in entries {
            let path = entry.map_err(ArchiveError::read(&directory))?.path();
            if path.extension() == Some(OsStr::new("json")) {
                kept.extend(read_entry(&path)?);
            }
        }
        kept.sort_by_key(|session| std::cmp::Reverse(session.changed_at.0));
        Ok(kept)
    }

    /// Removes a session, with the contents that no other one has.
    pub fn forget(&self, session: &FoundSession) -> Result<bool, ArchiveError> {
        let _lock = self.lock()?;
        let entry = self.entry(session);
        match fs::remove_file(&entry) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(ArchiveError::write(&entry)(error)),
        }
        self.remove_unused()?;
        Ok(true)
    }

    /// Writes the files of a session into a directory, in the order in which they lay beside each other.
    pub fn restore(
        &self,
        session: &KeptSession,
        into: &Path,
    ) -> Result<Vec<PathBuf>, ArchiveError> {
        let root = common_directory(session.files.iter().map(|file| &*file.path));
        let mut restored = Vec::with_capacity(session.files.len());
        for file in &session.files {
            let below = file.path.strip_prefix(&root).unwrap_or(&file.path);
            let is_plain = below.components().all(|part| matches!(part, Component::Normal(_)));
            if !is_plain {
                let problem = "it names a file outside its directory".to_owned();
                return Err(ArchiveError::Damaged { path: file.path.clone(), problem });
            }
            let path = into.join(below);
            if let Some(parent) = path.parent() {
                create_private(parent)?;
            }
            self.restore_file(file, &path)?;
            restored.push(path);
        }
        Ok(restored)
    }

    /// Restores a session into a private temporary directory, for reading it. The directory lasts as long as it is held.
    pub(crate) fn open(
        &self,
        session: &FoundSession,
    ) -> Result<Option<(TempDir, FoundSession)>, ArchiveError> {
        let Some(kept) = read_entry(&self.entry(session))? else { return Ok(None) };
        let directory = tempfile::tempdir().map_err(ArchiveError::write(&self.directory))?;
        let files = self.restore(&kept, directory.path())?;
        let path = files.first().cloned().unwrap_or_default();
        Ok(Some((directory, FoundSession { path, files, ..session.clone() })))
    }

    /// Waits until no other process changes the archive: contents that no session has yet would be removed.
    fn lock(&self) -> Result<File, ArchiveError> {
        create_private(&self.directory)?;
        let path = self.directory.join("lock");
        let mut options = OpenOptions::new();
        let file = options.create(true).truncate(false).write(true).mode(0o600).open(&path);
        let file = file.map_err(ArchiveError::write(&path))?;
        flock(&file, FlockOperation::LockExclusive)
            .map_err(|error| ArchiveError::write(&path)(error.into()))?;
        Ok(file)
    }

    fn entry(&self, session: &FoundSession) -> PathBuf {
        // Two sessions can have one id, and an id can be anything.
        let name = format!("{}\0{}\0{}", session.program, session.id, session.path.display());
        let hash = ContentHash::new(&name).to_string();
        self.directory.join("sessions").join(format!("{}-{}.json", session.program, &hash[..24]))
    }

    fn content(&self, hash: &ContentHash) -> PathBuf {
        self.directory.join("files").join(format!("{hash}.zst"))
    }

    /// Stores the content of a file.
    #[expect(clippy::disallowed_methods, reason = "bounded by `take`")]
    fn copy(&self, state: &FileState) -> Result<KeptFile, ArchiveError> {
        let files = self.directory.join("files");
        create_private(&files)?;
        let file = lines::open_file(&state.path).map_err(ArchiveError::read(&state.path))?;
        let mut reader = BufReader::new(file).take(state.bytes);
        let incoming = files.join("incoming");
        let mut draft = Draft::create(&incoming, 0o600).map_err(ArchiveError::write(&incoming))?;
        let mut hasher = Sha256::new();
        let mut bytes = 0;
        loop {
            let mut piece = Vec::new();
            let read = reader.by_ref().take(FRAME).read_to_end(&mut piece);
            read.map_err(ArchiveError::read(&state.path))?;
            if piece.is_empty() {
                break;
            }
            hasher.update(&piece);
            bytes += piece.len() as u64;
            draft.write_all(&compressed(&piece)).map_err(ArchiveError::write(&incoming))?;
        }
        let digest: [u8; 32] = hasher.finalize().into();
        let content = ContentHash::from(digest);
        let path = self.content(&content);
        if !path.exists() {
            let name = path.file_name().unwrap_or_default();
            draft.replace_as(name).map_err(ArchiveError::write(&path))?;
        }
        let FileState { path, changed_ns, .. } = state.clone();
        Ok(KeptFile { path, bytes, changed_ns, content })
    }

    fn write_entry(
        &self,
        entry: &Path,
        session: &FoundSession,
        files: Vec<KeptFile>,
    ) -> Result<(), ArchiveError> {
        let kept = KeptSession {
            program: session.program.to_owned(),
            id: session.id.clone(),
            path: session.path.clone(),
            cwd: session.cwd.clone(),
            parent: session.parent.clone(),
            changed_at: session.changed_at,
            bytes: files.iter().map(|file| file.bytes).sum(),
            files,
        };
        if let Some(parent) = entry.parent() {
            create_private(parent)?;
        }
        let json = serde_json::to_vec(&kept).map_err(io::Error::other);
        json.and_then(|json| draft::replace(entry, &json, 0o600))
            .map_err(ArchiveError::write(entry))?;
        self.remove_unused()
    }

    /// Removes contents that no session has.
    fn remove_unused(&self) -> Result<(), ArchiveError> {
        let sessions = self.list()?;
        let used: HashSet<PathBuf> =
            sessions.iter().flat_map(|it| &it.files).map(|it| self.content(&it.content)).collect();
        let directory = self.directory.join("files");
        let Ok(entries) = fs::read_dir(&directory) else { return Ok(()) };
        for path in entries.filter_map(Result::ok).map(|entry| entry.path()) {
            // A copy that was broken off is unused too.
            if !used.contains(&path) {
                fs::remove_file(&path).map_err(ArchiveError::write(&path))?;
            }
        }
        Ok(())
    }

    #[expect(clippy::disallowed_methods, reason = "bounded by `take`")]
    fn restore_file(&self, file: &KeptFile, path: &Path) -> Result<(), ArchiveError> {
        let from = self.content(&file.content);
        let mut compressed = BufReader::new(File::open(&from).map_err(ArchiveError::read(&from))?);
        let mut draft = Draft::create_new(path, 0o600).map_err(ArchiveError::write(path))?;
        let mut hasher = Sha256::new();
        let damaged = |problem: String| ArchiveError::Damaged { path: from.clone(), problem };
        while has_more(&mut compressed).map_err(ArchiveError::read(&from))? {
            let mut piece = Vec::new();
            let decoder = StreamingDecoder::new(&mut compressed);
            let mut decoder = decoder.map_err(|error| damaged(error.to_string()))?.take(FRAME);
            decoder.read_to_end(&mut piece).map_err(|error| damaged(error.to_string()))?;
            hasher.update(&piece);
            draft.write_all(&piece).map_err(ArchiveError::write(path))?;
        }
        if hexadecimal(&hasher.finalize()) != file.content.to_string() {
            return Err(damaged("its SHA-256 is another one".to_owned()));
        }
        draft.publish().map_err(ArchiveError::write(path))
    }
}

impl KeptSession {
    /// Returns the session as its program had it.
    pub fn found(&self, sources: &[&'static dyn SessionSource]) -> Option<FoundSession> {
        let source = sources.iter().find(|source| source.program() == self.program)?;
        Some(FoundSession {
            program: source.program(),
            id: self.id.clone(),
            path: self.path.clone(),
            files: self.files.iter().map(|file| file.path.clone()).collect(),
            cwd: self.cwd.clone(),
            changed_at: self.changed_at,
            bytes: self.bytes,
            parent: self.parent.clone(),
        })
    }

    fn is_of(&self, states: &[FileState]) -> bool {
        self.files.len() == states.len()
            && self.files.iter().zip(states).all(|(kept, state)| {
                kept.path == state.path
                    && kept.bytes == state.bytes
                    && kept.changed_ns == state.changed_ns
            })
    }
}

/// The size of a file and the time of its last change.
#[derive(Debug, Clone, PartialEq, Eq)]
struct FileState {
    path: PathBuf,
    bytes: u64,
    changed_ns: i128,
}

fn states(files: &[PathBuf]) -> Result<Vec<FileState>, ArchiveError> {
    let state = |path: &PathBuf| {
        let metadata = path.metadata().map_err(ArchiveError::read(path))?;
        let seconds = i128::from(metadata.mtime()) * 1_000_000_000;
        let changed_ns = seconds + i128::from(metadata.mtime_nsec());
        Ok(FileState { path: path.clone(), bytes: metadata.len(), changed_ns })
    };
    files.iter().map(state).collect()
}

/// Compresses a piece of a file, and proves that it can be read again.
#[expect(clippy::disallowed_methods, reason = "bounded by `take`")]
fn compressed(piece: &[u8]) -> Vec<u8> {
    let frame = compress_to_vec(piece, CompressionLevel::Fastest);
    let mut again = Vec::with_capacity(piece.len());
    let is_same = StreamingDecoder::new(&*frame)
        .map_err(io::Error::other)
        .and_then(|decoder| decoder.take(FRAME + 1).read_to_end(&mut again))
        .is_ok_and(|_| again == piece);
    if is_same { frame } else { compress_to_vec(piece, CompressionLevel::Uncompressed) }
}

fn has_more(reader: &mut BufReader<File>) -> io::Result<bool> {
    use std::io::BufRead as _;
    Ok(!reader.fill_buf()?.is_empty())
}

fn read_entry(path: &Path) -> Result<Option<KeptSession>, ArchiveError> {
    let bytes = match lines::beginning(path, MAX_ENTRY) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(ArchiveError::read(path)(error)),
    };
    let damaged = |error: serde_json::Error| ArchiveError::Damaged {
        path: path.to_owned(),
        problem: error.to_string(),
    };
    serde_json::from_slice(&bytes).map(Some).map_err(damaged)
}

fn create_private(path: &Path) -> Result<(), ArchiveError> {
    let created = DirBuilder::new().recursive(true).mode(0o700).create(path);
    created.map_err(ArchiveError::write(path))
}

/// Returns the directory that all of these files are below.
fn common_directory<'p>(files: impl Iterator<Item = &'p Path>) -> PathBuf {
    let directories = files.map(|file| file.parent().unwrap_or(file));
    let common = directories.fold(None, |common: Option<PathBuf>, directory| {
        let Some(common) = common else { return Some(directory.to_owned()) };
        let same = common.components().zip(directory.components());
        Some(same.take_while(|(one, other)| one == other).map(|(one, _)| one).collect())
    });
    common.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn session(directory: &Path, text: &[u8]) -> FoundSession {
        let path = directory.join("a/one.jsonl");
        let agent = directory.join("a/one/subagents/agent-1.jsonl");
        fs::create_dir_all(agent.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        fs::write(&agent, b"agent\n").unwrap();
        FoundSession {
            program: "claude",
            id: "../../one".to_owned(),
            files: vec![path.clone(), agent],
            path,
            cwd: Some("/work".to_owned()),
            changed_at: Millis(1),
            bytes: 0,
            parent: None,
        }
    }

    #[test]
    fn a_kept_session_is_restored_byte_for_byte_after_its_files_are_gone() {
        let (home, kept, back) =
            (TempDir::new().unwrap(), TempDir::new().unwrap(), TempDir::new().unwrap());
        let text: Vec<u8> =
            (0..9_000_000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 27) as u8).collect();
        let found = session(home.path(), &text);
        let archive = Archive::new(kept.path().join("kept"));
        assert_eq!(archive.keep(&found).unwrap(), Keeping::Copied);
        assert_eq!(archive.keep(&found).unwrap(), Keeping::Unchanged);
        fs::remove_dir_all(home.path().join("a")).unwrap();
        let listed = archive.list().unwrap();
        let files = archive.restore(&listed[0], back.path()).unwrap();
        assert!(fs::read(&files[0]).unwrap() == text);
        assert_eq!(files[1], back.path().join("one/subagents/agent-1.jsonl"));
        assert_eq!(fs::read(&files[1]).unwrap(), b"agent\n");
    }

    #[test]
    fn what_is_kept_is_of_its_owner_only_and_goes_when_it_is_forgotten() {
        let (home, kept) = (TempDir::new().unwrap(), TempDir::new().unwrap());
        let found = session(home.path(), b"text\n");
        let archive = Archive::new(kept.path().join("kept"));
        archive.keep(&found).unwrap();
        fs::write(&found.path, b"text\nmore\n").unwrap();
        assert_eq!(archive.keep(&found).unwrap(), Keeping::Copied);
        let files = || fs::read_dir(kept.path().join("kept/files")).unwrap().map(|it| it.unwrap());
        assert_eq!(files().count(), 2, "the content of the first copy is gone");
        for file in files() {
            assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        }
        assert!(archive.forget(&found).unwrap());
        assert_eq!((files().count(), archive.list().unwrap()), (0, Vec::new()));
        assert!(!archive.forget(&found).unwrap());
    }

    #[test]
    fn a_damaged_copy_is_named() {
        let (home, kept, back) =
            (TempDir::new().unwrap(), TempDir::new().unwrap(), TempDir::new().unwrap());
        let found = session(home.path(), b"text\n");
        let archive = Archive::new(kept.path().to_owned());
        archive.keep(&found).unwrap();
        let listed = archive.list().unwrap();
        let content = archive.content(&listed[0].files[0].content);
        fs::write(&content, compress_to_vec(&b"other\n"[..], CompressionLevel::Fastest)).unwrap();
        let error = archive.restore(&listed[0], back.path()).unwrap_err();
        assert!(error.to_string().contains("SHA-256"), "{error}");
    }
}
