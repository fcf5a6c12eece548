//! The settings of Claude Code that decide what it loads.

use std::path::{Path, PathBuf};

use convoke_files::{FileKind, Files, absolute};
use serde_json::Value;

use super::agents_md;
use super::permissions::Denied;
use super::skills::SkillSettings;
use super::validation;
use super::variables::Variables;
use crate::loading::Release;
use convoke_explain::AgentReport;
use convoke_explain::Session;
use convoke_explain::config;
use convoke_explain::diagnostics;
use convoke_explain::glob::Globs;
use convoke_explain::place::{self, GitKind};

/// The maximum number of bytes of patterns that are compared with every file.
const MAX_EXCLUDE_BYTES: usize = 64 * 1024;

/// The sources of files and settings that are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sources {
    pub user: bool,
    pub project: bool,
    pub local: bool,
}

/// The merged settings.
#[derive(Debug)]
pub(super) struct Settings {
    /// `~/.claude`, or where `CLAUDE_CONFIG_DIR` points.
    pub config_dir: PathBuf,
    pub sources: Sources,
    pub variables: Variables,
    /// A switch that turns all instruction files off.
    pub off: Option<&'static str>,
    pub excludes: Excludes,
    /// Instructions in the administrator's settings, with the file that has them.
    pub managed_text: Option<(PathBuf, String)>,
    pub reads_added_directories: bool,
    pub has_memory: bool,
    /// Whether imports from outside of the working directory were approved.
    pub outside_approved: bool,
    /// Whether links are resolved before rules apply.
    pub resolves_links: bool,
    /// Whether front matter may follow a byte order mark.
    pub skips_byte_order_mark: bool,
    /// The permission rules that hide files.
    pub denied: Denied,
    /// Whether nothing outside of the working directories may be read.
    pub blocks_outside: bool,
    /// The mode of AGENTS.md.
    pub agents_md: Option<agents_md::Mode>,
    /// The inputs that determine the list of skills.
    pub skills: SkillSettings,
}

/// The source of settings; later ones take precedence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    User,
    Project,
    Local,
    Arguments,
    Managed,
}

/// Settings from one place.
#[derive(Debug)]
pub(super) struct Layer {
    pub source: Source,
    pub path: PathBuf,
    pub value: Value,
}

/// A pattern of `claudeMdExcludes`.
#[derive(Debug)]
pub(super) struct Exclude {
    pub pattern: String,
    /// The settings file that contains it.
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
    pub(super) fn matching(&self, path: &Path) -> Option<&Exclude> {
        self.patterns.get(self.globs.first_match(path.to_str()?)?)
    }

