//! The settings of Gemini CLI that decide what it loads.

use std::collections::{BTreeSet, HashSet};
use std::path::{Component, Path, PathBuf};

use convoke_files::{EntryKind, Files, absolute};
use serde_json::Value;

use super::skills::SkillSettings;
use super::system_text;
use convoke_explain::AgentReport;
use convoke_explain::Session;
use convoke_explain::config;
use convoke_explain::diagnostics;
use convoke_explain::place;

/// The name that is always looked for.
pub(super) const DEFAULT_NAME: &str = "GEMINI.md";

/// The format of imports in the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ImportFormat {
    /// In place of the `@path`.
    Tree,
    /// As further blocks behind the file.
    Flat,
}

/// The merged settings.
#[derive(Debug)]
pub(super) struct Settings {
    /// `~/.gemini`.
    pub directory: PathBuf,
    /// The names that are looked for, configured ones first.
    pub names: Vec<String>,
    /// The markers of a project's root.
    pub markers: Vec<String>,
    /// Further directories of the workspace.
    pub include_directories: Vec<PathBuf>,
    pub import_format: ImportFormat,
    pub folder_trust: bool,
    /// The reason why Gemini CLI ends before any request.
    pub refused: Option<&'static str>,
    /// The inputs that determine the list of skills.
    pub skills: SkillSettings,
}

impl Settings {
    pub(super) fn read(files: &dyn Files, session: &Session, report: &mut AgentReport) -> Self {
        let home = match session.variable("GEMINI_CLI_HOME") {
            Some(home) => absolute(&session.cwd, Path::new(home)),
            None => session.home.clone(),
        };
        let directory = home.join(".gemini");
        let mut settings = Self {
            names: vec![DEFAULT_NAME.to_owned()],
            markers: vec![".git".to_owned()],
            include_directories: Vec::new(),
            import_format: ImportFormat::Tree,
            folder_trust: true,
            refused: None,
            skills: SkillSettings { without: None, disabled: BTreeSet::new() },
            directory,
        };
        let system = session.etc.join("gemini-cli");
        let user = settings.directory.join("settings.json");
        let workspace = session.cwd.join(".gemini/settings.json");
        let is_user = workspace == user;
        let mut layers = vec![(system.join("system-defaults.json"), true), (user, true)];
        if !is_user {
            layers.push((workspace, false));
        }
        layers.push((system.join("settings.json"), true));
        for (path, is_trusted) in layers {
            let before = report.diagnostics.len();
            if let Some(value) = config::commented_json(files, &path, report) {
                settings.check(&value, &path, report);
                settings.take(&value, session, is_trusted);
            } else if report.diagnostics.len() > before {
                settings.refused = Some("Gemini CLI fails on its settings");
            }
        }
        let given = session.directories("--include-directories");
        settings.include_directories.extend(given);
        settings.check_directories(files, report);
        settings.take_system_text(files, session, report);
        report_settings_above(files, session, report);
        settings
    }

    /// Checks the names: values that are not texts end the program.
    fn check(&mut self, value: &Value, path: &Path, report: &mut AgentReport) {
        for key in ["fileName", "memoryBoundaryMarkers"] {
            let Some(found) = value.get("context").and_then(|context| context.get(key)) else {
                continue;
            };
            let is_usable = match found {
                Value::Null | Value::String(_) => true,
                Value::Array(names) => names.iter().all(Value::is_string),
                _ => false,
            };
            if !is_usable {
                let message = format!(
                    "{}: `context.{key}` is {found}: use a text or a list of texts",
                    path.display()
                );
                report.warn(diagnostics::SETTINGS_MALFORMED, path, message);
                self.refused = Some("Gemini CLI fails on its settings");
            }
        }
    }

    /// Applies a text in place of the program's own, which may leave the skills out.
    fn take_system_text(&mut self, files: &dyn Files, session: &Session, report: &mut AgentReport) {
        match system_text::replaced(files, session) {
            None => {}
            Some(Ok(system_text)) => {
                self.skills.without = self.skills.without.or(system_text.without_skills());
            }
            Some(Err(path)) => {
                let message = format!(
                    "{} is to be the system text and cannot be read: Gemini CLI ends before any request",
                    path.display()
                );
                report.warn(convoke_core::diagnostics::FILE_UNREADABLE, &path, message);
                self.refused = Some("the system text of GEMINI_SYSTEM_MD cannot be read");
            }
        }
    }

