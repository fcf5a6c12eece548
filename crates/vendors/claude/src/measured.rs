//! How Claude Code is measured.

use std::path::{Path, PathBuf};

use convoke_agent::cli::Cli as _;
use convoke_agent::endpoint::measured::Commands;
use convoke_explain::{AgentReport, LoadReason, LoadingRules, Session, explain};
use convoke_files::{Disk, FileKind, Files as _};
use convoke_vendor::{ConfigurationCopy, HomeError, ListedSkill, MeasuredCli, UserHome};
use serde_json::Value;

use super::loading::RULES;
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
        copy_imports(copy)?;
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

    fn withheld_commands(&self, cwd: &Path) -> Option<PathBuf> {
        let servers =
            cwd.ancestors().map(|above| above.join(".mcp.json")).find(|path| path.is_file());
        let has_hooks = |path: &PathBuf| {
            let text = Disk.read(path, FileKind::Configuration).unwrap_or_default();
            let settings = serde_json::from_slice::<Value>(&text).unwrap_or_default();
            ["hooks", "apiKeyHelper"].iter().any(|name| settings.get(name).is_some())
        };
        let local = |directory: &Path| directory.join(".claude/settings.local.json");
        let root = cwd.ancestors().find(|path| path.join(".git").exists());
        let settings = [cwd.join(".claude/settings.json"), local(cwd)];
        let mut settings = settings.into_iter().chain(root.map(local));
        servers.or_else(|| settings.find(has_hooks))
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

/// Copies the files that instructions import from the home directory and from the program's own directory, each to
/// where the program looks for it: a path that begins with `~` leads into its own home, and any other starts beside
/// the file that names it.
fn copy_imports(copy: &mut ConfigurationCopy<'_>) -> Result<(), HomeError> {
    let (from, facts) = (copy.from, ClaudeCode.facts());
    let mut session = Session::new(copy.cwd, &from.home);
    if let (Some(name), Some(directory)) = (facts.directory_variable, from.directory.to_str()) {
        session.variables.insert(name.to_owned(), directory.to_owned());
    }
    let explained = explain(&Disk, &session, &[RULES.newest()]).agents;
    for file in explained.into_iter().flat_map(|agent| agent.loaded) {
        let places = from.places(&ClaudeCode, copy.to).into_iter();
        let targets = places.filter_map(|(private, users)| {
            let below = file.path.strip_prefix(users).ok()?;
            Some(private.join(below))
        });
        // Of a directory in the home, the first is the more specific.
        let target = targets.take(1).find(|target| !target.exists());
        let credentials = facts.sign_in.credentials;
        let is_credential = credentials.iter().any(|name| file.path.ends_with(name));
        if let (LoadReason::Import { .. }, Some(target), false) = (&file.why, target, is_credential)
        {
            copy.copy(&file.path, &target)?;
        }
    }
    Ok(())
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