    /// Compiles the patterns, as far as they may be compiled together.
    fn compile(&mut self, report: &mut AgentReport) {
        // A backslash counts as a slash, and so escapes nothing.
        let patterns = self.patterns.iter().map(|it| clean(&it.pattern.replace('\\', "/")));
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

/// Resolves `.` and `..` in an absolute pattern, as in a path.
fn clean(pattern: &str) -> String {
    if !pattern.starts_with('/') || !pattern.split('/').any(|part| matches!(part, "." | "..")) {
        return pattern.to_owned();
    }
    let mut parts: Vec<&str> = Vec::new();
    for part in pattern.split('/').skip(1) {
        match part {
            "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}

impl Settings {
    pub(super) fn read(
        files: &dyn Files,
        session: &Session,
        edition: Release,
        repository: Option<&Path>,
        report: &mut AgentReport,
    ) -> Self {
        let is_old = edition == Release::V197;
        let main = repository.map(|root| main_checkout(files, root));
        let project = main.as_deref().unwrap_or(&session.cwd);
        let mut settings = Self {
            outside_approved: outside_approved(files, session, project),
            sources: Sources::given(session),
            variables: Variables::of(session),
            off: None,
            excludes: Excludes::default(),
            managed_text: None,
            reads_added_directories: false,
            has_memory: true,
            config_dir: session.directory("CLAUDE_CONFIG_DIR", ".claude"),
            resolves_links: !is_old,
            skips_byte_order_mark: !is_old,
            denied: Denied::default(),
            blocks_outside: false,
            agents_md: None,
            skills: SkillSettings::default(),
        };
        // The oldest edition sees no settings but those of its own directory.
        let layers = settings.layers(files, session, main.as_deref().filter(|_| !is_old), report);
        for layer in &layers {
            settings.take(layer);
        }
        settings.take_variables(session);
        if !is_old {
            settings.agents_md = Some(agents_md::Mode::from_layers(&layers));
            settings.denied = Denied::read(session, &settings.config_dir, &layers);
            settings.blocks_outside = layers.iter().any(|layer| {
                let key = "/permissions/blockReadsOutsideWorkingDirectories";
                layer.value.pointer(key) == Some(&Value::Bool(true))
            });
        }
        settings.excludes.compile(report);
        settings.report_idle_patterns(report);
        settings
    }

    /// Reads the settings, in order of precedence, lowest first.
    fn layers(
        &self,
        files: &dyn Files,
        session: &Session,
        root: Option<&Path>,
        report: &mut AgentReport,
    ) -> Vec<Layer> {
        let Sources { user, project, local } = self.sources;
        let cwd = session.cwd.as_path();
        let local_settings = |directory: &Path| directory.join(".claude/settings.local.json");
        let above = root.filter(|root| *root != cwd).map(local_settings);
        let user_settings = self.config_dir.join("settings.json");
        let mut layers = Vec::new();
        let mut read = |source, path: PathBuf| {
            let value = config::json(files, &path, report)?;
            if let Some(wrong) = validation::wrong(&value) {
                let message = format!("{}: {wrong}; nothing in the file counts", path.display());
                report.warn(diagnostics::SETTINGS_MALFORMED, &path, message);
                return None;
            }
            Some(Layer { source, path, value })
        };
        layers.extend(user.then(|| read(Source::User, user_settings)).flatten());
        let project_settings = cwd.join(".claude/settings.json");
        layers.extend(project.then(|| read(Source::Project, project_settings)).flatten());
        if local {
            layers.extend(above.and_then(|path| read(Source::Local, path)));
            layers.extend(read(Source::Local, local_settings(cwd)));
        }
        let managed = managed_settings(files, session);
        let managed: Vec<_> =
            managed.into_iter().filter_map(|path| read(Source::Managed, path)).collect();
        for given in session.values("--settings") {
            let inline = serde_json::from_str::<Value>(given).ok();
            let path = absolute(cwd, Path::new(given));
            let value = inline.or_else(|| config::json(files, &path, report));
            let path = PathBuf::from("--settings");
            layers.extend(value.map(|value| Layer { source: Source::Arguments, path, value }));
        }
        layers.extend(managed);
        layers
    }

    fn take(&mut self, layer: &Layer) {
        let Layer { source, path, value } = layer;
        self.skills.take(layer);
        self.variables.take(value);
        let patterns = value.get("claudeMdExcludes").map(config::strings);
        for pattern in patterns.unwrap_or_default() {
            let (from, by_project) = (path.clone(), *source == Source::Project);
            self.excludes.patterns.push(Exclude { pattern, from, by_project });
        }
        if value.get("autoMemoryEnabled") == Some(&Value::Bool(false)) {
            self.has_memory = false;
        }
        let text = value.get("claudeMd").and_then(Value::as_str);
        if let (Source::Managed, Some(text)) = (source, text) {
            self.managed_text = Some((path.clone(), text.to_owned()));
        }
    }

    /// Applies the variables, when all settings have set theirs.
    fn take_variables(&mut self, session: &Session) {
        self.off = switched_off(session, &self.variables);
        self.reads_added_directories =
            self.variables.is_on("CLAUDE_CODE_ADDITIONAL_DIRECTORIES_CLAUDE_MD");
        self.has_memory &= !self.variables.is_on("CLAUDE_CODE_DISABLE_AUTO_MEMORY");
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

/// The administrator's settings: the file, then those of the directory beside it, by name.
fn managed_settings(files: &dyn Files, session: &Session) -> Vec<PathBuf> {
    let directory = session.etc.join("claude-code");
    let parts = directory.join("managed-settings.d");
    let entries = files.entries(&parts).unwrap_or_default();
    let names = entries.into_iter().filter_map(|(name, _)| name.into_string().ok());
    let mut names: Vec<String> =
        names.filter(|name| !name.starts_with('.') && is_json(name)).collect();
    names.sort();
    let mut paths = vec![directory.join("managed-settings.json")];
    paths.extend(names.into_iter().map(|name| parts.join(name)));
    paths
}

fn is_json(name: &str) -> bool {
    Path::new(name).extension().is_some_and(|extension| extension == "json")
}

/// The main checkout of a linked worktree, or else the repository itself.
fn main_checkout(files: &dyn Files, repository: &Path) -> PathBuf {
    match place::git_kind(files, repository) {
        GitKind::Worktree(main) => main,
        _ => repository.to_owned(),
    }
}

fn switched_off(session: &Session, variables: &Variables) -> Option<&'static str> {
    if variables.is_on("CLAUDE_CODE_DISABLE_CLAUDE_MDS") {
        Some("CLAUDE_CODE_DISABLE_CLAUDE_MDS")
    } else if session.has_argument("--bare") || variables.is_on("CLAUDE_CODE_SIMPLE") {
        Some("--bare")
    } else if session.has_argument("--safe-mode") {
        Some("--safe-mode")
    } else {
        None
    }
}

/// Looks up the approval of outside imports in the state file. Errors in it are ignored.
fn outside_approved(files: &dyn Files, session: &Session, project: &Path) -> bool {
    let Ok(state) = files.read(&state_file(session), FileKind::State) else {
        return false;
    };
    let Ok(state) = serde_json::from_slice::<Value>(&state) else {
        return false;
    };
    let approved = || {
        let project = state.get("projects")?.get(project.to_str()?)?;
        project.get("hasClaudeMdExternalIncludesApproved")?.as_bool()
    };
    approved() == Some(true)
}

/// The file in which Claude Code keeps approvals, and how often skills were used.
pub(super) fn state_file(session: &Session) -> PathBuf {
    match session.variable("CLAUDE_CONFIG_DIR") {
        Some(directory) => absolute(&session.cwd, Path::new(directory)).join(".claude.json"),
        None => session.home.join(".claude.json"),
    }
}
