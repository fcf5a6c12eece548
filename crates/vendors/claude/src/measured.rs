//! How Claude Code is measured.

use std::path::{Path, PathBuf};

use convoke_agent::cli::Cli as _;
use convoke_agent::endpoint::UntrustedProject;
use convoke_agent::endpoint::measured::Commands;
use convoke_agent::launch::UntrustedFile;
use convoke_explain::{AgentReport, LoadingRules};
use convoke_files::{Disk, FileKind, Files as _};
use convoke_vendor::{ConfigurationCopy, HomeError, ListedSkill, MeasuredCli, UserHome};
use serde_json::Value;

use super::loading::RULES;
use super::settings::{HELPERS, ProjectSettings};
use super::{ClaudeCode, PROJECTS, STATE_FILE};

impl MeasuredCli for ClaudeCode {
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
        // 2.1.197 also finds these above a project without a repository, and recognises them by their real paths.
        if ["skills", "commands"].contains(&name) && source.is_dir() {
            return copy.link_directory(source, target);
        }
        copy.copy(source, target)
    }

    /// Returns the notes on a project.
    fn unnamed_configuration(&self, _directory: &Path, cwd: &Path) -> Vec<PathBuf> {
        let dashed = |path: &Path| {
            let path = path.to_string_lossy();
            path.replace(|c: char| !c.is_ascii_alphanumeric(), "-")
        };
        let projects = cwd.ancestors().map(dashed);
        projects.map(|name| Path::new(PROJECTS).join(name).join("memory")).collect()
    }

    fn complete_copy(&self, copy: &mut ConfigurationCopy<'_>) -> Result<Vec<PathBuf>, HomeError> {
        copy_state(copy)?;
        let plugins = copy.from.directory.join("plugins");
        let is_left = plugins.join("installed_plugins.json").is_file();
        Ok(is_left.then_some(plugins).into_iter().collect())
    }

    /// It runs them where its user has accepted its question about the directory, or one above it.
    fn commands(
        &self,
        user: &UserHome,
        cwd: &Path,
        _report: &dyn Fn() -> Option<AgentReport>,
    ) -> Result<Commands, PathBuf> {
        let files = [user.directory.join(STATE_FILE), user.home.join(STATE_FILE)];
        let mut files =
            files.iter().filter_map(|file| Disk.read(file, FileKind::Configuration).ok());
        let state = files.find_map(|text| serde_json::from_slice::<Value>(&text).ok());
        let state = state.unwrap_or_default();
        let is_trusted = cwd.ancestors().any(|path| {
            let project = &state["projects"][&*path.to_string_lossy()];
            project["hasTrustDialogAccepted"] == true
        });
        Ok(if is_trusted { Commands::Run } else { Commands::Withheld })
    }

    fn withheld_commands(
        &self,
        project: UntrustedProject<'_>,
    ) -> Result<Option<PathBuf>, UntrustedFile> {
        let servers = project.cwd.ancestors().map(|above| above.join(".mcp.json"));
        let mut servers = servers.filter(|path| path.symlink_metadata().is_ok());
        let settings = ProjectSettings::read(project.cwd, Some(project.home))?;
        let with_hooks = settings.file_with(&["hooks", "apiKeyHelper"]).map(Path::to_owned);
        Ok(servers.next().or(with_hooks))
    }

    /// One switch turns off all hooks, and one all MCP servers.
    fn withheld_commands_of_user(&self, user: &UserHome) -> Option<PathBuf> {
        let names = |path: &Path, key: &str| {
            let text = Disk.read(path, FileKind::Configuration).ok()?;
            let value = serde_json::from_slice::<Value>(&text).ok()?;
            value.get(key)?.as_object().map(|it| !it.is_empty())
        };
        let settings = (user.directory.join("settings.json"), "hooks");
        let states = [&user.directory, &user.home].map(|it| (it.join(STATE_FILE), "mcpServers"));
        let mut files = std::iter::once(settings).chain(states);
        files.find(|(path, key)| names(path, key) == Some(true)).map(|(path, _)| path)
    }

    fn unwithheld_commands(
        &self,
        project: UntrustedProject<'_>,
    ) -> Result<Option<PathBuf>, UntrustedFile> {
        let settings = ProjectSettings::read(project.cwd, Some(project.home))?;
        Ok(settings.file_with(&HELPERS).map(Path::to_owned))
    }

    fn asks_for_compaction(&self, text: &str) -> bool {
        text.contains("Your task is to create a detailed summary of")
    }

    fn listed_skills<'t>(&self, texts: &[&'t str]) -> Vec<ListedSkill<'t>> {
        texts.iter().find_map(|text| listed_in(text)).unwrap_or_default()
    }
}

/// Copies the settings of files and skills from the file in which the program also keeps accounts and keys.
fn copy_state(copy: &ConfigurationCopy<'_>) -> Result<(), HomeError> {
    const OF_USER: [&str; 3] = ["projects", "mcpServers", "skillUsage"];
    const OF_PROJECT: [&str; 6] = [
        "hasClaudeMdExternalIncludesApproved",
        "hasTrustDialogAccepted",
        "mcpServers",
        "enabledMcpjsonServers",
        "disabledMcpjsonServers",
        "disabledMcpServers",
    ];
    let from = copy.from;
    let is_moved = from.directory != from.home.join(ClaudeCode.facts().directory);
    let source = if is_moved { &from.directory } else { &from.home }.join(STATE_FILE);
    let Ok(text) = Disk.read(&source, FileKind::Configuration) else { return Ok(()) };
    let Ok(Value::Object(mut state)) = serde_json::from_slice(&text) else { return Ok(()) };
    state.retain(|name, _| OF_USER.contains(&name.as_str()));
    if let Some(Value::Object(projects)) = state.get_mut("projects") {
        for project in projects.values_mut().filter_map(Value::as_object_mut) {
            project.retain(|name, _| OF_PROJECT.contains(&name.as_str()));
        }
    }
    let written = std::fs::write(copy.to.join(STATE_FILE), Value::Object(state).to_string());
    written.map_err(|error| HomeError::Copy { path: source, source: error })
}

/// The line before the list of skills; the list of sub-agents has the same form.
const HEADING: &str = "The following skills are available";

/// Reads `- name: description` lines, each with the lines that continue it: the paragraph after the heading.
fn listed_in(text: &str) -> Option<Vec<ListedSkill<'_>>> {
    let after = &text[text.find(HEADING)?..];
    let list = after.split("\n\n").nth(1)?;
    let list = list.split("\n</").next().unwrap_or_default();
    let mut found: Vec<ListedSkill<'_>> = Vec::new();
    for line in list.split('\n') {
        match (line.strip_prefix("- "), found.last_mut()) {
            (Some(line), _) => {
                let (name, description) = line.split_once(": ").unwrap_or((line, ""));
                found.push(ListedSkill { name, description: description.to_owned() });
            }
            (None, Some(last)) => last.description.extend(["\n", line]),
            (None, None) => {}
        }
    }
    Some(found)
}
