//! The entries of a context: one for each message, made when they are asked for.

use std::borrow::Cow;

use super::{Entry, Rule, Source, Target};
use crate::fragment::{ContextLines, Section};

/// A context of which the oldest messages were dropped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ContextRow<'a> {
    pub(crate) target: Target,
    pub(crate) lines: ContextLines<'a>,
    /// How many of the oldest messages were dropped.
    pub(crate) dropped: usize,
    /// The bytes of the lines that were written, with the line breaks between them.
    pub(crate) kept_bytes: u64,
    /// The bytes that everything would have needed.
    pub(crate) needed: u64,
    /// The bytes that there were.
    pub(crate) available: u64,
}

impl<'a> ContextRow<'a> {
    /// Returns the dropped messages, then the kept ones with the line breaks between them.
    pub(super) fn entries(&self) -> impl Iterator<Item = Entry<'a>> + use<'a> {
        let row = self.clone();
        let mut needed = row.needed;
        (0..row.lines.messages.len()).flat_map(move |index| {
            let bytes = row.lines.size(&row.lines.messages[index]) as u64;
            let source = row.lines.source(index);
            if index < row.dropped {
                let rule = Rule::OldestFirst { needed, available: row.available };
                needed = needed.saturating_sub(bytes + 1);
                return [None, Some(row.entry(source, 0, bytes, rule))].into_iter().flatten();
            }
            let line_break = (index > row.dropped).then(|| {
                let source = Source::Convoke { what: Cow::Borrowed("separator") };
                row.entry(source, 1, 0, Rule::Frame)
            });
            [line_break, Some(row.entry(source, bytes, 0, Rule::Fits))].into_iter().flatten()
        })
    }

    fn entry(&self, source: Source<'a>, kept: u64, cut: u64, rule: Rule<'a>) -> Entry<'a> {
        Entry {
            target: self.target,
            section: Cow::Borrowed(Section::Context.name()),
            source,
            kept_bytes: kept,
            cut_bytes: cut,
            rule,
        }
    }
}
