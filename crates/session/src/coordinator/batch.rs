//! A batch: the turns that run at the same time, usually one. What is sent is stored before it is sent,
//! and what comes back is stored as it comes.

use std::collections::HashMap;

use convoke_agent::redaction::redact_result;
use convoke_agent::thread::{ThreadAppend, ThreadStoreError};
use convoke_agent::turn_input::ThreadWriter;
use convoke_agent::verdict::{Failure, Reason};
use convoke_agent::{TurnResult, Verdict};
use convoke_core::Diagnostic;
use convoke_core::ledger::estimate_tokens;
use tokio::sync::mpsc;
use tokio::task::{Id, JoinSet};

use super::controls::StopRequest;
use super::drive::{Drive, Driven, Report};
use super::prepare::{PreparedTurn, Unprepared};
use super::{Coordinator, CoordinatorError};
use crate::diagnostics;
use crate::event::{Event, FailedTurn, StopReason};
use crate::id::{AttemptRef, TurnId};
use crate::progress::Progress;
use crate::routing::conversation::{Conversation, IncomingMessage};
use crate::routing::route;
use crate::store::{Store, StoreError};
use crate::turn::{Attempt, Turn, TurnState};

/// The turns that agents work on.
struct Batch {
    drivers: JoinSet<Driven>,
    under_way: HashMap<Id, UnderWay>,
    reports: mpsc::Receiver<(TurnId, Report)>,
}

/// A turn that an agent works on.
#[derive(Clone)]
struct UnderWay {
    turn: Turn,
    attempt: Attempt,
}

/// How a turn ended, once that is stored.
enum End {
    /// With a reply; and why the conversation stops, if it does.
    Finished(Option<StopReason>),
    Failed(FailedTurn),
}

impl<S: Store> Coordinator<S> {
    /// Takes the next turns to their end. Returns why the conversation stops, if it does.
    pub(super) async fn run_batch(&mut self) -> Result<Option<StopReason>, CoordinatorError> {
        let mut next = self.conversation.clone();
        let roster = self.team_agents.roster();
        let mut batch = next.queue.take_next(self.pace(), |turn| !roster.is_person(&turn.member));
        let left = self.guard.turns_left(self.team_agents.team().limits.turns);
        while batch.len() as u64 > left {
            batch.pop().into_iter().for_each(|turn| next.queue.put_back(turn));
        }
        let mut prepared = Vec::new();
        let mut failed = Vec::new();
        for turn in batch {
            self.guard.took_turn();
            match self.prepare(turn).await? {
                Ok(ready) => prepared.push(ready),
                Err(unprepared) => failed.push(self.refuse(&next, unprepared).await?),
            }
        }
        let batch = self.begin(next, prepared).await?;
        let guarded = self.attend(batch, &mut failed).await?;
        Ok(match (self.controls.wish(), failed.first()) {
            (StopRequest::Leave, _) => Some(StopReason::Left),
            (_, None) => guarded,
            (StopRequest::CancelTurn, Some(_)) => {
                Some(StopReason::Cancelled { person: self.asker() })
            }
            (StopRequest::GoOn, Some(first)) => {
                Some(StopReason::TurnFailed { person: first.asker.clone(), turns: failed })
            }
        })
    }

    /// Records that a turn could not even be sent.
    async fn refuse(
        &mut self,
        next: &Conversation,
        unprepared: Unprepared,
    ) -> Result<FailedTurn, CoordinatorError> {
        let Unprepared { mut turn, failure } = unprepared;
        let mut commit = self.commit_of(next);
        turn.state = TurnState::Failed;
        turn.problem = Some(failure.to_string());
        turn.ended_at = Some(commit.at);
        commit.turns.push(turn.clone());
        self.commit(commit).await?;
        let outcome = Verdict::Failed(failure);
        self.emit(Event::TurnEnded {
            turn: turn.id,
            member: turn.member.clone(),
            state: turn.state,
            outcome: outcome.clone(),
            reply: None,
            partial_bytes: 0,
            usage: None,
            cost_usd: None,
            elapsed_ms: 0,
        });
        Ok(FailedTurn { turn: turn.id, member: turn.member, asker: turn.asker, outcome })
    }

