//! Requests: what models were sent is kept before it leaves, and goes with the session.

use super::rows::{commit, message, new_session};
use crate::id::{Head, MessageNumber, SessionId, TurnId};
use crate::request::{NewRequest, Predecessor, RequestRow, RequestTexts, RequestTurn, TextChange};
use crate::store::{Store, StoreError};

pub(super) async fn are_kept_to_the_byte(store: &impl Store) -> Result<(), StoreError> {
    requests_come_back_in_order(store).await?;
    of_two_who_send_both_are_kept(store).await?;
    requests_are_part_of_a_commit(store).await?;
    removing_a_session_removes_its_requests_alone(store).await
}

const TEXTS: [RequestTexts<&str>; 4] = [
    RequestTexts { body: "[]", ledger: "" },
    RequestTexts { body: "[\"\u{FEFF}\0 \r\n\u{2028}é漢🦀\"]", ledger: "a" },
    RequestTexts { body: "[\"\u{FEFF}\0 \r\n\u{2028}é漣🦀\"]", ledger: "a\nb" },
    RequestTexts { body: "", ledger: "c\nb" },
];

fn owned(texts: RequestTexts<&str>) -> RequestTexts {
    RequestTexts { body: texts.body.to_owned(), ledger: texts.ledger.to_owned() }
}

fn turn_of(session: SessionId) -> RequestTurn {
    RequestTurn { session, turn: TurnId(7), attempt: 2 }
}

async fn add(
    store: &impl Store,
    thread: &str,
    turn: Option<RequestTurn>,
) -> Result<(), StoreError> {
    let mut before = None;
    for texts in TEXTS {
        let request = NewRequest { turn, about: "about \"it\"", texts, before };
        let number = store.add_request(thread, request).await?;
        before = Some(Predecessor { number, texts });
    }
    Ok(())
}

/// Begins a session, and returns it with the name of a member's thread.
async fn begin(store: &impl Store) -> Result<(SessionId, String), StoreError> {
    let new = new_session();
    store.create(new.clone()).await?;
    Ok((new.id, format!("{}-max", new.id)))
}

/// Checks that a thread was sent the texts.
async fn assert_sent(store: &impl Store, thread: &str) -> Result<(), StoreError> {
    let sent = store.sent_requests(thread).await?;
    let rows: Vec<_> = sent.iter().map(|request| request.row.clone()).collect();
    assert_eq!(store.requests(thread).await?, rows, "whole requests are those that there are");
    let mut before = RequestTexts::default();
    for ((request, texts), number) in sent.iter().zip(TEXTS).zip(1..) {
        assert_eq!(request.row.number, number, "requests are counted from 1");
        before = request.texts_after(before.borrowed()).unwrap_or_default();
        assert_eq!(before, owned(texts), "differences lead to what was sent");
        assert_eq!(store.request_texts(thread, number).await?, before, "texts come back");
    }
    Ok(())
}

async fn requests_come_back_in_order(store: &impl Store) -> Result<(), StoreError> {
    let (session, thread) = begin(store).await?;
    assert_eq!(store.requests(&thread).await?, [], "a thread that was sent nothing has no request");
    assert_eq!(store.last_request(&thread).await?, None, "nothing has no last one");
    assert_eq!(store.sent_requests(&thread).await?, [], "nothing has no texts");
    add(store, &thread, Some(turn_of(session))).await?;
    assert_eq!(store.threads(session).await?, [&*thread], "a request begins its session's thread");
    assert_eq!(store.thread(&thread).await?, [], "a request is no line of a thread");
    assert_eq!(store.session(session).await?.head, Head(0), "a request is no commit");
    store.note_request(&thread, 2, "first").await?;
    store.note_request(&thread, 2, "then").await?;
    let row = |number, outcome: Option<&str>| RequestRow {
        thread: thread.clone(),
        number,
        turn: Some(7),
        attempt: Some(2),
        about: "about \"it\"".to_owned(),
        outcome: outcome.map(str::to_owned),
    };
    let expected = [row(1, None), row(2, Some("then")), row(3, None), row(4, None)];
    assert_eq!(store.requests(&thread).await?, expected, "what is noted last stands");
    assert_sent(store, &thread).await?;
    let last = store.last_request(&thread).await?;
    assert_eq!(last, Some((4, owned(TEXTS[3]))), "the last one is the newest");
    let missing = store.request_texts(&thread, 5).await;
    assert!(missing.is_err(), "a missing request is refused");
    Ok(())
}

