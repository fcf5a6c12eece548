//! Crashes with models in the team: a child process runs a conversation and is killed at every write point,
//! also while turns are compacted, fail, are cancelled and retried. At any moment, a model's thread contains
//! exactly the turns of its session, in the end each once, and every sent request is stored.

#![expect(clippy::unwrap_used, clippy::panic, reason = "the functions of a test")]

mod child;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

use convoke_agent::thread::ThreadStore as _;
use convoke_model::{Log, stored_thread};
use convoke_protocol::id::TurnId;
use convoke_protocol::turn::TurnState;
use convoke_protocol::verdict::Verdict;
use convoke_rehearsal::script::Condition;
use convoke_rehearsal::{Answer, End, Rehearsal, Reply, Script, Usage, start};
use convoke_session::{SqliteStore, Store, StoreError};
use tempfile::TempDir;

/// Starts a server whose every answer fills the thread, so that each turn but the first compacts it.
async fn server(faults: impl IntoIterator<Item = Answer>) -> Rehearsal {
    let usage = Usage { input: child::WINDOW - 5_000, output: 10, cached: 0 };
    let answer = Reply::default().say("Noted.").with_usage(usage);
    start(Script::new(faults).with_default(answer.into())).await.unwrap()
}

/// Returns faults: requests that fail, and responses that hang until their turn is cancelled.
fn faults() -> Vec<Answer> {
    let when = |text: &str| Condition { contains: Some(text.to_owned()), ..Condition::default() };
    let hang = || Answer::from(Reply::default().say(child::THINKING).end(End::Hang));
    vec![
        Answer::error(400).when(when("second")),
        hang().when(when("third")),
        hang().when(when("third")),
    ]
}

/// The messages of a session, and the threads of its models.
#[derive(Debug, Default, PartialEq)]
struct StoredData {
    messages: u64,
    /// The thread of each model, without the server's response numbers.
    remembered: BTreeMap<&'static str, String>,
}

fn run_child(directory: &Path, server: &Rehearsal, dies_at: Option<u64>) -> bool {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "the_child", "--nocapture", "--test-threads=1"])
        .env(child::DIRECTORY, directory)
        .env(child::SERVER, format!("{}/v1", server.base_url()))
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    if let Some(nth) = dies_at {
        command.env(child::FAILPOINT, nth.to_string());
    }
    command.status().unwrap().success()
}

/// Reads the data that a child left, and checks that session and threads agree.
async fn look(directory: &Path) -> StoredData {
    let store = SqliteStore::open(&directory.join("state")).await.unwrap();
    let session = match store.session(child::session()).await {
        Ok(session) => session,
        Err(StoreError::NoSession(_)) => return StoredData::default(),
        Err(error) => panic!("{error}"),
    };
    let mut left = StoredData { messages: session.state.last_message.0, ..StoredData::default() };
    let turns = store.turns_after(child::session(), TurnId(0), 1000).await.unwrap();
    for member in ["ada", "bob"] {
        let mut done: Vec<_> = turns
            .iter()
            .filter(|turn| turn.state == TurnState::Done && turn.member.as_str() == member)
            .collect();
        done.sort_by_key(|turn| turn.reply);
        let done: Vec<_> = done.iter().map(|it| format!("{}/{}", it.id, it.answers)).collect();
        let log = Log::load(&store, &child::thread(member)).await.unwrap().unwrap_or_default();
        // A cancelled turn stays in the thread until it is retried.
        let mut cancelled = None;
        for turn in turns.iter().filter(|it| it.state != TurnState::Done) {
            let attempts = store.attempts(child::session(), turn.id).await.unwrap();
            let mut ended = attempts.into_iter().filter_map(|attempt| attempt.ended);
            if turn.member.as_str() == member && ended.any(|it| it.verdict == Verdict::Cancelled) {
                cancelled = Some(format!("{}/{}", turn.id, turn.answers));
            }
        }
        let held: Vec<_> = done.into_iter().chain(cancelled).collect();
        assert_eq!(log.turns, held, "{member} remembers what its session has, in its order");
        let lines = store.thread_lines(&child::thread(member)).await.unwrap();
        let lines: Vec<&str> = lines.iter().map(|line| &*line.text).collect();
        if !lines.is_empty() {
            assert_eq!(stored_thread::check(&lines), Ok(()));
        }
        let directory = directory.display().to_string();
        let events = format!("{:#?}", log.record.events).replace(&directory, "");
        left.remembered.insert(member, without_numbers(&events));
    }
    store.close().await;
    left
}

