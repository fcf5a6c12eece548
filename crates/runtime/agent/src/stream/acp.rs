//! The Agent Client Protocol, version 1: JSON-RPC, one message per line, as real agents write it.
//!
//! Any field may be missing or of another type, and updates arrive in any order. The dialogue handles requests
//! and responses, and tells the reader when a turn begins and ends.

mod tool;

use std::borrow::Cow;

use convoke_core::Diagnostic;
use convoke_protocol::agent_event::{AgentEvent, AgentEventKind, TextPart, TodoItem, TodoState};
use convoke_protocol::usage::Usage;
use convoke_protocol::verdict::{Failure, FailureReason, Verdict};
use serde_json::Value;

pub(crate) use self::tool::ToolCall;
use self::tool::Tools;
use super::words::plain_words;
use super::{EventReader, Sink, TurnProgress, explain_ending, reason_in_words};
use crate::diagnostics;
use crate::ending::Ending;
use crate::turn::TurnResult;

/// Updates without an event of their own.
const QUIET: &[&str] = &[
    "available_commands_update",
    "config_option_update",
    "session_info_update",
    "usage_update",
    "user_message_chunk",
];

/// The JSON-RPC error of an agent that is not signed in.
const AUTH_REQUIRED: i64 = -32000;

/// A message of an agent.
#[derive(Debug, Clone, PartialEq)]
pub enum Message {
    /// A request, which waits for a response.
    Request {
        /// The id for the response.
        id: Value,
        method: String,
        /// The parameters.
        params: Value,
    },
    /// A notification.
    Notification {
        method: String,
        /// The parameters.
        params: Value,
    },
    /// A response to a request of Convoke.
    Response {
        /// The id of our request.
        id: Value,
        /// The result, or the error.
        outcome: Result<Value, Value>,
    },
}

impl Message {
    /// Parses a line; `None` if it is not a message.
    pub fn parse(line: &str) -> Option<Self> {
        let Ok(Value::Object(mut fields)) = serde_json::from_str(line) else { return None };
        let mut take = |name: &str| fields.remove(name).filter(|value| !value.is_null());
        let (id, method, error) = (take("id"), take("method"), take("error"));
        let params = take("params").unwrap_or_default();
        match (id, method, error) {
            (Some(id), Some(Value::String(method)), _) => {
                Some(Self::Request { id, method, params })
            }
            (None, Some(Value::String(method)), _) => Some(Self::Notification { method, params }),
            (Some(id), None, Some(error)) => Some(Self::Response { id, outcome: Err(error) }),
            (Some(id), None, None) => {
                let result = fields.remove("result")?;
                Some(Self::Response { id, outcome: Ok(result) })
            }
            _ => None,
        }
    }
}

/// Parses the messages of one turn.
#[derive(Debug, Default)]
pub struct Acp {
    progress: TurnProgress,
    /// The text since the last tool call or message, which was not reported whole yet.
    text: String,
    thought: String,
    message: Option<String>,
    limit: usize,
    tools: Tools,
    /// Whether the agent has written or done anything in this turn.
    is_active: bool,
    /// Whether the agent reports failures as text, without counting tokens.
    reports_errors_as_text: bool,
    /// Whether the reported costs are those of this turn only.
    counts_cost: bool,
    model: Option<String>,
}

impl Acp {
    /// Creates a reader that keeps a reply of at most `reply_limit` bytes.
    pub fn new(reply_limit: usize) -> Self {
        let progress = TurnProgress::new(reply_limit);
        Self { progress, limit: reply_limit, ..Self::default() }
    }

    /// Treats a text without counted tokens as a failure.
    #[must_use]
    pub fn reporting_errors_as_text(mut self, tells: bool) -> Self {
        self.reports_errors_as_text = tells;
        self
    }

    /// Creates a reader for the next turn of the same session.
    #[must_use]
    pub fn for_next_turn(&self, reply_limit: usize) -> Self {
        Self::new(reply_limit).reporting_errors_as_text(self.reports_errors_as_text)
    }

