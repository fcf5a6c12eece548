//! Skills in places where an agent does not look.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use convoke_files::{EntryKind, Files};

use super::{FILE_NAME, OmittedSkill, SkillRule};
use crate::report::AgentReport;

/// The directories of skills that some agent searches, below a directory of the chain or the home directory.
const PLACES: [&str; 4] = [".agents/skills", ".claude/skills", ".codex/skills", ".gemini/skills"];

/// The skills around a working directory, of any agent.
pub(crate) struct Unsearched {
    found: Vec<Place>,
}

struct Place {
    /// The names of the skills, by the directories in this place; an empty one for a skill in the place itself.
    skills: Vec<PathBuf>,
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
                    skills.push(PathBuf::new());
                } else if matches!(kind, EntryKind::Directory | EntryKind::Symlink)
                    && name != ".system"
                    && files.kind(&real.join(&name).join(FILE_NAME)).is_ok()
                {
                    skills.push(PathBuf::from(name));
                }
            }
            if !skills.is_empty() {
                found.push(Place { skills, path, real });
            }
        }
        Self { found }
    }

    /// Accounts for every skill that the agent's own rules did not mention. Returns the places that hold
    /// some, with their numbers.
    pub(crate) fn account(&self, report: &mut AgentReport) -> Vec<(PathBuf, usize)> {
        let listed = report.skills.iter().flat_map(|it| [&it.path, &it.real_path]).flatten();
        let omitted = report.skills_omitted.iter().map(|it| &it.path);
        let known: HashSet<PathBuf> = listed.chain(omitted).cloned().collect();
        let mut places = Vec::new();
        for place in &self.found {
            let before = report.skills_omitted.len();
            for skill in &place.skills {
                let path = place.path.join(skill).join(FILE_NAME);
                let real = place.real.join(skill).join(FILE_NAME);
                if !known.contains(&path) && !known.contains(&real) {
                    let name = skill.file_name().map(|it| it.to_string_lossy().into_owned());
                    let rule = SkillRule::Unsearched;
                    report.skills_omitted.push(OmittedSkill { name, path, rule });
                }
            }
            let count = report.skills_omitted.len() - before;
            if count > 0 {
                places.push((place.path.clone(), count));
            }
        }
        places
    }
}
