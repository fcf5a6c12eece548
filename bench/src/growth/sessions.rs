//! Whole sessions: import, read and fork, by their size.

#![expect(clippy::unwrap_used, reason = "a benchmark that cannot go on ends")]

use convoke_agent::thread::ThreadStore as _;
use convoke_conformance_store::{Log, message, new_session, request, said};
use convoke_protocol::id::{AttemptRef, Millis, SessionId, ThreadId, TurnId};
use convoke_protocol::request::RequestTexts;
use convoke_session::store::{Page, SessionImport as _};
use convoke_session::transfer::{export, fork, import};
use convoke_session::{SqliteStore, Store as _};
use serde_json::json;
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};

use super::{KIB, least, row};
use crate::table::{self, number, time};

/// The number of runs of which a figure is the best.
const RUNS: usize = 3;
/// The bytes of 100,000 messages of a kilobyte.
const LIMIT: usize = 100_000 * KIB;

/// Prints the rows of whole sessions.
pub(super) fn rows() {
    let input = "messages of 1 KiB";
    row(["import of a session", input], LIMIT / 8, LIMIT, |bytes| {
        let stage = Stage::new();
        let session = stage.fill(bytes / KIB);
        let archive = stage.archive(session);
        least(RUNS, || stage.import(&archive))
    });
    row(["all pages of a session", input], LIMIT / 8, LIMIT, |bytes| {
        let stage = Stage::new();
        let session = stage.fill(bytes / KIB);
        least(RUNS, || drop(stage.archive(session)))
    });
    row(["fork of a session", input], LIMIT / 8, LIMIT, |bytes| {
        let stage = Stage::new();
        let session = stage.fill(bytes / KIB);
        least(RUNS, || stage.fork(session))
    });
}

/// Prints the table of imported requests.
pub(super) fn requests() {
    table::begin(
        "Import of a session with requests, each with all of the one before and 2 KiB more",
        &["requests", "archive bytes", "bytes of all requests", "import"],
    );
    for count in [100, 200, 400] {
        let stage = Stage::new();
        let (session, bytes) = stage.add_requests(count);
        let archive = stage.archive(session);
        // Those of a turn that the session does not have would be refused.
        let archive = archive.replace("\"turn\":1,\"attempt\":1", "\"turn\":null,\"attempt\":null");
        let size = archive.len();
        assert!(size as u64 > count * 2000, "the archive lacks the requests");
        // A thread keeps its id, so that a store takes the archive once.
        let mut stages: Vec<Stage> = (0..RUNS).map(|_| Stage::new()).collect();
        let nanos = least(RUNS, || stages.pop().unwrap().import(&archive));
        table::row(&[count.to_string(), number(size), number(bytes), time(nanos)]);
    }
}

/// A store in a directory of its own.
struct Stage {
    _directory: TempDir,
    runtime: Runtime,
    store: SqliteStore,
}

impl Stage {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let store = runtime.block_on(SqliteStore::open(directory.path())).unwrap();
        Self { _directory: directory, runtime, store }
    }

    /// Stores a session of so many messages.
    fn fill(&self, count: usize) -> SessionId {
        let new = new_session();
        let session = new.id;
        let text = "x".repeat(KIB);
        let count = count as u64;
        self.runtime.block_on(async {
            let mut log = Log::of(&new);
            let mut import = self.store.import(new).await.unwrap();
            let numbers: Vec<u64> = (1..=count).collect();
            for numbers in numbers.chunks(1000) {
                let messages = numbers.iter().map(|&n| message(n, None, "max", &["all"], &text));
                let events = log.events(messages.map(said));
                import.write(Page { events, ..Page::default() }).await.unwrap();
            }
            import.finish().await.unwrap();
        });
        session
    }

    /// Stores a session with one message and so many requests, and returns the bytes of their texts.
    fn add_requests(&self, count: u64) -> (SessionId, usize) {
        let session = self.fill(1);
        let thread = ThreadId::of_member(session, "max");
        let mut bytes = 0;
        let mut before: Option<RequestTexts> = None;
        for number in 1..=count {
            let (body, ledger) = before.as_ref().map_or(("[1]", ""), |it| (&it.body, &it.ledger));
            let added = format!(",\"{number} {}\"]", "text ".repeat(400));
            let accounted = if number == 1 { 0 } else { body.len() };
            let body = format!("{}{added}", body.trim_end_matches(']'));
            let entry = json!({
                "target": "prompt", "section": "user", "source": {"kind": "setting", "name": "x"},
                "state": "kept", "keptBytes": body.len() - accounted, "cutBytes": 0,
                "tokensEstimate": 1, "rule": "fits",
            });
            let ledger = format!("{ledger}{entry}\n");
            bytes += body.len() + ledger.len();
            let attempt = AttemptRef { session, turn: TurnId(1), attempt: 1 };
            let record = request(&thread, number, Some(attempt), RequestTexts { body, ledger });
            let added = self.store.add_request(&record, before.as_ref());
            self.runtime.block_on(added).unwrap();
            before = Some(record.texts);
        }
        (session, bytes)
    }

    fn archive(&self, session: SessionId) -> String {
        let mut out = Vec::new();
        self.runtime.block_on(export(&self.store, session, &mut out)).unwrap();
        String::from_utf8(out).unwrap()
    }

    fn import(&self, archive: &str) {
        let import = import(&self.store, archive.as_bytes(), new_session(), &|_| Ok(()));
        self.runtime.block_on(import).unwrap();
    }

    fn fork(&self, session: SessionId) {
        let copy = SessionId::generate();
        self.runtime.block_on(fork(&self.store, session, None, copy, Millis(7), None)).unwrap();
    }
}
