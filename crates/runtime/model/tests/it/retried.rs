//! Retried turns whose caller stores the thread.

use std::time::Duration;

use convoke_agent::Agent;
use convoke_agent::TurnInput;
use convoke_agent::config::ApiWire;
use convoke_agent::thread::ThreadStore;
use convoke_agent::turn_input::ThreadWriter;
use convoke_model::{Log, undo_compaction};
use convoke_protocol::id::{SessionId, ThreadId};
use convoke_protocol::thread::ThreadAppend;
use convoke_protocol::verdict::Verdict;
use convoke_rehearsal::{Answer, End, Reply, Script, Usage};

use crate::lab::{FinishedTurn, Lab, take};

async fn lab(script: impl IntoIterator<Item = Answer>) -> Lab {
    let mut lab = Lab::new(ApiWire::Responses, Script::new(script)).await.with_window(100_000);
    lab.thread = Some(thread());
    lab
}

fn thread() -> ThreadId {
    let session: SessionId = "0199a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b".parse().unwrap();
    ThreadId::of_member(session, "max")
}

fn turn_input(lab: &Lab, turn: &str, prompt: &str) -> TurnInput {
    let mut turn_input = lab.turn_input(prompt, None);
    turn_input.thread_writer = ThreadWriter::Caller { turn: turn.to_owned() };
    turn_input
}

/// Runs a turn and stores its lines, like a session.
async fn say(lab: &Lab, turn: &str, prompt: &str) -> FinishedTurn {
    let mut taken = take(lab.agent().start(turn_input(lab, turn, prompt))).await;
    keep(lab, taken.outcome.thread_append.take()).await;
    taken
}

async fn keep(lab: &Lab, memory: Option<ThreadAppend>) {
    if let Some(append) = memory {
        lab.store.append_lines(&append).await.unwrap();
    }
}

/// Runs a turn that hangs, and cancels it.
async fn cancel(lab: &Lab, turn: &str, prompt: &str) -> FinishedTurn {
    let calls = lab.server.model_calls().len();
    let turn = lab.agent().start(turn_input(lab, turn, prompt));
    assert!(lab.server.has_model_calls(calls + 1, Duration::from_mins(1)).await);
    turn.canceller().cancel();
    let mut taken = take(turn).await;
    assert_eq!(taken.outcome.verdict, Verdict::Cancelled);
    keep(lab, taken.outcome.thread_append.take()).await;
    taken
}

fn hang() -> Answer {
    Reply::default().say("I am thin").end(End::Hang).into()
}

async fn lines(lab: &Lab) -> Vec<String> {
    let lines = lab.store.thread_lines(&thread()).await.unwrap();
    lines.into_iter().map(|line| line.text).collect()
}

async fn log(lab: &Lab) -> Log {
    Log::load(&*lab.store, &thread()).await.unwrap().unwrap()
}

#[tokio::test]
async fn what_a_caller_keeps_is_not_stored_by_the_member() {
    let lab = lab([Answer::say("One."), Answer::say("One, again.")]).await;
    let taken = take(lab.agent().start(turn_input(&lab, "1/1", "First"))).await;
    assert_eq!(taken.reply(), "One.");
    assert_eq!(lines(&lab).await, [""; 0], "only the caller knows that the turn has ended");
    // A crashed caller has stored nothing, so the turn starts as the first time.
    let again = say(&lab, "1/1", "First").await;
    assert_eq!(again.story(), ["started", "text One, again.", "finished done"]);
    assert_eq!(lab.bodies()[0], lab.bodies()[1]);
    assert_eq!(log(&lab).await.turns, ["1/1"]);
}

