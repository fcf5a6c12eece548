//! Skills: folders with a `SKILL.md`, listed for the model by name and description.
//!
//! All enabled skills are listed in the user instructions ([`render_list`]). The text of a skill is sent only
//! after a message that mentions it ([`mentioned`], [`inject`]).

mod find;
mod mention;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use convoke_core::diagnostic::Diagnostic;
use convoke_core::ledger::Source;
use convoke_core::{Fragment, SourcedText, TextWriter};

use crate::history::Section;
use crate::pack::SkillTexts;
use convoke_core::diagnostics;
use convoke_files::{FileKind, Files};

pub use convoke_codex::skills::Scope;
pub use find::{SkillSearch, find};
pub use mention::mentioned;

/// A skill that can be mentioned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skill {
    pub name: String,
    pub description: String,
    /// The path of `SKILL.md`, with links resolved.
    pub path: PathBuf,
    pub scope: Scope,
    /// The text, if the skill comes with the pack, whether or not it is installed.
    pub built_in: Option<Arc<str>>,
}

/// A skill as the model reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkillInstructions {
    pub name: String,
    /// The path of `SKILL.md`.
    pub path: PathBuf,
    /// The text of that file.
    pub contents: String,
}

impl SkillInstructions {
    /// Writes the message to the model.
    pub fn render(&self) -> SourcedText<'static> {
        let (name, path) = (&self.name, shown(&self.path));
        let mut out = TextWriter::new(Section::Skill.name());
        out.frame("wrapper", &format!("<skill>\n<name>{name}</name>\n<path>{path}</path>\n"));
        let source = Source::file(self.path.display().to_string());
        out.fragment(Fragment::new(self.contents.clone(), source));
        out.frame("wrapper", "\n</skill>");
        out.finish()
    }
}

/// Writes the list of skills; `None` if there are none.
pub fn render_list(skills: &[Skill], texts: &SkillTexts) -> Option<String> {
    if skills.is_empty() {
        return None;
    }
    let mut lines = vec!["## Skills".to_owned(), texts.intro.clone()];
    lines.push("### Available skills".to_owned());
    lines.extend(skills.iter().map(|skill| {
        let (name, description) = (&skill.name, &skill.description);
        format!("- {name}: {description} (file: {})", shown(&skill.path))
    }));
    lines.push("### How to use skills".to_owned());
    lines.push(texts.how_to_use.clone());
    Some(lines.join("\n"))
}

/// Reads the text of a skill. An unreadable skill is reported.
pub fn inject(
    files: &dyn Files,
    skill: &Skill,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<SkillInstructions> {
    let path = shown(&skill.path);
    let text = match &skill.built_in {
        Some(text) => Ok(text.to_string()),
        None => files.read_text(&skill.path, FileKind::Skill),
    };
    match text {
        Ok(contents) => {
            if contents.contains("</skill>") {
                let message = format!("{path} contains </skill>, which ends its own wrapper");
                diagnostics
                    .push(Diagnostic::new(diagnostics::TEXT_CLOSES_WRAPPER, message).at_path(path));
            }
            Some(SkillInstructions { name: skill.name.clone(), path: skill.path.clone(), contents })
        }
        Err(error) => {
            let message = format!("the skill {} at {path} is not sent: {error}", skill.name);
            diagnostics
                .push(Diagnostic::new(crate::diagnostics::SKILL_UNREADABLE, message).at_path(path));
            None
        }
    }
}

fn shown(path: &Path) -> String {
    path.display().to_string().replace('\\', "/")
}

#[cfg(test)]
mod tests;
