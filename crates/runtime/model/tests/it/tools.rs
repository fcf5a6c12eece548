//! Tools: what a model is offered, what it gets, and what it never gets.

use convoke_agent::Agent;
use convoke_agent::config::ApiWire;
use convoke_protocol::agent_event::AgentEventKind;
use convoke_protocol::verdict::{Failure, FailureReason, Verdict};
use convoke_rehearsal::{Answer, Reply, Script};
use serde_json::json;

use crate::lab::{KEY, Lab, take};

const WIRES: [ApiWire; 2] = [ApiWire::Responses, ApiWire::Chat];

#[tokio::test]
async fn calls_are_run_and_shown_and_their_results_go_back() {
    for wire in WIRES {
        let both = Reply::default()
            .call("list_files", json!({"path": "src"}))
            .call("read_file", json!({"path": "src/lib.rs"}));
        let script = Script::new([
            both.into(),
            Answer::call("search_text", json!({"text": "answer"})),
            Answer::say("It is 42."),
        ]);
        let lab = Lab::new(wire, script).await.with_tools();
        lab.write("src/lib.rs", "pub const answer: u8 = 42;\n");
        let taken = lab.say("What is it?", None).await;
        assert_eq!(
            taken.story(),
            [
                "started",
                "call list_files {\"path\":\"src\"}",
                "result true lib.rs",
                "call read_file {\"path\":\"src/lib.rs\"}",
                "result true pub const answer: u8 = 42;\n",
                "call search_text {\"text\":\"answer\"}",
                "result true src/lib.rs:1: pub const answer: u8 = 42;\n",
                "text It is 42.",
                "finished done",
            ]
        );
        let names = ["list_files", "read_file", "search_text"];
        assert!(names.iter().all(|name| lab.bodies()[0].contains(name)));
        let outputs = |number| {
            let items = lab.items(number).into_iter();
            items.filter(|it| it["type"] == "function_call_output" || it["role"] == "tool").count()
        };
        assert_eq!([outputs(0), outputs(1), outputs(2)], [0, 2, 3], "{wire:?}");
        // Each request of the turn begins with the one before.
        assert!(taken.sent().iter().skip(1).all(|(_, unchanged)| *unchanged > 1000));
    }
}

#[test]
fn a_turn_takes_no_thread_of_the_pool_that_its_tools_need() {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().max_blocking_threads(1).build().unwrap();
    let turn = async {
        let call = Answer::call("list_files", json!({"path": "."}));
        let script = Script::new([call, Answer::say("Nothing.")]);
        let lab = Lab::new(ApiWire::Chat, script).await.with_tools();
        lab.say("What is here?", None).await.reply().to_owned()
    };
    let limited = async { tokio::time::timeout(std::time::Duration::from_mins(1), turn).await };
    assert_eq!(runtime.block_on(limited).expect("the tool runs"), "Nothing.");
    runtime.shutdown_background();
}

#[tokio::test]
async fn a_member_without_tools_that_calls_one_is_told_that_there_is_none() {
    for wire in WIRES {
        let script = Script::new([
            Answer::call("shell", json!({"command": "rm -rf /"})),
            Answer::say("I cannot."),
        ]);
        let lab = Lab::new(wire, script).await;
        let taken = lab.say("Clean up", None).await;
        assert_eq!(taken.reply(), "I cannot.");
        assert!(taken.story().contains(&"result false unknown tool `shell`".to_owned()));
        assert!(lab.bodies()[0].contains("\"tools\":[]"));
    }
}

#[tokio::test]
async fn a_model_that_never_stops_calling_is_stopped() {
    let again = Answer::call("list_files", json!({"path": "."}));
    let script = Script::new([]).with_default(again);
    let lab = Lab::new(ApiWire::Chat, script).await.with_tools();
    let taken = lab.say("Loop", None).await;
    let stopped = Verdict::Failed(Failure::new(
        FailureReason::Budget,
        "the model called tools 50 times in a row",
    ));
    assert_eq!(taken.outcome.verdict, stopped);
}

#[tokio::test]
async fn the_key_is_in_no_event_no_request_and_no_line_of_the_store() {
    let script = Script::new([
        Answer::call("read_file", json!({"path": ".env"})),
        Answer::say(format!("The key is {KEY}.")),
    ]);
    let lab = Lab::new(ApiWire::Responses, script).await.with_tools();
    lab.write(".env", &format!("MODEL_KEY={KEY}\nOTHER=1\n"));
    let taken = lab.say("What is in .env?", None).await;
    assert!(taken.story().contains(&"result true MODEL_KEY=[redacted]\nOTHER=1\n".to_owned()));
    assert!(!lab.bodies().concat().contains(KEY));
    let lines = lab.lines(&taken).await.concat();
    assert!(!lines.contains(KEY) && lines.contains("The key is [redacted]."));
}

