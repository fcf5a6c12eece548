//! Claude Code's `stream-json`.
//!
//! One JSON object per line. Each content block of a message is a separate event; with partial messages, the raw API
//! events precede it. The last event is `result`; its `subtype` may be `success` although `is_error` is set. Events
//! with a `parent_tool_use_id` belong to a sub-agent and are never the reply.

mod process_phase;
mod wire;

use std::borrow::Cow;
use std::collections::HashMap;
use std::time::Duration;

use convoke_core::Diagnostic;
use convoke_protocol::agent_event::{
    AgentEvent, AgentEventKind, FileChange, TextPart, TodoItem, TodoState,
};
use convoke_protocol::verdict::{Failure, FailureReason, Verdict};
use serde_json::value::RawValue;

use self::process_phase::ProcessPhase;
use self::wire::{Block, Counts, Edit, Line, TextBlock, Todos};
use convoke_agent::diagnostics;
use convoke_agent::ending::{Ending, correct_by_answer};
use convoke_agent::stream::lenient::{Object, Text};
use convoke_agent::stream::{
    EventReader, Sink, TurnPhase, TurnProgress, explain_ending, reason_in_words,
};
use convoke_agent::turn::TurnResult;
use convoke_wire::AnswerEnd;

/// Subtypes of `system` that are ignored.
const QUIET_SYSTEM: &[&str] = &[
    "status",
    "thinking_tokens",
    "task_started",
    "task_updated",
    "task_progress",
    "task_notification",
    "task_summary",
    "hook_started",
    "hook_progress",
    "hook_response",
    "stop_hook_summary",
    "model_refusal_no_fallback",
    "model_refusal_fallback",
    "model_fallback",
    "model_consent_fallback",
    "compact_boundary",
    "session_state_changed",
    "notification",
    "informational",
    "local_command",
    "local_command_output",
    "files_persisted",
    "elicitation_complete",
    "memory_recall",
    "memory_saved",
    "permission_denied",
    "plugin_install",
    "post_turn_summary",
    "turn_starting",
    "turn_duration",
    "mirror_error",
    "commands_changed",
    "api_error",
    "agents_killed",
    "away_summary",
    "file_snapshot",
    "permission_retry",
    "scheduled_task_fire",
    "thinking",
    "worker_shutting_down",
    "dev_intent",
    "control_request_progress",
    "voice_call_talk",
    "vcs_state_changed",
    "turn_preempted",
    "turn_handoff_available",
    "turn_began_before_init",
    "tool_host_result",
    "start_folder",
    "session_writes_lost",
    "session_title_changed",
    "session_metadata",
    "rewind_stand_in",
    "placed",
    "permission_check_status",
    "per_turn_effort_changed",
    "peer_message_hold",
    "instruction_size_warning",
    "inherited_asks_settled",
    "file_attachments_missing",
    "feedback_draft_queued",
    "code_change_published",
    "cloud_session_status",
    "cloud_session_delta",
    "checkpoint_done",
    "bridge_status",
    "bridge_state",
];

/// The prefix of `system` subtypes with which plugins draw on the screen.
const SCREEN: &str = "ui_";

/// Types of events that are ignored.
const QUIET: &[&str] = &[
    "command_lifecycle",
    "control_request",
    "control_cancel_request",
    "conversation_reset",
    "keep_alive",
    "rate_limit_event",
    "tool_progress",
    "tool_use_summary",
    "auth_status",
    "prompt_suggestion",
    "transcript_mirror",
];

/// Raw API events and delta types that are ignored.
const QUIET_RAW: &[&str] = &[
    "message_start",
    "content_block_start",
    "content_block_stop",
    "message_delta",
    "message_stop",
    "ping",
    "error",
];
const QUIET_DELTA: &[&str] = &["input_json_delta", "signature_delta", "citations_delta"];

/// Parses the events of one turn.
#[derive(Debug, Default)]
pub struct Claude {
    progress: TurnProgress,
    /// Tool calls that write a file, until their result arrives.
    edits: HashMap<String, (String, &'static str)>,
    /// The last error that the program wrote instead of a reply: label and text.
    error: Option<(String, String)>,
    /// The cost of the process so far, and before this turn.
    total_usd: f64,
    charged_usd: f64,
    synthetic: bool,
    phase: ProcessPhase,
    /// The last result that was counted.
    counted: Option<String>,
    /// Whether results count only the tokens since the previous one.
    counts_parts: bool,
}

impl Claude {
    /// Creates a reader with a limit on the reply, in bytes.
    pub fn new(reply_limit: usize) -> Self {
        Self { progress: TurnProgress::new(reply_limit), ..Self::default() }
    }

