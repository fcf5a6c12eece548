//! Checks the ledger of a request against its body, byte by byte: the entries follow one another, cover the
//! body, begin and end at JSON strings or other entries, and contain what their sources contain.

use std::ops::Range;

use convoke_core::ledger::{ENVELOPE, Entry, Ledger, Source};
use serde_json::Value;

/// Checks the text of an entry against its source; the error describes the problem.
pub(crate) type Expected<'e> = &'e dyn Fn(&Entry<'_>, &str) -> Result<(), String>;

/// The ledger of a request, and the expected texts.
pub(crate) struct Request<'r> {
    pub(crate) body: &'r str,
    pub(crate) ledger: &'r Ledger<'r>,
    /// Convoke's own texts that depend on the pack.
    pub(crate) frames: &'r [String],
    pub(crate) expected: Expected<'r>,
}

impl Request<'_> {
    /// Checks the ledger. Then moves each boundary between two entries by a byte, and checks that this is
    /// detected. Returns the number of moved bytes.
    pub(crate) fn check(&self) -> Result<usize, String> {
        let strings = strings(self.body);
        let entries: Vec<_> = self.ledger.entries().collect();
        let end = self.check_entries(&entries, None, &strings)?;
        if end != self.body.len() {
            return Err(format!("the entries end at {end} of {}", self.body.len()));
        }
        schema::check_ledger(&serde_json::json!(self.ledger))?;
        let mut moves = 0;
        for index in 1..entries.len() {
            let [one, other] = &entries[index - 1..=index] else { continue };
            // Only boundaries between non-empty entries can be moved.
            if one.range.is_empty() || other.range.is_empty() {
                continue;
            }
            for moved in [other.range.start - 1, other.range.start + 1] {
                let mut pair = [one.clone(), other.clone()];
                pair[0].range.end = moved;
                pair[1].range.start = moved;
                let before = index.checked_sub(2).and_then(|index| entries.get(index));
                if self.check_entries(&pair, before, &strings).is_ok() {
                    return Err(format!("a byte was moved unnoticed between {pair:?}"));
                }
                moves += 1;
            }
        }
        if moves == 0 {
            return Err("the ledger has no two entries to move a byte between".to_owned());
        }
        Ok(moves)
    }

    /// Checks consecutive entries; returns where they end.
    fn check_entries(
        &self,
        entries: &[Entry<'_>],
        before: Option<&Entry<'_>>,
        strings: &[Range<usize>],
    ) -> Result<usize, String> {
        let mut before = before;
        let mut last = before;
        let mut end = before.map_or(0, |it| it.range.end);
        for entry in entries {
            if entry.range.start != end || entry.range.end < end {
                return Err(format!("it does not follow the entry before: {entry:?}"));
            }
            end = entry.range.end;
            if last.is_some_and(|it| it.section == ENVELOPE) && entry.section == ENVELOPE {
                return Err(format!("the envelope is cut in two: {entry:?}"));
            }
            last = Some(entry);
            if !entry.range.is_empty() {
                self.check_entry(entry, before, strings)
                    .map_err(|why| format!("{why}: {entry:?}"))?;
                before = Some(entry);
            }
        }
        usize::try_from(end).map_err(|why| why.to_string())
    }

    fn check_entry(
        &self,
        entry: &Entry<'_>,
        before: Option<&Entry<'_>>,
        strings: &[Range<usize>],
    ) -> Result<(), String> {
        let place = |at: u64| usize::try_from(at).map_err(|why| why.to_string());
        let range = place(entry.range.start)?..place(entry.range.end)?;
        let raw = self.body.get(range.clone()).ok_or("it does not end between characters")?;
        let after_envelope = before.is_none_or(|it| it.section == ENVELOPE);
        let string_at = |at: usize| {
            let index = strings.partition_point(|it| it.end < at);
            strings.get(index).filter(|it| it.start <= at)
        };
        if entry.section == ENVELOPE {
            if string_at(range.start).is_some_and(|it| it.end > range.start) && range.start > 0 {
                return Err("the envelope begins within a string".to_owned());
            }
            if string_at(range.end).is_some_and(|it| it.start < range.end) {
                return Err("the envelope ends within a string".to_owned());
            }
            return Ok(());
        }
        let Some(string) = string_at(range.start).filter(|it| range.end <= it.end) else {
            let value: Value = serde_json::from_str(raw)
                .map_err(|why| format!("it is neither a text nor a value ({why})"))?;
            let written = value.to_string();
            if written != raw {
                return Err("it is more than a value".to_owned());
            }
            return match &entry.source {
                Source::Model { .. } => self.check_texts(entry, &value),
                _ => Ok(()),
            };
        };
        if range.start != string.start && after_envelope {
            return Err("it begins within a string that nothing accounts for".to_owned());
        }
        let text: String = serde_json::from_str(&format!("\"{raw}\""))
            .map_err(|why| format!("it does not decode ({why})"))?;
        match &entry.source {
            Source::Convoke { what } if !is_frame(what, &text, self.frames) => {
                Err(format!("{text:?} is no {what}"))
            }
            Source::Convoke { .. } => Ok(()),
            _ => (self.expected)(entry, &text).map_err(|why| format!("{why}: {text:?}")),
        }
    }

    /// Checks every text of a value.
    fn check_texts(&self, entry: &Entry<'_>, value: &Value) -> Result<(), String> {
        match value {
            Value::String(text) => (self.expected)(entry, text),
            Value::Array(values) => values.iter().try_for_each(|it| self.check_texts(entry, it)),
            Value::Object(fields) => fields.values().try_for_each(|it| self.check_texts(entry, it)),
            _ => Ok(()),
        }
    }
}

