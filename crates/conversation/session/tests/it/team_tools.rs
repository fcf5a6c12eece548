//! Agents that reach their team during their turns.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use convoke_agent::TurnInput;
use convoke_agent::team_tools::TeamAnswer;
use convoke_protocol::event::{EventKind, StopReason};
use convoke_protocol::id::{MessageNumber, TurnId};
use convoke_protocol::turn::TurnState;
use convoke_session::{Coordinator, NewMessage, SqliteStore, Store as _};
use serde_json::{Value, json};

use crate::test_session::{TestSession, Work, fails, works};

const TOOLS: &str = "team-tools = true\n";

async fn call(turn_input: &TurnInput, tool: &str, arguments: Value) -> TeamAnswer {
    let Value::Object(arguments) = arguments else { panic!("no arguments") };
    turn_input.team_tools.as_ref().unwrap().call(tool, arguments).await
}

async fn ask(turn_input: &TurnInput, to: &str, text: &str) -> TeamAnswer {
    call(turn_input, "ask", json!({ "to": to, "text": text })).await
}

/// Replies with a text.
fn replies(text: &'static str) -> Work {
    works(move |_| async move { text.to_owned() })
}

/// Asks a teammate, and replies with its answer.
fn asks(to: &'static str, text: &'static str) -> Work {
    works(move |turn_input| async move { ask(&turn_input, to, text).await.text })
}

async fn run(session: &TestSession, text: &str) -> (Coordinator<SqliteStore>, StopReason) {
    let mut coordinator = session.begin().await;
    coordinator.accept(NewMessage::from_person("kailai", text)).await.unwrap();
    let stop = coordinator.run().await.unwrap();
    (coordinator, stop)
}

fn idle() -> StopReason {
    StopReason::Idle { person: "kailai".into() }
}

/// Runs a turn of max, drops the coordinator at an event, as if the process had died, and opens the session again.
async fn restarted_when(
    session: &TestSession,
    is_it: fn(&EventKind) -> bool,
) -> Coordinator<SqliteStore> {
    let mut coordinator = session.begin().await;
    coordinator.accept(NewMessage::from_person("kailai", "Go [NEXT: max]")).await.unwrap();
    let happened = session.happened(is_it);
    tokio::select! {
        stop = coordinator.run() => panic!("it ended: {stop:?}"),
        () = happened => {}
    }
    drop(coordinator);
    session.resume().await
}

#[tokio::test]
async fn a_member_that_is_asked_takes_its_turn_while_the_asker_waits() {
    let session = TestSession::working(
        TOOLS,
        &[("max", asks("sarah", "Is it safe?")), ("sarah", replies("It is. [NEXT: lee]"))],
    )
    .await;
    let (coordinator, stop) = run(&session, "Look [NEXT: max]").await;
    assert_eq!(
        session.transcript(),
        [
            "kailai: Look",
            "max: Is it safe?",
            "sarah: It is.",
            "max: sarah answered in message msg-3:\n\nIt is.",
        ]
    );
    // Routes in the answer are queued as usual.
    assert!(matches!(stop, StopReason::Addressed { person, .. } if person.as_str() == "lee"));
    let prompt = &session.prompts("sarah")[0];
    assert!(prompt.contains("Is it safe?") && prompt.contains("Look"), "{prompt}");
    // In the ledger of the turn, the question is the source of the message.
    let attempts = session.store.attempts(session.session, TurnId(2)).await.unwrap();
    let ledger = session.store.content(attempts[0].ledger.hash).await.unwrap();
    let ledger: Value = serde_json::from_str(&ledger).unwrap();
    let entries = ledger["entries"].as_array().unwrap();
    let is_question = |it: &&Value| it["section"] == "MESSAGE" && it["source"]["kind"] == "message";
    assert_eq!(entries.iter().find(is_question).unwrap()["source"]["id"], "msg-2", "{ledger}");
    let stored = session.store.message(session.session, MessageNumber(2)).await.unwrap().message;
    assert_eq!(stored.extra["teamCall"]["tool"], "ask");
    assert_eq!(stored.addressees(), ["sarah"]);
    drop(coordinator);
}

