//! The tokens of Convoke's own sessions.

use std::collections::HashSet;

use convoke_open::prices::{Charged, OwnPrices, cost};
use convoke_open::usage::Counted;
use convoke_protocol::session::Summary;
use convoke_protocol::turn::{Attempt, AttemptResult};
use convoke_session::rows::each_turn;
use convoke_session::{AnyStore, Store as _};
use convoke_source::FoundSession;

use crate::commands::sessions::list::OWN;
use crate::conversation::store::open_store_for_reading;
use crate::host_environment;

/// Convoke's own sessions.
#[derive(Debug, Default)]
pub(super) struct OwnSessions {
    pub(super) sessions: Vec<OwnSession>,
}

/// One of Convoke's own sessions.
#[derive(Debug)]
pub(super) struct OwnSession {
    pub(super) directory: Option<String>,
    pub(super) counted: Vec<Counted>,
}

/// Reads the tokens of Convoke's own sessions. Those of an agent whose own session is among those that were found are counted
/// there. Rehearsals cost nothing.
pub(super) fn read(others: &[FoundSession], prices: &OwnPrices) -> anyhow::Result<OwnSessions> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let others: HashSet<&str> = others.iter().map(|session| &*session.id).collect();
    runtime.block_on(async {
        let store = open_store_for_reading(&host_environment::of_process()?).await?;
        let mut found = OwnSessions::default();
        for session in store.sessions().await? {
            if session.rehearsal.is_none() {
                found.sessions.push(read_one(&store, &session, &others, prices).await?);
            }
        }
        store.close().await;
        Ok(found)
    })
}

async fn read_one(
    store: &AnyStore,
    session: &Summary,
    others: &HashSet<&str>,
    prices: &OwnPrices,
) -> anyhow::Result<OwnSession> {
    let mut turns = Vec::new();
    each_turn(store, session.id, |turn| {
        turns.push(turn.id);
        anyhow::Ok(())
    })
    .await?;
    let name = session.id.to_string();
    let mut counted = Vec::new();
    for turn in turns {
        let attempts = store.attempts(session.id, turn).await?;
        let ended = attempts.into_iter().filter_map(|Attempt { ended, .. }| ended);
        let is_counted_there = |ended: &AttemptResult| {
            ended.resume.as_ref().is_some_and(|handle| others.contains(&*handle.session))
        };
        for ended in ended.filter(|ended| !is_counted_there(ended)) {
            counted.extend(count(&ended, &name, &session.directory, prices));
        }
    }
    Ok(OwnSession { directory: Some(session.directory.clone()), counted })
}

/// Counts an attempt: its requests are known by their sum only.
fn count(
    ended: &AttemptResult,
    session: &str,
    directory: &str,
    prices: &OwnPrices,
) -> Option<Counted> {
    let usage = ended.usage?;
    let charged = Charged {
        provider: None,
        model: ended.model.as_deref().unwrap_or_default(),
        usage,
        cache_write_hour: 0,
        tier: None,
        at: Some(ended.at),
    };
    Some(Counted {
        agent: OWN,
        session: session.into(),
        project: Some(directory.into()),
        model: ended.model.as_deref().map(Into::into),
        answer: None,
        at: Some(ended.at),
        usage,
        cost: cost(&charged, prices).or(ended.cost_usd),
    })
}
