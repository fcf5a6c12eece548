//! The entries of a context: one for each message, created on demand.

use std::borrow::Cow;
use std::ops::Range;

use super::{Entry, Rule, Source, Target};
use crate::budget::Plan;
use crate::fragment::{ContextLines, Section};

/// A context, possibly without its oldest messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ContextRow<'a> {
    pub(crate) target: Target,
    pub(crate) lines: ContextLines<'a>,
    /// The start of the lines in the text.
    pub(crate) start: u64,
    /// The end of each kept line in the text, as it was written; a line break is between two lines.
    pub(crate) ends: Vec<u64>,
    /// The bytes that everything would have needed.
    pub(crate) needed: u64,
    /// The bytes that were available.
    pub(crate) available: u64,
}

impl<'a> ContextRow<'a> {
    /// Creates the row of a context before it is written.
    pub(crate) fn new(lines: ContextLines<'a>, plan: &Plan) -> Self {
        Self {
            target: Target::Prompt,
            lines,
            start: 0,
            ends: Vec::with_capacity(lines.messages.len() - plan.dropped),
            needed: plan.needed,
            available: plan.max_bytes,
        }
    }

    /// Returns the bytes of the lines that were written, with the line breaks between them.
    pub(super) fn kept_bytes(&self) -> u64 {
        self.ends.last().map_or(0, |end| end - self.start)
    }

    /// Returns the dropped messages, then the kept ones with the line breaks between them.
    pub(super) fn entries(&self) -> impl Iterator<Item = Entry<'a>> {
        let (mut needed, mut at) = (self.needed, self.start);
        let dropped = self.lines.messages.len() - self.ends.len();
        let left_out = (0..dropped).map(move |index| {
            let bytes = self.lines.size(&self.lines.messages[index]) as u64;
            let rule = Rule::OldestFirst { needed, available: self.available };
            needed = needed.saturating_sub(bytes + 1);
            self.entry(self.lines.source(index), at..at, bytes, rule)
        });
        let kept = self.ends.iter().enumerate().flat_map(move |(index, &end)| {
            let line_break = (index > 0).then(|| {
                at += 1;
                self.entry(Source::convoke("separator"), at - 1..at, 0, Rule::Frame)
            });
            let line = self.entry(self.lines.source(dropped + index), at..end, 0, Rule::Fits);
            at = end;
            line_break.into_iter().chain([line])
        });
        left_out.chain(kept)
    }

    fn entry(&self, source: Source<'a>, range: Range<u64>, cut: u64, rule: Rule<'a>) -> Entry<'a> {
        Entry {
            target: self.target,
            section: Cow::Borrowed(Section::Context.name()),
            source,
            range,
            cut_bytes: cut,
            rule,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::assembler::LineStyle;
    use crate::escape::Escaping;
    use crate::input::{ContextSource, Fencing, PromptContextMessage};
    use crate::text::{SourcedText, TextWriter};

    #[test]
    fn the_ranges_of_kept_lines_are_those_that_were_written() {
        let messages = ["one", "two", "three"].map(|text| PromptContextMessage {
            from: "ada".into(),
            to: None,
            content: text.into(),
            source: ContextSource::Message(None),
        });
        let lines = ContextLines {
            messages: &messages,
            style: LineStyle::Arrow,
            fencing: Fencing::AsWritten,
            escaping: Escaping::AsWritten,
        };
        let row = ContextRow {
            target: Target::Prompt,
            lines,
            start: 0,
            ends: Vec::new(),
            needed: 100,
            available: 50,
        };
        // Lines of other sizes than those that the budget was planned with.
        let written = ["a line that is longer than planned", "!"];
        let mut writer = TextWriter::new("CONTEXT");
        writer.frame("header", "# Context\n");
        writer.context(row, |text, ends| {
            for (index, line) in written.iter().enumerate() {
                if index > 0 {
                    text.push('\n');
                }
                text.push_str(line);
                ends.push(text.len() as u64);
            }
        });
        let text = writer.finish();
        let pieces: Vec<_> = text.pieces().map(|(piece, _)| piece).collect();
        assert_eq!(pieces, ["# Context\n", "", written[0], "\n", written[1]]);
        assert!(SourcedText::covered(text.text().to_owned(), text.entries().to_vec()).is_some());
    }
}
