//! What a screen shows of a session: the fold of its events.
//!
//! A view holds no history: messages are read from the store, page by page. Its size follows the running turns, the queue and
//! the members.

use std::collections::BTreeMap;
use std::time::Duration;

use convoke_core::marker::Intent;
use convoke_core::{Code, Diagnostic};
use serde::Serialize;

use crate::agent_event::{AgentEvent, AgentEventKind, Received, TextPart};
use crate::event::{Event, EventKind, StopReason};
use crate::id::{EventNumber, MemberName, MessageNumber, Millis, TurnId};
use crate::permission::{PermissionAnswer, PermissionQuestion};
use crate::turn::{Turn, TurnState};
use crate::usage::Usage;

/// The number of tool calls of a running turn that are kept; earlier ones are in the log.
const TOOLS: usize = 20;
/// The maximum number of bytes of a tool's input or output that are kept.
const EXCERPT: usize = 2 << 10;

/// What a screen shows of a session.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct View {
    /// The last event of the log that was applied.
    pub last: EventNumber,
    /// The team task.
    pub task: Option<String>,
    /// The number of messages.
    pub messages: u64,
    /// The queued turns, in the order of arrival.
    pub queue: Vec<QueuedTurn>,
    /// The running turns, in the order of their starts.
    pub running: Vec<RunningTurn>,
    /// The open questions of agents, in the order in which they were asked.
    pub questions: Vec<OpenQuestion>,
    /// The figures of the members, in the order of their first turns.
    pub members: Vec<MemberFigures>,
    /// The diagnostics, each code with its number and its first message.
    pub diagnostics: BTreeMap<Code, DiagnosticCount>,
    /// Why the conversation stopped; `None` while it goes on.
    pub stop: Option<StopReason>,
}

/// A turn that waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueuedTurn {
    pub turn: TurnId,
    pub member: MemberName,
    /// The message that it answers.
    pub answers: MessageNumber,
    pub intent: Intent,
}

impl From<&Turn> for QueuedTurn {
    fn from(turn: &Turn) -> Self {
        let (member, answers) = (turn.member.clone(), turn.answers);
        Self { turn: turn.id, member, answers, intent: turn.intent }
    }
}

/// A turn whose agent is running.
#[derive(Debug, Clone, PartialEq)]
pub struct RunningTurn {
    pub turn: TurnId,
    pub member: MemberName,
    /// The message that it answers.
    pub answers: MessageNumber,
    pub attempt: u32,
    pub began_at: Millis,
    /// The bytes of the prompt and the system text.
    pub sent_bytes: u64,
    /// The same in tokens, estimated.
    pub sent_tokens: u64,
    /// The number of events of the agent.
    pub events: u64,
    /// The text that the agent has written.
    pub text: String,
    /// The size of the text that is certain; the rest is being written and may be replaced.
    pub settled: usize,
    /// Changes when a text is replaced instead of continued.
    pub generation: u64,
    /// The last tool calls.
    pub tools: Vec<ToolCall>,
    /// Changes with the tool calls.
    pub tools_version: u64,
    pub activity: Activity,
    /// The tokens that were counted so far.
    pub usage: Option<Usage>,
    /// The requests that Convoke sent for it.
    pub requests: RequestFigures,
    /// The summary of the requests that its program sent.
    pub received: Option<Received>,
}

/// A tool call of a running turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolCall {
    pub id: String,
    pub name: String,
    /// The beginning of the input.
    pub input: String,
    /// Whether it succeeded, and the beginning of its output; `None` while it runs.
    pub output: Option<(bool, String)>,
}

/// What an agent is doing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Activity {
    #[default]
    Starting,
    Thinking,
    Writing,
    /// A sub-agent writes.
    SubAgentWriting,
    /// A tool runs; with its name and input.
    Tool(String, String),
    /// A tool failed; with its output.
    ToolFailed(String),
    /// It changed files.
    Changed(Vec<String>),
    /// It replaces earlier history by a summary.
    Compacting,
    /// It repeats a request that failed for this reason.
    Retrying(String),
}

