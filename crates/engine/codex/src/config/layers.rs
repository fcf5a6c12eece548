//! The layers of a configuration: the machine's file, the user's, those of a trusted project, the arguments,
//! and the administrator's managed settings.

use std::io;
use std::path::{Path, PathBuf};

use toml::{Table, Value};

use super::documents::default_root_markers;
use super::{ConfigError, DocumentSettings};
use crate::project_doc::{Rules, Trust};
use crate::skills::Switches;
use convoke_files::git::{GitKind, git_kind};
use convoke_files::{FileKind, Files, absolute};

/// Keys whose values are paths, relative to the directory of the file that sets them.
const PATH_KEYS: [&str; 3] = [
    "model_instructions_file",
    "experimental_compact_prompt_file",
    "experimental_instructions_file",
];

/// The keys that Codex 0.166 ignores in a project's configuration.
const USER_ONLY_KEYS: [&str; 7] = [
    "chatgpt_base_url",
    "model_provider",
    "model_providers",
    "notify",
    "otel",
    "profile",
    "profiles",
];

/// The directories that a configuration depends on.
#[derive(Debug, Clone, Copy)]
pub struct ConfigPlaces<'a> {
    /// The directory of the machine's configuration, `/etc/codex`.
    pub machine: &'a Path,
    /// Codex's home.
    pub codex_home: &'a Path,
    /// The user's home.
    pub home: Option<&'a Path>,
    /// The working directory.
    pub cwd: &'a Path,
    /// The profile that was chosen, for versions that keep each in a file of its own.
    pub profile: Option<&'a str>,
}

/// The merged layers of a configuration.
#[derive(Debug)]
pub struct Layers {
    /// All layers merged, with absolute paths.
    pub merged: Table,
    /// Whether the user trusts the working directory.
    pub trust: Trust,
    /// The skills that the user turned off or on.
    pub skill_switches: Switches,
    /// The folders of command rules.
    pub rule_folders: Vec<PathBuf>,
    /// The administrator's limits on values, `requirements.toml`.
    pub requirements: Table,
    /// The layers with their files, in ascending precedence.
    sources: Vec<(PathBuf, Table)>,
}

impl Layers {
    /// Reads the layers that apply in a directory, by the rules of Codex 0.98; `settings` are the `-c`
    /// arguments, in order. Fails on the first error.
    pub fn load(
        files: &dyn Files,
        places: ConfigPlaces<'_>,
        settings: impl IntoIterator<Item = (String, Value)>,
    ) -> Result<Self, ConfigError> {
        let documents = |of_user: &Table| {
            let user_file = places.codex_home.join("config.toml");
            DocumentSettings::read(of_user)
                .map_err(|error| error.at(user_file.display().to_string()))
        };
        let read = |path: &Path| read_layer(files, path);
        let layers = Self::read(files, places, Rules::V0_98, settings, read, documents)?;
        match DocumentSettings::read(&layers.merged) {
            Ok(_) => Ok(layers),
            Err(error) => Err(layers.placed(error)),
        }
    }

    /// Reads the layers that apply in a directory. `read` reads a file, which may be missing; `documents` reads
    /// the settings of the layers without the project's, which determine where the project begins.
    pub fn read<E>(
        files: &dyn Files,
        places: ConfigPlaces<'_>,
        rules: Rules,
        settings: impl IntoIterator<Item = (String, Value)>,
        mut read: impl FnMut(&Path) -> Result<Table, E>,
        documents: impl FnOnce(&Table) -> Result<DocumentSettings, E>,
    ) -> Result<Self, E> {
        let ConfigPlaces { machine, codex_home, home, cwd, profile } = places;
        let mut layer = |path: &Path| {
            let mut table = read(path)?;
            resolve_paths(&mut table, path.parent().unwrap_or(path), home);
            Ok::<_, E>(table)
        };
        let [system_file, managed_file, requirements] =
            ["config.toml", "managed_config.toml", "requirements.toml"].map(|it| machine.join(it));
        let system = layer(&system_file)?;
        let managed = layer(&managed_file)?;
        let requirements = layer(&requirements)?;
        let user_file = codex_home.join("config.toml");
        let user = layer(&user_file)?;
        let profile_file = profile.map(|name| codex_home.join(format!("{name}.config.toml")));
        let profile = profile_file.as_deref().map(&mut layer).transpose()?.unwrap_or_default();
        let mut arguments = Table::new();
        for (key, value) in settings {
            set(&mut arguments, &key, value);
        }
        resolve_paths(&mut arguments, cwd, home);
        let mut skill_switches = Switches::default();
        // Codex 0.98 looks for these in the user's file alone.
        if rules == Rules::V0_166 {
            skill_switches.take(&system, machine, home);
        }
        skill_switches.take(&user, codex_home, home);
        if rules == Rules::V0_166 {
            skill_switches.take(&profile, codex_home, home);
            skill_switches.take(&arguments, cwd, home);
        }

        let mut sources = vec![(user_file, user.clone())];
        sources.extend(profile_file.map(|file| (file, profile.clone())));
        if !system.is_empty() {
            sources.insert(0, (system_file, system.clone()));
        }
        let mut merged = system;
        merge(&mut merged, user);
        merge(&mut merged, profile);
        let mut overlaid = None;
        // Avoid copying a table that may have thousands of projects.
        if !arguments.is_empty() || !managed.is_empty() {
            let table = overlaid.insert(merged.clone());
            merge(table, arguments.clone());
            merge(table, managed.clone());
        }
        let of_user = overlaid.as_ref().unwrap_or(&merged);
        let root = project_root(files, cwd, &documents(of_user)?.root_markers);
        let trusts = Trusts::new(of_user, files, &root, cwd);
        let mut rule_folders = vec![codex_home.join("rules")];
        let mut of_project = Vec::new();
        for directory in directories_between(&root, cwd) {
            let folder = directory.join(".codex");
            let counts = folder != *codex_home && files.kind(&folder).is_ok();
            if !counts || trusts.level_of(&directory) != Trust::Trusted {
                continue;
            }
            let file = folder.join("config.toml");
            let mut table = layer(&file)?;
            if rules == Rules::V0_166 {
                table.retain(|key, _| !USER_ONLY_KEYS.contains(&key));
            }
            of_project.push((file, table));
            rule_folders.push(folder.join("rules"));
        }
        let trust = trusts.level_of(cwd);
        let strongest = [(PathBuf::from("-c"), arguments), (managed_file, managed)];
        for (source, table) in of_project.into_iter().chain(strongest) {
            merge(&mut merged, table.clone());
            sources.push((source, table));
        }
        Ok(Self { merged, trust, skill_switches, rule_folders, requirements, sources })
    }