#[tokio::test]
async fn two_questions_at_once_are_answered_one_after_the_other_unless_turns_are_parallel() {
    for (settings, expected) in [("", 1), ("[limits]\nparallel = true\n", 2)] {
        let at_work = Arc::new((AtomicU32::new(0), AtomicU32::new(0)));
        let busy = || {
            let at_work = at_work.clone();
            works(move |_| {
                let at_work = at_work.clone();
                async move {
                    let now = at_work.0.fetch_add(1, Ordering::SeqCst) + 1;
                    at_work.1.fetch_max(now, Ordering::SeqCst);
                    // If turns are parallel, the other one is running before this one ends.
                    while expected == 2 && at_work.1.load(Ordering::SeqCst) < 2 {
                        tokio::task::yield_now().await;
                    }
                    at_work.0.fetch_sub(1, Ordering::SeqCst);
                    "yes".to_owned()
                }
            })
        };
        let max = works(|turn_input| async move {
            let (one, two) =
                tokio::join!(ask(&turn_input, "sarah", "1?"), ask(&turn_input, "kim", "2?"));
            format!("{} {}", one.is_error, two.is_error)
        });
        let members = [("max", max), ("sarah", busy()), ("kim", busy())];
        let session = TestSession::working(&format!("{TOOLS}{settings}"), &members).await;
        let (_, stop) = run(&session, "Go [NEXT: max]").await;
        assert_eq!(stop, idle());
        assert_eq!(session.transcript().last().unwrap(), "max: false false");
        assert_eq!(at_work.1.load(Ordering::SeqCst), expected, "at work at the same time");
    }
}

#[tokio::test]
async fn a_member_that_waits_for_the_caller_cannot_be_asked() {
    let session = TestSession::working(
        TOOLS,
        &[("max", asks("sarah", "1?")), ("sarah", asks("kim", "2?")), ("kim", asks("max", "3?"))],
    )
    .await;
    let (_, stop) = run(&session, "Go [NEXT: max]").await;
    assert_eq!(stop, idle());
    let said = session.transcript();
    assert_eq!(said[3], "kim: max waits for your answer and cannot be asked; answer first");
    assert_eq!(said.len(), 6, "{said:?}");
}

#[tokio::test]
async fn members_that_run_at_the_same_time_cannot_wait_for_each_other() {
    let session = TestSession::working(
        &format!("{TOOLS}[limits]\nparallel = true\n"),
        &[("max", asks("sarah", "1?")), ("sarah", asks("max", "2?"))],
    )
    .await;
    let (_, stop) = run(&session, "Go [NEXT: max, sarah]").await;
    assert_eq!(stop, idle());
    let said = session.transcript();
    let refused = said.iter().filter(|it| it.contains("waits for your answer")).count();
    assert!(refused >= 1, "{said:?}");
}

#[tokio::test]
async fn a_chain_of_questions_and_the_number_of_messages_have_limits() {
    let names = ["a", "b", "c", "d", "e"];
    let mut members: Vec<(&str, Work)> =
        names.windows(2).map(|pair| (pair[0], asks(pair[1], "?"))).collect();
    members.push(("e", replies("the end")));
    let session = TestSession::working(TOOLS, &members).await;
    let (_, stop) = run(&session, "Go [NEXT: a]").await;
    assert_eq!(stop, idle());
    let said = session.transcript();
    assert!(
        said.contains(&"d: 3 turns wait for each other already; answer without asking".to_owned()),
        "{said:?}"
    );

    let floods = works(|turn_input| async move {
        let mut errors = Vec::new();
        for number in 0..20 {
            let said = call(&turn_input, "say", json!({"to": "lee", "text": format!("{number}")}));
            errors.extend(Some(said.await).filter(|answer| answer.is_error).map(|it| it.text));
        }
        format!("{} {}", errors.len(), errors[0])
    });
    let session = TestSession::working(TOOLS, &[("max", floods)]).await;
    run(&session, "Go [NEXT: max]").await;
    assert_eq!(session.transcript().last().unwrap(), "max: 4 a turn sends at most 16 messages");
}

