//! What models were sent, in the SQLite store.

use convoke_session::request::{NewRequest, Predecessor, RequestTexts, RequestTurn};
use convoke_session::{SessionId, SqliteStore, Store as _, TurnId};
use sqlx::{ConnectOptions, Connection};

fn texts(items: &[String]) -> RequestTexts {
    let entries: Vec<String> =
        (0..items.len()).map(|index| format!("{{\"item\":{index}}}")).collect();
    RequestTexts {
        body: format!("{{\"input\":[{}],\"tools\":[\"a tool\"]}}", items.join(",")),
        ledger: entries.join("\n"),
    }
}

async fn add(
    store: &SqliteStore,
    thread: &str,
    texts: &RequestTexts,
    before: Option<(u64, &RequestTexts)>,
) -> u64 {
    let before = before.map(|(number, texts)| Predecessor { number, texts: texts.borrowed() });
    let turn = RequestTurn { session: SessionId::generate(), turn: TurnId(7), attempt: 1 };
    let request = NewRequest { turn: Some(turn), about: "about", texts: texts.borrowed(), before };
    store.add_request(thread, request).await.unwrap()
}

/// Returns items that are as hard to pack as prose is.
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
        // Now and then a summary takes the place of what was said.
        if number == 100 {
            items.truncate(2);
        }
        items.push(item(number));
        let now = texts(&items);
        let before = all.last().map(|last| (all.len() as u64, last));
        assert_eq!(add(&store, "t", &now, before).await, all.len() as u64 + 1);
        all.push(now);
    }
    store.close().await;
    let store = SqliteStore::open(directory.path()).await.unwrap();
    for (index, sent) in all.iter().enumerate() {
        let number = index as u64 + 1;
        assert_eq!(store.request_texts("t", number).await.unwrap(), *sent, "request {number}");
    }
    assert_eq!(store.last_request("t").await.unwrap().unwrap(), (150, all[149].clone()));
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
async fn a_request_that_does_not_follow_the_last_one_stands_for_itself() {
    let directory = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(directory.path()).await.unwrap();
    let first = texts(&[item(1)]);
    let (second, third) = (texts(&[item(1), item(2)]), texts(&[item(1), item(3)]));
    add(&store, "t", &first, None).await;
    // Both programs have seen the first request alone.
    add(&store, "t", &second, Some((1, &first))).await;
    assert_eq!(add(&store, "t", &third, Some((1, &first))).await, 3);
    assert_eq!(store.request_texts("t", 3).await.unwrap(), third);
    assert_eq!(store.last_request("other").await.unwrap(), None);
    store.note_request("t", 2, "answered").await.unwrap();
    let rows = store.requests("t").await.unwrap();
    let noted: Vec<_> = rows.iter().map(|row| (row.number, row.outcome.as_deref())).collect();
    assert_eq!(noted, [(1, None), (2, Some("answered")), (3, None)]);
    assert_eq!((rows[0].turn, rows[0].attempt), (Some(7), Some(1)));
}

#[tokio::test]
async fn a_damaged_request_is_refused_and_not_shown() {
    let directory = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(directory.path()).await.unwrap();
    let first = texts(&[item(1), item(2)]);
    add(&store, "t", &first, None).await;
    add(&store, "t", &texts(&[item(1), item(2), item(3)]), Some((1, &first))).await;
    let mut raw = connect(directory.path()).await;
    for damage in ["packed = x'00'", "from_start = 1", "bytes = 1", "from_end = 1000000"] {
        let mut change = raw.begin().await.unwrap();
        let change_it =
            format!("UPDATE request_text SET {damage} WHERE number = 2 AND text = 'body'");
        sqlx::raw_sql(sqlx::AssertSqlSafe(change_it)).execute(&mut *change).await.unwrap();
        change.commit().await.unwrap();
        let told = store.request_texts("t", 2).await.unwrap_err().to_string();
        assert!(told.contains("request"), "{damage}: {told}");
    }
    assert_eq!(store.request_texts("t", 1).await.unwrap(), first);
}

async fn connect(directory: &std::path::Path) -> sqlx::SqliteConnection {
    let path = directory.join("sessions.db");
    sqlx::sqlite::SqliteConnectOptions::new().filename(path).connect().await.unwrap()
}
