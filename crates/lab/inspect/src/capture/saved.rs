//! Saved captures: a directory with `capture.json` and the exact bodies.
//!
//! The format is versioned; unknown versions are rejected.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use convoke_files::{Disk, FileKind, Files, draft};
use convoke_protocol::usage::Usage;
use convoke_rehearsal::{Answered, Recorded, Sent};
use convoke_wire::RequestKind;
use serde::{Deserialize, Serialize};

use super::{Capture, CapturedAgent, ChildEnd, UserText};
use crate::installed::Installed;

const VERSION: u64 = 1;
const MANIFEST: &str = "capture.json";

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Manifest {
    version: u64,
    agent: String,
    path: PathBuf,
    real_path: PathBuf,
    agent_version: Option<String>,
    command: Vec<String>,
    cwd: PathBuf,
    home: PathBuf,
    ended: ChildEnd,
    yours: Vec<UserText>,
    requests: Vec<Request>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Request {
    number: usize,
    #[serde(rename = "afterMs", with = "convoke_protocol::milliseconds")]
    after: Duration,
    method: String,
    target: String,
    headers: Vec<(String, String)>,
    what: RequestKind,
    answered: Answered,
    #[serde(default)]
    status: u16,
    #[serde(default)]
    usage: Option<Usage>,
    /// The file of the body; `None` without a body.
    body: Option<String>,
    /// The bytes that were sent, where the body is a masked copy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sent: Option<Sent>,
}

/// The treatment of files that exist already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Existing {
    /// They stay, and nothing is saved.
    Keep,
    /// They are replaced.
    Replace,
}

/// Returns whether a directory holds a capture.
pub fn is_saved(directory: &Path) -> bool {
    directory.join(MANIFEST).symlink_metadata().is_ok()
}

/// Writes a capture into a directory, which is created if necessary. Only this user can read it: a request contains
/// what the program read, including secrets in files.
pub fn save(capture: &Capture, directory: &Path, existing: Existing) -> Result<(), SavedError> {
    let write = |name: &str, bytes: &[u8]| {
        let path = directory.join(name);
        write_file(&path, bytes, existing).map_err(SavedError::at(&path))
    };
    let mut private = DirBuilder::new();
    let made = private.recursive(true).mode(0o700).create(directory);
    made.map_err(SavedError::at(directory))?;
    let mut requests = Vec::new();
    for request in &capture.requests {
        let body = (!request.body.is_empty()).then(|| format!("request-{}.body", request.number));
        if let Some(name) = &body {
            write(name, &request.body)?;
        }
        requests.push(Request {
            number: request.number,
            after: request.after,
            method: request.method.clone(),
            target: request.target.clone(),
            headers: request.headers.clone(),
            what: request.kind.clone(),
            answered: request.answered,
            status: request.status,
            usage: request.usage,
            body,
            sent: request.sent.clone(),
        });
    }
    let manifest = Manifest {
        version: VERSION,
        agent: capture.program.agent.to_string(),
        path: capture.program.path.clone(),
        real_path: capture.program.real_path.clone(),
        agent_version: capture.program.version.clone(),
        command: capture.command.clone(),
        cwd: capture.cwd.clone(),
        home: capture.home.clone(),
        ended: capture.ended.clone(),
        yours: capture.yours.clone(),
        requests,
    };
    let path = directory.join(MANIFEST);
    let text = serde_json::to_vec_pretty(&manifest);
    let text = text.map_err(|error| SavedError::invalid(&path, &error))?;
    write(MANIFEST, &text)
}

/// Writes a file of its own, so that no link is followed and old permissions do not apply.
fn write_file(path: &Path, bytes: &[u8], existing: Existing) -> io::Result<()> {
    match existing {
        Existing::Replace => draft::replace(path, bytes, 0o600),
        Existing::Keep => draft::write_new(path, bytes, 0o600),
    }
}

/// Reads a capture from its directory.
pub fn load(directory: &Path) -> Result<Capture, SavedError> {
    let path = directory.join(MANIFEST);
    let text = Disk.read(&path, FileKind::Record).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => SavedError::Missing(directory.to_owned()),
        _ => SavedError::at(&path)(error),
    })?;
    let value: serde_json::Value =
        serde_json::from_slice(&text).map_err(|error| SavedError::invalid(&path, &error))?;
    // Check the version first: a later format may differ in everything else.
    if value["version"] != VERSION {
        let reason = format!("`version` is {}, expected {VERSION}", value["version"]);
        return Err(SavedError::invalid(&path, &reason));
    }
    let manifest: Manifest =
        serde_json::from_value(value).map_err(|error| SavedError::invalid(&path, &error))?;
    let agent: CapturedAgent =
        manifest.agent.parse().map_err(|error| SavedError::invalid(&path, &error))?;
    let mut requests = Vec::new();
    for request in manifest.requests {
        let body = match &request.body {
            Some(name) => read_body(directory, name, &path)?,
            None => Vec::new(),
        };
        requests.push(Recorded {
            number: request.number,
            after: request.after,
            method: request.method,
            target: request.target,
            headers: request.headers,
            body: body.into(),
            sent: request.sent,
            kind: request.what,
            answered: request.answered,
            status: request.status,
            usage: request.usage,
            end: None,
        });
    }
    Ok(Capture {
        program: Installed {
            agent,
            path: manifest.path,
            real_path: manifest.real_path,
            version: manifest.agent_version,
        },
        command: manifest.command,
        cwd: manifest.cwd,
        home: manifest.home,
        ended: manifest.ended,
        requests,
        yours: manifest.yours,
        notes: Vec::new(),
    })
}

/// Reads a body beside the manifest; names that lead elsewhere are rejected.
fn read_body(directory: &Path, name: &str, manifest: &Path) -> Result<Vec<u8>, SavedError> {
    if name.contains(['/', '\\']) || name.starts_with('.') {
        let reason = format!("`body` is {name:?}, and can only be the name of a file beside it");
        return Err(SavedError::invalid(manifest, &reason));
    }
    let path = directory.join(name);
    Disk.read(&path, FileKind::Record).map_err(SavedError::at(&path))
}

/// An error while saving or loading a capture.
#[derive(Debug, thiserror::Error)]
pub enum SavedError {
    /// There is no capture.
    #[error("no saved capture in {}; make one with --save", .0.display())]
    Missing(PathBuf),
    /// A file cannot be read or written.
    #[error("cannot read or write {}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The file is not a valid capture.
    #[error("{} is not a saved capture: {reason}", path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        reason: String,
    },
}

impl SavedError {
    fn at(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::File { path, source }
    }

    fn invalid(path: &Path, reason: &impl ToString) -> Self {
        Self::Invalid { path: path.to_owned(), reason: reason.to_string() }
    }
}
