//! `convoke sessions rm` and `restore`.

use std::io::{BufRead as _, IsTerminal as _, Write as _, stdin};

use clap::Args;
use convoke_protocol::id::SessionId;
use convoke_session::{AnyStore, Store as _};
use serde_json::json;

use super::write_json;
use crate::conversation::change_recorder::changes_of;
use crate::conversation::sessions::{find, one_of};
use crate::figures::{age, count, one_line};
use crate::host_environment;
use crate::outcome::{AfterWork as _, Outcome, UsageError};
use crate::program;
use crate::terminal::{Paint, stderr, stdout};

/// The days for which a removed session can be restored.
const DAYS: i64 = 30;
/// The milliseconds of a day.
const DAY: i64 = 24 * 60 * 60 * 1000;
/// The minimum length of an id on the command line.
const MIN_ID_LENGTH: usize = 4;
/// The columns of a conversation's beginning.
const BEGINNING: usize = 48;

#[derive(Debug, Args)]
pub(super) struct Remove {
    /// The sessions: ids, at least four characters of either end of them, or `last`
    #[arg(value_name = "ID", required = true)]
    ids: Vec<String>,
    /// Remove without asking
    #[arg(long, short)]
    yes: bool,
    /// Delete permanently: `convoke sessions restore` cannot restore them
    #[arg(long)]
    purge: bool,
    /// Write JSON
    #[arg(long)]
    json: bool,
}

pub(super) async fn remove(arguments: &Remove, store: &AnyStore) -> anyhow::Result<Outcome> {
    purge_expired(store).await?;
    // All sessions are looked up first: a wrong id removes nothing.
    let mut sessions = Vec::new();
    for written in &arguments.ids {
        let session = find_to_remove(arguments, store, written).await?;
        if !sessions.contains(&session) {
            sessions.push(session);
        }
    }
    if !arguments.yes && arguments.purge && (arguments.json || !can_ask()) {
        let why =
            "nothing was removed: there is no terminal to ask on; `--yes` deletes permanently";
        return Err(UsageError(why.to_owned()).into());
    }
    if !arguments.yes && !arguments.json && !confirmed(&sessions, arguments.purge, store).await? {
        writeln!(stdout(), "Nothing was removed.")?;
        return Ok(Outcome::Failed);
    }
    for session in &sessions {
        if arguments.purge {
            purge(store, *session).await?;
        } else {
            store.set_removed(*session, Some(store.now())).await?;
        }
    }
    if arguments.json {
        let removed = json!({"removed": sessions, "restorable": !arguments.purge});
        write_json(&removed).after(done("removed", &sessions))?;
        return Ok(Outcome::Done);
    }
    for session in &sessions {
        writeln!(stdout(), "removed session {session}").after(done("removed", &sessions))?;
    }
    if !arguments.purge {
        let restore = sessions.iter().map(SessionId::short).collect::<Vec<_>>().join(" ");
        let store = program::store_option();
        let text =
            format!("`convoke sessions restore {restore}{store}` undoes this within {DAYS} days");
        writeln!(stderr(), "{}", Paint::for_stream(&stderr()).faint(&text))?;
    }
    Ok(Outcome::Done)
}

/// Finds a session to remove. With `--purge` it may be one that is already removed.
async fn find_to_remove(
    arguments: &Remove,
    store: &AnyStore,
    written: &str,
) -> anyhow::Result<SessionId> {
    if written != "last" && written.chars().count() < MIN_ID_LENGTH {
        return Err(UsageError(format!(
            "`{written}` is too short to remove a session; write at least {MIN_ID_LENGTH} characters of its id"
        ))
        .into());
    }
    if arguments.purge {
        let removed = store.removed_sessions().await?;
        let ids = removed.iter().map(|removed| removed.session.id);
        if let Ok(id) = one_of(ids, written, "convoke sessions restore") {
            return Ok(id);
        }
    }
    find(store, written).await
}

fn can_ask() -> bool {
    stdin().is_terminal() && stdout().is_terminal()
}

/// Shows the sessions and asks for confirmation on a terminal. Without a terminal nothing is asked: a removed session can
/// be restored.
async fn confirmed(sessions: &[SessionId], purge: bool, store: &AnyStore) -> anyhow::Result<bool> {
    if !can_ask() {
        return Ok(true);
    }
    let mut out = stdout();
    let known = store.sessions().await?;
    for session in known.iter().filter(|known| sessions.contains(&known.id)) {
        let beginning = one_line(session.beginning.as_deref().unwrap_or_default(), BEGINNING);
        writeln!(out, "{}  {}  {beginning}", session.id.short(), session.directory)?;
    }
    let how = if purge { "Delete permanently" } else { "Remove" };
    write!(out, "{how}? [y/N] ")?;
    out.flush()?;
    let mut answer = String::new();
    stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

#[derive(Debug, Args)]
pub(super) struct Restore {
    /// The removed sessions: ids, or either end of them; without one, the removed sessions are listed
    #[arg(value_name = "ID")]
    ids: Vec<String>,
    /// Write JSON
    #[arg(long)]
    json: bool,
}

pub(super) async fn restore(arguments: &Restore, store: &AnyStore) -> anyhow::Result<Outcome> {
    purge_expired(store).await?;
    let removed = store.removed_sessions().await?;
    if arguments.ids.is_empty() {
        if arguments.json {
            write_json(&json!({"removed": removed}))?;
            return Ok(Outcome::Done);
        }
        let mut out = stdout();
        if removed.is_empty() {
            writeln!(out, "No session was removed in the last {DAYS} days.")?;
        }
        for removed in &removed {
            let session = &removed.session;
            let beginning = one_line(session.beginning.as_deref().unwrap_or_default(), BEGINNING);
            let age = age(store.now().since(removed.removed_at));
            writeln!(
                out,
                "{}  removed {age}  {}  {beginning}",
                session.id.short(),
                session.directory
            )?;
        }
        return Ok(Outcome::Done);
    }
    let mut sessions = Vec::new();
    for written in &arguments.ids {
        let ids = removed.iter().map(|removed| removed.session.id);
        sessions.push(one_of(ids, written, "convoke sessions restore")?);
    }
    for session in &sessions {
        store.set_removed(*session, None).await?;
    }
    if arguments.json {
        write_json(&json!({"restored": sessions})).after(done("restored", &sessions))?;
    } else {
        for session in &sessions {
            writeln!(stdout(), "restored session {session}").after(done("restored", &sessions))?;
        }
    }
    Ok(Outcome::Done)
}

/// Says what was done to sessions.
fn done(verb: &str, sessions: &[SessionId]) -> String {
    format!("{} {verb}", count(sessions.len() as u64, "session"))
}

/// Deletes the sessions that were removed too long ago to be restored.
async fn purge_expired(store: &AnyStore) -> anyhow::Result<()> {
    let now = store.now();
    for removed in store.removed_sessions().await? {
        if now.since(removed.removed_at) > DAYS * DAY {
            purge(store, removed.session.id).await?;
        }
    }
    Ok(())
}

/// Deletes a session and the recorded changes of its turns.
async fn purge(store: &AnyStore, session: SessionId) -> anyhow::Result<()> {
    store.remove(session).await?;
    Ok(changes_of(&host_environment::of_process()?).remove(&session.to_string())?)
}