    /// Adds the source of the value to an error about a value.
    pub fn placed(&self, error: ConfigError) -> ConfigError {
        match self.source_of(&error) {
            Some(source) => error.at(source.display().to_string()),
            None => error,
        }
    }

    /// Returns the layer with the highest precedence that has the key of an error.
    pub fn source_of(&self, error: &ConfigError) -> Option<&Path> {
        let mut strongest_first = self.sources.iter().rev();
        let found = strongest_first.find(|(_, table)| sets(table, error.key()));
        found.or(self.sources.first()).map(|(source, _)| source.as_path())
    }
}

/// Returns whether a table or one of its profiles has a dotted key.
fn sets(table: &Table, key: &str) -> bool {
    let profiles = table.get("profiles").and_then(Value::as_table);
    let mut profiles = profiles.into_iter().flat_map(Table::values).filter_map(Value::as_table);
    at(table, key).is_some() || profiles.any(|profile| at(profile, key).is_some())
}

fn at<'a>(table: &'a Table, key: &str) -> Option<&'a Value> {
    let mut pieces = key.split('.');
    let first = table.get(pieces.next()?)?;
    pieces.try_fold(first, |value, piece| value.get(piece))
}

fn read_layer(files: &dyn Files, path: &Path) -> Result<Table, ConfigError> {
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
    toml::from_str(&text).map_err(|wrong| ConfigError::Syntax {
        path: path.to_owned(),
        reason: wrong.to_string().trim_end().to_owned(),
    })
}

/// Makes the paths in a layer absolute. They are relative to the directory of the file that sets them.
fn resolve_paths(table: &mut Table, folder: &Path, home: Option<&Path>) {
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

/// Makes a path absolute: relative to the home directory after `~`, else to a directory.
pub fn resolved(path: impl AsRef<Path>, folder: &Path, home: Option<&Path>) -> PathBuf {
    let path = path.as_ref();
    match (path.strip_prefix("~"), home) {
        (Ok(below), Some(home)) => absolute(home, below),
        _ => absolute(folder, path),
    }
}

/// Sets a value under a dotted key, creating the tables on the way.
fn set(table: &mut Table, key: &str, value: Value) {
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

/// Merges a table over another: tables are merged, everything else is replaced.
fn merge(below: &mut Table, above: Table) {
    for (key, value) in above {
        match (below.get_mut(&key), value) {
            (Some(Value::Table(below)), Value::Table(above)) => merge(below, above),
            (_, value) => {
                below.insert(key, value);
            }
        }
    }
}

/// Returns the nearest directory with a marker, or the directory itself.
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

/// The trust levels of a configuration that matter for one working directory.
struct Trusts<'a> {
    projects: Option<&'a Table>,
    /// The roots whose levels apply to the directories below them, in order.
    roots: Vec<PathBuf>,
}

impl<'a> Trusts<'a> {
    fn new(merged: &'a Table, files: &dyn Files, root: &Path, cwd: &Path) -> Self {
        let mut roots = vec![root.to_owned()];
        let git = project_root(files, cwd, &default_root_markers());
        if files.kind(&git.join(".git")).is_ok() {
            let main = git_kind(files, &git);
            // Git resolves links in the root of a repository.
            roots.push(files.canonicalize(&git).unwrap_or(git));
            if let GitKind::Worktree(main) = main {
                roots.push(main);
            }
        }
        Self { projects: merged.get("projects").and_then(Value::as_table), roots }
    }

    /// Returns the trust level of a directory: its own, or that of the first root that has one.
    fn level_of(&self, directory: &Path) -> Trust {
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