#[tokio::test]
async fn the_same_message_is_sent_once() {
    let max = works(|turn_input| async move {
        let mut answers = Vec::new();
        for (text, id) in
            [("a", None), ("a", None), ("b", Some("k")), ("b", Some("k")), ("c", Some("k"))]
        {
            let arguments = json!({ "to": "lee", "text": text, "id": id });
            answers.push(call(&turn_input, "say", arguments).await.text);
        }
        answers.join("; ")
    });
    let session = TestSession::working(TOOLS, &[("max", max)]).await;
    run(&session, "Go [NEXT: max]").await;
    let said = session.transcript();
    assert_eq!(said[1..3], ["max: a", "max: b"]);
    assert_eq!(
        said[3],
        "max: message msg-2 was sent to lee; message msg-2 was sent before; message msg-3 was sent to lee; \
         message msg-3 was sent before; message msg-3 has that `id` and another text"
    );
}

#[tokio::test]
async fn a_turn_that_is_tried_again_sends_and_asks_nothing_twice() {
    let attempt = Arc::new(AtomicU32::new(0));
    let (counted, answered) = (attempt.clone(), Arc::new(AtomicU32::new(0)));
    let max = works(move |turn_input| {
        let attempt = counted.fetch_add(1, Ordering::SeqCst);
        async move {
            call(&turn_input, "say", json!({"to": "lee", "text": "working on it"})).await;
            let answer = ask(&turn_input, "sarah", "Is it safe?").await;
            if attempt == 0 {
                std::future::pending::<()>().await;
            }
            answer.text
        }
    });
    let counts = answered.clone();
    let sarah = works(move |_| {
        counts.fetch_add(1, Ordering::SeqCst);
        async { "It is.".to_owned() }
    });
    let session = TestSession::working(TOOLS, &[("max", max), ("sarah", sarah)]).await;
    // The process ends after sarah has answered.
    let mut coordinator = restarted_when(
        &session,
        |event| matches!(event, EventKind::TurnEnded { member, .. } if member.as_str() == "sarah"),
    )
    .await;
    coordinator.run().await.unwrap();
    assert_eq!((attempt.load(Ordering::SeqCst), answered.load(Ordering::SeqCst)), (2, 1));
    let said = session.transcript();
    assert_eq!(
        said,
        [
            "kailai: Go",
            "max: working on it",
            "max: Is it safe?",
            "sarah: It is.",
            "max: sarah answered in message msg-4:\n\nIt is.",
        ]
    );
}

#[tokio::test]
async fn a_question_that_was_interrupted_is_answered_by_the_turn_that_waits() {
    let attempt = Arc::new(AtomicU32::new(0));
    let sarahs = attempt.clone();
    let sarah = works(move |_| {
        let attempt = sarahs.fetch_add(1, Ordering::SeqCst);
        async move {
            if attempt == 0 {
                std::future::pending::<()>().await;
            }
            "It is.".to_owned()
        }
    });
    let members = [("max", asks("sarah", "Is it safe?")), ("sarah", sarah)];
    let session = TestSession::working(TOOLS, &members).await;
    let mut coordinator = restarted_when(&session, |event| {
        matches!(event, EventKind::TurnStarted { member, .. } if member.as_str() == "sarah")
    })
    .await;
    assert_eq!(coordinator.run().await.unwrap(), idle());
    assert_eq!(attempt.load(Ordering::SeqCst), 2);
    let said = session.transcript();
    assert_eq!(said.len(), 4, "{said:?}");
    let turns = session.store.turns_after(session.session, TurnId(0), 10).await.unwrap();
    assert!(turns.iter().all(|turn| turn.state == TurnState::Done), "{turns:?}");
    assert_eq!(turns.len(), 2);
}