/// A question that waits for an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OpenQuestion {
    pub turn: TurnId,
    pub member: MemberName,
    pub question: PermissionQuestion,
    /// The possible answers; none if it is decided without a person.
    pub answers: Vec<PermissionAnswer>,
    pub expires_at: i64,
}

/// The figures of a member.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MemberFigures {
    pub member: MemberName,
    /// The number of attempts.
    pub turns: u64,
    /// The number of turns with a reply.
    pub done: u64,
    /// The bytes of prompts and system texts.
    pub sent_bytes: u64,
    /// The same in tokens, estimated.
    pub sent_tokens_estimate: u64,
    /// The tokens that the agent counted.
    pub counted_tokens: Option<CountedTokens>,
    /// The requests to its model, if Convoke sent them.
    pub requests: Option<RequestFigures>,
    /// The cost that the agent reported.
    pub cost_usd: Option<f64>,
    #[serde(rename = "elapsedMs", with = "crate::milliseconds")]
    pub elapsed: Duration,
}

/// The tokens that an agent counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct CountedTokens {
    /// The number of counted turns.
    pub turns: u64,
    pub input: u64,
    /// The input tokens read from a cache.
    pub cached: u64,
    pub output: u64,
}

/// Requests to a model.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RequestFigures {
    pub count: u64,
    pub bytes: u64,
    /// The length of the prefix shared with the previous request: the most that a cache can serve.
    pub unchanged_bytes: u64,
}

/// How often a diagnostic was given, and its first message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiagnosticCount {
    pub count: u64,
    pub first: String,
}

/// What an event changed in the text of a running turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextChange {
    /// The text goes on from this byte.
    Grown { turn: TurnId, from: usize },
    /// The text from this byte on is another one.
    Replaced { turn: TurnId, from: usize },
}

impl View {
    /// Adds an event. An event of the log that was applied before changes nothing.
    pub fn apply(&mut self, event: &Event) -> Option<TextChange> {
        if let Some(number) = event.number {
            if number <= self.last {
                return None;
            }
            self.last = number;
        }
        match &event.kind {
            EventKind::Created { task, .. } => self.task.clone_from(task),
            EventKind::Restored { state } => {
                self.task.clone_from(&state.task);
                self.messages = state.last_message.0;
            }
            EventKind::Message(message) => {
                self.messages = message.number.0;
                self.stop = None;
                self.unqueue(message.turn);
            }
            EventKind::Task { task, .. } => self.task = Some(task.clone()),
            EventKind::TurnQueued { turn, member, answers, intent, .. } => {
                let (turn, member) = (*turn, member.clone());
                self.queue.push(QueuedTurn { turn, member, answers: *answers, intent: *intent });
            }
            EventKind::TurnDropped { turn, .. } => self.unqueue(Some(*turn)),
            EventKind::TurnStarted { .. } => self.start(event),
            EventKind::Agent { turn, member, event } => return self.add(*turn, member, event),
            EventKind::PermissionAsked { turn, member, question, answers, expires_at } => {
                self.questions.push(OpenQuestion {
                    turn: *turn,
                    member: member.clone(),
                    question: question.clone(),
                    answers: answers.clone(),
                    expires_at: *expires_at,
                });
            }
            EventKind::PermissionAnswered { id, .. } => {
                self.questions.retain(|open| open.question.id != *id);
            }
            EventKind::TurnInterrupted { turn, .. } => self.stop_running(*turn),
            EventKind::TurnEnded { .. } => self.end(&event.kind),
            EventKind::Diagnostic { diagnostic, .. } => self.count(diagnostic),
            EventKind::Stopped(stop) => self.stop = Some(stop.clone()),
            EventKind::Opened { .. }
            | EventKind::MessageWaits { .. }
            | EventKind::TurnRetried { .. }
            | EventKind::TurnOffered { .. }
            | EventKind::MemoryChanged { .. }
            | EventKind::FilesChanged { .. } => {}
        }
        None
    }

