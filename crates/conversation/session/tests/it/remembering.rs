//! Members that remember: what each request of a continued session holds, compared with the log.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use convoke_agent::turn::Continuity;
use convoke_agent::{Agent, AgentTurn, TurnInput, TurnResult};
use convoke_protocol::event::StopReason;
use convoke_protocol::id::{Millis, SessionId, TurnId};
use convoke_protocol::memory::Branch;
use convoke_protocol::resume::ResumeHandle;
use convoke_protocol::verdict::{Failure, FailureReason, Verdict};
use convoke_redact::Redactor;
use convoke_session::replay::{ReplayResult, verify};
use convoke_session::transfer::fork;
use convoke_session::verify::rebuild;
use convoke_session::{Coordinator, NewMessage, SqliteStore, Store};

use crate::test_session::{TestSession, says};

/// What a program does in a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Deed {
    Answers,
    /// Fails after the prompt is in its session.
    Fails,
}

/// The sessions of a program: the prompts and replies of each, as they are in the window of its next request.
#[derive(Default)]
struct Sessions {
    by_id: HashMap<String, Vec<String>>,
    deeds: Vec<Deed>,
    /// The window of every request.
    windows: Vec<String>,
    branches: Vec<Option<Branch>>,
}

/// A program whose sessions go on, and return to any state.
#[derive(Clone, Default)]
struct Program(Arc<Mutex<Sessions>>);

impl Program {
    fn windows(&self) -> Vec<String> {
        self.0.lock().unwrap().windows.clone()
    }

    fn plans(&self, deeds: &[Deed]) {
        self.0.lock().unwrap().deeds.extend(deeds);
    }
}

impl Agent for Program {
    fn continuity(&self) -> Continuity {
        Continuity::Rewound
    }

    fn start(&self, turn_input: TurnInput) -> AgentTurn {
        let (turn, side) = AgentTurn::open(Redactor::default());
        let result = self.0.lock().unwrap().take(&turn_input);
        tokio::spawn(side.finish(result));
        turn
    }
}

impl Sessions {
    fn take(&mut self, turn_input: &TurnInput) -> TurnResult {
        let memory = turn_input.memory;
        self.branches.push(turn_input.resume.as_ref().and(memory).map(|memory| memory.branch));
        let new = || format!("session-{}", self.by_id.len());
        let (id, mut window) = match (&turn_input.resume, memory) {
            (Some(handle), Some(memory)) => {
                let Some(known) = self.by_id.get(&handle.session) else {
                    let gone = Failure::new(FailureReason::Session, "no such session");
                    return TurnResult::failed(gone);
                };
                let mark: usize = handle.mark.as_deref().unwrap().parse().unwrap();
                match memory.branch {
                    // A program that is not told to return continues with whatever is there.
                    Branch::Same => (handle.session.clone(), known.clone()),
                    Branch::New => (new(), known[..mark].to_vec()),
                }
            }
            _ => (new(), Vec::new()),
        };
        window.push(turn_input.prompt.clone());
        self.windows.push(window.join("\n=\n"));
        let deed = if self.deeds.is_empty() { Deed::Answers } else { self.deeds.remove(0) };
        let reply = format!("reply {}", self.windows.len());
        let verdict = match deed {
            Deed::Answers => {
                window.push(reply.clone());
                Verdict::Done
            }
            Deed::Fails => Verdict::Failed(Failure::new(FailureReason::Server, "busy")),
        };
        let mark = Some(window.len().to_string());
        self.by_id.insert(id.clone(), window);
        let handle = ResumeHandle { mark, ..ResumeHandle::new(id, &turn_input.cwd) };
        TurnResult { reply, resume: Some(handle), ..TurnResult::new(verdict) }
    }
}

/// Returns a team of two members, of which `max` remembers, and the program of `max`.
async fn team(settings: &str) -> (TestSession, Program) {
    let program = Program::default();
    let max = program.clone();
    let acts = [("max", says(&[])), ("sam", says(&["sam one", "sam two"]))];
    let first = Mutex::new(Some(max));
    let settings = format!("memory = \"session\"\n{settings}");
    let session = TestSession::member_agent("codex", &settings, &acts, |agent| {
        match first.lock().unwrap().take() {
            Some(program) => Arc::new(program),
            None => Arc::new(agent),
        }
    })
    .await;
    (session, program)
}

