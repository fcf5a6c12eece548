//! The transcript: messages and notes, wrapped for the current width.

use std::fmt::Write as _;

use convoke_core::MessageId;

use crate::text::{printable, printable_line, wrap};

/// The maximum number of entries in memory; the store has all of them.
const MOST_ENTRIES: usize = 2_000;
/// The number of entries that are removed at once over the maximum.
const FORGOTTEN: usize = 200;
/// The maximum size of a text that is shown.
const MOST_BYTES: usize = 256 << 10;

/// Messages and notes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Transcript {
    entries: Vec<Entry>,
    width: usize,
    height: usize,
    /// The number of messages before those that are shown.
    left_out: u64,
    command: String,
    /// The number of lines removed at the beginning.
    gone: usize,
}

/// A message or a note.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) kind: EntryKind,
    text: String,
    /// The wrapped text.
    pub(crate) lines: Vec<String>,
}

/// The kind of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum EntryKind {
    /// A message.
    Said(MessageHeader),
    /// A note of Convoke.
    Note(Tone),
}

/// The heading of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MessageHeader {
    pub(crate) id: MessageId,
    pub(crate) from: String,
    pub(crate) to: String,
    pub(crate) is_person: bool,
    /// Time and tokens of the turn, if known.
    pub(crate) cost: String,
}

/// The tone of a note.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tone {
    /// Information.
    Quiet,
    /// A warning.
    Warning,
    /// A failure.
    Bad,
}

impl Entry {
    /// Returns the number of lines, with heading and trailing blank line.
    pub(crate) fn height(&self) -> usize {
        let head = usize::from(matches!(self.kind, EntryKind::Said(_)));
        head + self.lines.len() + 1
    }
}

impl Transcript {
    /// Returns the entries, oldest first.
    pub(crate) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Creates the transcript of a session of which the first `left_out` messages are not shown.
    pub(crate) fn of(session: &str, left_out: u64) -> Self {
        let command = format!("convoke sessions show {session}");
        let mut transcript = Self { left_out, command, ..Self::default() };
        transcript.note_left_out();
        transcript
    }

    /// Returns the number of lines.
    pub(crate) fn height(&self) -> usize {
        self.height
    }

    /// Returns the number of lines ever added.
    pub(crate) fn height_ever(&self) -> usize {
        self.height + self.gone
    }

    /// Adds a message.
    pub(crate) fn say(&mut self, head: MessageHeader, text: &str) {
        let shown = &text[..text.floor_char_boundary(MOST_BYTES)];
        let mut shown = printable(shown).into_owned();
        if text.len() > MOST_BYTES {
            let more = text.len() - MOST_BYTES;
            // Writing to a string cannot fail.
            let _ = write!(shown, "\n… {more} more bytes; `convoke sessions show` prints all");
        }
        self.push(EntryKind::Said(head), shown);
    }

    /// Adds a note.
    pub(crate) fn note(&mut self, tone: Tone, text: &str) {
        self.push(EntryKind::Note(tone), printable_line(text));
    }

    /// Sets the time and tokens of a message's turn.
    pub(crate) fn account(&mut self, message: &MessageId, taken: String) {
        let heads = self.entries.iter_mut().rev().filter_map(|entry| match &mut entry.kind {
            EntryKind::Said(head) => Some(head),
            EntryKind::Note(_) => None,
        });
        if let Some(head) = heads.into_iter().find(|head| head.id == *message) {
            head.cost = taken;
        }
    }

    /// Wraps everything for a new width.
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

    fn push(&mut self, kind: EntryKind, text: String) {
        let entry = Entry { lines: wrap(&text, self.width), kind, text };
        self.height += entry.height();
        self.entries.push(entry);
        if self.entries.len() > MOST_ENTRIES {
            self.forget();
        }
    }

    /// Removes the oldest entries, many at once because each removal moves the rest, and counts them in a note.
    fn forget(&mut self) {
        let gone: Vec<Entry> = self.entries.drain(..FORGOTTEN).collect();
        let is_message = |entry: &&Entry| matches!(entry.kind, EntryKind::Said(_));
        self.left_out += gone.iter().filter(is_message).count() as u64;
        let before = self.height;
        self.height -= gone.iter().map(Entry::height).sum::<usize>();
        self.note_left_out();
        self.gone += before.saturating_sub(self.height);
    }

    /// Updates the first note, which counts the messages that are not shown.
    fn note_left_out(&mut self) {
        let Self { left_out, command, width, .. } = self;
        let text = match left_out {
            0 => return,
            1 => format!("1 earlier message: `{command}` prints it"),
            many => format!("{many} earlier messages: `{command}` prints them"),
        };
        let text = printable_line(&text);
        let entry = Entry { lines: wrap(&text, *width), kind: EntryKind::Note(Tone::Quiet), text };
        self.height += entry.height();
        self.entries.insert(0, entry);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn say(transcript: &mut Transcript, number: u64) {
        let head = MessageHeader {
            id: MessageId::numbered(number),
            from: "ada".to_owned(),
            to: String::new(),
            is_person: false,
            cost: String::new(),
        };
        transcript.say(head, &format!("message {number}"));
    }

    #[test]
    fn what_is_no_longer_shown_is_counted_in_the_first_line() {
        let mut transcript = Transcript::of("0199a1b2", 0);
        transcript.resize(80);
        for number in 1..=10_000 {
            let before = transcript.height_ever();
            say(&mut transcript, number);
            assert!(transcript.entries.len() <= MOST_ENTRIES);
            assert_eq!(transcript.height_ever(), before + 3, "at message {number}");
            let height: usize = transcript.entries.iter().map(Entry::height).sum();
            assert_eq!(transcript.height(), height);
        }
        let shown =
            transcript.entries.iter().filter(|entry| matches!(entry.kind, EntryKind::Said(_)));
        let left_out = 10_000 - shown.count();
        assert_eq!(
            transcript.entries[0].lines,
            [format!("{left_out} earlier messages: `convoke sessions show 0199a1b2` prints them")]
        );
        assert_eq!(transcript.entries[1].text, format!("message {}", left_out + 1));
    }
}
