//! Which instruction files Claude Code, Gemini CLI and Codex load in a directory, in which order, how
//! much of them, and why the others are left out.
//!
//! ```
//! use convoke_explain::{Edition, Session, explain};
//! use convoke_files::MemoryTree;
//!
//! let mut tree = MemoryTree::default();
//! tree.create_directory("/repo/.git");
//! tree.write("/repo/AGENTS.md", "Use tabs.");
//! let session = Session::new("/repo", "/home/me");
//! let report = explain(&tree, &session, &[Edition::Claude197, Edition::Codex0166]);
//! assert!(report.agents[0].loaded.is_empty());
//! assert_eq!(report.agents[0].diagnostics[0].code.name(), "names.unread");
//! assert_eq!(report.agents[1].loaded[0].bytes_loaded, 9);
//! ```
//!
//! The rules were measured on the real programs. The library only reads files, through [`Files`]: the same files and
//! session give the same report.

mod claude;
mod codex;
mod config;
pub mod diagnostics;
mod edition;
mod gemini;
mod glob;
mod place;
mod report;
mod session;
mod skills;
mod survey;
mod text;
mod traps;

use std::collections::BTreeSet;
use std::path::PathBuf;

use convoke_files::Files;
use convoke_files::limit::TooManyEntries;

pub use edition::{Edition, UnknownEdition};
pub use report::{AgentReport, DirectoryReport, Ignored, Limit, LoadReason, Loaded, Rule};
pub use session::{Session, VARIABLES};
pub use skills::{BudgetUnit, OmittedSkill, Skill, SkillRule, SkillSource, SkillsBudget};

use place::Listed;
use skills::Unsearched;
use survey::Survey;

/// The version of the report's format.
const FORMAT: u32 = 1;

/// Finds what each edition loads in the session's directory.
///
/// Costs one listing for each directory up to the root of the file system and for at most 128 below the
/// working directory, and the reading of the files that are found.
pub fn explain(
    files: &(dyn Files + Sync),
    session: &Session,
    editions: &[Edition],
) -> DirectoryReport {
    let mut session = session.clone();
    if let Ok(physical) = files.canonicalize(&session.cwd) {
        session.cwd = physical;
    }
    if let Ok(physical) = files.canonicalize(&session.home) {
        session.home = physical;
    }
    let chain = place::chain(&session.cwd);
    let directories = chain.iter().chain([&session.home]);
    let listed = Listed::new(files, directories.map(PathBuf::as_path));

    let survey = Survey::new(&listed, &session, &chain);
    let has_many_skills = skills::look_ahead(&listed, &chain, &session.home);
    let (mut agents, unlisted): (Vec<AgentReport>, Vec<_>) = if has_many_skills {
        explain_at_once(&listed, &session, editions).into_iter().unzip()
    } else {
        let one = |edition: &Edition| explain_one(listed.for_agent(), &session, *edition);
        editions.iter().map(one).unzip()
    };
    let unsearched = Unsearched::new(&listed, &chain, &session.home);
    for (report, unlisted) in agents.iter_mut().zip(&unlisted) {
        survey.account(&session, report);
        let places = unsearched.account(report);
        skills::report(report, &places);
        report_unlisted(report, unlisted);
    }
    traps::report(&listed, &session, &survey, &mut agents);
    let repository = place::git_root(&listed, &session.cwd);
    DirectoryReport { version: FORMAT, cwd: session.cwd, repository, agents }
}

/// Explains each edition in a thread of its own; the first in this one.
fn explain_at_once(listed: &Listed<'_>, session: &Session, editions: &[Edition]) -> Vec<Explained> {
    std::thread::scope(|scope| {
        let start = |edition: &Edition| {
            let (files, edition) = (listed.for_agent(), *edition);
            let explain = move || explain_one(files, session, edition);
            (edition, std::thread::Builder::new().spawn_scoped(scope, explain))
        };
        let (first, others) = editions.split_at(editions.len().min(1));
        let others: Vec<_> = others.iter().map(start).collect();
        let here = |edition: &Edition| explain_one(listed.for_agent(), session, *edition);
        let mut explained: Vec<Explained> = first.iter().map(here).collect();
        explained.extend(others.into_iter().map(|(edition, thread)| match thread {
            Ok(thread) => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            // The system has no thread to spare.
            Err(_) => here(&edition),
        }));
        explained
    })
}

