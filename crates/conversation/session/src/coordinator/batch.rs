//! A batch: the turns that run at the same time, usually one. Every prompt is stored before it is sent,
//! and every result as it arrives.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Duration;

use convoke_agent::TurnResult;
use convoke_agent::clock::now;
use convoke_agent::redaction::redact_result;
use convoke_agent::thread::ThreadStoreError;
use convoke_agent::turn::Canceller;
use convoke_agent::turn_input::{HeldUntil, SessionMemory, ThreadWriter, TurnInput};
use convoke_core::{Diagnostic, MessageId, NewMessage};
use convoke_protocol::agent_event::{AgentEvent, AgentEventKind, TextPart};
use convoke_protocol::changes::{ChangeCounts, ChangedBy};
use convoke_protocol::event::{EventKind, FailedTurn, StopReason};
use convoke_protocol::id::{AttemptRef, MemberName, ThreadId, TurnId};
use convoke_protocol::memory::MemoryUse;
use convoke_protocol::thread::ThreadAppend;
use convoke_protocol::turn::{Attempt, AttemptResult, Turn, TurnState};
use convoke_protocol::verdict::{Failure, FailureReason, Verdict};
use tokio::sync::mpsc;
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::Instant;

use super::controls::StopRequest;
use super::prepare::{PreparedTurn, UnpreparedTurn};
use super::team_agents::MemberAgent;
use super::team_calls::{CallNews, TeamCalls};
use super::turn_runner::TurnRunner;
use super::{Coordinator, CoordinatorError, Step, unnumbered};
use crate::attempt::attempt_result;
use crate::diagnostics;
use crate::event_queue::Observer;
use crate::file_changes::{Recording, RecordingEnded, TurnDirectory};
use crate::memory::{self, Recall};
use crate::routing::conversation::{Conversation, MessageOrigin};
use crate::routing::route;
use crate::store::{Piece, SessionHold, Store, StoreError};

/// The time in which events of agents are collected before they are stored and emitted. Most turns end within one step more than
/// they need.
const COLLECT: Duration = Duration::from_millis(10);
/// The time and size after which pieces of a text are stored. Every step is a disk write.
const STORE_AFTER: Duration = Duration::from_secs(1);
const STORE_BYTES: usize = 64 << 10;
/// The maximum size of a running turn's stored pieces.
const MAX_PIECE_BYTES: usize = 32 << 20;
/// The maximum number of queued reports. Beyond it, turns wait for the coordinator.
const REPORT_QUEUE: usize = 256;

/// The running turns.
pub(super) struct Batch {
    runners: JoinSet<TurnResult>,
    pub(super) running: HashMap<Id, RunningTurn>,
    /// The recordings of file changes, by turn.
    recordings: HashMap<Id, Box<dyn Recording>>,
    reports: mpsc::Receiver<(TurnId, AgentEvent<'static>)>,
    reporter: mpsc::Sender<(TurnId, AgentEvent<'static>)>,
    /// When the pending events are stored at the latest; `None` if there are none.
    store_at: Option<Instant>,
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
            store_at: None,
            calls: TeamCalls::new(),
        }
    }
}

