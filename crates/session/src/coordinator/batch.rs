//! A batch: the turns that run at the same time, usually one. Every prompt is stored before it is sent,
//! and every result as it arrives.

use std::collections::HashMap;
use std::path::PathBuf;

use convoke_agent::TurnResult;
use convoke_agent::redaction::redact_result;
use convoke_agent::thread::ThreadStoreError;
use convoke_agent::turn::Canceller;
use convoke_agent::turn_input::{Lease, ThreadWriter};
use convoke_core::{Diagnostic, MessageId, NewMessage};
use convoke_protocol::changes::{ChangeCounts, ChangedBy};
use convoke_protocol::event::{EventKind, FailedTurn, StopReason};
use convoke_protocol::id::{AttemptRef, MemberName, Millis, ThreadId, TurnId};
use convoke_protocol::thread::ThreadAppend;
use convoke_protocol::turn::{Attempt, AttemptResult, Turn, TurnState};
use convoke_protocol::verdict::{Failure, FailureReason, Verdict};
use tokio::sync::mpsc;
use tokio::task::{Id, JoinError, JoinSet};

use super::controls::StopRequest;
use super::prepare::{PreparedTurn, UnpreparedTurn};
use super::team_agents::MemberAgent;
use super::team_calls::{CallNews, TeamCalls};
use super::turn_runner::{TurnReport, TurnRunner};
use super::{Coordinator, CoordinatorError};
use crate::attempt::attempt_result;
use crate::diagnostics;
use crate::event_queue::Observer;
use crate::file_changes::{Recording, TurnDirectory};
use crate::progress::{EventLog, Progress};
use crate::routing::conversation::Conversation;
use crate::routing::route;
use crate::store::{Commit, SessionHold, Store, StoreError};

/// The maximum number of queued reports. Beyond it, turns wait for the coordinator.
const REPORT_QUEUE: usize = 256;

/// The running turns.
pub(super) struct Batch {
    runners: JoinSet<(TurnResult, EventLog)>,
    pub(super) running: HashMap<Id, RunningTurn>,
    /// The recordings of file changes, by turn.
    recordings: HashMap<Id, Box<dyn Recording>>,
    reports: mpsc::Receiver<(TurnId, TurnReport)>,
    reporter: mpsc::Sender<(TurnId, TurnReport)>,
    /// The calls of the turns' team tools.
    pub(super) calls: TeamCalls,
}

impl Batch {
    fn new() -> Self {
        let (reporter, reports) = mpsc::channel(REPORT_QUEUE);
        Self {
            runners: JoinSet::new(),
            running: HashMap::new(),
            recordings: HashMap::new(),
            reports,
            reporter,
            calls: TeamCalls::new(),
        }
    }
}

/// Returns the next report once the observer has room for its event.
async fn next_report(
    observer: &mut dyn Observer,
    reports: &mut mpsc::Receiver<(TurnId, TurnReport)>,
) -> Option<(TurnId, TurnReport)> {
    observer.ready().await;
    reports.recv().await
}

/// A running turn and its attempt.
#[derive(Clone)]
pub(super) struct RunningTurn {
    pub(super) turn: Turn,
    pub(super) attempt: Attempt,
    pub(super) canceller: Canceller,
    lease: Option<Lease>,
}

/// The stored end of a turn.
pub(super) enum StoredEnd {
    /// The turn has a reply, which may stop the conversation.
    Done(Option<StopReason>),
    Failed(FailedTurn),
}