/// Reports the directories that have too many entries to be listed, unless the agent's rules did.
fn report_unlisted(report: &mut AgentReport, directories: &BTreeSet<PathBuf>) {
    for directory in directories {
        let path = directory.to_string_lossy();
        if report.diagnostics.iter().any(|it| it.path.as_deref() == Some(&*path)) {
            continue;
        }
        let message = format!("what {path} holds is left out: {TooManyEntries}");
        report.warn(convoke_core::diagnostics::FILE_UNREADABLE, directory, message);
    }
}

/// The report of an agent, and the directories that have too many entries to be listed.
type Explained = (AgentReport, BTreeSet<PathBuf>);

fn explain_one(files: Listed<'_>, session: &Session, edition: Edition) -> Explained {
    let report = match edition {
        Edition::Claude197 | Edition::Claude325 => claude::explain(&files, session, edition),
        Edition::Gemini => gemini::explain(&files, session),
        Edition::Codex098 | Edition::Codex0166 => codex::explain(&files, session, edition),
    };
    (report, files.into_unlisted())
}

#[cfg(test)]
mod tests {
    use convoke_files::MemoryTree;
    use convoke_files::limit::MAX_ENTRIES;

    use super::*;

    #[test]
    fn agents_that_are_explained_at_once_are_explained_as_alone() {
        let mut tree = MemoryTree::default();
        tree.create_directory("/r/.git");
        tree.write("/h/.gemini/trustedFolders.json", r#"{"/r": "TRUST_FOLDER"}"#);
        for number in 0..100 {
            for place in [".agents", ".claude", ".gemini"] {
                let text = format!("---\nname: s{number}\ndescription: {number}, {place}\n---\n");
                tree.write(format!("/r/{place}/skills/s{number}/SKILL.md"), text);
            }
        }
        let session = Session::new("/r", "/h");
        let at_once = explain(&tree, &session, &Edition::ALL);
        for (edition, report) in Edition::ALL.iter().zip(&at_once.agents) {
            let alone = explain(&tree, &session, &[*edition]).agents.remove(0);
            assert!(alone.skills.len() > 99, "{edition:?}: {}", alone.skills.len());
            assert_eq!(serde_json::json!(alone.skills), serde_json::json!(report.skills));
        }
    }

    #[test]
    fn a_directory_with_too_many_entries_is_reported_by_the_agents_that_search_it() {
        for (directory, readers) in [
            ("/h/.gemini/extensions", &[Edition::Gemini][..]),
            ("/h/.gemini/tmp", &[Edition::Gemini]),
            ("/h/.gemini/skills", &[Edition::Gemini]),
            ("/r/.agents/skills", &[Edition::Gemini, Edition::Codex0166]),
            ("/r/.claude/skills", &[Edition::Claude325]),
            ("/r/.claude/commands", &[Edition::Claude325]),
            ("/r/.claude/rules", &[Edition::Claude325]),
        ] {
            let mut tree = MemoryTree::default();
            tree.create_directory("/r/.git");
            for number in 0..=MAX_ENTRIES {
                tree.write(format!("{directory}/{number}"), "");
            }
            let editions = [Edition::Gemini, Edition::Claude325, Edition::Codex0166];
            let report = explain(&tree, &Session::new("/r", "/h"), &editions);
            for agent in &report.agents {
                let told = agent
                    .diagnostics
                    .iter()
                    .filter(|it| it.message.contains("more than 100000 entries"));
                let expected = usize::from(readers.contains(&agent.edition));
                assert_eq!(told.count(), expected, "{directory}: {:?}", agent.diagnostics);
            }
        }
    }
}
