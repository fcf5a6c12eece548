//! A conformance suite for implementations of [`Store`].
//!
//! Panics with the requirement that does not hold. The store may contain other sessions. Sessions of the suite
//! are not removed.

mod listing;
mod log;
mod requests;
mod rows;
pub mod shown;
mod threads;
mod windows;

use convoke_core::NewMessage;
use convoke_protocol::content::{Content, ContentHash};
use convoke_protocol::id::{EventNumber, MessageNumber, Millis, SessionId, TurnId};
use convoke_protocol::message::Message;
use convoke_session::store::INBOX_LIMIT;
use convoke_session::store::{Holder, Store, StoreError};

pub use self::requests::request;
pub use self::rows::{
    AT, Log, attempt, ended, message, new_session, noted, queued, replied, said, started,
    timed_out, turn, wrote,
};

/// Checks a store.
pub async fn check(store: &impl Store) -> Result<(), StoreError> {
    sessions_are_created_once(store).await?;
    a_commit_is_whole_or_nothing(store).await?;
    log::tables_follow_from_events(store).await?;
    an_inbox_is_emptied_by_the_commit_of_each_message(store).await?;
    texts_come_back_to_the_byte(store).await?;
    of_two_writers_one_is_refused(store).await?;
    rows_are_read_in_pages(store).await?;
    windows::are_those_of_the_context_manager(store).await?;
    threads::are_kept_with_their_session(store).await?;
    requests::are_kept_to_the_byte(store).await?;
    a_session_is_held_by_one(store).await?;
    listing::removed_sessions_can_be_restored(store).await?;
    listing::sessions_are_renamed(store).await?;
    listing::words_are_found(store).await?;
    listing::costs_are_summed(store).await?;
    removing_leaves_what_others_have(store).await
}

async fn sessions_are_created_once(store: &impl Store) -> Result<(), StoreError> {
    let new = new_session();
    let unknown = store.session(new.id).await;
    assert!(matches!(unknown, Err(StoreError::NoSession(_))), "an unknown session is refused");
    store.create(new.clone()).await?;
    let stored = store.session(new.id).await?;
    assert_eq!(stored.began, new, "a session is what it was created with");
    assert_eq!(stored.head, EventNumber(1), "the first event of a session is its creation");
    assert_eq!(stored.state.task, new.task, "a new session has the task that it was created with");
    let again = store.create(new.clone()).await;
    assert!(matches!(again, Err(StoreError::SessionExists(_))), "a session is created once");
    let listed = store.sessions().await?;
    let found = listed.iter().find(|summary| summary.id == new.id);
    assert!(found.is_some_and(|summary| summary.messages == 0), "a session is listed");
    let nobody = store.commit(SessionId::generate(), Log::of(&new).commit([noted()])).await;
    assert!(matches!(nobody, Err(StoreError::NoSession(_))), "an unknown session gets no commit");
    Ok(())
}

async fn an_inbox_is_emptied_by_the_commit_of_each_message(
    store: &impl Store,
) -> Result<(), StoreError> {
    let new = new_session();
    let says = |text: &str| NewMessage::from_person("kailai", text).to(["max"]);
    let nowhere = store.say(new.id, &says("x")).await;
    assert!(matches!(nowhere, Err(StoreError::NoSession(_))), "an unknown session has no inbox");
    store.create(new.clone()).await?;
    for number in 0..INBOX_LIMIT {
        store.say(new.id, &says(&format!("{number} \0"))).await?;
    }
    let full = store.say(new.id, &says("x")).await;
    assert!(matches!(full, Err(StoreError::InboxFull { .. })), "an inbox has a limit");
    let inbox = store.arrived(new.id).await?;
    assert_eq!(inbox[1].1, says("1 \0"), "a message is what was said, and they are in order");
    assert!(inbox.windows(2).all(|pair| pair[0].0 < pair[1].0), "numbers grow");

    let mut log = Log::of(&new);
    let mut taking = log.commit([said(message(1, None, "kailai", &["max"], "0 \0"))]);
    taking.taken = Some(inbox[0].0);
    log.store(store, taking).await?;
    assert_eq!(store.arrived(new.id).await?, inbox[1..], "a commit takes its message");
    let mut taking = log.commit([said(message(2, None, "kailai", &["max"], "0 \0"))]);
    taking.taken = Some(inbox[0].0);
    let again = store.commit(new.id, taking).await;
    assert!(matches!(again, Err(StoreError::Recorded { .. })), "a message is taken once");
    store.say(new.id, &says("last")).await?;
    let after = store.arrived(new.id).await?;
    assert!(after.last().is_some_and(|(_, last)| *last == says("last")), "there is room again");
    store.remove(new.id).await?;
    assert!(store.arrived(new.id).await?.is_empty(), "an inbox goes with its session");
    Ok(())
}

