//! The threads of model members in the SQLite store.

use convoke_session::SqliteStore;
use convoke_session::store::sqlite::Appended;
use sqlx::{ConnectOptions, Connection};

fn lines(lines: &[&str]) -> Vec<String> {
    lines.iter().map(|line| (*line).to_owned()).collect()
}

#[tokio::test]
async fn lines_are_added_at_the_end_and_only_by_those_who_know_the_rest() {
    let directory = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(directory.path()).await.unwrap();
    assert_eq!(store.thread_lines("a").await.unwrap(), lines(&[]));
    let done = store.append_thread_lines("a", 0, &lines(&["1", "2"])).await.unwrap();
    assert_eq!(done, Appended::Done);
    let late = store.append_thread_lines("a", 0, &lines(&["x"])).await.unwrap();
    assert_eq!(late, Appended::Conflict);
    store.append_thread_lines("b", 0, &lines(&["other"])).await.unwrap();
    store.append_thread_lines("a", 2, &lines(&["3"])).await.unwrap();
    store.close().await;
    let again = SqliteStore::open(directory.path()).await.unwrap();
    assert_eq!(again.thread_lines("a").await.unwrap(), lines(&["1", "2", "3"]));
}

#[tokio::test]
async fn a_file_of_the_first_format_is_brought_to_this_one() {
    let directory = tempfile::tempdir().unwrap();
    SqliteStore::open(directory.path()).await.unwrap().close().await;
    let path = directory.path().join("sessions.db");
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(&path);
    let mut first = options.connect().await.unwrap();
    let back = "DROP TABLE thread_line; DROP TABLE request; DROP TABLE request_text; \
                PRAGMA user_version = 1;";
    sqlx::raw_sql(back).execute(&mut first).await.unwrap();
    first.close().await.unwrap();

    let (one, other) =
        tokio::join!(SqliteStore::open(directory.path()), SqliteStore::open(directory.path()));
    let (one, other) = (one.unwrap(), other.unwrap());
    one.append_thread_lines("a", 0, &lines(&["1"])).await.unwrap();
    assert_eq!(other.thread_lines("a").await.unwrap(), lines(&["1"]));
    assert_eq!(other.last_request("a").await.unwrap(), None);
}
