//! Gemini CLI's `stream-json`, and its `json`.
//!
//! The first message echoes the prompt and is skipped. The text arrives in chunks, separated by tool calls; the last
//! text is the reply. The exit code may be 0 after a failure, and codes above 128 are an HTTP status modulo 256.

use std::borrow::Cow;
use std::collections::HashMap;
use std::time::Duration;

use convoke_core::Diagnostic;
use convoke_protocol::agent_event::{
    AgentEvent, AgentEventKind, FileChange, TextPart, TodoItem, TodoState,
};
use convoke_protocol::usage::Usage;
use convoke_protocol::verdict::{Failure, FailureReason, Verdict};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use convoke_agent::diagnostics;
use convoke_agent::ending::{Ending, Exit, correct_by_answer};
use convoke_agent::stream::lenient::{Flag, List, Number, Object, Text};
use convoke_agent::stream::words::{plain_words, status_in_words};
use convoke_agent::stream::{EventReader, Sink, TurnProgress, explain_ending, reason_in_words};
use convoke_agent::turn::TurnResult;
use convoke_wire::usage::of_gemini;
use convoke_wire::{AnswerEnd, EndKind};

/// Parses the events of one turn.
#[derive(Debug, Default)]
pub struct Gemini {
    progress: TurnProgress,
    /// The text since the last tool call.
    text: String,
    text_limit: usize,
    edits: HashMap<String, (String, &'static str)>,
    last_error: Option<String>,
    /// Why the model stopped its last answer.
    last_end: Option<AnswerEnd>,
    /// Whether the last answer broke off.
    is_broken: bool,
    /// The tokens of all answers of the model.
    answered: Option<Usage>,
    /// The object of the `json` format, which spans several lines.
    document: Option<Vec<u8>>,
}

impl Gemini {
    /// Creates a reader that keeps a reply of at most `reply_limit` bytes.
    pub fn new(reply_limit: usize) -> Self {
        let progress = TurnProgress::new(reply_limit);
        Self { progress, text_limit: reply_limit, ..Self::default() }
    }

    fn read(&mut self, event: Line<'_>, line: &str, sink: &mut Sink<'_>) {
        match event.kind.as_str() {
            "message" => match event.role.as_str() {
                "user" => {}
                "assistant" | "model" if event.delta.0 => self.chunk(event.content, sink),
                "assistant" | "model" => {
                    self.chunk(event.content, sink);
                    self.end_text(sink);
                }
                other => self.progress.unknown(&format!("message/{other}"), line, sink),
            },
            "tool_use" => self.tool_use(event, sink),
            "tool_result" => self.tool_result(event, sink),
            "init" => {
                self.progress.session = event.session_id.0.as_deref().map(str::to_owned);
                self.progress.model = event.model.0.as_deref().map(str::to_owned);
                sink(AgentEvent::own(AgentEventKind::Started {
                    session: event.session_id.0,
                    model: event.model.0,
                }));
            }
            "error" => {
                let message = event.message.into_text().into_owned();
                self.last_error = Some(message.clone());
                self.progress.warn(Diagnostic::new(diagnostics::AGENT_NOTICE, message), sink);
            }
            "request" => self.request(),
            "answer" => self.answer(&event),
            "result" => {
                self.end_text(sink);
                self.result(event, sink);
            }
            "" => self.read_document(line, sink),
            other => self.progress.unknown(other, line, sink),
        }
    }

    fn chunk(&mut self, content: Text<'_>, sink: &mut Sink<'_>) {
        let text = content.into_text();
        self.progress.say(&text);
        let room = self.text_limit.saturating_sub(self.text.len());
        let end = text.floor_char_boundary(room.min(text.len()));
        self.text.push_str(&text[..end]);
        sink(AgentEvent::own(AgentEventKind::Text { text, part: TextPart::Delta }));
    }

    /// Ends the current text.
    fn end_text(&mut self, sink: &mut Sink<'_>) {
        if !self.text.is_empty() {
            sink(AgentEvent::own(AgentEventKind::Text {
                text: Cow::Borrowed(&self.text),
                part: TextPart::Whole,
            }));
            self.text.clear();
        }
    }

