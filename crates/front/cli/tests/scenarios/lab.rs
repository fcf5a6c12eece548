//! The directory that stands for `/lab`.

use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use tempfile::TempDir;

use crate::scenario::{Scenario, texts};

const LAB: &str = "/lab";

/// A scenario's files, below a temporary directory.
pub(crate) struct Lab {
    _folder: TempDir,
    root: String,
}

impl Lab {
    pub(crate) fn lay_out(scenario: &Scenario, pack: &Path) -> Result<Self, String> {
        let folder = TempDir::new().map_err(|it| it.to_string())?;
        let real = folder.path().canonicalize().map_err(|it| it.to_string())?.join("lab");
        let root = real.to_str().ok_or("the temporary directory has no name")?.to_owned();
        let lab = Self { _folder: folder, root };
        lab.fill(scenario, pack).map_err(|error| format!("cannot lay out the files: {error}"))?;
        let repositories = texts(scenario.get("gitRepos"));
        let commands = texts(scenario.get("preCommands"));
        if !commands.is_empty() {
            let inits = repositories.iter().map(|it| format!("git init -q '{it}'"));
            lab.bash(&inits.collect::<Vec<_>>())?;
        }
        lab.bash(&commands)?;
        for path in texts(scenario.get("unreadable")) {
            let none = fs::Permissions::from_mode(0o0);
            fs::set_permissions(lab.path(&path), none).map_err(|it| it.to_string())?;
        }
        Ok(lab)
    }

    /// Returns a text with the directory in the place of `/lab`.
    pub(crate) fn map(&self, text: &str) -> String {
        text.replace(LAB, &self.root)
    }

    /// Returns a text with `/lab` in the place of the directory.
    pub(crate) fn map_back(&self, text: &str) -> String {
        text.replace(&self.root, LAB)
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.map(path).into()
    }

    /// Runs commands that change the files.
    pub(crate) fn bash(&self, commands: &[String]) -> Result<(), String> {
        for command in commands {
            let script = self.map(command);
            let mut bash = Command::new("bash");
            let done = bash.args(["-c", &script]).current_dir(&self.root).output();
            let done = done.map_err(|error| format!("bash: {error}"))?;
            if !done.status.success() {
                let told = String::from_utf8_lossy(&done.stderr).into_owned();
                return Err(format!("`{command}` failed: {told}"));
            }
        }
        Ok(())
    }

    fn fill(&self, scenario: &Scenario, pack: &Path) -> io::Result<()> {
        let given = ["home", "codexHome", "cwd"].map(|key| scenario.text(key).unwrap_or(LAB));
        for path in ["/lab/home", "/lab/codex_home", "/lab/repo"].into_iter().chain(given) {
            fs::create_dir_all(self.path(path))?;
        }
        let codex_home = self.path(scenario.text("codexHome").unwrap_or("/lab/codex_home"));
        for entry in fs::read_dir(pack.join("skills/system"))? {
            let entry = entry?;
            let to = codex_home.join("skills/.system").join(entry.file_name());
            fs::create_dir_all(&to)?;
            fs::copy(entry.path().join("SKILL.md"), to.join("SKILL.md"))?;
        }
        if let Some(config) = scenario.text("config") {
            // Commands of a scenario may copy it from the usual place.
            for home in [&codex_home, &self.path("/lab/codex_home")] {
                fs::write(home.join("config.toml"), self.map(config))?;
            }
        }
        for repository in texts(scenario.get("gitRepos")) {
            let git = self.path(&repository).join(".git");
            fs::create_dir_all(&git)?;
            fs::write(git.join("HEAD"), "ref: refs/heads/main\n")?;
        }
        for file in scenario.list("files") {
            self.write(file)?;
        }
        Ok(())
    }

    fn write(&self, file: &Value) -> io::Result<()> {
        let path = self.path(file["path"].as_str().unwrap_or(LAB));
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        let content = file["content"].as_str().unwrap_or("");
        match file["kind"].as_str() {
            Some("dir") => fs::create_dir_all(&path)?,
            Some("symlink") => {
                symlink(self.map(file["target"].as_str().unwrap_or("")), &path)?;
                return Ok(());
            }
            _ => match file["content_b64"].as_str() {
                Some(encoded) => {
                    fs::write(&path, STANDARD.decode(encoded).map_err(io::Error::other)?)?;
                }
                // Only configuration names paths; texts for the model must not change.
                None if is_configuration(&path) => fs::write(&path, self.map(content))?,
                None => fs::write(&path, content)?,
            },
        }
        let mode = file["mode"].as_str().map(|it| it.trim_start_matches("0o"));
        if let Some(mode) = mode.and_then(|it| u32::from_str_radix(it, 8).ok()) {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode))?;
        }
        Ok(())
    }
}

fn is_configuration(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name == "config.toml" || name == "passwd")
}
