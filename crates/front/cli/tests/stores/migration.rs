//! The migration itself: the copy that it leaves, kills at any write, every earlier format, and the rows before and after.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::{env, fs};

use convoke_protocol::event::{Event, EventKind};
use convoke_protocol::id::EventNumber;
use convoke_session::store::failpoint::Failpoint;
use convoke_session::store::postgres::PostgresStore;
use convoke_session::store::sqlite::Durability;
use convoke_session::{SqliteStore, Store};
use serde_json::Value;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{ConnectOptions as _, Connection as _, Row as _};
use tempfile::TempDir;

use super::cluster::Cluster;
use super::{Reader, load_postgres_4, sqlite_5, stores};

const STORE: &str = "CONVOKE_MIGRATION_STORE";
const FAILPOINT: &str = "CONVOKE_MIGRATION_FAILPOINT";

async fn connect(file: &Path) -> SqliteConnection {
    SqliteConnectOptions::new().filename(file).connect().await.unwrap()
}

async fn execute(directory: &Path, statements: &'static str) {
    let mut connection = connect(&directory.join("sessions.db")).await;
    sqlx::raw_sql(statements).execute(&mut connection).await.unwrap();
    connection.close().await.unwrap();
}

async fn format_of(file: &Path) -> i64 {
    let mut connection = connect(file).await;
    let row = sqlx::query("PRAGMA user_version").fetch_one(&mut connection).await.unwrap();
    let format = row.get(0);
    connection.close().await.unwrap();
    format
}

/// Returns the log of every session, with those that were removed.
async fn logs(store: &impl Store) -> BTreeMap<String, Vec<Event>> {
    let listed = store.sessions().await.unwrap().into_iter();
    let removed = store.removed_sessions().await.unwrap().into_iter().map(|it| it.session);
    let mut logs = BTreeMap::new();
    for session in listed.chain(removed) {
        let events = store.events(session.id, EventNumber(0), 10_000).await.unwrap();
        logs.insert(session.id.to_string(), events);
    }
    logs
}

async fn migrated(directory: &Path) -> BTreeMap<String, Vec<Event>> {
    let store = SqliteStore::open(directory).await.unwrap();
    let logs = logs(&store).await;
    store.close().await;
    logs
}

