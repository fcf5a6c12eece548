//! Traps that no single agent's rules show: where agents, versions or places disagree.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use convoke_core::diagnostic::{Code, Diagnostic};
use convoke_files::Files;

use crate::diagnostics;
use crate::place::{self, GitKind};
use crate::report::{AgentReport, LoadReason, Loaded, Rule};
use crate::session::Session;
use crate::survey::Survey;

/// The minimum size of copies that are reported.
const WORTH_MENTIONING: usize = 32;

/// Adds the diagnostics that need the reports of all agents.
pub(crate) fn report(
    files: &dyn Files,
    session: &Session,
    survey: &Survey,
    agents: &mut [AgentReport],
) {
    let root = place::git_root(files, &session.cwd);
    let kind = root.as_deref().map(|root| place::git_kind(files, root));
    let compared =
        |agent: &AgentReport| (agent.edition.rules().compare_editions)(files, session, agents);
    let compared: Vec<Option<Diagnostic>> = agents.iter().map(compared).collect();
    for (agent, compared) in agents.iter_mut().zip(compared) {
        names(agent);
        unread(agent, session, survey, root.as_deref());
        if agent.edition.rules().loads_above_root {
            parents(agent, session, root.as_deref(), kind.as_ref());
        } else {
            roots(agent, session, root.as_deref(), kind.as_ref());
        }
        closed_wrappers(agent);
        repeated_text(agent);
        agent.diagnose_all(compared);
    }
}

/// Names that are right but for their case or their place.
fn names(agent: &mut AgentReport) {
    let found: Vec<(Code, PathBuf, String)> = agent
        .ignored
        .iter()
        .filter_map(|file| {
            let path = file.path.display();
            match &file.rule {
                Rule::WrongCase(name) => {
                    let message = format!("{path} is not loaded: the name must be {name}");
                    Some((diagnostics::NAMES_CASE, file.path.clone(), message))
                }
                Rule::WrongPlace => {
                    let message =
                        format!("{path} is not loaded: it is not looked for in this place");
                    Some((diagnostics::NAMES_PLACE, file.path.clone(), message))
                }
                _ => None,
            }
        })
        .collect();
    for (code, path, message) in found {
        agent.warn(code, &path, message);
    }
}

/// Reports an agent that loads nothing although the project has instructions for another agent.
fn unread(agent: &mut AgentReport, session: &Session, survey: &Survey, root: Option<&Path>) {
    let is_own = |file: &Loaded| {
        matches!(
            file.why,
            LoadReason::Project
                | LoadReason::Local
                | LoadReason::Rule
                | LoadReason::Fallback
                | LoadReason::Import { .. }
        ) && session.cwd.starts_with(root.unwrap_or(&session.cwd))
            && file.path.starts_with(root.unwrap_or(&session.cwd))
    };
    let withheld = |rule: &Rule| {
        !matches!(
            rule,
            Rule::OtherAgent(_)
                | Rule::AboveRoot(_)
                | Rule::NoRoot
                | Rule::WrongPlace
                | Rule::OnRead
                | Rule::Below
        )
    };
    // Files that another rule excludes have their own diagnostic.
    let has_own =
        agent.loaded.iter().any(is_own) || agent.ignored.iter().any(|file| withheld(&file.rule));
    if has_own {
        return;
    }
    let top = root.unwrap_or(&session.cwd);
    if let Some(other) = survey.other_main_file(agent, top) {
        let link = other.with_file_name(agent.edition.rules().main_file);
        let name = other.file_name().unwrap_or_default().to_string_lossy();
        let message = format!(
            "{} loads nothing of this project: it does not read {}, and would with `ln -s {name} {}`",
            agent.edition.title(),
            other.display(),
            link.display()
        );
        agent.warn(diagnostics::NAMES_UNREAD, other, message);
    }
}

