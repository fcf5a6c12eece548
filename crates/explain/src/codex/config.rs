//! The few keys of Codex's configuration that decide which documents it loads.
//!
//! A file that is malformed is reported and passed over: the question here is what would be loaded,
//! not whether Codex starts.

use std::path::{Path, PathBuf};

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
}

impl Config {
    pub(super) fn read(
        files: &dyn Files,
        session: &Session,
        codex_home: &Path,
        cwd: &Path,
        report: &mut AgentReport,
    ) -> Self {
        let user = config::toml(files, &codex_home.join("config.toml"), report);
        let user = user.unwrap_or_default();
        let mut merged = user.clone();
        let given = arguments(session);
        lay_over(&mut merged, given.clone());
        let trusts = Trusts::new(&merged, files, cwd);

        let mut merged = user;
        for directory in place::chain(cwd) {
            let folder = directory.join(".codex");
            let is_inside = directory.starts_with(&trusts.root);
            if is_inside && folder != codex_home && trusts.of(&directory) == Trust::Trusted {
                let layer = config::toml(files, &folder.join("config.toml"), report);
                lay_over(&mut merged, layer.unwrap_or_default());
            }
        }
        lay_over(&mut merged, given);
        let max_bytes = merged.get("project_doc_max_bytes").and_then(Value::as_integer);
        let max_bytes = max_bytes.and_then(|bytes| u64::try_from(bytes).ok());
        let fallback_names = strings(&merged, "project_doc_fallback_filenames");
        Self {
            max_bytes: max_bytes.unwrap_or(DEFAULT_MAX_BYTES),
            fallback_names: fallback_names.unwrap_or_default(),
            root_markers: root_markers(&merged),
            trust: trusts.of(cwd),
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
        let marked = place::nearest_with(files, cwd, &root_markers(merged));
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

fn root_markers(table: &Table) -> Vec<String> {
    strings(table, "project_root_markers").unwrap_or_else(|| vec![GIT.to_owned()])
}

fn strings(table: &Table, key: &str) -> Option<Vec<String>> {
    let values = table.get(key)?.as_array()?;
    let values = values.iter().filter_map(Value::as_str);
    Some(values.map(str::to_owned).collect())
}
