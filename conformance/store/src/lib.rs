//! A conformance suite for implementations of [`Store`].
//!
//! Panics with the requirement that does not hold. The store may contain other sessions. Sessions of the suite
//! are not removed.

mod listing;
mod requests;
mod rows;
mod threads;
mod windows;

use convoke_core::NewMessage;
use convoke_protocol::content::{Content, ContentHash};
use convoke_protocol::id::{EventNumber, MessageNumber, Millis, SessionId, TurnId};
use convoke_protocol::turn::TurnState;
use convoke_session::coordinator::INBOX_LIMIT;
use convoke_session::progress::Progress;
use convoke_session::store::{Holder, Store, StoreError};

pub use self::requests::request;
pub use self::rows::{attempt, commit, message, new_session, turn};

/// Checks a store.
pub async fn check(store: &impl Store) -> Result<(), StoreError> {
    sessions_are_created_once(store).await?;
    a_commit_is_whole_or_nothing(store).await?;
    what_has_ended_is_not_changed(store).await?;
    progress_is_kept_until_the_end(store).await?;
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
    assert_eq!(stored.head, EventNumber(0), "a new session has had no commit");
    assert_eq!(stored.state.task, new.task, "a new session has the task that it was created with");
    let again = store.create(new.clone()).await;
    assert!(matches!(again, Err(StoreError::SessionExists(_))), "a session is created once");
    let listed = store.sessions().await?;
    let found = listed.iter().find(|summary| summary.id == new.id);
    assert!(found.is_some_and(|summary| summary.messages == 0), "a session is listed");
    let nobody = store.commit(SessionId::generate(), commit(EventNumber(0))).await;
    assert!(matches!(nobody, Err(StoreError::NoSession(_))), "an unknown session gets no commit");
    Ok(())
}

async fn an_inbox_is_emptied_by_the_commit_of_each_message(
    store: &impl Store,
) -> Result<(), StoreError> {
    let new = new_session();
    let said = |text: &str| NewMessage::from_person("kailai", text).to(["max"]);
    let nowhere = store.say(new.id, &said("x")).await;
    assert!(matches!(nowhere, Err(StoreError::NoSession(_))), "an unknown session has no inbox");
    store.create(new.clone()).await?;
    for number in 0..INBOX_LIMIT {
        store.say(new.id, &said(&format!("{number} \0"))).await?;
    }
    let full = store.say(new.id, &said("x")).await;
    assert!(matches!(full, Err(StoreError::InboxFull { .. })), "an inbox has a limit");
    let inbox = store.inbox(new.id).await?;
    assert_eq!(inbox[1].1, said("1 \0"), "a message is what was said, and they are in order");
    assert!(inbox.windows(2).all(|pair| pair[0].0 < pair[1].0), "numbers grow");

    let mut taking = commit(EventNumber(0));
    taking.messages = vec![message(1, None, "kailai", &["max"], "0 \0")];
    taking.taken = Some(inbox[0].0);
    store.commit(new.id, taking.clone()).await?;
    assert_eq!(store.inbox(new.id).await?, inbox[1..], "a commit takes its message");
    taking.on = EventNumber(1);
    taking.messages = vec![message(2, None, "kailai", &["max"], "0 \0")];
    let again = store.commit(new.id, taking).await;
    assert!(matches!(again, Err(StoreError::Recorded { .. })), "a message is taken once");
    store.say(new.id, &said("last")).await?;
    let after = store.inbox(new.id).await?;
    assert!(after.last().is_some_and(|(_, last)| *last == said("last")), "there is room again");
    store.remove(new.id).await?;
    assert!(store.inbox(new.id).await?.is_empty(), "an inbox goes with its session");
    Ok(())
}

async fn a_commit_is_whole_or_nothing(store: &impl Store) -> Result<(), StoreError> {
    let new = new_session();
    store.create(new.clone()).await?;
    let mut first = commit(EventNumber(0));
    first.messages = vec![message(1, None, "kailai", &["max"], "hello")];
    first.turns = vec![turn(1, 1, TurnState::Queued)];
    first.state.last_message = MessageNumber(1);
    first.state.last_turn = TurnId(1);
    let head = store.commit(new.id, first.clone()).await?;
    assert_eq!(head, EventNumber(1), "a commit moves the head by one");
    let stored = store.session(new.id).await?;
    assert_eq!((stored.head, &stored.state), (head, &first.state), "a commit sets the state");
    assert_eq!(store.open_turns(new.id).await?, first.turns, "a queued turn is found");

    let mut stale = commit(EventNumber(0));
    stale.messages = vec![message(2, None, "kailai", &[], "too late")];
    let refused = store.commit(new.id, stale).await;
    assert!(matches!(refused, Err(StoreError::Conflict { .. })), "an old head is refused");

    let mut twice = commit(head);
    twice.turns = vec![turn(2, 1, TurnState::Queued)];
    twice.messages = vec![
        message(2, Some(1), "max", &[], "new"),
        message(1, None, "kailai", &[], "hello again"),
    ];
    twice.state.last_message = MessageNumber(2);
    let refused = store.commit(new.id, twice).await;
    assert!(matches!(refused, Err(StoreError::Recorded { .. })), "no message is recorded twice");
    assert_eq!(store.session(new.id).await?, stored, "a refused commit changes no state");
    assert_eq!(store.open_turns(new.id).await?.len(), 1, "a refused commit adds no turn");
    let messages = store.messages_after(new.id, MessageNumber(0), 9).await?;
    assert_eq!(messages, first.messages, "a refused commit adds no message");
    let missing = store.message(new.id, MessageNumber(2)).await;
    assert!(matches!(missing, Err(StoreError::NoMessage { .. })), "a missing message is refused");
    Ok(())
}