async fn of_two_who_send_both_are_kept(store: &impl Store) -> Result<(), StoreError> {
    let thread = SessionId::generate().to_string();
    let first = NewRequest { turn: None, about: "", texts: TEXTS[0], before: None };
    store.add_request(&thread, first).await?;
    let before = Some(Predecessor { number: 1, texts: TEXTS[0] });
    let add =
        |texts| store.add_request(&thread, NewRequest { turn: None, about: "", texts, before });
    let (one, other) = tokio::join!(add(TEXTS[1]), add(TEXTS[2]));
    let (one, other) = (one?, other?);
    assert_eq!(one + other, 5, "each has a number of its own");
    for (number, texts) in [(one, TEXTS[1]), (other, TEXTS[2])] {
        let kept = store.request_texts(&thread, number).await?;
        assert_eq!(kept, owned(texts), "each is kept to the byte");
    }
    Ok(())
}

async fn requests_are_part_of_a_commit(store: &impl Store) -> Result<(), StoreError> {
    let (from, sent_to) = begin(store).await?;
    add(store, &sent_to, Some(turn_of(from))).await?;
    store.note_request(&sent_to, 1, "done").await?;
    let (session, thread) = begin(store).await?;
    let mut requests = store.sent_requests(&sent_to).await?;
    for request in &mut requests {
        request.row.thread.clone_from(&thread);
    }

    let mut broken = requests.clone();
    broken[2].texts.body = TextChange { from_start: 1, ..TextChange::of("", "x") };
    let mut gap = requests.clone();
    gap.remove(1);
    for wrong in [broken, gap] {
        let mut step = commit(Head(0));
        step.messages = vec![message(1, None, "max", &[], "text")];
        step.requests = wrong;
        assert!(store.commit(session, step).await.is_err(), "requests have to fit together");
        assert_eq!(store.requests(&thread).await?, [], "a refused commit adds no request");
        let messages = store.messages_after(session, MessageNumber(0), 9).await?;
        assert_eq!(messages, [], "a refused commit adds no message");
    }
    let mut step = commit(Head(0));
    step.requests.clone_from(&requests);
    store.commit(session, step).await?;
    assert_eq!(store.sent_requests(&thread).await?, requests, "a commit brings whole requests");
    assert_eq!(store.threads(session).await?, [&*thread], "they are its session's");
    assert_sent(store, &thread).await?;

    let mut again = commit(Head(1));
    again.requests = requests;
    let refused = store.commit(session, again).await;
    assert!(matches!(refused, Err(StoreError::Recorded { .. })), "no request is recorded twice");
    let request = NewRequest { turn: None, about: "", texts: TEXTS[0], before: None };
    assert_eq!(store.add_request(&thread, request).await?, 5, "sending goes on after them");
    Ok(())
}

async fn removing_a_session_removes_its_requests_alone(
    store: &impl Store,
) -> Result<(), StoreError> {
    let (session, thread) = begin(store).await?;
    let (other_session, other) = begin(store).await?;
    // Its name is like a member's, and it is nobody's.
    let own = format!("{session}-x");
    add(store, &thread, Some(turn_of(session))).await?;
    add(store, &other, Some(turn_of(other_session))).await?;
    add(store, &own, None).await?;
    store.remove(session).await?;
    assert_eq!(store.requests(&thread).await?, [], "the requests of a removed session are gone");
    assert_eq!(store.sent_requests(&thread).await?, [], "their texts are gone");
    for kept in [&other, &own] {
        assert_eq!(store.requests(kept).await?.len(), 4, "those of others stay");
        assert_sent(store, kept).await?;
    }
    Ok(())
}
