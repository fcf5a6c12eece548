//! The files of a project that name commands for agents' programs and for git: settings, hooks, servers, skills.
//!
//! The user trusts these files in their current state. Otherwise, a member that may edit the project could have
//! its commands run by members with wider permissions.

mod git_config;
mod location;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs::Metadata;
use std::io::ErrorKind::PermissionDenied;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use convoke_core::Diagnostic;
use convoke_core::figures::hexadecimal;
use convoke_files::{Disk, FileKind, Files as _};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use self::git_config::GitConfig;
use self::location::{Location, locate};
use crate::diagnostics;

/// The files and directories that can name commands for agents' programs, in any directory of a project and
/// above it. A directory includes everything below it.
const ENTRIES: &[&str] = &[
    ".agents",
    ".claude",
    ".codex",
    ".gemini",
    ".github",
    ".kilo",
    ".kilocode",
    ".kimi",
    ".kimi-code",
    ".mcp.json",
    ".opencode",
    ".qwen",
    "kilo.json",
    "kilo.jsonc",
    "opencode.json",
    "opencode.jsonc",
];

/// Files of variables, which programs load from their working directory and above it.
const VARIABLES: &str = ".env";

/// Parts of the entries that name no commands.
const WITHOUT_COMMANDS: &[&str] =
    &[".claude/CLAUDE.md", ".claude/CLAUDE.local.md", ".claude/plans", ".claude/worktrees"];

/// Parts of `.github` that name commands for agents.
const OF_GITHUB: &[&str] = &["agents", "copilot", "hooks", "mcp.json", "skills"];

/// The files and directories of a repository that name commands, besides its configuration.
const GIT_ENTRIES: &[&str] = &["branches", "hooks", "remotes"];

/// The directories of a repository that are read separately, or contain nothing that a program looks for.
const NOT_READ_OF_GIT: &[&str] =
    &["branches", "hooks", "lfs", "logs", "modules", "objects", "refs", "remotes", "worktrees"];

/// The maximum number of files, of bytes in them, and of nested directories. Every turn reads all of them.
const MOST_FILES: usize = 2000;
const MOST_BYTES: u64 = 64 << 20;
const MOST_DEPTH: usize = 16;
/// The maximum number of directories of a project.
const MOST_DIRECTORIES: usize = 200_000;

/// The hash of a file that is over a limit or cannot be determined. It is never trusted.
const OVER_LIMIT: &str = "";

/// The maximum number of files named in a message.
const NAMED_FILES: usize = 3;

/// The files of a project that name commands, by path, each with its SHA-256.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CommandFiles(BTreeMap<String, String>);

impl CommandFiles {
    /// Reads the files in a project and above it, with paths relative to the project; `below` are working
    /// directories in it. Files in the user's home are the user's own and are skipped.
    pub fn read(project: &Path, below: &BTreeSet<PathBuf>, home: Option<&Path>) -> Self {
        let project = project.canonicalize().unwrap_or_else(|_| project.to_owned());
        let home = home.map(|home| home.canonicalize().unwrap_or_else(|_| home.to_owned()));
        let mut reading = Reading::new(&project);
        let above = project.ancestors().enumerate().skip(1);
        for (count, _) in above.filter(|(_, directory)| home.as_deref() != Some(directory)) {
            let above: PathBuf = std::iter::repeat_n("..", count).collect();
            for entry in ENTRIES {
                reading.add(&above.join(entry));
            }
            reading.add(&above.join(VARIABLES));
            reading.add_git(&above);
        }
        let below = below.iter().flat_map(|below| below.ancestors()).chain([Path::new("")]);
        for directory in below {
            reading.add(&directory.join(VARIABLES));
        }
        reading.add_below(home.as_deref());
        Self(reading.found)
    }

    /// Returns the paths.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Returns the files that are not trusted or have changed since. A file that was removed names no commands.
    pub fn changed_since(&self, trusted: &Self) -> Vec<&str> {
        let is_trusted =
            |path: &String, hash: &String| hash != OVER_LIMIT && trusted.0.get(path) == Some(hash);
        let changed = self.0.iter().filter(|(path, hash)| !is_trusted(path, hash));
        changed.map(|(path, _)| path.as_str()).collect()
    }

    /// Returns whether there is a file with this path.
    pub fn contains(&self, path: &str) -> bool {
        self.0.contains_key(path)
    }