    /// Returns a running turn.
    pub fn running(&self, turn: TurnId) -> Option<&RunningTurn> {
        self.running.iter().find(|running| running.turn == turn)
    }

    /// Returns the cost that agents reported; `None` if none did.
    pub fn cost_usd(&self) -> Option<f64> {
        self.members.iter().filter_map(|member| member.cost_usd).reduce(|sum, cost| sum + cost)
    }

    fn unqueue(&mut self, turn: Option<TurnId>) {
        self.queue.retain(|queued| Some(queued.turn) != turn);
    }

    fn start(&mut self, event: &Event) {
        let EventKind::TurnStarted {
            turn,
            member,
            answers,
            attempt,
            prompt,
            system,
            tokens_estimate,
            ..
        } = &event.kind
        else {
            return;
        };
        let sent_bytes = prompt.bytes + system.map_or(0, |system| system.bytes);
        self.unqueue(Some(*turn));
        self.stop_running(*turn);
        self.stop = None;
        let figures = self.member(member);
        figures.turns += 1;
        figures.sent_bytes += sent_bytes;
        figures.sent_tokens_estimate += tokens_estimate;
        self.running.push(RunningTurn {
            turn: *turn,
            member: member.clone(),
            answers: *answers,
            attempt: *attempt,
            began_at: event.at,
            sent_bytes,
            sent_tokens: *tokens_estimate,
            events: 0,
            text: String::new(),
            settled: 0,
            // A later attempt begins anew for those who have seen the earlier one.
            generation: u64::from(*attempt) << 32,
            tools: Vec::new(),
            tools_version: 0,
            activity: Activity::default(),
            usage: None,
            requests: RequestFigures::default(),
            received: None,
        });
    }

    fn add(
        &mut self,
        turn: TurnId,
        member: &MemberName,
        event: &AgentEvent<'_>,
    ) -> Option<TextChange> {
        match &event.kind {
            AgentEventKind::Warning(diagnostic) => self.count(diagnostic),
            AgentEventKind::Request { bytes, unchanged_bytes, .. } => {
                let requests = self.member(member).requests.get_or_insert_default();
                requests.add(*bytes, *unchanged_bytes);
            }
            _ => {}
        }
        self.running.iter_mut().find(|running| running.turn == turn)?.add(event)
    }

    fn stop_running(&mut self, turn: TurnId) {
        self.running.retain(|running| running.turn != turn);
        self.questions.retain(|open| open.turn != turn);
    }

    fn end(&mut self, kind: &EventKind) {
        let EventKind::TurnEnded { turn, member, state, result, elapsed, .. } = kind else {
            return;
        };
        let sent = self.running(*turn).map_or((0, 0), |it| (it.sent_bytes, it.sent_tokens));
        self.unqueue(Some(*turn));
        self.stop_running(*turn);
        let figures = self.member(member);
        if !result.verdict.is_sent() {
            figures.sent_bytes -= sent.0;
            figures.sent_tokens_estimate -= sent.1;
        }
        figures.done += u64::from(*state == TurnState::Done);
        figures.elapsed += *elapsed;
        if let Some(usage) = result.usage {
            let counted = figures.counted_tokens.get_or_insert_default();
            counted.turns += 1;
            counted.input = counted.input.saturating_add(usage.input);
            counted.cached = counted.cached.saturating_add(usage.cached);
            counted.output = counted.output.saturating_add(usage.output);
        }
        if let Some(cost) = result.cost_usd {
            *figures.cost_usd.get_or_insert(0.0) += cost;
        }
    }

    fn count(&mut self, diagnostic: &Diagnostic) {
        let first = || DiagnosticCount { count: 0, first: diagnostic.message.clone() };
        self.diagnostics.entry(diagnostic.code.clone()).or_insert_with(first).count += 1;
    }

    fn member(&mut self, name: &MemberName) -> &mut MemberFigures {
        let index = self.members.iter().position(|member| member.member == *name);
        let index = index.unwrap_or_else(|| {
            self.members.push(MemberFigures::new(name.clone()));
            self.members.len() - 1
        });
        &mut self.members[index]
    }
}

