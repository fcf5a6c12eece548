//! The state of each CLI: what it must write to work, to resume and to stay signed in.
//!
//! Everything else in its directory is protected: settings, rules, hooks, skills and commands affect later
//! turns and the user's own sessions. The same holds for scripts that a running program reads before each
//! command (`shell-snapshots`, `session-env`, `tmp/arg0`), and for what it remembers about other projects.
//! Landlock rules apply only to existing files, so the entries are created before the program starts.

use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::adapter::CODEX_SQLITE_DIRECTORY as SQLITE_DIRECTORY;
use crate::vendor::Vendor;

/// The state of one CLI, by names in its own directory.
struct State {
    /// Directories, created if missing.
    directories: &'static [&'static str],
    /// Files created if missing, with their initial content.
    files: &'static [(&'static str, &'static str)],
    /// Files that may be written, but are not created.
    existing: &'static [&'static str],
}

const CLAUDE: State =
    State { directories: &["debug", "statsig", "telemetry"], files: &[], existing: &[] };

/// Claude Code's directories with one subdirectory per session.
const CLAUDE_SESSIONS: &[&str] = &["file-history", "session-env", "tasks"];
/// Claude Code's directory with one subdirectory per project, named by its path.
const CLAUDE_PROJECTS: &str = "projects";
/// The length above which Claude Code shortens the names of projects.
const MAX_PROJECT_CHARACTERS: usize = 200;

const CODEX: State = State {
    directories: &["archived_sessions", "log", "sessions", SQLITE_DIRECTORY, "thread-writer-locks"],
    files: &[("auth.lock", ""), ("history.jsonl", ""), ("installation_id", "")],
    existing: &["auth.json", "models_cache.json", "version.json"],
};

const GEMINI: State = State {
    directories: &["history", "tmp"],
    files: &[],
    existing: &["google_accounts.json", "installation_id", "oauth_creds.json", "projects.json"],
};

/// Creates the state of a CLI in its directory, and returns the paths that it may write. `session` is the
/// turn's session, if it is known before the turn.
pub(super) fn prepare(
    vendor: Vendor,
    directory: &Path,
    cwd: &Path,
    session: Option<&str>,
) -> io::Result<Vec<PathBuf>> {
    let state = match vendor {
        Vendor::Claude => &CLAUDE,
        Vendor::Codex => &CODEX,
        Vendor::Gemini => &GEMINI,
    };
    let mut writable = Vec::new();
    writable.extend(state.directories.iter().map(|name| directory.join(name)));
    if vendor == Vendor::Claude {
        // The program chooses this name, so it must not be a path that leads elsewhere.
        let is_name = |id: &&str| id.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
        let session = session.filter(is_name).filter(|id| !id.is_empty());
        let of_session = |name: &&str| Some(directory.join(name).join(session?));
        writable.extend(CLAUDE_SESSIONS.iter().filter_map(of_session));
        let project = claude_project(cwd).map(|name| directory.join(CLAUDE_PROJECTS).join(name));
        writable.extend(project);
    }
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

/// Returns the name of the directory where Claude Code keeps the sessions of a working directory.
fn claude_project(cwd: &Path) -> Option<String> {
    // In UTF-16 code units, as JavaScript counts.
    let units = cwd.to_str()?.encode_utf16();
    let character = |unit: u16| {
        let ascii = u8::try_from(unit).map(char::from);
        ascii.ok().filter(char::is_ascii_alphanumeric).unwrap_or('-')
    };
    let name: String = units.map(character).collect();
    (name.len() <= MAX_PROJECT_CHARACTERS).then_some(name)
}

/// Creates missing directories, for this user only.
pub(super) fn make_directories(paths: &[PathBuf]) -> io::Result<()> {
    for path in paths.iter().filter(|path| !path.is_dir()) {
        DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    }
    Ok(())
}

/// Creates a missing file, for this user only.
pub(super) fn make_file(path: &Path, content: &str) -> io::Result<()> {
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Ok(mut file) => file.write_all(content.as_bytes()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}
