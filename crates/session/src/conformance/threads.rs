//! Threads: what a model remembers is stored with the turn that it belongs to, or not at all.

use super::rows::{commit, message, new_session};
use crate::id::{Head, MessageNumber, SessionId};
use crate::store::{Store, StoreError};
use crate::thread::{Addition, ThreadLine, ThreadOwner};

pub(super) async fn are_kept_with_their_session(store: &impl Store) -> Result<(), StoreError> {
    lines_are_part_of_a_commit(store).await?;
    lines_added_by_hand_tell_of_no_more(store).await?;
    of_two_who_go_on_one_is_refused(store).await?;
    removing_a_session_removes_its_threads_alone(store).await?;
    a_thread_of_nobody_is_listed_and_removed_alone(store).await
}

fn addition(thread: &str, known: usize, as_of: u64, texts: &[&str]) -> Addition {
    Addition { thread: thread.to_owned(), known, lines: lines(as_of, texts) }
}

fn lines(as_of: u64, texts: &[&str]) -> Vec<ThreadLine> {
    let line =
        |text: &&str| ThreadLine { as_of: Some(MessageNumber(as_of)), text: (*text).to_owned() };
    texts.iter().map(line).collect()
}

async fn begin(store: &impl Store) -> Result<(SessionId, String), StoreError> {
    let new = new_session();
    let thread = format!("{}-max", new.id);
    store.create(new.clone()).await?;
    let mut first = commit(Head(0));
    first.threads = vec![addition(&thread, 0, 1, &["one", "two"])];
    store.commit(new.id, first).await?;
    Ok((new.id, thread))
}

async fn lines_are_part_of_a_commit(store: &impl Store) -> Result<(), StoreError> {
    let nothing = store.thread("a thread that nobody has").await?;
    assert_eq!(nothing, [], "an unknown thread has no lines");
    let (session, thread) = begin(store).await?;
    let two = lines(1, &["one", "two"]);
    assert_eq!(store.thread(&thread).await?, two, "a commit begins a thread");
    assert_eq!(store.threads(session).await?, [&*thread], "a thread belongs to its session");

    let texts = ["", "\u{FEFF}\0 \r\n\u{2028}é漢🦀", "\"quoted\" \\ 'and' %_"];
    let mut step = commit(Head(1));
    let other = format!("{session}-Sarah");
    step.threads = vec![addition(&thread, 2, 3, &texts), addition(&other, 0, 3, &["hers"])];
    step.threads[1].lines[0].as_of = None;
    let hers = step.threads[1].lines.clone();
    store.commit(session, step).await?;
    let all = [two, lines(3, &texts)].concat();
    assert_eq!(store.thread(&thread).await?, all, "lines come back in order and to the byte");
    assert_eq!(store.thread(&other).await?, hers, "a line may tell of what nobody knows");
    assert_eq!(store.threads(session).await?, [&*other, &*thread], "threads are in order");

    let mut late = commit(Head(2));
    late.messages = vec![message(1, None, "max", &[], "text")];
    late.threads = vec![addition(&other, 1, 4, &["more"]), addition(&thread, 2, 4, &["late"])];
    let refused = store.commit(session, late).await;
    let is_named = matches!(&refused, Err(StoreError::ThreadChanged(name)) if *name == thread);
    assert!(is_named, "a commit that does not know all lines of a thread is refused");
    assert_eq!(store.thread(&thread).await?, all, "a refused commit adds no line");
    assert_eq!(store.thread(&other).await?, hers, "a refused commit adds no line elsewhere");
    assert_eq!(store.session(session).await?.head, Head(2), "a refused commit moves no head");
    let messages = store.messages_after(session, MessageNumber(0), 9).await?;
    assert_eq!(messages, [], "a refused commit adds no message");

    let mut stale = commit(Head(1));
    stale.threads = vec![addition(&thread, 5, 4, &["stale"])];
    let refused = store.commit(session, stale).await;
    assert!(matches!(refused, Err(StoreError::Conflict { .. })), "an old head adds no line");
    assert_eq!(store.thread(&thread).await?, all, "an old head adds no line");
    Ok(())
}

