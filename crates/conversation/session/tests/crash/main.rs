//! Crashes: a child process runs a conversation and is killed at every write point and at random times. At any
//! moment, every acknowledged message is stored once, and the resumed session ends as if it had not crashed.
//!
//! `CONVOKE_CRASH_KILLS` sets how many children are killed at random times.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "the functions of a test"
)]

mod child;

use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use convoke_protocol::id::{MessageNumber, TurnId};
use convoke_protocol::turn::TurnState;
use convoke_session::replay::{ReplayResult, verify};
use convoke_session::verify::rebuild;
use convoke_session::{SqliteStore, Store, StoreError};
use tempfile::TempDir;

/// The result of a child.
struct ChildRun {
    status: ExitStatus,
    took: Duration,
    /// The messages that it acknowledged: number, speaker and text.
    acknowledged: Vec<String>,
}

/// The moment at which to kill a child.
#[derive(Clone, Copy)]
enum Death {
    Never,
    AtWritePoint(u64),
    After(Duration),
}

fn run_child(directory: &Path, death: Death) -> ChildRun {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "the_child", "--nocapture", "--test-threads=1"])
        .env(child::DIRECTORY, directory)
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    if let Death::AtWritePoint(nth) = death {
        command.env(child::FAILPOINT, nth.to_string());
    }
    let began = Instant::now();
    let mut process = command.spawn().unwrap();
    if let Death::After(time) = death {
        std::thread::sleep(time);
        process.kill().unwrap();
    }
    let output = process.wait_with_output().unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    let acknowledged = stdout.lines().filter_map(|line| line.strip_prefix(child::ACKNOWLEDGED));
    let acknowledged = acknowledged.map(str::to_owned).collect();
    ChildRun { status: output.status, took: began.elapsed(), acknowledged }
}

/// Returns the whole conversation, after checking its consistency.
async fn conversation(directory: &Path) -> Vec<String> {
    let store = SqliteStore::open(directory).await.unwrap();
    let session = match store.session(child::session()).await {
        Ok(session) => session,
        Err(StoreError::NoSession(_)) => return Vec::new(),
        Err(error) => panic!("{error}"),
    };
    let id = session.began.id;
    let messages = store.messages_after(id, MessageNumber(0), 1000).await.unwrap();
    assert_eq!(session.state.last_message.0, messages.len() as u64, "no message is missing");
    let turns = store.turns_after(id, TurnId(0), 1000).await.unwrap();
    assert_eq!(session.state.last_turn.0, turns.len() as u64, "no turn is missing");
    let mut replies: Vec<_> = turns.iter().filter_map(|turn| turn.reply).collect();
    replies.sort();
    let said_by_agents = messages.iter().filter(|message| message.message.speaker.is_ai());
    let said_by_agents: Vec<_> = said_by_agents.map(|message| message.number).collect();
    assert_eq!(replies, said_by_agents, "every reply belongs to one turn, and none is there twice");
    for turn in &turns {
        assert_eq!(turn.state == TurnState::Done, turn.reply.is_some(), "{turn:?}");
    }
    for replayed in verify(&store, id).await.unwrap() {
        assert_eq!(replayed.result, ReplayResult::Same, "what was sent can be shown");
    }
    assert_eq!(rebuild(&store, id).await.unwrap(), [], "the tables are what the log tells");
    store.close().await;
    messages.iter().map(child::line).collect()
}

/// Returns a directory in memory, if possible: a killed process does not need a disk.
fn scratch() -> TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

/// The children that [`survive`] started.
struct Survived {
    /// The number of children that were killed before they had finished.
    kills: usize,
    /// The time that the last child took to finish.
    took: Duration,
}

/// Kills children one after another until one finishes first, checks the data that each left, and lets one more
/// finish.
async fn survive(deaths: &[Death], reference: &[String]) -> Survived {
    let directory = scratch();
    let mut acknowledged = Vec::new();
    let mut kills = 0;
    for death in deaths {
        let ran = run_child(directory.path(), *death);
        acknowledged.extend(ran.acknowledged);
        let left = conversation(directory.path()).await;
        for line in &acknowledged {
            assert!(left.contains(line), "`{line}` was acknowledged and is missing in {left:#?}");
        }
        assert!(reference.starts_with(&left), "{left:#?}");
        if ran.status.success() {
            break;
        }
        kills += 1;
    }
    let ran = run_child(directory.path(), Death::Never);
    assert!(ran.status.success(), "the session is opened again");
    assert_eq!(conversation(directory.path()).await, reference);
    Survived { kills, took: ran.took }
}

async fn reference() -> Vec<String> {
    let directory = scratch();
    let ran = run_child(directory.path(), Death::Never);
    assert!(ran.status.success());
    let reference = conversation(directory.path()).await;
    assert_eq!(reference.len(), ran.acknowledged.len());
    reference
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_at_any_write_point_loses_and_doubles_nothing() {
    let reference = reference().await;
    let mut points = 0;
    while survive(&[Death::AtWritePoint(points + 1)], &reference).await.kills > 0 {
        points += 1;
    }
    println!("{points} write points");
    assert!(points > 120, "{points}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_while_recovering_from_a_crash_is_no_worse() {
    let reference = reference().await;
    let mut kills = 0;
    for n in 0..40 {
        let deaths = [2 + n * 3, 1 + n % 9, 5 + n % 23].map(Death::AtWritePoint);
        kills += survive(&deaths, &reference).await.kills;
    }
    assert_eq!(kills, 3 * 40);
}

fn kills() -> u32 {
    let set = std::env::var("CONVOKE_CRASH_KILLS").ok();
    set.map_or(150, |kills| kills.parse().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kill_at_any_time_loses_and_doubles_nothing() {
    let reference = reference().await;
    let rounds = kills();
    let (mut rounds_killed, mut kills) = (0, 0);
    // A child that is killed before the shortest run so far has hardly ever finished.
    let mut shortest = survive(&[], &reference).await.took;
    for n in 0..rounds {
        let after = shortest * (n * 7919 % 1000) / 1000;
        let survived = survive(&[Death::After(after); 2], &reference).await;
        shortest = shortest.min(survived.took);
        rounds_killed += u32::from(survived.kills > 0);
        kills += survived.kills;
    }
    println!("{kills} kills in {rounds_killed} of {rounds} rounds");
    assert!(rounds_killed >= rounds * 3 / 4, "{rounds_killed} of {rounds}");
}

/// Not a test itself: the child that the other tests start.
#[test]
fn the_child() {
    if let Some(directory) = std::env::var_os(child::DIRECTORY) {
        child::main(Path::new(&directory));
    }
}
