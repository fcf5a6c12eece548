//! `convoke sessions keep` and `forget`: copies of other programs' sessions.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use clap::Args;
use convoke_inspect::HostEnvironment;
use convoke_open::Catalog;
use convoke_open::archive::{Archive, Keeping, KeptSession};
use convoke_open::index::Index;
use convoke_source::FoundSession;
use rustix::fs::{FlockOperation, flock};
use serde_json::json;

use super::{bad_name, write_json};
use crate::figures::{count, number};
use crate::host_environment;
use crate::other_programs::{
    HomeArgument, archive, index_path, redactor, short_name, with_catalog,
};
use crate::outcome::{Outcome, UsageError};
use crate::terminal::{printable, stderr, stdout};

/// The time between two looks at the files.
const INTERVAL: Duration = Duration::from_secs(5);

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  convoke sessions keep claude:3f2a
  convoke sessions keep --all            # from cron
  convoke sessions keep --all --watch    # until Ctrl-C; a second one ends at once
  convoke sessions keep --restore ./back claude:3f2a")]
pub(super) struct Keep {
    /// The sessions: `program:id`, or the paths of their files
    #[arg(value_name = "NAME", required_unless_present_any = ["all", "list"])]
    names: Vec<String>,
    /// Copy every session of every program, but for those that were forgotten
    #[arg(long, conflicts_with_all = ["names", "list", "restore"])]
    all: bool,
    /// Go on, and copy what changes
    #[arg(long, requires = "all")]
    watch: bool,
    /// List the copies
    #[arg(long, conflicts_with_all = ["names", "restore"])]
    list: bool,
    /// Write the files of copied sessions into this directory
    #[arg(long, value_name = "DIR")]
    restore: Option<PathBuf>,
    /// Write JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(super) struct Forget {
    /// The sessions: `program:id`
    #[arg(value_name = "NAME", required_unless_present = "all")]
    names: Vec<String>,
    /// Remove the whole index and every copy
    #[arg(long, conflicts_with = "names")]
    all: bool,
    /// Write JSON
    #[arg(long)]
    json: bool,
}

/// What a round of copying did.
#[derive(Debug, Default)]
struct Round {
    copied: u64,
    unchanged: u64,
    problems: Vec<String>,
}

pub(super) fn keep(arguments: &Keep) -> anyhow::Result<Outcome> {
    let host = host_environment::of_process()?;
    let archive = archive(&host);
    if arguments.list {
        return list(&archive, arguments.json);
    }
    if let Some(directory) = &arguments.restore {
        return restore(&archive, &arguments.names, directory);
    }
    if !arguments.watch {
        let round = keep_round(arguments, &archive, &host)?;
        return tell(&round, arguments.json);
    }
    let Some(_lock) = watch_lock(&host.private_directories()[1])? else {
        writeln!(stderr(), "another `convoke sessions keep --all --watch` is running")?;
        return Ok(Outcome::Done);
    };
    loop {
        let round = keep_round(arguments, &archive, &host)?;
        if round.copied > 0 || !round.problems.is_empty() {
            tell(&round, arguments.json)?;
        }
        thread::sleep(INTERVAL);
    }
}

/// Returns the right to watch, which one process has at a time.
fn watch_lock(data: &Path) -> anyhow::Result<Option<fs::File>> {
    fs::create_dir_all(data)?;
    let mut options = fs::OpenOptions::new();
    let file = options.create(true).truncate(false).write(true).open(data.join("keep.lock"))?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(file)),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn keep_round(
    arguments: &Keep,
    archive: &Archive,
    host: &HostEnvironment,
) -> anyhow::Result<Round> {
    let mut round = Round::default();
    let index = index_path(host);
    // Only the index knows what was forgotten.
    let mut index = index.exists().then(|| Index::open(&index, redactor(host))).transpose()?;
    with_catalog(&HomeArgument::default(), |catalog| {
        let sessions = if arguments.all {
            let found = catalog.list();
            round.problems = found.problems.iter().map(described).collect();
            found.sessions
        } else {
            let names = arguments.names.iter();
            names.map(|name| catalog.find(name).map_err(bad_name)).collect::<Result<_, _>>()?
        };
        for session in sessions.iter().filter(|session| session.path.exists()) {
            if let Some(index) = &mut index {
                if arguments.all && index.is_forgotten(session)? {
                    continue;
                }
                index.remember(session)?;
            }
            match archive.keep(session) {
                Ok(Keeping::Copied) => round.copied += 1,
                Ok(Keeping::Unchanged) => round.unchanged += 1,
                Err(problem) => {
                    round.problems.push(format!(
                        "{}: {}",
                        short_name(session),
                        described(&problem)
                    ));
                }
            }
        }
        Ok(())
    })?;
    Ok(round)
}

