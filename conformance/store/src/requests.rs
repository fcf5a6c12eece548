//! Requests: stored before they are sent, and removed with their session.

use convoke_agent::thread::ThreadStoreError;
use convoke_protocol::agent_event::RequestPurpose;
use convoke_protocol::content::ContentHash;
use convoke_protocol::id::{AttemptRef, EventNumber, Millis, SessionId, ThreadId, TurnId};
use convoke_protocol::request::{
    RequestEnd, RequestMeta, RequestOutcome, RequestRecord, RequestTexts,
};
use convoke_session::request::{self, TextDelta};
use convoke_session::store::{Page, SessionImport, Store, StoreError};

use super::rows::new_session;

pub(super) async fn are_kept_to_the_byte(store: &impl Store) -> Result<(), StoreError> {
    requests_come_back_in_order(store).await?;
    of_two_who_send_both_are_kept(store).await?;
    requests_are_part_of_an_import(store).await?;
    the_oldest_texts_make_room(store).await?;
    removing_a_session_removes_its_requests_alone(store).await
}

const TEXTS: [(&str, &str); 4] = [
    ("[]", ""),
    ("[\"\u{FEFF}\0 \r\n\u{2028}é漢🦀\"]", "a"),
    ("[\"\u{FEFF}\0 \r\n\u{2028}é漣🦀\"]", "a\nb"),
    ("", "c\nb"),
];

fn texts((body, ledger): (&str, &str)) -> RequestTexts {
    RequestTexts { body: body.to_owned(), ledger: ledger.to_owned() }
}

fn attempt_of(session: SessionId) -> AttemptRef {
    AttemptRef { session, turn: TurnId(7), attempt: 2 }
}

/// Creates a request.
pub fn request(
    thread: &ThreadId,
    number: u64,
    attempt: Option<AttemptRef>,
    texts: RequestTexts,
) -> RequestRecord {
    let meta = RequestMeta {
        unchanged_bytes: 1,
        ..RequestMeta::new(
            Millis(1_700_000_000_002),
            "/\"path\"",
            RequestPurpose::Answer,
            texts.body.len() as u64,
        )
    };
    let outcome = RequestOutcome::default();
    RequestRecord { thread: thread.clone(), number, attempt, meta, outcome, texts }
}

async fn add(
    store: &impl Store,
    thread: &ThreadId,
    attempt: Option<AttemptRef>,
) -> Result<(), StoreError> {
    let mut before = None;
    for (it, number) in TEXTS.into_iter().zip(1..) {
        let record = request(thread, number, attempt, texts(it));
        assert_eq!(store.add_request(&record, before.as_ref()).await?, number, "numbers follow");
        before = Some(record.texts);
    }
    Ok(())
}

/// Creates a session, and returns it with a member's thread.
async fn begin(store: &impl Store) -> Result<(SessionId, ThreadId), StoreError> {
    let new = new_session();
    store.create(new.clone()).await?;
    Ok((new.id, ThreadId::of_member(new.id, "max")))
}

/// Checks that a thread has requests with these texts.
async fn assert_sent(store: &impl Store, thread: &ThreadId) -> Result<(), StoreError> {
    let mut sent = store.request_deltas(thread, 0, 2).await?;
    assert_eq!(sent.len(), 2, "requests are read in pages");
    sent.extend(store.request_deltas(thread, 2, 9).await?);
    let rows: Vec<_> = sent.iter().map(|record| record.clone().with_texts(())).collect();
    assert_eq!(store.requests(thread).await?, rows, "a full read returns every request");
    let mut before = RequestTexts::default();
    for ((record, it), number) in sent.iter().zip(TEXTS).zip(1..) {
        assert_eq!(record.number, number, "requests are counted from 1");
        before = request::apply(record, before).unwrap_or_default();
        assert_eq!(before, texts(it), "deltas lead to what was sent");
        assert_eq!(store.request_texts(thread, number).await?, before, "texts come back");
    }
    Ok(())
}

