//! The SQLite store: conformance, and what only files have.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use convoke_session::conformance::{self, new_session};
use convoke_session::{SqliteStore, Store, StoreError};

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
    let _hold = store.hold(new.id, convoke_session::store::Holder::this_process(0)).await.unwrap();
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

/// Opens a directory whose file has these bytes, and returns why that was refused.
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
    let newer = refusal(|bytes| bytes[60..64].copy_from_slice(&4_u32.to_be_bytes())).await;
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
