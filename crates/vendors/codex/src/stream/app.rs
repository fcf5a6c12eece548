//! Codex's `app-server`: JSON-RPC, one message per line, without the `jsonrpc` field.
//!
//! The server streams text and reports each event once. Notifications name their thread; other threads belong
//! to sub-agents. The dialogue handles requests and responses.

use std::borrow::Cow;

use convoke_core::Diagnostic;
use convoke_protocol::agent_event::{AgentEvent, AgentEventKind, TextPart, TodoItem, TodoState};
use convoke_protocol::usage::Usage;
use convoke_protocol::verdict::{Failure, FailureReason, Verdict};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::error::{PendingError, Retry, failure};
use super::item::{self, Counts, Item, Phase};
use convoke_agent::diagnostics;
use convoke_agent::ending::Ending;
use convoke_agent::stream::lenient::{Flag, List, Number, Object, Text};
use convoke_agent::stream::{EventReader, Sink, TurnProgress};
use convoke_agent::turn::TurnResult;

/// Prefixes of notifications that are ignored.
const QUIET: &[&str] = &[
    "account/",
    "app/",
    "authStatusChange",
    "codex/event",
    "command/",
    "fs/",
    "fuzzyFileSearch/",
    "hook/",
    "item/autoApprovalReview/",
    "item/commandExecution/",
    "item/fileChange/",
    "item/mcpToolCall/",
    "item/plan/",
    "item/reasoning/summaryPartAdded",
    "loginChatGptComplete",
    "mcpServer/",
    "model/",
    "modelProvider/",
    "process/",
    "project/",
    "rawResponseItem/",
    "remoteControl/",
    "serverRequest/",
    "sessionConfigured",
    "skills/",
    "thread/",
    "turn/diff/",
    "turn/moderationMetadata",
    "windows",
];

/// A message for the dialogue.
#[derive(Debug, PartialEq, Eq)]
pub enum Message {
    /// A response to a request of Convoke, with the ids in it.
    Answer {
        /// The id of the request.
        id: u64,
        /// The thread.
        thread: Option<String>,
        /// The model.
        model: Option<String>,
        /// The turn.
        turn: Option<String>,
        /// The turns of the thread, if it has earlier ones.
        turns: Vec<String>,
    },
    /// An error response to a request of Convoke.
    Refusal {
        /// The id of the request.
        id: u64,
        /// The reason.
        message: String,
    },
    /// A request of the server, which waits for a response.
    Request {
        /// The id for the response, as JSON.
        id: String,
        /// The method.
        method: String,
    },
    /// No message.
    Nothing,
}

/// Parses the messages of one turn.
#[derive(Debug)]
pub struct CodexApp {
    progress: TurnProgress,
    /// The tokens of the thread before this turn.
    before: Usage,
    pending_error: PendingError,
}

impl CodexApp {
    /// Creates a reader that keeps a reply of at most `reply_limit` bytes.
    pub fn new(reply_limit: usize) -> Self {
        Self {
            progress: TurnProgress::new(reply_limit),
            before: Usage::default(),
            pending_error: PendingError::default(),
        }
    }

    /// Sets the number of requests per reported failure.
    #[must_use]
    pub fn counting(mut self, requests: u64) -> Self {
        self.progress.requests_per_notice = requests;
        self
    }

    /// Sets the tokens of the thread before this turn. The result still counts the whole thread.
    #[must_use]
    pub fn after(self, before: Usage) -> Self {
        Self { before, ..self }
    }

    /// Fails a turn that could not start.
    pub fn fail(&mut self, failure: Failure) {
        self.progress.closing = Some(Verdict::Failed(failure));
    }

    /// Sets the agent's own thread.
    pub fn thread_is(&mut self, thread: &str, model: Option<String>, sink: &mut Sink<'_>) {
        self.progress.session = Some(thread.to_owned());
        sink(AgentEvent::own(AgentEventKind::Started {
            session: Some(Cow::Borrowed(thread)),
            model: model.clone().map(Cow::Owned),
        }));
        self.progress.model = model;
    }

