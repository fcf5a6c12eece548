//! The SQLite store: conformance, and properties of its files.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use convoke_conformance_store::{
    self as conformance, Log, ended, new_session, queued, started, timed_out,
};
use convoke_protocol::content::Content;
use convoke_protocol::id::{Millis, TurnId};
use convoke_protocol::turn::TurnState;
use convoke_session::store::Piece;
use convoke_session::{NewMessage, SqliteStore, Store, StoreError};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, Connection};

use crate::test_session::{TestSession, says};

#[tokio::test(flavor = "multi_thread")]
async fn sqlite_does_what_every_store_must() {
    let directory = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(directory.path()).await.unwrap();
    conformance::check(&store).await.unwrap();
}

#[tokio::test]
async fn only_the_owner_can_read() {
    let parent = tempfile::tempdir().unwrap();
    let directory = parent.path().join("a/b");
    let store = SqliteStore::open(&directory).await.unwrap();
    let new = new_session();
    store.create(new.clone()).await.unwrap();
    let _hold =
        store.hold(new.id, convoke_session::store::Holder::this_process(Millis(0))).await.unwrap();
    let mut seen = Vec::new();
    check_private(&directory, &mut seen);
    seen.sort();
    let names: Vec<&str> = seen.iter().map(String::as_str).collect();
    let lock = format!("{}.lock", new.id);
    assert_eq!(names, [&lock, "b", "locks", "sessions.db", "sessions.db-shm", "sessions.db-wal"]);
}

fn check_private(path: &Path, seen: &mut Vec<String>) {
    let mode = fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let expected = if path.is_dir() { 0o700 } else { 0o600 };
    assert_eq!(mode, expected, "{}", path.display());
    seen.push(path.file_name().unwrap().to_string_lossy().into_owned());
    if path.is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            check_private(&entry.unwrap().path(), seen);
        }
    }
}

/// Opens a directory whose file has these bytes, and returns why it was refused.
async fn refusal(change: impl FnOnce(&mut Vec<u8>)) -> StoreError {
    let directory = tempfile::tempdir().unwrap();
    SqliteStore::open(directory.path()).await.unwrap().close().await;
    let path = directory.path().join("sessions.db");
    let mut bytes = fs::read(&path).unwrap();
    change(&mut bytes);
    fs::write(&path, &bytes).unwrap();
    let error = SqliteStore::open(directory.path()).await.unwrap_err();
    assert_eq!(fs::read(&path).unwrap(), bytes, "a refused file is left as it is");
    error
}

#[tokio::test]
async fn a_file_of_another_version_or_of_somebody_else_is_refused_and_left_alone() {
    let newer = refusal(|bytes| bytes[60..64].copy_from_slice(&1000_u32.to_be_bytes())).await;
    assert!(newer.to_string().ends_with("it was left as it is: update Convoke"), "{newer}");
    let older = refusal(|bytes| bytes[60..64].copy_from_slice(&0_u32.to_be_bytes())).await;
    assert!(matches!(older, StoreError::Version { found: 0, .. }), "{older}");
    for foreign in [
        refusal(|bytes| bytes[68..72].fill(0)).await,
        refusal(|bytes| *bytes = b"my notes".to_vec()).await,
        refusal(Vec::clear).await,
    ] {
        assert!(matches!(foreign, StoreError::Foreign { .. }), "{foreign}");
    }
}

/// Returns the number of pages of the file.
async fn pages(directory: &Path) -> i64 {
    let options = SqliteConnectOptions::new().filename(directory.join("sessions.db"));
    let mut connection = options.connect().await.unwrap();
    let (pages,): (i64,) =
        sqlx::query_as("PRAGMA page_count").fetch_one(&mut connection).await.unwrap();
    connection.close().await.unwrap();
    pages
}

