//! The layers of a configuration: the machine's file, the user's, those of a trusted project, the arguments, and
//! what the machine's administrator insists on.

use std::io;
use std::path::{Path, PathBuf};

use toml::{Table, Value};

use super::{ConfigError, DocumentSettings};
use crate::project_doc::Trust;
use crate::skills::Switches;
use convoke_files::{FileKind, Files, absolute};

/// The default marker of a project's root.
const DEFAULT_ROOT_MARKER: &str = ".git";

/// Keys whose values are paths, relative to the folder of the file that sets them.
const PATH_KEYS: [&str; 3] = [
    "model_instructions_file",
    "experimental_compact_prompt_file",
    "experimental_instructions_file",
];

/// The merged layers of a configuration.
#[derive(Debug)]
pub struct Layers {
    /// All layers laid over one another, paths absolute.
    pub merged: Table,
    /// Whether the user trusts the working directory.
    pub trust: Trust,
    /// `project_root_markers`, or their default.
    pub root_markers: Vec<String>,
    /// The skills that the user switched off or on.
    pub skill_switches: Switches,
    /// The folders of command rules.
    pub rule_folders: Vec<PathBuf>,
    /// The administrator's limits on other values, `requirements.toml`.
    pub requirements: Table,
    /// Where values were set, the weakest first.
    sources: Vec<(String, Table)>,
}

impl Layers {
    /// Reads the layers that count in a directory; `settings` are the `-c` arguments, in order, and `machine` is
    /// the directory of the machine's own files, `/etc/codex`.
    pub fn load(
        files: &dyn Files,
        machine: &Path,
        codex_home: &Path,
        home: Option<&Path>,
        cwd: &Path,
        settings: &[(String, Value)],
    ) -> Result<Self, ConfigError> {
        let [system_file, managed_file, requirements] =
            ["config.toml", "managed_config.toml", "requirements.toml"].map(|it| machine.join(it));
        let system = read_layer(files, &system_file, home)?;
        let managed = read_layer(files, &managed_file, home)?;
        let requirements = read_layer(files, &requirements, home)?;
        let user_file = codex_home.join("config.toml");
        let user = read_layer(files, &user_file, home)?;
        let mut sources = vec![(user_file.display().to_string(), user.clone())];
        if !system.is_empty() {
            sources.insert(0, (system_file.display().to_string(), system.clone()));
        }
        let mut arguments = Table::new();
        for (key, value) in settings {
            set(&mut arguments, key, value.clone());
        }
        resolve_paths(&mut arguments, cwd, home);
        let mut skill_switches = Switches::default();
        skill_switches.take(&system, machine, home);
        skill_switches.take(&user, codex_home, home);
        skill_switches.take(&arguments, cwd, home);

        let mut merged = system;
        merge(&mut merged, user);
        let mut overlaid = None;
        // A table of many thousand projects is not copied without need.
        if !arguments.is_empty() || !managed.is_empty() {
            let table = overlaid.insert(merged.clone());
            merge(table, arguments.clone());
            merge(table, managed.clone());
        }
        let without_project = overlaid.as_ref().unwrap_or(&merged);
        let of_user = DocumentSettings::read(without_project)
            .map_err(|error| error.at(user_file.display().to_string()))?;
        let root_markers = of_user.root_markers.unwrap_or_else(default_markers);
        let root = project_root(files, cwd, &root_markers);
        // Git returns the root of a repository without links.
        let git = project_root(files, cwd, &default_markers());
        let is_repository = files.kind(&git.join(DEFAULT_ROOT_MARKER)).is_ok();
        let real = is_repository.then(|| files.canonicalize(&git).ok()).flatten();
        let git = real.unwrap_or(git);
        let main = main_repository(files, &git);
        let roots = [Some(root.clone()), Some(git), main].into_iter().flatten();
        let trust = Trusts::new(without_project, roots);
        let mut of_project = Vec::new();
        let mut rule_folders = vec![codex_home.join("rules")];
        for directory in directories_between(&root, cwd) {
            let folder = directory.join(".codex");
            let counts = folder != *codex_home && files.kind(&folder).is_ok();
            if !counts || trust.of(&directory) != Trust::Trusted {
                continue;
            }
            let file = folder.join("config.toml");
            let layer = read_layer(files, &file, home)?;
            of_project.push(layer.clone());
            sources.push((file.display().to_string(), layer));
            rule_folders.push(folder.join("rules"));
        }
        let trust = trust.of(cwd);
        for layer in of_project {
            merge(&mut merged, layer);
        }
        sources.push(("-c".to_owned(), arguments.clone()));
        merge(&mut merged, arguments);
        sources.push((managed_file.display().to_string(), managed.clone()));
        merge(&mut merged, managed);
        let mut layers = Self {
            merged,
            trust,
            root_markers: Vec::new(),
            skill_switches,
            rule_folders,
            requirements,
            sources,
        };
        let documents = DocumentSettings::read(&layers.merged);
        let documents = documents.map_err(|error| layers.placed(error))?;
        layers.root_markers = documents.root_markers.unwrap_or_else(default_markers);
        Ok(layers)
    }

