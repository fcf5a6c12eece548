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
    /// The number of dropped messages, oldest first.
    pub(crate) dropped: usize,
    /// The bytes of the lines that were written, with the line breaks between them.
    pub(crate) kept_bytes: u64,
    /// The size of the uncut prompt.
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
            dropped: plan.dropped,
            kept_bytes: 0,
            needed: plan.needed,
            available: plan.max_bytes,
        }
    }

    /// Returns the dropped messages, then the kept ones with the line breaks between them.
    pub(super) fn entries(&self) -> impl Iterator<Item = Entry<'a>> + use<'a> {
        let row = self.clone();
        let (mut needed, mut at) = (row.needed, row.start);
        (0..row.lines.messages.len()).flat_map(move |index| {
            let bytes = row.lines.size(&row.lines.messages[index]) as u64;
            let source = row.lines.source(index);
            if index < row.dropped {
                let rule = Rule::OldestFirst { needed, available: row.available };
                needed = needed.saturating_sub(bytes + 1);
                return [None, Some(row.entry(source, at..at, bytes, rule))].into_iter().flatten();
            }
            let line_break = (index > row.dropped).then(|| {
                at += 1;
                row.entry(Source::convoke("separator"), at - 1..at, 0, Rule::Frame)
            });
            at += bytes;
            let line = row.entry(source, at - bytes..at, 0, Rule::Fits);
            [line_break, Some(line)].into_iter().flatten()
        })
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