async fn say(coordinator: &mut Coordinator<SqliteStore>, text: &str) -> StopReason {
    coordinator.accept(NewMessage::from_person("kailai", text)).await.unwrap();
    coordinator.run().await.unwrap()
}

/// Asserts that each text is in a window once, in this order.
fn holds_once(window: &str, texts: &[&str]) {
    let mut at = 0;
    for text in texts {
        assert_eq!(window.matches(text).count(), 1, "`{text}` in:\n{window}");
        let found = window.find(text).unwrap();
        assert!(found >= at, "`{text}` is out of order in:\n{window}");
        at = found;
    }
}

async fn assert_replays(store: &SqliteStore, session: SessionId) {
    for replayed in verify(store, session).await.unwrap() {
        assert_eq!(replayed.result, ReplayResult::Same, "{replayed:?}");
    }
}

#[tokio::test]
async fn a_later_turn_has_only_what_is_new_for_its_member() {
    let (test, program) = team("task = \"Review it\"").await;
    let mut talk = test.begin().await;
    say(&mut talk, "alpha [NEXT: max]").await;
    say(&mut talk, "beta [NEXT: sam]").await;
    say(&mut talk, "gamma [NEXT: max]").await;
    say(&mut talk, "[TEAM_TASK: Fix it] delta [NEXT: max]").await;
    let prompts = test.deliveries["sam"].lock().unwrap().len();
    assert_eq!(prompts, 1);
    let windows = program.windows();
    holds_once(&windows[1], &["Review it", "alpha", "reply 1", "beta", "sam one", "gamma"]);
    holds_once(&windows[2], &["Review it", "alpha", "gamma", "reply 2", "Fix it", "delta"]);
    let last = windows[2].rsplit("\n=\n").next().unwrap();
    assert_eq!(last, "[TEAM_TASK]\nFix it\n\n[MESSAGE]\ndelta");
    assert_replays(&test.store, test.session).await;
    assert!(!test.codes().contains(&"memory.lost".to_owned()), "{:?}", test.codes());
}

#[tokio::test]
async fn messages_beyond_the_window_are_delivered_if_they_came_since_the_last_turn() {
    let (test, program) = team("[context]\nwindow = 2").await;
    let mut talk = test.begin().await;
    say(&mut talk, "alpha [NEXT: max]").await;
    for text in ["beta", "gamma", "delta", "epsilon"] {
        say(&mut talk, &format!("{text} [NEXT: kailai]")).await;
    }
    say(&mut talk, "zeta [NEXT: max]").await;
    let expected = ["alpha", "reply 1", "beta", "gamma", "delta", "epsilon", "zeta"];
    holds_once(&program.windows()[1], &expected);
    assert_replays(&test.store, test.session).await;
}

#[tokio::test]
async fn a_retry_continues_from_the_state_before_the_turn() {
    let (test, program) = team("").await;
    let mut talk = test.begin().await;
    program.plans(&[Deed::Answers, Deed::Fails, Deed::Fails, Deed::Answers]);
    say(&mut talk, "alpha [NEXT: max]").await;
    let stop = say(&mut talk, "beta [NEXT: max]").await;
    assert!(matches!(stop, StopReason::TurnFailed { .. }), "{stop:?}");
    talk.retry(TurnId(2)).await.unwrap();
    talk.run().await.unwrap();
    talk.close().await;
    let mut talk = test.resume().await;
    talk.retry(TurnId(2)).await.unwrap();
    talk.run().await.unwrap();
    say(&mut talk, "gamma [NEXT: max]").await;
    for window in &program.windows()[1..4] {
        holds_once(window, &["alpha", "reply 1", "beta"]);
    }
    holds_once(&program.windows()[4], &["alpha", "reply 1", "beta", "reply 4", "gamma"]);
    let branches = program.0.lock().unwrap().branches.clone();
    let new = Some(Branch::New);
    assert_eq!(branches, [None, Some(Branch::Same), new, new, Some(Branch::Same)]);
    assert_replays(&test.store, test.session).await;
}

#[tokio::test]
async fn a_failed_turn_that_is_not_repeated_is_told_with_the_next_one() {
    let (test, program) = team("").await;
    let mut talk = test.begin().await;
    program.plans(&[Deed::Answers, Deed::Fails]);
    say(&mut talk, "alpha [NEXT: max]").await;
    say(&mut talk, "beta [NEXT: max]").await;
    say(&mut talk, "gamma [NEXT: max]").await;
    holds_once(&program.windows()[2], &["alpha", "reply 1", "beta", "gamma"]);
}