async fn a_commit_is_whole_or_nothing(store: &impl Store) -> Result<(), StoreError> {
    let new = new_session();
    let mut log = Log::create(store, &new).await?;
    let first = message(1, None, "kailai", &["max"], "hello");
    let begun = log.clone();
    log.add(store, [said(first.clone()), queued(1, 1)]).await?;
    let stored = store.session(new.id).await?;
    assert_eq!(stored.head, EventNumber(3), "a commit moves the head by its events");
    assert_eq!((stored.head, &stored.state), (log.head, &log.state), "a commit sets the state");
    assert_eq!(store.open_turns(new.id).await?, [turn(1, 1)], "a queued turn is found");

    for (stale, why) in
        [(begun, "an old"), (Log { head: log.head.next(), ..log.clone() }, "a later")]
    {
        let late = said(message(2, None, "kailai", &[], "too late"));
        let refused = store.commit(new.id, stale.commit([late])).await;
        assert!(matches!(refused, Err(StoreError::Conflict { .. })), "{why} head is refused");
    }

    let twice = [
        queued(2, 1),
        said(message(2, Some(1), "max", &[], "new")),
        said(message(1, None, "kailai", &[], "hello again")),
    ];
    let refused = store.commit(new.id, log.commit(twice)).await;
    assert!(matches!(refused, Err(StoreError::Recorded { .. })), "no message is recorded twice");
    assert_eq!(store.session(new.id).await?, stored, "a refused commit changes no state");
    assert_eq!(store.open_turns(new.id).await?.len(), 1, "a refused commit adds no turn");
    let messages = store.messages_after(new.id, MessageNumber(0), 9).await?;
    assert_eq!(messages, [first], "a refused commit adds no message");
    let events = store.events(new.id, EventNumber(0), 9).await?;
    assert_eq!(events.len(), 3, "a refused commit adds no event");
    let missing = store.message(new.id, MessageNumber(2)).await;
    assert!(matches!(missing, Err(StoreError::NoMessage { .. })), "a missing message is refused");
    Ok(())
}

async fn texts_come_back_to_the_byte(store: &impl Store) -> Result<(), StoreError> {
    let new = new_session();
    let mut log = Log::create(store, &new).await?;
    let texts = ["", "a", "\u{FEFF}\0 \r\n\u{2028}é漢🦀", &"long 🦀 ".repeat(200_000)];
    let numbered = (1..).zip(texts);
    let mut messages: Vec<Message> =
        numbered.map(|(n, text)| message(n, None, "max", &["all"], text)).collect();
    messages.push(message(5, None, "max", &[], "two [NEXT: kailai] words"));
    messages.push(message(6, None, "max", &[], "[NEXT: kailai]"));
    let mut step = log.commit(messages.iter().cloned().map(said));
    step.contents = texts.map(Content::new).to_vec();
    step.contents.extend(texts.map(Content::new));
    log.store(store, step).await?;
    for text in texts {
        let content = store.content(ContentHash::new(text)).await?;
        assert_eq!(content, text, "a content comes back to the byte");
    }
    let stored = store.messages_after(new.id, MessageNumber(0), 9).await?;
    assert_eq!(stored, messages, "a message comes back to the byte");
    let missing = store.content(ContentHash::new("never stored")).await;
    assert!(matches!(missing, Err(StoreError::NoContent(_))), "a missing content is refused");
    Ok(())
}