async fn lines_added_by_hand_tell_of_no_more(store: &impl Store) -> Result<(), StoreError> {
    let (session, thread) = begin(store).await?;
    store.extend_thread(&thread, 2, &["three".to_owned(), "four".to_owned()]).await?;
    let all = lines(1, &["one", "two", "three", "four"]);
    assert_eq!(store.thread(&thread).await?, all, "lines tell of what the line before them tells");
    assert_eq!(store.session(session).await?.head, Head(1), "lines by hand are no commit");
    let late = store.extend_thread(&thread, 2, &["late".to_owned()]).await;
    assert!(matches!(late, Err(StoreError::ThreadChanged(_))), "only who has read all adds lines");
    assert_eq!(store.thread(&thread).await?, all, "nothing is added by who has not");
    let own = SessionId::generate().to_string();
    store.extend_thread(&own, 0, &["alone".to_owned()]).await?;
    let alone = [ThreadLine { as_of: None, text: "alone".to_owned() }];
    assert_eq!(store.thread(&own).await?, alone, "a thread may be of no session");
    Ok(())
}

async fn of_two_who_go_on_one_is_refused(store: &impl Store) -> Result<(), StoreError> {
    let (_, thread) = begin(store).await?;
    let text = [String::from("next")];
    let add = || store.extend_thread(&thread, 2, &text);
    let (a, b, c) = tokio::join!(add(), add(), add());
    let won = [a, b, c].into_iter().flatten().count();
    assert_eq!(won, 1, "of those who go on with a thread, one wins");
    assert_eq!(store.thread(&thread).await?.len(), 3, "of those who go on, one adds its lines");
    Ok(())
}

async fn removing_a_session_removes_its_threads_alone(
    store: &impl Store,
) -> Result<(), StoreError> {
    let (session, thread) = begin(store).await?;
    let (_, other) = begin(store).await?;
    // Its name is like a member's, and it is nobody's.
    let own = format!("{session}-x");
    store.extend_thread(&own, 0, &["alone".to_owned()]).await?;
    store.remove(session).await?;
    assert_eq!(store.thread(&thread).await?, [], "the threads of a removed session are gone");
    assert_eq!(store.threads(session).await?, [""; 0], "a removed session has no threads");
    assert_eq!(store.thread(&other).await?.len(), 2, "those of other sessions stay");
    assert_eq!(store.thread(&own).await?.len(), 1, "those of no session stay");
    Ok(())
}

async fn a_thread_of_nobody_is_listed_and_removed_alone(
    store: &impl Store,
) -> Result<(), StoreError> {
    let (session, thread) = begin(store).await?;
    let own = SessionId::generate().to_string();
    assert_eq!(store.thread_owner(&own).await?, None, "a thread that nobody has begun");
    store.extend_thread(&own, 0, &["é".to_owned(), "alone".to_owned()]).await?;
    assert_eq!(store.thread_owner(&own).await?, Some(ThreadOwner::Nobody), "whose it is");
    let owner = store.thread_owner(&thread).await?;
    assert_eq!(owner, Some(ThreadOwner::Session(session)), "a commit's thread is its session's");
    let listed = store.lone_threads().await?;
    assert!(listed.iter().all(|it| it.name != thread), "a session's thread is not listed");
    let listed = listed.iter().find(|it| it.name == own).map(|it| it.bytes);
    assert_eq!(listed, Some(7), "a thread is listed with its bytes");
    assert!(!store.remove_lone_thread(&thread).await?, "a session's thread is not removed");
    assert_eq!(store.thread(&thread).await?.len(), 2, "a session's thread stays");
    assert!(store.remove_lone_thread(&own).await?, "a thread of nobody is removed");
    assert_eq!(store.thread(&own).await?, [], "its lines are gone");
    assert_eq!(store.thread_owner(&own).await?, None, "it is gone");
    assert!(!store.remove_lone_thread(&own).await?, "what is gone is not removed again");
    Ok(())
}
