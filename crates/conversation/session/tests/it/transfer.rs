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
use serde_json::{Value, json};

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

/// The lines of an archive, to change some.
struct Lines(Vec<String>);

impl Lines {
    /// Returns the place of the first line that contains a text.
    fn find(&self, text: &str) -> usize {
        let found = self.0.iter().position(|line| line.contains(text));
        found.unwrap_or_else(|| panic!("`{text}` is not in the archive"))
    }

    fn changed(&self, text: &str, from: &str, to: &str) -> String {
        let mut lines = self.0.clone();
        let line = &mut lines[self.find(text)];
        assert!(line.contains(from), "`{from}` is not in {line}");
        *line = line.replacen(from, to, 1);
        lines.join("\n")
    }

    /// Returns the archive without a line and with its events numbered again, or with the line twice.
    fn renumbered(&self, text: &str, times: usize) -> String {
        let at = self.find(text);
        let mut lines = self.0.clone();
        lines.splice(at..=at, std::iter::repeat_n(self.0[at].clone(), times));
        let mut number = 1;
        for line in lines.iter_mut().skip(1) {
            let mut event: Value = serde_json::from_str(line).unwrap();
            if event.get("number").is_some() && event.get("type").is_some() {
                number += 1;
                event["number"] = number.into();
                *line = event.to_string();
            }
        }
        lines.join("\n")
    }
}

#[tokio::test]
async fn a_session_that_does_not_fit_together_is_refused_with_its_line() {
    let test = talked().await;
    let text = text_of(&test.store, test.session).await;
    let lines = Lines(text.lines().map(str::to_owned).collect());
    let without = |text: &str| {
        let mut left = lines.0.clone();
        left.remove(lines.find(text));
        left.join("\n")
    };
    let (second, queued) = ("\"messageNumber\":2,", "{\"type\":\"turn-queued\"");
    let (started, ended) = ("{\"type\":\"turn-started\"", "{\"type\":\"turn-ended\"");
    let line = |text: &str| format!("line {}: ", lines.find(text) + 1);
    let known = test.store.session(test.session).await.unwrap();
    let state = |field: &str, value: u64| {
        let mut state = serde_json::to_value(&known.state).unwrap();
        state[field] = value.into();
        let number = known.head.next();
        let session = test.session;
        let event = json!({"type": "restored", "state": state, "session": session, "at": 9, "number": number});
        format!("{text}{event}")
    };
    let restored = state("inARow", 3);
    import(&test.store, restored.as_bytes(), new_session(), unchecked()).await.unwrap();
    let cases = [
        (
            lines.changed("", "[[member]]\\nname = \\\"kailai\\\"", "[[member]]\\nname = 5"),
            "line 1: the field `team` is not a team file: ".to_owned(),
        ),
        (
            lines.changed(second, "\"message\":{\"id\":\"msg-2\"", "\"message\":{\"id\":\"msg-1\""),
            line(second) + "event 9: message 2 has the `id` of an earlier one: msg-1",
        ),
        (lines.renumbered(started, 2), "turn 1 is running and cannot become running".to_owned()),
        (lines.renumbered(started, 0), "attempt 1 of turn 1 is not its last".to_owned()),
        (lines.renumbered(queued, 0), "there is no turn 1".to_owned()),
        (lines.renumbered(queued, 2), "turn 1 is out of order".to_owned()),
        (lines.renumbered(ended, 2), "is recorded already".to_owned()),
        (lines.renumbered(second, 2), "message 2 is out of order".to_owned()),
        (lines.renumbered(second, 0), "turn 2 answers a message that is missing".to_owned()),
        (without(second), line(second) + "the number of the event is 10, and 9 was expected"),
        (
            lines.changed(second, &test.session.to_string(), &SessionId::generate().to_string()),
            "belongs to another session".to_owned(),
        ),
        (
            lines.changed("", "\"version\":4", "\"version\":9"),
            "line 1: the file has version 9".to_owned(),
        ),
        (
            lines.changed(queued, "\"turn\":1,", "\"turn\":9223372036854775806,"),
            "turn 9223372036854775806 is beyond 9007199254740991".to_owned(),
        ),
        (
            lines.changed("", "\"createdAt\":", "\"createdAt\":-"),
            "line 1: the field `createdAt` is not a time between 1970 and 9999".to_owned(),
        ),
        (without("{\"content\""), "is missing".to_owned()),
        (state("lastMessage", 9), "the state does not follow from the events".to_owned()),
        (state("lastTurn", 9), "the state does not follow from the events".to_owned()),
        (state("nextMessageId", 1), "the state does not follow from the events".to_owned()),
        (format!("{text}nonsense"), "expected ident".to_owned()),
        (format!("{text}{{}}"), "missing field `session`".to_owned()),
    ];
    for (text, why) in cases {
        let refused = import(&test.store, text.as_bytes(), new_session(), unchecked())
            .await
            .expect_err(&why)
            .to_string();
        assert!(refused.contains(&why), "{refused} is not {why}");
    }
}
