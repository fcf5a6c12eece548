//! The flow of a conversation.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use convoke_agent::adapter::Step;
use convoke_protocol::agent_event::AgentEventKind;
use convoke_protocol::event::{Event, EventKind, StopReason};
use convoke_protocol::id::{MessageNumber, TurnId};
use convoke_protocol::turn::TurnState;
use convoke_protocol::verdict::{Failure, FailureReason};
use convoke_session::{Controls, Coordinator, NewMessage, Store};

use crate::test_session::{Act, TestSession, does, says, works};

#[tokio::test]
async fn replies_are_routed_until_a_person_has_the_word() {
    let test = TestSession::new(
        "task = \"Review\"",
        &[("max", says(&["looks good [NEXT: sarah]"])), ("sarah", says(&["agreed"]))],
    )
    .await;
    let mut coordinator = test.begin().await;
    coordinator
        .accept(NewMessage::from_person("kailai", "please review [NEXT: max]"))
        .await
        .unwrap();
    let stop = coordinator.run().await.unwrap();
    assert_eq!(stop, StopReason::Idle { person: "kailai".into() });
    assert_eq!(test.transcript(), ["kailai: please review", "max: looks good", "sarah: agreed"]);
    let prompts = test.prompts("sarah");
    assert!(prompts[0].contains("[TEAM_TASK]\nReview"), "{}", prompts[0]);
    assert!(
        prompts[0].ends_with("[CONTEXT]\n- kailai -> max: please review\n\n[MESSAGE]\nlooks good"),
        "{}",
        prompts[0]
    );
    assert!(prompts[0].contains("You are sarah"), "{}", prompts[0]);
}

#[tokio::test]
async fn a_reply_answers_the_message_that_called_for_it_and_siblings_are_context() {
    let test = TestSession::new(
        "briefing = false",
        &[("max", says(&["from max"])), ("sarah", says(&["from sarah"]))],
    )
    .await;
    let mut coordinator = test.begin().await;
    coordinator
        .accept(NewMessage::from_person("kailai", "both of you [NEXT: max, sarah]"))
        .await
        .unwrap();
    coordinator.run().await.unwrap();
    assert_eq!(
        test.prompts("sarah"),
        ["[CONTEXT]\n- max -> all: from max\n\n[MESSAGE]\nboth of you"]
    );
}

#[tokio::test]
async fn what_failed_is_kept_apart_its_markers_are_not_obeyed_and_the_person_is_asked() {
    let steps = vec![
        Step::Say("half a reply [NEXT: sarah]".to_owned()),
        Step::Fail(Failure::new(FailureReason::Server, "overloaded")),
    ];
    let test = TestSession::new("", &[("max", does(steps)), ("sarah", says(&["hello"]))]).await;
    let mut coordinator = test.begin().await;
    coordinator.accept(NewMessage::from_person("lee", "go [NEXT: max]")).await.unwrap();
    let stop = coordinator.run().await.unwrap();
    assert!(
        matches!(&stop, StopReason::TurnFailed { person, .. } if person.as_str() == "lee"),
        "{stop:?}"
    );
    assert_eq!(test.transcript(), ["lee: go"]);
    let attempts = test.store.attempts(test.session, TurnId(1)).await.unwrap();
    let partial = attempts[0].ended.as_ref().unwrap().partial.unwrap();
    assert_eq!(test.store.content(partial.hash).await.unwrap(), "half a reply [NEXT: sarah]");

    // The turn can be retried, and the conversation continues.
    coordinator.retry(TurnId(1)).await.unwrap();
    coordinator.run().await.unwrap();
    coordinator.accept(NewMessage::from_person("lee", "then you [NEXT: sarah]")).await.unwrap();
    assert_eq!(coordinator.run().await.unwrap(), StopReason::Idle { person: "lee".into() });
    assert_eq!(test.transcript(), ["lee: go", "lee: then you", "sarah: hello"]);
    assert_eq!(test.store.attempts(test.session, TurnId(1)).await.unwrap().len(), 2);
}

#[tokio::test]
async fn a_person_who_is_addressed_is_waited_for_and_what_waits_stays() {
    let test = TestSession::new(
        "",
        &[("max", says(&["lee, is it? [NEXT: lee, sarah]"])), ("sarah", says(&["fine"]))],
    )
    .await;
    let mut coordinator = test.begin().await;
    coordinator.accept(NewMessage::from_person("kailai", "go").to(["max"])).await.unwrap();
    let stop = coordinator.run().await.unwrap();
    assert!(
        matches!(&stop, StopReason::Addressed { person, .. } if person.as_str() == "lee"),
        "{stop:?}"
    );
    coordinator.accept(NewMessage::from_person("lee", "it is")).await.unwrap();
    assert_eq!(coordinator.run().await.unwrap(), StopReason::Idle { person: "kailai".into() });
    assert_eq!(test.transcript(), ["kailai: go", "max: lee, is it?", "lee: it is", "sarah: fine"]);
    let message = test.store.message(test.session, MessageNumber(3)).await.unwrap();
    assert_eq!(message.answers, Some(MessageNumber(2)));
}