#[tokio::test]
async fn a_cancelled_turn_that_is_taken_again_sends_the_same_bytes_and_is_there_once() {
    let lab =
        lab([Answer::say("One."), hang(), hang(), Answer::say("Two."), Answer::say("Three.")]);
    let lab = lab.await;
    say(&lab, "1/1", "First").await;
    let before = lines(&lab).await;
    cancel(&lab, "2/3", "Second").await;
    assert!(lines(&lab).await.join("\n").contains("<turn_aborted>"));
    let again = cancel(&lab, "2/3", "Second").await;
    assert_eq!(again.story()[0], "warning thread.turn-retried");
    let second = say(&lab, "2/3", "Second").await;
    assert_eq!(second.reply(), "Two.");
    assert_eq!(second.outcome.diagnostics[0].code.name(), "thread.turn-retried");
    let third = say(&lab, "3/5", "Third").await;
    assert_eq!(third.story()[0], "started");

    let bodies = lab.bodies();
    assert!(bodies[1] == bodies[2] && bodies[2] == bodies[3], "the same request each time");
    assert!(!bodies[4].contains("<turn_aborted>"));
    assert_eq!(bodies[4].matches("\"Second\"").count(), 1);
    assert_eq!(log(&lab).await.turns, ["1/1", "2/3", "3/5"]);
    // The withdrawn lines can still be read.
    let after = lines(&lab).await;
    assert!(after.starts_with(&before));
    assert_eq!(after.join("\n").matches("<turn_aborted>").count(), 2);
    assert_eq!(convoke_model::stored_thread::check(&after), Ok(()));
}

#[tokio::test]
async fn a_first_turn_that_is_taken_again_begins_the_thread_again() {
    let lab = lab([hang(), hang(), Answer::say("One."), Answer::say("Two.")]).await;
    cancel(&lab, "1/1", "First").await;
    cancel(&lab, "1/1", "First").await;
    say(&lab, "1/1", "First").await;
    say(&lab, "2/3", "Second").await;
    let bodies = lab.bodies();
    assert!(bodies[0] == bodies[1] && bodies[1] == bodies[2], "the same request each time");
    assert_eq!(lab.items(3).len(), lab.items(2).len() + 2);
    assert_eq!(log(&lab).await.turns, ["1/1", "2/3"]);
    assert_eq!(convoke_model::stored_thread::check(&lines(&lab).await), Ok(()));
}

#[tokio::test]
async fn an_answer_that_stopped_early_is_replaced_when_its_turn_is_taken_again() {
    let cut = Reply::default().say("So far").end(End::MaxTokens);
    let lab = lab([cut.into(), Answer::error(400), Answer::say("Whole."), Answer::say("Two.")]);
    let lab = lab.await;
    say(&lab, "1/1", "First").await;
    let kept = lines(&lab).await;
    let failed = say(&lab, "1/1", "First").await;
    assert!(matches!(failed.outcome.verdict, Verdict::Failed(_)));
    assert_eq!(lines(&lab).await, kept, "an attempt that leaves nothing takes nothing back");
    say(&lab, "1/1", "First").await;
    say(&lab, "2/3", "Second").await;
    assert!(!lab.bodies()[3].contains("So far") && lab.bodies()[3].contains("Whole."));
}

#[tokio::test]
async fn a_compaction_of_an_attempt_is_taken_back_with_it() {
    let filling =
        Reply::default().say("One.").with_usage(Usage { input: 95_000, output: 10, cached: 0 });
    let lab = lab([
        filling.into(),
        Answer::say("SUMMARY"),
        hang(),
        Answer::say("ANOTHER"),
        Answer::say("Two."),
        Answer::say("Three."),
    ])
    .await;
    say(&lab, "1/1", "First").await;
    let calls = lab.server.model_calls().len();
    let turn = lab.agent().start(turn_input(&lab, "2/3", "Second"));
    assert!(lab.server.has_model_calls(calls + 2, Duration::from_mins(1)).await);
    turn.canceller().cancel();
    let mut cancelled = take(turn).await;
    keep(&lab, cancelled.outcome.thread_append.take()).await;
    assert_eq!(log(&lab).await.compactions.len(), 1);

    say(&lab, "2/3", "Second").await;
    let log_after = log(&lab).await;
    let [compaction] = &log_after.compactions[..] else { panic!("{:?}", log_after.compactions) };
    assert!(compaction.summary.contains("ANOTHER"));
    assert_eq!(lab.bodies()[1], lab.bodies()[3], "it is asked for what the first one replaced");
    undo_compaction(&*lab.store, &thread()).await.unwrap();
    say(&lab, "3/5", "Third").await;
    let body = &lab.bodies()[5];
    assert!(body.contains("One.") && !body.contains("SUMMARY") && !body.contains("ANOTHER"));
    assert_eq!(convoke_model::stored_thread::check(&lines(&lab).await), Ok(()));
}