    /// Adds the files of another directory, under its path.
    pub fn add(&mut self, place: &Path, files: Self) {
        let named = |path: String| place.join(path).to_string_lossy().into_owned();
        self.0.extend(files.0.into_iter().map(|(path, hash)| (named(path), hash)));
    }

    /// Returns the files in a directory, with paths relative to it.
    #[must_use]
    pub fn within(&self, directory: &Path) -> Self {
        let below = |(path, hash): (&String, &String)| {
            let below = Path::new(path).strip_prefix(directory).ok()?;
            Some((below.to_string_lossy().into_owned(), hash.clone()))
        };
        Self(self.0.iter().filter_map(below).collect())
    }
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
    /// The user's home.
    pub home: Option<PathBuf>,
}

impl TrustedCommands {
    /// Compares the files around a working directory with the trusted ones. Returns a diagnostic if one has changed.
    pub fn check(&self, cwd: &Path) -> Option<Diagnostic> {
        let project = cwd.ancestors().nth(self.below.components().count())?;
        let now = CommandFiles::read(project, &[self.below.clone()].into(), self.home.as_deref());
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

/// Returns the configuration files of the repositories in a directory, within the limits.
pub(crate) fn git_configurations(directory: &Path) -> Vec<PathBuf> {
    let mut reading = Reading::new(directory);
    reading.add_below(None);
    reading.configurations
}

/// A search for command files.
struct Reading<'a> {
    project: &'a Path,
    found: BTreeMap<String, String>,
    bytes: u64,
    /// The configuration files of repositories.
    configurations: Vec<PathBuf>,
    /// The directories of the project that were not read yet.
    open: Vec<PathBuf>,
}

impl<'a> Reading<'a> {
    fn new(project: &'a Path) -> Self {
        Self {
            project,
            found: BTreeMap::new(),
            bytes: 0,
            configurations: Vec::new(),
            open: vec![PathBuf::new()],
        }
    }
}

impl Reading<'_> {
    /// Adds the files in all directories of the project.
    fn add_below(&mut self, home: Option<&Path>) {
        let mut count = 0;
        while let Some(directory) = self.open.pop() {
            count += 1;
            if count > MOST_DIRECTORIES {
                return self.insert(Path::new("."), OVER_LIMIT.to_owned());
            }
            let real = self.project.join(&directory);
            let is_home = home == Some(&real);
            let Ok(listing) = std::fs::read_dir(&real) else {
                // Programs find files with known names even in a directory that cannot be listed.
                let is_closed = real.join(".git").symlink_metadata();
                if !is_closed.is_err_and(|error| error.kind() == PermissionDenied) {
                    self.insert(&directory, OVER_LIMIT.to_owned());
                }
                continue;
            };
            let mut parts_of_repository = 0;
            for entry in listing.flatten() {
                let (name, kind) = (entry.file_name(), entry.file_type());
                let path = directory.join(&name);
                if directory.ends_with(".git") && NOT_READ_OF_GIT.iter().any(|it| name == **it) {
                    continue;
                }
                let is_directory = kind.is_ok_and(|kind| kind.is_dir());
                match name.to_str() {
                    Some(".git") => {
                        self.add_git(&directory);
                        self.open(&path);
                    }
                    Some(name) if ENTRIES.contains(&name) && !is_home => self.add(&path),
                    name => {
                        parts_of_repository +=
                            usize::from(matches!(name, Some("HEAD" | "objects" | "refs")));
                        if is_directory {
                            self.open.push(path);
                        }
                    }
                }
            }
            // A bare repository, for example one that another pushes to.
            if parts_of_repository == 3 && !directory.as_os_str().is_empty() {
                self.add_repository(&directory, &real, &directory);
            }
        }
    }

    /// Schedules a directory of the project to be read like any other.
    fn open(&mut self, path: &Path) {
        let metadata = self.project.join(path).symlink_metadata();
        if !path.starts_with("..") && metadata.is_ok_and(|metadata| metadata.is_dir()) {
            self.open.push(path.to_owned());
        }
    }

    /// Adds the repository of a working tree.
    fn add_git(&mut self, worktree: &Path) {
        let path = worktree.join(".git");
        self.add_repository(&path, &self.project.join(&path), worktree);
    }

    /// Adds a file, or all files in a directory.
    fn add(&mut self, path: &Path) {
        self.add_file(path, &self.project.join(path), 0);
    }

