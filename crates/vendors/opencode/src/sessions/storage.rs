//! Sessions in files, as versions before 1.2 stored them: `storage/session/<project>/<session>.json`,
//! `storage/message/<session>/<message>.json` and `storage/part/<message>/<part>.json`.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use convoke_protocol::id::Millis;
use convoke_protocol::window::{At, Place};
use convoke_source::lines::{MAX_LINE, beginning};
use convoke_source::record::{Parsed, parse, text, time};
use convoke_source::{Report, SourceError};
use serde_json::Value;

use super::store::{MessageRow, PartRow, SessionRow, parsed};

/// The maximum number of files of one kind in a session.
const MAX_FILES: usize = 200_000;
/// The maximum size of a session's own file, in bytes.
const MAX_SESSION: u64 = 1 << 20;

/// A directory of files.
#[derive(Debug)]
pub struct Storage {
    directory: PathBuf,
}

impl Storage {
    /// Creates a storage of the files in a directory.
    pub fn new(directory: &Path) -> Self {
        Self { directory: directory.to_owned() }
    }

    fn sessions(&self) -> Result<Vec<SessionRow>, SourceError> {
        let directory = self.directory.join("session");
        let projects = match fs::read_dir(&directory) {
            Ok(projects) => projects,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(SourceError::read(&directory)(error)),
        };
        let files = projects.flatten().flat_map(|project| json_files(&project.path()));
        Ok(files.filter_map(|file| session(&file)).collect())
    }

    /// Returns the sessions that no other session started.
    pub fn roots(&self) -> Result<Vec<SessionRow>, SourceError> {
        let sessions = self.sessions()?;
        let ids: HashSet<&str> = sessions.iter().map(|session| session.id.as_str()).collect();
        let has_parent = |it: &SessionRow| it.parent.as_deref().is_some_and(|id| ids.contains(id));
        let roots: HashSet<&str> =
            sessions.iter().filter(|it| !has_parent(it)).map(|it| it.id.as_str()).collect();
        let reached = reach(&sessions, &roots);
        // What is not reached is a circle.
        let is_root = |it: &&SessionRow| roots.contains(&*it.id) || !reached.contains(&*it.id);
        Ok(sessions.iter().filter(is_root).cloned().collect())
    }

    /// Returns a session and those that it started, itself first.
    pub fn tree(&self, id: &str) -> Result<Vec<SessionRow>, SourceError> {
        let sessions = self.sessions()?;
        let ids = reach(&sessions, &HashSet::from([id]));
        let mut tree: Vec<SessionRow> =
            sessions.iter().filter(|session| ids.contains(&*session.id)).cloned().collect();
        tree.sort_by_key(|session| (session.id != id, session.created_at));
        Ok(tree)
    }

    /// Visits the messages of sessions, in the order of their times.
    pub fn messages(
        &self,
        sessions: &[SessionRow],
        report: &mut Report,
        visit: &mut dyn FnMut(MessageRow, &mut Report) -> ControlFlow<()>,
    ) {
        let mut order: Vec<(Option<Millis>, PathBuf, &str)> = Vec::new();
        for session in sessions {
            let directory = self.directory.join("message").join(&session.id);
            for file in json_files(&directory).take(MAX_FILES) {
                let created = json_of(&file).and_then(|json| match json {
                    Parsed::Value(data) => time(&data["time"]["created"]),
                    _ => None,
                });
                order.push((created, file, &session.id));
            }
        }
        order.sort();
        for (created, file, session_id) in order {
            let place = whole(&file);
            let json = json_of(&file).unwrap_or(Parsed::TooLarge);
            let Some(data) = parsed(json, &place, report) else { continue };
            let mut message = MessageRow {
                id: stem(&file),
                session_id: session_id.to_owned(),
                created_at: created.unwrap_or_default(),
                place,
                data,
                parts: Vec::new(),
                is_incomplete: false,
            };
            self.parts(&mut message, report);
            if visit(message, report).is_break() {
                break;
            }
        }
    }

    fn parts(&self, message: &mut MessageRow, report: &mut Report) {
        let directory = self.directory.join("part").join(&message.id);
        let mut bytes = 0;
        for file in json_files(&directory).take(MAX_FILES) {
            let place = whole(&file);
            bytes += file.metadata().map_or(0, |metadata| metadata.len());
            let json = json_of(&file).filter(|_| bytes <= MAX_LINE as u64);
            match parsed(json.unwrap_or(Parsed::TooLarge), &place, report) {
                Some(data) => message.parts.push(PartRow { id: stem(&file), place, data }),
                None => message.is_incomplete = true,
            }
        }
    }
}

/// Returns the directory and the id of a session whose own file this is.
pub fn session_at(path: &Path) -> Option<(PathBuf, String)> {
    let storage = path.parent()?.parent()?.parent()?;
    let is_session = path.parent()?.parent()?.file_name()? == "session"
        && path.extension().is_some_and(|it| it == "json")
        && storage.join("message").is_dir();
    is_session.then(|| (storage.to_owned(), stem(path)))
}

/// Returns the ids of some sessions and of those that are reached from them.
fn reach<'s>(sessions: &'s [SessionRow], from: &HashSet<&str>) -> HashSet<&'s str> {
    let mut children: HashMap<&str, Vec<&'s str>> = HashMap::new();
    for session in sessions {
        children
            .entry(session.parent.as_deref().unwrap_or_default())
            .or_default()
            .push(&session.id);
    }
    let mut reached = HashSet::new();
    let ids = sessions.iter().map(|session| session.id.as_str());
    let mut open: Vec<&'s str> = ids.filter(|id| from.contains(id)).collect();
    while let Some(id) = open.pop() {
        if reached.insert(id) {
            open.extend(children.get(id).into_iter().flatten());
        }
    }
    reached
}

fn session(file: &Path) -> Option<SessionRow> {
    let data = serde_json::from_slice::<Value>(&beginning(file, MAX_SESSION).ok()?).ok()?;
    Some(SessionRow {
        id: stem(file),
        parent: data["parentID"].as_str().map(str::to_owned),
        directory: text(&data, "directory").to_owned(),
        title: text(&data, "title").to_owned(),
        version: text(&data, "version").to_owned(),
        created_at: time(&data["time"]["created"]).unwrap_or_default(),
        updated_at: time(&data["time"]["updated"]).unwrap_or_default(),
        file: Some(file.to_owned()),
    })
}

/// Returns the files in a directory whose names end in `.json`, in order.
fn json_files(directory: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    let mut files: Vec<PathBuf> =
        paths.filter(|path| path.extension().is_some_and(|it| it == "json")).collect();
    files.sort();
    files.into_iter()
}

fn json_of(file: &Path) -> Option<Parsed> {
    beginning(file, MAX_LINE as u64 + 1).ok().map(|bytes| parse(&bytes))
}

fn stem(file: &Path) -> String {
    file.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

fn whole(file: &Path) -> Place {
    Place { file: file.to_string_lossy().into(), at: At::Whole }
}