#[tokio::test]
async fn a_key_in_an_instruction_file_is_never_sent_and_nothing_is_sent_twice() {
    for wire in WIRES {
        let script = ["One.", "Two.", "Three."].map(Answer::say);
        let lab = Lab::new(wire, Script::new(script)).await;
        lab.write("AGENTS.md", &format!("Use {KEY} for the server.\n"));
        let mut last = None;
        for question in ["First", "Second", "Third"] {
            let mut turn_input =
                lab.turn_input(&format!("{question}: is {KEY} right?"), last.as_ref());
            turn_input.system = Some(format!("You know {KEY}."));
            let taken = take(lab.agent().start(turn_input)).await;
            assert_eq!(taken.story().last().unwrap(), "finished done");
            last = Some(taken);
        }
        let bodies = lab.bodies();
        assert!(!bodies.concat().contains(KEY), "{wire:?}");
        let told = |number: usize| bodies[number].matches("Use [redacted] for").count();
        assert_eq!([told(0), told(1), told(2)], [1, 1, 1], "{wire:?}");
        // The stored text is the sent one, so the figures are exact.
        let last = last.unwrap();
        let kept = lab.store.records(&last.thread());
        for (request, body) in kept.iter().zip(&bodies) {
            assert_eq!(request.texts.body, *body);
            assert!(!request.meta.redacted);
        }
        let alike = bodies[1].bytes().zip(bodies[2].bytes()).take_while(|(one, two)| one == two);
        assert_eq!(last.sent()[0].1, alike.count() as u64);
    }
}

#[tokio::test]
async fn a_model_that_repeats_the_key_is_not_sent_it_again() {
    let quoting =
        Reply::default().say(format!("It is {KEY}.")).call("search_text", json!({"text": KEY}));
    let script = Script::new([quoting.into(), Answer::say("Done.")]);
    let lab = Lab::new(ApiWire::Responses, script).await.with_tools();
    let taken = lab.say("What is it?", None).await;
    assert_eq!(taken.reply(), "Done.");
    assert!(!lab.bodies().concat().contains(KEY));
    assert!(lab.bodies()[1].contains("It is [redacted]."));
}

#[tokio::test]
async fn what_a_tool_says_of_its_output_is_true_of_what_the_model_gets() {
    for wire in WIRES {
        let script = Script::new([
            Answer::call("read_file", json!({"path": "long.txt"})),
            Answer::call("search_text", json!({"text": "line"})),
            Answer::say("Done."),
        ]);
        let lab = Lab::new(wire, script).await.with_tools();
        let line = |number| format!("line {number:04} {}", "x".repeat(190));
        lab.write("long.txt", &(1..=1000).map(line).collect::<Vec<_>>().join("\n"));
        let taken = lab.say("Read it", None).await;
        assert_eq!(taken.reply(), "Done.");
        let body = lab.bodies().pop().unwrap();
        assert!(!body.contains("truncated…"), "{wire:?}");
        assert!(!taken.story().iter().any(|it| it.contains("output.truncated")), "{wire:?}");
        let (_, foot) = body.split_once("[lines 1 to ").unwrap();
        let last: usize = foot.split(' ').next().unwrap().parse().unwrap();
        for line in 1..=last {
            assert!(body.contains(&format!("line {line:04} ")), "{wire:?}: {line} of {last}");
        }
        assert!(last > 20 && !body.contains(&format!("line {:04} ", last + 1)), "{last}");
    }
}

#[tokio::test]
async fn tools_that_change_between_turns_break_the_cache_and_are_reported() {
    for wire in WIRES {
        let answers = ["One.", "Two.", "Three."].map(Answer::say);
        let lab = Lab::new(wire, Script::new(answers)).await;
        let first = lab.say("First?", None).await;
        let second = lab.say("Second?", Some(&first)).await;
        assert!(!second.story().concat().contains("cache.broken"), "{:?}", second.story());
        let lab = lab.with_tools();
        let third = lab.say("Third?", Some(&second)).await;
        let mut warnings = third.events.iter().filter_map(|event| match &event.kind {
            AgentEventKind::Warning(diagnostic) => Some(diagnostic),
            _ => None,
        });
        let broken = warnings.find(|it| it.code.name() == "cache.broken");
        let broken = broken.unwrap();
        assert!(broken.message.contains("tools"), "{}", broken.message);
    }
}