async fn of_two_writers_one_is_refused(store: &impl Store) -> Result<(), StoreError> {
    let new = new_session();
    let log = Log::create(store, &new).await?;
    let write = |text: &'static str| {
        let step = log.commit([said(message(1, None, text, &[], text))]);
        store.commit(new.id, step)
    };
    let (a, b, c) = tokio::join!(write("a"), write("b"), write("c"));
    let won = [a, b, c].into_iter().flatten().count();
    assert_eq!(won, 1, "of several writers on one head, one succeeds");
    Ok(())
}

async fn rows_are_read_in_pages(store: &impl Store) -> Result<(), StoreError> {
    let new = new_session();
    let mut log = Log::create(store, &new).await?;
    let messages = (1..=7).map(|n| said(message(n, None, "max", &[], "text")));
    log.add(store, messages.chain((1..=7).map(|n| queued(n, 1)))).await?;
    let messages = store.messages_after(new.id, MessageNumber(2), 3).await?;
    let numbers: Vec<u64> = messages.iter().map(|message| message.number.0).collect();
    assert_eq!(numbers, [3, 4, 5], "messages are read in pages");
    let turns = store.turns_after(new.id, TurnId(5), 9).await?;
    let numbers: Vec<u64> = turns.iter().map(|turn| turn.id.0).collect();
    assert_eq!(numbers, [6, 7], "turns are read in pages");
    Ok(())
}

async fn a_session_is_held_by_one(store: &impl Store) -> Result<(), StoreError> {
    let new = new_session();
    store.create(new.clone()).await?;
    let first = Holder { pid: 7, host: "here".to_owned(), since: Millis(42) };
    let hold = store.hold(new.id, first.clone()).await?;
    let second = Holder { pid: 8, host: "there".to_owned(), since: Millis(43) };
    let refused = store.hold(new.id, second.clone()).await.err();
    let told = match refused {
        Some(StoreError::Held { holder, .. }) => Some(holder),
        _ => None,
    };
    assert_eq!(
        told,
        Some(first),
        "one process holds a session, and the error for a second one names the holder"
    );
    let removed = store.remove(new.id).await;
    assert!(matches!(removed, Err(StoreError::Held { .. })), "a held session is not removed");
    drop(hold);
    drop(store.hold(new.id, second).await?);
    Ok(())
}

async fn removing_leaves_what_others_have(store: &impl Store) -> Result<(), StoreError> {
    let (one, two) = (new_session(), new_session());
    let shared = Content::new(format!("shared by {}", one.id));
    let own = Content::new(format!("of {} alone", one.id));
    for (session, contents) in
        [(&one, vec![shared.clone(), own.clone()]), (&two, vec![shared.clone()])]
    {
        let mut log = Log::create(store, session).await?;
        let mut step = log.commit([said(message(1, None, "max", &[], "text"))]);
        step.contents = contents;
        log.store(store, step).await?;
    }
    store.remove(one.id).await?;
    let gone = store.session(one.id).await;
    assert!(matches!(gone, Err(StoreError::NoSession(_))), "a removed session is gone");
    let gone = store.content(own.reference().hash).await;
    assert!(
        matches!(gone, Err(StoreError::NoContent(_))),
        "contents that only this session had are removed"
    );
    let events = async |session| store.events(session, EventNumber(0), 9).await;
    assert_eq!(events(one.id).await?, [], "the log is removed");
    assert_eq!(events(two.id).await?.len(), 2, "the logs of other sessions stay");
    assert_eq!(store.content(shared.reference().hash).await?, shared.text(), "the rest stays");
    assert!(store.message(two.id, MessageNumber(1)).await.is_ok(), "other sessions stay");
    let again = store.remove(one.id).await;
    assert!(matches!(again, Err(StoreError::NoSession(_))), "a session is removed once");
    Ok(())
}