    /// Creates a reader for the next turn of the same process.
    #[must_use]
    pub fn for_next_turn(&self, reply_limit: usize) -> Self {
        let mut next = Self { charged_usd: self.total_usd, ..Self::new(reply_limit) };
        next.total_usd = self.total_usd;
        next.progress.session.clone_from(&self.progress.session);
        next
    }

    /// Returns whether the input can be closed.
    pub fn needs_no_input(&self) -> bool {
        self.phase.needs_no_input()
    }

    /// Returns whether the agent has replied and only background tasks are running.
    pub fn waits_for_tasks(&self) -> bool {
        self.phase.is_idle() && self.phase.running() > 0
    }

    /// Discards an interim reply, because the turn is stopped before the final one.
    pub fn stop(&mut self) {
        if self.waits_for_tasks() || self.phase.phase() == TurnPhase::Running {
            self.progress.closing = None;
        }
    }

    /// Warns that background tasks are terminated.
    pub fn dismiss(&mut self, sink: &mut Sink<'_>) {
        self.phase.dismiss();
        let count = self.phase.running() as u64;
        if count > 0 {
            let message = format!("terminated {count} background shells after the reply");
            let ended = Diagnostic::new(diagnostics::AGENT_TASKS_ENDED, message).with_count(count);
            self.progress.warn(ended, sink);
        }
    }

    fn read(&mut self, event: Line<'_>, line: &str, sink: &mut Sink<'_>) {
        match event.kind.as_str() {
            "stream_event" => self.raw(event, line, sink),
            "assistant" => self.assistant(event, line, sink),
            "user" => self.tool_results(event, sink),
            "result" => self.result(event, sink),
            "control_response" => self.control_response(&event),
            "system" => match event.subtype.as_str() {
                "init" => self.init(event, sink),
                "background_tasks_changed" => self.phase.tasks(event.tasks.objects()),
                "task_started" if event.is_backgrounded.0 => {
                    self.phase.task_starts(event.task_type.as_str());
                }
                "api_retry" => sink(AgentEvent::own(AgentEventKind::Retry {
                    attempt: self.progress.attempt(event.attempt.0),
                    max: event.max_retries.0,
                    status: event.error_status.0.and_then(|s| u16::try_from(s).ok()),
                    wait: event.retry_delay_ms.0.map(Duration::from_millis),
                    reason: event.error.into_text(),
                })),
                quiet if QUIET_SYSTEM.contains(&quiet) || quiet.starts_with(SCREEN) => {}
                other => self.progress.unknown(&format!("system/{other}"), line, sink),
            },
            quiet if QUIET.contains(&quiet) => {}
            "" => self.progress.noise(line),
            other => self.progress.unknown(other, line, sink),
        }
    }

    fn init(&mut self, event: Line<'_>, sink: &mut Sink<'_>) {
        self.phase.turn_started();
        self.progress.session = event.session_id.0.as_deref().map(str::to_owned);
        self.progress.model = event.model.0.as_deref().map(str::to_owned);
        self.progress.version = event.claude_code_version.0.as_deref().map(str::to_owned);
        sink(AgentEvent::own(AgentEventKind::Started {
            session: event.session_id.0,
            model: event.model.0,
        }));
    }

    fn assistant(&mut self, event: Line<'_>, line: &str, sink: &mut Sink<'_>) {
        let parent = event.parent_tool_use_id.0;
        let Some(message) = event.message.0 else {
            return self.progress.unknown("assistant", line, sink);
        };
        let synthetic = message.model.as_str() == "<synthetic>";
        if let Some(label) = event.error.0.filter(|_| parent.is_none()) {
            // An error message of the program, which the closing event repeats.
            let words = message.content.objects().filter_map(|block| block.text.0);
            self.error = Some((label.into_owned(), words.collect()));
            return;
        }
        if parent.is_none() {
            self.phase.turn_started();
            self.synthetic = synthetic;
            self.error = None;
            self.progress.mark = event.uuid.0.as_deref().map(str::to_owned);
            let counted = message.usage.0.as_ref().map(|counts| counts.usage().input);
            self.progress.window = counted.or(self.progress.window);
        }
        for block in message.content.objects() {
            self.block(block, parent.as_ref(), line, sink);
        }
    }

