//! The transcript: what was said and noted, wrapped once for the width that there is.

use std::fmt::Write as _;

use convoke_core::MessageId;

use crate::text::{printable, printable_line, wrap};

/// How many entries are kept on the screen's side; everything is in the store.
const MOST_ENTRIES: usize = 2_000;
/// How many of them go at once when there are more.
const FORGOTTEN: usize = 200;
/// How much of one text is shown.
const MOST_BYTES: usize = 256 << 10;

/// What was said and noted.
#[derive(Debug, Clone, Default)]
pub(crate) struct Transcript {
    entries: Vec<Entry>,
    width: usize,
    height: usize,
    /// How many messages came before those that are shown, and the command that prints them.
    left_out: u64,
    command: String,
    /// How many lines were taken away at the beginning.
    gone: usize,
}

/// One thing in the transcript.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) kind: EntryKind,
    text: String,
    /// The text in lines of the width.
    pub(crate) lines: Vec<String>,
}

/// What an entry is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum EntryKind {
    /// Somebody said something.
    Said(MessageHeader),
    /// Convoke has something to say.
    Note(Tone),
}

/// The line above what was said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MessageHeader {
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
        let head = usize::from(matches!(self.kind, EntryKind::Said(_)));
        head + self.lines.len() + 1
    }
}

impl Transcript {
    /// Returns the entries, oldest first.
    pub(crate) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Creates the transcript of a session, before which so many messages are not shown.
    pub(crate) fn of(session: &str, left_out: u64) -> Self {
        let command = format!("convoke sessions show {session}");
        let mut transcript = Self { left_out, command, ..Self::default() };
        transcript.note_left_out();
        transcript
    }

    /// Returns how many lines there are.
    pub(crate) fn height(&self) -> usize {
        self.height
    }

    /// Returns how many lines there have been; it grows by what is added at the end.
    pub(crate) fn height_ever(&self) -> usize {
        self.height + self.gone
    }

    /// Adds what somebody said.
    pub(crate) fn say(&mut self, head: MessageHeader, text: &str) {
        let shown = &text[..text.floor_char_boundary(MOST_BYTES)];
        let mut shown = printable(shown).into_owned();
        if text.len() > MOST_BYTES {
            let more = text.len() - MOST_BYTES;
            // Writing to a string cannot fail.
            let _ = write!(shown, "\n… {more} bytes more; `convoke sessions show` prints them all");
        }
        self.push(EntryKind::Said(head), shown);
    }

    /// Adds something that Convoke has to say.
    pub(crate) fn note(&mut self, tone: Tone, text: &str) {
        self.push(EntryKind::Note(tone), printable_line(text));
    }

    /// Says what a message's turn took.
    pub(crate) fn account(&mut self, message: &MessageId, taken: String) {
        let heads = self.entries.iter_mut().rev().filter_map(|entry| match &mut entry.kind {
            EntryKind::Said(head) => Some(head),
            EntryKind::Note(_) => None,
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

    fn push(&mut self, kind: EntryKind, text: String) {
        let entry = Entry { lines: wrap(&text, self.width), kind, text };
        self.height += entry.height();
        self.entries.push(entry);
        if self.entries.len() > MOST_ENTRIES {
            self.forget();
        }
    }

    /// Takes the oldest entries away, and says so in their place. Many at once, because moving the rest
    /// costs as much as the rest.
    fn forget(&mut self) {
        let gone: Vec<Entry> = self.entries.drain(..FORGOTTEN).collect();
        let is_message = |entry: &&Entry| matches!(entry.kind, EntryKind::Said(_));
        self.left_out += gone.iter().filter(is_message).count() as u64;
        let before = self.height;
        self.height -= gone.iter().map(Entry::height).sum::<usize>();
        self.note_left_out();
        self.gone += before.saturating_sub(self.height);
    }

    /// Says how many messages are not shown, in a note before all others.
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
