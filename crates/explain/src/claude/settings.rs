//! The settings of Claude Code that decide what it loads.

use std::path::{Path, PathBuf};

use convoke_files::{FileKind, Files, absolute};
use serde_json::Value;

use crate::config;
use crate::diagnostics;
use crate::glob::Globs;
use crate::report::AgentReport;
use crate::session::Session;

/// The most bytes of patterns that are compared with every file.
const MAX_EXCLUDE_BYTES: usize = 64 * 1024;

/// Whose files and settings count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sources {
    pub user: bool,
    pub project: bool,
    pub local: bool,
}

/// What the settings files say.
#[derive(Debug)]
pub(super) struct Settings {
    /// `~/.claude`, or where `CLAUDE_CONFIG_DIR` points.
    pub config_dir: PathBuf,
    pub sources: Sources,
    /// A switch that turns all instruction files off.
    pub off: Option<&'static str>,
    pub excludes: Excludes,
    /// Instructions that stand in the administrator's settings themselves.
    pub managed_text: Option<String>,
    pub reads_added_directories: bool,
    pub has_memory: bool,
    /// Whether imports from outside of the working directory were approved.
    pub outside_approved: bool,
}

/// A pattern of `claudeMdExcludes`.
#[derive(Debug)]
pub(super) struct Exclude {
    pub pattern: String,
    /// The settings file that it stands in.
    pub from: PathBuf,
    /// Whether the repository, not the user, put it there.
    pub by_project: bool,
}

/// The patterns of all settings files.
#[derive(Debug, Default)]
pub(super) struct Excludes {
    patterns: Vec<Exclude>,
    globs: Globs,
}

impl Excludes {
    /// Returns the pattern that excludes a file, if one does.
    pub(super) fn of(&self, path: &Path) -> Option<&Exclude> {
        self.patterns.get(self.globs.first_match(path.to_str()?)?)
    }

    /// Compiles the patterns, as far as they may be compiled together.
    fn compile(&mut self, report: &mut AgentReport) {
        // A backslash counts as a slash, and so escapes nothing.
        let patterns = self.patterns.iter().map(|it| it.pattern.replace('\\', "/"));
        let mut bytes = 0;
        let patterns: Vec<String> = patterns
            .take_while(|pattern| {
                bytes += pattern.len();
                bytes <= MAX_EXCLUDE_BYTES
            })
            .collect();
        let globs = Globs::new(&patterns);
        let is_complete = patterns.len() == self.patterns.len() && globs.is_ok();
        self.globs = globs.unwrap_or_default();
        if let (false, Some(last)) = (is_complete, self.patterns.last()) {
            let message = format!(
                "claudeMdExcludes of {} is compared up to {MAX_EXCLUDE_BYTES} bytes of simple patterns; \
                 Claude Code compares all",
                last.from.display()
            );
            report.warn(diagnostics::SETTINGS_MALFORMED, &last.from, message);
        }
    }
}

impl Settings {
    pub(super) fn read(
        files: &dyn Files,
        session: &Session,
        repository: Option<&Path>,
        report: &mut AgentReport,
    ) -> Self {
        let config_dir = session.directory("CLAUDE_CONFIG_DIR", ".claude");
        let sources = Sources::given(session);
        let mut settings = Self {
            outside_approved: outside_approved(files, session, repository),
            sources,
            off: switched_off(session),
            excludes: Excludes::default(),
            managed_text: None,
            reads_added_directories: session.is_on("CLAUDE_CODE_ADDITIONAL_DIRECTORIES_CLAUDE_MD"),
            has_memory: !session.is_on("CLAUDE_CODE_DISABLE_AUTO_MEMORY"),
            config_dir,
        };
        let project = session.cwd.join(".claude");
        let managed = session.etc.join("claude-code/managed-settings.json");
        let layers = [
            (sources.user, settings.config_dir.join("settings.json"), false),
            (sources.project, project.join("settings.json"), true),
            (sources.local, project.join("settings.local.json"), false),
            (true, managed.clone(), false),
        ];
        for (counts, path, by_project) in layers {
            if !counts {
                continue;
            }
            if let Some(value) = config::json(files, &path, report) {
                if let Some(wrong) = wrong_excludes(&value) {
                    let message = format!(
                        "{}: `claudeMdExcludes` is {wrong}: use a list of texts; nothing in the file counts",
                        path.display()
                    );
                    report.warn(diagnostics::SETTINGS_MALFORMED, &path, message);
                    continue;
                }
                if path == managed {
                    let text = value.get("claudeMd").and_then(Value::as_str);
                    settings.managed_text = text.map(str::to_owned);
                }
                settings.take(&value, &path, by_project);
            }
        }
        for given in session.values("--settings") {
            let inline = serde_json::from_str::<Value>(given).ok();
            let path = absolute(&session.cwd, Path::new(given));
            let value = inline.or_else(|| config::json(files, &path, report));
            if let Some(value) = value {
                settings.take(&value, Path::new("--settings"), false);
            }
        }
        settings.excludes.compile(report);
        settings.report_idle_patterns(report);
        settings
    }

