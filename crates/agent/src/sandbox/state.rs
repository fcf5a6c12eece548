//! Creates the state of a program before it starts, because Landlock rules apply only to existing files.

use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::cli::Cli;

/// Creates the state of a CLI in its directory, and returns the paths that it may write. `session` is the
/// turn's session, if it is known before the turn.
pub(super) fn prepare(
    cli: &dyn Cli,
    directory: &Path,
    cwd: &Path,
    session: Option<&str>,
) -> io::Result<Vec<PathBuf>> {
    let state = &cli.facts().state;
    let mut writable: Vec<PathBuf> =
        state.directories.iter().map(|name| directory.join(name)).collect();
    writable.extend(cli.session_directories(directory, cwd, session));
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
