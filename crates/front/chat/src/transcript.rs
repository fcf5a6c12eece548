//! The transcript: messages and notes, wrapped for the current width.

use std::fmt::Write as _;

use convoke_core::MessageId;

use crate::text::{StyledText, printable, printable_line, render_markdown};

/// The maximum number of entries in memory while the newest one is shown; the store has all of them.
const MAX_ENTRIES: usize = 2_000;
/// The maximum number of entries in memory while the person reads earlier ones.
const MAX_ENTRIES_READ_BACK: usize = 6_000;
/// The maximum size of their texts.
const MAX_BYTES_READ_BACK: usize = 32 << 20;
/// The number of messages that are read from the store at once.
const PAGE: u64 = 100;
/// The number of entries that are removed at once over the maximum.
const FORGOTTEN: usize = 200;
/// The maximum size of a text that is shown.
const MAX_BYTES: usize = 256 << 10;

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
    /// The size of all texts.
    bytes: usize,
    /// Whether the person reads earlier entries, which then stay.
    pub(crate) is_read_back: bool,
}

/// A message or a note.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) kind: EntryKind,
    text: String,
    /// The rendered text.
    pub(crate) lines: Vec<StyledText>,
}

/// The kind of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum EntryKind {
    /// A message.
    Message(MessageHeader),
    /// A note of Convoke.
    Note(Tone),
    /// A suggestion, removed by the next action.
    Hint(Tone),
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

/// Earlier messages to read from the store: those after a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EarlierPage {
    /// The number of the message before the first.
    pub after: u64,
    /// The number of messages.
    pub count: u64,
}

impl Entry {
    /// Renders a text for a width. Texts of agents are Markdown.
    fn new(kind: EntryKind, text: String, width: usize) -> Self {
        let lines = lines_of(&kind, &text, width);
        Self { kind, text, lines }
    }

    /// Returns the number of lines, with heading and trailing blank line.
    pub(crate) fn height(&self) -> usize {
        let head = usize::from(matches!(self.kind, EntryKind::Message(_)));
        head + self.lines.len() + 1
    }
}

impl Transcript {
    /// Returns the entries, oldest first.
    pub(crate) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Creates the transcript of a session of which the first `left_out` messages are not shown.
    pub(crate) fn new(session: &str, store_option: &str, left_out: u64) -> Self {
        let command = format!("convoke sessions show {session}{store_option}");
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
        self.push(EntryKind::Message(head), shown_text(text));
    }

    /// Adds a note.
    pub(crate) fn note(&mut self, tone: Tone, text: &str) {
        self.push(EntryKind::Note(tone), printable_line(text));
    }

    /// Adds a hint.
    pub(crate) fn hint(&mut self, tone: Tone, text: &str) {
        self.push(EntryKind::Hint(tone), printable_line(text));
    }

    /// Removes the hints, which are always the last entries.
    pub(crate) fn remove_hints(&mut self) {
        let last = self.entries.iter().rposition(|it| !matches!(it.kind, EntryKind::Hint(_)));
        let from = last.map_or(0, |last| last + 1);
        for hint in self.entries.drain(from..) {
            self.height -= hint.height();
            self.bytes -= hint.text.len();
        }
    }

    /// Returns the page before the first message, if there is one and there is room for it.
    pub(crate) fn earlier(&self) -> Option<EarlierPage> {
        let has_room =
            self.entries.len() < MAX_ENTRIES_READ_BACK && self.bytes < MAX_BYTES_READ_BACK;
        let count = self.left_out.min(PAGE);
        (has_room && count > 0).then(|| EarlierPage { after: self.left_out - count, count })
    }

    /// Adds the messages of a page at the beginning, oldest first.
    pub(crate) fn say_earlier(&mut self, messages: Vec<(MessageHeader, String)>) {
        self.remove_count();
        self.left_out = self.left_out.saturating_sub(messages.len() as u64);
        let width = self.width;
        let read = messages.into_iter();
        let read: Vec<Entry> = read
            .map(|(head, text)| Entry::new(EntryKind::Message(head), shown_text(&text), width))
            .collect();
        self.height += read.iter().map(Entry::height).sum::<usize>();
        self.bytes += read.iter().map(|entry| entry.text.len()).sum::<usize>();
        self.entries.splice(0..0, read);
        self.note_left_out();
    }