impl<S: Store> Coordinator<S> {
    /// Runs the next turns to their end. Returns the reason to stop, if any.
    pub(super) async fn run_batch(&mut self) -> Result<Option<StopReason>, CoordinatorError> {
        // If this future is dropped, the store may have turns that are not in memory.
        self.is_stale = true;
        let mut next = self.conversation.clone();
        let team = self.team_agents.team();
        let is_run_here = |turn: &Turn| {
            !team.is_person(&turn.member) && !self.team_agents.is_elsewhere(&turn.member)
        };
        let mut batch = next.queue.take_next(self.pace(), is_run_here);
        let left = self.guard.turns_left(self.team_agents.team().limits.turns);
        while batch.len() as u64 > left {
            batch.pop().into_iter().for_each(|turn| next.queue.put_back(turn));
        }
        let mut prepared = Vec::new();
        let mut failed = Vec::new();
        let members: Vec<MemberName> = batch.iter().map(|turn| turn.member.clone()).collect();
        for turn in batch {
            match self.prepare(turn, &members).await? {
                Ok(ready) => prepared.push(ready),
                Err(unprepared) => failed.push(self.store_refusal(&next, unprepared).await?),
            }
        }
        let mut batch = Batch::new();
        let _signals = self.watch_signals().await;
        self.begin(&mut batch, next, prepared).await?;
        // Boxed, because it is the largest part of the callers' futures.
        let guarded = Box::pin(self.wait_for_turns(batch, &mut failed)).await?;
        self.is_stale = false;
        Ok(match (self.controls.stop_request(), failed.first()) {
            (StopRequest::Leave, _) => Some(StopReason::Left),
            (_, None) => guarded,
            (StopRequest::CancelTurn, Some(_)) => {
                Some(StopReason::Cancelled { person: self.asker() })
            }
            (StopRequest::None, Some(first)) => {
                Some(StopReason::TurnFailed { person: first.asker.clone(), turns: failed })
            }
        })
    }

    /// Stores the failure of a turn that could not start.
    pub(super) async fn store_refusal(
        &mut self,
        next: &Conversation,
        unprepared: UnpreparedTurn,
    ) -> Result<FailedTurn, CoordinatorError> {
        let UnpreparedTurn { mut turn, failure } = unprepared;
        let mut commit = self.commit_of(next);
        let at = commit.at;
        turn.state = TurnState::Failed;
        turn.problem = Some(failure.to_string());
        turn.ended_at = Some(at);
        commit.turns.push(turn.clone());
        self.commit(commit).await?;
        self.guard.count_turn();
        let result = TurnResult::failed(failure);
        let outcome = result.verdict.clone();
        let result = attempt_result(at, result, "", &mut Vec::new());
        self.emit(at, EventKind::turn_ended(&turn, at, None, result));
        Ok(FailedTurn { turn: turn.id, member: turn.member, asker: turn.asker, outcome })
    }

    /// Stores the prompts, then sends them.
    pub(super) async fn begin(
        &mut self,
        batch: &mut Batch,
        next: Conversation,
        prepared: Vec<PreparedTurn>,
    ) -> Result<(), CoordinatorError> {
        if !prepared.is_empty() {
            let mut commit = self.commit_of(&next);
            // A process that takes over after a crash runs this turn first, and counts it then.
            if batch.running.is_empty() {
                commit.offer = prepared.first().map(|ready| self.offer_of(&ready.turn));
            }
            for ready in &prepared {
                commit.contents.extend(ready.contents.iter().cloned());
                commit.turns.push(ready.turn.clone());
                commit.attempts.push(ready.attempt.clone());
            }
            self.commit(commit).await?;
            for _ in &prepared {
                self.guard.count_turn();
            }
        }
        self.conversation = next;
        for ready in prepared {
            let PreparedTurn { turn, attempt, member_agent, output, context, .. } = ready;
            let (recorded, diagnostics) = (ready.recorded, ready.diagnostics);
            let at = attempt.began_at;
            let (member, number, bytes) = (&turn.member, attempt.number, attempt.assembled_bytes());
            tracing::info!("turn {} of {member}, attempt {number}: {bytes} bytes", turn.id);
            self.emit(at, EventKind::turn_started(&turn, &attempt, context));
            for diagnostic in output.diagnostics.into_iter().chain(diagnostics) {
                self.emit(at, EventKind::Diagnostic { turn: Some(turn.id), diagnostic });
            }
            let reference =
                AttemptRef { session: self.session, turn: turn.id, attempt: attempt.number };
            let recording = self.record(&turn, reference, &member_agent, recorded).await;
            let team = self.team_agents.team();
            let mut turn_input = member_agent.turn_input(output.prompt, output.system_flag, team);
            turn_input.ledger = Some(output.ledger);
            turn_input.attempt = Some(reference);
            turn_input.thread = Some(ThreadId::of_member(self.session, turn.member.as_str()));
            let lease = self.hold.as_ref().and_then(SessionHold::lease);
            turn_input.lease.clone_from(&lease);
            turn_input.team_tools =
                member_agent.has_team_tools.then(|| batch.calls.tools_of(reference));
            turn_input.thread_writer = ThreadWriter::Caller { turn: name_of(&turn) };
            let agent_turn = member_agent.agent.start(turn_input);
            self.controls.register_answerer(turn.id, attempt.number, agent_turn.answerer());
            let canceller = agent_turn.canceller();
            // A turn that was cancelled before it began starts no program.
            if self.controls.stop_request() != StopRequest::None {
                canceller.cancel();
            }
            let runner = TurnRunner {
                turn: turn.id,
                agent_turn,
                timeout: team.limits.turn_timeout,
                stop_requests: self.controls.watch(),
                redactor: self.team_agents.redactor.clone(),
                clock: self.team_agents.clock.clone(),
                reports: batch.reporter.clone(),
            };
            let id = batch.runners.spawn(runner.run()).id();
            batch.recordings.extend(recording.map(|recording| (id, recording)));
            batch.running.insert(id, RunningTurn { turn, attempt, canceller, lease });
        }
        Ok(())
    }

