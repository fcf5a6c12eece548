//! The parts of a prompt, and of a request that Convoke wrote or recorded, by their ledgers.

use std::borrow::Cow;

use convoke_core::ledger::{ENVELOPE, Entry, Ledger, Rule, Source, State, Target, estimate_tokens};
use serde_json::Value;

use super::{Form, Kind, Part, short_path};
use crate::views::ledger::source;
use crate::views::text::slice;

/// The maximum number of characters of a label that is the beginning of a text.
const MAX_LABEL: usize = 60;

/// Returns the parts of a turn's texts.
pub(crate) fn of_turn<'t>(
    ledger: &Ledger<'_>,
    system: Option<&'t str>,
    prompt: &'t str,
) -> Vec<Part<'t>> {
    let part = |(index, entry): (usize, Entry<'_>)| {
        let text = match entry.target {
            Target::System => system.unwrap_or_default(),
            Target::Prompt => prompt,
        };
        let text = Cow::Borrowed(range(text, &entry));
        of_entry(index, &entry, text, Form::Text)
    };
    ledger.entries().enumerate().map(part).collect()
}

/// Returns the parts of a request's body.
pub(crate) fn of_body<'t>(ledger: &Ledger<'_>, body: &'t str) -> Vec<Part<'t>> {
    let part = |(index, entry): (usize, Entry<'_>)| {
        let raw = range(body, &entry);
        let (text, form) =
            if is_frame(&entry) { (Cow::Borrowed(raw), Form::Text) } else { readable(raw) };
        of_entry(index, &entry, text, form)
    };
    ledger.entries().enumerate().map(part).collect()
}

fn range<'t>(text: &'t str, entry: &Entry<'_>) -> &'t str {
    let at = |byte: u64| usize::try_from(byte).unwrap_or(usize::MAX);
    slice(text, at(entry.range.start), at(entry.range.end))
}

/// Returns a range of a body as a person reads it: a JSON value by lines, the content of a string without its escapes.
fn readable(raw: &str) -> (Cow<'_, str>, Form) {
    if raw.starts_with(['{', '[', '"'])
        && let Ok(value) = serde_json::from_str::<Value>(raw)
        && let Ok(pretty) = serde_json::to_string_pretty(&value)
    {
        return match value {
            Value::String(text) => (Cow::Owned(text), Form::Text),
            _ => (Cow::Owned(pretty), Form::Json),
        };
    }
    if !raw.contains('\\') {
        return (Cow::Borrowed(raw), Form::Text);
    }
    match serde_json::from_str::<String>(&format!("\"{raw}\"")) {
        Ok(text) => (Cow::Owned(text), Form::Text),
        // A range that begins or ends within an escape.
        Err(_) => (Cow::Borrowed(raw), Form::Text),
    }
}

fn is_frame(entry: &Entry<'_>) -> bool {
    let is_kept = entry.state() == State::Kept;
    is_kept
        && (entry.section == ENVELOPE
            || entry.rule == Rule::Frame
            || matches!(entry.source, Source::Convoke { .. }))
}

fn of_entry<'t>(index: usize, entry: &Entry<'_>, text: Cow<'t, str>, form: Form) -> Part<'t> {
    let kind = if is_frame(entry) { Kind::Frame } else { kind(entry) };
    let bytes = entry.kept_bytes();
    Part {
        index,
        kind,
        section: section(&entry.section),
        label: label(entry, &text),
        source: source(&entry.source),
        rule: entry.rule.to_string(),
        bytes,
        tokens: estimate_tokens(bytes),
        left_out: entry.cut_bytes,
        text: (bytes > 0).then_some(text),
        form,
    }
}

fn kind(entry: &Entry<'_>) -> Kind {
    let is_said = matches!(&*entry.section, "conversation" | "CONTEXT" | "MESSAGE" | "TEAM_TASK");
    match &entry.source {
        Source::File { .. } => Kind::Files,
        Source::Tool { .. } => Kind::Results,
        Source::Model { .. } | Source::History { .. } => Kind::Replies,
        Source::Message { .. } => Kind::Messages,
        _ if entry.section == "tools" => Kind::Tools,
        Source::Convoke { .. } => Kind::Frame,
        _ if is_said => Kind::Messages,
        _ => Kind::System,
    }
}

