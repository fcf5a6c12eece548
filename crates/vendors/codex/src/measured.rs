//! How Codex is measured.

use std::path::{Path, PathBuf};

use convoke_agent::endpoint::measured::Commands;
use convoke_explain::{AgentReport, LoadingRules};
use convoke_files::{Disk, FileKind, Files as _};
use convoke_vendor::{
    ConfigurationCopy, HomeError, ListedSkill, MeasuredCli, SettingTexts, UserHome,
};

use super::Codex;
use super::loading::RULES;

impl MeasuredCli for Codex {
    fn loading_rules(&self) -> &'static LoadingRules {
        &RULES
    }

    fn copy_entry(
        &self,
        copy: &mut ConfigurationCopy<'_>,
        name: &str,
        source: &Path,
        target: &Path,
    ) -> Result<(), HomeError> {
        if !is_within_project(copy.from, copy.cwd) || !source.is_dir() {
            return copy.copy(source, target);
        }
        match name {
            // The program writes skills of its own beside these, into `.system`.
            "skills" => {
                for entry in Disk.names(source).unwrap_or_default() {
                    let (source, target) = (source.join(&entry), target.join(&entry));
                    if entry.as_encoded_bytes().starts_with(b".") {
                        copy.copy(&source, &target)?;
                    } else {
                        copy.link_directory(&source, &target)?;
                    }
                }
                Ok(())
            }
            ".agents/skills" => copy.link_directory(source, target),
            _ => copy.copy(source, target),
        }
    }

    /// Returns the profiles that are files of their own.
    fn unnamed_configuration(&self, directory: &Path, _cwd: &Path) -> Vec<PathBuf> {
        let names = Disk.names(directory).unwrap_or_default().into_iter();
        let profiles = names.filter(|name| name.as_encoded_bytes().ends_with(b".config.toml"));
        profiles.map(PathBuf::from).collect()
    }

    fn commands(
        &self,
        _user: &UserHome,
        _cwd: &Path,
        _report: &dyn Fn() -> Option<AgentReport>,
    ) -> Result<Commands, PathBuf> {
        Ok(Commands::Run)
    }

    fn trust_supplied(&self, _report: Option<&AgentReport>, cwd: &Path) -> Option<String> {
        if cwd.ancestors().any(|it| it.join(".git").exists()) {
            return None;
        }
        Some(format!(
            "{} is not in a repository, where `codex exec` makes no request; \
             --skip-git-repo-check was supplied",
            cwd.display()
        ))
    }

    fn setting_texts(
        &self,
        arguments: &[String],
        directory: Option<&Path>,
        cwd: &Path,
    ) -> SettingTexts {
        const TEXTS: [&str; 2] = ["developer_instructions", "instructions"];
        let mut found = SettingTexts::default();
        let mut add = |name: &str, text: &str| found.texts.push((name.to_owned(), text.to_owned()));
        for (key, value) in arguments.iter().filter_map(|argument| argument.split_once('=')) {
            let name = key.rsplit('.').next().unwrap_or(key);
            if TEXTS.contains(&name) {
                let value = value.trim();
                let parsed = toml::from_str::<toml::Table>(&format!("v = {value}")).ok();
                let parsed = parsed.as_ref().and_then(|table| table.get("v")?.as_str());
                add(name, parsed.unwrap_or(value));
            }
        }
        let projects = cwd.ancestors().map(|directory| directory.join(".codex"));
        for directory in directory.map(Path::to_owned).into_iter().chain(projects) {
            let Ok(text) = Disk.read_text(&directory.join("config.toml"), FileKind::Configuration)
            else {
                continue;
            };
            let Ok(file) = toml::from_str::<toml::Table>(&text) else { continue };
            let profiles = file.get("profiles").and_then(toml::Value::as_table);
            let profiles = profiles.into_iter().flat_map(toml::Table::values);
            for table in std::iter::once(&file).chain(profiles.filter_map(toml::Value::as_table)) {
                for name in TEXTS {
                    if let Some(text) = table.get(name).and_then(toml::Value::as_str) {
                        add(name, text);
                    }
                }
                let named = table.get("model_instructions_file").and_then(toml::Value::as_str);
                found.files.extend(named.map(|named| directory.join(named)));
            }
        }
        found
    }

    fn listed_skills<'t>(&self, texts: &[&'t str]) -> Vec<ListedSkill<'t>> {
        texts.iter().flat_map(|text| text.lines().filter_map(listed_in)).collect()
    }

    /// Returns the bytes of the table of roots. It takes part of the budget, and has the paths of the private home.
    fn unsteady_bytes(&self, texts: &[&str]) -> usize {
        let lines = texts.iter().flat_map(|text| text.lines());
        lines.filter(|line| line.starts_with("- `r") && line.contains("` = `/")).map(str::len).sum()
    }
}

/// Returns whether the home itself belongs to the project, so that the program finds the user's skills there too. It
/// recognises them by their real paths.
fn is_within_project(user: &UserHome, cwd: &Path) -> bool {
    let root = cwd.ancestors().find(|path| path.join(".git").exists()).unwrap_or(cwd);
    cwd.starts_with(&user.home) && user.home.starts_with(root)
}

/// Reads a line `- name: description (file: path)`.
fn listed_in(line: &str) -> Option<ListedSkill<'_>> {
    let line = line.strip_prefix("- ")?.strip_suffix(')')?;
    let (line, _) = line.rsplit_once(" (file: ")?;
    let (name, description) =
        line.split_once(": ").or_else(|| Some((line.strip_suffix(':')?, "")))?;
    Some(ListedSkill { name, description: description.to_owned() })
}
