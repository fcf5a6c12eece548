//! A JSON writer that records the source of every byte while it writes.
//!
//! Bytes without a source are the envelope: keys, punctuation, settings. The ledger is complete when the text
//! is complete; nothing is attributed afterwards.

use std::borrow::Cow;
use std::fmt::Write as _;

use convoke_core::diagnostic::Diagnostic;
use convoke_core::ledger::{ENVELOPE, Entry, Ledger, Rule, Source, Target};
use serde_json::Value;

use crate::diagnostics::unattributed;
use crate::history::Sources;

/// Writes JSON and its ledger.
#[derive(Debug, Default)]
pub(crate) struct JsonWriter {
    text: String,
    ledger: Ledger<'static>,
    /// The position up to which the ledger covers the text.
    accounted: usize,
    /// The bytes whose source is not known.
    unattributed: u64,
}

impl JsonWriter {
    /// Starts an object.
    pub(crate) fn object(&mut self) {
        self.separate();
        self.text.push('{');
    }

    /// Ends an object.
    pub(crate) fn end_object(&mut self) {
        self.text.push('}');
    }

    /// Starts a list.
    pub(crate) fn list(&mut self) {
        self.separate();
        self.text.push('[');
    }

    /// Ends a list.
    pub(crate) fn end_list(&mut self) {
        self.text.push(']');
    }

    /// Starts a field of an object.
    pub(crate) fn key(&mut self, key: &str) {
        self.string(key);
        self.text.push(':');
    }

    /// Writes a string of the envelope.
    pub(crate) fn string(&mut self, text: &str) {
        self.begin_text();
        escape(text, &mut self.text);
        self.end_text();
    }

    /// Writes a string of the envelope, or `null`.
    pub(crate) fn optional(&mut self, text: Option<&str>) {
        match text {
            Some(text) => self.string(text),
            None => self.null(),
        }
    }

    /// Writes `null`.
    pub(crate) fn null(&mut self) {
        self.separate();
        self.text.push_str("null");
    }

    /// Writes `true` or `false`.
    pub(crate) fn bool(&mut self, value: bool) {
        self.separate();
        self.text.push_str(if value { "true" } else { "false" });
    }

    /// Writes any value as part of the envelope.
    pub(crate) fn value(&mut self, value: &Value) {
        self.separate();
        // Writing to a string cannot fail.
        let _ = write!(self.text, "{value}");
    }

    /// Writes a value with a source.
    pub(crate) fn value_from(&mut self, value: &Value, sources: &Sources<'_>) {
        match sources.value() {
            None => self.value(value),
            Some(entry) => {
                self.separate();
                self.sourced(entry, |out| {
                    let _ = write!(out, "{value}");
                });
            }
        }
    }

    /// Writes a field of the envelope.
    pub(crate) fn field(&mut self, key: &str, text: &str) {
        self.key(key);
        self.string(text);
    }

    /// Writes a string whose content has sources.
    pub(crate) fn text(&mut self, text: &str, sources: &mut Sources<'_>) {
        self.begin_text();
        self.piece(text, sources);
        self.end_text();
    }

    /// Starts a string that is written piece by piece.
    pub(crate) fn begin_text(&mut self) {
        self.separate();
        self.text.push('"');
    }

    /// Writes the next piece of a string.
    pub(crate) fn piece(&mut self, text: &str, sources: &mut Sources<'_>) {
        let mut rest = text;
        while let Some((bytes, entry)) = sources.next(rest.len()) {
            // Sources end at character boundaries. If they do not, the text is still written completely.
            let (own, after) = rest.split_at(rest.floor_char_boundary(bytes));
            rest = after;
            self.sourced(entry, |out| escape(own, out));
        }
        escape(rest, &mut self.text);
    }

    /// Writes a piece of a string that Convoke itself adds.
    pub(crate) fn frame(&mut self, section: &'static str, what: &'static str, text: &str) {
        let entry = Entry { rule: Rule::Frame, ..entry(section, Source::convoke(what)) };
        self.sourced(entry, |out| escape(text, out));
    }

    /// Ends a string that was written piece by piece.
    pub(crate) fn end_text(&mut self) {
        self.text.push('"');
    }

    /// Writes a value that has a source.
    pub(crate) fn sourced_value(
        &mut self,
        section: &'static str,
        name: &'static str,
        value: &Value,
    ) {
        self.separate();
        self.sourced(entry(section, Source::setting(name)), |out| {
            let _ = write!(out, "{value}");
        });
    }

    /// Records that bytes of a source are not sent.
    pub(crate) fn drop_bytes(
        &mut self,
        bytes: usize,
        sources: &mut Sources<'_>,
        rule: &'static str,
    ) {
        let mut rest = bytes;
        while let Some((bytes, mut entry)) = sources.next(rest) {
            rest -= bytes;
            entry.cut_bytes += bytes as u64;
            entry.rule = Rule::Other(Cow::Borrowed(rule));
            self.sourced(entry, |_| {});
        }
    }

