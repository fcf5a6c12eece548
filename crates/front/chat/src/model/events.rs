//! Applies the events of the conversation.

use std::fmt::Write as _;
use std::time::Duration;

use convoke_core::figures::{dollars, thousands};
use convoke_protocol::agent_event::AgentEventKind;
use convoke_protocol::changes::ChangedBy;
use convoke_protocol::event::waits_for;
use convoke_protocol::event::{EventKind, StopReason};
use convoke_protocol::id::{MemberName, TurnId};
use convoke_protocol::turn::{AttemptResult, TurnState};
use convoke_protocol::verdict::Verdict;
use convoke_protocol::view::QueuedTurn;
use convoke_session::NewMessage;

use super::{Activity, Chat, Effect};
use crate::running_turn::RunningTurn;
use crate::transcript::Tone;

impl Chat {
    /// Applies an event of the conversation.
    pub(super) fn observe(&mut self, event: EventKind) -> Option<Effect> {
        match event {
            EventKind::Opened { interrupted, .. } => {
                for turn in interrupted {
                    let (session, store) = (&self.setup.session, &self.setup.store_option);
                    let text = format!(
                        "turn {turn} was interrupted; /go retries it, and `convoke sessions show {session} \
                         --turn {turn} --partial{store}` prints its partial output"
                    );
                    self.transcript.note(Tone::Warning, &text);
                }
            }
            EventKind::Message(message) => {
                if self.setup.team.is_person(&message.from()) {
                    // Other people may send messages too.
                    let policy = self.setup.team.context.text;
                    self.no_longer_pending(|pending| pending.text(policy) == message.text);
                }
                self.add_message(&message);
            }
            EventKind::MessageWaits { text, .. } => {
                self.no_longer_pending(|pending| pending.content == text);
                let note = "your message waits until the running turn on another machine has ended";
                self.transcript.note(Tone::Quiet, note);
            }
            EventKind::Task { task, by } => {
                self.transcript.note(Tone::Quiet, &format!("{by} set the task: {task}"));
                self.task = Some(task);
            }
            EventKind::TurnQueued { turn, member, answers, intent, .. } => {
                self.queue.push(QueuedTurn { turn, member, answers, intent });
            }
            EventKind::TurnDropped { turn, member, .. } => {
                self.unqueue(turn);
                self.transcript.note(Tone::Quiet, &format!("{member}'s turn was dropped"));
            }
            EventKind::TurnOffered { turn, member, node, problem } => {
                let waits = waits_for(node.as_deref(), problem.as_deref());
                self.transcript.note(Tone::Quiet, &format!("turn {turn} of {member} {waits}"));
            }
            EventKind::TurnStarted { turn, member, tokens_estimate, .. } => {
                self.unqueue(turn);
                self.sent.retain(|(name, _)| *name != member);
                self.sent.push((member.clone(), turn));
                let width = self.text_width();
                // No event ends an attempt that another process abandoned.
                self.running.retain(|work| work.turn != turn);
                self.running.push(RunningTurn::new(turn, member, self.now, tokens_estimate, width));
            }
            EventKind::Agent { turn, event, .. } => {
                if let AgentEventKind::Warning(diagnostic) = &event.kind {
                    self.diagnose(diagnostic);
                }
                if let Some(work) = self.running.iter_mut().find(|work| work.turn == turn) {
                    work.observe(&event);
                }
            }
            EventKind::PermissionAsked { member, question, answers, .. } => {
                let is_open = !answers.is_empty();
                self.rings |= is_open;
                self.ask(member, question, is_open);
            }
            EventKind::PermissionAnswered { id, answer, by, .. } => {
                self.answered(&id, answer, by);
            }
            EventKind::TurnEnded { turn, member, state, reply, result, elapsed, .. } => {
                let work = self.turn_left(turn);
                if let Some(reply) = reply {
                    self.transcript.account(&reply, taken(elapsed, &result));
                }
                if let Some(cost) = result.cost_usd {
                    *self.cost_usd.get_or_insert(0.0) += cost;
                }
                if let Some(received) = work.as_ref().and_then(|work| work.received.as_ref()) {
                    self.transcript.note(Tone::Quiet, &received.to_string());
                }
                if matches!(state, TurnState::Failed | TurnState::Cancelled) {
                    self.unfinished = Some(turn);
                    self.give_up(&member, &result.verdict, work.as_ref());
                }
            }
            EventKind::FilesChanged { member, by, counts, .. } => {
                let text = match by {
                    ChangedBy::Agent => format!("{member} changed {counts}"),
                    ChangedBy::Person => format!("you changed {counts} since the last turn"),
                };
                self.transcript.note(Tone::Quiet, &text);
            }
            EventKind::TurnInterrupted { turn, .. } => {
                self.running.retain(|work| work.turn != turn);
            }
            EventKind::Diagnostic { diagnostic, .. } => self.diagnose(&diagnostic),
            EventKind::Stopped(stop) => return self.stop(&stop),
            _ => {}
        }
        None
    }