/// Returns a section in words: `TEAM_TASK` is written `team task`.
fn section(name: &str) -> String {
    name.replace('_', " ").to_lowercase()
}

/// Returns what distinguishes an entry from others of its section.
fn label(entry: &Entry<'_>, text: &str) -> String {
    match &entry.source {
        Source::Message { id: Some(id), .. } => match id.strip_prefix("msg-") {
            Some(number) => format!("message {number}"),
            None => id.to_string(),
        },
        Source::Message { index: Some(index), .. } => format!("message {}", index + 1),
        Source::Message { .. } => "message".to_owned(),
        Source::File { path, lines: Some((from, to)) } => {
            format!("{} {from}–{to}", short_path(path))
        }
        Source::File { path, .. } => short_path(path).to_owned(),
        Source::Setting { name } => words(name),
        Source::Program { what } if !what.trim().is_empty() => what.to_string(),
        Source::Tool { index: Some(index), .. } => format!("result {}", index + 1),
        Source::Model { index: Some(index), .. } => format!("reply {}", index + 1),
        Source::History { index: Some(index) } => format!("history {}", index + 1),
        Source::Convoke { what } => words(what),
        _ => begun(text).unwrap_or_else(|| source(&entry.source)),
    }
}

/// Returns a name in words: `roleSummary` is written `role summary`.
fn words(name: &str) -> String {
    let mut words = String::with_capacity(name.len());
    for letter in name.chars() {
        if letter.is_ascii_uppercase() {
            words.push(' ');
        }
        words.push(letter.to_ascii_lowercase());
    }
    words.trim_start().to_owned()
}

/// Returns the first words of a text.
fn begun(text: &str) -> Option<String> {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty())?;
    Some(line.chars().take(MAX_LABEL).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn ledger(entries: &[(&str, Value, u64, u64)]) -> Ledger<'static> {
        let entry = |(section, source, from, to): &(&str, Value, u64, u64)| {
            json!({
                "target": "prompt", "section": section, "source": source, "range": [from, to],
                "keptBytes": to - from, "cutBytes": 0, "rule": "fits",
            })
        };
        let entries: Vec<Value> = entries.iter().map(entry).collect();
        serde_json::from_value(json!({ "maxBytes": null, "entries": entries })).unwrap()
    }

    #[test]
    fn a_body_is_read_as_a_person_reads_it() {
        let body = r#"{"input":"one\n\"two\"","tools":[{"name":"Bash"}]}"#;
        let at = |what: &str| body.find(what).unwrap() as u64;
        let (text, tool) = (at("one"), at("{\"name\""));
        let program = |what: &str| json!({ "kind": "program", "what": what });
        let ledger = ledger(&[
            ("envelope", program("envelope"), 0, text),
            ("conversation", json!({ "kind": "message", "index": 2 }), text, at("\",\"tools")),
            ("tools", program("Bash"), tool, tool + 15),
        ]);
        let parts = of_body(&ledger, body);
        let seen: Vec<_> = parts
            .iter()
            .map(|part| (part.kind, &*part.label, part.text.as_deref().unwrap_or_default()))
            .collect();
        assert_eq!(
            seen,
            [
                (Kind::Frame, "envelope", "{\"input\":\""),
                (Kind::Messages, "message 3", "one\n\"two\""),
                (Kind::Tools, "Bash", "{\n  \"name\": \"Bash\"\n}"),
            ]
        );
        assert_eq!(parts[2].form, Form::Json);
    }

    #[test]
    fn what_distinguishes_a_part_is_its_label() {
        let file = json!({ "kind": "file", "path": "/home/kim/p/CLAUDE.md" });
        let ledger = ledger(&[
            ("SYSTEM", file, 0, 4),
            ("TEAM_TASK", json!({ "kind": "setting", "name": "teamTask" }), 4, 8),
            ("MESSAGE", json!({ "kind": "message", "id": "msg-3" }), 8, 8),
        ]);
        let parts = of_turn(&ledger, None, "rulework");
        assert_eq!((&*parts[0].label, parts[0].kind), ("p/CLAUDE.md", Kind::Files));
        assert_eq!((&*parts[1].section, parts[1].kind), ("team task", Kind::Messages));
        assert_eq!((&*parts[1].label, &*parts[2].label), ("team task", "message 3"));
    }
}
