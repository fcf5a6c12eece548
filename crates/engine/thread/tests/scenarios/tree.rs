//! The files of a scenario, which its commands may change while threads read them.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use convoke_files::{EntryKind, FileKind, Files, Head, MemoryTree};
use serde_json::Value;

use crate::scenario::{Scenario, texts};

const LAB: &str = "/lab";

pub(crate) struct Tree {
    files: RwLock<MemoryTree>,
    repositories: Vec<String>,
    unreadable: Vec<String>,
    cwd: String,
}

impl Tree {
    fn files(&self) -> RwLockReadGuard<'_, MemoryTree> {
        self.files.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn files_mut(&self) -> RwLockWriteGuard<'_, MemoryTree> {
        self.files.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn lay_out(scenario: &Scenario, packs: &Path) -> Result<Self, String> {
        let codex_home = scenario.text("codexHome").unwrap_or("/lab/codex_home");
        let mut files = MemoryTree::default();
        let installed = ["/bin/bash", "/bin/sh", "/usr/bin/bash", "/usr/bin/sh"];
        for path in installed {
            files.write(path, "");
        }
        for directory in ["/tmp", "/lab/home", "/lab/codex_home", "/lab/repo"] {
            files.create_directory(directory);
        }
        let version = pack_folder(scenario, packs);
        let system = version.join("skills/system");
        for entry in
            std::fs::read_dir(&system).map_err(|it| format!("{}: {it}", system.display()))?
        {
            let entry = entry.map_err(|it| it.to_string())?;
            let text = std::fs::read(entry.path().join("SKILL.md")).map_err(|it| it.to_string())?;
            let folder = Path::new(codex_home).join("skills/.system");
            files.write(folder.join(entry.file_name()).join("SKILL.md"), text);
        }
        if let Some(config) = scenario.text("config") {
            files.write(Path::new(codex_home).join("config.toml"), config);
        }
        for repository in texts(scenario.get("gitRepos")) {
            files.write(Path::new(&repository).join(".git/HEAD"), "ref: refs/heads/main\n");
        }
        for file in scenario.list("files") {
            lay_out_file(&mut files, file)?;
        }
        for key in ["home", "codexHome", "cwd"] {
            let path = Path::new(scenario.text(key).unwrap_or(LAB));
            if files.kind(path).is_err() {
                files.create_directory(resolved(&files, path));
            }
        }
        let tree = Self {
            files: RwLock::new(files),
            repositories: texts(scenario.get("gitRepos")),
            unreadable: texts(scenario.get("unreadable")),
            cwd: scenario.text("cwd").unwrap_or(LAB).to_owned(),
        };
        tree.run(&texts(scenario.get("preCommands")))?;
        Ok(tree)
    }

    /// Adds a line to a file, as the program does for its history.
    pub(crate) fn append(&self, path: &Path, line: &str) {
        let mut text = self.read_text(path, FileKind::Input).unwrap_or_default();
        text.push_str(line);
        self.files_mut().write(path, text);
    }

    pub(crate) fn read_to_string(&self, path: &str) -> Option<String> {
        self.read_text(Path::new(path), FileKind::Input).ok()
    }

    /// Runs bash commands on the files: they are written to a directory, changed there and read back. `/lab`
    /// stands for that directory.
    pub(crate) fn run(&self, commands: &[String]) -> Result<(), String> {
        if commands.is_empty() {
            return Ok(());
        }
        let folder = tempfile::tempdir().map_err(|it| it.to_string())?;
        let real = folder.path().join("lab");
        let lab = real.to_str().ok_or("the temporary folder has no name")?;
        write_out(&self.files(), Path::new(LAB), &real, lab)?;
        for repository in &self.repositories {
            let at = repository.replacen(LAB, lab, 1);
            let git = ["-c", "init.defaultBranch=main", "init", "-q", &at];
            let _ = Command::new("git").args(git).status();
        }
        for command in commands {
            // The requests show whether the command succeeded.
            let mut bash = Command::new("bash");
            bash.arg("-c").arg(command.replace(LAB, lab));
            bash.current_dir(self.cwd.replacen(LAB, lab, 1));
            bash.output().map_err(|it| format!("bash: {it}"))?;
        }
        let mut files = self.files_mut();
        files.remove(LAB);
        read_in(&mut files, &real, Path::new(LAB), lab)?;
        Ok(())
    }

