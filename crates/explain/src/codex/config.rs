//! The few keys of Codex's configuration that decide which documents it loads.
//!
//! With a file that is malformed, or a value of the wrong type under any key that it knows, Codex does
//! not start at all.

use std::path::{Path, PathBuf};

use convoke_codex::config::{
    ConfigError, DocumentSettings, Trusts, check_start, merge, parse_override, resolve_paths, set,
    sets,
};
use convoke_codex::project_doc::{DEFAULT_MAX_BYTES, Rules, Trust};
use convoke_codex::skills::Switches;
use convoke_files::Files;
use toml::Table;

use super::skills::SkillSettings;
use crate::config;
use crate::diagnostics;
use crate::place::{self, GitKind};
use crate::report::AgentReport;
use crate::session::Session;

const GIT: &str = ".git";

/// The keys that Codex 0.166 passes over in the configuration of a project.
const ONLY_THE_USERS: [&str; 7] = [
    "chatgpt_base_url",
    "model_provider",
    "model_providers",
    "notify",
    "otel",
    "profile",
    "profiles",
];

/// The merged layers of the configuration.
#[derive(Debug)]
pub(super) struct Config {
    pub max_bytes: u64,
    pub fallback_names: Vec<String>,
    pub root_markers: Vec<String>,
    pub trust: Trust,
    pub skills: SkillSettings,
    /// Whether Codex starts with it.
    pub is_usable: bool,
}

impl Config {
    pub(super) fn read(
        files: &dyn Files,
        session: &Session,
        codex_home: &Path,
        cwd: &Path,
        rules: Rules,
        report: &mut AgentReport,
    ) -> Self {
        let before = report.diagnostics.len();
        let machine = session.etc.join("codex");
        let [system_file, managed_file, file] = [
            machine.join("config.toml"),
            machine.join("managed_config.toml"),
            codex_home.join("config.toml"),
        ];
        let system = layer(files, session, &system_file, report);
        let managed = layer(files, session, &managed_file, report);
        config::toml(files, &machine.join("requirements.toml"), report);
        let user = layer(files, session, &file, report);
        let mut given = arguments(session);
        resolve_paths(&mut given, cwd, Some(&session.home));
        let mut of_user = system.clone();
        merge(&mut of_user, user.clone());
        merge(&mut of_user, given.clone());
        merge(&mut of_user, managed.clone());
        let roots = Roots::find(&of_user, files, cwd);
        let root = roots.project.as_deref().unwrap_or(cwd);
        let trusts = Trusts::new(&of_user, roots.trusted_with.iter().cloned());

        let mut switches = Switches::default();
        switches.take(&system, &machine, Some(&session.home));
        switches.take(&user, codex_home, Some(&session.home));
        switches.take(&given, cwd, Some(&session.home));
        let mut merged = system.clone();
        merge(&mut merged, user.clone());
        let mut sources = vec![(file, user)];
        if !system.is_empty() {
            sources.insert(0, (system_file, system));
        }
        for directory in place::chain(cwd) {
            let folder = directory.join(".codex");
            let is_inside = directory.starts_with(root);
            if is_inside && folder != codex_home && trusts.of(&directory) == Trust::Trusted {
                let file = folder.join("config.toml");
                let mut own = layer(files, session, &file, report);
                if rules == Rules::V0_166 {
                    own.retain(|key, _| !ONLY_THE_USERS.contains(&key));
                }
                merge(&mut merged, own.clone());
                sources.push((file, own));
            }
        }
        merge(&mut merged, given.clone());
        sources.push((PathBuf::from("-c"), given));
        merge(&mut merged, managed.clone());
        sources.push((managed_file, managed));

        // Codex 0.98 reads the user's layer first, to learn which projects are trusted.
        let first = (rules == Rules::V0_98).then_some(&of_user);
        let checked = first.into_iter().chain([&merged]);
        let wrong = checked.map(|table| check_start(files, table, rules)).find_map(Result::err);
        if let Some(wrong) = wrong {
            refuse(wrong, &sources, report);
        }
        let settings = DocumentSettings::read(&merged).unwrap_or_default();
        let model = ["-m", "--model"].into_iter().find_map(|name| session.values(name).pop());
        Self {
            skills: SkillSettings::read(&merged, switches, model),
            max_bytes: settings.max_bytes.unwrap_or(DEFAULT_MAX_BYTES),
            fallback_names: settings.fallback_names.unwrap_or_default(),
            root_markers: settings.root_markers.unwrap_or_else(default_markers),
            trust: trusts.of(cwd),
            is_usable: report.diagnostics.len() == before,
        }
    }

    /// Returns whether a marker, and not the working directory alone, decides the top directory.
    pub(super) fn has_root(&self, files: &dyn Files, cwd: &Path, rules: Rules) -> bool {
        let git = [GIT.to_owned()];
        let markers = match rules {
            Rules::V0_98 => &git,
            Rules::V0_166 => self.root_markers.as_slice(),
        };
        place::nearest_with(files, cwd, markers).is_some()
    }
}

/// The roots that matter for trust in a working directory.
struct Roots {
    /// The project's root: the nearest directory with a marker.
    project: Option<PathBuf>,
    /// The roots whose trust levels apply to a directory, in order.
    trusted_with: Vec<PathBuf>,
}

impl Roots {
    fn find(of_user: &Table, files: &dyn Files, cwd: &Path) -> Self {
        let settings = DocumentSettings::read(of_user).unwrap_or_default();
        let markers = settings.root_markers.unwrap_or_else(default_markers);
        let project = place::nearest_with(files, cwd, &markers);
        let git = place::git_root(files, cwd);
        let main = git.as_deref().and_then(|git| match place::git_kind(files, git) {
            GitKind::Worktree(main) => Some(main),
            _ => None,
        });
        let trusted_with = [project.clone(), git, main].into_iter().flatten().collect();
        Self { project, trusted_with }
    }
}

/// The `-c key=value` of the command line as a layer.
fn arguments(session: &Session) -> Table {
    let mut layer = Table::new();
    for given in ["-c", "--config"].into_iter().flat_map(|name| session.values(name)) {
        if let Ok((key, value)) = parse_override(given) {
            set(&mut layer, &key, value);
        }
    }
    layer
}

fn default_markers() -> Vec<String> {
    vec![GIT.to_owned()]
}

/// Reads a layer of the configuration; errors are reported.
fn layer(files: &dyn Files, session: &Session, path: &Path, report: &mut AgentReport) -> Table {
    let mut table = config::toml(files, path, report).unwrap_or_default();
    resolve_paths(&mut table, path.parent().unwrap_or(path), Some(&session.home));
    table
}

/// Reports what keeps Codex from starting, at the strongest layer that says it.
fn refuse(wrong: ConfigError, sources: &[(PathBuf, Table)], report: &mut AgentReport) {
    let key = match &wrong {
        ConfigError::Value { key, .. } => key.as_str(),
        ConfigError::UnknownProfile(_) => "profile",
        ConfigError::UnknownProvider(_) => "model_provider",
        ConfigError::Unreadable { key, .. } | ConfigError::Blank { key, .. } => key,
        ConfigError::Syntax { .. } => "",
    };
    let setter = sources.iter().rev().find(|(_, table)| sets(table, key));
    if let Some((place, _)) = setter.or(sources.first()) {
        let wrong = wrong.at(place.display().to_string());
        report.warn(diagnostics::SETTINGS_MALFORMED, place, wrong.to_string());
    }
}
