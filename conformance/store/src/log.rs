//! The log: events are numbered without gaps, and the tables follow from them.

use convoke_protocol::content::Content;
use convoke_protocol::event::EventKind;
use convoke_protocol::id::{EventNumber, MessageNumber, TurnId};
use convoke_protocol::turn::{Attempt, Turn, TurnState};
use convoke_protocol::verdict::{Failure, FailureReason, Verdict};
use convoke_session::store::{Commit, Page, Piece, SessionImport, Store, StoreError};

use super::rows::{
    AT, Log, attempt, ended, message, new_session, noted, queued, replied, said, started,
    timed_out, turn, wrote,
};

pub(super) async fn tables_follow_from_events(store: &impl Store) -> Result<(), StoreError> {
    events_are_read_from_a_number(store).await?;
    numbers_have_no_gaps(store).await?;
    a_turn_is_what_its_events_tell(store).await?;
    what_has_ended_is_not_changed(store).await?;
    pieces_are_kept_until_the_whole_text(store).await?;
    an_import_is_a_log(store).await
}

fn contents() -> [Content; 3] {
    ["prompt", "input", "ledger"].map(Content::new)
}

fn is_recorded<T>(written: &Result<T, StoreError>) -> bool {
    matches!(written, Err(StoreError::Recorded { .. }))
}

async fn events_are_read_from_a_number(store: &impl Store) -> Result<(), StoreError> {
    let new = new_session();
    let mut log = Log::create(store, &new).await?;
    let created = store.events(new.id, EventNumber(0), 9).await?;
    let kinds: Vec<&EventKind> = created.iter().map(|event| &event.kind).collect();
    assert_eq!(kinds, [&EventKind::created(&new)], "a log begins with the creation");
    assert_eq!(created[0].at, new.created_at, "the creation has its time");
    let odd = "\u{FEFF}\0 \r\n\u{2028}é漢🦀";
    let kinds = [said(message(1, None, "kailai", &["max"], odd)), noted(), queued(1, 1)];
    let mut expected = created;
    for kinds in [kinds.to_vec(), vec![wrote(1, odd), noted()]] {
        let step = log.commit(kinds);
        expected.extend(step.events.clone());
        log.store(store, step).await?;
    }
    let all = store.events(new.id, EventNumber(0), 99).await?;
    assert_eq!(all, expected, "events are read as they were written");
    let numbers: Vec<u64> = all.iter().filter_map(|event| Some(event.number?.0)).collect();
    assert_eq!(numbers, [1, 2, 3, 4, 5, 6], "events are counted from 1");
    let page = store.events(new.id, EventNumber(2), 3).await?;
    assert_eq!(page, expected[2..5], "events are read in pages");
    assert_eq!(store.events(new.id, log.head, 9).await?, [], "nothing comes after the head");
    Ok(())
}

async fn numbers_have_no_gaps(store: &impl Store) -> Result<(), StoreError> {
    let new = new_session();
    let log = Log::create(store, &new).await?;
    for (first, second) in [(2, 4), (2, 2), (3, 2), (1, 2), (3, 4)] {
        let mut step = log.commit([noted(), noted()]);
        step.events[0].number = Some(EventNumber(first));
        step.events[1].number = Some(EventNumber(second));
        let refused = store.commit(new.id, step).await;
        assert!(refused.is_err(), "events {first} and {second} do not follow event 1");
    }
    let mut step = log.commit([noted()]);
    step.events[0].number = None;
    assert!(store.commit(new.id, step).await.is_err(), "an event without a number is not stored");
    assert_eq!(store.session(new.id).await?.head, log.head, "a refused event moves no head");
    assert_eq!(store.events(new.id, EventNumber(0), 9).await?.len(), 1, "and is not stored");
    Ok(())
}

