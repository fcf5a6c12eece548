//! Codex's items, which are the same in both protocols except for their case: `snake_case` in `exec --json`,
//! `camelCase` in `app-server`.

use std::borrow::Cow;

use convoke_core::Diagnostic;
use convoke_protocol::agent_event::{
    AgentEvent, AgentEventKind, FileChange, TextPart, TodoItem, TodoState,
};
use convoke_protocol::usage::Usage;
use serde::Deserialize;
use serde_json::value::RawValue;

use convoke_agent::diagnostics;
use convoke_agent::stream::lenient::{Flag, List, Number, Object, Text};
use convoke_agent::stream::{Sink, TurnProgress};

/// The phase of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Started,
    Updated,
    Completed,
}

/// Parses an item. `sub_agent` is the item's thread if it is not the agent's own.
pub(super) fn read(
    item: Item<'_>,
    phase: Phase,
    sub_agent: Option<&str>,
    line: &str,
    progress: &mut TurnProgress,
    sink: &mut Sink<'_>,
) {
    let mut emit = |kind| sink(AgentEvent::new(sub_agent.map(Cow::Borrowed), kind));
    match (item.kind.as_str(), phase) {
        ("agent_message" | "agentMessage", Phase::Completed) => {
            if sub_agent.is_none() {
                progress.pause();
                progress.say(item.text.as_str());
            }
            emit(AgentEventKind::Text { text: item.text.into_text(), part: TextPart::Whole });
        }
        ("reasoning", Phase::Completed) => {
            let text = match item.text.0 {
                Some(text) => text,
                None => Cow::Owned(joined(&item.summary, &item.content)),
            };
            if !text.is_empty() {
                emit(AgentEventKind::Thinking { text, part: TextPart::Whole });
            }
        }
        ("file_change" | "fileChange", phase) => {
            if sub_agent.is_none() && phase == Phase::Completed {
                progress.answered();
            }
            file_change(item, phase, emit);
        }
        ("todo_list" | "todoList", _) => {
            let items = item.items.objects().map(|todo| TodoItem {
                text: todo.text.into_text(),
                state: if todo.completed.0 { TodoState::Completed } else { TodoState::Pending },
            });
            emit(AgentEventKind::Todo { items: items.collect() });
        }
        ("error", Phase::Completed) => {
            progress
                .warn(Diagnostic::new(diagnostics::AGENT_NOTICE, item.message.into_text()), sink);
        }
        (
            "agent_message" | "agentMessage" | "reasoning" | "error" | "userMessage"
            | "user_message" | "plan" | "enteredReviewMode" | "exitedReviewMode"
            | "contextCompaction" | "context_compaction" | "hookPrompt",
            _,
        )
        | (_, Phase::Updated) => {}
        (kind, phase) => {
            let Some(name) = tool_name(kind, &item) else {
                let name = format!("item/{kind}");
                return progress.unknown(&name, line, sink);
            };
            if phase == Phase::Started {
                if sub_agent.is_none() {
                    progress.pause();
                }
                let input = item.input();
                emit(AgentEventKind::ToolStarted { name, input, id: item.id.into_text() });
            } else {
                if sub_agent.is_none() {
                    progress.answered();
                }
                let (ok, output) = (item.worked(), item.output());
                emit(AgentEventKind::ToolFinished { ok, output, id: item.id.into_text() });
            }
        }
    }
}

/// Parses a file change: a tool call that reports the changed files.
fn file_change<'a>(item: Item<'a>, phase: Phase, mut emit: impl FnMut(AgentEventKind<'a>)) {
    let id = item.id.into_text();
    let status = item.status.into_text();
    let changes: Vec<FileChange<'a>> = item.changes.objects().map(Change::into_event).collect();
    let paths: Vec<&str> = changes.iter().map(|change| change.path.as_ref()).collect();
    match phase {
        Phase::Started => {
            let input = serde_json::json!({ "paths": paths }).to_string();
            let name = Cow::Borrowed("apply_patch");
            emit(AgentEventKind::ToolStarted { id, name, input: Cow::Owned(input) });
        }
        Phase::Updated => {}
        Phase::Completed => {
            let ok = status == "completed";
            let output = if ok {
                String::new()
            } else {
                let status = if status.is_empty() { "in an unknown state" } else { &status };
                format!("the change of {} is {status}", paths.join(", "))
            };
            if ok {
                emit(AgentEventKind::FileChange { changes });
            }
            emit(AgentEventKind::ToolFinished { id, ok, output: Cow::Owned(output) });
        }
    }
}

