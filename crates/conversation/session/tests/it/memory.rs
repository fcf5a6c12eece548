//! Threads of members: stored with their turns, copied, cut, exported and imported with their session.

use convoke_agent::thread::{ThreadStore as _, ThreadStoreError};
use convoke_conformance_store::Log;
use convoke_protocol::event::StopReason;
use convoke_protocol::id::{MessageNumber, SessionId, ThreadId, TurnId};
use convoke_protocol::thread::{ThreadAppend, ThreadLine};
use convoke_session::transfer::{BadThread, TransferError, export, import};
use convoke_session::{NewMessage, Store, StoreError};

use crate::room::{Room, new_session, thread};
use crate::test_session::unchecked;

fn line(as_of: u64, text: &str) -> (Option<u64>, String) {
    (Some(as_of), text.to_owned())
}

#[tokio::test]
async fn a_turn_is_remembered_with_its_end_done_or_not() {
    let room = Room::talked().await;
    assert_eq!(room.lines(room.session, "ada").await, [line(2, "1/1"), line(6, "3/5")]);
    assert_eq!(room.lines(room.session, "bob b").await, [line(4, "2/3")]);
    let mut coordinator = room.open(room.session).await;
    coordinator.accept(NewMessage::from_person("kim", "fail").to(["bob b"])).await.unwrap();
    let stop = coordinator.run().await.unwrap();
    assert!(matches!(stop, StopReason::TurnFailed { .. }), "{stop:?}");
    assert_eq!(room.lines(room.session, "bob b").await, [line(4, "2/3"), line(7, "4/7")]);
    coordinator.retry(TurnId(4)).await.unwrap();
    coordinator.run().await.unwrap();
    let names: Vec<_> =
        room.lines(room.session, "bob b").await.into_iter().map(|it| it.1).collect();
    assert_eq!(names, ["2/3", "4/7", "4/7"], "another attempt has the same name");
}

#[tokio::test]
async fn a_turn_whose_thread_was_changed_meanwhile_fails_and_the_session_continues() {
    let room = Room::talked().await;
    let mut coordinator = room.open(room.session).await;
    coordinator.accept(NewMessage::from_person("kim", "meddle").to(["ada"])).await.unwrap();
    let stop = coordinator.run().await.unwrap();
    let StopReason::TurnFailed { turns, .. } = &stop else { panic!("{stop:?}") };
    let why = turns[0].outcome.to_string();
    assert!(why.contains("was changed by another program"), "{why}");
    let session = room.store.session(room.session).await.unwrap();
    assert_eq!(session.state.last_message, MessageNumber(7), "there is no reply");
    assert_eq!(room.store.open_turns(room.session).await.unwrap().len(), 0);
    assert_eq!(room.lines(room.session, "ada").await[2], line(6, "by somebody else"));
    let stored = room.store.turns_after(room.session, TurnId(3), 1).await.unwrap();
    assert_eq!(stored[0].problem.as_deref(), Some(why.as_str()));

    // The session is not blocked by it.
    coordinator.accept(NewMessage::from_person("kim", "five").to(["ada"])).await.unwrap();
    coordinator.run().await.unwrap();
    let said = room.store.message(room.session, MessageNumber(9)).await.unwrap();
    assert_eq!(said.message.content, "3 remembered");
}

#[tokio::test]
async fn a_copy_remembers_what_its_members_did_and_goes_its_own_way() {
    let room = Room::talked().await;
    let (copy, told) = room.fork(None).await;
    assert_eq!(told, [""; 0]);
    for member in ["ada", "bob b"] {
        assert_eq!(room.lines(copy, member).await, room.lines(room.session, member).await);
    }
    let mut coordinator = room.open(copy).await;
    coordinator.accept(NewMessage::from_person("kim", "four").to(["ada"])).await.unwrap();
    coordinator.run().await.unwrap();
    let said = room.store.message(copy, MessageNumber(8)).await.unwrap();
    assert_eq!(said.message.content, "2 remembered");
    assert_eq!(room.lines(copy, "ada").await.len(), 3);
    assert_eq!(room.lines(room.session, "ada").await.len(), 2, "the original is as it was");
    drop(coordinator);
    room.store.remove(copy).await.unwrap();
    assert_eq!(room.lines(copy, "ada").await, []);
    assert_eq!(room.lines(room.session, "ada").await.len(), 2, "the original is as it was");
}