    /// Stores what is sent, then sends it.
    async fn begin(
        &mut self,
        next: Conversation,
        prepared: Vec<PreparedTurn>,
    ) -> Result<Batch, CoordinatorError> {
        if !prepared.is_empty() {
            let mut commit = self.commit_of(&next);
            for ready in &prepared {
                commit.contents.extend(ready.contents.iter().cloned());
                commit.turns.push(ready.turn.clone());
                commit.attempts.push(ready.attempt.clone());
            }
            self.commit(commit).await?;
        }
        self.conversation = next;
        let (sender, reports) = mpsc::channel(256);
        let mut batch = Batch { drivers: JoinSet::new(), under_way: HashMap::new(), reports };
        for ready in prepared {
            let PreparedTurn { turn, attempt, member_agent, output, context, .. } = ready;
            let bytes = attempt.prompt.bytes + attempt.system.map_or(0, |system| system.bytes);
            self.emit(Event::TurnStarted {
                turn: turn.id,
                member: turn.member.clone(),
                answers: turn.answers,
                attempt: attempt.number,
                prompt: attempt.prompt,
                system: attempt.system,
                tokens_estimate: estimate_tokens(bytes),
                context,
            });
            for diagnostic in output.diagnostics {
                self.emit(Event::Diagnostic { turn: Some(turn.id), diagnostic });
            }
            let team = self.team_agents.team();
            let mut turn_input = member_agent.turn_input(output.prompt, output.system_flag, team);
            turn_input.ledger = Some(output.ledger);
            turn_input.attempt =
                Some(AttemptRef { session: self.session, turn: turn.id, attempt: attempt.number });
            turn_input.keeper = ThreadWriter::Caller { turn: name_of(&turn) };
            let drive = Drive {
                turn: turn.id,
                agent_turn: member_agent.agent.start(turn_input),
                timeout: team.limits.turn_timeout,
                wish: self.controls.watch(),
                redactor: self.team_agents.redactor.clone(),
                reports: sender.clone(),
            };
            let driver = batch.drivers.spawn(drive.run()).id();
            batch.under_way.insert(driver, UnderWay { turn, attempt });
        }
        Ok(batch)
    }

    /// Shows what the agents do, and stores what comes of it, until all have ended.
    async fn attend(
        &mut self,
        mut batch: Batch,
        failed: &mut Vec<FailedTurn>,
    ) -> Result<Option<StopReason>, CoordinatorError> {
        let mut stop = None;
        loop {
            let ended = tokio::select! {
                biased;
                Some((turn, report)) = batch.reports.recv() => {
                    self.hear(&batch, turn, report).await?;
                    continue;
                }
                ended = batch.drivers.join_next_with_id() => ended,
            };
            let Some(ended) = ended else { return Ok(stop) };
            while let Ok((turn, report)) = batch.reports.try_recv() {
                self.hear(&batch, turn, report).await?;
            }
            let (id, driven) = match ended {
                Ok(ended) => ended,
                Err(error) => {
                    let failure = Failure::new(Reason::Other, error.to_string());
                    (error.id(), Driven::nothing(TurnResult::failed(failure)))
                }
            };
            if let Some(under_way) = batch.under_way.remove(&id) {
                match self.end(&under_way, driven).await? {
                    End::Finished(guarded) => stop = guarded.or(stop),
                    End::Failed(turn) => failed.push(turn),
                }
            }
        }
    }

    /// Stores how a turn ended. When somebody else has gone on with its member's thread in the meantime,
    /// it has failed: a reply that its own member does not remember is none.
    async fn end(
        &mut self,
        under_way: &UnderWay,
        mut driven: Driven,
    ) -> Result<End, CoordinatorError> {
        let memory = driven.outcome.thread_append.take();
        let places = redact_result(&mut driven.outcome, &self.team_agents.redactor).await;
        driven.remarks.extend(redacted(places));
        driven.outcome.diagnostics.extend(driven.remarks.iter().cloned());
        let stored = match driven.outcome.verdict {
            Verdict::Done => self.finish(under_way, &driven, memory).await.map(End::Finished),
            _ => self.fail(under_way, &driven, memory).await.map(End::Failed),
        };
        match stored {
            Err(CoordinatorError::Store(
                error @ StoreError::Thread(ThreadStoreError::Changed(_)),
            )) => {
                let failure = Failure::new(Reason::Other, error.to_string());
                driven.outcome.verdict = Verdict::Failed(failure);
                Ok(End::Failed(self.fail(under_way, &driven, None).await?))
            }
            other => other,
        }
    }

    /// Shows what an agent does, or stores it in case the turn never ends.
    async fn hear(
        &mut self,
        batch: &Batch,
        turn: TurnId,
        report: Report,
    ) -> Result<(), StoreError> {
        let under_way = batch.under_way.values().find(|under_way| under_way.turn.id == turn);
        let Some(UnderWay { turn, attempt }) = under_way else { return Ok(()) };
        match report {
            Report::Event(event) => {
                self.emit(Event::Agent { turn: turn.id, member: turn.member.clone(), event });
            }
            Report::Batch(events) => {
                let mut commit = self.commit_of(&self.conversation);
                let attempt = attempt.number;
                commit.progress.push(Progress { turn: turn.id, attempt, events });
                self.commit(commit).await?;
            }
        }
        Ok(())
    }