    fn block<'a>(
        &mut self,
        block: Block<'a>,
        parent: Option<&Cow<'a, str>>,
        line: &str,
        sink: &mut Sink<'_>,
    ) {
        let of = |kind| AgentEvent::new(parent.cloned(), kind);
        match block.kind.as_str() {
            "text" => {
                let text = block.text.into_text();
                if parent.is_none() {
                    self.progress.say(&text);
                }
                sink(of(AgentEventKind::Text { text, part: TextPart::Whole }));
            }
            "thinking" => sink(of(AgentEventKind::Thinking {
                text: block.thinking.into_text(),
                part: TextPart::Whole,
            })),
            "redacted_thinking" => {}
            "tool_use" | "server_tool_use" | "mcp_tool_use" => {
                if parent.is_none() {
                    self.progress.pause();
                }
                let input = block.input.map_or("null", RawValue::get);
                if let Some(items) = todo_items(block.name.as_str(), input) {
                    sink(of(AgentEventKind::Todo { items }));
                }
                self.remember_edit(block.id.as_str(), block.name.as_str(), input);
                sink(of(AgentEventKind::ToolStarted {
                    id: block.id.into_text(),
                    name: block.name.into_text(),
                    input: Cow::Borrowed(input),
                }));
            }
            kind if kind.ends_with("tool_result") => self.tool_result(block, parent, sink),
            other => self.progress.unknown(&format!("assistant/{other}"), line, sink),
        }
    }

    fn tool_results(&mut self, event: Line<'_>, sink: &mut Sink<'_>) {
        let parent = event.parent_tool_use_id.0;
        let content = event.message.0.unwrap_or_default().content;
        for block in content.objects() {
            // Texts here echo Convoke's input, or are "interrupted" notes that the result repeats.
            if block.kind.as_str() == "tool_result" {
                self.tool_result(block, parent.as_ref(), sink);
            }
        }
    }