    /// Returns a line as text, and counts invalid characters.
    pub(crate) fn text_of<'l>(&mut self, line: &'l [u8]) -> Cow<'l, str> {
        self.progress.json(line)
    }

    /// Begins the turn, once the agent has named its session.
    pub(crate) fn begin(
        &mut self,
        session: &str,
        is_new: bool,
        model: Option<&str>,
        sink: &mut Sink<'_>,
    ) {
        self.progress.session = Some(session.to_owned());
        self.counts_cost = is_new;
        self.model = model.map(str::to_owned);
        sink(AgentEvent::own(AgentEventKind::Started {
            session: Some(Cow::Borrowed(session)),
            model: model.map(Cow::Borrowed),
        }));
    }

    /// Returns what is known about a tool call, including the description in a question.
    pub(crate) fn call(&mut self, described: &Value, sink: &mut Sink<'_>) -> ToolCall {
        self.end_texts(sink);
        self.is_active = true;
        self.progress.pause();
        self.tools.ask(described, sink)
    }

    /// Reports that a tool call was refused without a question.
    pub(crate) fn refuse(&mut self, call: &ToolCall, why: &str, sink: &mut Sink<'_>) {
        let message = format!("refused {}: {why}", call.summary());
        self.progress.warn(Diagnostic::new(diagnostics::AGENT_TOOL_DENIED, message), sink);
        self.end_refused(&call.id, sink);
    }

    /// Ends a tool call that was refused.
    pub(crate) fn end_refused(&mut self, call: &str, sink: &mut Sink<'_>) {
        self.tools.refuse(call, sink);
    }

    /// Reports an unknown message of the agent.
    pub(crate) fn unknown(&mut self, name: &str, line: &str, sink: &mut Sink<'_>) {
        self.progress.unknown(name, line, sink);
    }

    /// Reports a missing feature that the turn does not need.
    pub(crate) fn warn(&mut self, diagnostic: Diagnostic, sink: &mut Sink<'_>) {
        self.progress.warn(diagnostic, sink);
    }

    /// Counts a line that is not a message.
    pub(crate) fn noise(&mut self, line: &str) {
        self.progress.noise(line);
    }

    /// Returns whether an update contains text or an action.
    pub(crate) fn is_content(update: &Value) -> bool {
        let kind = update["sessionUpdate"].as_str().unwrap_or_default();
        kind != "current_mode_update" && !QUIET.contains(&kind)
    }

    /// Reads an update of the session.
    pub fn update(&mut self, update: &Value, line: &str, sink: &mut Sink<'_>) {
        self.read_meta(update, sink);
        match update["sessionUpdate"].as_str().unwrap_or_default() {
            "agent_message_chunk" => self.chunk(update, sink),
            "agent_thought_chunk" => self.think(text_in(&update["content"]), sink),
            "tool_call" | "tool_call_update" => {
                // The reply is the text after the last call.
                if self.tools.is_step(update) {
                    self.end_texts(sink);
                    self.progress.pause();
                }
                self.is_active = true;
                self.tools.update(update, sink);
            }
            "plan" => plan(&update["entries"], sink),
            "current_mode_update" => {
                let mode = update["currentModeId"].as_str().unwrap_or_default();
                self.notice(format!("the mode is now `{mode}`"), sink);
            }
            "notice" => {
                let words = [&update["title"], &update["description"]];
                let words: Vec<&str> = words.into_iter().filter_map(Value::as_str).collect();
                self.notice(words.join(": "), sink);
            }
            quiet if QUIET.contains(&quiet) => {}
            "" => self.progress.unknown("session/update without a kind", line, sink),
            other => self.progress.unknown(&format!("session/update {other}"), line, sink),
        }
    }

    /// Reads extension fields: counts, costs and retries.
    fn read_meta(&mut self, update: &Value, sink: &mut Sink<'_>) {
        let meta = &update["_meta"];
        if let Some(usage) = usage(&meta["usage"]) {
            self.progress.usage = Some(self.progress.usage.unwrap_or_default().and(usage));
        }
        let cost = &update["cost"];
        if self.counts_cost && cost["currency"] == "USD" {
            self.progress.cost_usd = cost["amount"].as_f64().or(self.progress.cost_usd);
        }
        let error = &meta["codex"]["error"];
        if error["willRetry"] == true {
            let said = [&error["message"], &error["additionalDetails"]];
            let said: Vec<&str> = said.into_iter().filter_map(Value::as_str).collect();
            let attempt = self.progress.attempt(None);
            let status = status_in(&error["codexErrorInfo"]);
            sink(AgentEvent::own(AgentEventKind::Retry {
                attempt,
                max: None,
                status,
                wait: None,
                reason: Cow::Owned(said.join(": ")),
            }));
        }
    }

    fn chunk(&mut self, update: &Value, sink: &mut Sink<'_>) {
        let text = text_in(&update["content"]);
        let message = update["messageId"].as_str().map(str::to_owned);
        if message != self.message && message.is_some() {
            // A new message begins, and the reply is the last one.
            if self.message.is_some() && !self.text.is_empty() {
                self.end_texts(sink);
                self.progress.pause();
            }
            self.message = message;
        }
        let Some(text) = text else {
            let kind = update["content"]["type"].as_str().unwrap_or("content");
            self.notice(format!("the agent wrote {kind}, which is not part of a reply"), sink);
            return;
        };
        if text.is_empty() {
            return;
        }
        self.end_thought(sink);
        self.is_active = true;
        self.progress.say(text);
        push(&mut self.text, text, self.limit);
        sink(AgentEvent::own(AgentEventKind::Text {
            text: Cow::Borrowed(text),
            part: TextPart::Delta,
        }));
    }

    fn notice(&mut self, message: String, sink: &mut Sink<'_>) {
        self.progress.warn(Diagnostic::new(diagnostics::AGENT_NOTICE, message), sink);
    }

    fn think(&mut self, text: Option<&str>, sink: &mut Sink<'_>) {
        let Some(text) = text.filter(|text| !text.is_empty()) else { return };
        push(&mut self.thought, text, self.limit);
        sink(AgentEvent::own(AgentEventKind::Thinking {
            text: Cow::Borrowed(text),
            part: TextPart::Delta,
        }));
    }

    fn end_thought(&mut self, sink: &mut Sink<'_>) {
        if !self.thought.is_empty() {
            let text = Cow::Owned(std::mem::take(&mut self.thought));
            sink(AgentEvent::own(AgentEventKind::Thinking { text, part: TextPart::Whole }));
        }
    }

    /// Reports texts as whole before something else begins.
    fn end_texts(&mut self, sink: &mut Sink<'_>) {
        self.end_thought(sink);
        if !self.text.is_empty() {
            let text = Cow::Owned(std::mem::take(&mut self.text));
            sink(AgentEvent::own(AgentEventKind::Text { text, part: TextPart::Whole }));
        }
    }

    /// Reads the result of the prompt, which ends the turn.
    pub fn on_prompt_result(&mut self, result: &Value, sink: &mut Sink<'_>) {
        let last = self.text.trim().to_owned();
        self.end_texts(sink);
        self.tools.end(sink);
        let quota = &result["_meta"]["quota"];
        let counted = usage(&result["usage"]).or_else(|| usage(&quota["token_count"]));
        let has_counts = counted.is_some();
        self.progress.usage = counted.or(self.progress.usage);
        if let Some(usage) = counted {
            sink(AgentEvent::own(AgentEventKind::Usage(usage)));
        }
        let named = quota["model_usage"][0]["model"].as_str().map(str::to_owned);
        self.progress.model = named.or_else(|| self.model.take());
        let verdict = match result["stopReason"].as_str().unwrap_or_default() {
            "end_turn" if self.reports_errors_as_text && !has_counts && !last.is_empty() => {
                let reason = reason_in_words(&last).unwrap_or(FailureReason::Server);
                Verdict::Failed(Failure::new(reason, last))
            }
            "end_turn" if !self.is_active => Verdict::Failed(Failure::new(
                FailureReason::Incomplete,
                "the agent ended its turn without output: a failed request, or a command of its program",
            )),
            "end_turn" => Verdict::Done,
            "cancelled" => Verdict::Cancelled,
            "max_tokens" => {
                failed(FailureReason::OutputFull, "the model stopped at its output limit")
            }
            "max_turn_requests" => {
                failed(FailureReason::Budget, "the agent stopped at its limit of requests")
            }
            "refusal" => failed(FailureReason::Refused, "the model refused"),
            "" => failed(FailureReason::Incomplete, "the agent ended its turn without a reason"),
            other => failed(FailureReason::Other, &format!("the agent stopped: {other}")),
        };
        self.progress.closing = Some(verdict);
    }

    /// Reads the error with which an agent refused a request.
    pub fn fail(&mut self, failure: Failure, sink: &mut Sink<'_>) {
        self.end_texts(sink);
        self.tools.end(sink);
        self.progress.closing = Some(Verdict::Failed(failure));
    }
}

