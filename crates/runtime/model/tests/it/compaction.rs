//! Compaction: when it happens, what remains, and that it always ends.

use std::time::Duration;

use convoke_agent::Agent;
use convoke_agent::config::ApiWire;
use convoke_model::undo_compaction;
use convoke_protocol::agent_event::RequestPurpose;
use convoke_protocol::request::RequestEnd;
use convoke_protocol::verdict::{Failure, FailureReason, Verdict};
use convoke_rehearsal::script::{Content, HttpError};
use convoke_rehearsal::{Answer, Reply, Script, Usage};
use serde_json::json;

use crate::lab::{FinishedTurn, Lab, TIMEOUT, take};

const WIRES: [ApiWire; 2] = [ApiWire::Responses, ApiWire::Chat];
const WINDOW: u64 = 100_000;

/// An answer after which the thread is full, according to the server's counts.
fn filling(text: &str) -> Answer {
    Reply::default().say(text).with_usage(usage(95_000)).into()
}

fn small(text: &str) -> Answer {
    Reply::default().say(text).with_usage(usage(500)).into()
}

fn usage(input: u64) -> Usage {
    Usage { input, output: 10, cached: 0 }
}

fn full() -> Answer {
    let message = "This model's maximum context length is 4096 tokens";
    Content::Error(HttpError::new(400, message)).into()
}