    fn tool_use(&mut self, event: Line<'_>, sink: &mut Sink<'_>) {
        self.end_text(sink);
        self.progress.pause();
        let input = event.parameters.map_or("null", RawValue::get);
        let name = event.tool_name.as_str();
        if let Some(items) = todo_items(name, input) {
            sink(AgentEvent::own(AgentEventKind::Todo { items }));
        }
        let change = match name {
            "write_file" => Some("write"),
            "replace" => Some("update"),
            _ => None,
        };
        if let Some(change) = change.filter(|_| self.edits.len() < 256) {
            let edit: Edit<'_> = serde_json::from_str(input).unwrap_or_default();
            let path = edit.file_path.into_text().into_owned();
            self.edits.insert(event.tool_id.as_str().to_owned(), (path, change));
        }
        sink(AgentEvent::own(AgentEventKind::ToolStarted {
            id: event.tool_id.into_text(),
            name: event.tool_name.into_text(),
            input: Cow::Borrowed(input),
        }));
    }

    fn tool_result(&mut self, event: Line<'_>, sink: &mut Sink<'_>) {
        let ok = event.status.as_str() == "success";
        let id = event.tool_id.into_text();
        if let Some((path, change)) = self.edits.remove(id.as_ref()).filter(|_| ok) {
            sink(AgentEvent::own(AgentEventKind::FileChange {
                changes: vec![FileChange {
                    path: Cow::Owned(path),
                    change: Cow::Borrowed(change),
                    diff: None,
                }],
            }));
        }
        let error = event.error.0.unwrap_or_default();
        let output = match event.output.0 {
            Some(output) => output,
            None => error.message.into_text(),
        };
        sink(AgentEvent::own(AgentEventKind::ToolFinished { id, ok, output }));
    }

    /// Discards the text of an answer that the program asks for again.
    fn request(&mut self) {
        let end = self.last_end.take();
        let is_stopped = end.is_some_and(|end| end.kind != EndKind::Complete);
        if std::mem::take(&mut self.is_broken) || is_stopped {
            self.text.clear();
            self.progress.pause();
        }
    }

    /// Reads how an answer of the model ended, which the program itself does not report.
    fn answer(&mut self, event: &Line<'_>) {
        let end = event.reason.0.as_deref().map(|word| {
            let end = AnswerEnd::from_word(word);
            if event.blocked.0 { AnswerEnd { kind: EndKind::Refused, ..end } } else { end }
        });
        self.is_broken = end.is_none();
        self.last_end = end;
        let counts = event.usage.and_then(|usage| serde_json::from_str(usage.get()).ok());
        if let Some(usage) = counts.and_then(|counts: Value| of_gemini(&counts)) {
            self.answered = Some(self.answered.unwrap_or_default().and(usage));
        }
    }

    /// Corrects the verdict and the tokens by the answers of the model.
    fn correct(&mut self) {
        if let (Some(verdict), Some(end)) = (&mut self.progress.closing, &self.last_end) {
            correct_by_answer(verdict, end);
        }
        let total = |usage: Usage| usage.input.saturating_add(usage.output);
        // The program counts its side requests too, but no answer that it gave up.
        let told = self.progress.usage.map_or(0, total);
        self.progress.usage =
            self.answered.filter(|usage| total(*usage) > told).or(self.progress.usage);
    }

    fn result(&mut self, event: Line<'_>, sink: &mut Sink<'_>) {
        if let Some(usage) = event.stats.0.map(|stats| stats.usage()) {
            self.progress.usage = Some(usage);
            sink(AgentEvent::own(AgentEventKind::Usage(usage)));
        }
        self.progress.closing = Some(if event.status.as_str() == "success" {
            Verdict::Done
        } else {
            let error = event.error.0.and_then(|error| error.message.0);
            let message = error.map(Cow::into_owned).or_else(|| self.last_error.take());
            Verdict::Failed(failure(message.unwrap_or_default()))
        });
    }

    /// Parses the object of the `json` format. Text after it is noise.
    fn read_document(&mut self, json: &str, sink: &mut Sink<'_>) {
        let mut values = serde_json::Deserializer::from_str(json).into_iter::<Document<'_>>();
        let document = match values.next() {
            Some(Ok(document)) if document.error.0.is_some() || document.response.0.is_some() => {
                document
            }
            _ => return self.progress.noise(json),
        };
        self.progress.noise(&json[values.byte_offset()..]);
        self.progress.session = document.session_id.0.as_deref().map(str::to_owned);
        for warning in document.warnings.items {
            let notice = Diagnostic::new(diagnostics::AGENT_NOTICE, warning.into_text());
            self.progress.warn(notice, sink);
        }
        if let Some(usage) = document.stats.0.map(DocumentStats::usage) {
            self.progress.usage = Some(usage);
            sink(AgentEvent::own(AgentEventKind::Usage(usage)));
        }
        if let Some(error) = document.error.0 {
            let message = error.message.into_text().into_owned();
            self.progress.closing = Some(Verdict::Failed(failure(message)));
            return;
        }
        let response = document.response.into_text();
        self.progress.closing = Some(Verdict::Done);
        self.progress.reply_is(&response);
        sink(AgentEvent::own(AgentEventKind::Text { text: response, part: TextPart::Whole }));
    }
}

impl EventReader for Gemini {
    fn line(&mut self, line: &[u8], sink: &mut Sink<'_>) {
        if let Some(document) = &mut self.document {
            // Every character of the reply may be escaped, and the document contains other data.
            if document.len() + line.len() < self.text_limit.saturating_mul(6) + (1 << 20) {
                document.extend_from_slice(line);
                document.push(b'\n');
            }
            return;
        }
        let line = self.progress.json(line);
        match serde_json::from_str::<Line<'_>>(&line) {
            Ok(event) => self.read(event, &line, sink),
            Err(_) if line.trim_end() == "{" => self.document = Some(b"{\n".to_vec()),
            Err(_) => self.progress.unreadable(&line, sink),
        }
    }