#[tokio::test]
async fn the_file_of_the_earlier_version_is_kept_beside_the_new_one() {
    let data = sqlite_5();
    let before = fs::read(data.path().join("sessions.db")).unwrap();
    migrated(data.path()).await;
    assert_eq!(format_of(&data.path().join("sessions.db")).await, 7);
    let backup = data.path().join("sessions.format-5.db");
    assert_eq!(fs::metadata(&backup).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(format_of(&backup).await, 5);
    let names = fs::read_dir(data.path()).unwrap().map(|entry| entry.unwrap().file_name());
    let drafts = names.filter(|name| name.to_str().unwrap().contains("draft")).count();
    assert_eq!(drafts, 0);

    let restored = TempDir::new().unwrap();
    fs::copy(&backup, restored.path().join("sessions.db")).unwrap();
    let reader = Reader { data: restored.path(), store: None };
    let list = ["sessions", "list", "--all", "--json"];
    reader.compare(&stores().join("sqlite-5/expected"), "list.json", &list);
    let original = TempDir::new().unwrap();
    fs::write(original.path().join("sessions.db"), before).unwrap();
    assert_eq!(migrated(restored.path()).await, migrated(original.path()).await);
}

#[tokio::test]
async fn every_event_of_a_migrated_log_says_so_and_has_its_number() {
    let data = sqlite_5();
    for (session, events) in migrated(data.path()).await {
        for (event, number) in events.iter().zip(1..) {
            assert!(event.migrated, "{session}: {event:?}");
            assert_eq!(event.number, Some(EventNumber(number)), "{session}");
        }
        assert!(matches!(events[0].kind, EventKind::Created { .. }), "{session}");
    }
}

/// The rows of a table as JSON, in order.
async fn rows(file: &Path, query: &'static str) -> Vec<Value> {
    let mut connection = connect(file).await;
    let rows = sqlx::query(query).fetch_all(&mut connection).await.unwrap();
    connection.close().await.unwrap();
    rows.iter().map(|row| serde_json::from_str(row.get(0)).unwrap()).collect()
}

#[tokio::test]
async fn a_migrated_log_adds_up_to_the_rows_that_it_was_made_from() {
    let data = sqlite_5();
    migrated(data.path()).await;
    let (old, new) = (data.path().join("sessions.format-5.db"), data.path().join("sessions.db"));
    for query in [
        "SELECT json_array(session, number, answers, content, \
         json(coalesce(json_extract(rest, '$.message'), rest))) FROM message ORDER BY session, number",
        "SELECT json_array(session, reader, number) FROM mail ORDER BY session, reader, number",
        "SELECT json_array(session, number, member, answers, intent, asker, state, reply, problem, attempts, \
         queued_at, ended_at) FROM turn ORDER BY session, number",
        "SELECT json_array(session, turn, number, has_ended, json_remove(record, '$.ended.events', '$.event')) \
         FROM attempt ORDER BY session, turn, number",
        "SELECT json_array(id, created_at, updated_at, name, directory, team, first_task, rehearsal, json(state), \
         messages, turns, removed_at) FROM session ORDER BY id",
    ] {
        let (old, new) = (rows(&old, query).await, rows(&new, query).await);
        assert_eq!(old.len(), new.len(), "{query}");
        for (old, new) in old.iter().zip(&new) {
            assert_eq!(old, new, "{query}");
        }
    }
}

const TO_FORMAT_4: &str = "
    DROP TRIGGER message_added; DROP TRIGGER message_removed; DROP TABLE message_search;
    ALTER TABLE session DROP COLUMN removed_at; PRAGMA user_version = 4;";
const TO_FORMAT_3: &str = "
    DROP TABLE request; DROP TABLE request_text;
    DROP TABLE progress; ALTER TABLE session DROP COLUMN rehearsal;
    PRAGMA user_version = 3;";
const TO_FORMAT_2: &str = "
    DROP TABLE thread; DROP TABLE thread_line;
    CREATE TABLE thread_line (
        thread TEXT NOT NULL, number BIGINT NOT NULL, line TEXT NOT NULL,
        PRIMARY KEY (thread, number)
    );
    PRAGMA user_version = 2;";
const TO_FORMAT_1: &str = "DROP TABLE thread_line; PRAGMA user_version = 1;";
const TO_FORMAT_6: &str = concat!(
    include_str!("../../../../conversation/session/src/store/sqlite/to-format-6.sql"),
    "PRAGMA user_version = 6;"
);

#[tokio::test]
async fn a_file_of_any_format_becomes_the_same_log() {
    let of_format_5 = migrated(sqlite_5().path()).await;
    // Before format 4 nothing told a rehearsal from a conversation, and nothing was stored of a running attempt.
    let without_later_fields = |(session, events): (&String, &Vec<Event>)| {
        let mut events = events.clone();
        if let EventKind::Created { rehearsal, .. } = &mut events[0].kind {
            *rehearsal = None;
        }
        let is_running = |event: &Event| {
            matches!(&event.kind, EventKind::TurnStarted { turn, .. }
            if !events.iter().any(|other| other.kind.turn() == Some(*turn)
                && matches!(other.kind, EventKind::TurnEnded { .. } | EventKind::TurnInterrupted { .. })))
        };
        let is_known = !events.iter().any(is_running);
        is_known.then(|| (session.clone(), events))
    };
    for (format, back) in [
        (6, &[TO_FORMAT_6][..]),
        (4, &[TO_FORMAT_4]),
        (3, &[TO_FORMAT_4, TO_FORMAT_3]),
        (2, &[TO_FORMAT_4, TO_FORMAT_3, TO_FORMAT_2]),
        (1, &[TO_FORMAT_4, TO_FORMAT_3, TO_FORMAT_2, TO_FORMAT_1]),
    ] {
        let data = sqlite_5();
        for statements in back {
            execute(data.path(), statements).await;
        }
        assert_eq!(format_of(&data.path().join("sessions.db")).await, format);
        let logs = migrated(data.path()).await;
        assert_eq!(logs.len(), 17, "format {format}");
        let backup = data.path().join(format!("sessions.format-{format}.db"));
        assert_eq!(format_of(&backup).await, format);
        if format > 3 {
            assert!(logs == of_format_5, "format {format}");
        } else {
            let expected: Vec<_> = of_format_5.iter().filter_map(without_later_fields).collect();
            assert_eq!(expected.len(), 16);
            for (session, events) in expected {
                assert_eq!(logs[&session], events, "format {format}: {session}");
            }
        }
    }
}

/// Migrates a store in a child, which ends at a write point. Returns whether it has finished before.
fn has_finished(store: &str, failpoint: u64) -> bool {
    let mut child = Command::new(env::current_exe().unwrap());
    child.args(["--exact", "migration::the_child", "--nocapture", "--test-threads=1"]);
    child.env(STORE, store).env(FAILPOINT, failpoint.to_string());
    child.stdout(Stdio::null()).stderr(Stdio::null());
    child.status().unwrap().success()
}

/// Not a test itself: the child that the other tests start.
#[tokio::test]
async fn the_child() {
    let Ok(store) = env::var(STORE) else { return };
    let failpoint = Failpoint::at(env::var(FAILPOINT).unwrap().parse().unwrap());
    if store.starts_with("postgres:") {
        PostgresStore::migrate_with(store.parse().unwrap(), &failpoint).await.unwrap();
    } else {
        let directory = Path::new(&store);
        SqliteStore::open_with(directory, Durability::Process, failpoint).await.unwrap();
    }
}

/// Copies the store, with one session of each kind of turn.
async fn small_sqlite_5() -> TempDir {
    let data = sqlite_5();
    execute(
        data.path(),
        "DELETE FROM session WHERE substr(id, -8) NOT IN \
         ('e2a32da5', '078491ec', '36b3c934', 'e59a63ce', 'e80d605e')",
    )
    .await;
    data
}

#[tokio::test]
async fn a_file_whose_migration_is_killed_at_any_write_is_migrated_next_time() {
    let expected = migrated(small_sqlite_5().await.path()).await;
    assert_eq!(expected.len(), 5);
    let mut kills = 0;
    let mut was_new = 0;
    loop {
        let data = small_sqlite_5().await;
        if has_finished(data.path().to_str().unwrap(), kills + 1) {
            break;
        }
        kills += 1;
        match format_of(&data.path().join("sessions.db")).await {
            5 => {}
            7 => was_new += 1,
            other => panic!("killed at write {kills}: format {other}"),
        }
        assert!(migrated(data.path()).await == expected, "killed at write {kills}");
    }
    println!("{kills} kills");
    assert!(kills > 30, "{kills}");
    assert_eq!(was_new, 1, "only the last write point is after the commit");
}

#[tokio::test]
async fn a_database_whose_migration_is_killed_is_old_or_new() {
    let cluster = Cluster::start();
    let on = |database: &str| cluster.url().replace("/postgres?", &format!("/{database}?"));
    let psql = |statement: &str| {
        let mut psql = Command::new("psql");
        psql.args(["--quiet", "--set=ON_ERROR_STOP=1", "--command", statement, &cluster.url()]);
        assert!(psql.status().unwrap().success(), "{statement}");
    };
    psql("CREATE DATABASE old");
    load_postgres_4(&on("old"));
    psql("CREATE DATABASE reference TEMPLATE old");
    assert_eq!(PostgresStore::migrate(&on("reference"), None).await.unwrap(), 4);
    let reference = PostgresStore::open(&on("reference"), None).await.unwrap();
    let expected = logs(&reference).await;
    reference.close().await;
    // Every transaction is whole or nothing: some of the write points are enough.
    let mut kills = 0;
    for failpoint in (1..).step_by(23) {
        let database = format!("killed_{failpoint}");
        psql(&format!("CREATE DATABASE {database} TEMPLATE old"));
        if has_finished(&on(&database), failpoint) {
            break;
        }
        kills += 1;
        assert_eq!(PostgresStore::migrate(&on(&database), None).await.unwrap(), 4);
        let store = PostgresStore::open(&on(&database), None).await.unwrap();
        assert!(logs(&store).await == expected, "killed at write {failpoint}");
        store.close().await;
        psql(&format!("DROP DATABASE {database}"));
    }
    println!("{kills} kills");
    assert!(kills > 3, "{kills}");
}

#[tokio::test]
async fn a_database_is_not_migrated_while_a_node_is_alive() {
    let cluster = Cluster::start();
    load_postgres_4(&cluster.url());
    let mut psql = Command::new("psql");
    let node = "INSERT INTO node (name, epoch, until, pid, host, since, about) \
        VALUES ('build', 1, clock_timestamp() + interval '1 minute', 77, 'elsewhere', 0, '{}')";
    psql.args(["--quiet", "--set=ON_ERROR_STOP=1", "--command", node, &cluster.url()]);
    assert!(psql.status().unwrap().success());
    let refused = PostgresStore::migrate(&cluster.url(), None).await.unwrap_err().to_string();
    assert!(refused.contains("process 77 on elsewhere uses the database"), "{refused}");
    let still = PostgresStore::open(&cluster.url(), None).await.unwrap_err().to_string();
    assert!(still.contains("tables of format 4"), "{still}");
}