    fn take(&mut self, value: &Value, from: &Path, by_project: bool) {
        let patterns = value.get("claudeMdExcludes").map(config::strings);
        for pattern in patterns.unwrap_or_default() {
            let from = from.to_owned();
            self.excludes.patterns.push(Exclude { pattern, from, by_project });
        }
        if value.get("autoMemoryEnabled") == Some(&Value::Bool(false)) {
            self.has_memory = false;
        }
    }

    fn report_idle_patterns(&self, report: &mut AgentReport) {
        for exclude in &self.excludes.patterns {
            if exclude.pattern.starts_with(['/', '*', '{']) {
                continue;
            }
            let message = format!(
                "`{}` in claudeMdExcludes of {} matches nothing: patterns are compared with absolute paths",
                exclude.pattern,
                exclude.from.display()
            );
            report.warn(diagnostics::EXCLUDES_NOTHING, &exclude.from, message);
        }
    }
}

impl Sources {
    fn given(session: &Session) -> Self {
        match session.values("--setting-sources").last() {
            None => Self { user: true, project: true, local: true },
            Some(list) => {
                let has = |name| list.split(',').any(|given| given.trim() == name);
                Self { user: has("user"), project: has("project"), local: has("local") }
            }
        }
    }
}

/// The value of `claudeMdExcludes` if it is no list of texts, with which the whole file is refused.
fn wrong_excludes(settings: &Value) -> Option<&Value> {
    let excludes = settings.get("claudeMdExcludes")?;
    let is_list = excludes.as_array().is_some_and(|list| list.iter().all(Value::is_string));
    (!is_list).then_some(excludes)
}

fn switched_off(session: &Session) -> Option<&'static str> {
    if session.is_on("CLAUDE_CODE_DISABLE_CLAUDE_MDS") {
        Some("CLAUDE_CODE_DISABLE_CLAUDE_MDS")
    } else if session.has_argument("--bare") || session.is_on("CLAUDE_CODE_SIMPLE") {
        Some("--bare")
    } else if session.has_argument("--safe-mode") {
        Some("--safe-mode")
    } else {
        None
    }
}

/// Looks the approval of outside imports up in the state file, which is not ours to judge: what is
/// wrong with it is passed over.
fn outside_approved(files: &dyn Files, session: &Session, repository: Option<&Path>) -> bool {
    let path = match session.variable("CLAUDE_CONFIG_DIR") {
        Some(directory) => absolute(&session.cwd, Path::new(directory)).join(".claude.json"),
        None => session.home.join(".claude.json"),
    };
    let Ok(state) = files.read(&path, FileKind::State) else {
        return false;
    };
    let Ok(state) = serde_json::from_slice::<Value>(&state) else {
        return false;
    };
    let approved = |project: &Path| {
        let project = state.get("projects")?.get(project.to_str()?)?;
        project.get("hasClaudeMdExternalIncludesApproved")?.as_bool()
    };
    let places = [Some(session.cwd.as_path()), repository];
    places.into_iter().flatten().any(|place| approved(place) == Some(true))
}
