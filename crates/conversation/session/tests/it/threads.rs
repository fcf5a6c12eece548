//! Files of earlier formats, with less data about threads.

use std::path::Path;

use convoke_agent::thread::ThreadStore as _;
use convoke_conformance_store::{Log, message, new_session, said};
use convoke_protocol::event::EventKind;
use convoke_protocol::id::{EventNumber, ThreadId};
use convoke_protocol::session::NewSession;
use convoke_protocol::thread::{ThreadAppend, ThreadLine};
use convoke_session::{NewMessage, SqliteStore, Store, verify};
use sqlx::{ConnectOptions, Connection};

const TO_FORMAT_6: &str = "
    DROP TABLE event; DROP TABLE piece; ALTER TABLE session RENAME COLUMN events TO head;
    CREATE TABLE progress (
        session TEXT NOT NULL, turn BIGINT NOT NULL, attempt BIGINT NOT NULL, number BIGINT NOT NULL,
        events TEXT NOT NULL, PRIMARY KEY (session, turn, attempt, number)
    );
    UPDATE message SET rest = json_extract(rest, '$.message'); PRAGMA user_version = 6;";
const TO_FORMAT_5: &str = "DROP TABLE inbox; PRAGMA user_version = 5;";
const TO_FORMAT_4: &str = "
    DROP TRIGGER message_added; DROP TRIGGER message_removed; DROP TABLE message_search;
    ALTER TABLE session DROP COLUMN removed_at; PRAGMA user_version = 4;";
const TO_FORMAT_3: &str = "
    DROP TABLE request; DROP TABLE request_text;
    DROP TABLE progress; ALTER TABLE session DROP COLUMN rehearsal;
    PRAGMA user_version = 3;";
const TO_FORMAT_2: &str = "
    DROP TABLE request; DROP TABLE request_text;
    DROP TABLE progress; ALTER TABLE session DROP COLUMN rehearsal;
    DROP TABLE thread; DROP TABLE thread_line;
    CREATE TABLE thread_line (
        thread TEXT NOT NULL, number BIGINT NOT NULL, line TEXT NOT NULL,
        PRIMARY KEY (thread, number)
    );
    PRAGMA user_version = 2;";
const TO_FORMAT_1: &str = "
    DROP TABLE request; DROP TABLE request_text;
    DROP TABLE progress; ALTER TABLE session DROP COLUMN rehearsal;
    DROP TABLE thread; DROP TABLE thread_line; PRAGMA user_version = 1;";

async fn execute(directory: &Path, statements: &'static str) {
    let path = directory.join("sessions.db");
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(&path);
    let mut connection = options.connect().await.unwrap();
    sqlx::raw_sql(statements).execute(&mut connection).await.unwrap();
    connection.close().await.unwrap();
}

#[tokio::test]
async fn a_file_of_any_earlier_format_is_brought_to_this_one() {
    for back in [
        &[TO_FORMAT_4, TO_FORMAT_1][..],
        &[TO_FORMAT_4, TO_FORMAT_2],
        &[TO_FORMAT_4, TO_FORMAT_3],
        &[TO_FORMAT_4],
        &[],
    ] {
        let directory = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(directory.path()).await.unwrap();
        let new = new_session();
        let mut log = Log::create(&store, &new).await.unwrap();
        log.add(&store, [said(message(1, None, "max", &[], "a migration"))]).await.unwrap();
        store.close().await;
        execute(directory.path(), TO_FORMAT_6).await;
        execute(directory.path(), TO_FORMAT_5).await;
        for back in back {
            execute(directory.path(), back).await;
        }

        let (one, other) =
            tokio::join!(SqliteStore::open(directory.path()), SqliteStore::open(directory.path()));
        let (one, other) = (one.unwrap(), other.unwrap());
        let thread = ThreadId::parse("a").unwrap();
        let lines = vec!["1".to_owned()];
        let append = ThreadAppend { thread: thread.clone(), known: 0, lines };
        one.append_lines(&append).await.unwrap();
        assert_eq!(other.thread_lines(&thread).await.unwrap()[0].text, "1");
        assert_eq!(other.last_request(&thread).await.unwrap(), None);
        let rehearsal = if back.len() < 2 { new.rehearsal } else { None };
        let began = NewSession { rehearsal, ..new.clone() };
        assert_eq!(other.session(new.id).await.unwrap().began, began);
        let found = other.search(&["migration".to_owned()], None, 9).await.unwrap();
        assert_eq!(found[0].session, new.id, "messages of earlier formats are found");
        let log = other.events(new.id, EventNumber(0), 9).await.unwrap();
        assert!(matches!(log[0].kind, EventKind::Created { .. }), "{log:?}");
        assert!(log[1].migrated && matches!(log[1].kind, EventKind::Message(_)), "{log:?}");
        assert_eq!(verify::rebuild(&one, new.id).await.unwrap(), []);
        one.say(new.id, &NewMessage::from_person("user", "later")).await.unwrap();
        assert_eq!(other.arrived(new.id).await.unwrap()[0].1.content, "later");
    }
}

#[tokio::test]
async fn threads_of_the_second_format_come_to_their_sessions() {
    let directory = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(directory.path()).await.unwrap();
    let mut new = new_session();
    new.id = "0199a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b".parse().unwrap();
    store.create(new.clone()).await.unwrap();
    store.close().await;
    for back in [TO_FORMAT_6, TO_FORMAT_5, TO_FORMAT_4, TO_FORMAT_2] {
        execute(directory.path(), back).await;
    }
    execute(
        directory.path(),
        "INSERT INTO thread_line VALUES
            ('0199a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b-max', 0, 'one'),
            ('0199a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b-max', 1, 'two'),
            ('0199a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5c-max', 0, 'of a session that is gone'),
            ('0199a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5d', 0, 'of no session')",
    )
    .await;

    let store = SqliteStore::open(directory.path()).await.unwrap();
    let threads = store.threads(new.id).await.unwrap();
    assert_eq!(threads, [ThreadId::of_member(new.id, "max")]);
    let lines = store.thread_lines(&threads[0]).await.unwrap();
    let line = |text: &str| ThreadLine { as_of: None, text: text.to_owned() };
    assert_eq!(lines, [line("one"), line("two")]);
    store.remove(new.id).await.unwrap();
    assert_eq!(store.thread_lines(&threads[0]).await.unwrap(), []);
    let own = ThreadId::parse("0199a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5d").unwrap();
    let own = store.thread_lines(&own).await.unwrap();
    assert_eq!(own, [line("of no session")]);
}