    fn error_line(&mut self, line: &str, sink: &mut Sink<'_>) {
        if let Some((attempt, status, wait)) = retry(line) {
            self.progress.forget_preview();
            let attempt = self.progress.attempt(Some(attempt));
            let reason = Cow::Borrowed(line);
            let max = None;
            sink(AgentEvent::own(AgentEventKind::Retry { attempt, max, status, wait, reason }));
        }
    }

    fn progress(&self) -> &TurnProgress {
        &self.progress
    }

    fn progress_mut(&mut self) -> &mut TurnProgress {
        &mut self.progress
    }

    fn finish(&mut self, ending: &Ending<'_>, sink: &mut Sink<'_>) -> TurnResult {
        if let Some(document) = self.document.take() {
            let json = self.progress.json(&document);
            self.read_document(&json, sink);
        }
        self.end_text(sink);
        // The closing event contains only the server's message; the error output names the kind of error.
        if let Some(Verdict::Failed(failure)) = &mut self.progress.closing
            && failure.reason == FailureReason::Other
        {
            let known =
                Some(explain(ending).reason).filter(|&reason| reason != FailureReason::Incomplete);
            failure.reason = known.unwrap_or(FailureReason::Other);
        }
        self.correct();
        if self.progress.closing == Some(Verdict::Done) {
            self.progress.reply_nothing_new();
        }
        self.progress.close(ending, explain, sink)
    }
}

/// The program's words for answers without text, some of which mention the context window.
const OWN_WORDS: &[(&str, FailureReason)] = &[
    ("no final response text", FailureReason::Other),
    ("exceeded the token limit", FailureReason::OutputFull),
    ("blocked", FailureReason::Refused),
];

fn failure(message: String) -> Failure {
    let own = OWN_WORDS.iter().find(|(words, _)| message.contains(words));
    let reason = own.map(|(_, reason)| *reason).or_else(|| reason_in_words(&message));
    let reason = reason.unwrap_or(FailureReason::Other);
    let message = match plain_words(message) {
        empty if empty.trim().is_empty() => "gemini gave no reason".to_owned(),
        words => words,
    };
    Failure::new(reason, message)
}

/// Parses `Attempt 2 failed with status 429. Retrying with backoff...` from the error output: attempt, status and
/// wait.
fn retry(line: &str) -> Option<(u64, Option<u16>, Option<Duration>)> {
    let (attempt, rest) = line.strip_prefix("Attempt ")?.split_once(" failed")?;
    let (why, next) = rest.split_once(". Retrying ")?;
    let status = why.strip_prefix(" with status ").and_then(|status| status.parse().ok());
    let status = status.or_else(|| status_in_words(&why.to_ascii_lowercase()));
    let wait = next.strip_prefix("after ").and_then(|wait| wait.split_once("ms")?.0.parse().ok());
    Some((attempt.parse().ok()?, status, wait.map(Duration::from_millis)))
}

/// Explains an end without a closing event, from the exit code if it is meaningful.
fn explain(ending: &Ending<'_>) -> Failure {
    let mut failure = error_document(ending.stderr).unwrap_or_else(|| explain_ending(ending));
    match ending.exit {
        Exit::Code(0) => {
            "exited with code 0 without a result: interrupted, or output lost"
                .clone_into(&mut failure.message);
        }
        Exit::Code(41) => failure.reason = FailureReason::Auth,
        Exit::Code(42) if failure.reason == FailureReason::Incomplete => {
            failure.reason = FailureReason::Usage;
        }
        Exit::Code(44) => failure.reason = FailureReason::Start,
        Exit::Code(52) => failure.reason = FailureReason::Usage,
        Exit::Code(53) => failure.reason = FailureReason::Budget,
        Exit::Code(55) => failure.reason = FailureReason::Untrusted,
        Exit::Code(code @ 144..=255) => {
            if let Ok(status @ 400..=511) = u16::try_from(code + 256) {
                failure.reason = FailureReason::from_status(status);
            }
        }
        _ => {}
    }
    failure
}