    /// Records the state of the directory before a turn that may change files.
    async fn record(
        &mut self,
        turn: &Turn,
        attempt: AttemptRef,
        member_agent: &MemberAgent,
        directory: PathBuf,
    ) -> Option<Box<dyn Recording>> {
        let recorder = self.team_agents.recorder.clone().filter(|_| member_agent.may_write)?;
        let member = turn.member.clone();
        let begun = recorder.begin(TurnDirectory { attempt, member, directory }).await;
        let at = self.team_agents.now();
        if let Some(counts) = begun.by_person {
            self.emit(at, files_changed(turn, ChangedBy::Person, counts));
        }
        for diagnostic in begun.diagnostics {
            self.emit(at, EventKind::Diagnostic { turn: Some(turn.id), diagnostic });
        }
        begun.recording
    }

    /// Records the state after a turn and emits what changed. Returns its diagnostics.
    async fn end_recording(
        &mut self,
        turn: &Turn,
        recording: Box<dyn Recording>,
    ) -> Vec<Diagnostic> {
        let ended = recording.finish().await;
        if let Some(counts) = ended.counts.filter(|counts| counts.files > 0) {
            self.emit(self.team_agents.now(), files_changed(turn, ChangedBy::Agent, counts));
        }
        ended.diagnostics
    }

    /// Emits the events of the turns and stores their results, until all have ended.
    async fn wait_for_turns(
        &mut self,
        mut batch: Batch,
        failed: &mut Vec<FailedTurn>,
    ) -> Result<Option<StopReason>, CoordinatorError> {
        let mut stop = None;
        let lost = self.hold.as_ref().map(SessionHold::lost);
        let mut lost = std::pin::pin!(async move {
            match lost {
                Some(lost) => lost.await,
                None => std::future::pending().await,
            }
        });
        loop {
            let ended = tokio::select! {
                biased;
                // Dropping the batch terminates its agents.
                () = &mut lost => {
                    return Err(StoreError::LeaseLost { session: self.session }.into());
                }
                Some((turn, report)) = next_report(&mut *self.observer, &mut batch.reports) => {
                    self.on_report(&batch, turn, report).await?;
                    continue;
                }
                Some(news) = batch.calls.next() => {
                    match news {
                        CallNews::Call(call) => self.on_call(&mut batch, call).await?,
                        CallNews::GivenUp => self.withdraw_asks(&mut batch, None).await?,
                    }
                    self.start_asked(&mut batch).await?;
                    continue;
                }
                ended = batch.runners.join_next_with_id() => ended,
            };
            let Some(ended) = ended else { return Ok(stop) };
            let id = ended.as_ref().map_or_else(JoinError::id, |(id, _)| *id);
            let lease = batch.running.get(&id).and_then(|running| running.lease.as_ref());
            // The guardian has terminated the agent, or the agent may have continued without the session.
            if lease.is_some_and(Lease::is_over) {
                return Err(StoreError::LeaseLost { session: self.session }.into());
            }
            while let Ok((turn, report)) = batch.reports.try_recv() {
                self.on_report(&batch, turn, report).await?;
            }
            let (result, log) = ended.map_or_else(
                |error| {
                    let failure = Failure::new(FailureReason::Other, error.to_string());
                    (TurnResult::failed(failure), EventLog::default())
                },
                |(_, ended)| ended,
            );
            let recording = batch.recordings.remove(&id);
            if let Some(running) = batch.running.remove(&id) {
                self.controls.remove_answerer(running.turn.id);
                let (events, cut) = log.finish();
                let mut diagnostics = Vec::from_iter(cut);
                if let Some(recording) = recording {
                    diagnostics.extend(self.end_recording(&running.turn, recording).await);
                }
                let end = self.store_end(&running, result, &events, diagnostics).await?;
                let is_told = self.answer_askers(&mut batch, &running.turn, &end).await?
                    | batch.calls.was_withdrawn(running.turn.id);
                match end {
                    StoredEnd::Done(guarded) => stop = guarded.or(stop),
                    // The asker decides how to continue.
                    StoredEnd::Failed(_) if is_told => {}
                    StoredEnd::Failed(turn) => failed.push(turn),
                }
                self.start_asked(&mut batch).await?;
            }
        }
    }