    /// Stores a reply, what its member remembers, the end of its turn and the turns that it opens, all at
    /// once.
    async fn finish(
        &mut self,
        under_way: &UnderWay,
        driven: &Driven,
        memory: Option<ThreadAppend>,
    ) -> Result<Option<StopReason>, CoordinatorError> {
        let UnderWay { mut turn, mut attempt } = under_way.clone();
        let Driven { outcome, events, remarks, elapsed } = driven;
        let reply = outcome.reply.clone();
        let routed = route(
            self.team_agents.roster(),
            &turn.member,
            &reply,
            self.team_agents.team().context.text,
        );
        let answered = self.store.message(self.session, turn.answers).await?.message.id;
        let mut next = self.conversation.clone();
        let mut commit = self.commit_of(&next);
        let consequences = next.say(
            IncomingMessage {
                routed: &routed,
                speaker: self.team_agents.roster().speaker(&turn.member),
                content: reply,
                answers: Some((turn.answers, answered)),
                asker: turn.asker.clone(),
                at: commit.at,
            },
            self.team_agents.team().limits.queue,
        );
        let reply_id = consequences.message.message.id.clone();
        turn.state = TurnState::Done;
        turn.reply = Some(consequences.message.number);
        turn.ended_at = Some(commit.at);
        commit.state = next.state();
        commit.threads.extend(memory);
        let ended = super::prepare::ended(commit.at, outcome.clone(), events, &mut commit.contents);
        let shown = ended_event(&turn, &ended, Some(reply_id), *elapsed);
        attempt.ended = Some(ended);
        commit.turns.push(turn.clone());
        commit.attempts.push(attempt);
        self.write(next, commit, &routed, consequences).await?;
        self.emit_remarks(turn.id, remarks);
        self.emit(shown);
        let repeated = self.guard.said(&turn.member, &routed.text);
        let person = self.asker();
        let repetition =
            repeated.map(|times| StopReason::Repetition { person, member: turn.member, times });
        Ok(repetition)
    }

    /// Stores what there is of a reply that was not finished. Its markers are not obeyed.
    async fn fail(
        &mut self,
        under_way: &UnderWay,
        driven: &Driven,
        memory: Option<ThreadAppend>,
    ) -> Result<FailedTurn, CoordinatorError> {
        let UnderWay { mut turn, mut attempt } = under_way.clone();
        let Driven { outcome, events, remarks, elapsed } = driven;
        let mut commit = self.commit_of(&self.conversation);
        commit.threads.extend(memory);
        let ended = super::prepare::ended(commit.at, outcome.clone(), events, &mut commit.contents);
        turn.state = match ended.verdict {
            Verdict::Cancelled => TurnState::Cancelled,
            _ => TurnState::Failed,
        };
        turn.problem = Some(ended.verdict.to_string());
        turn.ended_at = Some(commit.at);
        let shown = ended_event(&turn, &ended, None, *elapsed);
        let outcome = ended.verdict.clone();
        attempt.ended = Some(ended);
        commit.turns.push(turn.clone());
        commit.attempts.push(attempt);
        self.commit(commit).await?;
        self.emit_remarks(turn.id, remarks);
        self.emit(shown);
        Ok(FailedTurn { turn: turn.id, member: turn.member, asker: turn.asker, outcome })
    }

    fn emit_remarks(&mut self, turn: TurnId, remarks: &[Diagnostic]) {
        for diagnostic in remarks.iter().cloned() {
            self.emit(Event::Diagnostic { turn: Some(turn), diagnostic });
        }
    }
}

/// Names a turn among all that its member's thread may hold. A copy of a session as it was earlier gives
/// the numbers of turns out once more, but for messages that came later.
fn name_of(turn: &Turn) -> String {
    format!("{}/{}", turn.id, turn.answers)
}

fn ended_event(
    turn: &Turn,
    ended: &crate::turn::Ended,
    reply: Option<convoke_core::MessageId>,
    elapsed: std::time::Duration,
) -> Event {
    Event::TurnEnded {
        turn: turn.id,
        member: turn.member.clone(),
        state: turn.state,
        outcome: ended.verdict.clone(),
        reply,
        partial_bytes: ended.partial.map_or(0, |partial| partial.bytes),
        usage: ended.usage,
        cost_usd: ended.cost_usd,
        elapsed_ms: u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX),
    }
}

/// Returns the diagnostic of a reply from which secrets were removed in some places.
fn redacted(places: u64) -> Option<Diagnostic> {
    let message = match places {
        0 => return None,
        1 => "a secret was removed from the reply".to_owned(),
        _ => format!("secrets were removed from the reply in {places} places"),
    };
    Some(Diagnostic::new(diagnostics::REPLY_REDACTED, message).with_count(places))
}