    /// Adds to an error about a value where the value was set: the strongest layer that has its key.
    pub fn placed(&self, error: ConfigError) -> ConfigError {
        let ConfigError::Value { key, .. } = &error else {
            return error;
        };
        let mut strongest_first = self.sources.iter().rev();
        let found = strongest_first.find(|(_, table)| sets(table, key));
        match found.or(self.sources.first()) {
            Some((place, _)) => error.at(place),
            None => error,
        }
    }
}

/// Returns whether a table or one of its profiles has a dotted key.
pub fn sets(table: &Table, key: &str) -> bool {
    let profiles = table.get("profiles").and_then(Value::as_table);
    let mut profiles = profiles.into_iter().flat_map(Table::values).filter_map(Value::as_table);
    at(table, key).is_some() || profiles.any(|profile| at(profile, key).is_some())
}

fn at<'a>(table: &'a Table, key: &str) -> Option<&'a Value> {
    let mut pieces = key.split('.');
    let first = table.get(pieces.next()?)?;
    pieces.try_fold(first, |value, piece| value.get(piece))
}

fn read_layer(files: &dyn Files, path: &Path, home: Option<&Path>) -> Result<Table, ConfigError> {
    let text = match files.read_text(path, FileKind::Configuration) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Table::new()),
        Err(source) => {
            return Err(ConfigError::Unreadable {
                path: path.to_owned(),
                key: "config.toml",
                source,
            });
        }
    };
    let mut table: Table = toml::from_str(&text).map_err(|wrong| ConfigError::Syntax {
        path: path.to_owned(),
        reason: wrong.to_string().trim_end().to_owned(),
    })?;
    resolve_paths(&mut table, path.parent().unwrap_or(path), home);
    Ok(table)
}

/// Makes the paths in a layer absolute; they are relative to the folder of the file that sets them.
pub fn resolve_paths(table: &mut Table, folder: &Path, home: Option<&Path>) {
    for key in PATH_KEYS {
        if let Some(value) = table.get_mut(key) {
            resolve_path(value, folder, home);
        }
    }
    let roots = table.get_mut("sandbox_workspace_write");
    let roots = roots.and_then(|it| it.get_mut("writable_roots")?.as_array_mut());
    for root in roots.into_iter().flatten() {
        resolve_path(root, folder, home);
    }
    if let Some(Value::Table(profiles)) = table.get_mut("profiles") {
        for (_, profile) in profiles.iter_mut() {
            for key in PATH_KEYS {
                if let Some(value) = profile.get_mut(key) {
                    resolve_path(value, folder, home);
                }
            }
        }
    }
}

