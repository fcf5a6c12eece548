//! Creates the state of a program before it starts, because Landlock rules apply only to existing files.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use convoke_files::draft;

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

/// Creates a missing file, for this user only: whole or not at all.
pub(super) fn make_file(path: &Path, content: &str) -> io::Result<()> {
    match draft::write_new(path, content.as_bytes(), 0o600) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// A program takes an empty file for a broken one, and the next turn would take it for the program's own.
    #[test]
    fn a_full_disk_leaves_no_empty_state() {
        const PLACE: &str = "CONVOKE_TEST_FULL_DISK";
        if let Some(place) = std::env::var_os(PLACE) {
            assert!(make_file(&Path::new(&place).join("state"), "{}").is_err());
            return;
        }
        let place = tempfile::tempdir().unwrap();
        let status = Command::new("sh")
            .args(["-c", "trap '' XFSZ; ulimit -f 0; exec \"$@\" > /dev/null 2>&1", "sh"])
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", "sandbox::state::tests::a_full_disk_leaves_no_empty_state"])
            .env(PLACE, place.path())
            .status();
        assert!(status.unwrap().success());
        assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0);
        make_file(&place.path().join("state"), "{}").unwrap();
        make_file(&place.path().join("state"), "other").unwrap();
        assert_eq!(std::fs::read_to_string(place.path().join("state")).unwrap(), "{}");
    }
}