    /// Parses a line and returns a message for the dialogue.
    pub fn message(&mut self, line: &[u8], sink: &mut Sink<'_>) -> Message {
        let line = self.progress.json(line);
        let Ok(message) = serde_json::from_str::<Line<'_>>(&line) else {
            self.progress.noise(&line);
            return Message::Nothing;
        };
        match (message.method.0, message.id) {
            (Some(method), Some(id)) => {
                Message::Request { id: id.get().to_owned(), method: method.into_owned() }
            }
            (Some(method), None) => {
                let params = message.params.0.unwrap_or_default();
                self.notification(&method, params, &line, sink);
                Message::Nothing
            }
            (None, Some(id)) => answer(id, message.result.0, message.error.0),
            (None, None) => {
                self.progress.noise(&line);
                Message::Nothing
            }
        }
    }

    fn notification(&mut self, method: &str, params: Params<'_>, line: &str, sink: &mut Sink<'_>) {
        let progress = &mut self.progress;
        let thread = params.thread_id.as_str();
        let foreign =
            !thread.is_empty() && progress.session.as_deref().is_some_and(|t| t != thread);
        let sub_agent = foreign.then_some(thread);
        let emit = |sink: &mut Sink<'_>, kind| {
            sink(AgentEvent::new(sub_agent.map(Cow::Borrowed), kind));
        };
        match method {
            "item/agentMessage/delta" => {
                if !foreign {
                    progress.preview(params.delta.as_str());
                }
                emit(
                    sink,
                    AgentEventKind::Text { text: params.delta.into_text(), part: TextPart::Delta },
                );
            }
            "item/reasoning/summaryTextDelta" | "item/reasoning/textDelta" => emit(
                sink,
                AgentEventKind::Thinking { text: params.delta.into_text(), part: TextPart::Delta },
            ),
            "item/started" | "item/completed" => {
                self.pending_error.report(progress, sink);
                let phase =
                    if method == "item/started" { Phase::Started } else { Phase::Completed };
                match params.item.0 {
                    Some(item) => item::read(item, phase, sub_agent, line, progress, sink),
                    None => progress.unknown(method, line, sink),
                }
            }
            "turn/plan/updated" => {
                let items = params.plan.objects().map(|step| TodoItem {
                    text: step.step.into_text(),
                    state: TodoState::parse(step.status.as_str()),
                });
                let items = items.collect();
                emit(sink, AgentEventKind::Todo { items });
            }
            "thread/tokenUsage/updated" if !foreign => {
                let counts = params.token_usage.0.unwrap_or_default();
                let window = counts.last.0.as_ref().map(|last| last.usage().input);
                progress.window = window.or(progress.window);
                if let Some(total) = counts.total.0 {
                    let usage = total.usage();
                    progress.usage = Some(usage);
                    sink(AgentEvent::own(AgentEventKind::Usage(usage.since(self.before))));
                }
            }
            "error" if !foreign => {
                let problem = params.error.0.unwrap_or_default();
                let message = problem.whole_message();
                match Retry::read(&message) {
                    Some(retry) => {
                        let status = retry.status.or_else(|| problem.status());
                        Retry { status, ..retry }.report(progress, sink);
                    }
                    None if params.will_retry.0 => {
                        let status = problem.status();
                        let reason = &*message;
                        Retry { attempt: None, max: None, status, reason }.report(progress, sink);
                    }
                    None => self.pending_error.record(message.into_owned(), progress, sink),
                }
            }
            "warning" | "configWarning" | "guardianWarning" | "deprecationNotice" => {
                let notice = params.message.0.or(params.summary.0).unwrap_or_default();
                progress.warn(Diagnostic::new(diagnostics::AGENT_NOTICE, notice), sink);
            }
            "turn/completed" if !foreign => {
                let verdict = closing(params.turn.0.unwrap_or_default());
                self.pending_error.ended(&verdict, progress, sink);
                if verdict == Verdict::Done {
                    progress.reply_nothing_new();
                }
                progress.closing = Some(verdict);
            }
            "turn/started" | "turn/completed" | "error" => {}
            quiet if QUIET.iter().any(|prefix| quiet.starts_with(prefix)) => {}
            other => progress.unknown(other, line, sink),
        }
    }
}

impl EventReader for CodexApp {
    fn line(&mut self, line: &[u8], sink: &mut Sink<'_>) {
        self.message(line, sink);
    }

    fn error_line(&mut self, line: &str, sink: &mut Sink<'_>) {
        self.pending_error.logged(line, sink);
    }

    fn progress(&self) -> &TurnProgress {
        &self.progress
    }

    fn progress_mut(&mut self) -> &mut TurnProgress {
        &mut self.progress
    }

    fn finish(&mut self, ending: &Ending<'_>, sink: &mut Sink<'_>) -> TurnResult {
        self.pending_error.close(ending, &mut self.progress, sink)
    }
}

