//! Server-sent events, read piece by piece in bounded memory.

use std::collections::VecDeque;

use convoke_core::json::has_more_values;

/// One event of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SseEvent {
    /// Its name; empty when the server gives none.
    pub name: String,
    /// Its data, lines joined by newlines.
    pub data: Data,
}

/// The data of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Data {
    /// All of it.
    Whole(String),
    /// It was over a limit and was skipped.
    Oversized,
}

/// Reads events from arbitrary pieces of a stream.
#[derive(Debug, Default)]
pub struct SseReader {
    limit: usize,
    line: Vec<u8>,
    name: String,
    data: Vec<u8>,
    has_data: bool,
    oversized: bool,
    line_is_oversized: bool,
    /// The last byte was a carriage return, so a line feed that follows belongs to it.
    after_return: bool,
    at_start: bool,
}

impl SseReader {
    /// Creates a reader that holds no event of more than `limit` bytes or a fixed number of values.
    pub fn new(limit: usize) -> Self {
        Self { limit, at_start: true, ..Self::default() }
    }

    /// Adds the next piece of the stream, and appends the events that it completes.
    pub fn push(&mut self, mut piece: &[u8], events: &mut VecDeque<SseEvent>) {
        if std::mem::take(&mut self.after_return) && piece.first() == Some(&b'\n') {
            piece = &piece[1..];
        }
        while let Some(end) = memchr::memchr2(b'\n', b'\r', piece) {
            self.extend_line(&piece[..end]);
            self.end_line(events);
            let is_return = piece[end] == b'\r';
            piece = &piece[end + 1..];
            match piece.first() {
                Some(b'\n') if is_return => piece = &piece[1..],
                None => self.after_return = is_return,
                Some(_) => {}
            }
        }
        self.extend_line(piece);
    }

    /// Returns an event whose lines were complete when the stream ended, without a blank line after it.
    pub fn finish(&mut self) -> Option<SseEvent> {
        let whole = self.line.is_empty() && !self.line_is_oversized && self.has_data;
        whole.then(|| self.take_event())
    }

    /// Returns whether the stream is at the beginning of an event, so that whole events may be skipped.
    pub(crate) fn is_between_events(&self) -> bool {
        let is_inside = self.has_data || self.oversized || self.line_is_oversized;
        !is_inside
            && !self.at_start
            && !self.after_return
            && self.line.is_empty()
            && self.name.is_empty()
    }

    fn extend_line(&mut self, part: &[u8]) {
        if self.line_is_oversized {
            return;
        }
        if self.line.len() + self.data.len() + part.len() > self.limit {
            self.line_is_oversized = true;
            self.line = Vec::new();
            return;
        }
        self.line.extend_from_slice(part);
    }

    fn end_line(&mut self, events: &mut VecDeque<SseEvent>) {
        if std::mem::take(&mut self.line_is_oversized) {
            // Only data is that long.
            self.oversized = true;
            self.has_data = true;
            self.data = Vec::new();
            self.at_start = false;
            return;
        }
        let mut line = std::mem::take(&mut self.line);
        let text = if std::mem::take(&mut self.at_start) {
            line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&line)
        } else {
            &line[..]
        };
        if text.is_empty() {
            if self.has_data {
                let event = self.take_event();
                events.push_back(event);
            }
            self.name.clear();
        } else {
            let (field, value) = split_field(text);
            match field {
                b"event" => self.name = String::from_utf8_lossy(value).into_owned(),
                b"data" if !self.oversized && !self.has_data && value.len() >= MOVED => {
                    self.has_data = true;
                    let before = line.len() - value.len();
                    line.drain(..before);
                    self.data = std::mem::take(&mut line);
                }
                b"data" if !self.oversized => {
                    if std::mem::replace(&mut self.has_data, true) {
                        self.data.push(b'\n');
                    }
                    self.data.extend_from_slice(value);
                }
                _ => {}
            }
        }
        // The buffer is used again, so that a stream of small events allocates once for its lines.
        line.clear();
        self.line = line;
    }

    fn take_event(&mut self) -> SseEvent {
        self.has_data = false;
        let data = std::mem::take(&mut self.data);
        let is_oversized =
            std::mem::take(&mut self.oversized) || has_more_values(&data, MAX_VALUES);
        SseEvent {
            name: std::mem::take(&mut self.name),
            data: if is_oversized { Data::Oversized } else { Data::Whole(into_text(data)) },
        }
    }
}