impl EventReader for Acp {
    /// Reads a line of a session whose prompt was sent.
    fn line(&mut self, line: &[u8], sink: &mut Sink<'_>) {
        let line = self.progress.json(line);
        match Message::parse(&line) {
            Some(Message::Notification { method, params }) if method == "session/update" => {
                self.update(&params["update"], &line, sink);
            }
            Some(Message::Response { outcome: Ok(result), .. })
                if result["stopReason"].is_string() =>
            {
                self.on_prompt_result(&result, sink);
            }
            Some(Message::Response { outcome: Err(error), .. }) => self.fail(failure(&error), sink),
            Some(Message::Request { method, .. } | Message::Notification { method, .. }) => {
                self.progress.unknown(&method, &line, sink);
            }
            Some(Message::Response { .. }) => {}
            None => self.progress.noise(&line),
        }
    }

    fn progress(&self) -> &TurnProgress {
        &self.progress
    }

    fn progress_mut(&mut self) -> &mut TurnProgress {
        &mut self.progress
    }

    fn finish(&mut self, ending: &Ending<'_>, sink: &mut Sink<'_>) -> TurnResult {
        self.end_texts(sink);
        self.tools.end(sink);
        self.progress.close(ending, explain_ending, sink)
    }
}

/// Converts the error of a response to a failure.
pub fn failure(error: &Value) -> Failure {
    let data = &error["data"];
    let message = error["message"].as_str().unwrap_or("the agent refused a request");
    let details = ["details", "message"].iter().find_map(|name| data[*name].as_str());
    let details = details.or_else(|| data.as_str()).filter(|details| !message.contains(details));
    let words = details.map_or(message.to_owned(), |details| format!("{message}: {details}"));
    let by_kind = match data["errorKind"].as_str().unwrap_or_default() {
        "rate_limit" => Some(FailureReason::RateLimit),
        "server_error" | "overloaded" => Some(FailureReason::Server),
        kind if kind.starts_with("auth") => Some(FailureReason::Auth),
        _ => None,
    };
    let code = error["code"].as_i64().unwrap_or_default();
    let by_code = match u16::try_from(code) {
        Ok(status @ 400..=599) => Some(FailureReason::from_status(status)),
        _ => (code == AUTH_REQUIRED).then_some(FailureReason::Auth),
    };
    let reason = by_kind.or(by_code).or_else(|| reason_in_words(&words));
    Failure::new(reason.unwrap_or(FailureReason::Other), plain_words(words))
}

