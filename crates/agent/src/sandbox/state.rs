//! The state of each CLI: what it has to write to work, resume and stay signed in.
//!
//! Everything else in its directory stays as it is: settings, rules, hooks, skills and commands are
//! followed by later turns, and by the user's own. Rules hold for files that exist, so the entries are
//! made before the program starts.

use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::adapter::CODEX_SQLITE_DIRECTORY as SQLITE_DIRECTORY;
use crate::vendor::Vendor;

/// The state of one CLI, by names in its own directory.
struct State {
    /// Directories, which are made.
    directories: &'static [&'static str],
    /// Files created if missing, with their initial content.
    files: &'static [(&'static str, &'static str)],
    /// Files that may be written, but are not created.
    existing: &'static [&'static str],
}

const CLAUDE: State = State {
    directories: &[
        "backups",
        "cache",
        "debug",
        "file-history",
        "image-cache",
        "paste-cache",
        "plans",
        "projects",
        "session-env",
        "sessions",
        "shell-snapshots",
        "statsig",
        "tasks",
        "telemetry",
        "todos",
    ],
    files: &[("history.jsonl", "")],
    existing: &[],
};

const CODEX: State = State {
    directories: &[
        "archived_sessions",
        "log",
        "sessions",
        "shell_snapshots",
        SQLITE_DIRECTORY,
        "thread-writer-locks",
        "tmp",
    ],
    files: &[("auth.lock", ""), ("history.jsonl", ""), ("installation_id", "")],
    existing: &["auth.json", "models_cache.json", "version.json"],
};

const GEMINI: State = State {
    directories: &["history", "tmp"],
    files: &[],
    existing: &["google_accounts.json", "installation_id", "oauth_creds.json", "projects.json"],
};

/// Makes the state of a CLI in its directory, and returns what it may write.
pub(super) fn prepare(vendor: Vendor, directory: &Path) -> io::Result<Vec<PathBuf>> {
    let state = match vendor {
        Vendor::Claude => &CLAUDE,
        Vendor::Codex => &CODEX,
        Vendor::Gemini => &GEMINI,
    };
    let mut writable = Vec::new();
    writable.extend(state.directories.iter().map(|name| directory.join(name)));
    make_directories(&writable)?;
    for (name, content) in state.files {
        let path = directory.join(name);
        make_file(&path, content)?;
        writable.push(path);
    }
    let existing = state.existing.iter().map(|name| directory.join(name));
    writable.extend(existing.filter(|path| path.is_file()));
    Ok(writable)
}

/// Makes directories for this user alone, where there are none.
pub(super) fn make_directories(paths: &[PathBuf]) -> io::Result<()> {
    for path in paths.iter().filter(|path| !path.is_dir()) {
        DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    }
    Ok(())
}

/// Makes a file for this user alone, unless there is one.
pub(super) fn make_file(path: &Path, content: &str) -> io::Result<()> {
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Ok(mut file) => file.write_all(content.as_bytes()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}