    /// Refuses files that the program's user could not read: these files, and everything below these folders.
    fn allowed(&self, path: &Path, what: Access) -> io::Result<()> {
        let real = self.files().canonicalize(path);
        let real = real.unwrap_or_else(|_| path.to_owned());
        let denied = self.unreadable.iter().any(|it| {
            let locked = Path::new(it);
            real.starts_with(locked) && (what == Access::Read || real != locked)
        });
        if denied { Err(io::Error::from_raw_os_error(13)) } else { Ok(()) }
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Access {
    Look,
    Read,
}

impl Files for Tree {
    fn entry_kind(&self, path: &Path) -> io::Result<EntryKind> {
        self.allowed(path, Access::Look)?;
        self.files().entry_kind(path)
    }

    fn kind(&self, path: &Path) -> io::Result<EntryKind> {
        self.allowed(path, Access::Look)?;
        self.files().kind(path)
    }

    fn read_head(&self, path: &Path, limit: u64) -> io::Result<Head> {
        self.allowed(path, Access::Read)?;
        self.files().read_head(path, limit)
    }

    fn names(&self, directory: &Path) -> io::Result<Vec<OsString>> {
        self.allowed(directory, Access::Read)?;
        self.files().names(directory)
    }

    fn canonicalize(&self, path: &Path) -> io::Result<PathBuf> {
        self.files().canonicalize(path)
    }
}

/// Returns the pack of the version that a scenario ran with.
pub(crate) fn pack_folder(scenario: &Scenario, packs: &Path) -> PathBuf {
    let version = scenario.text("codex").unwrap_or("0.98.0");
    let minor: Vec<_> = version.split('.').take(2).collect();
    packs.join(format!("codex-{}", minor.join(".")))
}

/// Resolves the existing part of a path, so that writing below a link goes through it.
fn resolved(files: &MemoryTree, path: &Path) -> PathBuf {
    let existing = path.ancestors().find_map(|it| Some((it, files.canonicalize(it).ok()?)));
    existing.map_or(path.to_owned(), |(ancestor, real)| match path.strip_prefix(ancestor) {
        Ok(rest) if !rest.as_os_str().is_empty() => real.join(rest),
        _ => real,
    })
}

fn lay_out_file(files: &mut MemoryTree, file: &Value) -> Result<(), String> {
    let path = Path::new(file["path"].as_str().ok_or("a file has no path")?);
    let folder = resolved(files, path.parent().unwrap_or(path));
    let path = folder.join(path.file_name().unwrap_or_default());
    match file["kind"].as_str() {
        Some("dir") => files.create_directory(path),
        Some("symlink") => files.link(path, file["target"].as_str().unwrap_or("")),
        _ => {
            let bytes = match (file["content_b64"].as_str(), file["content"].as_str()) {
                (Some(encoded), _) => STANDARD.decode(encoded).map_err(|it| it.to_string())?,
                (None, text) => text.unwrap_or("").as_bytes().to_vec(),
            };
            files.write(path, bytes);
        }
    }
    Ok(())
}

fn write_out(files: &MemoryTree, from: &Path, to: &Path, lab: &str) -> Result<(), String> {
    let told = |error: io::Error| format!("{}: {error}", from.display());
    match files.entry_kind(from).map_err(told)? {
        EntryKind::Directory => {
            std::fs::create_dir_all(to).map_err(told)?;
            for name in files.names(from).map_err(told)? {
                write_out(files, &from.join(&name), &to.join(&name), lab)?;
            }
        }
        EntryKind::Symlink => {
            let target = files.link_target(from).unwrap_or_default();
            let target = target.to_string_lossy().replacen(LAB, lab, 1);
            std::os::unix::fs::symlink(target, to).map_err(told)?;
        }
        _ => std::fs::write(to, files.read(from, FileKind::Input).map_err(told)?).map_err(told)?,
    }
    Ok(())
}

fn read_in(files: &mut MemoryTree, from: &Path, to: &Path, lab: &str) -> Result<(), String> {
    let told = |error: io::Error| format!("{}: {error}", from.display());
    let found = std::fs::symlink_metadata(from).map_err(told)?;
    if found.is_symlink() {
        let target = std::fs::read_link(from).map_err(told)?;
        files.link(to, target.to_string_lossy().replacen(lab, LAB, 1));
    } else if found.is_dir() {
        files.create_directory(to);
        for entry in std::fs::read_dir(from).map_err(told)? {
            let name = entry.map_err(told)?.file_name();
            read_in(files, &from.join(&name), &to.join(&name), lab)?;
        }
    } else if found.is_file() {
        // The program could read files that this user cannot; only `unreadable` lists exceptions.
        let bytes = std::fs::read(from).unwrap_or_default();
        let bytes = match String::from_utf8(bytes) {
            Ok(text) => text.replace(lab, LAB).into_bytes(),
            Err(other) => other.into_bytes(),
        };
        files.write(to, bytes);
    }
    Ok(())
}