/// Finds the error of the `json` format in the error output.
fn error_document(stderr: &str) -> Option<Failure> {
    let at = if stderr.starts_with("{\n") { 0 } else { stderr.rfind("\n{\n")? + 1 };
    let mut values = serde_json::Deserializer::from_str(&stderr[at..]).into_iter::<Document<'_>>();
    let error = values.next()?.ok()?.error.0?;
    Some(failure(error.message.into_text().into_owned()))
}

fn todo_items<'a>(tool: &str, input: &'a str) -> Option<Vec<TodoItem<'a>>> {
    if tool != "write_todos" {
        return None;
    }
    let list: Todos<'a> = serde_json::from_str(input).ok()?;
    let items = list.todos.objects().map(|todo| TodoItem {
        text: todo.description.into_text(),
        state: TodoState::parse(todo.status.as_str()),
    });
    Some(items.collect())
}

#[derive(Deserialize, Default)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Line<'a> {
    #[serde(rename = "type")]
    kind: Text<'a>,
    session_id: Text<'a>,
    model: Text<'a>,
    role: Text<'a>,
    content: Text<'a>,
    delta: Flag,
    tool_name: Text<'a>,
    tool_id: Text<'a>,
    parameters: Option<&'a RawValue>,
    status: Text<'a>,
    output: Text<'a>,
    error: Object<Problem<'a>>,
    message: Text<'a>,
    stats: Object<Stats>,
    reason: Text<'a>,
    blocked: Flag,
    usage: Option<&'a RawValue>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Problem<'a> {
    #[serde(borrow)]
    message: Text<'a>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Stats {
    total_tokens: Number,
    input_tokens: Number,
    output_tokens: Number,
    cached: Number,
}

impl Stats {
    /// Returns the tokens. Reasoning tokens are included only in the total.
    fn usage(&self) -> Usage {
        let input = self.input_tokens.0.unwrap_or(0);
        let said = self.output_tokens.0.unwrap_or(0);
        let total = self.total_tokens.0.unwrap_or(0);
        let reasoning = total.saturating_sub(input.saturating_add(said));
        Usage {
            input,
            cached: self.cached.0.unwrap_or(0),
            cache_write: 0,
            output: said.saturating_add(reasoning),
            reasoning,
        }
    }
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Edit<'a> {
    #[serde(borrow)]
    file_path: Text<'a>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Todos<'a> {
    #[serde(borrow)]
    todos: List<'a, Object<Todo<'a>>>,
}

#[derive(Deserialize, Default)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Todo<'a> {
    description: Text<'a>,
    status: Text<'a>,
}

#[derive(Deserialize, Default)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Document<'a> {
    session_id: Text<'a>,
    response: Text<'a>,
    error: Object<Problem<'a>>,
    stats: Object<DocumentStats>,
    warnings: List<'a, Text<'a>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct DocumentStats {
    models: Object<HashMap<String, Object<ModelStats>>>,
}

