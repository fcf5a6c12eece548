//! Lays a scenario's tree out, in memory or in a temporary directory that stands for `/lab`.

use std::path::{Path, PathBuf};

use convoke_explain::{AgentReport, Session, explain};
use convoke_files::{Disk, Files, MemoryTree};
use tempfile::TempDir;

use crate::scenario::{Content, Scenario};

const LAB: &str = "/lab";

/// A tree that is laid out.
pub struct Laid {
    files: Box<dyn Files + Sync>,
    /// Removes the tree from the disk in the end.
    _directory: Option<TempDir>,
    /// The directory in place of `/lab`.
    lab: String,
    pub title: &'static str,
}

/// Lays the tree out in every way that can be had.
pub fn all(scenario: &Scenario) -> Vec<Laid> {
    let mut layouts = vec![in_memory(scenario)];
    // Files outside of `/lab` are the machine's.
    if !scenario.files.iter().any(|(path, _)| path.starts_with('/')) {
        layouts.push(on_disk(scenario));
    }
    layouts
}

pub fn in_memory(scenario: &Scenario) -> Laid {
    let mut tree = MemoryTree::default();
    let lab = LAB.to_owned();
    for directory in [&scenario.home, &scenario.cwd] {
        tree.create_directory(directory);
    }
    for (path, content) in &scenario.files {
        let path = rooted(LAB, path);
        match content {
            Content::Skill(bytes) | Content::File(bytes) => tree.write(&path, bytes.clone()),
            Content::Link(target) => tree.link(&path, target),
            Content::Directory => tree.create_directory(&path),
        }
    }
    for (path, text) in repositories(scenario, LAB) {
        tree.write(path, text);
    }
    Laid { files: Box::new(tree), _directory: None, lab, title: "in memory" }
}

fn on_disk(scenario: &Scenario) -> Laid {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let lab = directory.path().canonicalize().expect("its real path").join("lab");
    let lab = lab.to_str().expect("a path that is text").to_owned();
    let create = |path: &Path| std::fs::create_dir_all(path).expect("a directory");
    let write = |path: &str, bytes: &[u8]| {
        create(Path::new(path).parent().expect("a parent"));
        std::fs::write(path, bytes).expect("a file");
    };
    for (path, content) in &scenario.files {
        let path = rooted(&lab, path);
        match content {
            Content::Skill(bytes) => write(&path, bytes),
            Content::File(bytes) => {
                write(&path, String::from_utf8_lossy(bytes).replace(LAB, &lab).as_bytes());
            }
            Content::Link(target) => {
                create(Path::new(&path).parent().expect("a parent"));
                std::os::unix::fs::symlink(target.replace(LAB, &lab), &path).expect("a link");
            }
            Content::Directory => create(Path::new(&path)),
        }
    }
    for (path, text) in repositories(scenario, &lab) {
        write(&path, text.as_bytes());
    }
    for place in [&scenario.home, &scenario.cwd] {
        create(Path::new(&place.replace(LAB, &lab)));
    }
    Laid { files: Box::new(Disk), _directory: Some(directory), lab, title: "on disk" }
}

impl Laid {
    /// Explains the scenario for one agent, started as it was.
    pub fn explain(&self, scenario: &Scenario, agent: &str) -> AgentReport {
        let edition = convoke_vendors::edition(agent).expect("a known agent");
        let mut session = Session::new(self.moved(&scenario.cwd), self.moved(&scenario.home));
        session.variables.insert("GEMINI_CLI_TRUST_WORKSPACE".into(), "true".into());
        let codex_home = format!("{}/.codex", self.moved(&scenario.home));
        session.variables.insert("CODEX_HOME".into(), codex_home);
        if let Some((arguments, variables)) = scenario.settings.get(agent) {
            session.arguments = arguments.iter().map(|it| self.moved(it)).collect();
            for (name, value) in variables {
                match value {
                    Some(value) if name == "HOME" => session.home = self.moved(value).into(),
                    Some(value) => {
                        session.variables.insert(name.clone(), self.moved(value));
                    }
                    None => {
                        session.variables.remove(name);
                    }
                }
            }
        }
        let mut report = explain(&*self.files, &session, &[edition]);
        report.agents.remove(0)
    }

    /// Returns a path of the scenario where it stands now.
    pub fn path(&self, path: &str) -> PathBuf {
        PathBuf::from(rooted(&self.lab, path))
    }

    fn moved(&self, text: &str) -> String {
        text.replace(LAB, &self.lab)
    }
}

fn rooted(lab: &str, path: &str) -> String {
    if path.starts_with('/') { path.to_owned() } else { format!("{lab}/{path}") }
}

fn repositories(scenario: &Scenario, lab: &str) -> Vec<(String, &'static str)> {
    let repositories = scenario.repositories.iter();
    let head = |(path, _): &(String, String)| {
        (format!("{}/.git/HEAD", rooted(lab, path)), "ref: refs/heads/main\n")
    };
    repositories.map(head).collect()
}