fn failure(taken: &FinishedTurn) -> (FailureReason, String) {
    match &taken.outcome.verdict {
        Verdict::Failed(Failure { reason, message }) => (*reason, message.clone()),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_full_thread_is_compacted_before_the_next_turn_and_nothing_is_lost() {
    let script = Script::new([filling("One."), small("SUMMARY"), small("Two."), small("Three.")]);
    let lab = Lab::new(ApiWire::Responses, script).await.with_window(WINDOW);
    let first = lab.say("First question", None).await;
    let second = lab.say("Second question", Some(&first)).await;
    let expected = ["started", "text Two.", "warning thread.compacted", "finished done"];
    assert_eq!(second.story(), expected);

    let items = lab.items(2);
    let texts: Vec<String> = items.iter().map(|it| it["content"][0]["text"].to_string()).collect();
    let [.., kept, summary, question] = &texts[..] else { panic!("{texts:#?}") };
    assert_eq!((kept.as_str(), question.as_str()), ("\"First question\"", "\"Second question\""));
    assert!(summary.contains("SUMMARY") && !lab.bodies()[2].contains("One."));

    // The replaced items can be read from the store.
    let log = lab.log(&second).await;
    let [compaction] = &log.compactions[..] else { panic!("{:?}", log.compactions) };
    assert!(compaction.summary.contains("SUMMARY"));
    assert!(format!("{:?}", compaction.replaced).contains("One."));

    // The thread continues with exactly the remaining items.
    let third = lab.say("Third question", Some(&second)).await;
    assert_eq!(third.reply(), "Three.");
    assert_eq!(items[..], lab.items(3)[..items.len()]);
}

#[tokio::test]
async fn an_undone_compaction_brings_back_what_it_replaced() {
    let script = Script::new([small("One."), small("SUMMARY"), small("Two."), small("Three.")]);
    let lab = Lab::new(ApiWire::Chat, script).await.with_window(WINDOW);
    let first = lab.say("First question", None).await;
    let compacted = take(lab.agent().start_compaction(lab.turn_input("", Some(&first)))).await;
    assert_eq!(compacted.reply(), "SUMMARY");
    assert_eq!(compacted.story(), ["started", "warning thread.compacted", "finished done"]);
    let second = lab.say("Second question", Some(&compacted)).await;
    assert!(!lab.bodies()[2].contains("One.") && lab.bodies()[2].contains("SUMMARY"));

    undo_compaction(&*lab.store, &second.thread()).await.unwrap();
    lab.say("Third question", Some(&second)).await;
    let body = &lab.bodies()[3];
    assert!(!body.contains("SUMMARY"), "{body}");
    let places = ["First question", "One.", "Second question", "Two.", "Third question"];
    let places = places.map(|text| body.find(text).unwrap());
    assert!(places.is_sorted());
    let again = undo_compaction(&*lab.store, &second.thread()).await.unwrap_err();
    assert!(again.to_string().contains("no compaction"), "{again}");
}

#[tokio::test]
async fn a_thread_that_fills_up_in_the_middle_of_a_turn_is_compacted_there() {
    for wire in WIRES {
        let filling = Reply::default()
            .call("read_file", json!({"path": "big.txt"}))
            .with_usage(usage(95_000));
        let script = Script::new([filling.into(), small("SUMMARY"), small("Done.")]);
        let mut lab = Lab::new(wire, script).await.with_window(WINDOW).with_tools();
        if wire == ApiWire::Chat {
            // This wire has no counts, so the size is estimated; the file is large enough to reach the limit.
            lab.api.context_window = Some(3_000);
        }
        lab.write("big.txt", &"A line of a rather big file.\n".repeat(400));
        let taken = lab.say("Read it", None).await;
        assert_eq!(taken.reply(), "Done.");
        assert!(
            taken.story().contains(&"warning thread.compacted".to_owned()),
            "{:?}",
            taken.story()
        );
        let last = lab.bodies()[2].clone();
        assert!(last.contains("Read it") && last.contains("SUMMARY"), "{wire:?}");
        assert!(!last.contains("A line of a rather big file."));
    }
}

#[tokio::test]
async fn a_failed_compaction_is_reported_and_the_turn_continues() {
    let script = Script::new([filling("One."), Answer::error(400), small("Two.")]);
    let lab = Lab::new(ApiWire::Responses, script).await.with_window(WINDOW);
    let first = lab.say("First question", None).await;
    let second = lab.say("Second question", Some(&first)).await;
    let expected = ["started", "warning thread.compaction-failed", "text Two.", "finished done"];
    assert_eq!(second.story(), expected);
    assert!(lab.bodies()[2].contains("One."));
    assert!(lab.log(&second).await.compactions.is_empty());
}

#[tokio::test]
async fn a_compaction_that_fails_again_in_the_same_turn_ends_it() {
    let call = || {
        let reply = Reply::default().call("list_files", json!({"path": "."}));
        Answer::from(reply.with_usage(usage(95_000)))
    };
    let script = Script::new([call(), Answer::error(400), call(), Answer::error(400)]);
    let lab = Lab::new(ApiWire::Responses, script).await.with_window(WINDOW).with_tools();
    let taken = lab.say("Look", None).await;
    let (reason, message) = failure(&taken);
    assert_eq!(reason, FailureReason::ContextFull);
    assert!(message.starts_with("the thread could not be compacted: "), "{message}");
    assert_eq!(lab.bodies().len(), 3);
}

#[tokio::test]
async fn a_compaction_that_does_not_help_is_reported_and_never_repeated_in_a_loop() {
    let call = || {
        let reply = Reply::default().call("list_files", json!({"path": "."}));
        Answer::from(reply.with_usage(usage(5_000)))
    };
    let script = Script::new([call(), small("SUMMARY"), call()]).with_default(small("SUMMARY"));
    // The instructions alone exceed this.
    let lab = Lab::new(ApiWire::Responses, script).await.with_window(500).with_tools();
    let taken = lab.say("Look", None).await;
    let (reason, message) = failure(&taken);
    assert_eq!(reason, FailureReason::ContextFull);
    assert!(message.contains("did not help") && message.contains("450"), "{message}");
    assert_eq!(lab.bodies().len(), 3);
}

#[tokio::test]
async fn a_server_that_says_the_thread_is_too_long_is_asked_again_after_a_compaction() {
    for wire in WIRES {
        let script = Script::new([small("One."), full(), small("SUMMARY"), small("Two.")]);
        let lab = Lab::new(wire, script).await;
        let first = lab.say("First question", None).await;
        let second = lab.say("Second question", Some(&first)).await;
        assert_eq!(second.reply(), "Two.");
        let body = &lab.bodies()[3];
        assert!(
            body.contains("SUMMARY") && !body.contains("One.") && body.contains("Second question")
        );
        assert_eq!(lab.log(&second).await.compactions.len(), 1);
    }
}

#[tokio::test]
async fn a_thread_that_is_always_too_long_fails_with_that_reason() {
    let script = Script::new([small("One.")]).with_default(full());
    let lab = Lab::new(ApiWire::Responses, script).await;
    let first = lab.say("First question", None).await;
    let lines = lab.lines(&first).await;
    let second = lab.say("Second question", Some(&first)).await;
    assert_eq!(failure(&second).0, FailureReason::ContextFull);
    assert_eq!(lab.lines(&first).await, lines);
    assert!(lab.bodies().len() < 20, "{} requests", lab.bodies().len());
    let alone = lab.say("Too long from the start", None).await;
    assert_eq!(failure(&alone).0, FailureReason::ContextFull);
}

#[tokio::test]
async fn a_compaction_that_is_cancelled_leaves_the_thread_as_it_was() {
    let hang = Reply::default().end(convoke_rehearsal::End::Hang);
    let lab = Lab::new(ApiWire::Chat, Script::new([small("One."), hang.into()])).await;
    let first = lab.say("First question", None).await;
    let lines = lab.lines(&first).await;
    let turn = lab.agent().start_compaction(lab.turn_input("", Some(&first)));
    assert!(lab.server.has_model_calls(2, TIMEOUT).await);
    turn.canceller().cancel();
    assert_eq!(take(turn).await.outcome.verdict, Verdict::Cancelled);
    assert_eq!(lab.lines(&first).await, lines);
}

/// A window of which the instructions take about a third.
const NARROW: u64 = 4_000;

fn long(question: &str) -> String {
    format!("{question} {}", "Here is what I mean. ".repeat(480))
}

#[tokio::test]
async fn a_turn_that_would_pass_the_limit_is_preceded_by_a_compaction() {
    for wire in WIRES {
        let first = Reply::default().say("One.").with_usage(usage(2_000));
        let script = Script::new([first.into(), small("SUMMARY"), small("Two.")]);
        let lab = Lab::new(wire, script).await.with_window(NARROW);
        let first = lab.say("First question", None).await;
        let second = lab.say(&long("Second question"), Some(&first)).await;
        let expected = ["started", "text Two.", "warning thread.compacted", "finished done"];
        assert_eq!(second.story(), expected, "{wire:?}");
        let body = &lab.bodies()[2];
        assert!(body.contains("SUMMARY") && body.contains("First question"), "{wire:?}");
        assert!(body.contains("Second question") && !body.contains("One."), "{wire:?}");
        assert!(!lab.bodies()[1].contains("Second question"), "{wire:?}");
    }
}

#[tokio::test]
async fn a_compaction_that_would_only_have_been_wise_may_fail() {
    for wire in WIRES {
        let first = Reply::default().say("One.").with_usage(usage(2_000));
        let script = Script::new([first.into(), Answer::error(400), small("Two.")]);
        let lab = Lab::new(wire, script).await.with_window(NARROW);
        let first = lab.say("First question", None).await;
        let second = lab.say(&long("Second question"), Some(&first)).await;
        assert_eq!(second.reply(), "Two.", "{wire:?}");
        assert_eq!(second.story()[1], "warning thread.compaction-failed", "{wire:?}");
        assert!(lab.bodies()[2].contains("One."), "{wire:?}");
        assert_eq!(lab.bodies().len(), 3);
    }
}

#[tokio::test]
async fn a_text_that_fills_a_thread_by_itself_is_not_helped_by_a_compaction() {
    let script = Script::new([small("One."), small("Two.")]);
    let lab = Lab::new(ApiWire::Chat, script).await.with_window(NARROW);
    let first = lab.say("First question", None).await;
    let second = lab.say(&long("Second question").repeat(3), Some(&first)).await;
    assert_eq!(second.reply(), "Two.");
    assert_eq!(lab.bodies().len(), 2);
}

#[tokio::test]
async fn an_incomplete_summary_replaces_nothing() {
    let cut = || Reply::default().say("What was sai").end(convoke_rehearsal::End::MaxTokens);
    let refused = || Reply::default().say("I cannot").end(convoke_rehearsal::End::Refused);
    let calls = || Reply::default().call("list_files", json!({"path": "."}));
    let blank = || Reply::default().say(" \n");
    for wire in WIRES {
        for broken in [cut(), refused(), calls(), blank()] {
            let script = Script::new([small("One."), broken.into(), small("Two.")]);
            let lab = Lab::new(wire, script).await;
            let first = lab.say("First question", None).await;
            let lines = lab.lines(&first).await;
            let turn = lab.agent().start_compaction(lab.turn_input("", Some(&first)));
            let compacted = take(turn).await;
            let (reason, message) = failure(&compacted);
            assert_eq!(reason, FailureReason::Incomplete, "{wire:?}: {message}");
            assert!(message.contains("the summary is"), "{wire:?}: {message}");
            assert_eq!(lab.lines(&first).await, lines);
            assert!(lab.say("Second question", Some(&first)).await.reply() == "Two.");
        }
    }
}

#[tokio::test]
async fn a_summary_is_no_reply_of_a_turn_that_fails_after_it() {
    let script = Script::new([filling("One."), small("SUMMARY"), Answer::error(400)]);
    let lab = Lab::new(ApiWire::Responses, script).await.with_window(WINDOW);
    let first = lab.say("First question", None).await;
    let second = lab.say("Second question", Some(&first)).await;
    assert_eq!((failure(&second).0, second.outcome.reply.as_str()), (FailureReason::Request, ""));
    // The usage is reported anyway.
    assert!(second.outcome.usage.is_some());
    // The compaction is not reported, because the failed turn undid it.
    assert_eq!(second.story(), ["started", "finished failed"]);
    assert!(second.outcome.diagnostics.is_empty(), "{:?}", second.outcome.diagnostics);
}

#[tokio::test]
async fn a_turn_has_no_more_time_for_being_tried_again() {
    let hang = Reply::default().end(convoke_rehearsal::End::Hang);
    let script = Script::new([small("One."), full(), small("SUMMARY"), hang.into()]);
    let lab = Lab::new(ApiWire::Chat, script).await;
    let first = lab.say("First question", None).await;
    let lines = lab.lines(&first).await;
    let mut turn_input = lab.turn_input("Second question", Some(&first));
    turn_input.limits.turn = Duration::from_secs(10);
    let begun = std::time::Instant::now();
    let second = take(lab.agent().start(turn_input)).await;
    assert_eq!(second.outcome.verdict, Verdict::TimedOut);
    assert!(begun.elapsed() >= Duration::from_millis(9_900));
    assert_eq!(lab.lines(&first).await, lines);
    let sent = lab.store.records(&first.thread());
    let ends: Vec<_> = sent.iter().map(|it| it.outcome.end).collect();
    assert_eq!((ends[3], ends[1]), (Some(RequestEnd::TimedOut), Some(RequestEnd::Failed)));
    assert_eq!(sent[2].meta.purpose, RequestPurpose::Compaction);
}

#[tokio::test]
async fn a_turn_that_is_cancelled_in_the_compaction_before_it_is_kept_with_its_question() {
    // The thread is full, this turn would fill it, or the turn is cancelled immediately.
    let hang = || Answer::from(Reply::default().end(convoke_rehearsal::End::Hang));
    for (window, held, waits) in
        [(WINDOW, 95_000, true), (NARROW, 2_000, true), (WINDOW, 500, false)]
    {
        let first = Reply::default().say("One.").with_usage(usage(held));
        let mut answers = vec![first.into()];
        answers.extend(waits.then(hang));
        let script = Script::new(answers).with_default(small("SUMMARY"));
        let mut lab = Lab::new(ApiWire::Responses, script).await.with_window(window);
        let first = lab.say("First question", None).await;
        let turn = lab.agent().start(lab.turn_input(&long("Second question"), Some(&first)));
        if waits {
            assert!(lab.server.has_model_calls(2, TIMEOUT).await);
            assert!(!lab.bodies()[1].contains("Second question"), "it is the compaction");
        }
        turn.canceller().cancel();
        let second = take(turn).await;
        // Nothing may have been sent yet.
        let is_unsent = !waits && second.outcome.verdict == Verdict::Withdrawn;
        assert!(is_unsent || second.outcome.verdict == Verdict::Cancelled);
        lab.api.context_window = None;
        lab.say("Third question", Some(&second)).await;
        let body = lab.bodies().pop().unwrap();
        let places = ["First question", "One.", "Second question", "<turn_aborted>", "Third"];
        let places = places.map(|text| body.find(text).unwrap_or_else(|| panic!("{text}: {body}")));
        assert!(places.is_sorted(), "{places:?}");
        assert_eq!(body.matches("<turn_aborted>").count(), 1);
    }
}