fn tool_name<'a>(kind: &str, item: &Item<'a>) -> Option<Cow<'a, str>> {
    match kind {
        "command_execution" | "commandExecution" => Some(Cow::Borrowed("shell")),
        "mcp_tool_call" | "mcpToolCall" => {
            Some(Cow::Owned(format!("{}.{}", item.server.as_str(), item.tool.as_str())))
        }
        "collab_tool_call" | "collabToolCall" | "collabAgentToolCall" | "dynamicToolCall" => {
            Some(item.tool.clone().into_text())
        }
        "web_search" | "webSearch" => Some(Cow::Borrowed("web_search")),
        "image_view" | "imageView" => Some(Cow::Borrowed("view_image")),
        "image_generation" | "imageGeneration" => Some(Cow::Borrowed("image_generation")),
        "sleep" => Some(Cow::Borrowed("sleep")),
        "subAgentActivity" => Some(Cow::Borrowed("sub_agent")),
        _ => None,
    }
}

fn joined(summary: &List<'_, Text<'_>>, content: &List<'_, Text<'_>>) -> String {
    let list = if summary.items.is_empty() { content } else { summary };
    let texts: Vec<&str> = list.items.iter().map(Text::as_str).collect();
    texts.join("\n\n")
}

#[derive(Deserialize, Default)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(super) struct Item<'a> {
    id: Text<'a>,
    #[serde(rename = "type")]
    kind: Text<'a>,
    text: Text<'a>,
    message: Text<'a>,
    command: Text<'a>,
    #[serde(alias = "aggregatedOutput")]
    aggregated_output: Text<'a>,
    #[serde(alias = "exitCode")]
    exit_code: Number,
    status: Text<'a>,
    changes: List<'a, Object<Change<'a>>>,
    server: Text<'a>,
    tool: Text<'a>,
    arguments: Option<&'a RawValue>,
    result: Option<&'a RawValue>,
    error: Object<Message<'a>>,
    query: Text<'a>,
    items: List<'a, Object<Todo<'a>>>,
    summary: List<'a, Text<'a>>,
    content: List<'a, Text<'a>>,
}

impl<'a> Item<'a> {
    /// Returns the tool's input, as JSON.
    fn input(&self) -> Cow<'a, str> {
        if let Some(arguments) = self.arguments {
            return Cow::Borrowed(arguments.get());
        }
        let input = match (&self.command.0, &self.query.0) {
            (Some(command), _) => serde_json::json!({ "command": command }),
            (_, Some(query)) => serde_json::json!({ "query": query }),
            _ => return Cow::Borrowed("null"),
        };
        Cow::Owned(input.to_string())
    }

    fn worked(&self) -> bool {
        self.error.0.is_none()
            && self.exit_code.0.is_none_or(|code| code == 0)
            && !matches!(self.status.as_str(), "failed" | "declined")
    }

    fn output(&self) -> Cow<'a, str> {
        if let Some(output) = &self.aggregated_output.0 {
            return output.clone();
        }
        if let Some(error) = &self.error.0 {
            return error.message.clone().into_text();
        }
        Cow::Borrowed(self.result.map_or("", RawValue::get))
    }
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct Message<'a> {
    #[serde(borrow)]
    pub message: Text<'a>,
}

#[derive(Deserialize, Default)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Change<'a> {
    path: Text<'a>,
    /// A string in one protocol, an object with a `type` in the other.
    kind: Option<&'a RawValue>,
}

impl<'a> Change<'a> {
    fn into_event(self) -> FileChange<'a> {
        #[derive(Deserialize, Default)]
        #[serde(default)]
        struct Typed<'b> {
            #[serde(borrow, rename = "type")]
            kind: Text<'b>,
        }
        let json = self.kind.map_or("null", RawValue::get);
        let change = match serde_json::from_str::<Text<'a>>(json) {
            Ok(Text(Some(word))) => word,
            _ => serde_json::from_str::<Typed<'a>>(json)
                .map(|typed| typed.kind.into_text())
                .unwrap_or_default(),
        };
        FileChange { path: self.path.into_text(), change, diff: None }
    }
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Todo<'a> {
    #[serde(borrow)]
    text: Text<'a>,
    completed: Flag,
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct Counts {
    #[serde(rename = "input_tokens", alias = "inputTokens")]
    input: Number,
    #[serde(rename = "cached_input_tokens", alias = "cachedInputTokens")]
    cached: Number,
    #[serde(rename = "cache_write_input_tokens", alias = "cacheWriteInputTokens")]
    cache_write: Number,
    #[serde(rename = "output_tokens", alias = "outputTokens")]
    output: Number,
    #[serde(rename = "reasoning_output_tokens", alias = "reasoningOutputTokens")]
    reasoning: Number,
}

impl Counts {
    pub fn usage(&self) -> Usage {
        Usage {
            input: self.input.0.unwrap_or(0),
            cached: self.cached.0.unwrap_or(0),
            cache_write: self.cache_write.0.unwrap_or(0),
            output: self.output.0.unwrap_or(0),
            reasoning: self.reasoning.0.unwrap_or(0),
        }
    }
}