#[tokio::test]
async fn a_loop_is_stopped_by_repetition_and_by_the_turn_limit() {
    let test = TestSession::new(
        "[limits]\nturns = 7\n",
        &[
            ("max", does(vec![Step::Say("ok [NEXT: sarah]".to_owned())])),
            ("sarah", does(vec![Step::Say("ok [NEXT: max]".to_owned())])),
        ],
    )
    .await;
    let mut coordinator = test.begin().await;
    coordinator.accept(NewMessage::from_person("kailai", "go [NEXT: max]")).await.unwrap();
    let stop = coordinator.run().await.unwrap();
    assert!(matches!(stop, StopReason::Repetition { times: 3, .. }), "{stop:?}");
    assert_eq!(coordinator.waiting().len(), 1);

    let counter = std::sync::atomic::AtomicU32::new(0);
    let talk: Act = Arc::new(move |_| {
        let n = counter.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        vec![Step::Say(format!("{n} [NEXT: max]"))]
    });
    let test = TestSession::new("[limits]\nturns = 7\n", &[("max", talk)]).await;
    let mut coordinator = test.begin().await;
    coordinator.accept(NewMessage::from_person("kailai", "go [NEXT: max]")).await.unwrap();
    for turns in [7, 14] {
        let stop = coordinator.run().await.unwrap();
        assert!(matches!(stop, StopReason::TurnLimit { limit: 7, .. }), "{stop:?}");
        assert_eq!(test.transcript().len(), turns + 1);
    }
}

#[tokio::test]
async fn more_turns_than_may_wait_are_left_out_with_a_reason() {
    let test = TestSession::new(
        "[limits]\nqueue = 1\n",
        &[("max", says(&["a"])), ("sarah", says(&["b"]))],
    )
    .await;
    let mut coordinator = test.begin().await;
    coordinator.accept(NewMessage::from_person("kailai", "go [NEXT: max, sarah]")).await.unwrap();
    let stop = coordinator.run().await.unwrap();
    assert!(matches!(stop, StopReason::QueueFull { left_out: 1, .. }), "{stop:?}");
    assert_eq!(test.codes(), ["queue.full"]);
    assert_eq!(coordinator.run().await.unwrap(), StopReason::Idle { person: "kailai".into() });
    assert_eq!(test.transcript(), ["kailai: go", "max: a"]);
}

#[tokio::test]
async fn the_first_interrupt_cancels_the_turn_and_the_second_leaves() {
    let steps = vec![Step::Say("working".to_owned()), Step::Wait(Duration::from_mins(10))];
    let test = TestSession::new("", &[("max", does(steps)), ("sarah", says(&["b"]))]).await;
    let mut coordinator = test.begin().await;
    coordinator.accept(NewMessage::from_person("kailai", "go [NEXT: max, sarah]")).await.unwrap();
    let controls = coordinator.controls();
    let is_text = |event: &EventKind| matches!(event, EventKind::Agent { event, .. } if matches!(event.kind, AgentEventKind::Text { .. }));
    let at_work = test.happened(is_text);
    tokio::spawn(async move {
        at_work.await;
        controls.interrupt();
    });
    let stop = coordinator.run().await.unwrap();
    assert_eq!(stop, StopReason::Cancelled { person: "kailai".into() });
    let turn = &test.store.turns_after(test.session, TurnId(0), 1).await.unwrap()[0];
    assert_eq!(turn.state, TurnState::Cancelled);
    let ended = test.store.attempts(test.session, TurnId(1)).await.unwrap()[0].ended.clone();
    assert!(ended.unwrap().partial.is_some());
    assert_eq!(coordinator.waiting().len(), 1, "what waits is still there");
    coordinator.controls().leave();
    assert_eq!(coordinator.run().await.unwrap(), StopReason::Left);
}

#[tokio::test]
async fn turns_that_wait_can_be_cancelled_without_starting_their_agents() {
    let test = TestSession::new("", &[("max", says(&["a"])), ("sarah", says(&["b"]))]).await;
    let mut coordinator = test.begin().await;
    coordinator.accept(NewMessage::from_person("kailai", "go [NEXT: max, sarah]")).await.unwrap();
    coordinator.cancel_waiting().await.unwrap();
    assert!(coordinator.waiting().is_empty());
    let turns = test.store.turns_after(test.session, TurnId(0), 9).await.unwrap();
    assert!(turns.iter().all(|turn| turn.state == TurnState::Cancelled), "{turns:?}");
    assert_eq!(coordinator.run().await.unwrap(), StopReason::Idle { person: "kailai".into() });
    assert!(test.prompts("max").is_empty() && test.prompts("sarah").is_empty());
    // It can be retried, like any cancelled turn.
    coordinator.retry(TurnId(2)).await.unwrap();
    coordinator.run().await.unwrap();
    assert_eq!(test.transcript(), ["kailai: go", "sarah: b"]);
}

