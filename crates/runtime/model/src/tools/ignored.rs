//! The `.gitignore` rules of a directory.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use convoke_files::{Disk, FileKind, Files};
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use super::ToolError;
use super::confine::{OpenDirectory, Root};

/// The names of rule files, in ascending precedence.
const NAMES: [&str; 2] = [".gitignore", ".ignore"];

/// The rules of the directories from the repository's root to the searched one, outermost first.
#[derive(Default)]
pub(super) struct IgnoreRules {
    levels: Vec<Level>,
    /// The size of the loaded rules. Compiled rules take some hundred times as much memory.
    bytes: u64,
    /// The number of files that were too large.
    pub too_large: usize,
}

struct Level {
    /// The directory that the rules are relative to.
    directory: PathBuf,
    rules: Gitignore,
    bytes: u64,
}

impl IgnoreRules {
    /// Reads the rules above a directory, up to its repository; `None` without a repository.
    pub fn above(root: &Root, directory: &OpenDirectory) -> Option<Self> {
        let mut rules = Self::default();
        let searched = root.path().join(directory.below());
        let repository =
            searched.ancestors().find(|above| Disk.kind(&above.join(".git")).is_ok())?;
        rules.read(repository, &[".git/info/exclude"], |name| read_outside(repository, name));
        let above = searched.ancestors().skip(1).take_while(|it| it.starts_with(repository));
        let above: Vec<_> = above.collect();
        for directory in above.into_iter().rev() {
            rules.read(directory, &NAMES, |name| read_outside(directory, name));
        }
        Some(rules)
    }

    /// Adds the rules of a directory. Returns the previous number of levels.
    pub fn enter(&mut self, root: &Root, directory: &OpenDirectory) -> usize {
        let before = self.levels.len();
        let path = root.path().join(directory.below());
        let limit = FileKind::Gitignore.limit();
        self.read(&path, &NAMES, |name| directory.read(OsStr::new(name), limit));
        before
    }

    /// Removes all but the first `levels` levels.
    pub fn leave(&mut self, levels: usize) {
        let removed = self.levels.drain(levels..).map(|level| level.bytes).sum::<u64>();
        self.bytes -= removed;
    }

    /// Returns whether the rules exclude an entry.
    pub fn leave_out(&self, path: &Path, is_directory: bool) -> bool {
        let decides = self.levels.iter().rev().find_map(|level| {
            let below = path.strip_prefix(&level.directory).ok()?;
            let found = level.rules.matched(below, is_directory);
            (!found.is_none()).then(|| found.is_ignore())
        });
        decides.unwrap_or(false)
    }

    fn read(
        &mut self,
        directory: &Path,
        names: &[&str],
        read: impl Fn(&str) -> Result<Vec<u8>, ToolError>,
    ) {
        let mut builder = GitignoreBuilder::new("");
        let mut bytes = 0;
        for name in names {
            let text = match read(name) {
                Ok(text) => text,
                Err(why) => {
                    self.too_large += usize::from(matches!(why, ToolError::TooLarge(_)));
                    continue;
                }
            };
            if self.bytes + bytes + text.len() as u64 > FileKind::Gitignore.limit() {
                self.too_large += 1;
                continue;
            }
            bytes += text.len() as u64;
            for line in String::from_utf8_lossy(&text).lines() {
                // Invalid lines are ignored, like in git.
                let _ = builder.add_line(None, line);
            }
        }
        if bytes > 0
            && let Ok(rules) = builder.build()
        {
            self.bytes += bytes;
            self.levels.push(Level { directory: directory.to_owned(), rules, bytes });
        }
    }
}

fn read_outside(directory: &Path, name: &str) -> Result<Vec<u8>, ToolError> {
    let path = directory.join(name);
    Disk.read(&path, FileKind::Gitignore).map_err(|error| match error.kind() {
        std::io::ErrorKind::FileTooLarge => ToolError::TooLarge(error.to_string()),
        _ => ToolError::io(name, &error),
    })
}
