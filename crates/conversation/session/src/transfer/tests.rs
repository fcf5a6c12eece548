//! The cost of copying whole sessions, counted in hashed bytes.

use convoke_agent::thread::ThreadStore as _;
use convoke_core::marker::TextPolicy;
use convoke_core::{MessageId, NewMessage};
use convoke_protocol::agent_event::RequestPurpose;
use convoke_protocol::event::{Event, EventKind};
use convoke_protocol::id::{
    AttemptRef, EventNumber, MessageNumber, Millis, SessionId, ThreadId, TurnId,
};
use convoke_protocol::message::Message;
use convoke_protocol::request::{RequestMeta, RequestOutcome, RequestRecord, RequestTexts};
use convoke_protocol::session::NewSession;
use serde_json::json;
use tempfile::TempDir;

use super::pages::Pages;
use super::{ArchiveSource, ImportLimits, TransferError, export, fork, import};
use crate::request::tests::HASHED;
use crate::store::sqlite::SqliteStore;
use crate::store::{Page, SessionImport, Store};

async fn store() -> (TempDir, SqliteStore) {
    let directory = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(directory.path()).await.unwrap();
    (directory, store)
}

fn new_session() -> NewSession {
    NewSession {
        id: SessionId::generate(),
        created_at: Millis(1),
        name: None,
        directory: "/project".to_owned(),
        team: "[[member]]\nname = \"max\"\nagent = \"claude\"\n".to_owned(),
        task: None,
        rehearsal: None,
    }
}

fn message(number: u64) -> Message {
    let said = NewMessage::from_person("kailai", "text");
    let message = said.with_id(MessageId::numbered(number));
    Message::new(MessageNumber(number), None, message, TextPolicy::Preserve)
}

/// Imports a session of `count` messages.
async fn import_messages(store: &SqliteStore, new: NewSession, count: u64) {
    let session = new.id;
    let mut import = store.import(new).await.unwrap();
    let event = |number: u64| Event {
        kind: EventKind::Message(Box::new(message(number))),
        session,
        at: Millis(2),
        number: Some(EventNumber(number + 1)),
        migrated: false,
    };
    let events = (1..=count).map(event).collect();
    import.write(Page { events, ..Page::default() }).await.unwrap();
    import.finish().await.unwrap();
}

/// Creates a session with one message and a thread of `count` requests, each containing the previous one.
/// Returns it with the total size of the texts.
async fn with_requests(store: &SqliteStore, count: u64) -> (SessionId, usize) {
    let new = new_session();
    let session = new.id;
    import_messages(store, new, 1).await;
    let thread = ThreadId::of_member(session, "max");
    let mut bytes = 0;
    let mut before: Option<RequestTexts> = None;
    for number in 1..=count {
        let (body, ledger) = before.as_ref().map_or(("[1]", ""), |it| (&it.body, &it.ledger));
        let added = format!(",\"{number} é漢🦀 {}\"]", "text ".repeat(40));
        let entry = |bytes: usize| {
            json!({
                "target": "prompt", "section": "user", "source": {"kind": "setting", "name": "x"},
                "state": "kept", "keptBytes": bytes, "cutBytes": 0, "tokensEstimate": 1,
                "rule": "fits",
            })
        };
        let accounted = if number == 1 { 0 } else { body.len() };
        let body = format!("{}{added}", body.trim_end_matches(']'));
        let ledger = format!("{ledger}{}\n", entry(body.len() - accounted));
        bytes += body.len() + ledger.len();
        let texts = RequestTexts { body, ledger };
        let record = RequestRecord {
            thread: thread.clone(),
            number,
            attempt: Some(AttemptRef { session, turn: TurnId(1), attempt: 1 }),
            meta: RequestMeta::new(
                Millis(0),
                "/path",
                RequestPurpose::Answer,
                texts.body.len() as u64,
            ),
            outcome: RequestOutcome::default(),
            texts,
        };
        store.add_request(&record, before.as_ref()).await.unwrap();
        before = Some(record.texts);
    }
    (session, bytes)
}

/// Returns an archive without the turns that its requests name.
async fn archive(store: &SqliteStore, session: SessionId) -> String {
    let mut out = Vec::new();
    export(store, session, &mut out).await.unwrap();
    let text = String::from_utf8(out).unwrap();
    text.replace("\"turn\":1,\"attempt\":1", "\"turn\":null,\"attempt\":null")
}

