//! What a program loads in a place, as far as a baseline keeps it.

use std::collections::BTreeMap;
use std::path::Path;

use convoke_core::{Diagnostic, Severity};
use convoke_explain::{AgentReport, SkillSource};

/// What a program loads in a place. Paths start at the root of the repository.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Record {
    /// The loaded files with their tokens; 0 for a file whose text counts with the file that imports it.
    pub files: BTreeMap<String, u64>,
    /// The listed skills of the project with the tokens of their descriptions.
    pub skills: BTreeMap<String, u64>,
    /// What is cut or lost, by code and path, with the number of cases.
    pub losses: BTreeMap<String, u64>,
}

impl Record {
    /// Takes a record from the report on a program. `tokens` counts those of a text.
    pub fn of(report: &AgentReport, root: &Path, tokens: &dyn Fn(&str) -> u64) -> Self {
        let mut record = Self::default();
        for file in &report.loaded {
            let tokens = if file.is_pasted { 0 } else { tokens(&file.text) };
            *record.files.entry(relative(root, &file.path)).or_default() += tokens;
        }
        for skill in report.skills.iter().filter(|it| it.source != SkillSource::Builtin) {
            let tokens = skill.text.as_deref().map_or(0, tokens);
            record.skills.insert(skill.name.clone(), tokens);
        }
        let lost = report.diagnostics.iter().filter(|it| it.code.severity() != Severity::Note);
        for diagnostic in lost {
            *record.losses.entry(loss(diagnostic, root)).or_default() += 1;
        }
        for ignored in report.ignored.iter().filter(|it| it.rule.is_loss()) {
            let path = relative(root, &ignored.path);
            let is_reported =
                |loss: &String| loss.split_once(' ').is_some_and(|(_, it)| it == path);
            if !record.losses.keys().any(is_reported) {
                record.losses.insert(format!("{LEFT_OUT} {path}"), 1);
            }
        }
        record
    }

    /// Returns the tokens of all instructions and descriptions.
    pub fn tokens(&self) -> u64 {
        self.files.values().chain(self.skills.values()).sum()
    }
}

/// The name of the loss of a file that no diagnostic reports.
pub const LEFT_OUT: &str = "left-out";

/// Returns the name of a loss: the code of the diagnostic, and the path that it concerns.
pub fn loss(diagnostic: &Diagnostic, root: &Path) -> String {
    match &diagnostic.path {
        Some(path) => format!("{} {}", diagnostic.code, relative(root, Path::new(path))),
        None => diagnostic.code.to_string(),
    }
}

/// Returns a path as it is seen from the root, and `.` for the root.
pub fn relative(root: &Path, path: &Path) -> String {
    match path.strip_prefix(root) {
        Ok(below) if below.as_os_str().is_empty() => ".".to_owned(),
        Ok(below) => below.to_string_lossy().into_owned(),
        Err(_) => path.to_string_lossy().into_owned(),
    }
}