    fn tool_result<'a>(
        &mut self,
        block: Block<'a>,
        parent: Option<&Cow<'a, str>>,
        sink: &mut Sink<'_>,
    ) {
        let ok = !block.is_error.0;
        let id = block.tool_use_id.into_text();
        if let Some((path, change)) = self.edits.remove(id.as_ref()).filter(|_| ok) {
            sink(AgentEvent::new(
                parent.cloned(),
                AgentEventKind::FileChange {
                    changes: vec![FileChange {
                        path: Cow::Owned(path),
                        change: Cow::Borrowed(change),
                        diff: None,
                    }],
                },
            ));
        }
        let output = match block.content.bare {
            Some(text) => text,
            None => joined(block.content.objects()),
        };
        sink(AgentEvent::new(parent.cloned(), AgentEventKind::ToolFinished { id, ok, output }));
    }

    /// Parses a raw API event: a delta of a text.
    fn raw(&mut self, event: Line<'_>, line: &str, sink: &mut Sink<'_>) {
        let Some(raw) = event.event.0 else {
            return self.progress.unknown("stream_event", line, sink);
        };
        let sub_agent = event.parent_tool_use_id.0;
        if sub_agent.is_none() {
            self.phase.turn_started();
        }
        match raw.kind.as_str() {
            "content_block_delta" => {
                let delta = raw.delta.0.unwrap_or_default();
                if sub_agent.is_none() && delta.kind.as_str() == "text_delta" {
                    self.progress.preview(delta.text.as_str());
                }
                let kind = match delta.kind.as_str() {
                    "text_delta" => {
                        AgentEventKind::Text { text: delta.text.into_text(), part: TextPart::Delta }
                    }
                    "thinking_delta" => AgentEventKind::Thinking {
                        text: delta.thinking.into_text(),
                        part: TextPart::Delta,
                    },
                    quiet if QUIET_DELTA.contains(&quiet) => return,
                    other => {
                        let name = format!("stream_event/{other}");
                        return self.progress.unknown(&name, line, sink);
                    }
                };
                sink(AgentEvent::new(sub_agent, kind));
            }
            // A failed request was retried, so the text starts over.
            "message_start" if sub_agent.is_none() => self.progress.forget_preview(),
            quiet if QUIET_RAW.contains(&quiet) => {}
            other => {
                let name = format!("stream_event/{other}");
                self.progress.unknown(&name, line, sink);
            }
        }
    }

    fn result(&mut self, mut event: Line<'_>, sink: &mut Sink<'_>) {
        if self.progress.session.is_none() {
            self.progress.session = event.session_id.0.as_deref().map(str::to_owned);
        }
        self.spent(&event, sink);
        if event.is_placeholder() {
            return self.phase.turn_started();
        }
        for denial in std::mem::take(&mut event.permission_denials).objects() {
            let tool = denial.tool_name.as_str();
            let message = format!("the tool `{tool}` was denied");
            self.progress.warn(Diagnostic::new(diagnostics::AGENT_TOOL_DENIED, message), sink);
        }
        let verdict = self.closing(&event);
        if verdict == Verdict::Done {
            match event.result.as_str() {
                // An empty result does not replace the reply.
                "" if self.progress.closing.is_some() => {}
                "" => self.progress.reply_nothing_new(),
                reply => self.progress.reply_is(reply),
            }
            if self.synthetic && event.num_turns.0 == Some(0) {
                let message = "the program interpreted the prompt as a command";
                self.progress
                    .warn(Diagnostic::new(diagnostics::AGENT_ANSWERED_ITSELF, message), sink);
            }
        }
        self.progress.closing = Some(verdict);
        self.phase.replied();
    }

    /// Adds the tokens since the previous result, including sub-agents. Older versions count only the main
    /// thread.
    fn spent(&mut self, event: &Line<'_>, sink: &mut Sink<'_>) {
        let id = event.uuid.0.as_deref();
        if id.is_some() && id == self.counted.as_deref() {
            return;
        }
        self.counted = id.map(str::to_owned);
        let spent = event.model_usage_since_last_result.map(RawValue::get).and_then(wire::spent);
        if let Some((usage, cost_usd)) = spent {
            self.counts_parts = true;
            self.progress.usage = Some(self.progress.usage.unwrap_or_default().and(usage));
            self.progress.cost_usd = Some(self.progress.cost_usd.unwrap_or_default() + cost_usd);
        } else if self.counts_parts {
            // A result without its own count, among others that have one.
            return;
        } else {
            self.total_usd = event.total_cost_usd.0.unwrap_or(self.total_usd);
            self.progress.cost_usd = event.total_cost_usd.0.map(|total| total - self.charged_usd);
            let usage = event.usage.0.as_ref().map(Counts::usage);
            self.progress.usage = usage.or(self.progress.usage);
        }
        if let Some(usage) = self.progress.usage {
            sink(AgentEvent::own(AgentEventKind::Usage(usage)));
        }
    }

    /// Handles the response to an interrupt. After the end of sub-agents, no further result follows.
    fn control_response(&mut self, event: &Line<'_>) {
        let response = event.response.0.as_ref().and_then(|response| response.response.0.as_ref());
        let interrupted = response.is_some_and(|response| response.still_queued.is_some());
        if interrupted && self.phase.interrupted() {
            self.progress.closing = Some(Verdict::Cancelled);
        }
    }

    fn closing(&self, event: &Line<'_>) -> Verdict {
        if event.subtype.as_str() == "success" && !event.is_error.0 {
            let mut verdict = Verdict::Done;
            // The program ends its turn as completed whatever its model stopped for.
            correct_by_answer(&mut verdict, &AnswerEnd::from_word(event.stop_reason.as_str()));
            return verdict;
        }
        if event.terminal_reason.as_str().starts_with("aborted") {
            return Verdict::Cancelled;
        }
        let errors = event.errors.items.iter().map(Text::as_str);
        let message = match event.result.as_str() {
            "" => errors.collect::<Vec<_>>().join("; "),
            text => text.to_owned(),
        };
        let reason = self.reason(event, &message);
        let message = match (message.as_str(), event.subtype.as_str()) {
            ("", "" | "success") => "claude gave no reason".to_owned(),
            ("", subtype) => format!("claude ended the turn as `{subtype}`"),
            _ => message,
        };
        Verdict::Failed(Failure::new(reason, message))
    }

    fn reason(&self, event: &Line<'_>, message: &str) -> FailureReason {
        if event.stop_reason.as_str() == "refusal" {
            return FailureReason::Refused;
        }
        let too_long = reason_in_words(message) == Some(FailureReason::ContextFull);
        if too_long || event.terminal_reason.as_str() == "prompt_too_long" {
            return FailureReason::ContextFull;
        }
        if event.subtype.as_str().starts_with("error_max") {
            return FailureReason::Budget;
        }
        if let Some(status) = event.api_error_status.0.and_then(|s| u16::try_from(s).ok()) {
            return FailureReason::from_status(status);
        }
        let labelled = self.error.as_ref().and_then(|(label, _)| labelled(label));
        labelled.or_else(|| reason_in_words(message)).unwrap_or(FailureReason::Other)
    }

    fn remember_edit(&mut self, id: &str, tool: &str, input: &str) {
        let change = match tool {
            "Write" => "write",
            "Edit" | "MultiEdit" | "NotebookEdit" => "update",
            _ => return,
        };
        let path = serde_json::from_str::<Edit<'_>>(input)
            .ok()
            .and_then(|edit| edit.file_path.0.or(edit.notebook_path.0));
        if let Some(path) = path.filter(|_| self.edits.len() < 256) {
            self.edits.insert(id.to_owned(), (path.into_owned(), change));
        }
    }
}

