//! The body of a Chat Completions request, as the last version of Codex that spoke it sent it.

use std::collections::HashMap;

use convoke_core::Diagnostic;
use serde_json::{Map, Value, json};

use super::{Mapped, Prompt, RequestError};
use crate::config::DeveloperRole;
use crate::diagnostics;
use crate::history::Sent;
use crate::item::{ContentItem, FunctionOutput, Message, ReasoningContent, ResponseItem};

pub(super) fn map(
    prompt: &Prompt<'_>,
    developer_role: DeveloperRole,
) -> Result<Mapped, RequestError> {
    if prompt.output_schema.is_some() {
        return Err(RequestError::SchemaOnChat);
    }
    let mut messages = Messages::new(&prompt.instructions.text, developer_role);
    let mut thoughts = Thoughts::attach(&prompt.input);
    let mut items = thoughts.told.clone();
    for (index, sent) in prompt.input.iter().enumerate() {
        if messages.push(&sent.item, thoughts.by_anchor.remove(&index)) {
            items[index] = sent.item.text_bytes();
        }
    }
    let tools = tools(prompt.tools);
    let tool_bytes = match &tools[..] {
        [] => 0,
        tools => serde_json::to_vec(tools)?.len() as u64,
    };
    let body = json!({
        "model": prompt.model.slug,
        "messages": messages.list,
        "stream": true,
        "tools": tools,
    });
    Ok(Mapped { body: serde_json::to_string(&body)?, items, tools: tool_bytes, schema: 0 })
}

/// The messages so far.
struct Messages {
    list: Vec<Value>,
    last_said: Option<String>,
    developer_role: DeveloperRole,
}

impl Messages {
    fn new(instructions: &str, developer_role: DeveloperRole) -> Self {
        let list = vec![json!({"role": "system", "content": instructions})];
        Self { list, last_said: None, developer_role }
    }

    /// Adds what an item becomes; returns whether it becomes anything.
    fn push(&mut self, item: &ResponseItem, thoughts: Option<String>) -> bool {
        match item {
            ResponseItem::Message(message) => return self.message(message, thoughts),
            ResponseItem::FunctionCall(it) => {
                let function = json!({"name": it.name, "arguments": it.arguments});
                let call = json!({"id": it.call_id, "type": "function", "function": function});
                self.call(call, thoughts);
            }
            ResponseItem::LocalShellCall(it) => {
                let call = json!({
                    "id": it.id.as_deref().unwrap_or(""),
                    "type": "local_shell_call",
                    "status": it.status,
                    "action": it.action,
                });
                self.call(call, thoughts);
            }
            ResponseItem::CustomToolCall(it) => {
                let custom = json!({"name": it.name, "input": it.input});
                self.call(json!({"id": it.id, "type": "custom", "custom": custom}), None);
            }
            ResponseItem::FunctionCallOutput(it) => {
                let content = match &it.output {
                    FunctionOutput::Text(text) => json!(text),
                    FunctionOutput::Parts(parts) => parts.iter().map(part).collect(),
                };
                self.output(&it.call_id, &content);
            }
            ResponseItem::CustomToolCallOutput(it) => self.output(&it.call_id, &json!(it.output)),
            ResponseItem::Reasoning(_)
            | ResponseItem::WebSearchCall(_)
            | ResponseItem::Compaction(_)
            | ResponseItem::GhostSnapshot(_)
            | ResponseItem::Other(_) => return false,
        }
        true
    }

    fn message(&mut self, message: &Message, thoughts: Option<String>) -> bool {
        let has_image = |part: &ContentItem| matches!(part, ContentItem::InputImage(_));
        let texts = message.content.iter().filter(|part| !has_image(part));
        let text: String = texts.map(ContentItem::text).collect();
        let assistant = message.role == "assistant";
        // A server that repeats itself is quoted once, whatever stands between.
        if assistant && self.last_said.as_ref() == Some(&text) {
            return false;
        }
        let content = if !assistant && message.content.iter().any(has_image) {
            message.content.iter().map(part).collect()
        } else {
            json!(text)
        };
        let role = match (&*message.role, self.developer_role) {
            ("developer", DeveloperRole::System) => "system",
            (role, _) => role,
        };
        let mut value = json!({"role": role, "content": content});
        if assistant {
            self.last_said = Some(text);
            if let Some(thoughts) = thoughts {
                value["reasoning"] = json!(thoughts);
            }
        }
        self.list.push(value);
        true
    }