/// The maximum number of values in the data of an event; a parsed value takes many times the memory of its text.
const MAX_VALUES: usize = 100_000;

/// The smallest data that takes over the buffer of its line; less is copied, so that the buffer is used again.
const MOVED: usize = 64 << 10;

/// Returns the position after the first blank line, or the end.
pub(crate) fn end_of_event(text: &[u8]) -> usize {
    memchr::memchr_iter(b'\n', text)
        .find_map(|at| match &text[at + 1..] {
            [b'\n', ..] => Some(at + 2),
            [b'\r', b'\n', ..] => Some(at + 3),
            _ => None,
        })
        .unwrap_or(text.len())
}

/// Returns the position after the last blank line, or 0.
pub(crate) fn end_of_last_event(text: &[u8]) -> usize {
    memchr::memrchr_iter(b'\n', text)
        .find(|&at| text[..at].ends_with(b"\n") || text[..at].ends_with(b"\n\r"))
        .map_or(0, |at| at + 1)
}

fn split_field(line: &[u8]) -> (&[u8], &[u8]) {
    match memchr::memchr(b':', line) {
        None => (line, b""),
        Some(colon) => {
            let value = &line[colon + 1..];
            (&line[..colon], value.strip_prefix(b" ").unwrap_or(value))
        }
    }
}

fn into_text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pieces: &[&[u8]], limit: usize) -> Vec<(String, Option<String>)> {
        let mut reader = SseReader::new(limit);
        let mut events = VecDeque::new();
        for piece in pieces {
            reader.push(piece, &mut events);
        }
        events.extend(reader.finish());
        let shown = events.into_iter().map(|event| match event.data {
            Data::Whole(text) => (event.name, Some(text)),
            Data::Oversized => (event.name, None),
        });
        shown.collect()
    }

    fn event(name: &str, data: &str) -> (String, Option<String>) {
        (name.to_owned(), Some(data.to_owned()))
    }

    #[test]
    fn events_are_the_same_however_the_stream_is_cut() {
        let stream = "\u{feff}: a comment\r\nevent: one\r\ndata: 世\ndata:界\n\nid: 3\nretry\ndata\r\rdata: {}\n\n";
        let expected = vec![event("one", "世\n界"), event("", ""), event("", "{}")];
        let bytes = stream.as_bytes();
        for size in 1..=bytes.len() {
            let pieces: Vec<&[u8]> = bytes.chunks(size).collect();
            assert_eq!(read(&pieces, 1000), expected, "pieces of {size} bytes");
        }
    }

    #[test]
    fn an_event_over_the_limit_keeps_its_name_and_the_next_one_is_whole() {
        let long = format!("event: big\ndata: {}\n\nevent: small\ndata: x\n\n", "y".repeat(500));
        for size in [1, 7, 1000] {
            let pieces: Vec<&[u8]> = long.as_bytes().chunks(size).collect();
            assert_eq!(read(&pieces, 100), [("big".to_owned(), None), event("small", "x")]);
        }
    }

    #[test]
    fn an_event_of_too_many_values_is_skipped_and_a_long_text_is_not() {
        let text = format!("[\"{}\\\"{}\"]", "[,{".repeat(MAX_VALUES), ",".repeat(MAX_VALUES));
        for (data, is_whole) in [
            (format!("[{}0]", "0,".repeat(MAX_VALUES)), false),
            ("{".repeat(MAX_VALUES + 1), false),
            (text, true),
            (format!("[\"{}", "\\\\,".repeat(MAX_VALUES)), true),
        ] {
            let stream = format!("event: x\ndata: {data}\n\n");
            let expected = is_whole.then_some(data);
            assert!(read(&[stream.as_bytes()], 1 << 20) == [("x".to_owned(), expected)]);
        }
    }

    #[test]
    fn many_short_lines_of_one_event_count_together() {
        let long = format!("{}\n", "data: 0123456789\n".repeat(20));
        assert_eq!(read(&[long.as_bytes()], 100), [(String::new(), None)]);
    }

    #[test]
    fn the_last_event_counts_without_its_blank_line_but_not_without_its_line_end() {
        assert_eq!(read(&[b"data: [DONE]\n"], 100), [event("", "[DONE]")]);
        assert_eq!(read(&[b"data: [DO"], 100), []);
    }
}