async fn requests_come_back_in_order(store: &impl Store) -> Result<(), StoreError> {
    let (session, thread) = begin(store).await?;
    assert_eq!(store.requests(&thread).await?, [], "a new thread has no request");
    assert_eq!(store.last_request(&thread).await?, None, "an empty thread has no last request");
    assert_eq!(store.request_deltas(&thread, 0, 9).await?, [], "a missing request has no texts");
    let attempt = Some(attempt_of(session));
    add(store, &thread, attempt).await?;
    assert_eq!(
        store.threads(session).await?,
        std::slice::from_ref(&thread),
        "a request begins a thread"
    );
    assert_eq!(store.thread_lines(&thread).await?, [], "a request adds no line to its thread");
    assert_eq!(
        store.session(session).await?.head,
        EventNumber(1),
        "a request does not move the head"
    );
    let failed = RequestOutcome { failed: vec!["busy".to_owned()], ..RequestOutcome::default() };
    let done = RequestOutcome { end: Some(RequestEnd::Answered), ..failed.clone() };
    store.set_outcome(&thread, 2, &failed).await?;
    store.set_outcome(&thread, 2, &done).await?;
    let mut expected = Vec::new();
    for (it, number) in TEXTS.into_iter().zip(1..) {
        let mut record = request(&thread, number, attempt, texts(it));
        if number == 2 {
            record.outcome = done.clone();
        }
        expected.push(record);
    }
    let last = store.last_request(&thread).await?;
    assert_eq!(last.as_ref(), expected.last(), "the last one is the newest");
    let expected: Vec<_> = expected.into_iter().map(|it| it.with_texts(())).collect();
    assert_eq!(store.requests(&thread).await?, expected, "the last outcome is stored");
    assert_sent(store, &thread).await?;
    let missing = store.request_texts(&thread, 5).await;
    let is_named = matches!(missing, Err(ThreadStoreError::NoRequest { number: 5, .. }));
    assert!(is_named, "a missing request is refused");
    Ok(())
}

async fn of_two_who_send_both_are_kept(store: &impl Store) -> Result<(), StoreError> {
    let thread = ThreadId::generate();
    let record = |number, it| request(&thread, number, None, texts(it));
    let first = record(1, TEXTS[0]);
    store.add_request(&first, None).await?;
    let (one, other) = (record(2, TEXTS[1]), record(2, TEXTS[2]));
    let add = |record| store.add_request(record, Some(&first.texts));
    let numbers = tokio::join!(add(&one), add(&other));
    let numbers = [numbers.0?, numbers.1?];
    assert_eq!(numbers.iter().sum::<u64>(), 5, "each has a number of its own");
    for (number, record) in numbers.into_iter().zip([one, other]) {
        let stored = store.request_texts(&thread, number).await?;
        assert_eq!(stored, record.texts, "each is kept to the byte");
    }
    Ok(())
}

async fn requests_are_part_of_an_import(store: &impl Store) -> Result<(), StoreError> {
    let (from, sent_to) = begin(store).await?;
    add(store, &sent_to, Some(attempt_of(from))).await?;
    let new = new_session();
    let thread = ThreadId::of_member(new.id, "max");
    let mut requests = store.request_deltas(&sent_to, 0, 9).await?;
    for record in &mut requests {
        record.thread.clone_from(&thread);
        record.attempt = Some(attempt_of(new.id));
    }

    let mut broken = requests.clone();
    broken[2].texts.body = TextDelta { from_start: usize::MAX, ..TextDelta::between("", "x") };
    let mut gap = requests.clone();
    gap.remove(1);
    for wrong in [broken, gap] {
        let mut import = store.import(new.clone()).await?;
        let written = import.write(Page { requests: wrong, ..Page::default() }).await;
        assert!(written.is_err(), "requests must be consistent");
        drop(import);
        assert_eq!(store.requests(&thread).await?, [], "a dropped import leaves no request");
        let gone = store.session(new.id).await;
        assert!(matches!(gone, Err(StoreError::NoSession(_))), "a dropped import leaves nothing");
    }
    let mut import = store.import(new.clone()).await?;
    for record in requests.clone() {
        import.write(Page { requests: vec![record], ..Page::default() }).await?;
    }
    import.finish().await?;
    assert_eq!(store.request_deltas(&thread, 0, 9).await?, requests, "an import brings them whole");
    assert_eq!(
        store.threads(new.id).await?,
        std::slice::from_ref(&thread),
        "imported requests belong to the session"
    );
    assert_sent(store, &thread).await?;
    let next = request(&thread, 1, None, texts(TEXTS[0]));
    assert_eq!(store.add_request(&next, None).await?, 5, "requests continue after imported ones");
    Ok(())
}