/// Commits 8 MiB of the text of an attempt in pieces, then its end. Returns the number of pages before, between and
/// after.
async fn run_a_turn(directory: &Path, store: &SqliteStore) -> [i64; 3] {
    let new = new_session();
    let mut log = Log::create(store, &new).await.unwrap();
    let contents = ["prompt", "input", "ledger"].map(Content::new);
    let mut begin = log.commit([queued(1, 1), started(1, 1, &contents)]);
    begin.contents = contents.to_vec();
    log.store(store, begin).await.unwrap();
    let before = pages(directory).await;
    for number in 0..8 {
        let mut step = log.commit([]);
        let (turn, text) = (TurnId(1), "x".repeat(1 << 20));
        step.pieces = vec![Piece { turn, attempt: 1, position: number << 20, text }];
        log.store(store, step).await.unwrap();
    }
    let between = pages(directory).await;
    let end = ended(1, 1, TurnState::Failed, timed_out(&contents[0]));
    log.add(store, [end]).await.unwrap();
    assert_eq!(store.pieces(new.id, TurnId(1), 1).await.unwrap(), "");
    [before, between, pages(directory).await]
}

#[tokio::test]
async fn the_pages_of_a_running_text_are_given_back_when_it_ends() {
    let directory = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(directory.path()).await.unwrap();
    let [before, between, after] = run_a_turn(directory.path(), &store).await;
    assert!(between > before + 2000, "{before} {between}");
    assert!(after < before + 16, "{before} {after}");
    let bytes = fs::metadata(directory.path().join("sessions.db")).unwrap().len();
    assert!(bytes < 1 << 20, "{bytes}");
    let log = fs::metadata(directory.path().join("sessions.db-wal")).unwrap().len();
    assert!(log <= 4 << 20, "{log}");
}

#[tokio::test]
async fn a_file_of_an_early_version_gives_its_pages_back_too() {
    let directory = tempfile::tempdir().unwrap();
    SqliteStore::open(directory.path()).await.unwrap().close().await;
    let options = SqliteConnectOptions::new().filename(directory.path().join("sessions.db"));
    let mut connection = options.connect().await.unwrap();
    let none = "PRAGMA auto_vacuum = NONE; VACUUM;";
    sqlx::raw_sql(none).execute(&mut connection).await.unwrap();
    connection.close().await.unwrap();
    let store = SqliteStore::open(directory.path()).await.unwrap();
    for _ in 0..2 {
        let [before, between, after] = run_a_turn(directory.path(), &store).await;
        assert!(between > before + 2000 && after < before + 16, "{before} {between} {after}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn several_processes_may_open_a_new_store_at_the_same_time() {
    let directory = tempfile::tempdir().unwrap();
    let open = || SqliteStore::open(directory.path());
    let (a, b, c, d) = tokio::join!(open(), open(), open(), open());
    let new = new_session();
    a.unwrap().create(new.clone()).await.unwrap();
    for store in [b, c, d] {
        assert_eq!(store.unwrap().session(new.id).await.unwrap().began, new);
    }
}

#[tokio::test]
async fn a_turn_reads_its_context_window_only() {
    let test = TestSession::new(
        "briefing = false\n[context]\nwindow = 3",
        &[("max", says(&["one", "two", "three", "four", "five", "six", "seven"]))],
    )
    .await;
    let mut coordinator = test.begin().await;
    for number in 1..=6 {
        let message = NewMessage::from_person("kailai", format!("question {number}")).to(["max"]);
        coordinator.accept(message).await.unwrap();
        coordinator.run().await.unwrap();
    }
    drop(coordinator);
    // Messages before the window of the next turn are unreadable.
    test.execute("UPDATE message SET rest = '{' WHERE number <= 9").await;
    let mut coordinator = test.resume().await;
    coordinator.accept(NewMessage::from_person("kailai", "the last").to(["max"])).await.unwrap();
    coordinator.run().await.unwrap();
    let prompts = test.prompts("max");
    let last = prompts.last().unwrap();
    assert!(last.contains("five") && last.ends_with("the last"), "{last}");
    // One more unreadable message is noticed.
    test.execute("UPDATE message SET rest = '{' WHERE number <= 12").await;
    coordinator.accept(NewMessage::from_person("kailai", "once more").to(["max"])).await.unwrap();
    assert!(coordinator.run().await.is_err());
}
