//! Lays a scenario's tree out, in memory or in a temporary directory that stands for `/lab`.

use std::path::{Path, PathBuf};

use convoke_explain::{AgentReport, Edition, Session, explain};
use convoke_files::{Disk, Files, MemoryTree};
use tempfile::TempDir;

use crate::scenario::{Content, Scenario};

const LAB: &str = "/lab";

/// A tree that is laid out.
pub struct Laid {
    place: Place,
    /// Removes the tree when dropped.
    _directory: Option<TempDir>,
    /// The directory in place of `/lab`.
    pub lab: PathBuf,
}

enum Place {
    Memory(MemoryTree),
    Disk,
}

/// The reason why a scenario cannot be laid out on this disk.
pub struct Skipped(pub &'static str);

/// Lays the tree out in memory, where `/lab` and `/etc` can be had.
pub fn in_memory(scenario: &Scenario) -> Laid {
    let mut tree = MemoryTree::default();
    for directory in [&scenario.home, &scenario.cwd] {
        let is_link = scenario.files.iter().any(|entry| {
            matches!(entry.content, Content::Link(_)) && rooted(LAB, &entry.path) == **directory
        });
        if !is_link {
            tree.create_directory(directory);
        }
    }
    for entry in &scenario.files {
        let path = rooted(LAB, &entry.path);
        match &entry.content {
            Content::File(bytes) => tree.write(&path, bytes.clone()),
            Content::Link(target) => tree.link(&path, target),
            Content::Directory => tree.create_directory(&path),
        }
        if entry.is_locked {
            tree.lock(&path);
        }
    }
    for (path, content) in git_files(scenario, LAB) {
        match content {
            Some(text) => tree.write(path, text),
            None => tree.create_directory(path),
        }
    }
    Laid { place: Place::Memory(tree), _directory: None, lab: PathBuf::from(LAB) }
}

/// Lays the tree out in a temporary directory, if its texts and modes allow it.
pub fn on_disk(scenario: &Scenario) -> Result<Laid, Skipped> {
    for entry in &scenario.files {
        if entry.is_locked {
            return Err(Skipped("a file must be unreadable, and root can read every file"));
        }
        if entry.path.starts_with('/') {
            return Err(Skipped("a file lies outside of /lab"));
        }
        if let Content::File(bytes) = &entry.content
            && !entry.is_settings
            && String::from_utf8_lossy(bytes).contains(LAB)
        {
            return Err(Skipped("a file holds the path /lab, and so its length would change"));
        }
    }
    let directory = tempfile::tempdir().expect("a temporary directory");
    let lab = directory.path().canonicalize().expect("its real path").join("lab");
    let text_lab = lab.to_str().expect("a path that is text").to_owned();
    let moved = |text: &str| text.replace(LAB, &text_lab);
    let created = |path: &Path| std::fs::create_dir_all(path).expect("a directory");
    for entry in &scenario.files {
        let path = PathBuf::from(rooted(&text_lab, &entry.path));
        created(path.parent().expect("a parent"));
        match &entry.content {
            Content::File(bytes) if entry.is_settings => {
                std::fs::write(path, moved(&String::from_utf8_lossy(bytes))).expect("a file");
            }
            Content::File(bytes) => std::fs::write(path, bytes).expect("a file"),
            Content::Link(target) => {
                std::os::unix::fs::symlink(moved(target), path).expect("a link");
            }
            Content::Directory => created(&path),
        }
    }
    for (path, content) in git_files(scenario, &text_lab) {
        let path = Path::new(&path);
        match content {
            Some(text) => {
                created(path.parent().expect("a parent"));
                std::fs::write(path, text).expect("a file");
            }
            None => created(path),
        }
    }
    for place in [&scenario.home, &scenario.cwd] {
        let path = PathBuf::from(moved(place));
        if path.symlink_metadata().is_err() {
            created(&path);
        }
    }
    Ok(Laid { place: Place::Disk, _directory: Some(directory), lab })
}

impl Laid {
    /// Explains the scenario for one agent, started as it was.
    pub fn explain(&self, scenario: &Scenario, agent: &str) -> AgentReport {
        let edition = edition(agent);
        let mut session = Session::new(self.moved(&scenario.cwd), self.moved(&scenario.home));
        session.etc = match self.place {
            Place::Memory(_) => PathBuf::from("/etc"),
            Place::Disk => self.lab.join("etc"),
        };
        session.variables.insert("GEMINI_CLI_TRUST_WORKSPACE".into(), "true".into());
        let codex_home = format!("{}/.codex", self.moved(&scenario.home));
        session.variables.insert("CODEX_HOME".into(), codex_home);
        let starts = [agent, edition.agent()];
        for start in starts.iter().filter_map(|name| scenario.settings.get(*name)) {
            session.arguments =
                start.arguments.iter().map(|argument| self.moved(argument)).collect();
            for (name, value) in &start.variables {
                match value {
                    Some(value) => session.variables.insert(name.clone(), self.moved(value)),
                    None => session.variables.remove(name),
                };
            }
        }
        session.reads = scenario.reads_of(edition).map(|path| self.moved(path).into()).collect();
        let files: &(dyn Files + Sync) = match &self.place {
            Place::Memory(tree) => tree,
            Place::Disk => &Disk,
        };
        let mut report = explain(files, &session, &[edition]);
        report.agents.remove(0)
    }

    /// Returns a path of the scenario where it stands now.
    pub fn path(&self, path: &str) -> PathBuf {
        let lab = self.lab.to_str().expect("a path that is text");
        PathBuf::from(rooted(lab, path))
    }

    /// Returns a text in which `/lab` is what stands for it.
    pub fn moved(&self, text: &str) -> String {
        text.replace(LAB, self.lab.to_str().expect("a path that is text"))
    }

    pub fn is_disk(&self) -> bool {
        matches!(self.place, Place::Disk)
    }

    pub fn title(&self) -> &'static str {
        if self.is_disk() { "on disk" } else { "in memory" }
    }
}