#[tokio::test]
async fn an_attempt_that_later_turns_have_seen_is_a_part_of_what_was_said() {
    let lab = lab([hang(), Answer::say("Two."), Answer::say("One."), Answer::say("SUMMARY")]).await;
    cancel(&lab, "1/1", "First").await;
    say(&lab, "2/2", "Second").await;
    let again = say(&lab, "1/1", "First").await;
    assert_eq!(again.story()[0], "started");
    let places = ["First", "<turn_aborted>", "Second", "Two.", "First"];
    let body = &lab.bodies()[2];
    let mut from = 0;
    for text in places {
        from += body[from..].find(text).unwrap_or_else(|| panic!("{text}: {body}")) + text.len();
    }
    assert_eq!(log(&lab).await.turns, ["1/1", "2/2", "1/1"]);

    // So is a thread that was compacted by hand since.
    let mut compacted = take(lab.agent().start_compaction(lab.turn_input("", None))).await;
    assert_eq!(compacted.outcome.thread_append.take(), None, "by hand, the member keeps it itself");
    let again = say(&lab, "1/1", "First").await;
    assert_eq!(again.story()[0], "started");
}

#[tokio::test]
async fn lines_that_no_thread_has_are_refused() {
    let lab = lab([Answer::say("One."), Answer::say("SUMMARY"), hang()]).await;
    say(&lab, "1/1", "First").await;
    take(lab.agent().start_compaction(lab.turn_input("", None))).await;
    undo_compaction(&*lab.store, &thread()).await.unwrap();
    cancel(&lab, "2/3", "Second").await;
    let good = lines(&lab).await;
    assert_eq!(convoke_model::stored_thread::check(&good), Ok(()));

    let refused = |change: &dyn Fn(&mut Vec<String>)| {
        let mut lines = good.clone();
        change(&mut lines);
        let bad = convoke_model::stored_thread::check(&lines).unwrap_err();
        format!("{}: {}", bad.line, bad.reason)
    };
    let last = good.len();
    let push = |line: &'static str| move |lines: &mut Vec<String>| lines.push(line.to_owned());
    let cases: [(String, String); 10] = [
        (refused(&Vec::clear), "0: no line is in effect".into()),
        (refused(&|lines| lines.truncate(1)), "0: announces more lines than follow".into()),
        (refused(&|lines| lines[1] = lines[2].clone()), "0: the file does not begin like".into()),
        (refused(&push("nonsense")), format!("{last}: not a line of a thread: expected")),
        (
            refused(&push("{\"later\":1}")),
            format!("{last}: not a line of a thread: unknown kind `later`"),
        ),
        (refused(&push("{\"payload\":{}}")), format!("{last}: not a line of a thread")),
        (refused(&push("{\"undone\":2}")), format!("{last}: undoes line 2 of the thread")),
        (refused(&push("{\"undone\":-2}")), format!("{last}: cannot be parsed: invalid value")),
        (
            refused(&push("{\"takenBack\":18446744073709551615}")),
            format!("{last}: withdraws line 18446744073709551615"),
        ),
        (
            refused(&|lines| lines[1] = lines[1].replace(thread().as_str(), "x\\r\\ny: z")),
            "0: invalid thread id: ".into(),
        ),
    ];
    for (told, expected) in cases {
        assert!(told.starts_with(&expected), "{told} is not {expected}");
    }
}