    /// Adds a call to the message of calls before it, or begins one.
    fn call(&mut self, call: Value, thoughts: Option<String>) {
        let last = self.list.last_mut().and_then(Value::as_object_mut);
        let calls = last.filter(|it| it.get("content").is_some_and(Value::is_null));
        if let Some(message) = calls {
            if let Some(calls) = message.get_mut("tool_calls").and_then(Value::as_array_mut) {
                calls.push(call);
            }
            if let Some(thoughts) = thoughts {
                let joined = match message.get("reasoning").and_then(Value::as_str) {
                    Some(before) if !before.is_empty() => format!("{before}\n{thoughts}"),
                    _ => thoughts,
                };
                message.insert("reasoning".to_owned(), json!(joined));
            }
            return;
        }
        let mut message = json!({"role": "assistant", "content": null, "tool_calls": [call]});
        if let Some(thoughts) = thoughts {
            message["reasoning"] = json!(thoughts);
        }
        self.list.push(message);
    }

    fn output(&mut self, call_id: &str, content: &Value) {
        let message = json!({"role": "tool", "tool_call_id": call_id, "content": content});
        self.list.push(message);
    }
}

fn part(part: &ContentItem) -> Value {
    match part {
        ContentItem::InputText(text) | ContentItem::OutputText(text) => {
            json!({"type": "text", "text": text})
        }
        ContentItem::InputImage(url) => json!({"type": "image_url", "image_url": {"url": url}}),
    }
}

/// Which thoughts are told, and with which item.
struct Thoughts {
    by_anchor: HashMap<usize, String>,
    /// For each item, the bytes of its thoughts that are told.
    told: Vec<u64>,
}

impl Thoughts {
    /// Finds the item that each thought is told with: the answer before it, or the answer or call
    /// after it. Only thoughts since the last user message are told, and none while that message
    /// waits for an answer.
    fn attach(input: &[Sent<'_>]) -> Self {
        let mut thoughts = Self { by_anchor: HashMap::new(), told: vec![0; input.len()] };
        let is_user = |sent: &Sent<'_>| sent.item.role() == Some("user");
        if input.iter().rev().find(|sent| speaks(sent)).is_some_and(is_user) {
            return thoughts;
        }
        let first = input.iter().rposition(is_user).map_or(0, |index| index + 1);
        for index in first..input.len() {
            let ResponseItem::Reasoning(reasoning) = input[index].item.as_ref() else {
                continue;
            };
            let parts = reasoning.content.iter().flatten();
            let text: String = parts.map(ReasoningContent::text).collect();
            if let Some(anchor) = anchor(input, index).filter(|_| !text.trim().is_empty()) {
                thoughts.told[index] = text.len() as u64;
                thoughts.by_anchor.entry(anchor).or_default().push_str(&text);
            }
        }
        thoughts
    }
}

fn speaks(sent: &Sent<'_>) -> bool {
    matches!(
        sent.item.as_ref(),
        ResponseItem::Message(_)
            | ResponseItem::FunctionCall(_)
            | ResponseItem::LocalShellCall(_)
            | ResponseItem::FunctionCallOutput(_)
    )
}

fn anchor(input: &[Sent<'_>], index: usize) -> Option<usize> {
    let item = |at: Option<usize>| Some(input.get(at?)?.item.as_ref());
    let (before, after) = (index.checked_sub(1), index.checked_add(1));
    let answers = |at| item(at).is_some_and(|item| item.role() == Some("assistant"));
    let calls = |at| {
        let item = item(at);
        matches!(item, Some(ResponseItem::FunctionCall(_) | ResponseItem::LocalShellCall(_)))
    };
    if answers(before) { before } else { after.filter(|_| answers(after) || calls(after)) }
}

/// Reports the tools that Chat cannot be offered.
pub(super) fn unmapped_tools(tools: &[Value]) -> Option<Diagnostic> {
    let others = tools.iter().filter(|tool| tool["type"] != "function");
    let names: Vec<&str> =
        others.map(|tool| tool["name"].as_str().or(tool["type"].as_str()).unwrap_or("?")).collect();
    if names.is_empty() {
        return None;
    }
    let message = format!("Chat knows functions alone; left out: {}", names.join(", "));
    Some(Diagnostic::new(diagnostics::TOOLS_UNMAPPED, message).with_count(names.len() as u64))
}

/// Maps the tools that Chat knows: functions, in the order of keys that Codex sent.
fn tools(tools: &[Value]) -> Vec<Value> {
    let functions = tools.iter().filter(|tool| tool["type"] == "function");
    let mapped = functions.map(|tool| {
        let keys = ["parameters", "name", "description", "strict"];
        let known = keys.iter().filter_map(|key| Some((*key, tool.get(*key)?)));
        let function: Map<String, Value> =
            known.map(|(key, value)| (key.to_owned(), value.clone())).collect();
        json!({"type": "function", "name": tool["name"], "function": function})
    });
    mapped.collect()
}