/// Reports files above the project, which most agents do not load.
fn parents(
    agent: &mut AgentReport,
    session: &Session,
    root: Option<&Path>,
    kind: Option<&GitKind>,
) {
    let top = root.unwrap_or(&session.cwd);
    let is_above = |file: &&Loaded| {
        let directory = file.path.parent();
        matches!(file.why, LoadReason::Project | LoadReason::Local)
            && directory.is_some_and(|directory| directory != top && top.starts_with(directory))
    };
    let above: Vec<_> = agent.loaded.iter().filter(is_above).collect();
    let Some(first) = above.first().map(|file| file.path.clone()) else {
        return;
    };
    let count = above.len();
    let which = match count {
        1 => format!("{} is", first.display()),
        _ => format!("{} and {} more are", first.display(), count - 1),
    };
    let (code, message) = match (root, kind) {
        (Some(_), Some(GitKind::Submodule)) => {
            (diagnostics::SUBMODULE_OUTER, format!("{which} loaded from outside this submodule"))
        }
        (Some(_), _) => (
            diagnostics::PARENTS_ABOVE_ROOT,
            format!("{which} loaded from above the repository {}", top.display()),
        ),
        (None, _) => (
            diagnostics::PARENTS_WITHOUT_ROOT,
            format!("{which} loaded from above, which no other agent does here"),
        ),
    };
    let diagnostic = Diagnostic::new(code, message).with_count(count as u64);
    agent.diagnose(diagnostic.at_path(first.to_string_lossy()));
}

/// A `.git` in the wrong place moves the top of what an agent looks at.
fn roots(agent: &mut AgentReport, session: &Session, root: Option<&Path>, kind: Option<&GitKind>) {
    let Some(root) = root.filter(|root| agent.search.top.as_deref() == Some(root)) else {
        return;
    };
    let cut_off = agent.ignored.iter().find(|file| matches!(file.rule, Rule::AboveRoot(_)));
    if let (Some(GitKind::Stray), Some(cut_off)) = (kind, cut_off) {
        let message = format!(
            "{} is not a repository, but still hides {}",
            root.join(".git").display(),
            cut_off.path.display()
        );
        let path = root.join(".git");
        agent.warn(diagnostics::ROOT_STRAY, &path, message);
    }
    if root == session.home && session.cwd != session.home {
        let leaked = agent.loaded.iter().find(|file| {
            matches!(file.why, LoadReason::Project | LoadReason::Fallback)
                && file.path.parent() == Some(root)
        });
        if let Some(path) = leaked.map(|file| file.path.clone()) {
            let message =
                format!("{} is loaded because the home directory is a repository", path.display());
            agent.warn(diagnostics::ROOT_IS_HOME, &path, message);
        }
    }
}

/// A file that ends the wrapper which the agent puts around it.
fn closed_wrappers(agent: &mut AgentReport) {
    let marks = agent.edition.rules().wrapper_ends;
    let mut found = Vec::new();
    for file in agent.loaded.iter().filter(|file| !file.is_pasted) {
        let mark = marks.iter().find_map(|mark| Some((*mark, file.text.find(mark)?)));
        if let Some((mark, at)) = mark {
            let message =
                format!("{} holds `{mark}`, which ends the instructions", file.path.display());
            let line = crate::text::line_at(&file.text, at);
            let diagnostic =
                Diagnostic::new(convoke_core::diagnostics::TEXT_CLOSES_WRAPPER, message);
            found.push(diagnostic.at_path(file.path.to_string_lossy()).at_line(line));
        }
    }
    agent.diagnose_all(found);
}

/// The same file, or a copy of it, arrives more than once.
fn repeated_text(agent: &mut AgentReport) {
    let mut by_file: HashMap<&OsStr, Vec<&Loaded>> = HashMap::new();
    let mut by_text: HashMap<&str, &Loaded> = HashMap::new();
    let mut found: Vec<(PathBuf, String)> = Vec::new();
    for file in &agent.loaded {
        let same_file = by_file.entry(file.real_path.as_os_str()).or_default();
        same_file.push(file);
        if same_file.len() == 1
            && file.text.len() >= WORTH_MENTIONING
            && let Some(first) = by_text.insert(&file.text, file)
        {
            let message =
                format!("{} repeats {} word for word", file.path.display(), first.path.display());
            found.push((file.path.clone(), message));
        }
    }
    for file in &agent.loaded {
        let Some(same) = by_file.get(file.real_path.as_os_str()).filter(|same| same.len() > 1)
        else {
            continue;
        };
        if std::ptr::eq(same[0], file) {
            let message = format!("{} arrives {} times", file.path.display(), same.len());
            found.push((file.path.clone(), message));
        }
    }
    for (path, message) in found {
        agent.warn(diagnostics::TEXT_TWICE, &path, message);
    }
}
