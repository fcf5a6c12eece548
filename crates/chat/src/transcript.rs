//! The transcript: what was said and noted, wrapped once for the width that there is.

use std::fmt::Write as _;

use convoke_core::MessageId;

use crate::text::{printable, printable_line, wrap};

/// How many entries are kept on the screen's side; everything is in the store.
const MOST_ENTRIES: usize = 2_000;
/// How much of one text is shown.
const MOST_BYTES: usize = 256 << 10;

/// What was said and noted.
#[derive(Debug, Clone, Default)]
pub(crate) struct Transcript {
    entries: Vec<Entry>,
    width: usize,
    height: usize,
}

/// One thing in the transcript.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) kind: Kind,
    text: String,
    /// The text in lines of the width.
    pub(crate) lines: Vec<String>,
}

/// What an entry is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Somebody said something.
    Said(Head),
    /// Convoke has something to say.
    Note(Tone),
}

/// The line above what was said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) id: MessageId,
    pub(crate) from: String,
    pub(crate) to: String,
    pub(crate) is_person: bool,
    /// What the turn took, when it is known.
    pub(crate) cost: String,
}

/// How a note is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tone {
    /// For information.
    Quiet,
    /// Something to look at.
    Warning,
    /// Something that failed.
    Bad,
}

impl Entry {
    /// Returns how many lines it takes, with its head and the blank line after it.
    pub(crate) fn height(&self) -> usize {
        let head = usize::from(matches!(self.kind, Kind::Said(_)));
        head + self.lines.len() + 1
    }
}

impl Transcript {
    /// Returns the entries, oldest first.
    pub(crate) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Returns how many lines there are.
    pub(crate) fn height(&self) -> usize {
        self.height
    }

    /// Adds what somebody said.
    pub(crate) fn say(&mut self, head: Head, text: &str) {
        let shown = &text[..text.floor_char_boundary(MOST_BYTES)];
        let mut shown = printable(shown).into_owned();
        if text.len() > MOST_BYTES {
            let more = text.len() - MOST_BYTES;
            // Writing to a string cannot fail.
            let _ = write!(shown, "\n… {more} bytes more; `convoke sessions show` prints them all");
        }
        self.push(Kind::Said(head), shown);
    }

    /// Adds something that Convoke has to say.
    pub(crate) fn note(&mut self, tone: Tone, text: &str) {
        self.push(Kind::Note(tone), printable_line(text));
    }

    /// Says what a message's turn took.
    pub(crate) fn account(&mut self, message: &MessageId, taken: String) {
        let heads = self.entries.iter_mut().rev().filter_map(|entry| match &mut entry.kind {
            Kind::Said(head) => Some(head),
            Kind::Note(_) => None,
        });
        if let Some(head) = heads.into_iter().find(|head| head.id == *message) {
            head.cost = taken;
        }
    }

    /// Wraps everything for another width.
    pub(crate) fn resize(&mut self, width: usize) {
        if width == self.width {
            return;
        }
        self.width = width;
        for entry in &mut self.entries {
            entry.lines = wrap(&entry.text, width);
        }
        self.height = self.entries.iter().map(Entry::height).sum();
    }

    fn push(&mut self, kind: Kind, text: String) {
        let entry = Entry { lines: wrap(&text, self.width), kind, text };
        self.height += entry.height();
        self.entries.push(entry);
        if self.entries.len() > MOST_ENTRIES {
            let gone = self.entries.remove(0);
            self.height -= gone.height();
        }
    }
}