    /// Stores the end of a turn, with diagnostics of the coordinator. Fails the turn if the member's thread changed
    /// meanwhile: a reply is never stored without its thread entry.
    async fn store_end(
        &mut self,
        running: &RunningTurn,
        mut result: TurnResult,
        events: &str,
        mut diagnostics: Vec<Diagnostic>,
    ) -> Result<StoredEnd, CoordinatorError> {
        let (turn, member) = (running.turn.id, &running.turn.member);
        tracing::info!("turn {turn} of {member} ended: {}", result.verdict);
        if self.team_agents.is_rehearsal {
            // Programs compute a cost from token counts, but the rehearsal server charges nothing.
            result.cost_usd = None;
        }
        match redact_result(&mut result, &self.team_agents.redactor).await {
            Ok(places) => diagnostics.extend(redacted(places)),
            Err(failed) => diagnostics.push(failed),
        }
        let thread_append = result.thread_append.take();
        result.diagnostics.extend(diagnostics.iter().cloned());
        let stored = match result.verdict {
            Verdict::Done => self.store_reply(running, &result, events, thread_append).await,
            _ => self.store_failure(running, &result, events, thread_append).await,
        };
        let (at, ended, end) = match stored {
            Err(CoordinatorError::Store(
                error @ StoreError::Thread(ThreadStoreError::Changed(_)),
            )) => {
                let failure = Failure::new(FailureReason::Other, error.to_string());
                result.verdict = Verdict::Failed(failure);
                self.store_failure(running, &result, events, None).await?
            }
            other => other?,
        };
        for diagnostic in diagnostics {
            self.emit(at, EventKind::Diagnostic { turn: Some(turn), diagnostic });
        }
        self.emit(at, ended);
        Ok(end)
    }

    /// Emits an event, or stores a batch of events in case the turn never ends.
    async fn on_report(
        &mut self,
        batch: &Batch,
        turn: TurnId,
        report: TurnReport,
    ) -> Result<(), StoreError> {
        let running = batch.running.values().find(|running| running.turn.id == turn);
        let Some(RunningTurn { turn, attempt, .. }) = running else { return Ok(()) };
        match report {
            TurnReport::Event(event) => {
                let at = self.team_agents.now();
                let kind = EventKind::of_agent(turn, attempt.number, event);
                self.emit(at, kind);
            }
            TurnReport::Batch(events) => {
                let mut commit = self.commit_of(&self.conversation);
                let attempt = attempt.number;
                commit.progress.push(Progress { turn: turn.id, attempt, events });
                self.commit(commit).await?;
            }
        }
        Ok(())
    }

