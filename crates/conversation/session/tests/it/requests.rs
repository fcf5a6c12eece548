//! Stored requests in the SQLite store.

use convoke_agent::thread::ThreadStore as _;
use convoke_conformance_store::request;
use convoke_protocol::id::{AttemptRef, SessionId, ThreadId, TurnId};
use convoke_protocol::request::{RequestEnd, RequestOutcome, RequestTexts};
use convoke_session::SqliteStore;
use sqlx::{ConnectOptions, Connection};

fn texts(items: &[String]) -> RequestTexts {
    let entries: Vec<String> =
        (0..items.len()).map(|index| format!("{{\"item\":{index}}}")).collect();
    RequestTexts {
        body: format!("{{\"input\":[{}],\"tools\":[\"a tool\"]}}", items.join(",")),
        ledger: entries.join("\n"),
    }
}

fn thread() -> ThreadId {
    ThreadId::parse("t").unwrap()
}

/// Adds a request whose sender knows the previous one.
async fn add(
    store: &SqliteStore,
    texts: &RequestTexts,
    before: Option<(u64, &RequestTexts)>,
) -> u64 {
    let session = SessionId::generate();
    let attempt = Some(AttemptRef { session, turn: TurnId(7), attempt: 1 });
    let number = before.map_or(0, |(number, _)| number) + 1;
    let record = request(&thread(), number, attempt, texts.clone());
    store.add_request(&record, before.map(|(_, texts)| texts)).await.unwrap()
}

/// Returns an item that compresses about as well as prose.
fn item(number: usize) -> String {
    let words = ["thread", "ledger", "prompt", "budget", "member", "turn", "fragment", "cache"];
    let mut state = number as u64 + 1;
    let said: Vec<String> = (0..120)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            format!("{}{:x}", words[(state >> 60) as usize % words.len()], state >> 52)
        })
        .collect();
    format!("\"{}\"", said.join(" "))
}

#[tokio::test]
async fn a_growing_thread_is_read_back_to_the_byte_and_costs_little_more_than_its_end() {
    let directory = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(directory.path()).await.unwrap();
    let mut items = Vec::new();
    let mut all: Vec<RequestTexts> = Vec::new();
    for number in 0..150 {
        // Sometimes a summary replaces the earlier items.
        if number == 100 {
            items.truncate(2);
        }
        items.push(item(number));
        let now = texts(&items);
        let before = all.last().map(|last| (all.len() as u64, last));
        assert_eq!(add(&store, &now, before).await, all.len() as u64 + 1);
        all.push(now);
    }
    store.close().await;
    let store = SqliteStore::open(directory.path()).await.unwrap();
    for (index, sent) in all.iter().enumerate() {
        let number = index as u64 + 1;
        assert_eq!(
            store.request_texts(&thread(), number).await.unwrap(),
            *sent,
            "request {number}"
        );
    }
    let last = store.last_request(&thread()).await.unwrap().unwrap();
    assert_eq!((last.number, &last.texts), (150, &all[149]));
    let mut raw = connect(directory.path()).await;
    let (packed,): (i64,) = sqlx::query_as("SELECT SUM(LENGTH(packed)) FROM request_text")
        .fetch_one(&mut raw)
        .await
        .unwrap();
    let sent: usize = all.iter().map(|it| it.body.len() + it.ledger.len()).sum();
    let said: usize = (0..150).map(|number| item(number).len()).sum();
    let packed = usize::try_from(packed).unwrap();
    assert!(packed < sent / 20 && packed < said * 2, "{packed} of {sent}, {said} said");
}

#[tokio::test]
async fn a_request_that_does_not_follow_the_last_one_is_compared_with_none() {
    let directory = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(directory.path()).await.unwrap();
    let first = texts(&[item(1)]);
    let (second, third) = (texts(&[item(1), item(2)]), texts(&[item(1), item(3)]));
    add(&store, &first, None).await;
    // Both programs have seen only the first request.
    add(&store, &second, Some((1, &first))).await;
    assert_eq!(add(&store, &third, Some((1, &first))).await, 3);
    assert_eq!(store.request_texts(&thread(), 3).await.unwrap(), third);
    assert_eq!(store.last_request(&ThreadId::generate()).await.unwrap(), None);
    let end = Some(RequestEnd::Answered);
    let answered = RequestOutcome { end, ..RequestOutcome::default() };
    store.set_outcome(&thread(), 2, &answered).await.unwrap();
    let records = store.requests(&thread()).await.unwrap();
    let ends: Vec<_> = records.iter().map(|it| (it.number, it.outcome.end)).collect();
    assert_eq!(ends, [(1, None), (2, end), (3, None)]);
    assert_eq!(records[0].attempt.map(|it| (it.turn, it.attempt)), Some((TurnId(7), 1)));
}

#[tokio::test]
async fn a_damaged_request_is_refused_and_not_shown() {
    let directory = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(directory.path()).await.unwrap();
    let first = texts(&[item(1), item(2)]);
    add(&store, &first, None).await;
    add(&store, &texts(&[item(1), item(2), item(3)]), Some((1, &first))).await;
    let mut raw = connect(directory.path()).await;
    for damage in ["packed = x'00'", "from_start = 1", "bytes = 1", "from_end = 1000000"] {
        let mut change = raw.begin().await.unwrap();
        let change_it =
            format!("UPDATE request_text SET {damage} WHERE number = 2 AND text = 'body'");
        sqlx::raw_sql(sqlx::AssertSqlSafe(change_it)).execute(&mut *change).await.unwrap();
        change.commit().await.unwrap();
        let told = store.request_texts(&thread(), 2).await.unwrap_err().to_string();
        assert!(told.contains("request"), "{damage}: {told}");
    }
    assert_eq!(store.request_texts(&thread(), 1).await.unwrap(), first);
}

async fn connect(directory: &std::path::Path) -> sqlx::SqliteConnection {
    let path = directory.join("sessions.db");
    sqlx::sqlite::SqliteConnectOptions::new().filename(path).connect().await.unwrap()
}
