//! Visits every string of an item.

use convoke_thread::item::{ContentItem, FunctionOutput, ReasoningContent, ResponseItem};
use serde_json::Value;

/// The kind of a string.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StringKind {
    /// A part of a message.
    Message,
    /// A part of reasoning.
    Reasoning,
    /// An id, a name or a protocol keyword.
    Name,
    /// Anything else: arguments, encrypted content, outputs.
    Other,
}

/// Visits every string of an item. A JSON value is visited as its text; if the visitor's result is not JSON,
/// the value becomes that text.
pub(crate) fn each_string(item: &mut ResponseItem, visit: &mut dyn FnMut(StringKind, &mut String)) {
    match item {
        ResponseItem::Message(message) => {
            names([&mut message.id, &mut message.phase], visit);
            visit(StringKind::Name, &mut message.role);
            parts(&mut message.content, StringKind::Message, visit);
        }
        ResponseItem::Reasoning(reasoning) => {
            visit(StringKind::Name, &mut reasoning.id);
            reasoning.summary.iter_mut().for_each(|text| visit(StringKind::Reasoning, text));
            for part in reasoning.content.iter_mut().flatten() {
                let (ReasoningContent::ReasoningText(text) | ReasoningContent::Text(text)) = part;
                visit(StringKind::Reasoning, text);
            }
            reasoning.encrypted_content.iter_mut().for_each(|text| visit(StringKind::Other, text));
        }
        ResponseItem::LocalShellCall(call) => {
            names([&mut call.id, &mut call.call_id], visit);
            visit(StringKind::Name, &mut call.status);
            call.action.command.iter_mut().for_each(|text| visit(StringKind::Other, text));
            let others = [&mut call.action.working_directory, &mut call.action.user];
            others.into_iter().flatten().for_each(|text| visit(StringKind::Other, text));
            if let Some(env) = &mut call.action.env {
                let mut value = Value::Object(std::mem::take(env));
                json(&mut value, visit);
                call.action.env = value.as_object().cloned();
            }
        }
        ResponseItem::FunctionCall(call) => {
            names([&mut call.id], visit);
            visit(StringKind::Name, &mut call.call_id);
            visit(StringKind::Name, &mut call.name);
            visit(StringKind::Other, &mut call.arguments);
        }
        ResponseItem::CustomToolCall(call) => {
            names([&mut call.id, &mut call.status], visit);
            visit(StringKind::Name, &mut call.call_id);
            visit(StringKind::Name, &mut call.name);
            visit(StringKind::Other, &mut call.input);
        }
        ResponseItem::FunctionCallOutput(output) => {
            visit(StringKind::Name, &mut output.call_id);
            match &mut output.output {
                FunctionOutput::Text(text) => visit(StringKind::Other, text),
                FunctionOutput::Parts(content) => parts(content, StringKind::Other, visit),
            }
        }
        ResponseItem::CustomToolCallOutput(output) => {
            visit(StringKind::Name, &mut output.call_id);
            visit(StringKind::Other, &mut output.output);
        }
        ResponseItem::WebSearchCall(call) => {
            names([&mut call.id, &mut call.status], visit);
            call.action.iter_mut().for_each(|action| json(action, visit));
        }
        ResponseItem::GhostSnapshot(value) => json(value, visit),
        ResponseItem::Compaction(compaction) => {
            visit(StringKind::Other, &mut compaction.encrypted_content);
        }
        ResponseItem::Other(name) => visit(StringKind::Name, name),
    }
}

fn names<const N: usize>(
    names: [&mut Option<String>; N],
    visit: &mut dyn FnMut(StringKind, &mut String),
) {
    names.into_iter().flatten().for_each(|text| visit(StringKind::Name, text));
}

fn parts(
    content: &mut [ContentItem],
    kind: StringKind,
    visit: &mut dyn FnMut(StringKind, &mut String),
) {
    for part in content {
        match part {
            ContentItem::InputText(text) | ContentItem::OutputText(text) => visit(kind, text),
            ContentItem::InputImage(url) => visit(StringKind::Other, url),
        }
    }
}

fn json(value: &mut Value, visit: &mut dyn FnMut(StringKind, &mut String)) {
    let before = value.to_string();
    let mut text = before.clone();
    visit(StringKind::Other, &mut text);
    if text != before {
        *value = serde_json::from_str(&text).unwrap_or(Value::String(text));
    }
}