fn answer(id: &RawValue, result: Option<Answer<'_>>, error: Option<Problem<'_>>) -> Message {
    let Ok(id) = id.get().parse() else {
        return Message::Nothing;
    };
    if let Some(error) = error {
        return Message::Refusal { id, message: error.message.into_text().into_owned() };
    }
    let result = result.unwrap_or_default();
    let thread = result.thread.0.unwrap_or_default();
    let turns = thread.turns.objects().filter_map(|turn| turn.id.0);
    Message::Answer {
        id,
        turns: turns.map(Cow::into_owned).collect(),
        thread: thread.id.0.map(Cow::into_owned),
        model: result.model.0.map(Cow::into_owned),
        turn: result.turn.0.and_then(|turn| turn.id.0).map(Cow::into_owned),
    }
}

fn closing(turn: Turn<'_>) -> Verdict {
    match turn.status.as_str() {
        "completed" => Verdict::Done,
        "interrupted" => Verdict::Cancelled,
        status => {
            let problem = turn.error.0.unwrap_or_default();
            let mut failed = failure(problem.whole_message().into_owned());
            if let Some(reason) = problem.reason() {
                failed.reason = reason;
            }
            if failed.message.is_empty() {
                failed.message = format!("the turn ended with status `{status}`");
            }
            Verdict::Failed(failed)
        }
    }
}

#[derive(Deserialize, Default)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Line<'a> {
    id: Option<&'a RawValue>,
    method: Text<'a>,
    params: Object<Params<'a>>,
    result: Object<Answer<'a>>,
    error: Object<Problem<'a>>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct Params<'a> {
    thread_id: Text<'a>,
    delta: Text<'a>,
    item: Object<Item<'a>>,
    turn: Object<Turn<'a>>,
    error: Object<Problem<'a>>,
    will_retry: Flag,
    token_usage: Object<ThreadCounts>,
    plan: List<'a, Object<Step<'a>>>,
    message: Text<'a>,
    summary: Text<'a>,
}

#[derive(Deserialize, Default)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Answer<'a> {
    model: Text<'a>,
    thread: Object<Thread<'a>>,
    turn: Object<Named<'a>>,
}

#[derive(Deserialize, Default)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Thread<'a> {
    id: Text<'a>,
    turns: List<'a, Object<Named<'a>>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Named<'a> {
    #[serde(borrow)]
    id: Text<'a>,
}

#[derive(Deserialize, Default)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Turn<'a> {
    status: Text<'a>,
    error: Object<Problem<'a>>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct Problem<'a> {
    message: Text<'a>,
    additional_details: Text<'a>,
    /// A string, or an object with one key.
    codex_error_info: Option<&'a RawValue>,
}

impl Problem<'_> {
    fn whole_message(&self) -> Cow<'_, str> {
        match self.additional_details.as_str() {
            "" => Cow::Borrowed(self.message.as_str()),
            details => Cow::Owned(format!("{} ({details})", self.message.as_str())),
        }
    }

    fn status(&self) -> Option<u16> {
        let info = self.codex_error_info?.get();
        let object: std::collections::HashMap<String, Object<HttpStatus>> =
            serde_json::from_str(info).ok()?;
        let status = object.into_values().find_map(|value| value.0)?;
        u16::try_from(status.http_status_code.0?).ok()
    }

    fn reason(&self) -> Option<FailureReason> {
        const WORDS: &[(&str, FailureReason)] = &[
            ("contextWindowExceeded", FailureReason::ContextFull),
            ("sessionBudgetExceeded", FailureReason::Budget),
            ("usageLimitExceeded", FailureReason::RateLimit),
            ("rateLimitExceeded", FailureReason::RateLimit),
            ("serverOverloaded", FailureReason::Server),
            ("internalServerError", FailureReason::Server),
            ("modelNotFound", FailureReason::Model),
            ("cyberPolicy", FailureReason::Refused),
            ("misalignmentPolicyViolation", FailureReason::Refused),
            ("unauthorized", FailureReason::Auth),
            ("badRequest", FailureReason::Request),
            ("httpConnectionFailed", FailureReason::Network),
            ("responseStream", FailureReason::Network),
        ];
        if let Some(status) = self.status() {
            return Some(FailureReason::from_status(status));
        }
        let info = self.codex_error_info?.get();
        let found = WORDS.iter().find(|(word, _)| info.contains(word));
        found.map(|&(_, reason)| reason)
    }
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct HttpStatus {
    http_status_code: Number,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ThreadCounts {
    /// The count of the last request.
    last: Object<Counts>,
    /// The count of the whole thread. Counts of single requests are repeated when a thread is resumed, so they
    /// cannot be added up.
    total: Object<Counts>,
}

#[derive(Deserialize, Default)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Step<'a> {
    step: Text<'a>,
    status: Text<'a>,
}