async fn a_turn_is_what_its_events_tell(store: &impl Store) -> Result<(), StoreError> {
    let new = new_session();
    let mut log = Log::create(store, &new).await?;
    let [prompt, input, ledger] = contents();
    let failed = Verdict::Failed(Failure::new(FailureReason::Incomplete, "it ended"));
    let result = timed_out(&prompt);
    let crashed = convoke_protocol::turn::AttemptResult { verdict: failed, ..result.clone() };
    let step = Commit {
        contents: vec![prompt.clone(), input.clone(), ledger.clone()],
        ..log.commit([said(message(1, None, "kailai", &["max"], "go")), queued(1, 1)])
    };
    log.store(store, step).await?;
    let all = [prompt, input, ledger];
    let member = turn(1, 1).member;
    let interrupted = EventKind::TurnInterrupted {
        turn: TurnId(1),
        member: member.clone(),
        attempt: 1,
        result: Box::new(crashed.clone()),
    };
    let retried = EventKind::TurnRetried { turn: TurnId(1), member: member.clone() };
    let reply = message(2, Some(1), "max", &[], "done");
    let running = |attempts| Turn { state: TurnState::Running, attempts, ..turn(1, 1) };
    let waiting = |attempts| Turn { attempts, ..turn(1, 1) };
    let stopped = Turn {
        state: TurnState::Failed,
        problem: Some(result.verdict.to_string()),
        ended_at: Some(AT),
        ..waiting(2)
    };
    let done = Turn {
        state: TurnState::Done,
        reply: Some(MessageNumber(2)),
        ended_at: Some(AT),
        ..waiting(3)
    };
    let steps = [
        (vec![started(1, 1, &all)], running(1)),
        (vec![interrupted], waiting(1)),
        (vec![started(1, 2, &all)], running(2)),
        (vec![ended(1, 2, TurnState::Failed, result.clone())], stopped),
        (vec![retried], waiting(2)),
        (vec![started(1, 3, &all)], running(3)),
        (replied(1, 3, reply).to_vec(), done),
    ];
    let mut starts = Vec::new();
    for (events, expected) in steps {
        if matches!(events[0], EventKind::TurnStarted { .. }) {
            starts.push(log.head.next());
        }
        log.add(store, events).await?;
        assert_eq!(store.turns_after(new.id, TurnId(0), 9).await?, std::slice::from_ref(&expected));
        let open = store.open_turns(new.id).await?;
        assert_eq!(open.len(), usize::from(expected.state.is_open()), "{expected:?}");
    }
    let attempt = |number: u32, ended| {
        let event = starts[number as usize - 1];
        Attempt { ended: Some(ended), ..attempt(1, number, event, &all) }
    };
    let last = convoke_protocol::turn::AttemptResult::new(AT, Verdict::Done);
    let expected = [attempt(1, crashed), attempt(2, result), attempt(3, last)];
    assert_eq!(store.attempts(new.id, TurnId(1)).await?, expected, "attempts come back");

    let dropped = EventKind::TurnDropped { turn: TurnId(2), member, problem: "why".to_owned() };
    log.add(store, [queued(2, 1), dropped]).await?;
    let expected = Turn {
        state: TurnState::Cancelled,
        problem: Some("why".to_owned()),
        ended_at: Some(AT),
        ..turn(2, 1)
    };
    assert_eq!(store.turns_after(new.id, TurnId(1), 9).await?, [expected], "a turn is dropped");
    Ok(())
}

async fn what_has_ended_is_not_changed(store: &impl Store) -> Result<(), StoreError> {
    let new = new_session();
    let mut log = Log::create(store, &new).await?;
    let all = contents();
    let reply = |number| message(number, Some(1), "max", &[], "done");
    let begin = [
        said(message(1, None, "kailai", &["max"], "go")),
        queued(1, 1),
        queued(2, 1),
        queued(3, 1),
        started(1, 1, &all),
        started(2, 1, &all),
        ended(2, 1, TurnState::Failed, timed_out(&all[0])),
    ];
    let begin = begin.into_iter().chain(replied(1, 1, reply(2)));
    let step = Commit { contents: all.to_vec(), ..log.commit(begin) };
    log.store(store, step).await?;
    let stored = store.session(new.id).await?;
    let turns = store.turns_after(new.id, TurnId(0), 9).await?;
    let member = turn(1, 1).member;
    let retried = |turn| EventKind::TurnRetried { turn: TurnId(turn), member: member.clone() };
    let contradictions = [
        ("a turn is queued once", vec![queued(1, 1)]),
        ("a turn that is done is not retried", vec![retried(1)]),
        ("a turn that is done is not started", vec![started(1, 2, &all)]),
        (
            "a turn that is done does not fail",
            vec![ended(1, 1, TurnState::Failed, timed_out(&all[0]))],
        ),
        ("a turn has one reply", replied(1, 1, reply(3)).to_vec()),
        ("an attempt ends once", vec![ended(2, 1, TurnState::Failed, timed_out(&all[0]))]),
        ("an attempt starts once", vec![retried(2), started(2, 1, &all)]),
        (
            "an attempt that never began does not end",
            vec![ended(3, 1, TurnState::Failed, timed_out(&all[0]))],
        ),
        ("an unknown turn does not start", vec![started(9, 1, &all)]),
        ("an unknown turn has no reply", replied(9, 1, reply(3)).to_vec()),
    ];
    for (why, events) in contradictions {
        let events = [said(message(4, None, "kailai", &[], "more"))].into_iter().chain(events);
        assert!(is_recorded(&store.commit(new.id, log.commit(events)).await), "{why}");
        assert_eq!(store.session(new.id).await?, stored, "{why}: nothing is written");
        assert_eq!(store.turns_after(new.id, TurnId(0), 9).await?, turns, "{why}: no turn changes");
        let messages = store.messages_after(new.id, MessageNumber(2), 9).await?;
        assert_eq!(messages, [], "{why}: no message is added");
        assert_eq!(store.events(new.id, log.head, 9).await?, [], "{why}: no event is added");
    }
    Ok(())
}

