//! Looks up sessions by what the user types.

use std::collections::HashMap;

use anyhow::Context as _;
use convoke_inspect::HostEnvironment;
use convoke_session::{MemberName, SessionId, SqliteStore, Store, TurnId, TurnState};

use super::home::Home;
use crate::outcome::UsageError;

/// The number of turns per read.
const PAGE: usize = 256;

/// Opens the user's store.
pub async fn open_store(host_environment: &HostEnvironment) -> anyhow::Result<SqliteStore> {
    let home = Home::of(host_environment);
    SqliteStore::open(&home.data).await.context("cannot open the sessions")
}

/// Finds a session by its id, the beginning or end of it, or `last`: the most recently changed.
pub async fn find(store: &impl Store, written: &str) -> anyhow::Result<SessionId> {
    let sessions = store.sessions().await?;
    if written == "last"
        && let Some(newest) = sessions.first()
    {
        return Ok(newest.id);
    }
    let mut found = sessions.iter().filter(|session| session.id.is_abbreviated_by(written));
    match (found.next(), found.count()) {
        (Some(only), 0) => Ok(only.id),
        (Some(_), more) => Err(UsageError(format!(
            "`{written}` matches {} sessions; give more of the id",
            more + 1
        ))
        .into()),
        (None, _) => Err(UsageError(format!(
            "no session `{written}`; `convoke sessions list` shows all sessions"
        ))
        .into()),
    }
}

/// Counts the turns that each member has done.
pub async fn turns_done(
    store: &impl Store,
    session: SessionId,
) -> anyhow::Result<HashMap<MemberName, usize>> {
    let mut done = HashMap::new();
    let mut after = TurnId::default();
    loop {
        let turns = store.turns_after(session, after, PAGE).await?;
        let Some(last) = turns.last() else { return Ok(done) };
        after = last.id;
        for turn in turns.into_iter().filter(|turn| turn.state == TurnState::Done) {
            *done.entry(turn.member).or_insert(0) += 1;
        }
    }
}