fn tell(round: &Round, is_json: bool) -> anyhow::Result<Outcome> {
    let Round { copied, unchanged, problems } = round;
    if is_json {
        write_json(&json!({ "copied": copied, "unchanged": unchanged, "problems": problems }))?;
    } else {
        let copied = count(*copied, "session");
        writeln!(stdout(), "{copied} copied, {} unchanged", number(*unchanged))?;
    }
    for problem in problems {
        writeln!(stderr(), "{}", printable(problem))?;
    }
    Ok(if problems.is_empty() { Outcome::Done } else { Outcome::Failed })
}

fn list(archive: &Archive, is_json: bool) -> anyhow::Result<Outcome> {
    let kept = archive.list()?;
    if is_json {
        write_json(&json!({ "sessions": kept }))?;
        return Ok(Outcome::Done);
    }
    let mut out = stdout();
    for session in &kept {
        let KeptSession { program, id, bytes, path, .. } = session;
        let gone = if path.exists() { "" } else { "  (only here)" };
        let line = format!("{program}:{id}  {} bytes  {}{gone}", number(*bytes), path.display());
        writeln!(out, "{}", printable(&line))?;
    }
    if kept.is_empty() {
        writeln!(out, "No sessions are kept; `convoke sessions keep --all` copies them.")?;
    }
    Ok(Outcome::Done)
}

fn restore(archive: &Archive, names: &[String], directory: &Path) -> anyhow::Result<Outcome> {
    let kept = archive.list()?;
    for name in names {
        let is_named = |it: &&KeptSession| {
            format!("{}:{}", it.program, it.id).starts_with(name) || Path::new(name) == it.path
        };
        let found: Vec<_> = kept.iter().filter(is_named).collect();
        let [session] = found[..] else {
            let problem = format!("{} of the kept sessions are called `{name}`", found.len());
            return Err(UsageError(problem).into());
        };
        for file in archive.restore(session, directory)? {
            writeln!(stdout(), "{}", printable(&file.to_string_lossy()))?;
        }
    }
    Ok(Outcome::Done)
}

pub(super) fn forget(arguments: &Forget) -> anyhow::Result<Outcome> {
    let host = host_environment::of_process()?;
    let archive = archive(&host);
    if arguments.all {
        let [_, data] = host.private_directories();
        for directory in [data.join("kept"), data.join("index")] {
            match fs::remove_dir_all(&directory) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(error.into());
                }
                _ => {}
            }
        }
        return forgotten(None, arguments.json);
    }
    let mut index = Index::open(&index_path(&host), redactor(&host))?;
    let mut removed = 0;
    with_catalog(&HomeArgument::default(), |catalog| {
        // All names are looked up first: a wrong one removes nothing.
        let sessions = arguments.names.iter().map(|name| find(catalog, name));
        for session in sessions.collect::<Result<Vec<_>, _>>()? {
            let was_indexed = index.forget(&session)?;
            let was_kept = archive.forget(&session)?;
            removed += u64::from(was_indexed || was_kept);
        }
        Ok(())
    })?;
    forgotten(Some(removed), arguments.json)
}

fn find(catalog: &Catalog<'_>, name: &str) -> anyhow::Result<FoundSession> {
    catalog.find(name).map_err(bad_name)
}

fn forgotten(removed: Option<u64>, is_json: bool) -> anyhow::Result<Outcome> {
    if is_json {
        write_json(&json!({ "forgotten": removed }))?;
        return Ok(Outcome::Done);
    }
    let what = removed.map_or_else(
        || "The index and every copy were removed".to_owned(),
        |removed| format!("{} removed from the index and the copies", count(removed, "session")),
    );
    writeln!(stdout(), "{what}. The programs' own files are as they were.")?;
    Ok(Outcome::Done)
}

fn described(problem: &(impl std::error::Error + ?Sized)) -> String {
    let reason = problem.source().map_or_else(String::new, |reason| format!(": {reason}"));
    format!("{problem}{reason}")
}