async fn pieces_are_kept_until_the_whole_text(store: &impl Store) -> Result<(), StoreError> {
    let new = new_session();
    let mut log = Log::create(store, &new).await?;
    let all = contents();
    let begin = [queued(1, 1), queued(2, 1), started(1, 1, &all), started(2, 1, &all)];
    let step = Commit { contents: all.to_vec(), ..log.commit(begin) };
    log.store(store, step).await?;
    let piece = |turn, position, text: &str| Piece {
        turn: TurnId(turn),
        attempt: 1,
        position,
        text: text.to_owned(),
    };
    let write = async |log: &Log, pieces: Vec<Piece>| {
        store.commit(new.id, Commit { pieces, ..log.commit([]) }).await
    };
    let pieces = async |turn| store.pieces(new.id, TurnId(turn), 1).await;
    write(&log, vec![piece(1, 0, "a"), piece(2, 0, "x\0"), piece(1, 1, "é")]).await?;
    assert_eq!(write(&log, vec![piece(1, 3, "🦀")]).await?, log.head, "pieces move no head");
    assert_eq!(pieces(1).await?, "aé🦀", "pieces come back in order");
    write(&log, vec![piece(1, 3, "🦀")]).await?;
    assert_eq!(pieces(1).await?, "aé🦀", "a piece that is written again is the same");
    write(&log, vec![piece(1, 0, "new"), piece(1, 3, "er")]).await?;
    assert_eq!(pieces(1).await?, "newer", "a piece at the start begins a new text");

    log.add(store, [wrote(1, "newer text")]).await?;
    assert_eq!(pieces(1).await?, "", "the whole text replaces its pieces");
    assert_eq!(pieces(2).await?, "x\0", "the pieces of other turns stay");
    write(&log, vec![piece(1, 0, "more")]).await?;
    log.add(store, [noted()]).await?;
    assert_eq!(pieces(1).await?, "more", "pieces of the next text are kept");
    log.add(store, [ended(1, 1, TurnState::Failed, timed_out(&all[0]))]).await?;
    assert_eq!(pieces(1).await?, "", "pieces are removed when the attempt ends");
    assert_eq!(pieces(2).await?, "x\0", "the pieces of other attempts stay");
    for turn in [1, 3] {
        let late = write(&log, vec![piece(turn, 0, "late")]).await;
        assert!(is_recorded(&late), "only a running attempt has pieces");
    }
    store.remove(new.id).await?;
    assert_eq!(pieces(2).await?, "", "a removed session leaves nothing");
    Ok(())
}

async fn an_import_is_a_log(store: &impl Store) -> Result<(), StoreError> {
    let new = new_session();
    let mut log = Log::of(&new);
    let all = contents();
    let mut kinds = vec![said(message(1, None, "kailai", &["max"], "go")), queued(1, 1)];
    kinds.push(started(1, 1, &all));
    kinds.extend(replied(1, 1, message(2, Some(1), "max", &[], "done")));
    let events = log.events(kinds);
    let mut gap = events.clone();
    gap.remove(1);
    let mut import = store.import(new.clone()).await?;
    let page = Page { contents: all.to_vec(), events: gap, ..Page::default() };
    assert!(is_recorded(&import.write(page).await), "the events of an import have no gaps");
    drop(import);
    let mut import = store.import(new.clone()).await?;
    import.write(Page { contents: all.to_vec(), ..Page::default() }).await?;
    for page in events.chunks(2) {
        import.write(Page { events: page.to_vec(), ..Page::default() }).await?;
    }
    import.finish().await?;
    let stored = store.session(new.id).await?;
    assert_eq!((stored.head, &stored.state), (log.head, &log.state), "an import folds the state");
    assert_eq!(store.events(new.id, EventNumber(1), 99).await?, events, "an import keeps its log");
    let turns = store.turns_after(new.id, TurnId(0), 9).await?;
    assert_eq!(turns[0].reply, Some(MessageNumber(2)), "an import has the tables of its log");
    let listed = store.sessions().await?;
    let listed = listed.iter().find(|summary| summary.id == new.id);
    assert!(listed.is_some_and(|it| (it.messages, it.turns) == (2, 1)), "an import is listed");
    log.add(store, [noted()]).await
}