    fn check_directories(&mut self, files: &dyn Files, report: &mut AgentReport) {
        for directory in &self.include_directories {
            if !files.kind(directory).is_ok_and(|kind| kind == EntryKind::Directory) {
                let message = format!(
                    "{} is included in the workspace and is not a directory: Gemini CLI ends before any request",
                    directory.display()
                );
                report.warn(diagnostics::ADDED_DIRECTORY_MISSING, directory, message);
                self.refused = Some("an included directory does not exist");
            }
        }
    }

    fn take(&mut self, value: &Value, session: &Session, is_trusted: bool) {
        // A project cannot disable the trust check for itself.
        if is_trusted {
            let enabled = value.pointer("/security/folderTrust/enabled");
            self.folder_trust = enabled.and_then(Value::as_bool).unwrap_or(self.folder_trust);
        }
        if let Some(skills) = value.get("skills") {
            if let Some(enabled) = skills.get("enabled").and_then(Value::as_bool) {
                self.skills.without = (!enabled).then_some("skills.enabled: false");
            }
            let disabled = skills.get("disabled").map(config::strings).unwrap_or_default();
            self.skills.disabled.extend(disabled.iter().map(|name| name.to_lowercase()));
        }
        let Some(context) = value.get("context") else {
            return;
        };
        if let Some(names) = context.get("fileName") {
            self.names = names_with_default(&config::strings(names));
        }
        if let Some(markers) = context.get("memoryBoundaryMarkers") {
            let usable = |marker: &String| {
                !marker.is_empty() && !marker.starts_with('/') && !marker.contains("..")
            };
            self.markers = config::strings(markers).into_iter().filter(usable).collect();
        }
        if let Some(directories) = context.get("includeDirectories") {
            let paths = config::strings(directories);
            let paths = paths.iter().map(|path| expand(session, path));
            self.include_directories.extend(paths);
        }
        match context.get("importFormat").and_then(Value::as_str) {
            Some("flat") => self.import_format = ImportFormat::Flat,
            Some("tree") => self.import_format = ImportFormat::Tree,
            _ => {}
        }
    }

    /// Returns whether a name beside the default is looked for.
    pub(super) fn has_further_names(&self) -> bool {
        self.names.len() > 1
    }
}

/// The configured names, normalized and once each, and the default behind them.
fn names_with_default(configured: &[String]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    let mut once = HashSet::new();
    let default = [DEFAULT_NAME.to_owned()];
    for name in configured.iter().chain(&default) {
        let name = normalized(name.trim());
        if !name.is_empty() && once.insert(name.clone()) {
            names.push(name);
        }
    }
    names
}

fn normalized(name: &str) -> String {
    // A name is always looked for below a directory, even when it begins with a slash.
    let pieces = Path::new(name).components();
    let pieces = pieces.filter(|piece| !matches!(piece, Component::CurDir | Component::RootDir));
    pieces.collect::<PathBuf>().to_string_lossy().into_owned()
}

fn expand(session: &Session, path: &str) -> PathBuf {
    match path.strip_prefix("~/") {
        Some(below_home) => session.home.join(below_home),
        None => absolute(&session.cwd, Path::new(path)),
    }
}

/// Reports settings of the repository's root that are ignored because the working directory is below it.
fn report_settings_above(files: &dyn Files, session: &Session, report: &mut AgentReport) {
    let Some(root) = place::git_root(files, &session.cwd) else {
        return;
    };
    if root == session.cwd || root == session.home {
        return;
    }
    let path = root.join(".gemini/settings.json");
    let mut unread = AgentReport::new(report.edition);
    let has_context = config::commented_json(files, &path, &mut unread)
        .is_some_and(|value| value.get("context").is_some_and(Value::is_object));
    if has_context {
        let message = format!(
            "{} is not read from here: only the working directory's .gemini and the user's own count",
            path.display()
        );
        report.warn(diagnostics::SETTINGS_ELSEWHERE, &path, message);
    }
}