#[tokio::test]
async fn a_session_that_is_gone_is_told_and_the_turn_starts_afresh() {
    let (test, program) = team("").await;
    let mut talk = test.begin().await;
    say(&mut talk, "alpha [NEXT: max]").await;
    program.0.lock().unwrap().by_id.clear();
    let stop = say(&mut talk, "beta [NEXT: max]").await;
    assert!(matches!(stop, StopReason::Idle { .. }), "{stop:?}");
    holds_once(&program.windows()[1], &["alpha", "reply 1", "beta"]);
    assert_eq!(program.windows()[1].matches("\n=\n").count(), 0, "one whole prompt");
    assert!(test.codes().contains(&"memory.lost".to_owned()), "{:?}", test.codes());
    say(&mut talk, "gamma [NEXT: max]").await;
    holds_once(&program.windows()[2], &["alpha", "reply 1", "beta", "reply 2", "gamma"]);
    assert_replays(&test.store, test.session).await;
    assert_eq!(rebuild(&test.store, test.session).await.unwrap(), []);
}

#[tokio::test]
async fn a_copy_of_a_conversation_does_not_write_into_the_same_session() {
    let (test, program) = team("").await;
    let mut talk = test.begin().await;
    say(&mut talk, "alpha [NEXT: max]").await;
    let copy = SessionId::generate();
    fork(&test.store, test.session, None, copy, Millis(9), None).await.unwrap();
    say(&mut talk, "beta [NEXT: max]").await;
    talk.close().await;
    let observer = Box::new(|_: convoke_protocol::event::Event| {});
    let agents = test.team_agents.clone();
    let mut other = Coordinator::open(test.store.clone(), copy, agents, observer).await.unwrap();
    say(&mut other, "gamma [NEXT: max]").await;
    say(&mut other, "delta [NEXT: max]").await;
    let windows = program.windows();
    holds_once(&windows[2], &["alpha", "reply 1", "gamma"]);
    assert!(!windows[2].contains("beta"), "{}", windows[2]);
    holds_once(&windows[3], &["alpha", "reply 1", "gamma", "reply 3", "delta"]);
    let state = test.store.session(copy).await.unwrap().state;
    assert_eq!(
        state.memory.values().next().unwrap().last.as_ref().unwrap().session.owner,
        Some(copy)
    );
}

#[tokio::test]
async fn a_message_that_a_later_turn_answers_is_delivered_with_that_turn() {
    let (test, program) = team("").await;
    let mut talk = test.begin().await;
    say(&mut talk, "alpha [NEXT: max]").await;
    // Both are queued before the first runs, and the second one runs first.
    for text in ["beta [NEXT: max]", "gamma [NEXT: max!P1]"] {
        talk.accept(NewMessage::from_person("kailai", text)).await.unwrap();
    }
    talk.run().await.unwrap();
    let windows = program.windows();
    assert!(!windows[1].contains("beta"), "{}", windows[1]);
    holds_once(&windows[2], &["alpha", "reply 1", "gamma", "reply 2", "beta"]);
    assert_replays(&test.store, test.session).await;
}

#[tokio::test]
async fn nothing_of_it_is_stored_for_a_member_that_does_not_remember() {
    let (test, _) = team("").await;
    let mut talk = test.begin().await;
    say(&mut talk, "alpha [NEXT: max]").await;
    let plain = TestSession::with_agent("codex", "", &[("max", says(&["one"]))]).await;
    let mut talk = plain.begin().await;
    say(&mut talk, "alpha [NEXT: max]").await;
    let attempt = plain.store.attempts(plain.session, TurnId(1)).await.unwrap().remove(0);
    let input = plain.store.content(attempt.input.hash).await.unwrap();
    assert!(input.contains("\"version\":3") && !input.contains("memory"), "{input}");
    let state = plain.store.session(plain.session).await.unwrap().state;
    assert!(!serde_json::to_string(&state).unwrap().contains("memory"));
    let attempt = test.store.attempts(test.session, TurnId(1)).await.unwrap().remove(0);
    assert!(test.store.content(attempt.input.hash).await.unwrap().contains("\"version\":4"));
}