    /// Stores a reply, the lines of its member's thread, the end of its turn and the turns that it opens, in
    /// one commit. Returns the event of the end.
    async fn store_reply(
        &mut self,
        running: &RunningTurn,
        result: &TurnResult,
        events: &str,
        thread_append: Option<ThreadAppend>,
    ) -> Result<(Millis, EventKind, StoredEnd), CoordinatorError> {
        let RunningTurn { mut turn, attempt, .. } = running.clone();
        let team = self.team_agents.team();
        let routed = route(team, &turn.member, &result.reply);
        let answered = self.store.message(self.session, turn.answers).await?.message.id;
        let message = NewMessage::new(team.speaker(&turn.member), &*result.reply);
        let message = message.in_reply_to(answered);
        let mut next = self.conversation.clone();
        let mut commit = self.commit_of(&next);
        let at = commit.at;
        let effects = next.add(message, Some(turn.answers), &routed, &turn.asker, at);
        let reply = effects.message.message.id.clone();
        turn.state = TurnState::Done;
        turn.reply = Some(effects.message.number);
        turn.ended_at = Some(at);
        commit.state = next.state();
        commit.threads.extend(thread_append);
        let result = attempt_result(at, result.clone(), events, &mut commit.contents);
        let ended = add_end(&mut commit, &turn, attempt, Some(reply), result);
        self.commit_message(next, commit, &routed, effects).await?;
        let repeated = self.guard.count_message(&turn.member, &routed.text);
        let person = self.asker();
        let repetition =
            repeated.map(|times| StopReason::Repetition { person, member: turn.member, times });
        Ok((at, ended, StoredEnd::Done(repetition)))
    }

    /// Stores a turn that did not complete, with its partial reply. Markers in it have no effect. Returns the event of
    /// the end.
    async fn store_failure(
        &mut self,
        running: &RunningTurn,
        result: &TurnResult,
        events: &str,
        thread_append: Option<ThreadAppend>,
    ) -> Result<(Millis, EventKind, StoredEnd), CoordinatorError> {
        let RunningTurn { mut turn, attempt, .. } = running.clone();
        let mut commit = self.commit_of(&self.conversation);
        let at = commit.at;
        commit.threads.extend(thread_append);
        let result = attempt_result(at, result.clone(), events, &mut commit.contents);
        let outcome = result.verdict.clone();
        turn.state = match outcome {
            Verdict::Cancelled | Verdict::Withdrawn => TurnState::Cancelled,
            _ => TurnState::Failed,
        };
        turn.problem = Some(outcome.to_string());
        turn.ended_at = Some(at);
        let ended = add_end(&mut commit, &turn, attempt, None, result);
        self.commit(commit).await?;
        let Turn { id: turn, member, asker, .. } = turn;
        Ok((at, ended, StoredEnd::Failed(FailedTurn { turn, member, asker, outcome })))
    }
}

/// Adds the end of a turn to a commit, and returns its event.
fn add_end(
    commit: &mut Commit,
    turn: &Turn,
    mut attempt: Attempt,
    reply: Option<MessageId>,
    result: AttemptResult,
) -> EventKind {
    let ended = EventKind::turn_ended(turn, attempt.began_at, reply, result.clone());
    attempt.ended = Some(result);
    commit.turns.push(turn.clone());
    commit.attempts.push(attempt);
    ended
}

/// Returns the name of a turn in its member's thread. A session forked at an earlier message reuses turn ids,
/// but for answers to later messages, so the answered message is part of the name.
fn name_of(turn: &Turn) -> String {
    format!("{}/{}", turn.id, turn.answers)
}

fn files_changed(turn: &Turn, by: ChangedBy, counts: ChangeCounts) -> EventKind {
    EventKind::FilesChanged { turn: turn.id, member: turn.member.clone(), by, counts }
}

/// Returns the diagnostic for secrets removed from a reply, if there were any.
fn redacted(places: u64) -> Option<Diagnostic> {
    let message = match places {
        0 => return None,
        1 => "a secret was removed from the reply".to_owned(),
        _ => format!("secrets were removed from the reply in {places} places"),
    };
    Some(Diagnostic::new(diagnostics::REPLY_REDACTED, message).with_count(places))
}