fn resolve_path(value: &mut Value, folder: &Path, home: Option<&Path>) {
    if let Some(path) = value.as_str() {
        *value = Value::String(resolved(path, folder, home).to_string_lossy().into_owned());
    }
}

/// Makes a path absolute: from the home directory after `~`, else from a folder.
pub fn resolved(path: &str, folder: &Path, home: Option<&Path>) -> PathBuf {
    let path = Path::new(path);
    match (path.strip_prefix("~"), home) {
        (Ok(below), Some(home)) => absolute(home, below),
        _ => absolute(folder, path),
    }
}

/// Sets a value under a dotted key; tables on the way are made.
pub fn set(table: &mut Table, key: &str, value: Value) {
    match key.split_once('.') {
        None => {
            table.insert(key.to_owned(), value);
        }
        Some((first, rest)) => {
            let inner = table.entry(first).or_insert_with(|| Value::Table(Table::new()));
            if !inner.is_table() {
                *inner = Value::Table(Table::new());
            }
            if let Value::Table(inner) = inner {
                set(inner, rest, value);
            }
        }
    }
}

/// Lays one table over another: tables are merged, everything else is replaced.
pub fn merge(below: &mut Table, above: Table) {
    for (key, value) in above {
        match (below.get_mut(&key), value) {
            (Some(Value::Table(below)), Value::Table(above)) => merge(below, above),
            (_, value) => {
                below.insert(key, value);
            }
        }
    }
}

fn default_markers() -> Vec<String> {
    vec![DEFAULT_ROOT_MARKER.to_owned()]
}

/// Returns the nearest directory that holds a marker, or the directory itself.
pub fn project_root(files: &dyn Files, cwd: &Path, markers: &[String]) -> PathBuf {
    let holds = |directory: &&Path| {
        let mut markers = markers.iter();
        markers.any(|marker| files.kind(&directory.join(marker)).is_ok())
    };
    cwd.ancestors().find(holds).unwrap_or(cwd).to_owned()
}

/// Returns the directories from a root down to one below it, both included.
pub fn directories_between(root: &Path, cwd: &Path) -> Vec<PathBuf> {
    let inside = cwd.ancestors().take_while(|it| it.starts_with(root));
    let mut directories: Vec<_> = inside.map(Path::to_owned).collect();
    directories.reverse();
    directories
}

/// Returns the repository that a linked worktree belongs to.
fn main_repository(files: &dyn Files, worktree: &Path) -> Option<PathBuf> {
    let pointer = files.read_text(&worktree.join(DEFAULT_ROOT_MARKER), FileKind::Pointer).ok()?;
    let folder = Path::new(pointer.trim().strip_prefix("gitdir:")?.trim());
    let folder = absolute(worktree, folder);
    let worktrees = folder.parent().filter(|it| it.ends_with("worktrees"))?;
    Some(worktrees.parent()?.parent()?.to_owned())
}

/// The trust levels of a configuration, as far as they matter for one working directory.
#[derive(Debug)]
pub struct Trusts<'a> {
    projects: Option<&'a Table>,
    roots: Vec<PathBuf>,
}

impl<'a> Trusts<'a> {
    /// Reads the levels of a merged configuration. A directory without a level of its own has that of
    /// the first root that has one.
    pub fn new(merged: &'a Table, roots: impl IntoIterator<Item = PathBuf>) -> Self {
        Self {
            projects: merged.get("projects").and_then(Value::as_table),
            roots: roots.into_iter().collect(),
        }
    }

    /// Returns the trust level of a directory.
    pub fn of(&self, directory: &Path) -> Trust {
        let level = |path: &Path| {
            let project = self.projects?.get(path.to_str()?)?;
            project.get("trust_level")?.as_str()
        };
        let roots = self.roots.iter().map(PathBuf::as_path);
        let found = std::iter::once(directory).chain(roots).find_map(level);
        match found {
            Some("trusted") => Trust::Trusted,
            Some("untrusted") => Trust::Untrusted,
            _ => Trust::Unknown,
        }
    }
}
