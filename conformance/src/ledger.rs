//! Checks the ledger of a request against its body, byte by byte: the entries follow one another, cover the
//! body, begin and end at JSON strings or other entries, and contain what their sources contain.

use std::ops::Range;

use serde_json::Value;

use crate::schema::check_ledger;

/// The section of the JSON around the texts.
const ENVELOPE: &str = "envelope";

/// Checks the decoded text of an entry against its source; the error says what is wrong.
pub type Expected<'e> = &'e dyn Fn(&Value, &str) -> Result<(), String>;

/// The body of a request, with its ledger as JSON.
#[derive(Clone, Copy)]
#[expect(missing_debug_implementations, reason = "it holds a function")]
pub struct Body<'b> {
    pub body: &'b str,
    pub ledger: &'b Value,
    /// Checks the text of each entry.
    pub expected: Expected<'b>,
}

/// An entry, and the range of the body that it names.
#[derive(Debug, Clone)]
struct Entry<'l> {
    json: &'l Value,
    range: Range<usize>,
}

impl<'l> Entry<'l> {
    fn read(json: &'l Value) -> Result<Self, String> {
        let place = |index: usize| {
            let place = json["range"][index].as_u64().and_then(|it| usize::try_from(it).ok());
            place.ok_or_else(|| format!("it has no range: {json}"))
        };
        Ok(Self { json, range: place(0)?..place(1)? })
    }

    fn is_envelope(&self) -> bool {
        self.json["section"] == ENVELOPE
    }
}

impl Body<'_> {
    /// Checks the ledger. Then moves one byte between each two neighbours, and checks that this is noticed.
    /// Returns how many bytes were moved.
    pub fn check(&self) -> Result<usize, String> {
        check_ledger(self.ledger)?;
        let strings = strings(self.body);
        let entries = self.ledger["entries"].as_array().into_iter().flatten();
        let entries = entries.map(Entry::read).collect::<Result<Vec<_>, _>>()?;
        let end = self.check_entries(&entries, None, &strings)?;
        if end != self.body.len() {
            return Err(format!("the entries end at {end} of {}", self.body.len()));
        }
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
            if last.is_some_and(Entry::is_envelope) && entry.is_envelope() {
                return Err(format!("the envelope is cut in two: {entry:?}"));
            }
            last = Some(entry);
            if !entry.range.is_empty() {
                self.check_entry(entry, before, strings)
                    .map_err(|why| format!("{why}: {entry:?}"))?;
                before = Some(entry);
            }
        }
        Ok(end)
    }

    fn check_entry(
        &self,
        entry: &Entry<'_>,
        before: Option<&Entry<'_>>,
        strings: &[Range<usize>],
    ) -> Result<(), String> {
        let range = &entry.range;
        let raw = self.body.get(range.clone()).ok_or("it does not end between characters")?;
        let after_envelope = before.is_none_or(Entry::is_envelope);
        let string_at = |at: usize| {
            let index = strings.partition_point(|it| it.end < at);
            strings.get(index).filter(|it| it.start <= at)
        };
        if entry.is_envelope() {
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
            return match entry.json["source"]["kind"].as_str() {
                Some("model") => self.check_texts(entry, &value),
                _ => Ok(()),
            };
        };
        if range.start != string.start && after_envelope {
            return Err("it begins within a string that nothing accounts for".to_owned());
        }
        let text: String = serde_json::from_str(&format!("\"{raw}\""))
            .map_err(|why| format!("it does not decode ({why})"))?;
        (self.expected)(entry.json, &text).map_err(|why| format!("{why}: {text:?}"))
    }

    /// Checks every text of a value.
    fn check_texts(&self, entry: &Entry<'_>, value: &Value) -> Result<(), String> {
        match value {
            Value::String(text) => (self.expected)(entry.json, text),
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