#[tokio::test]
async fn a_copy_as_it_was_earlier_remembers_no_more_than_it_holds() {
    let room = Room::talked().await;
    // Edited by hand between bob's turn and ada's second.
    let hers = thread(room.session, "ada");
    let summary = ThreadAppend { thread: hers, known: 2, lines: vec!["a summary".to_owned()] };
    for (after, ada, bob) in [
        (6, vec![line(2, "1/1"), line(6, "3/5")], vec![line(4, "2/3")]),
        (5, vec![line(2, "1/1")], vec![line(4, "2/3")]),
        (3, vec![line(2, "1/1")], vec![]),
        (1, vec![], vec![]),
    ] {
        let (copy, told) = room.fork(Some(after)).await;
        assert_eq!(told, [""; 0]);
        assert_eq!(room.lines(copy, "ada").await, ada, "after {after}");
        assert_eq!(room.lines(copy, "bob b").await, bob, "after {after}");
    }
    room.store.append_lines(&summary).await.unwrap();
    let (copy, _) = room.fork(Some(5)).await;
    assert_eq!(room.lines(copy, "ada").await, [line(2, "1/1")]);
    let (copy, _) = room.fork(Some(6)).await;
    assert_eq!(room.lines(copy, "ada").await[2], line(6, "a summary"));
}

#[tokio::test]
async fn a_thread_that_cannot_be_divided_starts_empty_in_the_copy_with_a_diagnostic() {
    let room = Room::new().await;
    let mut coordinator = room.begin().await;
    coordinator.accept(NewMessage::from_person("kim", "one").to(["bob b"])).await.unwrap();
    coordinator.run().await.unwrap();
    drop(coordinator);
    // Threads stored by an earlier version have lines without `asOf`.
    let old = room.exported().await.replace("\"asOf\":2", "\"asOf\":null");
    room.store.remove(room.session).await.unwrap();
    import(&room.store, old.as_bytes(), new_session(SessionId::generate()), unchecked())
        .await
        .unwrap();
    let unknown = (None, "1/1".to_owned());
    assert_eq!(room.lines(room.session, "bob b").await, std::slice::from_ref(&unknown));

    let (copy, told) = room.fork(None).await;
    assert_eq!(told, [""; 0]);
    assert_eq!(room.lines(copy, "bob b").await, std::slice::from_ref(&unknown));
    let (copy, told) = room.fork(Some(1)).await;
    assert_eq!(told, ["thread.forgotten"]);
    assert_eq!(room.lines(copy, "bob b").await, []);

    // Later lines show that the earlier ones belong to earlier messages.
    let mut coordinator = room.open(room.session).await;
    for says in ["two", "three"] {
        coordinator.accept(NewMessage::from_person("kim", says).to(["bob b"])).await.unwrap();
        coordinator.run().await.unwrap();
    }
    let (copy, told) = room.fork(Some(4)).await;
    assert_eq!(told, [""; 0]);
    assert_eq!(room.lines(copy, "bob b").await, [unknown, line(4, "2/3")]);
    let (_, told) = room.fork(Some(3)).await;
    assert_eq!(told, ["thread.forgotten"]);
}

#[tokio::test]
async fn a_thread_that_is_not_named_after_its_session_is_copied_too() {
    let room = Room::talked().await;
    let log = Log::read(&room.store, room.session).await.unwrap();
    let mut commit = log.commit([]);
    let thread = ThreadId::parse("a-b_c").unwrap();
    commit.threads = vec![ThreadAppend { thread, known: 0, lines: vec!["odd".to_owned()] }];
    room.store.commit(room.session, commit).await.unwrap();
    let (copy, _) = room.fork(None).await;
    let threads = room.store.threads(copy).await.unwrap();
    assert!(threads.contains(&ThreadId::with_suffix(copy, "a-b_c").unwrap()), "{threads:?}");
}

