//! The files of sessions, and the projects that they are of.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use convoke_protocol::content::ContentHash;
use convoke_protocol::id::Millis;
use convoke_source::lines::beginning;
use convoke_source::record::{change_and_size, text};
use convoke_source::{FoundSession, SourceError};
use serde_json::Value;

use super::PROGRAM;

/// The part of a file in which the ids of its sessions are looked for, in bytes.
const BEGINNING: u64 = 256 << 10;
/// The size of a small file that is read whole.
const SMALL: u64 = 1 << 20;

/// Finds the sessions below a configuration directory.
pub fn list(directory: &Path, found: &mut dyn FnMut(Result<FoundSession, SourceError>)) {
    let projects = Projects::read(directory);
    let temporary = directory.join("tmp");
    let entries = match fs::read_dir(&temporary) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return,
        Err(error) => return found(Err(SourceError::read(&temporary)(error))),
    };
    for project in entries.flatten() {
        list_chats(&project.path().join("chats"), &|chats| projects.root(chats), found);
    }
}

/// Finds the sessions of one project.
fn list_chats(
    chats: &Path,
    root: &dyn Fn(&Path) -> Option<String>,
    found: &mut dyn FnMut(Result<FoundSession, SourceError>),
) {
    let entries = match fs::read_dir(chats) {
        Ok(entries) => entries,
        Err(error)
            if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) =>
        {
            return;
        }
        Err(error) => return found(Err(SourceError::read(chats)(error))),
    };
    // In the order of their names, which is that of their beginnings.
    let paths: BTreeSet<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    let mut sessions: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
    let mut directories = Vec::new();
    for path in paths {
        if path.is_dir() {
            directories.push(path);
        } else if is_chat(&path) {
            match session_ids(&path) {
                Ok(ids) => {
                    for id in ids {
                        sessions.entry(id).or_default().push(path.clone());
                    }
                }
                Err(error) => found(Err(SourceError::read(&path)(error))),
            }
        }
    }
    let cwd = root(chats);
    for directory in directories {
        let parent = directory.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let agents = agent_files(&directory);
        if let Some(files) = sessions.get_mut(&parent) {
            files.extend(agents);
            continue;
        }
        // The session itself is gone.
        for file in agents {
            let id = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let session = found_session(id, vec![file], cwd.clone());
            found(Ok(FoundSession { parent: Some(parent.clone()), ..session }));
        }
    }
    for (id, files) in sessions {
        found(Ok(found_session(id, files, cwd.clone())));
    }
}

/// Returns the session that a file belongs to; of a directory of chats, the one that changed last.
pub fn at(path: &Path) -> Result<Option<FoundSession>, SourceError> {
    if path.is_dir() {
        let below = path.join("chats");
        let chats = if below.is_dir() { below } else { path.to_owned() };
        let mut latest: Option<FoundSession> = None;
        list_chats(&chats, &|chats| project_root(chats), &mut |found| {
            let newer = found.ok().filter(|it| {
                latest.as_ref().is_none_or(|latest| latest.changed_at < it.changed_at)
            });
            latest = newer.or(latest.take());
        });
        return Ok(latest);
    }
    let ids = session_ids(path).map_err(SourceError::read(path))?;
    let Some(id) = ids.into_iter().next() else { return Ok(None) };
    let mut files = vec![path.to_owned()];
    files.extend(agent_files(&path.with_file_name(&id)));
    let cwd = path.parent().and_then(project_root);
    Ok(Some(found_session(id, files, cwd)))
}

/// Returns the files of a session's sub-agents.
pub fn agent_files(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> =
        entries.map(|entry| entry.path()).filter(|path| is_chat(path)).collect();
    files.sort();
    files
}

fn found_session(id: String, files: Vec<PathBuf>, cwd: Option<String>) -> FoundSession {
    let changes = files.iter().filter_map(|file| change_and_size(file).ok());
    let (changed_at, bytes) = changes.fold((Millis(0), 0), |(latest, sum), (changed, size)| {
        (changed.max(latest), size.saturating_add(sum))
    });
    let path = files.first().cloned().unwrap_or_default();
    FoundSession { program: PROGRAM, id, path, files, cwd, changed_at, bytes, parent: None }
}

/// Returns whether a file may be a chat, by its name.
fn is_chat(path: &Path) -> bool {
    path.extension().is_some_and(|it| it == "jsonl" || it == "json")
}

/// Returns whether a file is of a version before 0.39: one JSON value.
pub fn is_whole(path: &Path) -> bool {
    path.extension().is_some_and(|it| it == "json")
}

/// Returns the ids of the sessions in a file, by the headers in its beginning.
fn session_ids(path: &Path) -> io::Result<Vec<String>> {
    let bytes = beginning(path, BEGINNING)?;
    let mut ids: Vec<String> = Vec::new();
    if is_whole(path) {
        ids.extend(whole_session_id(&bytes));
        return Ok(ids);
    }
    for line in
        bytes.split(|&byte| byte == b'\n').filter(|line| line.starts_with(b"{\"sessionId\""))
    {
        let header = serde_json::from_slice::<Value>(line).unwrap_or_default();
        let id = text(&header, "sessionId");
        if header["projectHash"].is_string() && !id.is_empty() && !ids.iter().any(|it| it == id) {
            ids.push(id.to_owned());
        }
    }
    Ok(ids)
}

/// Returns the id of a session whose file is one JSON value, of which only the beginning is known.
fn whole_session_id(beginning: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(beginning);
    let fields = text.split_once("\"messages\"").map_or(&*text, |(fields, _)| fields);
    let field = |name: &str| {
        let (_, rest) = fields.split_once(&format!("\"{name}\""))?;
        let value = rest.trim_start().strip_prefix(':')?.trim_start().strip_prefix('"')?;
        value.split_once('"').map(|(value, _)| value.to_owned())
    };
    field("projectHash").and(field("sessionId"))
}

/// The projects that the program knows.
#[derive(Default)]
struct Projects {
    /// Their directories, by the name of their temporary directory.
    roots: BTreeMap<String, String>,
}

impl Projects {
    fn read(directory: &Path) -> Self {
        let bytes = beginning(&directory.join("projects.json"), SMALL).unwrap_or_default();
        let known = serde_json::from_slice::<Value>(&bytes).unwrap_or_default();
        let mut roots = BTreeMap::new();
        for (root, name) in known["projects"].as_object().into_iter().flatten() {
            roots.extend(name.as_str().map(|name| (name.to_owned(), root.clone())));
            // Older versions named the directory after the hash of the path.
            roots.insert(ContentHash::new(root).to_string(), root.clone());
        }
        Self { roots }
    }

    fn root(&self, chats: &Path) -> Option<String> {
        let name = chats.parent()?.file_name()?.to_str()?;
        project_root(chats).or_else(|| self.roots.get(name).cloned())
    }
}

/// Returns the directory of a project, from the file beside its chats.
fn project_root(chats: &Path) -> Option<String> {
    let bytes = beginning(&chats.parent()?.join(".project_root"), SMALL).ok()?;
    let root = String::from_utf8(bytes).ok()?;
    Some(root.trim_end_matches('\n').to_owned()).filter(|root| !root.is_empty())
}