    /// Removes the first pending message that fits.
    fn no_longer_pending(&mut self, is_it: impl Fn(&NewMessage) -> bool) {
        if let Some(place) = self.pending.iter().position(is_it) {
            self.pending.remove(place);
        }
    }

    /// Removes an ended turn from the queue and the running ones. Returns it if it ran.
    fn turn_left(&mut self, turn: TurnId) -> Option<RunningTurn> {
        self.unqueue(turn);
        let position = self.running.iter().position(|work| work.turn == turn);
        position.map(|at| self.running.remove(at))
    }

    /// Adds notes about a turn that failed or was cancelled, and its partial reply.
    fn give_up(&mut self, member: &MemberName, outcome: &Verdict, work: Option<&RunningTurn>) {
        if let Some(text) = work.map(RunningTurn::text).filter(|text| !text.is_empty()) {
            let begun = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
            let text = format!("partial reply of {member}: {begun} …");
            self.transcript.note(Tone::Quiet, &text);
        }
        let (tone, text) = match outcome {
            Verdict::Cancelled | Verdict::Withdrawn => {
                (Tone::Warning, format!("{member}'s turn was cancelled"))
            }
            Verdict::TimedOut => (Tone::Bad, format!("{member} timed out")),
            outcome => (Tone::Bad, format!("{member} {outcome}")),
        };
        self.transcript.note(tone, &text);
    }

    /// Applies the stop of a conversation: control returns to a person.
    fn stop(&mut self, stop: &StopReason) -> Option<Effect> {
        if self.activity == Activity::Leaving || *stop == StopReason::Left {
            return Some(self.close());
        }
        self.activity = Activity::Waiting;
        if !self.is_interrupted {
            // The notice concerned the turns that ran.
            self.notice = None;
        }
        self.rings |= !matches!(stop, StopReason::Cancelled { .. });
        let (tone, text) = match stop {
            StopReason::Idle { .. }
            | StopReason::Left
            | StopReason::TurnFailed { .. }
            | StopReason::Cancelled { .. } => (Tone::Quiet, None),
            StopReason::Addressed { person, .. } if *person == self.speaker => (Tone::Quiet, None),
            StopReason::Addressed { person, .. } => {
                self.speaker.clone_from(person);
                (Tone::Warning, Some(format!("{person} was addressed; you now speak as {person}")))
            }
            StopReason::TurnLimit { limit, .. } => {
                (Tone::Warning, Some(format!("stopped after {limit} turns without a person")))
            }
            StopReason::Repetition { member, times, .. } => {
                let text = format!("stopped: {member} repeated the same message {times} times");
                (Tone::Warning, Some(text))
            }
            StopReason::QueueFull { limit, left_out, .. } => {
                let text = format!("queue full: {limit} turns queued, {left_out} not added");
                (Tone::Warning, Some(text))
            }
        };
        if let Some(text) = text {
            self.transcript.note(tone, &text);
        }
        let hint = match stop {
            StopReason::TurnFailed { .. } | StopReason::Cancelled { .. } => {
                Some(if self.queue.is_empty() {
                    "/retry retries the turn"
                } else {
                    "/retry retries the turn, /go runs the queued turns"
                })
            }
            StopReason::TurnLimit { .. }
            | StopReason::Repetition { .. }
            | StopReason::QueueFull { .. } => Some("/go continues"),
            StopReason::Idle { .. } | StopReason::Left | StopReason::Addressed { .. } => None,
        };
        if let Some(hint) = hint {
            self.transcript.hint(Tone::Quiet, hint);
        }
        // A message arrived after the inbox was last read.
        (!self.pending.is_empty()).then(|| self.work(Effect::Continue))
    }

    fn unqueue(&mut self, turn: TurnId) {
        self.queue.retain(|waiting| waiting.turn != turn);
    }
}

/// Returns the time, the tokens and the cost that a reply took.
fn taken(elapsed: Duration, result: &AttemptResult) -> String {
    let mut taken = format!("{}.{} s", elapsed.as_secs(), elapsed.subsec_millis() / 100);
    // Writing to a string cannot fail.
    if let Some(usage) = result.usage {
        let (read, wrote) = (thousands(usage.input), thousands(usage.output));
        let _ = write!(taken, " · {read} in, {wrote} out");
    }
    if let Some(cost) = result.cost_usd {
        let _ = write!(taken, " · {}", dollars(cost));
    }
    taken
}