impl Claude {
    /// Parses the verbose `json` format: one list of all events.
    fn list(&mut self, line: &str, sink: &mut Sink<'_>) {
        let Ok(events) = serde_json::from_str::<Vec<&RawValue>>(line) else {
            return self.progress.noise(line);
        };
        for json in events.into_iter().map(RawValue::get) {
            match serde_json::from_str::<Object<Line<'_>>>(json) {
                Ok(Object(Some(event))) => self.read(event, json, sink),
                _ => self.progress.noise(json),
            }
        }
    }
}

impl EventReader for Claude {
    fn line(&mut self, line: &[u8], sink: &mut Sink<'_>) {
        let line = self.progress.json(line);
        if line.starts_with('[') {
            return self.list(&line, sink);
        }
        match serde_json::from_str::<Line<'_>>(&line) {
            Ok(event) => self.read(event, &line, sink),
            Err(_) => self.progress.unreadable(&line, sink),
        }
    }

    fn phase(&self) -> TurnPhase {
        self.phase.phase()
    }

    fn progress(&self) -> &TurnProgress {
        &self.progress
    }

    fn progress_mut(&mut self) -> &mut TurnProgress {
        &mut self.progress
    }

    fn finish(&mut self, ending: &Ending<'_>, sink: &mut Sink<'_>) -> TurnResult {
        let error = self.error.take();
        let cut_off = self.phase.cut_off(ending).filter(|_| {
            self.progress.closing.take_if(|verdict| *verdict == Verdict::Done).is_some()
        });
        let explain = |ending: &Ending<'_>| match error {
            _ if cut_off.is_some() => cut_off.unwrap_or_else(|| explain_ending(ending)),
            Some((label, words)) if !words.is_empty() => {
                let reason = labelled(&label).or_else(|| reason_in_words(&words));
                Failure::new(reason.unwrap_or(FailureReason::Other), words)
            }
            _ => explain_ending(ending),
        };
        self.progress.close(ending, explain, sink)
    }
}

/// Returns the reason for an error label.
fn labelled(label: &str) -> Option<FailureReason> {
    Some(match label {
        "authentication_failed" => FailureReason::Auth,
        "rate_limit" | "billing_error" => FailureReason::RateLimit,
        "server_error" | "overloaded" => FailureReason::Server,
        "model_not_found" => FailureReason::Model,
        "max_output_tokens" => FailureReason::OutputFull,
        "invalid_request" => FailureReason::Request,
        _ => return None,
    })
}

fn todo_items<'a>(tool: &str, input: &'a str) -> Option<Vec<TodoItem<'a>>> {
    if tool != "TodoWrite" {
        return None;
    }
    let list: Todos<'a> = serde_json::from_str(input).ok()?;
    let items = list.todos.objects().map(|todo| TodoItem {
        text: todo.content.into_text(),
        state: TodoState::parse(todo.status.as_str()),
    });
    Some(items.collect())
}

/// Joins the texts of a tool's result; a single text stays borrowed.
fn joined<'a>(blocks: impl Iterator<Item = TextBlock<'a>>) -> Cow<'a, str> {
    let mut texts = blocks.filter_map(|block| block.text.0);
    let Some(first) = texts.next() else {
        return Cow::Borrowed("");
    };
    texts.fold(first, |all, text| Cow::Owned(format!("{all}\n{text}")))
}
