//! Rewrites the JSON outputs of shells and patches as text, for models that write patches as text.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt::Write;
use std::ops::Range;

use convoke_core::ledger::Entry;
use convoke_core::{Fragment, SourcedText, TextWriter};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::history::{Origin, Section, SentItem};
use crate::item::{FunctionOutput, ResponseItem};

const TOTAL_LINES: &str = "Total output lines: ";

/// Rewrites the first output after each call of a shell or a patch.
pub(super) fn reserialize(input: &mut [SentItem<'_>]) {
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
                    FunctionOutput::Text(text) => as_text(text, &sent.entries()),
                    FunctionOutput::Parts(_) => None,
                }
            }
            ResponseItem::CustomToolCallOutput(it) if awaited.remove(&it.call_id) => {
                as_text(&it.output, &sent.entries())
            }
            _ => None,
        };
        let Some(rewritten) = rewritten else { continue };
        let (text, entries) = rewritten.into_parts();
        sent.origin = Cow::Owned(Origin::Fragments(Section::Tool, entries.into()));
        match sent.item.to_mut() {
            ResponseItem::FunctionCallOutput(it) => it.output = FunctionOutput::Text(text),
            ResponseItem::CustomToolCallOutput(it) => it.output = text,
            _ => {}
        }
    }
}

#[derive(Deserialize)]
struct ExecOutput<'a> {
    #[serde(borrow)]
    output: &'a RawValue,
    metadata: Metadata,
}

#[derive(Deserialize)]
struct Metadata {
    exit_code: i32,
    duration_seconds: f32,
}

/// Returns the text form of an output with its sources; `None` if it is not the JSON that shells return.
/// `entries` are those of the JSON.
fn as_text(json: &str, entries: &[Entry<'static>]) -> Option<SourcedText<'static>> {
    let parsed: ExecOutput<'_> = serde_json::from_str(json).ok()?;
    let whole: String = serde_json::from_str(parsed.output.get()).ok()?;
    let Metadata { exit_code, duration_seconds } = parsed.metadata;
    let mut header = format!("Exit code: {exit_code}\nWall time: {duration_seconds} seconds\n");
    let output = match total_lines(&whole) {
        Some((total, rest)) => {
            let _ = writeln!(header, "{TOTAL_LINES}{total}");
            rest
        }
        None => &whole,
    };
    header.push_str("Output:\n");
    let mut text = TextWriter::new(Section::Tool.name());
    text.frame("output header", &header);
    let start = parsed.output.get().as_ptr() as usize - json.as_ptr() as usize;
    let mut left_out = whole.len() - output.len();
    for (decoded, entry) in decoded(json, start..start + parsed.output.get().len(), entries)? {
        let skipped = left_out.min(decoded.len());
        left_out -= skipped;
        let decoded = decoded.get(skipped..)?.to_owned();
        let fragment = Fragment::new(decoded, entry.source.clone());
        text.cut_fragment(fragment, entry.cut_bytes, entry.rule.clone());
    }
    Some(text.finish())
}

/// Decodes the JSON string at a range of a text, separately for each entry.
fn decoded<'e>(
    json: &str,
    string: Range<usize>,
    entries: &'e [Entry<'static>],
) -> Option<Vec<(String, &'e Entry<'static>)>> {
    let content = string.start + 1..string.end - 1;
    let parts = entries.iter().map(|entry| {
        let place =
            |at: u64| usize::try_from(at).ok().map(|at| at.clamp(content.start, content.end));
        let raw = json.get(place(entry.range.start)?..place(entry.range.end)?)?;
        Some((serde_json::from_str(&format!("\"{raw}\"")).ok()?, entry))
    });
    let parts: Option<Vec<(String, _)>> = parts.collect();
    Some(parts?.into_iter().filter(|(text, _)| !text.is_empty()).collect())
}

/// Splits off the line with the original length of a truncated output.
fn total_lines(output: &str) -> Option<(u32, &str)> {
    let (total, rest) = output.strip_prefix(TOTAL_LINES)?.split_once('\n')?;
    let total = total.parse().ok()?;
    Some((total, rest.strip_prefix('\n').unwrap_or(rest)))
}