/// Returns the next event of an agent once the observer has room for it.
async fn next_report(
    observer: &mut dyn Observer,
    reports: &mut mpsc::Receiver<(TurnId, AgentEvent<'static>)>,
) -> Option<(TurnId, AgentEvent<'static>)> {
    observer.ready().await;
    reports.recv().await
}

/// Waits until a time; forever without one.
async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// A running turn and its attempt.
#[derive(Clone)]
pub(super) struct RunningTurn {
    pub(super) turn: Turn,
    pub(super) attempt: Attempt,
    pub(super) canceller: Canceller,
    /// The time until which the turn may run without a sign of the store.
    held_until: Option<HeldUntil>,
    text: UnstoredText,
    memory: Option<Box<MemoryUse>>,
}

impl RunningTurn {
    /// Returns whether a verdict means that the session that the attempt continues is gone.
    fn has_lost_memory(&self, verdict: &Verdict) -> bool {
        let continues = self.memory.as_ref().is_some_and(|memory| memory.continues.is_some());
        let is_gone = matches!(verdict, Verdict::Failed(it) if it.reason == FailureReason::Session);
        continues && is_gone
    }
}

/// The pieces of the text that an agent is writing which are not stored yet.
#[derive(Clone, Default)]
struct UnstoredText {
    /// The size of the stored pieces of the same text.
    position: u64,
    pieces: String,
    /// The size of all stored pieces of the attempt. Whole texts replace them, so the limit matters only after a crash in
    /// the middle of a text.
    stored: usize,
}

impl UnstoredText {
    fn add(&mut self, text: &str, part: TextPart) {
        match part {
            TextPart::Delta => {
                let room = MAX_PIECE_BYTES.saturating_sub(self.stored + self.pieces.len());
                self.pieces.push_str(&text[..text.floor_char_boundary(room)]);
            }
            TextPart::Whole => {
                self.pieces.clear();
                self.position = 0;
            }
        }
    }

    /// Takes the pieces, to store them.
    fn take(&mut self, turn: TurnId, attempt: u32) -> Option<Piece> {
        let text = std::mem::take(&mut self.pieces);
        let position = self.position;
        self.position += text.len() as u64;
        self.stored += text.len();
        (!text.is_empty()).then_some(Piece { turn, attempt, position, text })
    }
}

/// The stored end of a turn.
pub(super) enum StoredEnd {
    /// The turn has a reply, which may stop the conversation.
    Done(Option<StopReason>),
    Failed(FailedTurn),
    /// The session that the turn continues is gone, so it was queued again and starts afresh.
    Again,
}

impl<S: Store> Coordinator<S> {
    /// Runs the next turns to their end. Returns the reason to stop, if any.
    pub(crate) async fn run_batch(&mut self) -> Result<Option<StopReason>, CoordinatorError> {
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
            match Box::pin(self.prepare(turn, &members)).await? {
                Ok(ready) => prepared.push(ready),
                Err(unprepared) => failed.push(self.store_refusal(unprepared).await?),
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
        unprepared: UnpreparedTurn,
    ) -> Result<FailedTurn, CoordinatorError> {
        let UnpreparedTurn { mut turn, failure } = unprepared;
        let at = self.team_agents.now();
        turn.state = TurnState::Failed;
        let outcome = Verdict::Failed(failure);
        let result = AttemptResult::new(at, outcome.clone());
        let ended = EventKind::ended(&turn, 0, at, None, result);
        let mut kept = self.conversation.clone();
        kept.queue.remove(turn.id);
        self.append(kept, Step::of(at, [ended])).await?;
        self.guard.count_turn();
        Ok(FailedTurn { turn: turn.id, member: turn.member, asker: turn.asker, outcome })
    }

    /// Stores the prompts, then sends them.
    pub(super) async fn begin(
        &mut self,
        batch: &mut Batch,
        next: Conversation,
        mut prepared: Vec<PreparedTurn>,
    ) -> Result<(), CoordinatorError> {
        if prepared.is_empty() {
            self.conversation = next;
        } else {
            let mut step = Step::at(self.team_agents.now());
            // A process that takes over after a crash runs this turn first, and counts it then.
            if batch.running.is_empty() {
                step.next = prepared.first().map(|ready| self.next_turn(&ready.turn));
            }
            let in_a_row = next.queue.in_a_row;
            for ready in &mut prepared {
                let PreparedTurn { turn, attempt, context, .. } = ready;
                let (member, number, bytes) =
                    (&turn.member, attempt.number, attempt.assembled_bytes());
                tracing::info!("turn {} of {member}, attempt {number}: {bytes} bytes", turn.id);
                attempt.began_at = step.at;
                step.contents.append(&mut ready.contents);
                let memory = ready.memory.clone();
                let started = EventKind::started(turn, attempt, *context, in_a_row);
                step.events.push(started.using(memory));
                let diagnostics = ready.output.diagnostics.iter().cloned();
                let diagnostics = diagnostics.chain(ready.diagnostics.drain(..));
                step.events.extend(
                    diagnostics.map(|diagnostic| EventKind::Diagnostic {
                        turn: Some(turn.id),
                        diagnostic,
                    }),
                );
            }
            self.append(next, step).await?;
            for _ in &prepared {
                self.guard.count_turn();
            }
        }
        for ready in prepared {
            let PreparedTurn {
                turn,
                attempt,
                member_agent,
                output,
                images,
                recorded,
                recall,
                memory,
                ..
            } = ready;
            let reference =
                AttemptRef { session: self.session, turn: turn.id, attempt: attempt.number };
            let recording = self.record(&turn, reference, &member_agent, recorded).await?;
            let team = self.team_agents.team();
            let held_until = self.hold.as_ref().and_then(SessionHold::held_until);
            let branch = recall.as_ref().map(Recall::branch);
            let session_memory =
                branch.map(|branch| SessionMemory { branch, idle: member_agent.idle_timeout });
            let agent_turn = member_agent.agent.start(TurnInput {
                images,
                ledger: Some(output.ledger),
                attempt: Some(reference),
                thread: Some(ThreadId::of_member(self.session, turn.member.as_str())),
                held_until: held_until.clone(),
                team_tools: member_agent.has_team_tools.then(|| batch.calls.tools_of(reference)),
                thread_writer: ThreadWriter::Caller { turn: name_of(&turn) },
                memory: session_memory,
                resume: recall.and_then(|recall| recall.resume),
                ..member_agent.turn_input(output.prompt, output.system_flag, team)
            });
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
                reports: batch.reporter.clone(),
            };
            let id = batch.runners.spawn(runner.run()).id();
            batch.recordings.extend(recording.map(|recording| (id, recording)));
            let text = UnstoredText::default();
            let running = RunningTurn { turn, attempt, canceller, held_until, text, memory };
            batch.running.insert(id, running);
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
    ) -> Result<Option<Box<dyn Recording>>, StoreError> {
        let recorder = self.team_agents.recorder.clone().filter(|_| member_agent.may_write);
        let Some(recorder) = recorder else { return Ok(None) };
        let member = turn.member.clone();
        let begun = recorder.begin(TurnDirectory { attempt, member, directory }).await;
        let by_person =
            begun.by_person.map(|counts| files_changed(turn, ChangedBy::Person, counts));
        let diagnostics = begun.diagnostics.into_iter();
        let diagnostics =
            diagnostics.map(|diagnostic| EventKind::Diagnostic { turn: Some(turn.id), diagnostic });
        let events: Vec<EventKind> = by_person.into_iter().chain(diagnostics).collect();
        if !events.is_empty() {
            let step = Step::of(self.team_agents.now(), events);
            self.append(self.conversation.clone(), step).await?;
        }
        Ok(begun.recording)
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
                    return Err(StoreError::HoldLost { session: self.session }.into());
                }
                Some((turn, event)) = next_report(&mut *self.observer, &mut batch.reports) => {
                    self.on_report(&mut batch, turn, event);
                    if batch.store_at.is_some_and(|at| at <= Instant::now()) {
                        self.store_reports(&mut batch).await?;
                    }
                    continue;
                }
                () = sleep_until(batch.store_at) => {
                    self.store_reports(&mut batch).await?;
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
            let held_until = batch.running.get(&id).and_then(|running| running.held_until.as_ref());
            // The guardian has terminated the agent, or the agent may have continued without the session.
            if held_until.is_some_and(HeldUntil::is_over) {
                return Err(StoreError::HoldLost { session: self.session }.into());
            }
            while let Ok((turn, event)) = batch.reports.try_recv() {
                self.on_report(&mut batch, turn, event);
            }
            let result = ended.map_or_else(
                |error| TurnResult::failed(Failure::new(FailureReason::Other, error.to_string())),
                |(_, result)| result,
            );
            let recording = batch.recordings.remove(&id);
            if let Some(running) = batch.running.remove(&id) {
                self.controls.remove_answerer(running.turn.id);
                let ended = match recording {
                    Some(recording) => recording.finish().await,
                    None => RecordingEnded::default(),
                };
                let end = self.store_end(&running, result, ended).await?;
                let is_told = self.answer_askers(&mut batch, &running.turn, &end).await?
                    | batch.calls.was_withdrawn(running.turn.id);
                match end {
                    StoredEnd::Again => {}
                    StoredEnd::Done(guarded) => stop = guarded.or(stop),
                    // The asker decides how to continue.
                    StoredEnd::Failed(_) if is_told => {}
                    StoredEnd::Failed(turn) => failed.push(turn),
                }
                self.start_asked(&mut batch).await?;
            }
        }
    }

    /// Stores the end of a turn and what it changed. Fails the turn if the member's thread changed meanwhile: a reply is never
    /// stored without its thread entry.
    async fn store_end(
        &mut self,
        running: &RunningTurn,
        mut result: TurnResult,
        recorded: RecordingEnded,
    ) -> Result<StoredEnd, CoordinatorError> {
        let (turn, member) = (running.turn.id, &running.turn.member);
        tracing::info!("turn {turn} of {member} ended: {}", result.verdict);
        if self.team_agents.is_rehearsal {
            // Programs compute a cost from token counts, but the rehearsal server charges nothing.
            result.cost_usd = None;
        }
        let mut diagnostics = recorded.diagnostics;
        match redact_result(&mut result, &self.team_agents.redactor).await {
            Ok(places) => diagnostics.extend(redacted(places)),
            Err(failed) => diagnostics.push(failed),
        }
        if let Some(handle) = result.resume.as_mut().filter(|_| running.memory.is_some()) {
            handle.owner = Some(self.session);
        }
        // What a turn leaves in a thread that did not arrive as a whole is no part of a memory.
        let is_remembered = running.memory.is_none() || result.verdict == Verdict::Done;
        let thread_append = result.thread_append.take().filter(|_| is_remembered);
        result.diagnostics.extend(diagnostics.iter().cloned());
        let mut end = TurnEnd { result, changed: recorded.counts, diagnostics };
        let stored = match end.result.verdict {
            Verdict::Done => self.store_reply(running, &end, thread_append).await,
            _ => self.store_failure(running, &end, thread_append).await,
        };
        match stored {
            Err(CoordinatorError::Store(
                error @ StoreError::Thread(ThreadStoreError::Changed(_)),
            )) => {
                let failure = Failure::new(FailureReason::Other, error.to_string());
                end.result.verdict = Verdict::Failed(failure);
                self.store_failure(running, &end, None).await
            }
            other => other,
        }
    }

    /// Takes an event of an agent. A piece of a text is emitted at once, unless events before it are not stored yet.
    fn on_report(&mut self, batch: &mut Batch, turn: TurnId, mut event: AgentEvent<'static>) {
        let running = batch.running.values_mut().find(|running| running.turn.id == turn);
        let Some(running) = running else { return };
        let is_piece = event.is_piece();
        // The agent knows the clock of this machine, and events have that of the store.
        if let AgentEventKind::PermissionAsked { expires_at: at @ 1.., .. } = &mut event.kind {
            *at = at.saturating_sub(now().0).saturating_add(self.team_agents.now().0);
        }
        let is_question = matches!(
            event.kind,
            AgentEventKind::PermissionAsked { .. } | AgentEventKind::PermissionAnswered { .. }
        );
        let kind = EventKind::of_agent(&running.turn, running.attempt.number, event);
        if let Some((text, part)) = kind.own_text() {
            running.text.add(text, part);
        }
        let store_after = if is_question || running.text.pieces.len() >= STORE_BYTES {
            // A process on another machine that can answer reads the question from the store.
            Duration::ZERO
        } else if is_piece {
            STORE_AFTER
        } else {
            COLLECT
        };
        let store_at = Instant::now() + store_after;
        batch.store_at = Some(batch.store_at.map_or(store_at, |at| at.min(store_at)));
        if is_piece && self.pending.is_empty() {
            self.report(kind);
        } else {
            let at = self.team_agents.now();
            self.pending.push(unnumbered(self.session, at, kind));
        }
    }

    /// Stores the pending events and pieces of texts.
    async fn store_reports(&mut self, batch: &mut Batch) -> Result<(), StoreError> {
        batch.store_at = None;
        let mut step = Step::at(self.team_agents.now());
        for running in batch.running.values_mut() {
            step.pieces.extend(running.text.take(running.turn.id, running.attempt.number));
        }
        if step.pieces.is_empty() && self.pending.is_empty() {
            return Ok(());
        }
        self.append(self.conversation.clone(), step).await
    }

    /// Stores a reply, the lines of its member's thread, the end of its turn and the turns that it opens, in
    /// one step.
    async fn store_reply(
        &mut self,
        running: &RunningTurn,
        end: &TurnEnd,
        thread_append: Option<ThreadAppend>,
    ) -> Result<StoredEnd, CoordinatorError> {
        let mut turn = running.turn.clone();
        let team = self.team_agents.team();
        let routed = route(team, &turn.member, &end.result.reply);
        let answered = self.store.message(self.session, turn.answers).await?;
        let is_to_person = team.is_person(&answered.from());
        let message = NewMessage::new(team.speaker(&turn.member), &*end.result.reply);
        let message = message.in_reply_to(answered.message.id);
        let mut next = self.conversation.clone();
        let mut step = Step::at(self.team_agents.now());
        let origin = MessageOrigin { answers: Some(turn.answers), turn: Some(turn.id) };
        let effects = next.add(message, origin, &routed, &turn.asker, step.at, |_| true);
        let reply = effects.message.id().clone();
        turn.state = TurnState::Done;
        step.threads.extend(thread_append);
        step.events.extend(end.changes(&turn));
        let overflow = self.overflow(effects.left_out);
        step.events.extend(effects.into_events(&routed));
        step.events.extend(overflow);
        end.finish(&mut step, &turn, &running.attempt, Some(reply));
        self.append(next, step).await?;
        // Equal answers to different questions of people are no loop.
        let repeated =
            if is_to_person { None } else { self.guard.count_message(&turn.member, &routed.text) };
        let person = self.asker();
        let repetition =
            repeated.map(|times| StopReason::Repetition { person, member: turn.member, times });
        Ok(StoredEnd::Done(repetition))
    }

    /// Stores a turn that did not complete, with its partial reply. Markers in it have no effect.
    async fn store_failure(
        &mut self,
        running: &RunningTurn,
        end: &TurnEnd,
        thread_append: Option<ThreadAppend>,
    ) -> Result<StoredEnd, CoordinatorError> {
        let mut turn = running.turn.clone();
        let mut step = Step::at(self.team_agents.now());
        let outcome = end.result.verdict.clone();
        turn.state = match outcome {
            Verdict::Cancelled | Verdict::Withdrawn => TurnState::Cancelled,
            _ => TurnState::Failed,
        };
        step.threads.extend(thread_append);
        step.events.extend(end.changes(&turn));
        end.finish(&mut step, &turn, &running.attempt, None);
        if running.has_lost_memory(&outcome) {
            return self.start_afresh(turn, step, &outcome).await;
        }
        self.append(self.conversation.clone(), step).await?;
        let Turn { id: turn, member, asker, .. } = turn;
        Ok(StoredEnd::Failed(FailedTurn { turn, member, asker, outcome }))
    }
}

impl<S: Store> Coordinator<S> {
    /// Stores the end of an attempt whose session is gone, and queues its turn again, ahead of all others.
    async fn start_afresh(
        &mut self,
        turn: Turn,
        mut step: Step,
        outcome: &Verdict,
    ) -> Result<StoredEnd, CoordinatorError> {
        let reason = outcome.to_string();
        let (id, member) = (turn.id, turn.member.clone());
        let diagnostic = memory::lost(member.as_str(), &reason);
        step.events.extend([
            EventKind::Diagnostic { turn: Some(id), diagnostic },
            EventKind::MemoryChanged { member: member.clone(), turn: id, to: None, reason },
            EventKind::TurnRetried { turn: id, member },
        ]);
        let mut next = self.conversation.clone();
        next.queue.put_back(Turn { state: TurnState::Queued, ended_at: None, ..turn });
        self.append(next, step).await?;
        Ok(StoredEnd::Again)
    }
}

/// The end of a turn, before it is stored.
struct TurnEnd {
    result: TurnResult,
    /// The files that the turn changed.
    changed: Option<ChangeCounts>,
    /// The diagnostics of the coordinator.
    diagnostics: Vec<Diagnostic>,
}

impl TurnEnd {
    /// Returns the event of the changed files.
    fn changes(&self, turn: &Turn) -> Option<EventKind> {
        let counts = self.changed.filter(|counts| counts.files > 0)?;
        Some(files_changed(turn, ChangedBy::Agent, counts))
    }

    /// Adds the last events of the turn to a step.
    fn finish(&self, step: &mut Step, turn: &Turn, attempt: &Attempt, reply: Option<MessageId>) {
        let diagnostics = self.diagnostics.iter().cloned();
        step.events.extend(
            diagnostics.map(|diagnostic| EventKind::Diagnostic { turn: Some(turn.id), diagnostic }),
        );
        let result = attempt_result(step.at, self.result.clone(), &mut step.contents);
        let (number, began_at) = (attempt.number, attempt.began_at);
        step.events.push(EventKind::ended(turn, number, began_at, reply, result));
    }
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
