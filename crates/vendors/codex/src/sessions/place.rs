//! Where the session files of a home are.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use convoke_core::Millis;
use convoke_source::lines::beginning;
use convoke_source::{FoundSession, SourceError};

use super::PROGRAM;
use super::head::{Head, is_uuid};

/// The directories of session files in the program's own.
const DIRECTORIES: [&str; 2] = ["sessions", "archived_sessions"];
/// The depth of `sessions/YYYY/MM/DD`, and one more.
const MAX_DEPTH: usize = 5;
/// The largest number of sub-agents of sub-agents.
const MAX_PARENTS: usize = 64;
/// How much of a file is read to find its first record: most are much shorter.
const BEGINNINGS: [u64; 2] = [64 << 10, 4 << 20];

/// Returns the thread of a session file, by its name.
pub(super) fn thread_of(path: &Path) -> Option<&str> {
    let name = path.file_name()?.to_str()?;
    let stem = name.strip_suffix(".zst").unwrap_or(name).strip_suffix(".jsonl")?;
    let stem = stem.strip_prefix("rollout-")?;
    stem.get(stem.len().checked_sub(36)?..).filter(|id| is_uuid(id))
}

/// Returns the program's directory that a session file lies in.
pub(super) fn home_of(path: &Path) -> Option<&Path> {
    let in_it = path.ancestors().skip(1).take(MAX_DEPTH + 1);
    let mut named = in_it.filter(|it| DIRECTORIES.iter().any(|name| it.ends_with(name)));
    named.next()?.parent()
}

/// Finds all session files in the program's directory.
pub(super) fn files(home: &Path, found: &mut dyn FnMut(Result<PathBuf, SourceError>)) {
    for name in DIRECTORIES {
        let directory = home.join(name);
        if directory.exists() {
            walk(&directory, MAX_DEPTH, found);
        }
    }
}

fn walk(directory: &Path, depth: usize, found: &mut dyn FnMut(Result<PathBuf, SourceError>)) {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) => return found(Err(SourceError::read(directory)(error))),
    };
    let mut entries: Vec<_> = entries.filter_map(Result::ok).collect();
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        match entry.file_type() {
            Ok(kind) if kind.is_dir() && depth > 1 => walk(&path, depth - 1, found),
            Ok(kind) if kind.is_file() && thread_of(&path).is_some() => {
                // While the program compresses a file, both are there.
                let is_double = path.extension().is_some_and(|it| it == "zst")
                    && path.with_extension("").exists();
                if !is_double {
                    found(Ok(path));
                }
            }
            _ => {}
        }
    }
}

/// Finds the file of a thread in the program's directory.
pub(super) fn find(home: &Path, thread: &str) -> Option<PathBuf> {
    let mut file = None;
    files(home, &mut |found| {
        let found = found.ok().filter(|path| thread_of(path) == Some(thread));
        file = file.take().or(found);
    });
    file
}

/// Reads the first record of a file; `None` if it is not a session of Codex.
pub(super) fn head(path: &Path) -> Result<Option<Head>, SourceError> {
    for max in BEGINNINGS {
        let bytes = beginning(path, max).map_err(SourceError::read(path))?;
        let end = memchr::memchr(b'\n', &bytes);
        if end.is_some() || (bytes.len() as u64) < max {
            return Ok(Head::read(&bytes[..end.unwrap_or(bytes.len())]));
        }
    }
    Ok(None)
}

/// A session file and its first record.
pub(super) struct Candidate {
    pub path: PathBuf,
    pub head: Head,
    changed_at: Millis,
    bytes: u64,
}

impl Candidate {
    /// Reads the first record of a file. One that is too long is known by the file's name.
    pub(super) fn read(path: PathBuf) -> Result<Option<Self>, SourceError> {
        let metadata = fs::metadata(&path).map_err(SourceError::read(&path))?;
        let named = || Some(Head { id: thread_of(&path)?.to_owned(), ..Head::default() });
        let Some(head) = head(&path)?.or_else(named) else { return Ok(None) };
        let changed = metadata.modified().ok().and_then(|it| it.duration_since(UNIX_EPOCH).ok());
        let changed = changed.and_then(|it| i64::try_from(it.as_millis()).ok());
        let changed_at = Millis(changed.unwrap_or(0));
        Ok(Some(Self { path, head, changed_at, bytes: metadata.len() }))
    }

    fn into_session(self) -> FoundSession {
        let parent = self.head.root().map(str::to_owned).or(self.head.forked_from);
        FoundSession {
            program: PROGRAM,
            id: self.head.id,
            path: self.path.clone(),
            files: vec![self.path],
            cwd: self.head.cwd,
            changed_at: self.changed_at,
            bytes: self.bytes,
            parent,
        }
    }
}

/// Returns the sessions of files, each with the files of its sub-agents. A sub-agent whose session is not there is one of
/// its own.
pub(super) fn sessions(candidates: Vec<Candidate>) -> Vec<FoundSession> {
    let parents: HashMap<String, Option<String>> = candidates
        .iter()
        .map(|it| (it.head.id.clone(), it.head.root().map(str::to_owned)))
        .collect();
    let mut found: Vec<FoundSession> = Vec::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    let mut of_subagents = Vec::new();
    for candidate in candidates {
        if let Some(root) = root_of(&candidate.head, &parents) {
            of_subagents.push((root, candidate));
        } else {
            places.entry(candidate.head.id.clone()).or_insert(found.len());
            found.push(candidate.into_session());
        }
    }
    for (root, candidate) in of_subagents {
        match places.get(&root) {
            Some(&place) => {
                let session = &mut found[place];
                session.changed_at = session.changed_at.max(candidate.changed_at);
                session.bytes += candidate.bytes;
                session.files.push(candidate.path);
            }
            None => found.push(candidate.into_session()),
        }
    }
    found
}

/// Returns the session that a sub-agent belongs to, if it is there.
fn root_of(head: &Head, parents: &HashMap<String, Option<String>>) -> Option<String> {
    let mut root = head.root()?;
    // Parents may form a cycle.
    for _ in 0..MAX_PARENTS {
        match parents.get(root)? {
            Some(parent) => root = parent,
            None => return Some(root.to_owned()),
        }
    }
    None
}
