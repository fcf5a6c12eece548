//! Replay, diff, export, import, fork.

use std::sync::atomic::{AtomicBool, Ordering};

use convoke_agent::adapter::Step;
use convoke_protocol::event::StopReason;
use convoke_protocol::id::{MessageNumber, Millis, SessionId, TurnId};
use convoke_protocol::session::NewSession;
use convoke_protocol::verdict::{Failure, FailureReason};
use convoke_session::diff::diff;
use convoke_session::replay::{ReplayResult, verify};
use convoke_session::transfer::{TransferError, export, export_snapshot, fork, import};
use convoke_session::{NewMessage, SqliteStore, Store, StoreError};
use serde_json::Value;

use crate::test_session::{TestSession, does, says, unchecked};

/// Runs a conversation of eight messages with two turns of max.
async fn talked() -> TestSession {
    let test = TestSession::new(
        "task = \"Review\"\n[context]\nwindow = 3\nvisibility = \"addressed\"\n",
        &[
            ("max", says(&["one [NEXT: sarah]", "three"])),
            ("sarah", says(&["two [NEXT: max, lee]\n[TEAM_TASK: Fix]"])),
        ],
    )
    .await;
    let mut coordinator = test.begin().await;
    coordinator.accept(NewMessage::from_person("kailai", "begin [NEXT: max]")).await.unwrap();
    let stop = coordinator.run().await.unwrap();
    assert!(matches!(stop, StopReason::Addressed { .. }), "{stop:?}");
    test
}

fn new_session() -> NewSession {
    NewSession {
        id: SessionId::generate(),
        created_at: Millis(5),
        name: None,
        directory: "/elsewhere".to_owned(),
        team: "[[member]]\nname = \"max\"\nagent = \"plain\"\n".to_owned(),
        task: None,
        rehearsal: None,
    }
}

async fn text_of(store: &SqliteStore, session: SessionId) -> String {
    let mut out = Vec::new();
    export(store, session, &mut out).await.unwrap();
    String::from_utf8(out).unwrap()
}

async fn assert_replays(store: &SqliteStore, session: SessionId, attempts: usize) {
    let replayed = verify(store, session).await.unwrap();
    assert_eq!(replayed.len(), attempts);
    for replayed in replayed {
        assert_eq!(replayed.result, ReplayResult::Same, "turn {}", replayed.turn);
    }
}

#[tokio::test]
async fn every_prompt_of_a_session_can_be_assembled_again() {
    let test = talked().await;
    assert_replays(&test.store, test.session, 3).await;
    for (turn, member, index) in [(1, "max", 0), (2, "sarah", 0), (3, "max", 1)] {
        let attempt = &test.store.attempts(test.session, TurnId(turn)).await.unwrap()[0];
        let stored = test.store.content(attempt.prompt.hash).await.unwrap();
        assert_eq!(stored, test.prompts(member)[index], "what was sent is what is stored");
    }
}

#[tokio::test]
async fn two_prompts_of_a_member_are_compared() {
    let test = talked().await;
    let diff_of = |a, b| diff(&test.store, test.session, TurnId(a), TurnId(b));
    let changed = diff_of(1, 3).await.unwrap();
    let prompts = test.prompts("max");
    let same = prompts[0].bytes().zip(prompts[1].bytes()).take_while(|(a, b)| a == b).count();
    assert_eq!(changed.reusable_bytes(), same as u64);
    assert!(changed.prompt.lines.iter().any(|line| line.text == "Fix"));
    assert!(diff_of(1, 2).await.unwrap_err().to_string().contains("max's and turn 2 is sarah's"));
    assert_eq!(diff_of(1, 9).await.unwrap_err().to_string(), "there is no turn 9");
    assert_eq!(diff_of(1, 4).await.unwrap_err().to_string(), "nothing was sent for turn 4");
}