    /// Adds the files at a location under a path, which may differ from the location. Links are followed, as
    /// programs do.
    fn add_file(&mut self, path: &Path, location: &Path, depth: usize) {
        if WITHOUT_COMMANDS.iter().any(|it| path.ends_with(it)) {
            return self.open(path);
        }
        let metadata = match locate(location) {
            Location::Missing => return,
            Location::Unclear => Err(()),
            Location::Found(real) => real.symlink_metadata().map(|it| (real, it)).map_err(|_| ()),
        };
        match metadata {
            Ok((real, metadata)) if metadata.is_dir() => self.add_directory(path, &real, depth),
            Ok((real, metadata)) if metadata.is_file() => {
                if !is_sample(path) {
                    let hash = self.hash(&real, &metadata);
                    self.insert(path, hash);
                }
            }
            _ => self.insert(path, OVER_LIMIT.to_owned()),
        }
    }

    fn add_directory(&mut self, path: &Path, real: &Path, depth: usize) {
        let names = Disk.names(real);
        let (Ok(names), ..MOST_DEPTH) = (names, depth) else {
            return self.insert(path, OVER_LIMIT.to_owned());
        };
        let is_github = path.ends_with(".github");
        if is_github {
            self.open(path);
        }
        for name in names {
            if is_github && !OF_GITHUB.iter().any(|it| name == **it) {
                continue;
            }
            if self.found.len() >= MOST_FILES {
                return self.insert(path, OVER_LIMIT.to_owned());
            }
            self.add_file(&path.join(&name), &real.join(&name), depth + 1);
        }
    }

    fn hash(&mut self, real: &Path, metadata: &Metadata) -> String {
        // A hook runs only if it is executable.
        let mode = if metadata.permissions().mode() & 0o111 == 0 { "" } else { "x" };
        let Ok(head) = Disk.read_head(real, MOST_BYTES - self.bytes) else {
            return OVER_LIMIT.to_owned();
        };
        self.bytes += head.bytes.len() as u64;
        let is_whole = head.bytes.len() as u64 >= head.size;
        if is_whole { hash_of(mode, &head.bytes) } else { OVER_LIMIT.to_owned() }
    }

    /// Adds the parts of a repository that can name commands, wherever they are: configuration, hooks and
    /// submodules.
    fn add_repository(&mut self, path: &Path, location: &Path, worktree: &Path) {
        let GitDirectory { own, common } = match GitDirectory::find(location) {
            Ok(repository) => repository,
            Err(Location::Missing) => return,
            Err(_) => return self.insert(path, OVER_LIMIT.to_owned()),
        };
        for entry in GIT_ENTRIES {
            self.add_file(&path.join(entry), &common.join(entry), 0);
        }
        let mut config = GitConfig::default();
        for path in [common.join("config"), own.join("config.worktree")] {
            config.read(&path);
            self.configurations.push(path);
        }
        if config.is_unclear {
            self.insert(&path.join("config"), OVER_LIMIT.to_owned());
        } else if !config.settings.is_empty() {
            self.insert(&path.join("config"), hash_of("", config.settings.as_bytes()));
        }
        if let Some(hooks) = config.hooks {
            self.add(&worktree.join(hooks));
        }
        self.add_modules(&path.join("modules"), &own.join("modules"), 0);
    }

    /// Adds the repositories of submodules, whose names may have several components.
    fn add_modules(&mut self, path: &Path, location: &Path, depth: usize) {
        let Location::Found(real) = locate(location) else { return };
        let Ok(names) = Disk.names(&real) else { return };
        for name in names {
            let (path, real) = (path.join(&name), real.join(&name));
            if depth >= MOST_DEPTH || self.found.len() >= MOST_FILES {
                return self.insert(&path, OVER_LIMIT.to_owned());
            }
            if real.join("HEAD").exists() {
                self.add_repository(&path, &real, &path);
            } else if real.is_dir() {
                self.add_modules(&path, &real, depth + 1);
            }
        }
    }

    fn insert(&mut self, path: &Path, hash: String) {
        if self.found.len() > MOST_FILES {
            self.found.insert(".".to_owned(), OVER_LIMIT.to_owned());
        } else {
            self.found.insert(path.to_string_lossy().into_owned(), hash);
        }
    }
}

/// The directories of a repository: its own, and the one shared with other working trees.
struct GitDirectory {
    own: PathBuf,
    common: PathBuf,
}

