//! Every kind of write of a process whose lease was claimed by another one is refused, each by itself.

use std::time::Duration;

use convoke_agent::thread::{
    RequestOutcome, RequestTexts, ThreadAppend, ThreadStore as _, ThreadStoreError,
};
use convoke_session::conformance::{attempt, commit, message, request, turn};
use convoke_session::progress::Progress;
use convoke_session::shared::{TurnOffer, TurnRequirements};
use convoke_session::store::postgres::PostgresStore;
use convoke_session::{
    AttemptRef, Commit, Content, Coordinator, Head, MessageNumber, NewSession, Store, StoreError,
    ThreadId, TurnId, TurnState,
};

use super::agents::{Seen, team};
use super::cluster::Cluster;
use super::sharing::{holder, says, session};
use super::{expire, node};

/// A session with a running turn, a thread and a request, which a process has lost.
struct Lost {
    stale: PostgresStore,
    fresh: PostgresStore,
    new: NewSession,
    head: Head,
    thread: ThreadId,
}

/// Returns what a commit adds to a session with a running turn.
fn begun(head: Head, contents: &[Content; 3]) -> Commit {
    let mut step = commit(head);
    step.contents = contents.to_vec();
    step.messages = vec![message(1, None, "ada", &["max"], "go")];
    step.turns = vec![turn(1, 1, TurnState::Running)];
    step.attempts = vec![attempt(1, 1, contents, false)];
    step.state.last_message = MessageNumber(1);
    step.state.last_turn = TurnId(1);
    step
}

fn append(thread: &ThreadId, known: usize) -> ThreadAppend {
    ThreadAppend { thread: thread.clone(), known, lines: vec!["a line".to_owned()] }
}

fn texts() -> RequestTexts {
    RequestTexts { body: "[]".to_owned(), ledger: String::new() }
}

fn is_refused<T>(written: Result<T, StoreError>) -> bool {
    written.is_err_and(|error| matches!(error, StoreError::LeaseLost { .. }))
}

fn is_refused_thread<T>(written: Result<T, ThreadStoreError>) -> bool {
    written.is_err_and(|error| error.to_string().contains("no longer holds"))
}

#[tokio::test(flavor = "multi_thread")]
async fn no_kind_of_write_of_a_stale_process_is_carried_out() {
    let cluster = Cluster::start();
    let (stale, fresh) = (node(&cluster).await, node(&cluster).await);
    let new = session();
    stale.create(new.clone()).await.unwrap();
    let lease = stale.hold(new.id, holder(1)).await.unwrap();
    let contents = ["prompt", "input", "ledger"].map(Content::new);
    let thread = ThreadId::of_member(new.id, "max");
    let mut first = begun(Head(0), &contents);
    first.threads = vec![append(&thread, 0)];
    let head = stale.commit(new.id, first).await.unwrap();
    let of_turn = AttemptRef { session: new.id, turn: TurnId(1), attempt: 1 };
    let sent = request(&thread, 1, Some(of_turn), texts());
    assert_eq!(stale.add_request(&sent, None).await.unwrap(), 1);
    stale.say(new.id, &says("waits")).await.unwrap();

    expire(&cluster, &new.id.to_string()).await;
    let held = fresh.hold(new.id, holder(2)).await.unwrap();
    let lost = Lost { stale, fresh, new, head, thread };
    commits_are_refused(&lost).await;
    let Lost { stale, fresh, new, thread, .. } = lost;
    assert!(is_refused_thread(stale.append_lines(&append(&thread, 1)).await), "a thread");
    let second = request(&thread, 2, Some(of_turn), texts());
    assert!(is_refused_thread(stale.add_request(&second, None).await), "a request");
    let outcome = RequestOutcome::default();
    assert!(is_refused_thread(stale.set_outcome(&thread, 1, &outcome).await), "an outcome");
    assert!(stale.signals(new.id).await.map_or(true, |taken| taken.is_empty()), "signals");

    // Nothing of it is there.
    assert_eq!(fresh.session(new.id).await.unwrap().head, head);
    assert_eq!(fresh.messages_after(new.id, MessageNumber(0), 9).await.unwrap().len(), 1);
    assert_eq!(fresh.progress(new.id, TurnId(1), 1).await.unwrap(), "");
    assert_eq!(fresh.thread_lines(&thread).await.unwrap().len(), 1);
    assert_eq!(fresh.requests(&thread).await.unwrap().len(), 1);
    assert_eq!(fresh.inbox(new.id).await.unwrap().len(), 1);
    drop((lease, held));
    stale.close().await;
    fresh.close().await;
}

/// Tries a commit for each kind of row.
async fn commits_are_refused(lost: &Lost) {
    type Change = fn(&mut Commit, &Lost);
    let Lost { stale, new, head, thread, .. } = lost;
    let number = stale.inbox(new.id).await.unwrap()[0].0;
    let kinds: [(&str, Change); 5] = [
        ("a message", |step, _| {
            step.messages = vec![message(2, None, "max", &[], "too late")];
            step.state.last_message = MessageNumber(2);
        }),
        ("a turn", |step, _| step.turns = vec![turn(1, 1, TurnState::Failed)]),
        ("progress", |step, _| {
            let events = "{}\n".to_owned();
            step.progress = vec![Progress { turn: TurnId(1), attempt: 1, events }];
        }),
        ("a thread", |step, lost| step.threads = vec![append(&lost.thread, 1)]),
        ("an offer", |step, _| {
            let requirements = TurnRequirements { agent: "claude".to_owned(), node: None };
            let guard = convoke_session::routing::guard::Guard::default();
            let (turn, member) = (TurnId(1), "max".into());
            step.offer = Some(TurnOffer { turn, member, requirements, guard });
        }),
    ];
    for (kind, change) in kinds {
        let mut step = commit(*head);
        step.state.last_message = MessageNumber(1);
        step.state.last_turn = TurnId(1);
        change(&mut step, lost);
        assert!(is_refused(stale.commit(new.id, step).await), "{kind} of {thread:?}");
    }
    let mut step = commit(*head);
    step.taken = Some(number);
    assert!(is_refused(stale.commit(new.id, step).await), "a message of the inbox");
}

/// A process that has lost its session neither stops the conversation nor hands it over.
#[tokio::test(flavor = "multi_thread")]
async fn a_stale_process_does_not_release_the_session_of_another() {
    for text in ["to nobody", "for another machine [NEXT: cody]"] {
        let cluster = Cluster::start();
        let (stale, fresh) = (node(&cluster).await, node(&cluster).await);
        let (new, seen) = (session(), Seen::default());
        let observer = Box::new(seen.clone());
        let mut coordinator =
            Coordinator::create(stale.clone(), new.clone(), team(&[]), observer).await.unwrap();
        // The session is held from here on.
        coordinator.accept(says(text)).await.unwrap();
        expire(&cluster, &new.id.to_string()).await;
        let held = fresh.hold(new.id, holder(2)).await.unwrap();
        let controls = coordinator.controls();
        let running = tokio::spawn(async move { coordinator.run().await.unwrap() });
        seen.wait_for("lease.lost").await;
        assert!(fresh.is_held(new.id).await.unwrap(), "{text}");
        let standing = fresh.shared_state(new.id).await.unwrap();
        assert_eq!((standing.offer, standing.stopped), (None, None), "{text}");
        controls.leave();
        let ended = tokio::time::timeout(Duration::from_mins(1), running).await;
        assert!(ended.is_ok(), "it follows for ever");
        drop(held);
        fresh.close().await;
    }
}
