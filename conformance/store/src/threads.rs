//! Threads: lines are stored with the turn that they belong to, or not at all.

use convoke_agent::thread::ThreadStoreError;
use convoke_protocol::id::{EventNumber, MessageNumber, SessionId, ThreadId};
use convoke_protocol::thread::{ThreadAppend, ThreadLine};
use convoke_session::store::{Commit, Page, SessionImport, Store, StoreError};
use convoke_session::thread::ThreadOwner;

use super::rows::{Log, message, new_session, said};

pub(super) async fn are_kept_with_their_session(store: &impl Store) -> Result<(), StoreError> {
    lines_are_part_of_a_commit(store).await?;
    lines_are_part_of_an_import(store).await?;
    lines_added_by_hand_tell_of_no_more(store).await?;
    of_two_who_go_on_one_is_refused(store).await?;
    removing_a_session_removes_its_threads_alone(store).await?;
    a_thread_without_a_session_is_listed_and_removed_alone(store).await
}

fn append(thread: &ThreadId, known: usize, texts: &[&str]) -> ThreadAppend {
    let lines = texts.iter().map(|text| (*text).to_owned()).collect();
    ThreadAppend { thread: thread.clone(), known, lines }
}

/// Creates a commit after which this message is the newest.
fn commit_as_of(log: &Log, newest: u64) -> Commit {
    log.commit([said(message(newest, None, "max", &[], "text"))])
}

fn lines(as_of: u64, texts: &[&str]) -> Vec<ThreadLine> {
    let line =
        |text: &&str| ThreadLine { as_of: Some(MessageNumber(as_of)), text: (*text).to_owned() };
    texts.iter().map(line).collect()
}

async fn begin(store: &impl Store) -> Result<(SessionId, ThreadId), StoreError> {
    let (log, thread) = begin_log(store).await?;
    Ok((log.session, thread))
}

async fn begin_log(store: &impl Store) -> Result<(Log, ThreadId), StoreError> {
    let new = new_session();
    let thread = ThreadId::of_member(new.id, "max");
    let mut log = Log::create(store, &new).await?;
    let mut first = commit_as_of(&log, 1);
    first.threads = vec![append(&thread, 0, &["one", "two"])];
    log.store(store, first).await?;
    Ok((log, thread))
}

async fn lines_are_part_of_a_commit(store: &impl Store) -> Result<(), StoreError> {
    let nothing = store.thread_lines(&ThreadId::generate()).await?;
    assert_eq!(nothing, [], "an unknown thread has no lines");
    let (mut log, thread) = begin_log(store).await?;
    let session = log.session;
    let two = lines(1, &["one", "two"]);
    assert_eq!(store.thread_lines(&thread).await?, two, "a commit begins a thread");
    assert_eq!(
        store.threads(session).await?,
        std::slice::from_ref(&thread),
        "a thread belongs to its session"
    );

    let texts = ["", "\u{FEFF}\0 \r\n\u{2028}é漢🦀", "\"quoted\" \\ 'and' %_"];
    let first = log.clone();
    let mut step = commit_as_of(&log, 3);
    let other = ThreadId::of_member(session, "Sarah");
    step.threads = vec![append(&thread, 2, &texts), append(&other, 0, &["hers"])];
    let hers = lines(3, &["hers"]);
    log.store(store, step).await?;
    let all = [two, lines(3, &texts)].concat();
    assert_eq!(store.thread_lines(&thread).await?, all, "lines come back in order, to the byte");
    let both = [other.clone(), thread.clone()];
    assert_eq!(store.threads(session).await?, both, "threads are in order");

    let mut late = commit_as_of(&log, 4);
    late.threads = vec![append(&other, 1, &["more"]), append(&thread, 2, &["late"])];
    let refused = store.commit(session, late).await;
    let is_named = matches!(
        &refused,
        Err(StoreError::Thread(ThreadStoreError::Changed(changed))) if *changed == thread
    );
    assert!(is_named, "a commit that does not know all lines of a thread is refused");
    assert_eq!(store.thread_lines(&thread).await?, all, "a refused commit adds no line");
    assert_eq!(store.thread_lines(&other).await?, hers, "a refused commit adds no line elsewhere");
    assert_eq!(store.session(session).await?.head, log.head, "a refused commit moves no head");
    let messages = store.messages_after(session, MessageNumber(3), 9).await?;
    assert_eq!(messages, [], "a refused commit adds no message");

    let mut stale = commit_as_of(&first, 4);
    stale.threads = vec![append(&thread, 5, &["stale"])];
    let refused = store.commit(session, stale).await;
    assert!(matches!(refused, Err(StoreError::Conflict { .. })), "an old head adds no line");
    assert_eq!(store.thread_lines(&thread).await?, all, "an old head adds no line");
    Ok(())
}

