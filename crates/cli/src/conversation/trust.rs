//! Trust: the directories whose team files may choose what runs on this machine.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use convoke_agent::turn_input::Trust;
use convoke_files::{Disk, FileKind, Files};
use serde::{Deserialize, Serialize};

use super::home::Home;
use crate::outcome::UsageError;

const FILE: &str = "trusted.json";

/// The directories that the user trusts. Each stands for itself alone, not for what lies below it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TrustedDirectories {
    directories: BTreeSet<PathBuf>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    version: u32,
    directories: BTreeSet<PathBuf>,
}

impl TrustedDirectories {
    /// Reads the list; without a file nothing is trusted.
    pub fn load(home: &Home) -> anyhow::Result<Self> {
        let path = home.data.join(FILE);
        let text = match Disk.read_text(&path, FileKind::State) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(error).context(format!("cannot read {}", path.display())),
        };
        let invalid = |why: String| {
            let path = path.display();
            UsageError(format!(
                "{path} is no list of trusted directories: {why}; remove it, and trust them again"
            ))
        };
        let file: File = serde_json::from_str(&text).map_err(|error| invalid(error.to_string()))?;
        if file.version != 1 {
            return Err(invalid(format!("it has version {}", file.version)).into());
        }
        Ok(Self { directories: file.directories })
    }

    /// Writes the list, whole or not at all, for this user alone.
    pub fn save(&self, home: &Home) -> anyhow::Result<()> {
        let path = home.data.join(FILE);
        let draft = home.data.join(format!(".{FILE}.{}", std::process::id()));
        let file = File { version: 1, directories: self.directories.clone() };
        let write = || -> io::Result<()> {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(&home.data)?;
            let mut options = fs::OpenOptions::new();
            let mut out =
                options.write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
            serde_json::to_writer_pretty(&mut out, &file)?;
            out.write_all(b"\n")?;
            out.sync_all()?;
            fs::rename(&draft, &path)
        };
        write().with_context(|| format!("cannot write {}", path.display()))
    }

    /// Says whether a directory, by its real path, is trusted.
    pub fn trust_of(&self, directory: &Path) -> Trust {
        if self.directories.contains(directory) { Trust::Trusted } else { Trust::Untrusted }
    }

    /// Trusts a directory, by its real path. Returns whether that is new.
    pub fn add(&mut self, directory: PathBuf) -> bool {
        self.directories.insert(directory)
    }

    /// Trusts a directory no longer. Returns whether it was trusted.
    pub fn remove(&mut self, directory: &Path) -> bool {
        self.directories.remove(directory)
    }

    /// Returns the directories, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Path> {
        self.directories.iter().map(PathBuf::as_path)
    }
}
