//! The private home of a capture.

use std::path::{Path, PathBuf};

use convoke_agent::Vendor;

/// The maximum number of files in a configuration.
const MOST_FILES: usize = 2000;
const MOST_BYTES: u64 = 32 << 20;

/// Copies a CLI's configuration, without credentials, logs and caches.
pub(super) fn copy_configuration(vendor: Vendor, from: &Path, to: &Path) -> Result<(), HomeError> {
    let directory = vendor.facts().directory;
    let mut budget = Budget { files: MOST_FILES, bytes: MOST_BYTES };
    for name in vendor.facts().configuration {
        let (source, target) = (from.join(directory).join(name), to.join(directory).join(name));
        copy(&source, &target, &mut budget)?;
    }
    Ok(())
}

struct Budget {
    files: usize,
    bytes: u64,
}

fn copy(source: &Path, target: &Path, budget: &mut Budget) -> Result<(), HomeError> {
    let failed = |error| HomeError::Copy { path: source.to_owned(), source: error };
    let metadata = match std::fs::metadata(source) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed(error)),
    };
    if metadata.is_dir() {
        for entry in std::fs::read_dir(source).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            copy(&entry.path(), &target.join(entry.file_name()), budget)?;
        }
    } else if metadata.is_file() {
        let over = || HomeError::TooMuch { path: source.to_owned() };
        budget.files = budget.files.checked_sub(1).ok_or_else(over)?;
        budget.bytes = budget.bytes.checked_sub(metadata.len()).ok_or_else(over)?;
        if let Some(parent) = target.parent() {
            std::fs::create_dir_all(parent).map_err(failed)?;
        }
        std::fs::copy(source, target).map_err(failed)?;
    }
    Ok(())
}

/// A configuration could not be copied.
#[derive(Debug, thiserror::Error)]
pub enum HomeError {
    /// A file cannot be copied.
    #[error("cannot copy {} into the private home", path.display())]
    Copy {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// There are too many files; links may form a cycle.
    #[error("the configuration at {} is more than {MOST_FILES} files or {} MiB", path.display(), MOST_BYTES >> 20)]
    TooMuch {
        /// The last file.
        path: PathBuf,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configuration_is_copied_and_credentials_are_not() {
        let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        for (path, text) in [
            (".codex/config.toml", "model = \"x\""),
            (".codex/skills/a/SKILL.md", "skill"),
            (".codex/auth.json", "secret"),
            (".codex/log/x.log", "log"),
            (".claude/CLAUDE.md", "not this CLI's"),
        ] {
            let path = from.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        copy_configuration(Vendor::Codex, from.path(), to.path()).unwrap();
        let there = |path: &str| to.path().join(path).exists();
        assert!(there(".codex/config.toml") && there(".codex/skills/a/SKILL.md"));
        assert!(!there(".codex/auth.json") && !there(".codex/log") && !there(".claude"));
    }

    #[test]
    fn a_configuration_without_end_is_refused() {
        let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let skills = from.path().join(".codex/skills");
        std::fs::create_dir_all(&skills).unwrap();
        std::fs::write(skills.join("a"), "a").unwrap();
        std::os::unix::fs::symlink(&skills, skills.join("loop")).unwrap();
        assert!(copy_configuration(Vendor::Codex, from.path(), to.path()).is_err());
    }
}