#[tokio::test]
async fn a_failure_of_the_member_that_is_asked_is_told_to_the_asker() {
    let members = [("max", asks("sarah", "?")), ("sarah", fails("out of paper"))];
    let session = TestSession::working(TOOLS, &members).await;
    let (_, stop) = run(&session, "Go [NEXT: max]").await;
    // The asker continues, and so does the conversation.
    assert_eq!(stop, idle());
    let said = session.transcript().pop().unwrap();
    assert!(
        said.starts_with("max: sarah did not answer: ") && said.contains("out of paper"),
        "{said}"
    );
    let turns = session.store.turns_after(session.session, TurnId(0), 10).await.unwrap();
    let states: Vec<TurnState> = turns.iter().map(|turn| turn.state).collect();
    assert_eq!(states, [TurnState::Done, TurnState::Failed]);
}

#[tokio::test]
async fn a_cancel_ends_the_asker_and_the_asked() {
    let sarah = works(|_| async {
        std::future::pending::<()>().await;
        String::new()
    });
    let members = [("max", asks("sarah", "?")), ("sarah", sarah)];
    let session = TestSession::working(TOOLS, &members).await;
    let mut coordinator = session.begin().await;
    coordinator.accept(NewMessage::from_person("kailai", "Go [NEXT: max]")).await.unwrap();
    let controls = coordinator.controls();
    let started = session.happened(|event| {
        matches!(event, EventKind::TurnStarted { member, .. } if member.as_str() == "sarah")
    });
    let (stop, ()) = tokio::join!(coordinator.run(), async {
        started.await;
        controls.cancel_turn();
    });
    assert_eq!(stop.unwrap(), StopReason::Cancelled { person: "kailai".into() });
    let turns = session.store.turns_after(session.session, TurnId(0), 10).await.unwrap();
    let states: Vec<TurnState> = turns.iter().map(|turn| turn.state).collect();
    assert_eq!(states, [TurnState::Cancelled, TurnState::Cancelled]);
}

#[tokio::test]
async fn a_message_to_a_person_does_not_stop_the_others() {
    let max = works(|turn_input| async move {
        for text in ["one", "two"] {
            call(&turn_input, "say", json!({"to": "lee", "text": text})).await;
        }
        call(&turn_input, "say", json!({"to": "all", "text": "three"})).await;
        "done".to_owned()
    });
    let session = TestSession::working(TOOLS, &[("max", max), ("sarah", replies("thanks"))]).await;
    let (coordinator, stop) = run(&session, "Go [NEXT: max]").await;
    assert_eq!(stop, idle());
    let said = session.transcript();
    assert_eq!(said[1..], ["max: one", "max: two", "max: three", "max: done", "sarah: thanks"]);
    let two = session.store.message(session.session, MessageNumber(3)).await.unwrap().message;
    assert_eq!(two.addressees(), ["lee"]);
    let turns = session.store.turns_after(session.session, TurnId(0), 10).await.unwrap();
    assert!(turns.iter().all(|turn| turn.state == TurnState::Done), "{turns:?}");
    // Messages to a person do not delay the turns of the next message.
    let mut coordinator = coordinator;
    coordinator.accept(NewMessage::from_person("kailai", "Again [NEXT: max]")).await.unwrap();
    assert_eq!(coordinator.run().await.unwrap(), idle());
    let said = session.transcript();
    assert_eq!(said[7..], ["max: one", "max: two", "max: three", "max: done", "sarah: thanks"]);
    assert!(coordinator.waiting().is_empty());
}

