//! Searches a project and the directories above it for files that name commands.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::Metadata;
use std::io::ErrorKind::PermissionDenied;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use convoke_core::figures::hexadecimal;
use convoke_files::{Disk, FileKind, Files as _};
use sha2::{Digest as _, Sha256};

use super::git_config::GitConfig;
use super::location::{Location, locate};

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
pub(super) const MAX_FILES: usize = 2000;
const MAX_BYTES: u64 = 64 << 20;
const MAX_DEPTH: usize = 16;
/// The maximum number of directories of a project.
const MAX_DIRECTORIES: usize = 200_000;

/// The hash of a file that is over a limit or cannot be determined. It is never trusted.
pub(super) const OVER_LIMIT: &str = "";

/// A search for command files.
pub(super) struct CommandFileSearch<'a> {
    project: &'a Path,
    found: BTreeMap<String, String>,
    bytes: u64,
    /// The configuration files of repositories.
    pub(super) configurations: Vec<PathBuf>,
    /// The first path below which a repository may have been missed.
    pub(super) unclear: Option<PathBuf>,
    /// Whether directories were left out, because there are too many.
    pub(super) is_cut: bool,
    /// The directories of the project that were not read yet.
    open: Vec<PathBuf>,
}

impl<'a> CommandFileSearch<'a> {
    pub(super) fn new(project: &'a Path) -> Self {
        Self {
            project,
            found: BTreeMap::new(),
            bytes: 0,
            configurations: Vec::new(),
            unclear: None,
            is_cut: false,
            open: vec![PathBuf::new()],
        }
    }
}

impl CommandFileSearch<'_> {
    /// Returns the files in a project and above it; see [`super::CommandFiles::read`].
    pub(super) fn around(
        project: &Path,
        below: &BTreeSet<PathBuf>,
        home: Option<&Path>,
    ) -> BTreeMap<String, String> {
        let mut search = CommandFileSearch::new(project);
        let above = project.ancestors().enumerate().skip(1);
        for (count, _) in above.filter(|(_, directory)| home != Some(*directory)) {
            let above: PathBuf = std::iter::repeat_n("..", count).collect();
            for entry in ENTRIES {
                search.add(&above.join(entry));
            }
            search.add(&above.join(VARIABLES));
            search.add_git(&above);
        }
        let below = below.iter().flat_map(|below| below.ancestors()).chain([Path::new("")]);
        for directory in below {
            search.add(&directory.join(VARIABLES));
        }
        search.add_below(home);
        search.found
    }

    /// Adds the files in all directories of the project.
    pub(super) fn add_below(&mut self, home: Option<&Path>) {
        let mut count = 0;
        while let Some(directory) = self.open.pop() {
            count += 1;
            if count > MAX_DIRECTORIES {
                self.is_cut = true;
                return self.insert(Path::new("."), OVER_LIMIT.to_owned());
            }
            let real = self.project.join(&directory);
            let is_home = home == Some(&real);
            let Ok(listing) = std::fs::read_dir(&real) else {
                // Programs find files with known names even in a directory that cannot be listed.
                let is_closed = real.join(".git").symlink_metadata();
                if !is_closed.is_err_and(|error| error.kind() == PermissionDenied) {
                    self.insert_unclear(&directory);
                }
                continue;
            };
            let mut parts = BTreeSet::new();
            for entry in listing {
                let Ok(entry) = entry else {
                    self.insert_unclear(&directory);
                    break;
                };
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
                        parts.extend(name.and_then(part_of_repository));
                        if is_directory {
                            self.open.push(path);
                        }
                    }
                }
            }
            // A bare repository, for example one that another pushes to.
            if is_repository(&parts) && !directory.as_os_str().is_empty() {
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
        let (Ok(names), ..MAX_DEPTH) = (names, depth) else {
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
            if self.found.len() >= MAX_FILES {
                return self.insert(path, OVER_LIMIT.to_owned());
            }
            self.add_file(&path.join(&name), &real.join(&name), depth + 1);
        }
    }

    fn hash(&mut self, real: &Path, metadata: &Metadata) -> String {
        // A hook runs only if it is executable.
        let mode = if metadata.permissions().mode() & 0o111 == 0 { "" } else { "x" };
        let Ok(head) = Disk.read_head(real, MAX_BYTES - self.bytes) else {
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
            Err(_) => return self.insert_unclear(path),
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
        let names = match locate(location) {
            Location::Missing => return,
            Location::Unclear => None,
            Location::Found(real) => Disk.names(&real).ok().map(|names| (real, names)),
        };
        let Some((real, names)) = names else { return self.insert_unclear(path) };
        for name in names {
            let (path, real) = (path.join(&name), real.join(&name));
            if depth >= MAX_DEPTH || self.found.len() >= MAX_FILES {
                return self.insert_unclear(&path);
            }
            if real.join("HEAD").exists() {
                self.add_repository(&path, &real, &path);
            } else if real.is_dir() {
                self.add_modules(&path, &real, depth + 1);
            }
        }
    }

    /// Inserts a path below which there may be repositories that were not found.
    fn insert_unclear(&mut self, path: &Path) {
        self.unclear.get_or_insert_with(|| path.to_owned());
        self.insert(path, OVER_LIMIT.to_owned());
    }

    fn insert(&mut self, path: &Path, hash: String) {
        if self.found.len() > MAX_FILES {
            self.found.insert(".".to_owned(), OVER_LIMIT.to_owned());
        } else {
            self.found.insert(path.to_string_lossy().into_owned(), hash);
        }
    }
}

/// Returns the name of an entry that a repository has.
fn part_of_repository(name: &str) -> Option<&'static str> {
    ["HEAD", "commondir", "objects", "refs"].into_iter().find(|part| *part == name)
}

/// Returns whether a directory with these entries is a repository to git. Objects and references may be elsewhere.
fn is_repository(parts: &BTreeSet<&str>) -> bool {
    parts.contains("HEAD")
        && (parts.contains("commondir") || (parts.contains("objects") && parts.contains("refs")))
}

/// The directories of a repository: its own, and the one shared with other working trees.
pub struct GitDirectory {
    /// The directory of the working tree.
    pub own: PathBuf,
    /// The directory that it shares with the other working trees.
    pub common: PathBuf,
}

impl GitDirectory {
    /// Finds the directories like git does; `Missing` if there is no repository.
    pub fn find(path: &Path) -> Result<Self, Location> {
        let mut own = found(path)?;
        if own.is_file() {
            own = found(&linked(path, "gitdir:")?)?;
        }
        let common = own.join("commondir");
        let common = match locate(&common) {
            Location::Missing => own.clone(),
            _ => found(&linked(&common, "")?)?,
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

/// Reads the path that a file of git points to. It counts from the directory where the file was looked up, even if a
/// link is there.
fn linked(file: &Path, prefix: &str) -> Result<PathBuf, Location> {
    let Location::Found(_) = locate(file) else { return Err(Location::Unclear) };
    let text = Disk.read_text(file, FileKind::Configuration).map_err(|_| Location::Unclear)?;
    // Git stops with an error at any other text.
    let path = text.strip_prefix(prefix).ok_or(Location::Missing)?.trim();
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