impl DocumentStats {
    fn usage(self) -> Usage {
        let mut usage = Usage::default();
        for model in self.models.0.unwrap_or_default().into_values() {
            let tokens = model.0.unwrap_or_default().tokens.0.unwrap_or_default();
            let thoughts = tokens.thoughts.0.unwrap_or(0);
            let said = tokens.candidates.0.unwrap_or(0);
            usage.input = usage.input.saturating_add(tokens.prompt.0.unwrap_or(0));
            usage.cached = usage.cached.saturating_add(tokens.cached.0.unwrap_or(0));
            usage.output = usage.output.saturating_add(said.saturating_add(thoughts));
            usage.reasoning = usage.reasoning.saturating_add(thoughts);
        }
        usage
    }
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ModelStats {
    tokens: Object<ModelTokens>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ModelTokens {
    prompt: Number,
    cached: Number,
    candidates: Number,
    thoughts: Number,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(lines: &[&str]) -> TurnResult {
        let mut reader = Gemini::new(1000);
        for line in lines {
            reader.line(line.as_bytes(), &mut |_| {});
        }
        let ending = Ending { exit: Exit::Code(0), stop: None, stderr: "" };
        reader.finish(&ending, &mut |_| {})
    }

    fn reason(result: &TurnResult) -> Option<FailureReason> {
        match &result.verdict {
            Verdict::Failed(failure) => Some(failure.reason),
            _ => None,
        }
    }

    const TEXT: &str = r#"{"type":"message","role":"assistant","content":"half of","delta":true}"#;
    const DONE: &str = r#"{"type":"result","status":"success","stats":{"total_tokens":34,"input_tokens":30,"output_tokens":4}}"#;

    #[test]
    fn the_end_of_the_last_answer_decides_whether_the_turn_is_done() {
        let answer = |end: &str| format!(r#"{{"type":"answer",{end},"usage":null}}"#);
        for (end, expected) in [
            (r#""reason":"STOP""#, None),
            (r#""reason":"MAX_TOKENS""#, Some(FailureReason::OutputFull)),
            (r#""reason":"SAFETY""#, Some(FailureReason::Refused)),
            (r#""reason":"RECITATION""#, Some(FailureReason::Refused)),
            (r#""reason":null"#, None),
        ] {
            let turn = read(&[TEXT, &answer(end), DONE]);
            assert_eq!((reason(&turn), &*turn.reply), (expected, "half of"), "{end}");
        }
        let unfinished = r#"{"type":"error","severity":"error","message":"Model stream ended without a finish reason."}"#;
        let failed = r#"{"type":"result","status":"error"}"#;
        assert_eq!(reason(&read(&[unfinished, failed])), Some(FailureReason::Network));
        let blocked = answer(r#""reason":"OTHER","blocked":true"#);
        let turn = read(&[&blocked, unfinished, failed]);
        assert_eq!(reason(&turn), Some(FailureReason::Refused), "{turn:?}");
    }

    #[test]
    fn the_text_of_an_answer_that_is_asked_for_again_is_no_part_of_the_reply() {
        let (request, broken) = (r#"{"type":"request"}"#, r#"{"type":"answer","reason":null}"#);
        let whole = r#"{"type":"answer","reason":"STOP"}"#;
        let turn = read(&[request, TEXT, broken, request, TEXT, whole, DONE]);
        assert_eq!((&turn.verdict, &*turn.reply), (&Verdict::Done, "half of"));
        let turn = read(&[request, TEXT, whole, request, TEXT, whole, DONE]);
        assert_eq!(turn.reply, "half ofhalf of", "the program goes on");
    }

    #[test]
    fn an_answer_without_text_is_told_apart() {
        for (message, expected) in [
            (
                "The model returned reasoning thoughts but no final response text. If your context window is near capacity, try using /compress.",
                FailureReason::Other,
            ),
            (
                "Model response was truncated because it exceeded the token limit.",
                FailureReason::OutputFull,
            ),
            ("The model response was blocked due to safety settings.", FailureReason::Refused),
        ] {
            assert_eq!(failure(message.to_owned()).reason, expected, "{message}");
        }
    }

    #[test]
    fn what_was_said_before_a_tool_call_is_no_reply() {
        let tool = r#"{"type":"tool_use","tool_name":"read_file","tool_id":"1","parameters":{}}"#;
        let turn = read(&[TEXT, tool, DONE]);
        assert_eq!((&turn.verdict, &*turn.reply), (&Verdict::Done, ""));
    }

    #[test]
    fn answers_that_were_given_up_are_counted() {
        let answer = r#"{"type":"answer","reason":null,"usage":{"promptTokenCount":30,"candidatesTokenCount":4}}"#;
        let stopped = r#"{"type":"result","status":"success","stats":{"total_tokens":0,"input_tokens":0,"output_tokens":0}}"#;
        let usage = Usage { input: 30, output: 4, ..Usage::default() };
        assert_eq!(read(&[TEXT, answer, stopped]).usage, Some(usage));
        assert_eq!(read(&[TEXT, answer, answer, DONE]).usage, Some(usage.and(usage)));
        assert_eq!(read(&[TEXT, DONE]).usage, Some(usage));
    }

    #[test]
    fn a_retry_is_reported_in_the_error_output() {
        for (line, expected) in [
            (
                "Attempt 2 failed with status 429. Retrying with backoff... _ApiError: {",
                Some((2, Some(429), None)),
            ),
            (
                "Attempt 1 failed: try later. Retrying after 61000ms...",
                Some((1, None, Some(Duration::from_secs(61)))),
            ),
            ("Attempt 4 failed: no. Max attempts reached", None),
            ("Attempt to read failed", None),
        ] {
            assert_eq!(retry(line), expected, "{line}");
        }
    }
}