#[tokio::test]
async fn everything_is_exported_and_comes_back_to_the_byte() {
    let room = Room::talked().await;
    let hers = thread(room.session, "ada");
    let odd = "{\"odd\": \"\u{FEFF}\0 \r\n\u{2028}é漢🦀 \\\"\"}".to_owned();
    let append = ThreadAppend { thread: hers, known: 2, lines: vec![odd.clone()] };
    room.store.append_lines(&append).await.unwrap();
    let text = room.exported().await;
    let other = Room::new().await;
    let seen = std::sync::Mutex::new(Vec::new());
    let check = |lines: &[&str]| {
        seen.lock().unwrap().push(lines.join("|"));
        Ok(())
    };
    let mut new = new_session(SessionId::generate());
    let imported = import(&other.store, text.as_bytes(), new.clone(), &check).await.unwrap();
    assert_eq!(imported.session, room.session);
    assert_eq!(seen.into_inner().unwrap(), [format!("1/1|3/5|{odd}"), "2/3".to_owned()]);
    let mut out = Vec::new();
    export(&other.store, room.session, &mut out).await.unwrap();
    assert_eq!(String::from_utf8(out).unwrap(), text);
    // If the id is taken, the threads get the new one.
    new.id = SessionId::generate();
    let again = import(&room.store, text.as_bytes(), new.clone(), unchecked()).await.unwrap();
    assert_eq!(again.session, new.id);
    for member in ["ada", "bob b"] {
        assert_eq!(room.lines(new.id, member).await, room.lines(room.session, member).await);
    }
}

#[tokio::test]
async fn threads_that_do_not_fit_are_refused_with_their_line_and_nothing_is_left_behind() {
    let text = Room::talked().await.exported().await;
    let lines: Vec<&str> = text.lines().collect();
    let first = lines.iter().position(|line| line.starts_with("{\"threadLine\"")).unwrap();
    let (of_ada, of_bob) = (lines[first], lines[first + 2]);
    let at = |offset: usize, problem: &str| format!("line {}: {problem}", first + 1 + offset);
    let changed = |from: &str, to: &str| text.replacen(from, to, 1);
    let cases = [
        (changed("\"thread\":\"ada\"", "\"thread\":\"a/d\""), at(0, "`a/d` is not the name")),
        (changed("\"thread\":\"ada\"", "\"thread\":\"\""), at(0, "`` is not the name")),
        (changed("\"line\":\"1/1\"", "\"line\":7"), at(0, "invalid type")),
        (changed("\"asOf\":2", "\"asOf\":-2"), at(0, "invalid value")),
        (changed("\"asOf\":6", "\"asOf\":1"), at(1, "a line of the thread `ada` is out of order")),
        (
            changed("\"asOf\":4", "\"asOf\":9"),
            at(2, "the thread `bob_20b` refers to a missing message"),
        ),
        (format!("{text}{of_ada}\n"), at(3, "the lines of the thread `ada` are not consecutive")),
        (format!("{text}\n{of_bob}\n"), at(4, "the thread `bob_20b`: said twice")),
    ];
    let check = |lines: &[&str]| match lines.iter().filter(|line| **line == "2/3").count() {
        0 | 1 => Ok(()),
        _ => Err(BadThread { line: 1, reason: "said twice".to_owned() }),
    };
    let room = Room::new().await;
    for (text, why) in cases {
        let new = new_session(SessionId::generate());
        let refused = import(&room.store, text.as_bytes(), new, &check).await;
        let Err(error @ TransferError::Invalid { .. }) = refused else { panic!("{why}") };
        assert!(error.to_string().contains(&why), "{error} is not {why}");
        assert_eq!(room.store.sessions().await.unwrap(), []);
    }
}

#[tokio::test]
async fn an_import_that_the_store_refuses_leaves_nothing_behind() {
    let text = Room::talked().await.exported().await;
    let room = Room::new().await;
    let header: serde_json::Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    let id = header["id"].as_str().unwrap();
    // Another session already has a thread with that name.
    let taken = ThreadId::of_member(id.parse().unwrap(), "ada");
    let mine = ThreadAppend { thread: taken.clone(), known: 0, lines: vec!["mine".to_owned()] };
    room.store.append_lines(&mine).await.unwrap();
    let new = new_session(SessionId::generate());
    let refused = import(&room.store, text.as_bytes(), new, unchecked()).await.unwrap_err();
    let is_taken =
        matches!(refused, TransferError::Store(StoreError::Thread(ThreadStoreError::Changed(_))));
    assert!(is_taken, "{refused}");
    assert_eq!(room.store.sessions().await.unwrap(), []);
    let mine = ThreadLine { as_of: None, text: "mine".to_owned() };
    assert_eq!(room.store.thread_lines(&taken).await.unwrap(), [mine]);
}
