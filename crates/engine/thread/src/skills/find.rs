//! The enabled skills of a working directory.

use std::path::Path;
use std::sync::Arc;

use convoke_codex::diagnostics;
use convoke_codex::project_doc::Rules;
use convoke_codex::skills::{self, FILE_NAME, SYSTEM_FOLDER, Scope, Search};
use convoke_core::diagnostic::Diagnostic;
use convoke_files::Files;

use super::Skill;
use crate::config::{Config, Machine};
use crate::pack::{Shape, SystemSkill};

/// The inputs of the search, besides the files.
#[derive(Debug, Clone, Copy)]
pub struct SkillSearch<'a> {
    /// The working directory.
    pub cwd: &'a Path,
    /// The machine and its user.
    pub machine: &'a Machine,
    /// The configuration.
    pub config: &'a Config,
    /// The version of Codex.
    pub shape: Shape,
    /// The skills that are part of the program. If there are any, no other skill counts as installed by it.
    pub system: &'a [SystemSkill],
}

/// Finds the enabled skills of a working directory, in the order of the list.
///
/// Lists every folder below the roots, up to 2000 per root.
pub fn find(
    files: &dyn Files,
    places: &SkillSearch<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Vec<Skill> {
    let switches = places.config.skill_switches.clone().without_links(files);
    let has_home = places.shape >= Shape::Codex0_98;
    let found = skills::find(
        files,
        &Search {
            rules: Rules::V0_98,
            cwd: places.cwd,
            codex_home: &places.machine.codex_home,
            home: places.machine.home.as_deref().filter(|_| has_home),
            machine: Path::new("/etc/codex"),
            root_markers: &places.config.project_root_markers,
            has_system: places.system.is_empty(),
        },
    );
    for root in found.limited {
        let message = format!("only some of the folders below {} are searched", root.display());
        let diagnostic = Diagnostic::new(diagnostics::SKILLS_LIMITED, message);
        diagnostics.push(diagnostic.at_path(root.display().to_string()));
    }
    // Skills that the program itself installed are not reported.
    for rejected in found.rejected.into_iter().filter(|it| it.scope != Scope::System) {
        let message = format!("{} is not listed: {}", rejected.path.display(), rejected.reason);
        let invalid = Diagnostic::new(diagnostics::SKILL_INVALID, message);
        diagnostics.push(invalid.at_path(rejected.path.display().to_string()));
    }
    let own = found.skills.into_iter().map(|skill| Skill {
        name: skill.name,
        description: skill.description,
        path: skill.path,
        scope: skill.scope,
        built_in: None,
    });
    let mut skills: Vec<Skill> = own.chain(built_in(files, places)).collect();
    skills.retain(|skill| !switches.is_off(&skill.path));
    skills.sort_by(|a, b| (a.scope, &a.name, &a.path).cmp(&(b.scope, &b.name, &b.path)));
    skills
}

/// Returns the skills that are part of the program, at the paths where it would install them.
fn built_in(files: &dyn Files, places: &SkillSearch<'_>) -> Vec<Skill> {
    let home = &places.machine.codex_home;
    let home = files.canonicalize(home).unwrap_or_else(|_| home.clone());
    let folder = home.join("skills").join(SYSTEM_FOLDER);
    let skills = places.system.iter().filter_map(|system| {
        let about = skills::read(&system.text, Rules::V0_98).ok()?;
        Some(Skill {
            name: about.name?,
            description: about.description,
            path: folder.join(&system.folder).join(FILE_NAME),
            scope: Scope::System,
            built_in: Some(Arc::clone(&system.text)),
        })
    });
    skills.collect()
}
