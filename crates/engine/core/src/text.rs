//! Text that is written together with its ledger.

use std::borrow::Cow;
use std::ops::Range;

use crate::escape::Escaping;
use crate::fragment::Fragment;
use crate::ledger::{ContextRow, Entry, Ledger, Rule, Source, Target, cover};
use crate::truncation::KeptPart;

/// A text and the entries that cover it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SourcedText<'a> {
    text: String,
    entries: Vec<Entry<'a>>,
}

impl<'a> SourcedText<'a> {
    /// Creates a text of one fragment.
    pub fn new(section: impl Into<Cow<'a, str>>, fragment: Fragment<'a>) -> Self {
        let mut writer = TextWriter::new(section);
        writer.fragment(fragment);
        writer.finish()
    }

    /// Creates a text from its entries; `None` if they do not cover it.
    pub fn covered(text: String, entries: Vec<Entry<'a>>) -> Option<Self> {
        let is_covered = cover(entries.iter().map(|entry| entry.range.clone()), text.len() as u64);
        is_covered.then_some(Self { text, entries })
    }

    /// Returns the text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the entries, in the order of the text.
    pub fn entries(&self) -> &[Entry<'a>] {
        &self.entries
    }

    /// Returns the entries, each with its own bytes of the text.
    pub fn pieces(&self) -> impl Iterator<Item = (&str, &Entry<'a>)> {
        let mut rest = &*self.text;
        self.entries.iter().map(move |entry| {
            let bytes = usize::try_from(entry.kept_bytes()).unwrap_or(usize::MAX);
            let (own, after) = rest.split_at(rest.floor_char_boundary(bytes));
            rest = after;
            (own, entry)
        })
    }

    /// Returns the text and its entries.
    pub fn into_parts(self) -> (String, Vec<Entry<'a>>) {
        (self.text, self.entries)
    }
}

/// Writes a text and its ledger together.
#[derive(Debug)]
pub struct TextWriter<'a> {
    text: String,
    target: Target,
    section: Cow<'a, str>,
    ledger: Ledger<'a>,
}

impl<'a> TextWriter<'a> {
    /// Starts a text with a section.
    pub fn new(section: impl Into<Cow<'a, str>>) -> Self {
        Self::with_ledger(section, Ledger::default())
    }

    pub(crate) fn with_ledger(section: impl Into<Cow<'a, str>>, ledger: Ledger<'a>) -> Self {
        Self { text: String::new(), target: Target::Prompt, section: section.into(), ledger }
    }

    /// Starts another text, whose entries follow in the same ledger.
    pub(crate) fn begin_text(&mut self, target: Target, bytes: usize) {
        self.target = target;
        self.text = String::with_capacity(bytes);
    }

    pub(crate) fn take_text(&mut self) -> String {
        std::mem::take(&mut self.text)
    }

    /// Starts a section.
    pub fn section(&mut self, section: impl Into<Cow<'a, str>>) {
        self.section = section.into();
    }

    /// Returns the text so far.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Writes a fragment.
    pub fn fragment(&mut self, fragment: Fragment<'a>) {
        self.cut_fragment(fragment, 0, Rule::Fits);
    }

    /// Writes the kept part of a fragment of which `cut_bytes` were cut.
    pub fn cut_fragment(&mut self, fragment: Fragment<'a>, cut_bytes: u64, rule: Rule<'a>) {
        let Fragment { text, source } = fragment;
        self.piece(&text, source, cut_bytes, rule);
    }

    /// Writes a fragment within `room` bytes: whole if it fits, else without its middle, with a mark in its place. The tail
    /// begins after `resumption`. Returns whether there is room for the mark; if not, nothing is written.
    pub fn shortened(
        &mut self,
        fragment: Fragment<'a>,
        room: usize,
        resumption: &'static str,
    ) -> bool {
        if fragment.text.len() <= room {
            self.fragment(fragment);
            return true;
        }
        let Fragment { text, source } = fragment;
        let kept = KeptPart::without_middle(&text, room, resumption, Escaping::AsWritten);
        let Some(KeptPart::Ends { head, tail, mark, resumption }) = kept else { return false };
        let rule = Rule::MiddleCut { needed: text.len() as u64, available: room as u64 };
        self.piece(&text[..head], source.clone(), mark.cut as u64, rule.clone());
        let line_break = if head > 0 { "\n" } else { "" };
        self.frame("mark", &format!("{line_break}{mark}{resumption}"));
        if tail > 0 {
            self.piece(&text[text.len() - tail..], source, 0, rule);
        }
        true
    }

    /// Writes a text of Convoke's own.
    pub fn frame(&mut self, what: &'static str, text: &str) {
        self.piece(text, Source::convoke(what), 0, Rule::Frame);
    }

    /// Writes a text that already has entries.
    pub fn append(&mut self, text: &SourcedText<'a>) {
        for (own, entry) in text.pieces() {
            let before = self.text.len() as u64;
            self.text.push_str(own);
            let range = before..self.text.len() as u64;
            self.ledger.push(Entry { range, target: self.target, ..entry.clone() });
        }
    }

    pub(crate) fn piece(&mut self, text: &str, source: Source<'a>, cut_bytes: u64, rule: Rule<'a>) {
        let before = self.text.len() as u64;
        self.text.push_str(text);
        let range = before..self.text.len() as u64;
        self.enter(source, range, cut_bytes, rule);
    }

    fn enter(&mut self, source: Source<'a>, range: Range<u64>, cut_bytes: u64, rule: Rule<'a>) {
        self.ledger.push(Entry {
            target: self.target,
            section: self.section.clone(),
            source,
            range,
            cut_bytes,
            rule,
        });
    }

    /// Writes the lines of a context, for which the ledger has one row. `write` adds the end of each line.
    pub(crate) fn context(
        &mut self,
        mut row: ContextRow<'a>,
        write: impl FnOnce(&mut String, &mut Vec<u64>),
    ) {
        row.target = self.target;
        row.start = self.text.len() as u64;
        write(&mut self.text, &mut row.ends);
        self.ledger.push_context(row);
    }

    pub(crate) fn into_ledger(self) -> Ledger<'a> {
        self.ledger
    }

    /// Returns the text with its entries.
    pub fn finish(self) -> SourcedText<'a> {
        SourcedText { text: self.text, entries: self.ledger.entries().collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shortened_fragment_keeps_its_ends_and_is_covered() {
        let text = "first line\n".repeat(20) + "last line";
        for room in 0..=text.len() {
            let mut writer = TextWriter::new("TEST");
            let is_written =
                writer.shortened(Fragment::new(&*text, Source::convoke("test")), room, "\n");
            let written = writer.finish();
            assert!(written.text().len() <= room, "room {room}");
            assert_eq!(is_written, !written.text().is_empty(), "room {room}");
            let (shortened, entries) = written.into_parts();
            let kept: u64 = entries.iter().map(Entry::kept_bytes).sum();
            assert_eq!(kept, shortened.len() as u64);
            if room >= 60 {
                assert!(
                    shortened.starts_with("first") && shortened.ends_with("line"),
                    "{shortened}"
                );
            }
        }
    }
}