    /// Returns the text and its ledger, and reports bytes whose source is not known.
    pub(crate) fn finish(mut self, diagnostics: &mut Vec<Diagnostic>) -> (String, Ledger<'static>) {
        self.account_for_envelope();
        if self.unattributed > 0 {
            diagnostics.push(unattributed(self.unattributed));
        }
        (self.text, self.ledger)
    }

    /// Returns the text.
    pub(crate) fn into_text(self) -> String {
        self.text
    }

    /// Writes the text of an entry, and sets the entry's range to its position in this body.
    fn sourced(&mut self, entry: Entry<'static>, write: impl FnOnce(&mut String)) {
        self.account_for_envelope();
        write(&mut self.text);
        let range = self.accounted as u64..self.text.len() as u64;
        self.accounted = self.text.len();
        if entry.rule == Rule::Unattributed {
            self.unattributed += range.end - range.start;
        }
        self.ledger.push(Entry { target: Target::Prompt, range, ..entry });
    }

    fn account_for_envelope(&mut self) {
        if self.accounted < self.text.len() {
            let range = self.accounted as u64..self.text.len() as u64;
            self.accounted = self.text.len();
            let envelope = entry(ENVELOPE, Source::convoke(ENVELOPE));
            self.ledger.push(Entry { range, rule: Rule::Frame, ..envelope });
        }
    }

    /// Writes the comma before a value or a key, unless it follows `{`, `[` or `:`, after which none is needed.
    fn separate(&mut self) {
        if !matches!(self.text.as_bytes().last(), None | Some(b'{' | b'[' | b':')) {
            self.text.push(',');
        }
    }
}

/// Creates an entry of a request with an empty range and nothing cut.
pub(crate) fn entry(
    section: impl Into<Cow<'static, str>>,
    source: Source<'static>,
) -> Entry<'static> {
    Entry {
        target: Target::Prompt,
        section: section.into(),
        source,
        range: 0..0,
        cut_bytes: 0,
        rule: Rule::Fits,
    }
}

/// Appends a text as the content of a JSON string, escaped like `serde_json`.
fn escape(text: &str, out: &mut String) {
    out.reserve(text.len());
    let mut from = 0;
    for (at, byte) in text.bytes().enumerate() {
        if byte >= 0x20 && byte != b'"' && byte != b'\\' {
            continue;
        }
        out.push_str(&text[from..at]);
        from = at + 1;
        match byte {
            b'"' => out.push_str("\\\""),
            b'\\' => out.push_str("\\\\"),
            b'\n' => out.push_str("\\n"),
            b'\r' => out.push_str("\\r"),
            b'\t' => out.push_str("\\t"),
            0x08 => out.push_str("\\b"),
            0x0c => out.push_str("\\f"),
            // Writing to a string cannot fail.
            control => drop(write!(out, "\\u{control:04x}")),
        }
    }
    out.push_str(&text[from..]);
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use proptest::prelude::*;

    use super::*;
    use crate::diagnostics::LEDGER_UNATTRIBUTED;
    use crate::history::{Origin, Section, SentItem};
    use crate::item::ResponseItem;

    #[test]
    fn a_text_beyond_its_entries_is_reported_and_is_not_the_envelope() {
        let item = ResponseItem::user("hello");
        let own = Entry { range: 0..2, ..entry("user", Source::setting("x")) };
        let origin = Cow::Owned(Origin::Fragments(Section::User, vec![own].into()));
        let sent = SentItem { item: Cow::Borrowed(&item), origin, is_restored: false };
        let mut out = JsonWriter::default();
        out.text("hello", &mut Sources::new(&sent, 0, "PREFIX"));
        let mut diagnostics = Vec::new();
        let (text, ledger) = out.finish(&mut diagnostics);
        assert!(ledger.covers(Target::Prompt, text.len() as u64));
        let last: Vec<_> = ledger.entries().filter(|it| it.rule == Rule::Unattributed).collect();
        assert_eq!((last.len(), last[0].range.clone()), (1, 3..6));
        assert_eq!(last[0].source, Source::History { index: Some(0) });
        let [diagnostic] = &diagnostics[..] else { panic!("{diagnostics:?}") };
        assert_eq!((&diagnostic.code, diagnostic.bytes), (&LEDGER_UNATTRIBUTED, Some(3)));
    }

    proptest! {
        #[test]
        fn strings_are_written_as_serde_json_writes_them(text in any::<String>(), control in 0_u8..0x80) {
            let text = format!("{text}{}", char::from(control));
            let mut writer = JsonWriter::default();
            writer.string(&text);
            prop_assert_eq!(writer.into_text(), serde_json::to_string(&text).unwrap());
        }
    }
}
