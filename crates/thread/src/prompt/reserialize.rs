//! Rewriting the JSON outputs of shells and patches as text, for models that write patches as text.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt::Write;

use serde::Deserialize;

use crate::history::Sent;
use crate::item::{FunctionOutput, ResponseItem};

const TOTAL_LINES: &str = "Total output lines: ";

/// Rewrites, for each call of a shell or a patch, the first output that follows it.
pub(super) fn reserialize(input: &mut [Sent<'_>]) {
    let mut awaited: HashSet<String> = HashSet::new();
    for sent in input {
        let rewritten = match sent.item.as_ref() {
            ResponseItem::LocalShellCall(call) => {
                awaited.extend(call.call_id.clone().or_else(|| call.id.clone()));
                None
            }
            ResponseItem::CustomToolCall(call) => {
                if call.name == "apply_patch" {
                    awaited.insert(call.call_id.clone());
                }
                None
            }
            ResponseItem::FunctionCall(call) => {
                if matches!(&*call.name, "shell" | "container.exec" | "apply_patch") {
                    awaited.insert(call.call_id.clone());
                }
                None
            }
            ResponseItem::FunctionCallOutput(it) if awaited.remove(&it.call_id) => {
                match &it.output {
                    FunctionOutput::Text(text) => as_text(text),
                    FunctionOutput::Parts(_) => None,
                }
            }
            ResponseItem::CustomToolCallOutput(it) if awaited.remove(&it.call_id) => {
                as_text(&it.output)
            }
            _ => None,
        };
        let Some(text) = rewritten else { continue };
        let item: &mut Cow<'_, ResponseItem> = &mut sent.item;
        match item.to_mut() {
            ResponseItem::FunctionCallOutput(it) => it.output = FunctionOutput::Text(text),
            ResponseItem::CustomToolCallOutput(it) => it.output = text,
            _ => {}
        }
    }
}

#[derive(Deserialize)]
struct ExecOutput {
    output: String,
    metadata: Metadata,
}

#[derive(Deserialize)]
struct Metadata {
    exit_code: i32,
    duration_seconds: f32,
}

/// Returns the text form of an output, unless it is not the JSON that shells return.
fn as_text(json: &str) -> Option<String> {
    let parsed: ExecOutput = serde_json::from_str(json).ok()?;
    let Metadata { exit_code, duration_seconds } = parsed.metadata;
    let mut text = format!("Exit code: {exit_code}\nWall time: {duration_seconds} seconds\n");
    let output = match total_lines(&parsed.output) {
        Some((total, rest)) => {
            let _ = writeln!(text, "{TOTAL_LINES}{total}");
            rest
        }
        None => &parsed.output,
    };
    text.push_str("Output:\n");
    text.push_str(output);
    Some(text)
}

/// Splits off the line that says how long an output was before it was cut.
fn total_lines(output: &str) -> Option<(u32, &str)> {
    let (total, rest) = output.strip_prefix(TOTAL_LINES)?.split_once('\n')?;
    let total = total.parse().ok()?;
    Some((total, rest.strip_prefix('\n').unwrap_or(rest)))
}
