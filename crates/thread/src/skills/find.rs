//! The search for skills.

use std::collections::{BTreeSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use convoke_codex::config::{directories_between, project_root};
use convoke_core::diagnostic::Diagnostic;

use super::front_matter::{self, About};
use super::{Scope, Skill};
use crate::config::{Config, Machine};
use crate::diagnostics;
use crate::pack::{Shape, SystemSkill};
use convoke_files::{FileKind, Files, Kind};

const FILE_NAME: &str = "SKILL.md";
const SYSTEM_FOLDER: &str = ".system";
const MAX_DEPTH: usize = 6;
const MAX_FOLDERS: usize = 2000;

/// The inputs of the search besides the files.
#[derive(Debug, Clone, Copy)]
pub struct Places<'a> {
    /// The working directory.
    pub cwd: &'a Path,
    /// The machine and its user.
    pub machine: &'a Machine,
    /// The configuration.
    pub config: &'a Config,
    /// The version of Codex.
    pub shape: Shape,
    /// The skills that come with it. Where there are any, nothing else counts as installed.
    pub system: &'a [SystemSkill],
}

/// Finds the enabled skills of a working directory, in the order of the list.
///
/// Costs a look at every folder below the roots, up to 2000 for each root.
pub fn find(
    files: &dyn Files,
    places: &Places<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Vec<Skill> {
    let real = |path: &PathBuf| files.canonicalize(path).unwrap_or_else(|_| path.clone());
    let disabled: BTreeSet<_> = places.config.disabled_skills.iter().map(real).collect();
    let mut skills: Vec<Skill> = Vec::new();
    let mut seen = BTreeSet::new();
    for (root, scope) in roots(files, places) {
        for path in skill_files(files, &root, scope, diagnostics) {
            if !seen.insert(path.clone()) {
                continue;
            }
            let text = files.read_text(&path, FileKind::Skill).map_err(|error| error.to_string());
            match text.and_then(|text| front_matter::read(&text)) {
                Ok(about) => skills.push(skill(about, path, scope, None)),
                // Installed by the program itself: its own business.
                Err(_) if scope == Scope::System => {}
                Err(reason) => {
                    let message = format!("{} is not listed: {reason}", path.display());
                    let invalid = Diagnostic::new(diagnostics::SKILL_INVALID, message);
                    diagnostics.push(invalid.at_path(path.display().to_string()));
                }
            }
        }
    }
    skills.extend(built_in(files, places));
    skills.retain(|skill| !disabled.contains(&skill.path));
    skills.sort_by(|a, b| (a.scope, &a.name, &a.path).cmp(&(b.scope, &b.name, &b.path)));
    skills
}

fn roots(files: &dyn Files, places: &Places<'_>) -> Vec<(PathBuf, Scope)> {
    let machine = places.machine;
    let root = project_root(files, places.cwd, &places.config.project_root_markers);
    let mut project = directories_between(&root, places.cwd);
    project.reverse();
    let below = |folder: &str| {
        let roots = project.iter().map(|it| (it.join(folder), Scope::Repo));
        roots.collect::<Vec<_>>()
    };
    let of_codex = machine.codex_home.join("skills");
    let mut roots = below(".codex/skills");
    roots.push((of_codex.clone(), Scope::User));
    if let Some(home) = &machine.home
        && places.shape >= Shape::Codex0_98
    {
        roots.push((home.join(".agents/skills"), Scope::User));
    }
    if places.system.is_empty() {
        roots.push((of_codex.join(SYSTEM_FOLDER), Scope::System));
    }
    roots.push(("/etc/codex/skills".into(), Scope::Admin));
    roots.extend(below(".agents/skills"));
    roots
}

/// Returns the skills that come with the program, where it would install them.
fn built_in(files: &dyn Files, places: &Places<'_>) -> Vec<Skill> {
    let home = &places.machine.codex_home;
    let home = files.canonicalize(home).unwrap_or_else(|_| home.clone());
    let folder = home.join("skills").join(SYSTEM_FOLDER);
    let skills = places.system.iter().filter_map(|system| {
        let about = front_matter::read(&system.text).ok()?;
        let path = folder.join(&system.folder).join(FILE_NAME);
        Some(skill(about, path, Scope::System, Some(Arc::clone(&system.text))))
    });
    skills.collect()
}

fn skill(about: About, path: PathBuf, scope: Scope, built_in: Option<Arc<str>>) -> Skill {
    Skill { name: about.name, description: about.description, path, scope, built_in }
}

/// Returns the `SKILL.md` files below a root, links resolved.
fn skill_files(
    files: &dyn Files,
    root: &Path,
    scope: Scope,
    diagnostics: &mut Vec<Diagnostic>,
) -> Vec<PathBuf> {
    let mut found = Vec::new();
    // Most roots are not there, and resolving links looks at every directory above.
    if !matches!(files.kind(root), Ok(Kind::Directory)) {
        return found;
    }
    let Ok(start) = files.canonicalize(root) else {
        return found;
    };
    let mut visited = BTreeSet::from([start.clone()]);
    let mut queue = VecDeque::from([(start, 0)]);
    let mut limited = false;
    while let Some((folder, depth)) = queue.pop_front() {
        for name in files.names(&folder).unwrap_or_default() {
            let path = folder.join(&name);
            if name.as_encoded_bytes().starts_with(b".") {
                continue;
            }
            let kind = match files.entry_kind(&path) {
                Ok(Kind::Symlink) if scope == Scope::System => continue,
                Ok(Kind::Symlink) => match files.kind(&path) {
                    Ok(Kind::Directory) => Kind::Directory,
                    _ => continue,
                },
                Ok(kind) => kind,
                Err(_) => continue,
            };
            match kind {
                Kind::Directory if depth == MAX_DEPTH => {}
                Kind::Directory => {
                    let Ok(real) = files.canonicalize(&path) else {
                        continue;
                    };
                    if visited.len() >= MAX_FOLDERS {
                        limited = true;
                    } else if visited.insert(real.clone()) {
                        queue.push_back((real, depth + 1));
                    }
                }
                Kind::File if name == FILE_NAME => found.push(path),
                _ => {}
            }
        }
    }
    if limited {
        let message = format!("only {MAX_FOLDERS} folders below {} are looked at", root.display());
        let diagnostic = Diagnostic::new(diagnostics::SKILLS_LIMITED, message);
        diagnostics.push(diagnostic.at_path(root.display().to_string()));
    }
    found
}
