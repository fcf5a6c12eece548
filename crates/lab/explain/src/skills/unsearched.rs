//! Skills in places where an agent does not look.

use std::cell::LazyCell;
use std::collections::HashSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use convoke_files::{EntryKind, Files};

use super::{FILE_NAME, OmittedSkill, SkillRule};
use crate::place::Listed;
use crate::report::AgentReport;

/// The directories of skills that some agent searches, below a directory of the chain or the home directory.
const PLACES: [&str; 4] = [".agents/skills", ".claude/skills", ".codex/skills", ".gemini/skills"];

/// The minimum and maximum number of skill directories that are read ahead, and the bytes of each skill.
const AHEAD_FROM: usize = 32;
const AHEAD_TO: usize = 1024;
const AHEAD_BYTES: u64 = 16 * 1024;

/// Reads the directories of many skills ahead, because agents read them one after the other. Returns whether there
/// are many.
pub(crate) fn look_ahead(files: &Listed<'_>, chain: &[PathBuf], home: &Path) -> bool {
    let mut places: Vec<PathBuf> = Vec::new();
    let mut directories: Vec<PathBuf> = Vec::new();
    let above = chain.iter().map(PathBuf::as_path).chain([home]);
    for path in above.flat_map(|it| PLACES.map(|place| it.join(place))) {
        if !matches!(files.kind(&path), Ok(EntryKind::Directory)) {
            continue;
        }
        let Ok(real) = files.canonicalize(&path) else { continue };
        if places.contains(&real) {
            continue;
        }
        let entries = files.entries(&real).unwrap_or_default().into_iter();
        let below = entries.filter(|(_, kind)| *kind == EntryKind::Directory);
        directories.extend(below.map(|(name, _)| real.join(name)));
        places.push(real);
    }
    let are_many = directories.len() >= AHEAD_FROM;
    if are_many {
        directories.truncate(AHEAD_TO);
        files.look_into(directories, FILE_NAME, AHEAD_BYTES);
    }
    are_many
}

/// The skills around a working directory, of any agent.
pub(crate) struct Unsearched {
    found: Vec<Place>,
}

struct Place {
    path: PathBuf,
    skills: Vec<FoundSkill>,
}

/// A skill in a place: the file as it was found, and without links up to the place.
struct FoundSkill {
    /// The directory of the skill in the place; `None` for a skill in the place itself.
    name: Option<String>,
    path: PathBuf,
    real: PathBuf,
}

impl Unsearched {
    /// Looks for skills in the directories of the chain and in the home directory.
    pub(crate) fn new(files: &dyn Files, chain: &[PathBuf], home: &Path) -> Self {
        let own_home = (!chain.iter().any(|it| it == home)).then_some(home);
        let directories = own_home.into_iter().chain(chain.iter().map(PathBuf::as_path));
        let mut found = Vec::new();
        for path in directories.flat_map(|it| PLACES.map(|place| it.join(place))) {
            if !matches!(files.kind(&path), Ok(EntryKind::Directory)) {
                continue;
            }
            let real = files.canonicalize(&path).unwrap_or_else(|_| path.clone());
            let entries = files.entries(&real).unwrap_or_default();
            let mut skills = Vec::new();
            for (name, kind) in entries {
                if name == FILE_NAME && kind != EntryKind::Directory {
                    let (path, real) = (path.join(FILE_NAME), real.join(FILE_NAME));
                    skills.push(FoundSkill { name: None, path, real });
                } else if matches!(kind, EntryKind::Directory | EntryKind::Symlink)
                    && name != ".system"
                {
                    let real = real.join(&name).join(FILE_NAME);
                    if files.kind(&real).is_ok() {
                        let path = path.join(&name).join(FILE_NAME);
                        let name = Some(name.to_string_lossy().into_owned());
                        skills.push(FoundSkill { name, path, real });
                    }
                }
            }
            if !skills.is_empty() {
                found.push(Place { path, skills });
            }
        }
        Self { found }
    }

    /// Accounts for every skill that the agent's own rules did not mention. Returns the places that hold
    /// some, with their numbers.
    pub(crate) fn account(&self, report: &mut AgentReport) -> Vec<(PathBuf, usize)> {
        let listed = report.skills.iter().flat_map(|it| [&it.path, &it.real_path]).flatten();
        let omitted = report.skills_omitted.iter().map(|it| &it.path);
        let known: Vec<&PathBuf> = listed.chain(omitted).collect();
        // Nearly every path is spelled alike, and bytes are compared faster than components.
        let alike = known.iter().map(|it| it.as_os_str());
        let alike: HashSet<&OsStr, foldhash::fast::RandomState> = alike.collect();
        let equal = LazyCell::new(|| known.iter().copied().collect::<HashSet<&PathBuf>>());
        let is_left = |skill: &&FoundSkill| {
            let paths = [&skill.path, &skill.real];
            !paths.iter().any(|it| alike.contains(it.as_os_str()))
                && !paths.iter().any(|it| equal.contains(it))
        };
        let left: Vec<Vec<OmittedSkill>> = (self.found.iter())
            .map(|place| place.skills.iter().filter(is_left).map(omitted_of).collect())
            .collect();
        let mut places = Vec::new();
        for (place, left) in self.found.iter().zip(left) {
            if !left.is_empty() {
                places.push((place.path.clone(), left.len()));
                report.skills_omitted.extend(left);
            }
        }
        places
    }
}

fn omitted_of(skill: &FoundSkill) -> OmittedSkill {
    let (name, path) = (skill.name.clone(), skill.path.clone());
    OmittedSkill { name, path, rule: SkillRule::Unsearched }
}