impl GitDirectory {
    /// Finds the directories like git does; `Missing` if there is no repository.
    fn find(path: &Path) -> Result<Self, Location> {
        let mut own = found(path)?;
        if own.is_file() {
            own = found(&linked(&own, "gitdir:")?)?;
        }
        let common = own.join("commondir");
        let common = match locate(&common) {
            Location::Missing => own.clone(),
            _ => found(&linked(&found(&common)?, "")?)?,
        };
        Ok(Self { own, common })
    }
}

fn found(path: &Path) -> Result<PathBuf, Location> {
    match locate(path) {
        Location::Found(path) => Ok(path),
        other => Err(other),
    }
}

/// Reads the path that a file of git points to.
fn linked(file: &Path, prefix: &str) -> Result<PathBuf, Location> {
    let text = Disk.read_text(file, FileKind::Configuration).map_err(|_| Location::Unclear)?;
    let path = text.strip_prefix(prefix).ok_or(Location::Unclear)?.trim();
    Ok(file.parent().unwrap_or(file).join(path))
}

/// Returns whether a file is a sample hook, which git creates but does not run.
fn is_sample(path: &Path) -> bool {
    path.extension().is_some_and(|it| it == "sample")
        && path.parent().is_some_and(|it| it.ends_with("hooks"))
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
        let files = CommandFiles::read(project, &[below.into()].into(), None);
        TrustedCommands { files, below: below.into(), granted: project.to_owned(), home: None }
    }

    #[test]
    fn every_file_that_names_commands_is_trusted_by_its_content() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["AGENTS.md", "CLAUDE.md", "src/main.rs", ".claude/plans/a.md"] {
            write(&dir.path().join(name), "a");
        }
        let before = trusted(dir.path(), "");
        assert_eq!(before.check(dir.path()), None);
        for name in [
            "AGENTS.md",
            ".claude/CLAUDE.md",
            "a/CLAUDE.md",
            "src/main.rs",
            ".claude/plans/b.md",
            "other/.env",
            ".github/workflows/x.yml",
        ] {
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
            ".claude/workflows/x.js",
            ".claude/output-styles/x.md",
            "nested/deep/.claude/skills/x/SKILL.md",
            "nested/.mcp.json",
            ".opencode/plugin/x.js",
            "opencode.json",
            ".qwen/settings.json",
            ".github/hooks/x.json",
            ".mcp.json",
            ".codex/config.toml",
            ".codex/hooks.json",
            ".codex/rules/x.rules",
            ".agents/skills/x/SKILL.md",
            ".gemini/settings.json",
            ".gemini/.env",
            ".env",
            ".git/hooks/pre-commit",
            // A directory that is not an entry may contain some.
            ".claude/plans/x/.claude/skills/x/SKILL.md",
            ".claude/worktrees/x/.mcp.json",
            ".github/x/.claude/skills/x/SKILL.md",
            ".git/x/.claude/skills/x/SKILL.md",
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
    fn a_directory_that_cannot_be_listed_hides_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let hidden = dir.path().join("hidden");
        write(&hidden.join("sub/x"), "a");
        let before = trusted(dir.path(), "");
        let is_root = nix::unistd::geteuid().is_root();
        std::fs::set_permissions(&hidden, std::fs::Permissions::from_mode(0o311)).unwrap();
        let check = || before.check(dir.path()).map(|it| it.message);
        if is_root {
            // Root can list everything.
            assert_eq!(check(), None);
        } else {
            assert!(check().is_some_and(|told| told.starts_with("hidden: changed")));
        }
        std::fs::set_permissions(&hidden, std::fs::Permissions::from_mode(0o700)).unwrap();
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
        // A cycle of links ends the search.
        std::os::unix::fs::symlink("..", dir.path().join("skills/x/up")).unwrap();
        let before = trusted(dir.path(), "");
        assert!(before.files.contains(".claude/skills/x/SKILL.md"));
        write(&dir.path().join("skills/x/SKILL.md"), "two");
        assert!(before.check(dir.path()).is_some());
    }

    /// A project in a directory with a repository, in which git and its hooks run as for the user.
    fn repository(dir: &Path) -> PathBuf {
        let project = dir.join("project");
        std::fs::create_dir_all(&project).unwrap();
        shell(&project, "git init -q . && git config user.name a && git config user.email a@b");
        project
    }

    fn shell(dir: &Path, script: &str) {
        let mut command = std::process::Command::new("sh");
        let command = command.args(["-ec", script]).current_dir(dir).env_remove("GIT_DIR");
        let output = command.env("HOME", dir).output().unwrap();
        assert!(output.status.success(), "{script}: {output:?}");
    }

    #[test]
    fn git_is_followed_wherever_its_files_are() {
        let hook = "printf '#!/bin/sh\\n' > \"$1\"; chmod +x \"$1\"";
        let hook = format!("hook() {{ {hook}; }};");
        for (script, named) in [
            ("git config core.fsmonitor x", ".git/config"),
            ("hook .git/hooks/pre-commit", ".git/hooks/pre-commit"),
            (
                "mv .git .g; echo 'gitdir: .g' > .git; git config -f .g/config core.fsmonitor x",
                ".git/config",
            ),
            (
                "cp -r .git .g; echo ../.g > .git/commondir; git config -f .g/config alias.x '!y'",
                ".git/config",
            ),
            (
                "cp -r .git .g; echo ../.g > .git/commondir; hook .g/hooks/pre-commit",
                ".git/hooks/pre-commit",
            ),
            ("git config -f .git/config.worktree core.fsmonitor x", ".git/config"),
            ("git init -q sub; git -C sub config core.fsmonitor x", "sub/.git/config"),
            ("git init -q --bare x.git; hook x.git/hooks/pre-receive", "x.git/hooks/pre-receive"),
            ("git config remote.origin.url $PWD/x.git", ".git/config"),
            ("mkdir .git/remotes; echo 'URL: x' > .git/remotes/origin", ".git/remotes/origin"),
            (
                "git init -q --bare .git/modules/a/b; git config -f .git/modules/a/b/config core.fsmonitor x",
                ".git/modules/a/b/config",
            ),
            (
                "rm -rf .git/hooks; mkdir .h; hook .h/pre-commit; ln -s ../.h .git/hooks",
                ".git/hooks/pre-commit",
            ),
            ("rm -rf .git/hooks; ln -s /proc/self/cwd/.h .git/hooks", ".git/hooks"),
            ("ln -s /proc/self/cwd/x.json .mcp.json", ".mcp.json"),
            ("mkdir .claude; mkfifo .claude/settings.json", ".claude/settings.json"),
            ("mv .git .g; echo 'gitdir: /proc/self/cwd/.g' > .git", ".git"),
            ("git config include.path /proc/self/cwd/x", ".git/config"),
        ] {
            let dir = tempfile::tempdir().unwrap();
            let project = repository(dir.path());
            let before = trusted(&project, "");
            assert_eq!(before.check(&project), None);
            shell(&project, &format!("{hook} {script}"));
            let told = before.check(&project).map(|it| it.message).unwrap_or_default();
            let names = told.split_once(": changed").map_or("", |(names, _)| names);
            assert!(names.split(", ").any(|name| name == named), "{script}: {told}");
        }
    }

    #[test]
    fn everyday_work_with_git_changes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let project = repository(dir.path());
        let before = trusted(&project, "");
        shell(
            &project,
            "git remote add origin https://h.example/a.git; git config branch.main.remote origin;
             touch a; git add a; git commit -qm a; git branch b; git init -q sub; git worktree add -q tree b;
             git -C tree config user.name b",
        );
        assert_eq!(before.check(&project), None);
    }

    #[test]
    fn files_above_a_project_count_except_those_of_the_home() {
        let dir = tempfile::tempdir().unwrap();
        let (home, project) = (dir.path().join("home"), dir.path().join("home/repo/app"));
        std::fs::create_dir_all(&project).unwrap();
        let home = Some(home);
        let read = || TrustedCommands {
            files: CommandFiles::read(&project, &[PathBuf::new()].into(), home.as_deref()),
            below: PathBuf::new(),
            granted: project.clone(),
            home: home.clone(),
        };
        let before = read();
        write(&dir.path().join("home/.claude/settings.json"), "{}");
        write(&dir.path().join("home/.mcp.json"), "{}");
        assert_eq!(before.check(&project), None);
        for name in [".mcp.json", "../.mcp.json", "../.claude/skills/x/SKILL.md", "../../../.env"] {
            let before = read();
            write(&project.join(name), "x");
            let told = before.check(&project).map(|it| it.message).unwrap_or_default();
            assert!(told.starts_with(&format!("{name}: changed")), "{name}: {told}");
        }
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