#[tokio::test]
async fn an_agent_that_takes_too_long_is_a_failed_turn() {
    let steps = vec![Step::Say("slow".to_owned()), Step::Wait(Duration::from_mins(10))];
    let test = TestSession::new("[limits]\nturn-timeout = \"1s\"\n", &[("max", does(steps))]).await;
    let mut coordinator = test.begin().await;
    coordinator.accept(NewMessage::from_person("kailai", "go [NEXT: max]")).await.unwrap();
    let stop = coordinator.run().await.unwrap();
    let StopReason::TurnFailed { turns, .. } = stop else { panic!("{stop:?}") };
    assert_eq!(turns[0].outcome.as_str(), "timed-out");
}

#[tokio::test]
async fn parallel_turns_run_together_and_all_are_stored() {
    let acts = [("max", says(&["a"])), ("sarah", says(&["b"])), ("tom", says(&["c"]))];
    // One after another, they would wait for each other forever.
    let limits = "[limits]\nparallel = true\nturn-timeout = \"1m\"\n";
    let test = TestSession::meeting(limits, &acts).await;
    let mut coordinator = test.begin().await;
    coordinator
        .accept(NewMessage::from_person("kailai", "go [NEXT: max, sarah, tom]"))
        .await
        .unwrap();
    assert_eq!(coordinator.run().await.unwrap(), StopReason::Idle { person: "kailai".into() });
    let mut said = test.transcript();
    said.sort();
    assert_eq!(said, ["kailai: go", "max: a", "sarah: b", "tom: c"]);
    for name in ["max", "sarah", "tom"] {
        assert!(test.prompts(name)[0].ends_with("[MESSAGE]\ngo"), "{name}");
    }
}

#[tokio::test]
async fn a_session_goes_on_where_it_stopped() {
    let test = TestSession::new(
        "[limits]\nturns = 1\n",
        &[("max", says(&["a [NEXT: sarah]"])), ("sarah", says(&["b"]))],
    )
    .await;
    let mut coordinator = test.begin().await;
    coordinator.accept(NewMessage::from_person("kailai", "go [NEXT: max]")).await.unwrap();
    coordinator.run().await.unwrap();
    drop(coordinator);
    let mut coordinator = test.resume().await;
    assert_eq!(coordinator.run().await.unwrap(), StopReason::Idle { person: "kailai".into() });
    assert_eq!(test.transcript(), ["kailai: go", "max: a", "sarah: b"]);
}

#[tokio::test]
async fn drop_and_task_are_obeyed_before_anybody_is_called() {
    let test = TestSession::new(
        "briefing = false",
        &[
            ("max", says(&["stop that\n[DROP: sarah] [TEAM_TASK: new] [NEXT: tom]"])),
            ("sarah", says(&["never"])),
            ("tom", says(&["done"])),
        ],
    )
    .await;
    let mut coordinator = test.begin().await;
    coordinator.accept(NewMessage::from_person("kailai", "go [NEXT: max, sarah]")).await.unwrap();
    coordinator.run().await.unwrap();
    assert_eq!(test.transcript(), ["kailai: go", "max: stop that", "tom: done"]);
    assert_eq!(
        test.prompts("tom"),
        ["[TEAM_TASK]\nnew\n\n[CONTEXT]\n- kailai -> max, sarah: go\n\n[MESSAGE]\nstop that"]
    );
    let turns = test.store.turns_after(test.session, TurnId(0), 9).await.unwrap();
    let states: Vec<_> = turns.iter().map(|turn| turn.state.as_str()).collect();
    assert_eq!(states, ["done", "cancelled", "done"]);
}

#[tokio::test]
async fn a_conversation_can_run_on_another_task_and_people_can_speak_meanwhile() {
    let controls: Arc<OnceLock<Controls>> = Arc::default();
    let heard = controls.clone();
    // Lee sends a message while Max is running.
    let interrupted = works(move |_| {
        let controls = heard.get().unwrap().clone();
        async move {
            let message = NewMessage::from_person("lee", "and you [NEXT: sarah]");
            controls.interject(message).await.unwrap();
            "a".to_owned()
        }
    });
    let sarah = works(|_| async { "b".to_owned() });
    let test = TestSession::working("", &[("max", interrupted), ("sarah", sarah)]).await;
    let mut coordinator = test.begin().await;
    controls.set(coordinator.controls()).unwrap();
    let task = tokio::spawn(async move {
        coordinator.accept(NewMessage::from_person("kailai", "go [NEXT: max]")).await.unwrap();
        coordinator.run().await.unwrap()
    });
    assert_eq!(task.await.unwrap(), StopReason::Idle { person: "lee".into() });
    assert_eq!(test.transcript(), ["kailai: go", "max: a", "lee: and you", "sarah: b"]);
}