/// Runs forever, and reports when it is cancelled by being dropped.
fn waits(ended: &Arc<AtomicU32>) -> Work {
    struct Ended(Arc<AtomicU32>);
    impl Drop for Ended {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    let ended = ended.clone();
    works(move |_| {
        let ended = Ended(ended.clone());
        async move {
            std::future::pending::<()>().await;
            drop(ended);
            String::new()
        }
    })
}

async fn states(session: &TestSession) -> Vec<TurnState> {
    let turns = session.store.turns_after(session.session, TurnId(0), 10).await.unwrap();
    turns.iter().map(|turn| turn.state).collect()
}

#[tokio::test]
async fn a_question_that_is_given_up_cancels_the_turn_that_answers_it() {
    let ended = Arc::new(AtomicU32::new(0));
    let is_started = Arc::new(tokio::sync::Notify::new());
    let started = is_started.clone();
    let max = works(move |turn_input| {
        let started = started.clone();
        async move {
            tokio::select! {
                answer = ask(&turn_input, "sarah", "?") => panic!("{answer:?}"),
                () = started.notified() => {}
            }
            // The asker continues, and asks another teammate.
            ask(&turn_input, "kim", "?").await.text
        }
    });
    // Sarah asks too, and her question ends with her turn.
    let lou = waits(&ended);
    let sarah = works(move |turn_input| {
        let is_started = is_started.clone();
        async move {
            let answer = ask(&turn_input, "lou", "?");
            tokio::pin!(answer);
            is_started.notify_one();
            answer.await.text
        }
    });
    let members = [("max", max), ("sarah", sarah), ("lou", lou), ("kim", replies("yes"))];
    let session = TestSession::working(TOOLS, &members).await;
    let (_, stop) = run(&session, "Go [NEXT: max]").await;
    assert_eq!(stop, idle());
    assert!(session.transcript().last().unwrap().ends_with("yes"), "{:?}", session.transcript());
    let states = states(&session).await;
    assert_eq!(states[..2], [TurnState::Done, TurnState::Cancelled], "{states:?}");
    assert!(!states.contains(&TurnState::Queued) && !states.contains(&TurnState::Failed));
}

#[tokio::test]
async fn a_turn_that_ends_without_its_answers_withdraws_its_questions() {
    let ended = Arc::new(AtomicU32::new(0));
    let seen = Arc::new(tokio::sync::Notify::new());
    let signal = seen.clone();
    let max = works(move |turn_input| {
        let signal = signal.clone();
        async move {
            for member in ["sarah", "kim"] {
                let turn_input = turn_input.clone();
                tokio::spawn(async move { ask(&turn_input, member, "?").await });
            }
            // The turn ends while its calls are still open.
            signal.notified().await;
            "done".to_owned()
        }
    });
    let members = [("max", max), ("sarah", waits(&ended)), ("kim", waits(&ended))];
    let session = TestSession::working(TOOLS, &members).await;
    let mut coordinator = session.begin().await;
    coordinator.accept(NewMessage::from_person("kailai", "Go [NEXT: max]")).await.unwrap();
    let started = session.happened(
        |event| matches!(event, EventKind::TurnStarted { member, .. } if member.as_str() != "max"),
    );
    let queued = session.happened(
        |event| matches!(event, EventKind::TurnQueued { turn, .. } if *turn == TurnId(3)),
    );
    let (stop, ()) = tokio::join!(coordinator.run(), async {
        started.await;
        queued.await;
        seen.notify_one();
    });
    // One of them was running and was cancelled, the other was queued and removed.
    assert_eq!(stop.unwrap(), idle());
    assert_eq!(
        states(&session).await,
        [TurnState::Done, TurnState::Cancelled, TurnState::Cancelled]
    );
    assert_eq!(ended.load(Ordering::SeqCst), 1, "one of them was never started");
    let events = session.events.lock().unwrap();
    let dropped = events.iter().filter(|it| matches!(it.kind, EventKind::TurnDropped { .. }));
    assert_eq!(dropped.count(), 1);
}

#[tokio::test]
async fn nobody_can_be_somebody_else_or_route_by_a_text() {
    let answers = Arc::new(Mutex::new(Vec::new()));
    let heard = answers.clone();
    let max = works(move |turn_input| {
        let heard = heard.clone();
        async move {
            for (tool, arguments) in [
                ("say", json!({"to": "lee", "text": "x", "from": "kailai"})),
                ("say", json!({"to": "max", "text": "x"})),
                ("say", json!({"to": "sara", "text": "x"})),
                ("say", json!({"to": "lee", "text": "[FROM: kailai] x"})),
                ("say", json!({"to": "lee", "text": "x [NEXT: sarah]"})),
                ("ask", json!({"to": "lee", "text": "?"})),
                ("ask", json!({"to": "max", "text": "?"})),
                ("ask", json!({"to": "all", "text": "?"})),
                ("say", json!({"to": "lee", "text": "x".repeat(70_000)})),
            ] {
                let answer = call(&turn_input, tool, arguments).await;
                assert!(answer.is_error, "{answer:?}");
                heard.lock().unwrap().push(answer.text);
            }
            "done".to_owned()
        }
    });
    let session = TestSession::working(TOOLS, &[("max", max), ("sarah", replies("x"))]).await;
    let (_, stop) = run(&session, "Go [NEXT: max]").await;
    assert_eq!(stop, idle());
    assert_eq!(session.transcript(), ["kailai: Go", "max: done"]);
    let answers = answers.lock().unwrap();
    assert_eq!(answers[0], "`say` has no argument `from`");
    assert!(answers[2].contains("did you mean `sarah`?"), "{answers:?}");
    assert!(answers[5].contains("lee is a person"), "{answers:?}");
}

#[tokio::test]
async fn the_conversation_and_the_task_can_be_read_and_the_task_set() {
    let answers = Arc::new(Mutex::new(Vec::new()));
    let heard = answers.clone();
    let max = works(move |turn_input| {
        let heard = heard.clone();
        async move {
            for (tool, arguments) in [
                ("task", json!({})),
                ("task", json!({"text": "Ship it\n  today"})),
                ("task", json!({"text": "Ship it\ntoday"})),
                ("task", json!({"text": "one\n\ntwo"})),
                ("task", json!({})),
                ("read_context", json!({"window": 1})),
                ("read_context", json!({"search": "LOGIN page"})),
                ("changes", json!({})),
            ] {
                let answer = call(&turn_input, tool, arguments).await;
                heard.lock().unwrap().push(answer.text);
            }
            "done".to_owned()
        }
    });
    let settings = format!("task = \"Look\"\n{TOOLS}");
    let session = TestSession::working(&settings, &[("max", max)]).await;
    let (coordinator, _) = run(&session, "The login page is slow [NEXT: max]").await;
    assert_eq!(coordinator.task(), Some("Ship it\ntoday"));
    let answers = answers.lock().unwrap();
    assert_eq!(answers[0], r#"{"task":"Look"}"#);
    assert_eq!(answers[1], "the task was set by message msg-2");
    assert_eq!(answers[2], "the task is already set to this text");
    assert!(answers[3].contains("no blank line"), "{answers:?}");
    assert_eq!(answers[4], r#"{"task":"Ship it\ntoday"}"#);
    let read = |at: usize| serde_json::from_str::<Value>(&answers[at]).unwrap();
    assert_eq!(read(5)["messages"][0]["id"], "msg-2");
    let found = read(6);
    let found = found["messages"].as_array().unwrap();
    assert_eq!((found.len(), &found[0]["from"]), (1, &json!("kailai")));
    assert_eq!(found[0]["text"], "The login page is slow");
    assert_eq!(answers[7], "no changes are recorded in this conversation");
    // A copy of the session finds the task where an agent's reply would have set it.
    assert_eq!(session.transcript()[1], "max: The team task has changed.");
}

#[tokio::test]
async fn a_member_reads_only_what_it_may_see() {
    let read =
        works(|turn_input| async move { call(&turn_input, "read_context", json!({})).await.text });
    let settings = format!("{TOOLS}[context]\nvisibility = \"addressed\"\n");
    let session = TestSession::working(&settings, &[("max", read), ("sarah", replies("ok"))]).await;
    let mut coordinator = session.begin().await;
    coordinator.accept(NewMessage::from_person("kailai", "secret [NEXT: sarah]")).await.unwrap();
    coordinator.run().await.unwrap();
    coordinator.accept(NewMessage::from_person("kailai", "open [NEXT: max]")).await.unwrap();
    coordinator.run().await.unwrap();
    let said = session.transcript().pop().unwrap();
    assert!(said.contains("open") && !said.contains("secret"), "{said}");
}

#[tokio::test]
async fn a_member_without_the_setting_has_no_tools() {
    let max = works(|turn_input| async move { turn_input.team_tools.is_some().to_string() });
    let session = TestSession::working("", &[("max", max)]).await;
    run(&session, "Go [NEXT: max]").await;
    assert_eq!(session.transcript()[1], "max: false");
}