#[tokio::test]
async fn every_text_of_a_request_is_hashed_once_on_the_way_out_and_once_on_the_way_in() {
    let (_directory, store) = store().await;
    let (session, bytes) = with_requests(&store, 130).await;
    HASHED.set(0);
    let text = archive(&store, session).await;
    // A text stored whole is compared with the previous one, which takes one more hash, and each page begins
    // with a whole request.
    let whole_and_pages = bytes / 8;
    assert!(HASHED.get() <= bytes + whole_and_pages, "{} of {bytes}", HASHED.get());
    store.remove(session).await.unwrap();
    HASHED.set(0);
    import(&store, text.as_bytes(), new_session(), &|_| Ok(())).await.unwrap();
    assert_eq!(HASHED.get(), bytes, "an import hashes each text once");
    let thread = ThreadId::of_member(session, "max");
    assert_eq!(store.requests(&thread).await.unwrap().len(), 130);
    HASHED.set(0);
    fork(&store, session, None, SessionId::generate(), Millis(7), None).await.unwrap();
    assert!(HASHED.get() <= bytes + whole_and_pages, "{} of {bytes}", HASHED.get());
}

#[test]
fn a_snapshot_of_many_lines_is_no_larger_than_one_of_one() {
    /// Lines without an end.
    struct Endless(u64);
    impl std::io::Read for Endless {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            buffer.fill(b'x');
            if let Some(last) = buffer.last_mut() {
                *last = b'\n';
            }
            self.0 += buffer.len() as u64;
            Ok(buffer.len())
        }
    }
    let mut reader = std::io::BufReader::with_capacity(1 << 20, Endless(0));
    let refused = ArchiveSource::open(&mut reader, ImportLimits::default()).err().unwrap();
    assert!(refused.to_string().contains("is larger than"), "{refused}");
    assert!(reader.get_ref().0 < 300 << 20, "{} bytes were read", reader.get_ref().0);
}

#[tokio::test]
async fn an_import_stops_at_its_limits_and_leaves_nothing_behind() {
    let (_directory, store) = store().await;
    let (session, bytes) = with_requests(&store, 60).await;
    let text = archive(&store, session).await;
    store.remove(session).await.unwrap();
    assert!(bytes > 5 * text.len(), "the archive is {} bytes for {bytes}", text.len());
    let usual = ImportLimits::default();
    let size = text.len() as u64;
    let all = size + bytes as u64;
    let cases = [
        (ImportLimits { bytes: size / 2, ..usual }, "is larger than"),
        (ImportLimits { bytes: all - 1, ..usual }, "with its requests in full"),
        (ImportLimits { rows: 60, ..usual }, "has more than 60 rows, the limit of an import"),
    ];
    for (limits, why) in cases {
        let source = ArchiveSource::open(text.as_bytes(), limits).unwrap();
        let refused = source.import(&store, new_session(), &|_| Ok(())).await.unwrap_err();
        assert!(matches!(refused, TransferError::Invalid { .. }), "{refused}");
        assert!(refused.to_string().contains(why), "{refused}");
        assert_eq!(store.sessions().await.unwrap(), [], "{why}");
    }
    let enough = ImportLimits { rows: 61, bytes: all };
    let source = ArchiveSource::open(text.as_bytes(), enough).unwrap();
    source.import(&store, new_session(), &|_| Ok(())).await.unwrap();
}

#[tokio::test]
async fn a_session_is_read_and_copied_in_pages_of_bounded_size() {
    let (_directory, store) = store().await;
    let new = new_session();
    let session = new.id;
    import_messages(&store, new, 1500).await;

    let mut pages = Pages::open(&store, session).await.unwrap();
    let (mut rows, mut largest) = (0, 0);
    while let Some(page) = pages.next().await.unwrap() {
        rows += page.events.len();
        largest = largest.max(page.events.len());
    }
    assert_eq!((rows, largest), (1500, 256));
    let copy = SessionId::generate();
    fork(&store, session, Some(MessageNumber(1000)), copy, Millis(7), None).await.unwrap();
    let copied = store.messages_after(copy, MessageNumber(0), 2000).await.unwrap();
    assert_eq!(copied, store.messages_after(session, MessageNumber(0), 1000).await.unwrap());
}
