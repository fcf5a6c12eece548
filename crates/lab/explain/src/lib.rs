//! Which instruction files an agent loads in a directory, in which order, how much of them, and why the others are left
//! out: the report, what the rules of all agents have in common, and the traps that no single agent's rules show.
//!
//! The rules of an agent are [`LoadingRules`], which its vendor gives.
//!
//! The rules were measured on the real programs. The library only reads files, through [`Files`]: the same files and
//! session give the same report.
//!
//! # Modules
//!
//! Which instruction files and skills an agent loads in a directory: `explain` applies the `LoadingRules` of each agent, which its
//! vendor gives, and adds the files that are not loaded, with the rule, and problems as diagnostics. `edition` has the rules and the
//! versions on which they were measured. What rules share: `whole` loads files whole, `glob` has their patterns, `skills` what the lists of skills have in
//! common, `front_matter` the fields before a text, `config` reads settings files. `session` is the input besides files,
//! `place` the directories around the working directory. `survey` finds the files of all agents, `traps` what no single
//! agent's rules show, `text` the facts about one file; `report` is the result, `matrix` its files as a table, `fix` the changes
//! of files that remove problems of it. It runs no program.
//!
//! # Invariants
//!
//! - `thread`, `explain` and `agent` do not depend on each other; what they share about Codex is in `convoke-codex`
//!   (`conformance/tests/architecture/dependencies.rs: thread_explain_and_agent_do_not_know_each_other`).

pub mod config;
pub mod diagnostics;
mod edition;
pub mod fix;
pub mod front_matter;
pub mod glob;
pub mod matrix;
pub mod place;
mod report;
mod session;
pub mod skills;
mod survey;
pub mod text;
mod traps;
pub mod whole;

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use convoke_files::Files;
use convoke_files::limit::TooManyEntries;

pub use edition::{Edition, EditionFacts, LoadingRules, UnknownEdition};
pub use report::{AgentReport, DirectoryReport, Ignored, Limit, LoadReason, Loaded, Rule, Search};
pub use session::{Session, switches_on};
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
    let session = physical(files, session);
    let chain = place::chain(&session.cwd);
    let directories = chain.iter().chain([&session.home]);
    let listed = Listed::new(files, directories.map(PathBuf::as_path));
    explain_listed(&listed, session, &chain, editions)
}

/// Finds what each edition loads in several directories of one tree, and returns what `take` makes of each report, in their
/// order. Every directory is listed and every file is read once for all of them.
pub fn explain_each<T: Send>(
    files: &(dyn Files + Sync),
    sessions: &[Session],
    editions: &[Edition],
    take: &(dyn Fn(DirectoryReport) -> T + Sync),
) -> Vec<T> {
    let sessions: Vec<Session> = sessions.iter().map(|it| physical(files, it)).collect();
    let chains: Vec<Vec<PathBuf>> = sessions.iter().map(|it| place::chain(&it.cwd)).collect();
    let homes = sessions.iter().map(|session| &session.home);
    let directories = chains.iter().flatten().chain(homes).map(PathBuf::as_path);
    let listed = Listed::new(files, directories);
    let all: Vec<(Session, Vec<PathBuf>)> = sessions.into_iter().zip(chains).collect();
    let threads = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let part = all.len().div_ceil(threads).max(1);
    let explain_part = |part: &[(Session, Vec<PathBuf>)], listed: &Listed<'_>| -> Vec<T> {
        let one = |(session, chain): &(Session, Vec<PathBuf>)| {
            take(explain_listed(listed, session.clone(), chain, editions))
        };
        part.iter().map(one).collect()
    };
    let explain_part = &explain_part;
    std::thread::scope(|scope| {
        let parts = all.chunks(part).map(|part| {
            let own = listed.for_agent();
            let explain = move || explain_part(part, &own);
            (part, std::thread::Builder::new().spawn_scoped(scope, explain))
        });
        let parts: Vec<_> = parts.collect();
        let explained = parts.into_iter().flat_map(|(part, thread)| match thread {
            Ok(thread) => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            // The system has no thread to spare.
            Err(_) => explain_part(part, &listed),
        });
        explained.collect()
    })
}

/// Returns a session whose directories are free of links.
fn physical(files: &dyn Files, session: &Session) -> Session {
    let mut session = session.clone();
    if let Ok(physical) = files.canonicalize(&session.cwd) {
        session.cwd = physical;
    }
    if let Ok(physical) = files.canonicalize(&session.home) {
        session.home = physical;
    }
    session
}

fn explain_listed(
    listed: &Listed<'_>,
    session: Session,
    chain: &[PathBuf],
    editions: &[Edition],
) -> DirectoryReport {
    let survey = Survey::new(listed, &session, chain);
    let has_many_skills = skills::look_ahead(listed, chain, &session.home);
    let (mut agents, unlisted): (Vec<AgentReport>, Vec<_>) = if has_many_skills {
        explain_at_once(listed, &session, editions).into_iter().unzip()
    } else {
        let one = |edition: &Edition| explain_one(listed.for_agent(), &session, *edition);
        editions.iter().map(one).unzip()
    };
    let unsearched = Unsearched::new(listed, chain, &session.home);
    for (report, unlisted) in agents.iter_mut().zip(&unlisted) {
        survey.account(&session, report);
        let places = unsearched.account(report);
        skills::report(report, &places);
        report_unlisted(report, unlisted);
    }
    traps::report(listed, &session, &survey, &mut agents);
    let repository = place::git_root(listed, &session.cwd);
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
    let report = (edition.rules().explain)(&files, session, edition);
    (report, files.into_unlisted())
}
