//! AGENTS.md, which newer editions read in place of CLAUDE.md, or beside it.

use std::path::{Path, PathBuf};

use convoke_core::whitespace::trim;
use serde_json::Value;

use super::loader::{Level, Loader};
use super::settings::{Layer, Source};
use super::{LOCAL_NAME, SHARED_NAMES};
use convoke_explain::{LoadReason, Loaded, Rule};

const NAMES: [&str; 2] = ["AGENTS.md", ".claude/AGENTS.md"];

/// The names of the built-in plugin that reads AGENTS.md.
const PLUGINS: [&str; 2] = ["cc-plugin-agents-md@builtin", "agents-md@builtin"];

/// The instruction files of a project that are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// AGENTS.md if the project has no CLAUDE.md.
    Either,
    Both,
    ClaudeMd,
    /// Neither: only those of the administrator.
    ManagedOnly,
}

impl Mode {
    /// Finds the mode in settings, of which later ones take precedence.
    pub(super) fn from_layers(layers: &[Layer]) -> Self {
        if !is_enabled(layers) {
            return Self::ClaudeMd;
        }
        // A project must not decide this for the user.
        let options = layers.iter().rev().filter(|layer| {
            matches!(layer.source, Source::User | Source::Arguments | Source::Managed)
        });
        let option = |name: &str| {
            options.clone().find_map(|layer| {
                let configured = layer.value.get("pluginConfigs")?;
                let mut plugins = PLUGINS.iter().filter_map(|plugin| configured.get(plugin));
                plugins.find_map(|plugin| plugin.get("options")?.get(name))
            })
        };
        if let Some(value) = option("instructionFiles") {
            return match value.as_str() {
                Some("claude-md-and-agents-md") => Self::Both,
                Some("claude-md") => Self::ClaudeMd,
                Some("managed-only") => Self::ManagedOnly,
                _ => Self::Either,
            };
        }
        // The option's name and values of earlier versions.
        match option("projectInstructions").map(Value::as_str) {
            None | Some(Some("agents-fallback")) => Self::Either,
            Some(Some("both")) => Self::Both,
            Some(Some("none")) => Self::ManagedOnly,
            Some(_) => Self::ClaudeMd,
        }
    }

    /// Returns whether AGENTS.md is read in this mode.
    pub(super) fn reads(self) -> bool {
        matches!(self, Self::Either | Self::Both)
    }
}

fn is_enabled(layers: &[Layer]) -> bool {
    let enabled = layers.iter().rev().filter_map(|layer| layer.value.get("enabledPlugins"));
    let mut values = enabled.flat_map(|enabled| PLUGINS.iter().filter_map(|it| enabled.get(it)));
    values.next() != Some(&Value::Bool(false))
}

/// The files of the directories from the root to the working directory, as they were loaded.
#[derive(Debug, Default)]
pub(super) struct Walk {
    /// The number of files loaded before the first directory.
    pub start: usize,
    pub directories: Vec<WalkedDirectory>,
    /// The first CLAUDE.md that counts as one.
    pub claude_md: Option<PathBuf>,
}

/// A directory of the walk.
#[derive(Debug)]
pub(super) struct WalkedDirectory {
    pub path: PathBuf,
    /// Why its files that are checked in are left out.
    pub held: Option<Rule>,
    /// The number of files that were loaded after it.
    pub end: usize,
}