    /// Sets the time and tokens of a message's turn.
    pub(crate) fn account(&mut self, message: &MessageId, taken: String) {
        let heads = self.entries.iter_mut().rev().filter_map(|entry| match &mut entry.kind {
            EntryKind::Message(head) => Some(head),
            EntryKind::Note(_) | EntryKind::Hint(_) => None,
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
            entry.lines = lines_of(&entry.kind, &entry.text, width);
        }
        self.height = self.entries.iter().map(Entry::height).sum();
    }

    fn push(&mut self, kind: EntryKind, text: String) {
        let entry = Entry::new(kind, text, self.width);
        self.height += entry.height();
        self.bytes += entry.text.len();
        self.entries.push(entry);
        let (most, max_bytes) = if self.is_read_back {
            (MAX_ENTRIES_READ_BACK, MAX_BYTES_READ_BACK)
        } else {
            (MAX_ENTRIES, usize::MAX)
        };
        if self.entries.len() > most || self.bytes > max_bytes {
            // Some hundred at once, because each removal moves the rest.
            self.forget(self.entries.len().saturating_sub(most - FORGOTTEN).max(FORGOTTEN));
        }
    }

    /// Removes the oldest entries, and counts their messages in a note.
    fn forget(&mut self, count: usize) {
        let before = self.height;
        self.remove_count();
        let count = count.min(self.entries.len() - 1);
        let gone: Vec<Entry> = self.entries.drain(..count).collect();
        let is_message = |entry: &&Entry| matches!(entry.kind, EntryKind::Message(_));
        self.left_out += gone.iter().filter(is_message).count() as u64;
        self.height -= gone.iter().map(Entry::height).sum::<usize>();
        self.bytes -= gone.iter().map(|entry| entry.text.len()).sum::<usize>();
        self.note_left_out();
        self.gone += before.saturating_sub(self.height);
    }

    /// Removes the first note, which counts the messages that are not shown.
    fn remove_count(&mut self) {
        if self.left_out > 0 && !self.entries.is_empty() {
            let note = self.entries.remove(0);
            self.height -= note.height();
            self.bytes -= note.text.len();
        }
    }

    /// Adds that note.
    fn note_left_out(&mut self) {
        let (count, command) = (self.left_out, &self.command);
        let messages = if count == 1 { "message" } else { "messages" };
        let how = match self.earlier() {
            None if count == 0 => return,
            None => format!("`{command}` prints them"),
            Some(_) => "PgUp shows them".to_owned(),
        };
        let text = printable_line(&format!("{count} earlier {messages}; {how}"));
        let entry = Entry::new(EntryKind::Note(Tone::Quiet), text, self.width);
        self.height += entry.height();
        self.bytes += entry.text.len();
        self.entries.insert(0, entry);
    }
}

/// Returns the shown part of a message.
fn shown_text(text: &str) -> String {
    let shown = &text[..text.floor_char_boundary(MAX_BYTES)];
    let mut shown = printable(shown).into_owned();
    if text.len() > MAX_BYTES {
        let more = text.len() - MAX_BYTES;
        // Writing to a string cannot fail.
        let _ = write!(shown, "\n… {more} more bytes; `convoke sessions show` prints all");
    }
    shown
}

fn lines_of(kind: &EntryKind, text: &str, width: usize) -> Vec<StyledText> {
    let mut lines = match kind {
        EntryKind::Message(head) if !head.is_person => render_markdown(text, width),
        _ => Vec::new(),
    };
    // A text that consists of markers only is shown as it is.
    if lines.is_empty() {
        StyledText::plain(text).wrap(width, |line| lines.push(line));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(number: u64) -> MessageHeader {
        MessageHeader {
            id: MessageId::numbered(number),
            from: "ada".to_owned(),
            to: String::new(),
            is_person: false,
            cost: String::new(),
        }
    }

    fn say(transcript: &mut Transcript, number: u64) {
        transcript.say(header(number), &format!("message {number}"));
    }

    #[test]
    fn messages_that_are_not_shown_are_counted_in_the_first_line() {
        let mut transcript = Transcript::new("0199a1b2", "", 0);
        transcript.resize(80);
        for number in 1..=10_000 {
            let before = transcript.height_ever();
            say(&mut transcript, number);
            assert!(transcript.entries.len() <= MAX_ENTRIES);
            assert_eq!(transcript.height_ever(), before + 3, "at message {number}");
            let height: usize = transcript.entries.iter().map(Entry::height).sum();
            assert_eq!(transcript.height(), height);
        }
        let shown =
            transcript.entries.iter().filter(|entry| matches!(entry.kind, EntryKind::Message(_)));
        let left_out = 10_000 - shown.count();
        assert_eq!(
            transcript.entries[0].text,
            format!("{left_out} earlier messages; PgUp shows them")
        );
        assert_eq!(transcript.entries[1].text, format!("message {}", left_out + 1));
    }

    #[test]
    fn earlier_messages_are_read_a_page_at_a_time_up_to_a_limit() {
        let mut transcript = Transcript::new("0199a1b2", "", 20_000);
        transcript.resize(80);
        say(&mut transcript, 20_001);
        transcript.is_read_back = true;
        let mut first = 20_001;
        while let Some(EarlierPage { after, count }) = transcript.earlier() {
            assert_eq!((after + count + 1, count), (first, PAGE), "pages are without gaps");
            let page = (after + 1..=after + count)
                .map(|number| (header(number), format!("message {number}")));
            transcript.say_earlier(page.collect());
            first = after + 1;
            assert_eq!(transcript.entries[1].text, format!("message {first}"));
            let height: usize = transcript.entries.iter().map(Entry::height).sum();
            assert_eq!(transcript.height(), height);
        }
        assert!(transcript.entries.len() <= MAX_ENTRIES_READ_BACK + usize::try_from(PAGE).unwrap());
        let told =
            format!("{} earlier messages; `convoke sessions show 0199a1b2` prints them", first - 1);
        assert_eq!(transcript.entries[0].text, told);
        transcript.is_read_back = false;
        say(&mut transcript, 20_002);
        assert!(transcript.entries.len() <= MAX_ENTRIES, "at the end, the rest goes");
        assert_eq!(transcript.entries.last().unwrap().text, "message 20002");
    }

    #[test]
    fn hints_are_removed_and_notes_stay() {
        let mut transcript = Transcript::new("0199a1b2", "", 0);
        transcript.resize(80);
        transcript.note(Tone::Bad, "ada failed");
        transcript.hint(Tone::Quiet, "/retry retries the turn");
        transcript.remove_hints();
        transcript.remove_hints();
        assert_eq!((transcript.entries.len(), transcript.height()), (1, 2));
    }
}