async fn the_oldest_texts_make_room(store: &impl Store) -> Result<(), StoreError> {
    const REQUESTS: u64 = 30;
    let (session, thread) = begin(store).await?;
    // Texts that cannot be packed: each request adds a hash to the one before.
    let long = |number: u64| -> String {
        let hashes = (0..number).map(|at| ContentHash::new(&at.to_string()).to_string());
        hashes.collect::<Vec<_>>().join("\n")
    };
    let mut before = None;
    for number in 1..=REQUESTS {
        let texts = RequestTexts { body: long(number), ledger: format!("entry {number}") };
        let record = request(&thread, number, Some(attempt_of(session)), texts);
        store.add_request(&record, before.as_ref()).await?;
        before = Some(record.texts);
    }
    assert_eq!(store.limit_texts(&thread, 1 << 30).await?, 0, "there is room");
    let dropped = store.limit_texts(&thread, 1000).await?;
    assert!(dropped > 0 && dropped < REQUESTS, "{dropped} requests lost their texts");
    assert_eq!(store.limit_texts(&thread, 4000).await?, 0, "there is room again");
    let next = RequestTexts { body: long(REQUESTS + 1), ledger: String::new() };
    let next = request(&thread, REQUESTS + 1, Some(attempt_of(session)), next);
    store.add_request(&next, before.as_ref()).await?;
    for record in store.requests(&thread).await? {
        let is_dropped = record.number <= dropped;
        assert_eq!(record.meta.dropped, is_dropped, "the oldest are marked");
        let expected = if is_dropped { String::new() } else { long(record.number) };
        let texts = store.request_texts(&thread, record.number).await?;
        assert_eq!(texts.body, expected, "the others keep their texts");
    }
    let all = store.request_deltas(&thread, 0, usize::MAX >> 1).await?;
    assert_eq!(all.len() as u64, REQUESTS + 1, "a thread without some texts can be exported");
    let left = store.limit_texts(&thread, 1).await?;
    assert_eq!(left, REQUESTS - dropped, "the last request always keeps its texts");
    assert_eq!(store.last_request(&thread).await?, Some(next), "the last request is whole");
    Ok(())
}

async fn removing_a_session_removes_its_requests_alone(
    store: &impl Store,
) -> Result<(), StoreError> {
    let (session, thread) = begin(store).await?;
    let (other_session, other) = begin(store).await?;
    // The id looks like a member's thread, but no member owns it.
    let own = ThreadId::of_member(session, "x");
    add(store, &thread, Some(attempt_of(session))).await?;
    add(store, &other, Some(attempt_of(other_session))).await?;
    add(store, &own, None).await?;
    store.remove(session).await?;
    assert_eq!(store.requests(&thread).await?, [], "the requests of a removed session are gone");
    assert_eq!(store.request_deltas(&thread, 0, 9).await?, [], "their texts are gone");
    for kept in [&other, &own] {
        assert_eq!(store.requests(kept).await?.len(), 4, "those of others stay");
        assert_sent(store, kept).await?;
    }
    Ok(())
}