impl MemberFigures {
    /// Returns the bytes of its requests, if Convoke sent them, else of its prompts.
    pub fn bytes(&self) -> u64 {
        self.requests.map_or(self.sent_bytes, |requests| requests.bytes)
    }

    fn new(member: MemberName) -> Self {
        Self {
            member,
            turns: 0,
            done: 0,
            sent_bytes: 0,
            sent_tokens_estimate: 0,
            counted_tokens: None,
            requests: None,
            cost_usd: None,
            elapsed: Duration::ZERO,
        }
    }
}

impl RequestFigures {
    /// Counts a request.
    pub fn add(&mut self, bytes: u64, unchanged_bytes: u64) {
        let one = Self { count: 1, bytes, unchanged_bytes };
        *self = self.plus(one);
    }

    /// Returns the sum.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            count: self.count + other.count,
            bytes: self.bytes + other.bytes,
            unchanged_bytes: self.unchanged_bytes + other.unchanged_bytes,
        }
    }
}

impl RunningTurn {
    fn add(&mut self, event: &AgentEvent<'_>) -> Option<TextChange> {
        self.events += 1;
        let is_own = event.sub_agent.is_none();
        match &event.kind {
            AgentEventKind::Text { text, part } if is_own => {
                self.activity = Activity::Writing;
                return match part {
                    TextPart::Delta => Some(self.grow(text)),
                    TextPart::Whole => self.settle(text),
                };
            }
            AgentEventKind::Text { .. } => self.activity = Activity::SubAgentWriting,
            AgentEventKind::Thinking { .. } => self.activity = Activity::Thinking,
            AgentEventKind::ToolStarted { id, name, input } => {
                self.activity = Activity::Tool(name.to_string(), excerpt(input));
                self.tools_version += 1;
                let (id, name) = (id.to_string(), name.to_string());
                self.tools.push(ToolCall { id, name, input: excerpt(input), output: None });
                if self.tools.len() > TOOLS {
                    self.tools.remove(0);
                }
            }
            AgentEventKind::ToolFinished { id, ok, output } => {
                if !ok {
                    self.activity = Activity::ToolFailed(excerpt(output));
                }
                if let Some(call) = self.tools.iter_mut().rfind(|call| call.id == **id) {
                    call.output = Some((*ok, excerpt(output)));
                    self.tools_version += 1;
                }
            }
            AgentEventKind::FileChange { changes } => {
                let paths = changes.iter().map(|change| change.path.to_string());
                self.activity = Activity::Changed(paths.collect());
            }
            AgentEventKind::Request { purpose, bytes, unchanged_bytes, .. } => {
                if *purpose == crate::agent_event::RequestPurpose::Compaction {
                    self.activity = Activity::Compacting;
                }
                self.requests.add(*bytes, *unchanged_bytes);
            }
            AgentEventKind::Received(received) => self.received = Some(received.clone()),
            AgentEventKind::Usage(usage) => self.usage = Some(*usage),
            AgentEventKind::Retry { reason, .. } => {
                self.activity = Activity::Retrying(reason.to_string());
            }
            _ => {}
        }
        None
    }

    fn grow(&mut self, piece: &str) -> TextChange {
        let from = self.begin();
        self.text.push_str(piece);
        TextChange::Grown { turn: self.turn, from }
    }

    /// Returns where the next text goes on. A new text is a paragraph of its own.
    fn begin(&mut self) -> usize {
        let from = self.text.len();
        if from == self.settled && from > 0 {
            self.text.push_str("\n\n");
        }
        from
    }

    /// Replaces the text that was being written by the whole one.
    fn settle(&mut self, whole: &str) -> Option<TextChange> {
        let turn = self.turn;
        let paragraph = if self.settled > 0 { "\n\n" } else { "" };
        let start = self.settled + paragraph.len();
        let written = self.text.get(start..).unwrap_or_default();
        let change = if let Some(rest) = whole.strip_prefix(written) {
            let from = if written.is_empty() { self.begin() } else { self.text.len() };
            self.text.push_str(rest);
            (!rest.is_empty()).then_some(TextChange::Grown { turn, from })
        } else {
            self.generation += 1;
            self.text.truncate(start);
            self.text.push_str(whole);
            Some(TextChange::Replaced { turn, from: start })
        };
        self.settled = self.text.len();
        change
    }
}

