//! The search of Gemini CLI: the user's directory, extensions, and directories up to the marker.

use std::cmp::Ordering;
use std::path::{Path, PathBuf};

use convoke_files::{EntryKind, Files, absolute};
use serde_json::Value;

use super::memory;
use super::settings::{DEFAULT_NAME, Settings};
use convoke_explain::Session;
use convoke_explain::config;
use convoke_explain::place;
use convoke_explain::{AgentReport, LoadReason, Rule};

const MEMORY_NAME: &str = "MEMORY.md";
const MANIFEST: &str = "gemini-extension.json";

/// A file that was found, before it is read.
#[derive(Debug)]
pub(super) struct FoundFile {
    pub path: PathBuf,
    pub why: LoadReason,
    group: Group,
    /// Its place among the files of its group that are not sorted by path.
    place: usize,
}

/// The groups in the order in which they arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Group {
    User,
    Memory,
    Extension,
    Project,
}

impl FoundFile {
    /// Compares by arrival: groups first, then the path as JavaScript sorts strings.
    pub(super) fn arrival(&self, other: &Self) -> Ordering {
        self.group.cmp(&other.group).then_with(|| match self.group {
            Group::User | Group::Memory => self.place.cmp(&other.place),
            Group::Extension | Group::Project => by_utf16(&self.path, &other.path),
        })
    }
}

fn by_utf16(left: &Path, right: &Path) -> Ordering {
    let (left, right) = (left.to_string_lossy(), right.to_string_lossy());
    left.encode_utf16().cmp(right.encode_utf16())
}

/// Finds the files of a start, in the order in which duplicates are decided.
pub(super) fn at_start(
    files: &dyn Files,
    session: &Session,
    settings: &Settings,
    report: &mut AgentReport,
) -> Vec<FoundFile> {
    let mut found = Vec::new();
    let user = |name: &String| absolute(&settings.directory, Path::new(name));
    push_all(
        files,
        settings.names.iter().map(user),
        Group::User,
        &LoadReason::User,
        report,
        &mut found,
    );

    for (name, path) in extension_files(files, settings, report) {
        let why = LoadReason::Extension(name);
        push_all(files, [path].into_iter(), Group::Extension, &why, report, &mut found);
    }

    for root in workspace(session, settings) {
        let is_own = root == session.cwd;
        let why = if is_own { LoadReason::Project } else { LoadReason::ExtraDirectory };
        let top = place::nearest_with(files, &root, &settings.markers);
        let paths = upward(settings, &root, top.as_deref().unwrap_or(&root));
        push_all(files, paths.into_iter(), Group::Project, &why, report, &mut found);
    }

    let notes = memory::directory(files, &settings.directory, &session.cwd);
    let index = notes.join(MEMORY_NAME);
    let paths: Vec<PathBuf> = match files.kind(&index) {
        Ok(_) => vec![index],
        Err(_) => settings.names.iter().map(|name| notes.join(name)).collect(),
    };
    push_all(files, paths.into_iter(), Group::Memory, &LoadReason::Memory, report, &mut found);
    found
}

/// Finds the files that come with a tool's access to a path: those of the directories from there up.
pub(super) fn on_read(
    files: &dyn Files,
    session: &Session,
    settings: &Settings,
    file: &Path,
    report: &mut AgentReport,
) -> Vec<FoundFile> {
    let mut roots = workspace(session, settings);
    roots.retain(|root| file.starts_with(root));
    let Some(root) = roots.into_iter().max_by_key(|root| root.components().count()) else {
        return Vec::new();
    };
    let top = place::nearest_with(files, &root, &settings.markers).unwrap_or(root);
    let is_directory = files.kind(file).is_ok_and(|kind| kind == EntryKind::Directory);
    let start = if is_directory { file } else { file.parent().unwrap_or(file) };
    let why = LoadReason::Read(file.to_owned());
    let mut found = Vec::new();
    let paths = upward(settings, start, &top);
    push_all(files, paths.into_iter(), Group::Project, &why, report, &mut found);
    found
}

/// The directories of the workspace.
fn workspace(session: &Session, settings: &Settings) -> Vec<PathBuf> {
    let mut roots = vec![session.cwd.clone()];
    roots.extend(settings.include_directories.iter().cloned());
    roots
}

/// The paths from the top directory down to the start; the user's own directory is not walked.
fn upward(settings: &Settings, start: &Path, top: &Path) -> Vec<PathBuf> {
    let mut directories: Vec<_> = start
        .ancestors()
        .take_while(|directory| *directory != settings.directory && directory.starts_with(top))
        .collect();
    directories.reverse();
    // Cleaning takes the whole path apart, and the usual path and name need none.
    let is_clean = absolute(start, start).as_os_str() == start.as_os_str();
    let named = |(directory, name): (&Path, &Path)| match name.file_name() {
        Some(plain) if is_clean && plain == name.as_os_str() => directory.join(plain),
        _ => absolute(directory, name),
    };
    let names = || settings.names.iter().map(Path::new);
    let places = directories.into_iter().flat_map(|it| names().map(move |name| (it, name)));
    places.map(named).collect()
}

fn push_all(
    files: &dyn Files,
    paths: impl Iterator<Item = PathBuf>,
    group: Group,
    why: &LoadReason,
    report: &mut AgentReport,
    found: &mut Vec<FoundFile>,
) {
    for path in paths {
        match files.kind(&path) {
            Ok(EntryKind::File) => {
                found.push(FoundFile { place: found.len(), path, why: why.clone(), group });
            }
            Ok(EntryKind::Directory) => report.ignore(&path, Rule::Directory),
            Ok(EntryKind::Special | EntryKind::Symlink) => report.ignore(&path, Rule::NotRegular),
            Err(error) => {
                if files.entry_kind(&path).is_ok() {
                    let rule = report.miss(&path, &error);
                    report.ignore(&path, rule);
                }
            }
        }
    }
}

/// The directories of the installed extensions.
pub(super) fn extensions(files: &dyn Files, settings: &Settings) -> Vec<PathBuf> {
    let base = settings.directory.join("extensions");
    let directories = files.names(&base).unwrap_or_default().into_iter().map(|it| base.join(it));
    directories.filter(|it| files.kind(&it.join(MANIFEST)).is_ok()).collect()
}

/// The files that the installed extensions name.
fn extension_files(
    files: &dyn Files,
    settings: &Settings,
    report: &mut AgentReport,
) -> Vec<(String, PathBuf)> {
    let base = settings.directory.join("extensions");
    let mut found = Vec::new();
    for name in files.names(&base).unwrap_or_default() {
        let directory = base.join(&name);
        let manifest = directory.join(MANIFEST);
        let Some(manifest) = config::commented_json(files, &manifest, report) else {
            continue;
        };
        let title = manifest.get("name").and_then(Value::as_str);
        let title = title.map_or_else(|| name.to_string_lossy().into_owned(), str::to_owned);
        let named = manifest.get("contextFileName").map(config::strings);
        let named = named.filter(|named| !named.is_empty());
        let default = directory.join(DEFAULT_NAME);
        match named {
            None => found.push((title, default)),
            Some(named) => {
                let paths = named.iter().map(|name| directory.join(name));
                let paths: Vec<_> = paths.collect();
                if !paths.contains(&default) && files.kind(&default).is_ok() {
                    report.ignore(&default, Rule::ExtensionNamesOthers);
                }
                found.extend(paths.into_iter().map(|path| (title.clone(), path)));
            }
        }
    }
    found
}
