//! Convoke's own sessions: the events of a log and the stored requests.

use std::collections::HashMap;
use std::time::Duration;

use convoke_protocol::agent_event::{AgentEvent, AgentEventKind, TextPart};
use convoke_protocol::event::{Event, EventKind};
use convoke_protocol::id::{AttemptRef, MessageNumber, Millis, TurnId};
use convoke_protocol::request::{RequestEnd, RequestRecord};
use convoke_protocol::turn::AttemptResult;
use convoke_protocol::verdict::Verdict;

use crate::texts::Texts;
use crate::{Call, CallResult, Conversation, Failed, Invocation, ModelRequest, Step, StepKind};

/// The messages that a turn to come may answer.
const MAX_MESSAGES: usize = 1_000;

/// Collects the events of a log. An attempt is an invocation.
#[derive(Debug)]
pub struct OwnConversation<'r> {
    /// The session; its invocations are those that have ended.
    pub conversation: Conversation,
    pub texts: Texts<'r>,
    open: HashMap<TurnId, (AttemptRef, Invocation)>,
    messages: HashMap<MessageNumber, String>,
}

impl<'r> OwnConversation<'r> {
    /// Creates a session without events.
    pub fn new(texts: Texts<'r>) -> Self {
        let conversation =
            Conversation { program: "convoke".to_owned(), ..Conversation::default() };
        Self { conversation, texts, open: HashMap::new(), messages: HashMap::new() }
    }

    /// Adds the next event. Returns the attempt that it ends, which is the last invocation then.
    pub fn add(&mut self, event: &Event) -> Option<AttemptRef> {
        self.conversation.began = self.conversation.began.or(Some(event.at));
        self.conversation.ended = Some(event.at);
        match &event.kind {
            EventKind::Created { name, directory, .. } => {
                self.conversation.id = event.session.to_string();
                self.conversation.name.clone_from(name);
                self.conversation.directory = Some(directory.clone());
            }
            EventKind::Message(message) => {
                if let Some(text) = self.texts.take(&message.text) {
                    if self.messages.len() >= MAX_MESSAGES {
                        self.messages.clear();
                    }
                    self.messages.insert(message.number, text);
                }
            }
            EventKind::TurnStarted { turn, member, answers, attempt, .. } => {
                let input = self.messages.get(answers).cloned();
                let invocation = Invocation {
                    key: format!("turn {turn}, attempt {attempt}"),
                    agent: member.to_string(),
                    provider: None,
                    model: None,
                    began: event.at,
                    ended: event.at,
                    input,
                    steps: Vec::new(),
                    requests: Vec::new(),
                    usage: None,
                    cost: None,
                    failed: None,
                };
                let attempt = AttemptRef { session: event.session, turn: *turn, attempt: *attempt };
                self.open.insert(*turn, (attempt, invocation));
            }
            EventKind::Agent { turn, event: said, .. } => {
                let (_, invocation) = self.open.get_mut(turn)?;
                add_step(invocation, said, event.at, &mut self.texts);
            }
            EventKind::TurnEnded { turn, result, .. }
            | EventKind::TurnInterrupted { turn, result, .. } => {
                return self.end(*turn, result, event.at);
            }
            _ => {}
        }
        None
    }

    fn end(&mut self, turn: TurnId, result: &AttemptResult, at: Millis) -> Option<AttemptRef> {
        let (attempt, mut invocation) = self.open.remove(&turn)?;
        invocation.ended = at;
        invocation.usage = result.usage;
        invocation.cost = result.cost_usd;
        invocation.model = result.model.clone().or(invocation.model);
        invocation.failed = failed(&result.verdict);
        self.conversation.invocations.push(invocation);
        Some(attempt)
    }
}

fn failed(verdict: &Verdict) -> Option<Failed> {
    let kind = match verdict {
        Verdict::Done => return None,
        Verdict::Failed(failure) => failure.reason.to_string(),
        other => other.as_str().to_owned(),
    };
    Some(Failed { kind, message: verdict.to_string() })
}

fn add_step(invocation: &mut Invocation, said: &AgentEvent<'_>, at: Millis, texts: &mut Texts<'_>) {
    let kind = match &said.kind {
        AgentEventKind::Started { model, .. } => {
            invocation.model = model.as_deref().map(str::to_owned);
            return;
        }
        AgentEventKind::Text { text, part: TextPart::Whole } => StepKind::Text(texts.take(text)),
        AgentEventKind::Thinking { text, part: TextPart::Whole } => {
            StepKind::Thinking(texts.take(text))
        }
        AgentEventKind::ToolStarted { id, name, input } => StepKind::Call(Call {
            id: id.to_string(),
            tool: name.to_string(),
            input: texts.take(input),
            result: None,
        }),
        AgentEventKind::ToolFinished { id, ok, output } => {
            let result = CallResult { at, ok: *ok, output: texts.take(output) };
            return invocation.close_call(id, result);
        }
        _ => return,
    };
    let sub_agent = said.sub_agent.as_deref().map(str::to_owned);
    invocation.steps.push(Step { at, sub_agent, kind });
}

/// Returns a stored request as one of an invocation.
pub fn model_request(record: &RequestRecord<()>) -> ModelRequest {
    let RequestRecord { number, meta, outcome, .. } = record;
    let elapsed = outcome.elapsed.as_ref().map_or(0, Duration::as_millis);
    let elapsed = i64::try_from(elapsed).unwrap_or(i64::MAX);
    let problem = match (outcome.end, outcome.status) {
        (Some(RequestEnd::Answered), None | Some(..400)) => None,
        (_, Some(status @ 400..)) => Some(status.to_string()),
        (Some(RequestEnd::Cancelled), _) => Some("cancelled".to_owned()),
        (Some(RequestEnd::TimedOut), _) => Some("timed-out".to_owned()),
        (Some(RequestEnd::Unsent), _) => Some("unsent".to_owned()),
        (Some(_), _) => Some("failed".to_owned()),
        (None, _) => None,
    };
    let message = outcome.failed.last().cloned();
    let failed =
        problem.map(|kind| Failed { message: message.unwrap_or_else(|| kind.clone()), kind });
    ModelRequest {
        key: format!("request {number} of {}", record.thread),
        sub_agent: None,
        purpose: meta.purpose,
        began: meta.at,
        ended: Millis(meta.at.0.saturating_add(elapsed)),
        model: outcome.model.clone(),
        answered_by: outcome.model.clone(),
        usage: outcome.usage,
        cost: None,
        failed,
    }
}