async fn what_has_ended_is_not_changed(store: &impl Store) -> Result<(), StoreError> {
    let new = new_session();
    store.create(new.clone()).await?;
    let mut head = EventNumber(0);
    let steps = [
        (TurnState::Queued, true),
        (TurnState::Running, true),
        (TurnState::Queued, true),
        (TurnState::Failed, true),
        (TurnState::Queued, true),
        (TurnState::Done, true),
        (TurnState::Done, false),
        (TurnState::Queued, false),
    ];
    for (state, is_allowed) in steps {
        let mut step = commit(head);
        step.turns = vec![turn(1, 1, state)];
        let result = store.commit(new.id, step).await;
        assert_eq!(result.is_ok(), is_allowed, "a turn that is done cannot become {state:?}");
        head = result.unwrap_or(head);
    }
    let contents = ["prompt", "input", "ledger"].map(Content::new);
    for (has_ended, is_allowed) in [(false, true), (false, true), (true, true), (true, false)] {
        let mut step = commit(head);
        step.attempts = vec![attempt(1, 1, &contents, has_ended)];
        step.contents = contents.to_vec();
        let result = store.commit(new.id, step).await;
        assert_eq!(result.is_ok(), is_allowed, "an attempt ends once");
        head = result.unwrap_or(head);
    }
    let attempts = store.attempts(new.id, TurnId(1)).await?;
    assert_eq!(attempts, [attempt(1, 1, &contents, true)], "an attempt comes back as it was");
    Ok(())
}

async fn progress_is_kept_until_the_end(store: &impl Store) -> Result<(), StoreError> {
    let new = new_session();
    store.create(new.clone()).await?;
    let contents = ["prompt", "input", "ledger"].map(Content::new);
    let mut begin = commit(EventNumber(0));
    begin.contents = contents.to_vec();
    begin.attempts = vec![attempt(1, 1, &contents, false), attempt(2, 1, &contents, false)];
    let mut head = store.commit(new.id, begin).await?;
    let batch =
        |turn, events: &str| Progress { turn: TurnId(turn), attempt: 1, events: events.to_owned() };
    for batches in [vec![batch(1, "a\n"), batch(2, "x\n"), batch(1, "b\n")], vec![batch(1, "é\n")]]
    {
        let mut step = commit(head);
        step.progress = batches;
        head = store.commit(new.id, step).await?;
    }
    let progress = async |turn| store.progress(new.id, TurnId(turn), 1).await;
    assert_eq!(progress(1).await?, "a\nb\né\n", "batches come back in order");
    let mut end = commit(head);
    end.attempts = vec![attempt(1, 1, &contents, true)];
    head = store.commit(new.id, end).await?;
    assert_eq!(progress(1).await?, "", "progress is removed when the attempt ends");
    assert_eq!(progress(2).await?, "x\n", "the progress of other attempts stays");
    for turn in [1, 3] {
        let mut late = commit(head);
        late.progress = vec![batch(turn, "late\n")];
        let refused = store.commit(new.id, late).await;
        assert!(
            matches!(refused, Err(StoreError::Recorded { .. })),
            "only a running attempt accepts progress"
        );
    }
    store.remove(new.id).await?;
    assert_eq!(progress(2).await?, "", "a removed session leaves nothing");
    Ok(())
}

async fn texts_come_back_to_the_byte(store: &impl Store) -> Result<(), StoreError> {
    let new = new_session();
    store.create(new.clone()).await?;
    let texts = ["", "a", "\u{FEFF}\0 \r\n\u{2028}é漢🦀", &"long 🦀 ".repeat(200_000)];
    let mut step = commit(EventNumber(0));
    step.contents = texts.map(Content::new).to_vec();
    step.contents.extend(texts.map(Content::new));
    let numbered = (1..).zip(texts);
    step.messages = numbered.map(|(n, text)| message(n, None, "max", &["all"], text)).collect();
    let messages = step.messages.clone();
    store.commit(new.id, step).await?;
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
    store.create(new.clone()).await?;
    let write = |text: &'static str| {
        let mut step = commit(EventNumber(0));
        step.messages = vec![message(1, None, text, &[], text)];
        store.commit(new.id, step)
    };
    let (a, b, c) = tokio::join!(write("a"), write("b"), write("c"));
    let won = [a, b, c].into_iter().flatten().count();
    assert_eq!(won, 1, "of several writers on one head, one succeeds");
    Ok(())
}

async fn rows_are_read_in_pages(store: &impl Store) -> Result<(), StoreError> {
    let new = new_session();
    store.create(new.clone()).await?;
    let mut step = commit(EventNumber(0));
    step.messages = (1..=7).map(|n| message(n, None, "max", &[], "text")).collect();
    step.turns = (1..=7).map(|n| turn(n, 1, TurnState::Queued)).collect();
    store.commit(new.id, step).await?;
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
        store.create(session.clone()).await?;
        let mut step = commit(EventNumber(0));
        step.contents = contents;
        step.messages = vec![message(1, None, "max", &[], "text")];
        store.commit(session.id, step).await?;
    }
    store.remove(one.id).await?;
    let gone = store.session(one.id).await;
    assert!(matches!(gone, Err(StoreError::NoSession(_))), "a removed session is gone");
    let gone = store.content(own.reference().hash).await;
    assert!(
        matches!(gone, Err(StoreError::NoContent(_))),
        "contents that only this session had are removed"
    );
    assert_eq!(store.content(shared.reference().hash).await?, shared.text(), "the rest stays");
    assert!(store.message(two.id, MessageNumber(1)).await.is_ok(), "other sessions stay");
    let again = store.remove(one.id).await;
    assert!(matches!(again, Err(StoreError::NoSession(_))), "a session is removed once");
    Ok(())
}