/// Loads the files of the walk's directories and puts them into their places.
pub(super) fn load(loader: &mut Loader<'_>, walk: &Walk) {
    let Some(mode) = loader.settings.agents_md else {
        return;
    };
    let held = match &walk.claude_md {
        _ if !mode.reads() => Some(Rule::SwitchedOff("the agents-md plugin's settings")),
        _ if !loader.settings.sources.project => Some(Rule::SwitchedOff("--setting-sources")),
        Some(claude_md) if mode == Mode::Either => Some(Rule::Shadowed(claude_md.clone())),
        _ => None,
    };
    let first = loader.report.loaded.len();
    let mut ends = Vec::new();
    for directory in &walk.directories {
        for path in NAMES.map(|name| directory.path.join(name)) {
            match held.as_ref().or(directory.held.as_ref()) {
                Some(rule) => {
                    loader.ignore_if_there(&path, rule.clone());
                }
                None => load_one(loader, &path, LoadReason::Project, walk.start),
            }
        }
        ends.push(loader.report.loaded.len());
    }
    sort(&mut loader.report.loaded, walk, first, &ends);
}

/// Loads the files of directories below the working directory after a file in them was read.
pub(super) fn load_nested(
    loader: &mut Loader<'_>,
    walk: &Walk,
    directories: &[PathBuf],
    why: &LoadReason,
) {
    let mode = match loader.settings.agents_md {
        Some(mode) if mode.reads() && loader.settings.sources.project => mode,
        _ => return,
    };
    if mode == Mode::Either && walk.claude_md.is_some() {
        return;
    }
    for directory in directories {
        let claude_md = (mode == Mode::Either).then(|| claude_md_in(loader, directory)).flatten();
        for path in NAMES.map(|name| directory.join(name)) {
            match &claude_md {
                Some(claude_md) => {
                    loader.ignore_if_there(&path, Rule::Shadowed(claude_md.clone()));
                }
                None => load_one(loader, &path, why.clone(), walk.start),
            }
        }
    }
}

/// The CLAUDE.md of a directory below the working directory, if it has one.
fn claude_md_in(loader: &mut Loader<'_>, directory: &Path) -> Option<PathBuf> {
    let shared = SHARED_NAMES.map(|name| (name, Level::Project));
    let names = shared.into_iter().chain([(LOCAL_NAME, Level::Local)]);
    let mut paths = names.map(|(name, level)| (directory.join(name), level));
    let found = paths.find(|(path, level)| loader.is_seen(path) || loader.would_load(path, *level));
    found.map(|(path, _)| path)
}

/// Loads one file unless its text is that of a file of the project already loaded.
fn load_one(loader: &mut Loader<'_>, path: &Path, why: LoadReason, project_start: usize) {
    let Some(cleaned) = loader.open(path, Level::Project) else {
        return;
    };
    let loaded = loader.report.loaded.get(project_start..).unwrap_or_default();
    let is_copy = |file: &&Loaded| {
        let is_agents_md = file.path.file_name().is_some_and(|name| name == NAMES[0]);
        !is_agents_md && trim(&file.text) == trim(&cleaned.text)
    };
    if let Some(first) = loaded.iter().find(is_copy).map(|file| file.path.clone()) {
        loader.report.ignore(path, Rule::Copy(first));
    } else {
        loader.take(path, cleaned, why, Level::Project, 0);
    }
}

/// Moves the files from `first` on, which end at `ends` for each directory of the walk, behind the other
/// files of their directory. What nothing deeper follows stays at the end.
fn sort(loaded: &mut Vec<Loaded>, walk: &Walk, first: usize, ends: &[usize]) {
    let count = walk.directories.len();
    let walk_end = walk.directories.last().map_or(walk.start, |last| last.end);
    let rank = |index: usize| {
        if index >= first {
            let directory = ends.partition_point(|end| *end <= index);
            let is_followed = walk.directories.get(directory).is_some_and(|it| it.end < walk_end);
            if is_followed { 2 * directory + 1 } else { 2 * count + 1 + directory }
        } else {
            2 * walk.directories.partition_point(|it| it.end <= index)
        }
    };
    let tail = loaded.split_off(walk.start).into_iter().enumerate();
    let mut ranked: Vec<_> = tail.map(|(at, file)| (rank(walk.start + at), file)).collect();
    ranked.sort_by_key(|(rank, _)| *rank);
    loaded.extend(ranked.into_iter().map(|(_, file)| file));
}
