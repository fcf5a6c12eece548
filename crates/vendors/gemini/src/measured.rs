//! How Gemini CLI is measured.

use std::path::{Component, Path, PathBuf};

use convoke_agent::cli::Cli as _;
use convoke_agent::endpoint::measured::Commands;
use convoke_explain::diagnostics::FOLDER_UNTRUSTED;
use convoke_explain::{AgentReport, LoadingRules};
use convoke_files::json::without_comments;
use convoke_files::{Disk, FileKind, Files as _};
use convoke_vendor::{ListedSkill, MeasuredCli, UserHome};
use serde_json::Value;

use super::loading::RULES;
use super::{GeminiCli, TRUST_VARIABLE};

impl MeasuredCli for GeminiCli {
    fn loading_rules(&self) -> &'static LoadingRules {
        &RULES
    }

    /// Returns the notes on projects, and the instruction files that settings name.
    fn unnamed_configuration(&self, directory: &Path, cwd: &Path) -> Vec<PathBuf> {
        let projects = Disk.names(&directory.join("tmp")).unwrap_or_default().into_iter();
        let notes = projects.map(|name| Path::new("tmp").join(name).join("memory"));
        notes.chain(instruction_files(directory, cwd)).collect()
    }

    fn trusting_variables(&self) -> &'static [(&'static str, &'static str)] {
        &[(TRUST_VARIABLE, "true")]
    }

    /// Trust is supplied, and with it the commands of the project's own settings.
    fn commands(
        &self,
        _user: &UserHome,
        cwd: &Path,
        report: &dyn Fn() -> Option<AgentReport>,
    ) -> Result<Commands, PathBuf> {
        let is_untrusted = is_untrusted(report().as_ref());
        let mut followed = self.facts().followed.iter().map(|name| cwd.join(name));
        match followed.find(|path| is_untrusted && path.exists()) {
            Some(path) => Err(path),
            None => Ok(Commands::Run),
        }
    }

    fn trust_supplied(&self, report: Option<&AgentReport>, cwd: &Path) -> Option<String> {
        is_untrusted(report).then(|| {
            format!(
                "{} is not trusted by gemini, which would make no request here; trust was supplied",
                cwd.display()
            )
        })
    }

    fn listed_skills<'t>(&self, texts: &[&'t str]) -> Vec<ListedSkill<'t>> {
        texts.iter().flat_map(|text| listed_in(text)).collect()
    }

    /// It reads the skills of one place at the same time.
    fn orders_skills(&self) -> bool {
        false
    }
}

fn is_untrusted(report: Option<&AgentReport>) -> bool {
    let mut found = report.into_iter().flat_map(|report| &report.diagnostics);
    found.any(|it| it.code == FOLDER_UNTRUSTED)
}

/// Returns the names of instruction files that settings choose.
fn instruction_files(directory: &Path, cwd: &Path) -> Vec<PathBuf> {
    let machine = Path::new("/etc/gemini-cli/settings.json").to_owned();
    let files = [machine, cwd.join(".gemini/settings.json"), directory.join("settings.json")];
    let mut names = Vec::new();
    for path in files {
        let text = Disk.read_text(&path, FileKind::Configuration).unwrap_or_default();
        let settings: Value = serde_json::from_str(&without_comments(&text)).unwrap_or_default();
        match &settings["context"]["fileName"] {
            Value::String(name) => names.push(PathBuf::from(name)),
            Value::Array(all) => names.extend(all.iter().filter_map(Value::as_str).map(Into::into)),
            _ => {}
        }
    }
    let is_below = |path: &PathBuf| path.components().all(|it| matches!(it, Component::Normal(_)));
    names.retain(|path| is_below(path) && !is_credential(path));
    names
}

/// Returns whether a file of the program's directory holds a credential.
fn is_credential(path: &Path) -> bool {
    let credentials = GeminiCli.facts().sign_in.credentials;
    let is_variables = path.file_name().is_some_and(|name| name == ".env");
    is_variables || credentials.iter().any(|name| path == Path::new(name))
}

/// Reads `<skill>` elements with a name and a description.
fn listed_in(text: &str) -> Vec<ListedSkill<'_>> {
    let between = |text: &'_ str, name: &str| -> Option<(usize, usize)> {
        let (open, close) = (format!("<{name}>"), format!("</{name}>"));
        let start = text.find(&open)? + open.len();
        Some((start, start + text[start..].find(&close)?))
    };
    // A description may contain the mark of an element: a name follows only a real one.
    let starts = text.match_indices("<skill>").map(|(at, mark)| &text[at + mark.len()..]);
    let blocks = starts.filter(|block| block.trim_start().starts_with("<name>"));
    let listed = |block| {
        let (name_start, name_end) = between(block, "name")?;
        let (start, end) = between(block, "description")?;
        let description = block.get(start..end)?.to_owned();
        Some(ListedSkill { name: block.get(name_start..name_end)?, description })
    };
    blocks.filter_map(listed).collect()
}