#[tokio::test]
async fn a_whole_session_comes_back_the_same() {
    let test = talked().await;
    let text = text_of(&test.store, test.session).await;
    let elsewhere = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(elsewhere.path()).await.unwrap();
    let imported = import(&store, text.as_bytes(), new_session(), unchecked()).await.unwrap();
    assert_eq!(imported.session, test.session, "it keeps its id where that is free");
    // The session gets the directory of the import: a file must not choose where agents work.
    let moved = text.replacen("\"directory\":\"/work\"", "\"directory\":\"/elsewhere\"", 1);
    assert_eq!(text_of(&store, imported.session).await, moved);
    assert_replays(&store, imported.session, 3).await;
    let again = import(&store, text.as_bytes(), new_session(), unchecked()).await.unwrap();
    assert_ne!(again.session, test.session);
    assert_replays(&store, again.session, 3).await;
}

#[tokio::test]
async fn a_snapshot_comes_back_as_a_conversation() {
    let test = talked().await;
    let mut out = Vec::new();
    export_snapshot(&test.store, test.session, Millis(99), &mut out).await.unwrap();
    let snapshot: Value = serde_json::from_slice(&out).unwrap();
    assert_eq!(snapshot["version"], 1);
    assert_eq!(snapshot["timestamp"], 99);
    assert_eq!(snapshot["teamTask"], "Fix");
    assert_eq!(snapshot["messages"][2]["inReplyTo"], "msg-2");
    let text = String::from_utf8(out.clone()).unwrap();
    let imported = import(&test.store, text.as_bytes(), new_session(), unchecked()).await.unwrap();
    let mut again = Vec::new();
    export_snapshot(&test.store, imported.session, Millis(99), &mut again).await.unwrap();
    assert_eq!(again, out);
    let refused = import(&test.store, &b"{\"version\": 2}"[..], new_session(), unchecked())
        .await
        .unwrap_err();
    assert!(refused.to_string().contains("`version` must be the number 1"), "{refused}");
}

