//! Changes of files that remove problems of a report: links and names. What a person has written is never changed.

use std::path::{Path, PathBuf};

use convoke_core::diagnostic::{Code, Diagnostic};
use convoke_files::Files;

use crate::diagnostics;
use crate::report::{AgentReport, DirectoryReport, Rule};

/// A change of files, and the problem that it removes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fix {
    pub change: FileChange,
    pub code: Code,
    /// The name of the program that has the problem.
    pub agent: &'static str,
    /// The file that the problem concerns, as the report names it.
    pub concerns: Option<String>,
}

/// A change of files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileChange {
    /// Make a link at a path to a target, which is relative to the link's directory.
    Link { path: PathBuf, target: PathBuf },
    /// Give a file another name.
    Rename { from: PathBuf, to: PathBuf },
    /// Remove a file without any text.
    RemoveBlank { path: PathBuf },
}

impl FileChange {
    /// Returns the path that is there afterwards, or no more.
    pub fn path(&self) -> &Path {
        match self {
            Self::Link { path, .. } | Self::RemoveBlank { path } => path,
            Self::Rename { to, .. } => to,
        }
    }
}

/// Returns the changes that remove problems of a report, each once. Files outside of the repository are left alone.
pub fn fixes(files: &dyn Files, report: &DirectoryReport) -> Vec<Fix> {
    let root = report.repository.as_deref().unwrap_or(&report.cwd);
    let mut fixes: Vec<Fix> = Vec::new();
    for agent in &report.agents {
        for diagnostic in &agent.diagnostics {
            let Some(change) = change(agent, diagnostic) else { continue };
            let is_free = match &change {
                FileChange::Link { path, .. } => files.entry_kind(path).is_err(),
                FileChange::Rename { to, .. } => files.entry_kind(to).is_err(),
                FileChange::RemoveBlank { .. } => true,
            };
            let is_new = fixes.iter().all(|fix| fix.change.path() != change.path());
            if is_free && is_new && change.path().starts_with(root) {
                let (code, concerns) = (diagnostic.code.clone(), diagnostic.path.clone());
                fixes.push(Fix { change, code, agent: agent.agent, concerns });
            }
        }
    }
    fixes
}

fn change(agent: &AgentReport, diagnostic: &Diagnostic) -> Option<FileChange> {
    let path = PathBuf::from(diagnostic.path.as_deref()?);
    let code = &diagnostic.code;
    if *code == diagnostics::NAMES_UNREAD {
        let target = PathBuf::from(path.file_name()?);
        let link = path.with_file_name(agent.edition.rules().main_file);
        return Some(FileChange::Link { path: link, target });
    }
    if *code == diagnostics::NAMES_CASE {
        let ignored = agent.ignored.iter().find(|it| it.path == path)?;
        let Rule::WrongCase(name) = ignored.rule else { return None };
        let to = path.with_file_name(name);
        return Some(FileChange::Rename { from: path, to });
    }
    if *code == diagnostics::AGENTS_MD_BLANK {
        return Some(FileChange::RemoveBlank { path });
    }
    if *code == diagnostics::SKILL_UNSEARCHED {
        let searched = agent.edition.rules().skills_directory;
        // A place of skills is two levels deep: `.agents/skills`.
        let above = path.parent()?.parent()?;
        let target = Path::new("..").join(path.strip_prefix(above).ok()?);
        return Some(FileChange::Link { path: above.join(searched), target });
    }
    None
}