/// Returns the positions of the contents of all strings in a JSON text.
fn strings(json: &str) -> Vec<Range<usize>> {
    let mut strings = Vec::new();
    let mut bytes = json.bytes().enumerate();
    while let Some((at, byte)) = bytes.next() {
        if byte != b'"' {
            continue;
        }
        let mut end = at + 1;
        while let Some((at, byte)) = bytes.next() {
            end = at;
            match byte {
                b'\\' => drop(bytes.next()),
                b'"' => break,
                _ => {}
            }
        }
        strings.push(at + 1..end);
    }
    strings
}

fn is_frame(what: &str, text: &str, frames: &[String]) -> bool {
    let is_of_pack = || frames.iter().any(|frame| frame == text);
    let between = |start: &str, end: &str| text.starts_with(start) && text.ends_with(end);
    match what {
        "wrapper" => {
            const WRAPPERS: [&str; 11] = [
                "<environment_context>\n  <cwd>",
                "</cwd>\n  <shell>",
                "</shell>\n</environment_context>",
                "<permissions instructions>",
                "</permissions instructions>",
                "<collaboration_mode>",
                "</collaboration_mode>",
                "\n</INSTRUCTIONS>",
                "\n</skill>",
                "\n",
                "",
            ];
            WRAPPERS.contains(&text)
                || is_of_pack()
                || between("# AGENTS.md instructions for ", "\n\n<INSTRUCTIONS>\n")
                || between("<skill>\n<name>", "</path>\n")
        }
        "separator" => ["\n\n--- project-doc ---\n\n", "\n\n", "\n"].contains(&text),
        "mark" => between("…", " truncated…") || between("[omitted ", " text items ...]"),
        "summary prefix" | "header" => is_of_pack(),
        "image tag" => {
            ["<image>", "</image>"].contains(&text) || between("<image name=[Image #", "]>")
        }
        "output header" => between("Exit code: ", "\nOutput:\n"),
        "missing output" => text == "aborted",
        "note" => {
            is_of_pack()
                || between("Approved command prefix saved:\n- [", "]")
                // A note about an image that cannot be sent.
                || text.starts_with("Codex c")
                || text.starts_with("Image located at ")
        }
        _ => false,
    }
}

#[path = "../../../core/tests/schema/mod.rs"]
mod schema;