#[tokio::test]
async fn a_fork_goes_its_own_way() {
    let test = talked().await;
    let copy = SessionId::generate();
    fork(&test.store, test.session, Some(MessageNumber(2)), copy, Millis(7), None).await.unwrap();
    let forked = test.store.session(copy).await.unwrap();
    assert_eq!(forked.state.last_message, MessageNumber(2));
    assert_eq!(forked.state.task.as_deref(), Some("Review"));
    assert_replays(&test.store, copy, 1).await;
    let whole = SessionId::generate();
    fork(&test.store, test.session, None, whole, Millis(7), None).await.unwrap();
    assert_eq!(test.store.open_turns(whole).await.unwrap().len(), 1);
    test.store.remove(whole).await.unwrap();
    assert_replays(&test.store, test.session, 3).await;
    let beyond =
        fork(&test.store, test.session, Some(MessageNumber(99)), whole, Millis(7), None).await;
    assert_eq!(beyond.unwrap_err().to_string(), "there is no message 99 to fork at");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_is_under_way_is_taken_out_as_it_was_at_one_moment() {
    let test =
        TestSession::new("", &[("max", does(vec![Step::Say("on [NEXT: max]".to_owned())]))]).await;
    let mut coordinator = test.begin().await;
    let is_over = AtomicBool::new(false);
    let talk = async {
        for _ in 0..60 {
            coordinator.accept(NewMessage::from_person("kailai", "go [NEXT: max]")).await.unwrap();
            coordinator.run().await.unwrap();
        }
        is_over.store(true, Ordering::Relaxed);
    };
    let take = async {
        let mut taken = 0;
        while !is_over.load(Ordering::Relaxed) {
            let mut text = Vec::new();
            match export(&test.store, test.session, &mut text).await {
                Err(TransferError::Store(StoreError::Conflict { .. })) => continue,
                exported => exported.unwrap(),
            }
            let text = String::from_utf8(text).unwrap();
            import(&test.store, text.as_bytes(), new_session(), unchecked()).await.unwrap();
            match fork(&test.store, test.session, None, SessionId::generate(), Millis(7), None)
                .await
            {
                Ok(_) | Err(TransferError::Store(StoreError::Conflict { .. })) => taken += 1,
                Err(error) => panic!("{error}"),
            }
        }
        taken
    };
    let ((), taken) = tokio::join!(talk, take);
    assert!(taken > 0);
}

#[tokio::test]
async fn a_copy_as_it_was_earlier_has_no_prompt_with_what_was_said_later() {
    let fails = Step::Fail(Failure::new(FailureReason::Server, "overloaded"));
    let acts = [("max", says(&["one"])), ("sarah", does(vec![fails]))];
    let test = TestSession::new("", &acts).await;
    let mut coordinator = test.begin().await;
    coordinator
        .accept(NewMessage::from_person("kailai", "begin [NEXT: max, sarah]"))
        .await
        .unwrap();
    let stop = coordinator.run().await.unwrap();
    assert!(matches!(stop, StopReason::TurnFailed { .. }), "{stop:?}");
    // Sarah answers the first message too, and has seen max's reply to it.
    for (after, turns) in [(1, vec![]), (2, vec![TurnId(1), TurnId(2)])] {
        let copy = SessionId::generate();
        fork(&test.store, test.session, Some(MessageNumber(after)), copy, Millis(7), None)
            .await
            .unwrap();
        let kept = test.store.turns_after(copy, TurnId(0), 9).await.unwrap();
        assert_eq!(kept.iter().map(|turn| turn.id).collect::<Vec<_>>(), turns, "after {after}");
        assert_replays(&test.store, copy, turns.len()).await;
    }
}

#[tokio::test]
async fn a_session_that_does_not_fit_together_is_refused_with_its_line() {
    let test = talked().await;
    let text = text_of(&test.store, test.session).await;
    let lines: Vec<&str> = text.lines().collect();
    let without = |at: usize| {
        let mut left = lines.clone();
        left.remove(at);
        left.join("\n")
    };
    let content = lines.iter().position(|line| line.starts_with("{\"content\"")).unwrap();
    let attempt = lines.iter().position(|line| line.starts_with("{\"attempt\"")).unwrap();
    let twice = |at: usize| {
        let mut more = lines.clone();
        more.insert(at, lines[at]);
        more.join("\n")
    };
    let team = "[[member]]\\nname = \\\"kailai\\\"";
    let cases = [
        (
            text.replacen(team, "[[member]]\\nname = 5", 1),
            "line 1: the field `team` is not a team file: ",
        ),
        (
            text.replacen("\"id\":\"msg-2\"", "\"id\":\"msg-1\"", 1),
            "line 3: message 2 has the `id` of an earlier one: msg-1",
        ),
        (twice(attempt), "attempt 1 of turn 1 is out of order"),
        (without(attempt), "turn 1 announces 1 attempts in its field `attempts`, but 0 follow"),
        (text.replacen("\"version\":3", "\"version\":9", 1), "line 1: the file has version 9"),
        (
            text.replacen("{\"turn\":{\"id\":4,", "{\"turn\":{\"id\":9223372036854775806,", 1),
            "turn 9223372036854775806 is beyond 9007199254740991",
        ),
        (
            text.replacen("\"createdAt\":", "\"createdAt\":-", 1),
            "line 1: the field `createdAt` is not a time between 1970 and 9999",
        ),
        (without(2), "line 3: message 3 is out of order"),
        (without(4), "messages, but 4 are announced"),
        (without(content), "is missing"),
        (format!("{text}nonsense"), "expected ident"),
        (
            format!("{text}{{}}"),
            "the line is not a message, turn, attempt, content, thread line or request",
        ),
    ];
    for (text, why) in cases {
        let refused = import(&test.store, text.as_bytes(), new_session(), unchecked())
            .await
            .unwrap_err()
            .to_string();
        assert!(refused.contains(why), "{refused}");
    }
}
