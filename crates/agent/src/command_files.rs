//! The files of a project that name commands for agents' programs and for git: settings, hooks, servers, skills.
//!
//! Trust is for these files as they are when the user grants it. A member that may edit the project could otherwise
//! have its commands run by members with wider permissions.

mod git_config;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use convoke_core::Diagnostic;
use convoke_core::figures::hexadecimal;
use convoke_files::{Disk, Files as _};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::diagnostics;

/// The files and directories of a project that can name commands for agents' programs and git. A directory includes
/// everything below it.
const ENTRIES: &[&str] = &[
    ".claude/agents",
    ".claude/commands",
    ".claude/hooks",
    ".claude/settings.json",
    ".claude/settings.local.json",
    ".claude/skills",
    ".mcp.json",
    ".codex",
    ".agents",
    ".gemini",
    ".env",
    ".git/hooks",
];

/// The maximum number of files, of bytes in them, and of directories within each other. A turn reads all of them.
const MOST_FILES: usize = 2000;
const MOST_BYTES: u64 = 64 << 20;
const MOST_DEPTH: usize = 16;

/// Stands for what is over a limit. It is never trusted.
const OVER_LIMIT: &str = "";

/// The number of files that a message names.
const NAMED_FILES: usize = 3;

/// The files of a project that name commands, by path, each with its SHA-256.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CommandFiles(BTreeMap<String, String>);

impl CommandFiles {
    /// Reads the files in some directories of a project, whose paths are relative to it.
    pub fn read(project: &Path, directories: &BTreeSet<PathBuf>) -> Self {
        let mut reading = Reading { project, found: BTreeMap::new(), bytes: 0 };
        for directory in directories {
            for entry in ENTRIES {
                reading.add(&directory.join(entry), 0);
            }
            reading.add_git_config(directory);
        }
        Self(reading.found)
    }

    /// Returns the paths.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Returns the files that are not among the trusted ones, or have changed since. A file that is gone names nothing.
    pub fn changed_since(&self, trusted: &Self) -> Vec<&str> {
        let is_trusted =
            |path: &String, hash: &String| hash != OVER_LIMIT && trusted.0.get(path) == Some(hash);
        let changed = self.0.iter().filter(|(path, hash)| !is_trusted(path, hash));
        changed.map(|(path, _)| path.as_str()).collect()
    }

    /// Returns whether a file of this path is among them.
    pub fn contains(&self, path: &str) -> bool {
        self.0.contains_key(path)
    }

    /// Returns the files in a directory, with paths that are relative to it.
    #[must_use]
    pub fn within(&self, directory: &Path) -> Self {
        let below = |(path, hash): (&String, &String)| {
            let below = Path::new(path).strip_prefix(directory).ok()?;
            Some((below.to_string_lossy().into_owned(), hash.clone()))
        };
        Self(self.0.iter().filter_map(below).collect())
    }
}

/// Returns the directories from a project down to one below it, whose files its programs follow.
pub fn directories_to(below: &Path) -> BTreeSet<PathBuf> {
    below.ancestors().map(Path::to_owned).collect()
}

/// The command files that the user trusts, for turns in one directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrustedCommands {
    /// The files, relative to the project.
    pub files: CommandFiles,
    /// The working directory of the turns, relative to the project or to a copy of it.
    pub below: PathBuf,
    /// The directory that the user trusts.
    pub granted: PathBuf,
}

impl TrustedCommands {
    /// Compares the files around a working directory with the trusted ones. Returns a diagnostic if one has changed.
    pub fn check(&self, cwd: &Path) -> Option<Diagnostic> {
        let project = cwd.ancestors().nth(self.below.components().count())?;
        let now = CommandFiles::read(project, &directories_to(&self.below));
        let changed = now.changed_since(&self.files);
        if changed.is_empty() {
            return None;
        }
        let count = changed.len();
        let mut named = changed[..count.min(NAMED_FILES)].join(", ");
        if count > NAMED_FILES {
            let _ = write!(named, " and {} more", count - NAMED_FILES);
        }
        let granted = self.granted.display();
        let message = format!(
            "{named}: changed since you trusted the directory, and can name commands; the agent is started as in a \
             directory that is not trusted. `convoke trust {granted}` trusts it again"
        );
        let diagnostic = Diagnostic::new(diagnostics::AGENT_COMMANDS_CHANGED, message);
        Some(diagnostic.with_count(count as u64))
    }
}

/// The files that were found so far.
struct Reading<'a> {
    project: &'a Path,
    found: BTreeMap<String, String>,
    bytes: u64,
}

impl Reading<'_> {
    /// Adds a file, or all files in a directory. Links are followed, as the programs do.
    fn add(&mut self, path: &Path, depth: usize) {
        let real = self.project.join(path);
        let Ok(metadata) = real.metadata() else { return };
        if metadata.is_dir() {
            let names = Disk.names(&real);
            let (Ok(names), ..MOST_DEPTH) = (names, depth) else {
                self.insert(path, OVER_LIMIT.to_owned());
                return;
            };
            for name in names {
                if self.found.len() >= MOST_FILES {
                    self.insert(path, OVER_LIMIT.to_owned());
                    return;
                }
                self.add(&path.join(name), depth + 1);
            }
        } else if metadata.is_file() && !is_sample(path) {
            // A hook runs only if it can be executed.
            let mode = if metadata.permissions().mode() & 0o111 == 0 { "" } else { "x" };
            let Ok(head) = Disk.read_head(&real, MOST_BYTES - self.bytes) else { return };
            self.bytes += head.bytes.len() as u64;
            let is_whole = head.bytes.len() as u64 >= head.size;
            let hash = if is_whole { hash_of(mode, &head.bytes) } else { OVER_LIMIT.to_owned() };
            self.insert(path, hash);
        }
    }

    /// Adds what the configuration of a repository names commands with, and the hooks that it leads to.
    fn add_git_config(&mut self, directory: &Path) {
        let path = directory.join(".git/config");
        let config = git_config::read(&self.project.join(&path));
        if !config.settings.is_empty() {
            self.insert(&path, hash_of("", config.settings.as_bytes()));
        }
        if let Some(hooks) = config.hooks {
            self.add(&directory.join(hooks), 0);
        }
    }

    fn insert(&mut self, path: &Path, hash: String) {
        self.found.insert(path.to_string_lossy().into_owned(), hash);
    }
}