/// Returns the edition that a result was recorded with: a bare `claude` is the first that was.
pub fn edition(agent: &str) -> Edition {
    let agent = if agent == "claude" { "claude@2.1.197" } else { agent };
    convoke_vendors::edition(agent).expect("an agent whose rules are known")
}

/// Returns a path of the scenario below what stands for `/lab`.
///
/// Claude Code files its notes on a repository under the repository's path, with `-` for everything that is
/// no letter or digit. That directory is renamed with the lab.
fn rooted(lab: &str, path: &str) -> String {
    if path.starts_with('/') {
        return path.to_owned();
    }
    let Some((before, after)) = path.split_once("/projects/-lab") else {
        return format!("{lab}/{path}");
    };
    let key: String =
        lab.chars().map(|it| if it.is_ascii_alphanumeric() { it } else { '-' }).collect();
    format!("{lab}/{before}/projects/{key}{after}")
}

/// The files of a repository that git would have written: paths with their text, or directories.
fn git_files(scenario: &Scenario, lab: &str) -> Vec<(String, Option<String>)> {
    let mut found = Vec::new();
    let text = |text: &str| Some(text.to_owned());
    for repository in &scenario.repositories {
        let root = rooted(lab, &repository.path);
        let main = repository.main.as_deref().map(|main| rooted(lab, main));
        let name = root.rsplit('/').next().unwrap_or_default();
        match (repository.kind.as_str(), main) {
            ("emptydir", _) => found.push((format!("{root}/.git"), None)),
            ("brokenfile", _) => found.push((format!("{root}/.git"), text("not a git file\n"))),
            ("worktree", Some(main)) => {
                let git = format!("{main}/.git/worktrees/{name}");
                found.push((format!("{root}/.git"), Some(format!("gitdir: {git}\n"))));
                found.push((format!("{git}/commondir"), text("../..\n")));
                found.push((format!("{git}/gitdir"), Some(format!("{root}/.git\n"))));
                found.push((format!("{git}/HEAD"), text("ref: refs/heads/side\n")));
            }
            ("submodule", Some(main)) => {
                let git = format!("{main}/.git/modules/{name}");
                found.push((format!("{root}/.git"), Some(format!("gitdir: {git}\n"))));
                found.push((format!("{git}/HEAD"), text("ref: refs/heads/main\n")));
            }
            _ => {
                found.push((format!("{root}/.git/HEAD"), text("ref: refs/heads/main\n")));
                found.push((format!("{root}/.git/objects"), None));
                found.push((format!("{root}/.git/refs"), None));
            }
        }
    }
    found
}
