//! Renaming, removing, restoring and searching sessions, and their costs.

use convoke_protocol::content::Content;
use convoke_protocol::id::{MemberName, Millis, SessionId};
use convoke_protocol::session::MemberCost;
use convoke_protocol::turn::{AttemptResult, TurnState};
use convoke_protocol::usage::Usage;
use convoke_session::store::{Commit, Holder, Store, StoreError};

use super::rows::{Log, ended, message, new_session, queued, said, started, timed_out};

pub(super) async fn removed_sessions_can_be_restored(store: &impl Store) -> Result<(), StoreError> {
    let new = new_session();
    store.create(new.clone()).await?;
    let is_listed = async || -> Result<bool, StoreError> {
        Ok(store.sessions().await?.iter().any(|summary| summary.id == new.id))
    };
    let hold =
        store.hold(new.id, Holder { pid: 7, host: "here".to_owned(), since: Millis(1) }).await?;
    let refused = store.set_removed(new.id, Some(Millis(9))).await;
    assert!(matches!(refused, Err(StoreError::Held { .. })), "a held session is not removed");
    drop(hold);
    store.set_removed(new.id, Some(Millis(9))).await?;
    assert!(!is_listed().await?, "a removed session is not listed");
    let removed = store.removed_sessions().await?;
    let found = removed.iter().find(|removed| removed.session.id == new.id);
    assert_eq!(found.map(|removed| removed.removed_at), Some(Millis(9)), "it is listed as removed");
    store.set_removed(new.id, None).await?;
    assert!(is_listed().await?, "a restored session is listed");
    let unknown = store.set_removed(SessionId::generate(), None).await;
    assert!(matches!(unknown, Err(StoreError::NoSession(_))), "an unknown session is refused");
    Ok(())
}

pub(super) async fn sessions_are_renamed(store: &impl Store) -> Result<(), StoreError> {
    let new = new_session();
    store.create(new.clone()).await?;
    store.rename(new.id, "another name").await?;
    let name = store.session(new.id).await?.began.name;
    assert_eq!(name.as_deref(), Some("another name"), "a session has its new name");
    let unknown = store.rename(SessionId::generate(), "none").await;
    assert!(matches!(unknown, Err(StoreError::NoSession(_))), "an unknown session is refused");
    Ok(())
}

pub(super) async fn words_are_found(store: &impl Store) -> Result<(), StoreError> {
    let new = new_session();
    let mut log = Log::create(store, &new).await?;
    // Other sessions in the store may contain the same words.
    let own = format!("w{}", &new.id.to_string()[24..]);
    let texts = [
        format!("The Migration of {own} café \"quoted\" NEAR (rank*"),
        format!("Nothing but {own}"),
        format!("{own} 数据库迁移计划"),
    ];
    let numbered = (1..).zip(&texts);
    log.add(store, numbered.map(|(n, text)| said(message(n, None, "max", &[], text)))).await?;
    for (words, expected) in [
        (&["migration"][..], &[1][..]),
        (&["MIGRAT"], &[1]),
        (&["cafe"], &[1]),
        (&["\"quoted"], &[1]),
        (&["NEAR"], &[1]),
        (&["migration", "nothing"], &[]),
        (&["迁移"], &[3]),
        (&[], &[1, 2, 3]),
    ] {
        let words: Vec<String> = words.iter().copied().chain([&*own]).map(str::to_owned).collect();
        let mut found: Vec<u64> = Vec::new();
        for message in store.search(&words, None, 9).await? {
            assert_eq!(message.session, new.id, "{words:?}");
            found.push(message.number.0);
        }
        found.sort_unstable();
        assert_eq!(found, expected, "{words:?}");
    }
    let words = [own.clone()];
    let other = [SessionId::generate()];
    assert!(store.search(&words, Some(&other), 9).await?.is_empty(), "of no other session");
    assert!(store.search(&words, Some(&[]), 9).await?.is_empty(), "of no session");
    let both = [other[0], new.id];
    assert_eq!(store.search(&words, Some(&both), 9).await?.len(), 3, "of the named sessions");
    assert_eq!(store.search(&words, None, 2).await?.len(), 2, "no more than the limit");
    store.set_removed(new.id, Some(Millis(1))).await?;
    assert!(store.search(&words, None, 9).await?.is_empty(), "removed sessions are not searched");
    store.remove(new.id).await?;
    assert!(store.search(&words, None, 9).await?.is_empty(), "deleted sessions are not searched");
    Ok(())
}

pub(super) async fn costs_are_summed(store: &impl Store) -> Result<(), StoreError> {
    let new = new_session();
    let mut log = Log::create(store, &new).await?;
    let contents = ["prompt", "input", "ledger"].map(Content::new);
    let usage = Usage { input: 10, cached: 4, cache_write: 1, output: 3, reasoning: 2 };
    let mut events = Vec::new();
    for turn in 1..=3 {
        events.extend([queued(turn, 1), started(turn, 1, &contents)]);
        if turn < 3 {
            let result = AttemptResult { usage: Some(usage), ..timed_out(&contents[0]) };
            events.push(ended(turn, 1, TurnState::Failed, result));
        }
    }
    let step = Commit { contents: contents.to_vec(), ..log.commit(events) };
    log.store(store, step).await?;
    let costs = store.costs(new.id).await?;
    let expected = MemberCost {
        member: MemberName::from("max"),
        attempts: 3,
        cost_usd: Some(0.5),
        usage: Some(usage.and(usage)),
    };
    assert_eq!(costs, [expected], "the costs of a member's attempts are summed");
    Ok(())
}