/// Checks that every request that the server received was stored first.
async fn assert_all_is_stored(directory: &Path, server: &Rehearsal) {
    let store = SqliteStore::open(&directory.join("state")).await.unwrap();
    let mut stored = BTreeMap::new();
    for member in ["ada", "bob"] {
        let thread = child::thread(member);
        for request in store.requests(&thread).await.unwrap() {
            let texts = store.request_texts(&thread, request.number).await.unwrap();
            assert_eq!(request.meta.bytes, texts.body.len() as u64);
            *stored.entry(texts.body.into_bytes()).or_insert(0) += 1;
        }
    }
    for call in server.model_calls() {
        let left = stored.get_mut(&call.body[..]).filter(|left| **left > 0);
        *left.unwrap_or_else(|| panic!("sent and not stored: {:?}", call.body)) -= 1;
    }
    store.close().await;
}

/// Removes the numbers of the server's responses.
fn without_numbers(text: &str) -> String {
    let mut parts = text.split("rehearsal_");
    let mut clean = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        clean.push_str(part.trim_start_matches(|c: char| c.is_ascii_digit() || c == '_'));
    }
    clean
}

/// Returns a directory in memory, if possible: a killed process does not need a disk.
fn scratch() -> TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

/// Kills children one after another, then lets one finish. Returns the number of kills and the final data.
async fn survive(deaths: &[u64]) -> (usize, StoredData) {
    let (directory, server) = (scratch(), server(faults()).await);
    let mut kills = 0;
    for death in deaths {
        kills += usize::from(!run_child(directory.path(), &server, Some(*death)));
        look(directory.path()).await;
        assert_all_is_stored(directory.path(), &server).await;
    }
    assert!(run_child(directory.path(), &server, None), "the session is opened again");
    let left = look(directory.path()).await;
    assert_all_is_stored(directory.path(), &server).await;
    (kills, left)
}

/// Returns the final data of a run without faults.
async fn reference() -> StoredData {
    let (directory, server) = (scratch(), server([]).await);
    assert!(run_child(directory.path(), &server, None));
    let left = look(directory.path()).await;
    assert_eq!(left.messages, 7);
    let ada = &left.remembered["ada"];
    assert_eq!(ada.matches("Compacted {").count(), 2, "each turn but the first compacts: {ada}");
    left
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_at_any_write_point_leaves_each_turn_remembered_once() {
    let reference = reference().await;
    let mut points = 0;
    loop {
        let (kills, left) = survive(&[points + 1]).await;
        assert_eq!(left, reference, "after a crash at point {}", points + 1);
        if kills == 0 {
            break;
        }
        points += 1;
    }
    println!("{points} write points");
    assert!(points > 130, "{points}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_while_recovering_from_a_crash_is_no_worse() {
    let reference = reference().await;
    let mut all_kills = 0;
    for n in 0..12 {
        let (kills, left) = survive(&[3 + n * 9, 1 + n % 9, 5 + n % 23]).await;
        assert_eq!(left, reference, "round {n}");
        all_kills += kills;
    }
    assert_eq!(all_kills, 3 * 12);
}

/// Not a test itself: the child that the other tests start.
#[test]
fn the_child() {
    if let Some(directory) = std::env::var_os(child::DIRECTORY) {
        child::main(Path::new(&directory));
    }
}