/// Returns whether a file is a sample of a hook, which git writes and does not run.
fn is_sample(path: &Path) -> bool {
    path.extension().is_some_and(|it| it == "sample")
        && path.parent().is_some_and(|it| it.ends_with(".git/hooks"))
}

fn hash_of(mode: &str, bytes: &[u8]) -> String {
    format!("{}{mode}", hexadecimal(&Sha256::digest(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(path: &Path, text: &str) {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn trusted(project: &Path, below: &str) -> TrustedCommands {
        let files = CommandFiles::read(project, &directories_to(Path::new(below)));
        TrustedCommands { files, below: below.into(), granted: project.to_owned() }
    }

    #[test]
    fn every_file_that_names_commands_is_trusted_by_its_content() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["AGENTS.md", "CLAUDE.md", "src/main.rs", ".claude/plans/a.md"] {
            write(&dir.path().join(name), "a");
        }
        let before = trusted(dir.path(), "");
        assert_eq!(before.check(dir.path()), None);
        for name in
            ["AGENTS.md", "CLAUDE.md", "src/main.rs", ".claude/plans/b.md", "other/.mcp.json"]
        {
            write(&dir.path().join(name), "b");
        }
        assert_eq!(before.check(dir.path()), None, "instructions and sources are no commands");
        for name in [
            ".claude/settings.json",
            ".claude/settings.local.json",
            ".claude/skills/x/SKILL.md",
            ".claude/agents/x.md",
            ".claude/commands/x.md",
            ".claude/hooks/x.sh",
            ".mcp.json",
            ".codex/config.toml",
            ".codex/hooks.json",
            ".codex/rules/x.rules",
            ".agents/skills/x/SKILL.md",
            ".gemini/settings.json",
            ".gemini/.env",
            ".env",
            ".git/hooks/pre-commit",
        ] {
            let before = trusted(dir.path(), "");
            for text in ["one", "two"] {
                write(&dir.path().join(name), text);
                let told = before.check(dir.path()).map(|it| it.message).unwrap_or_default();
                assert!(told.starts_with(&format!("{name}: changed")), "{name}: {told}");
                assert_eq!(trusted(dir.path(), "").check(dir.path()), None, "{name}");
            }
            let with = trusted(dir.path(), "");
            std::fs::remove_file(dir.path().join(name)).unwrap();
            assert_eq!(with.check(dir.path()), None, "{name} is gone");
        }
    }

    #[test]
    fn the_files_of_a_working_directory_below_count_too_and_in_a_copy() {
        let dir = tempfile::tempdir().unwrap();
        let (project, copy) = (dir.path().join("project"), dir.path().join("copy"));
        for root in [&project, &copy] {
            write(&root.join("a/b/.claude/settings.json"), "{}");
            write(&root.join("a/.mcp.json"), "{}");
        }
        let before = trusted(&project, "a/b");
        assert_eq!(before.check(&copy.join("a/b")), None);
        for name in ["a/b/.claude/settings.json", "a/.mcp.json", ".mcp.json"] {
            write(&copy.join(name), "{\"x\": 1}");
            let told = before.check(&copy.join("a/b")).unwrap();
            assert!(told.message.contains(name), "{told:?}");
        }
        assert_eq!(before.check(&project.join("a/b")), None);
    }

    #[test]
    fn a_hook_that_becomes_executable_or_is_linked_has_changed() {
        let dir = tempfile::tempdir().unwrap();
        let hook = dir.path().join(".git/hooks/pre-commit");
        write(&hook, "#!/bin/sh\n");
        write(&dir.path().join(".git/hooks/pre-push.sample"), "#!/bin/sh\n");
        let before = trusted(dir.path(), "");
        assert_eq!(before.files.paths().collect::<Vec<_>>(), [".git/hooks/pre-commit"]);
        std::fs::set_permissions(&hook, std::fs::Permissions::from_mode(0o755)).unwrap();
        assert!(before.check(dir.path()).is_some());

        write(&dir.path().join("skills/x/SKILL.md"), "one");
        std::fs::create_dir(dir.path().join(".claude")).unwrap();
        std::os::unix::fs::symlink("../skills", dir.path().join(".claude/skills")).unwrap();
        // A circle of links ends.
        std::os::unix::fs::symlink("..", dir.path().join("skills/x/up")).unwrap();
        let before = trusted(dir.path(), "");
        assert!(before.files.contains(".claude/skills/x/SKILL.md"));
        write(&dir.path().join("skills/x/SKILL.md"), "two");
        assert!(before.check(dir.path()).is_some());
    }

    #[test]
    fn what_is_over_a_limit_is_never_trusted() {
        let dir = tempfile::tempdir().unwrap();
        for number in 0..=MOST_FILES {
            write(&dir.path().join(format!(".codex/{number}")), "");
        }
        let told = trusted(dir.path(), "").check(dir.path()).unwrap();
        assert!(told.message.starts_with(".codex: changed"), "{told:?}");
    }
}