/// Returns the beginning of a text.
fn excerpt(text: &str) -> String {
    text[..text.floor_char_boundary(EXCERPT)].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::SessionId;

    fn running() -> View {
        let content = crate::content::Content::new("Hello").reference();
        let mut view = View::default();
        view.apply(&numbered(
            1,
            EventKind::TurnStarted {
                turn: TurnId(1),
                member: "max".into(),
                answers: MessageNumber(1),
                attempt: 1,
                prompt: content,
                system: None,
                tokens_estimate: 2,
                context: 0,
                engine: "1".to_owned(),
                input: content,
                ledger: content,
                diagnostics: Vec::new(),
                in_a_row: 1,
                memory: None,
            },
        ));
        view
    }

    fn numbered(number: u64, kind: EventKind) -> Event {
        let session: SessionId = "0199a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b".parse().unwrap();
        let number = Some(EventNumber(number));
        Event { kind, session, at: Millis(7), number, migrated: false }
    }

    fn text(number: Option<u64>, text: &str, part: TextPart) -> Event {
        let event = AgentEvent::own(AgentEventKind::Text { text: text.to_owned().into(), part });
        let kind = EventKind::Agent { turn: TurnId(1), member: "max".into(), event };
        Event { number: number.map(EventNumber), ..numbered(0, kind) }
    }

    #[test]
    fn a_whole_text_continues_its_pieces_or_replaces_them() {
        let mut view = running();
        let turn = TurnId(1);
        let grown = |from| Some(TextChange::Grown { turn, from });
        assert_eq!(view.apply(&text(None, "one ", TextPart::Delta)), grown(0));
        assert_eq!(view.apply(&text(None, "two", TextPart::Delta)), grown(4));
        assert_eq!(view.apply(&text(Some(2), "one two", TextPart::Whole)), None);
        // A screen that came late has not seen all pieces.
        assert_eq!(view.apply(&text(None, "thr", TextPart::Delta)), grown(7));
        assert_eq!(view.apply(&text(Some(3), "three", TextPart::Whole)), grown(12));
        assert_eq!(view.apply(&text(None, "fo", TextPart::Delta)), grown(14));
        let replaced = Some(TextChange::Replaced { turn, from: 16 });
        assert_eq!(view.apply(&text(Some(4), "five", TextPart::Whole)), replaced);
        assert_eq!(view.running[0].text, "one two\n\nthree\n\nfive");
        assert_eq!(view.apply(&text(Some(5), "six", TextPart::Whole)), grown(20));
        assert_eq!(view.running[0].text, "one two\n\nthree\n\nfive\n\nsix");
    }

    #[test]
    fn an_event_that_was_applied_before_changes_nothing() {
        let mut view = running();
        view.apply(&text(Some(2), "one", TextPart::Whole));
        let before = view.clone();
        assert_eq!(view.apply(&text(Some(2), "one", TextPart::Whole)), None);
        assert_eq!(view, before);
    }

    #[test]
    fn figures_count_what_was_sent_and_not_what_was_withdrawn() {
        let ended = |verdict| EventKind::TurnEnded {
            turn: TurnId(1),
            member: "max".into(),
            attempt: 1,
            state: TurnState::Cancelled,
            reply: None,
            result: Box::new(crate::turn::AttemptResult::new(Millis(9), verdict)),
            elapsed: Duration::from_secs(2),
        };
        for (verdict, bytes) in
            [(crate::verdict::Verdict::Withdrawn, 0), (crate::verdict::Verdict::Cancelled, 5)]
        {
            let mut view = running();
            view.apply(&numbered(2, ended(verdict)));
            assert_eq!((view.members[0].sent_bytes, view.running.len()), (bytes, 0));
        }
    }
}