async fn lines_are_part_of_an_import(store: &impl Store) -> Result<(), StoreError> {
    let new = new_session();
    let [one, two] = ["ada", "bob"].map(|member| ThreadId::of_member(new.id, member));
    let line = |as_of: Option<u64>, text: &str| ThreadLine {
        as_of: as_of.map(MessageNumber),
        text: text.to_owned(),
    };
    let pages = [
        vec![(one.clone(), line(None, "first")), (one.clone(), line(Some(1), "second"))],
        vec![(one.clone(), line(Some(2), "third")), (two.clone(), line(Some(2), "his"))],
    ];
    let mut import = store.import(new.clone()).await?;
    for lines in pages {
        import.write(Page { lines, ..Page::default() }).await?;
    }
    import.finish().await?;
    let first = [line(None, "first"), line(Some(1), "second"), line(Some(2), "third")];
    assert_eq!(store.thread_lines(&one).await?, first, "the pages of a thread continue");
    assert_eq!(store.thread_lines(&two).await?, [line(Some(2), "his")], "each has its own");
    assert_eq!(store.threads(new.id).await?, [one, two], "they are the session's");
    Ok(())
}

async fn lines_added_by_hand_tell_of_no_more(store: &impl Store) -> Result<(), StoreError> {
    let (session, thread) = begin(store).await?;
    store.append_lines(&append(&thread, 2, &["three", "four"])).await?;
    let all = lines(1, &["one", "two", "three", "four"]);
    assert_eq!(
        store.thread_lines(&thread).await?,
        all,
        "appended lines have the `as_of` of the line before them"
    );
    assert_eq!(
        store.session(session).await?.head,
        EventNumber(2),
        "appending lines outside a commit does not move the head"
    );
    let late = store.append_lines(&append(&thread, 2, &["late"])).await;
    assert!(
        matches!(late, Err(ThreadStoreError::Changed(_))),
        "an append that does not know all lines is refused"
    );
    assert_eq!(store.thread_lines(&thread).await?, all, "a refused append adds nothing");
    let own = ThreadId::generate();
    store.append_lines(&append(&own, 0, &["alone"])).await?;
    let alone = [ThreadLine { as_of: None, text: "alone".to_owned() }];
    assert_eq!(store.thread_lines(&own).await?, alone, "a thread may belong to no session");
    Ok(())
}

async fn of_two_who_go_on_one_is_refused(store: &impl Store) -> Result<(), StoreError> {
    let (_, thread) = begin(store).await?;
    let next = append(&thread, 2, &["next"]);
    let add = || store.append_lines(&next);
    let (a, b, c) = tokio::join!(add(), add(), add());
    let won = [a, b, c].into_iter().flatten().count();
    assert_eq!(won, 1, "of concurrent appends to a thread, one succeeds");
    assert_eq!(
        store.thread_lines(&thread).await?.len(),
        3,
        "only the successful append adds its lines"
    );
    Ok(())
}

async fn removing_a_session_removes_its_threads_alone(
    store: &impl Store,
) -> Result<(), StoreError> {
    let (session, thread) = begin(store).await?;
    let (_, other) = begin(store).await?;
    // The name looks like a member's thread, but no member owns it.
    let own = ThreadId::of_member(session, "x");
    store.append_lines(&append(&own, 0, &["alone"])).await?;
    store.remove(session).await?;
    assert_eq!(store.thread_lines(&thread).await?, [], "the threads of a removed session are gone");
    assert_eq!(store.threads(session).await?, [], "a removed session has no threads");
    assert_eq!(store.thread_lines(&other).await?.len(), 2, "those of other sessions stay");
    assert_eq!(store.thread_lines(&own).await?.len(), 1, "those of no session stay");
    Ok(())
}

async fn a_thread_without_a_session_is_listed_and_removed_alone(
    store: &impl Store,
) -> Result<(), StoreError> {
    let (session, thread) = begin(store).await?;
    let own = ThreadId::generate();
    assert_eq!(store.thread_owner(&own).await?, None, "an unknown thread has no owner");
    store.append_lines(&append(&own, 0, &["é", "alone"])).await?;
    assert_eq!(store.thread_owner(&own).await?, Some(ThreadOwner::Nobody), "whose it is");
    let owner = store.thread_owner(&thread).await?;
    assert_eq!(owner, Some(ThreadOwner::Session(session)), "a commit's thread is its session's");
    let listed = store.lone_threads().await?;
    assert!(listed.iter().all(|it| it.id != thread), "a session's thread is not listed");
    let listed = listed.iter().find(|it| it.id == own).map(|it| it.bytes);
    assert_eq!(listed, Some(7), "a thread is listed with its bytes");
    assert!(!store.remove_lone_thread(&thread).await?, "a session's thread is not removed");
    assert_eq!(store.thread_lines(&thread).await?.len(), 2, "a session's thread stays");
    assert!(store.remove_lone_thread(&own).await?, "a thread of no session can be removed");
    assert_eq!(store.thread_lines(&own).await?, [], "its lines are gone");
    assert_eq!(store.thread_owner(&own).await?, None, "it is gone");
    assert!(!store.remove_lone_thread(&own).await?, "a removed thread cannot be removed again");
    Ok(())
}