fn failed(reason: FailureReason, message: &str) -> Verdict {
    Verdict::Failed(Failure::new(reason, message))
}

/// Returns the text of a content block.
fn text_in(content: &Value) -> Option<&str> {
    content["text"].as_str().filter(|_| content["type"] == "text" || content["type"].is_null())
}

/// Adds a text up to a limit.
fn push(text: &mut String, more: &str, limit: usize) {
    let room = limit.saturating_sub(text.len());
    text.push_str(&more[..more.floor_char_boundary(room.min(more.len()))]);
}

fn plan(entries: &Value, sink: &mut Sink<'_>) {
    let entries = entries.as_array().map_or(&[][..], Vec::as_slice);
    let items = entries.iter().map(|entry| TodoItem {
        text: Cow::Borrowed(entry["content"].as_str().unwrap_or_default()),
        state: TodoState::parse(entry["status"].as_str().unwrap_or_default()),
    });
    sink(AgentEvent::own(AgentEventKind::Todo { items: items.collect() }));
}

/// Finds an HTTP status in the details of an error, whatever their shape.
fn status_in(details: &Value) -> Option<u16> {
    let fields = details.as_object()?;
    fields.iter().find_map(|(name, value)| match value.as_u64() {
        Some(status) if name == "httpStatusCode" => u16::try_from(status).ok(),
        _ => value["httpStatusCode"].as_u64().and_then(|status| u16::try_from(status).ok()),
    })
}

/// Reads counted tokens. Some agents count cached tokens separately, which their total shows.
fn usage(counts: &Value) -> Option<Usage> {
    let count = |names: &[&str]| names.iter().find_map(|name| counts[*name].as_u64());
    let input = count(&["inputTokens", "input_tokens"]);
    let output = count(&["outputTokens", "output_tokens"]);
    if input.is_none() && output.is_none() {
        return None;
    }
    let cached = count(&["cachedReadTokens", "cachedInputTokens"]).unwrap_or(0);
    let cache_write = count(&["cachedWriteTokens", "cacheWriteInputTokens"]).unwrap_or(0);
    let (input, output) = (input.unwrap_or(0), output.unwrap_or(0));
    let total = count(&["totalTokens"]);
    let counts_cached = total.is_some() && total == input.checked_add(output);
    let apart = if counts_cached { 0 } else { cached.saturating_add(cache_write) };
    Some(Usage {
        input: input.saturating_add(apart),
        cached,
        cache_write,
        output,
        reasoning: count(&["thoughtTokens", "reasoningOutputTokens"]).unwrap_or(0),
    })
}

#[cfg(test)]
mod tests;