#[tokio::test]
async fn a_message_accepted_while_a_turn_runs_outlives_the_process() {
    let test = TestSession::new("", &[("max", says(&["a", "b"]))]).await;
    let mut coordinator = test.begin().await;
    coordinator.accept(NewMessage::from_person("kailai", "go [NEXT: max]")).await.unwrap();
    let said = NewMessage::from_person("lee", "and the tests [NEXT: max]");
    coordinator.controls().interject(said).await.unwrap();
    // The process is killed.
    drop(coordinator);
    let mut coordinator = test.resume().await;
    let stored = test.store.messages_after(test.session, MessageNumber(0), 9).await.unwrap();
    let texts: Vec<&str> = stored.iter().map(|it| it.message.content.as_str()).collect();
    assert_eq!(texts, ["go [NEXT: max]", "and the tests [NEXT: max]"]);
    assert!(test.store.arrived(test.session).await.unwrap().is_empty());
    assert_eq!(test.transcript(), ["kailai: go"], "whoever opens the session reads it");
    coordinator.run().await.unwrap();
    assert_eq!(test.transcript(), ["kailai: go", "max: a", "max: b"]);
}

#[tokio::test]
async fn diagnostics_about_messages_that_a_process_left_are_shown_to_whoever_opens_the_session() {
    let test = TestSession::new("", &[("max", says(&["a"]))]).await;
    let coordinator = test.begin().await;
    let controls = coordinator.controls();
    controls.interject(NewMessage::from_person("stranger", "hello")).await.unwrap();
    controls.interject(NewMessage::from_person("lee", "and you [NEXT: nobody]")).await.unwrap();
    // The process is killed.
    drop(coordinator);
    let (sender, shown) = std::sync::mpsc::sync_channel(64);
    let observer = Box::new(move |event: Event| sender.send(event.kind).unwrap());
    let team_agents = test.team_agents.clone();
    Coordinator::open(test.store.clone(), test.session, team_agents, observer).await.unwrap();
    let noted: Vec<String> = shown
        .try_iter()
        .map(|event| match event {
            EventKind::Opened { messages, .. } => format!("opened with {messages}"),
            EventKind::Diagnostic { diagnostic, .. } => diagnostic.message,
            other => panic!("the messages are no events: {other:?}"),
        })
        .collect();
    assert_eq!(noted.len(), 3, "{noted:?}");
    assert!(noted[0].starts_with("no person named `stranger`; stored as"), "{noted:?}");
    assert!(noted[1].contains("nobody"), "{noted:?}");
    assert_eq!(noted[2], "opened with 2", "{noted:?}");
}

#[tokio::test]
async fn messages_of_the_inbox_come_before_a_later_one() {
    let test = TestSession::new("", &[("max", says(&["a"]))]).await;
    let mut coordinator = test.begin().await;
    coordinator.controls().interject(NewMessage::from_person("lee", "first")).await.unwrap();
    coordinator.accept(NewMessage::from_person("kailai", "second")).await.unwrap();
    assert_eq!(test.transcript(), ["lee: first", "kailai: second"]);
}

#[tokio::test]
async fn the_second_process_is_told_who_holds_the_session() {
    let test = TestSession::new("", &[("max", says(&["a"]))]).await;
    let coordinator = test.begin().await;
    let team_agents = test.team_agents.clone();
    let second =
        Coordinator::open(test.store.clone(), test.session, team_agents, Box::new(|_: Event| {}));
    let refused = second.await.err().unwrap().to_string();
    let expected = format!("session {} is held by process {}", test.session, std::process::id());
    assert!(refused.starts_with(&expected), "{refused}");
    assert!(refused.ends_with("since 1970-01-01 00:00:01 UTC"), "{refused}");
    drop(coordinator);
    test.resume().await;
}

#[tokio::test]
async fn a_message_of_an_unknown_person_is_refused_with_the_people_as_a_hint() {
    let test = TestSession::new("", &[("max", says(&[]))]).await;
    let mut coordinator = test.begin().await;
    let refused = coordinator.accept(NewMessage::from_person("max", "hello")).await.unwrap_err();
    assert_eq!(refused.to_string(), "no person named `max` in this team");
    assert_eq!(refused.hint().as_deref(), Some("people in this team: kailai, lee"));
}
