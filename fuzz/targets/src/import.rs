use convoke_protocol::id::{Millis, SessionId};
use convoke_protocol::session::NewSession;
use convoke_session::store::failpoint::Failpoint;
use convoke_session::store::sqlite::Durability;
use convoke_session::transfer::{ArchiveSource, ImportLimits, TransferError, export};
use convoke_session::{SqliteStore, Store};
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};

const LIMITS: ImportLimits = ImportLimits { rows: 1000, bytes: 1 << 20 };

thread_local! {
    /// Opening a store takes much longer than an import.
    static PLACE: Place = Place::new();
}

/// Imports any bytes as an archive or a snapshot: a session comes back from its own export the same to
/// the byte, and a refusal leaves nothing behind.
pub fn import(bytes: &[u8]) -> bool {
    PLACE.with(|place| place.runtime.block_on(check(&place.store, bytes)))
}

/// Returns whether a session was imported.
async fn check(store: &SqliteStore, bytes: &[u8]) -> bool {
    let imported = stored(store, bytes).await;
    if let Ok(session) = imported {
        let exported = taken_out(store, session).await;
        let again = stored(store, &exported).await.expect("our own archive");
        assert_eq!(again, session, "a session keeps its id where that is free");
        assert_eq!(taken_out(store, again).await, exported, "an archive comes back the same");
    }
    assert!(store.sessions().await.expect("the list").is_empty(), "nothing is left behind");
    imported.is_ok()
}

async fn stored(store: &SqliteStore, bytes: &[u8]) -> Result<SessionId, TransferError> {
    let new = NewSession {
        id: SessionId::generate(),
        created_at: Millis(5),
        name: None,
        directory: "/r".to_owned(),
        team: "[[member]]\nname = \"max\"\nagent = \"plain\"\n".to_owned(),
        task: None,
        rehearsal: None,
    };
    let imported = ArchiveSource::open(bytes, LIMITS)?.import(store, new, &|_| Ok(())).await?;
    Ok(imported.session)
}

/// Exports a session and removes it.
async fn taken_out(store: &SqliteStore, session: SessionId) -> Vec<u8> {
    let mut archive = Vec::new();
    export(store, session, &mut archive).await.expect("a stored session");
    store.remove(session).await.expect("a stored session");
    archive
}

struct Place {
    runtime: Runtime,
    store: SqliteStore,
    _directory: TempDir,
}

impl Place {
    fn new() -> Self {
        let directory = TempDir::new().expect("a directory");
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        let opened =
            SqliteStore::open_with(directory.path(), Durability::Process, Failpoint::default());
        let store = runtime.block_on(opened).expect("a store");
        Self { runtime, store, _directory: directory }
    }
}
