//! The few keys of Codex's configuration that decide which documents it loads.
//!
//! With a file that is malformed, or a value of the wrong type, Codex does not start at all.

use std::path::{Path, PathBuf};

use convoke_core::diagnostic::Code;
use convoke_thread::config::DocumentSettings;
use convoke_thread::files::Files;
use convoke_thread::project_doc::{DEFAULT_MAX_BYTES, Rules, Trust};
use toml::{Table, Value};

use crate::config;
use crate::place::{self, GitKind};
use crate::report::AgentReport;
use crate::session::Session;

const GIT: &str = ".git";

/// What the layers of the configuration say together.
#[derive(Debug)]
pub(super) struct Config {
    pub max_bytes: u64,
    pub fallback_names: Vec<String>,
    pub root_markers: Vec<String>,
    pub trust: Trust,
    /// Whether Codex starts with it.
    pub is_usable: bool,
}

impl Config {
    pub(super) fn read(
        files: &dyn Files,
        session: &Session,
        codex_home: &Path,
        cwd: &Path,
        report: &mut AgentReport,
    ) -> Self {
        let before = report.diagnostics.len();
        let user = layer(files, &codex_home.join("config.toml"), report);
        let mut merged = user.clone();
        let given = arguments(session);
        check(&given, Path::new("-c"), report);
        lay_over(&mut merged, given.clone());
        let trusts = Trusts::new(&merged, files, cwd);

        let mut merged = user;
        for directory in place::chain(cwd) {
            let folder = directory.join(".codex");
            let is_inside = directory.starts_with(&trusts.root);
            if is_inside && folder != codex_home && trusts.of(&directory) == Trust::Trusted {
                lay_over(&mut merged, layer(files, &folder.join("config.toml"), report));
            }
        }
        lay_over(&mut merged, given);
        let settings = DocumentSettings::read(&merged).unwrap_or_default();
        Self {
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

/// Whom the user trusts, as far as it matters for one working directory.
struct Trusts {
    projects: Table,
    root: PathBuf,
    /// The roots whose entries stand in for that of a directory, in order.
    stand_ins: Vec<PathBuf>,
}

impl Trusts {
    fn new(merged: &Table, files: &dyn Files, cwd: &Path) -> Self {
        let settings = DocumentSettings::read(merged).unwrap_or_default();
        let markers = settings.root_markers.unwrap_or_else(default_markers);
        let marked = place::nearest_with(files, cwd, &markers);
        let git = place::git_root(files, cwd);
        let main = git.as_deref().and_then(|git| match place::git_kind(files, git) {
            GitKind::Worktree(main) => Some(main),
            _ => None,
        });
        let projects = merged.get("projects").and_then(Value::as_table);
        Self {
            projects: projects.cloned().unwrap_or_default(),
            root: marked.clone().unwrap_or_else(|| cwd.to_owned()),
            stand_ins: [marked, git, main].into_iter().flatten().collect(),
        }
    }

    fn of(&self, directory: &Path) -> Trust {
        let level = |path: &Path| {
            let project = self.projects.get(path.to_str()?)?;
            project.get("trust_level")?.as_str()
        };
        let stand_ins = self.stand_ins.iter().map(PathBuf::as_path);
        match std::iter::once(directory).chain(stand_ins).find_map(level) {
            Some("trusted") => Trust::Trusted,
            Some("untrusted") => Trust::Untrusted,
            _ => Trust::Unknown,
        }
    }
}

/// The `-c key=value` of the command line as a layer.
fn arguments(session: &Session) -> Table {
    let mut layer = Table::new();
    for name in ["-c", "--config"] {
        for given in session.values(name) {
            let Some((key, value)) = given.split_once('=') else {
                continue;
            };
            let parsed = format!("value = {value}").parse::<Table>().ok();
            let parsed = parsed.and_then(|mut table| table.remove("value"));
            let value = parsed.unwrap_or_else(|| Value::String(value.to_owned()));
            let mut pieces: Vec<_> = key.trim().split('.').collect();
            let last = pieces.pop().unwrap_or_default();
            let mut inner = Table::from_iter([(last.to_owned(), value)]);
            for piece in pieces.into_iter().rev() {
                inner = Table::from_iter([(piece.to_owned(), Value::Table(inner))]);
            }
            lay_over(&mut layer, inner);
        }
    }
    layer
}

/// Lays one table over another: tables are merged, everything else is replaced.
fn lay_over(below: &mut Table, above: Table) {
    for (key, value) in above {
        match (below.get_mut(&key), value) {
            (Some(Value::Table(below)), Value::Table(above)) => lay_over(below, above),
            (_, value) => {
                below.insert(key, value);
            }
        }
    }
}

fn default_markers() -> Vec<String> {
    vec![GIT.to_owned()]
}

/// Reads a file of the configuration; what is wrong with it is reported.
fn layer(files: &dyn Files, path: &Path, report: &mut AgentReport) -> Table {
    let table = config::toml(files, path, report).unwrap_or_default();
    check(&table, path, report);
    table
}

fn check(table: &Table, place: &Path, report: &mut AgentReport) {
    if let Err(wrong) = DocumentSettings::read(table) {
        let wrong = wrong.at(place.display().to_string());
        report.warn(Code::SettingsMalformed, place, wrong.to_string());
    }
}
