//! Shortens JSON lines over the limit so that they still parse.
//!
//! The string that crosses the limit is cut and closed, later strings are kept up to a small size, and the structure
//! around them is kept. A line that is still too long, or has too many values, is closed after its last complete value.
//! Text that is not JSON is truncated.

use memchr::memchr2;

use super::lines::MAX_VALUES;

/// The number of bytes beyond the limit that may follow the cut string.
const TAIL: usize = 64 << 10;
/// The size up to which a string is never cut.
const SHORT: usize = 1 << 10;

/// Shortens one line while its bytes arrive.
#[derive(Debug, Default)]
pub(super) struct Shortener {
    kept: Vec<u8>,
    limit: usize,
    left_out: u64,
    is_json: bool,
    values: usize,
    /// The open brackets.
    open: Vec<u8>,
    string: Option<StringState>,
    /// The end of the last complete value, and the number of open brackets there.
    whole: Option<(usize, usize)>,
    /// Whether the line was closed early.
    closed: bool,
}

/// A string that is being read.
#[derive(Debug)]
struct StringState {
    /// The length of the kept line at which the string is cut.
    end: usize,
    cut: bool,
    /// An incomplete escape sequence.
    escape: Vec<u8>,
    /// The start of a high surrogate that waits for its low surrogate.
    half: Option<usize>,
}

impl Shortener {
    /// Creates a shortener that keeps about `limit` bytes of a line. The line is JSON if it begins like JSON.
    pub fn json(limit: usize, beginning: &[u8]) -> Self {
        let first = beginning.iter().find(|byte| !byte.is_ascii_whitespace());
        Self::new(limit, matches!(first, Some(b'{' | b'[')), beginning)
    }

    /// Creates a shortener that keeps `limit` bytes of a line of text.
    pub fn text(limit: usize, beginning: &[u8]) -> Self {
        Self::new(limit, false, beginning)
    }

    fn new(limit: usize, is_json: bool, beginning: &[u8]) -> Self {
        let mut shortener = Self { limit, is_json, ..Self::default() };
        shortener.push(beginning);
        shortener
    }

    /// Reads the next bytes of the line.
    pub fn push(&mut self, mut bytes: &[u8]) {
        if !self.is_json {
            let room = self.limit.saturating_sub(self.kept.len()).min(bytes.len());
            self.kept.extend_from_slice(&bytes[..room]);
            self.left_out += (bytes.len() - room) as u64;
            return;
        }
        while let Some((&byte, rest)) = bytes.split_first() {
            if self.closed {
                self.left_out += bytes.len() as u64;
                return;
            }
            bytes = if let Some(string) = self.string.take() {
                self.in_string(string, bytes)
            } else {
                self.structure(byte);
                rest
            };
        }
    }

    /// Returns the line and the number of bytes cut; `None` if no part of it can be parsed.
    pub fn finish(mut self) -> Option<(Vec<u8>, u64)> {
        if !self.is_json {
            let kept = whole_characters(&self.kept);
            self.left_out += (self.kept.len() - kept) as u64;
            self.kept.truncate(kept);
        }
        (!self.closed || self.whole.is_some()).then_some((self.kept, self.left_out))
    }

    fn structure(&mut self, byte: u8) {
        match byte {
            b'"' => {
                // A short string, for example a field name, is never cut.
                let end = self.limit.max(self.kept.len() + SHORT);
                self.string = Some(StringState { end, cut: false, escape: Vec::new(), half: None });
            }
            b'{' => self.open.push(b'}'),
            b'[' => self.open.push(b']'),
            b'}' | b']' => drop(self.open.pop()),
            b',' => self.whole = Some((self.kept.len(), self.open.len())),
            _ => {}
        }
        self.values += usize::from(matches!(byte, b'{' | b'[' | b','));
        self.kept.push(byte);
        if self.kept.len() > self.limit + TAIL || self.values > MAX_VALUES {
            self.close();
        }
    }

    /// Closes the line after its last complete value.
    fn close(&mut self) {
        self.closed = true;
        self.string = None;
        let (end, open) = self.whole.unwrap_or_default();
        self.left_out += (self.kept.len() - end) as u64;
        self.kept.truncate(end);
        self.kept.extend(self.open.iter().take(open).rev());
    }

    /// Reads bytes of a string and returns the rest.
    fn in_string<'b>(&mut self, mut string: StringState, bytes: &'b [u8]) -> &'b [u8] {
        if !string.escape.is_empty() {
            let (byte, rest) = bytes.split_at(1);
            string.escape.extend_from_slice(byte);
            if string.escape.len() == escape_bytes(&string.escape) {
                self.keep_escape(&mut string);
            }
            self.string = Some(string);
            return rest;
        }
        let end = memchr2(b'"', b'\\', bytes).unwrap_or(bytes.len());
        let (text, rest) = bytes.split_at(end);
        self.keep_text(&mut string, text);
        match rest.split_first() {
            Some((b'"', rest)) => {
                self.kept.push(b'"');
                rest
            }
            Some((_, rest)) => {
                string.escape.push(b'\\');
                self.string = Some(string);
                rest
            }
            None => {
                self.string = Some(string);
                rest
            }
        }
    }

    fn keep_text(&mut self, string: &mut StringState, text: &[u8]) {
        if text.is_empty() {
            return;
        }
        let room = string.end.saturating_sub(self.kept.len()).min(text.len());
        let room = if string.cut { 0 } else { room };
        self.kept.extend_from_slice(&text[..room]);
        self.left_out += (text.len() - room) as u64;
        if room < text.len() {
            self.cut(string);
        } else {
            string.half = None;
        }
    }

    fn keep_escape(&mut self, string: &mut StringState) {
        let escape = std::mem::take(&mut string.escape);
        let (bytes, is_half) = decoded(&escape);
        if string.cut || self.kept.len() + escape.len() > string.end {
            self.left_out += bytes;
            return self.cut(string);
        }
        let follows_half = string.half.take().is_some();
        string.half = (is_half && !follows_half).then_some(self.kept.len());
        self.kept.extend_from_slice(&escape);
    }

    /// Cuts a string at a character boundary.
    fn cut(&mut self, string: &mut StringState) {
        if std::mem::replace(&mut string.cut, true) {
            return;
        }
        let whole = whole_characters(&self.kept);
        self.left_out += (self.kept.len() - whole) as u64;
        self.kept.truncate(whole);
        if let Some(half) = string.half.take() {
            self.left_out += 2;
            self.kept.truncate(half);
        }
    }
}

/// Returns the length of an escape sequence, given its beginning.
fn escape_bytes(escape: &[u8]) -> usize {
    if escape.get(1) == Some(&b'u') { 6 } else { 2 }
}

/// Returns the decoded length of an escape sequence, and whether it is a surrogate.
fn decoded(escape: &[u8]) -> (u64, bool) {
    let digits = escape.get(2..).and_then(|digits| std::str::from_utf8(digits).ok());
    match digits.map(|digits| u32::from_str_radix(digits, 16)) {
        Some(Ok(0xd800..=0xdfff)) => (2, true),
        Some(Ok(code @ 0x80..)) => (if code < 0x800 { 2 } else { 3 }, false),
        _ => (1, false),
    }
}

/// Returns the length of a text without an incomplete character at the end.
fn whole_characters(text: &[u8]) -> usize {
    let last = text.iter().rposition(|byte| byte & 0xc0 != 0x80).unwrap_or(0);
    match std::str::from_utf8(&text[last..]) {
        // An incomplete character; other errors are invalid bytes.
        Err(error) if error.error_len().is_none() => last,
        _ => text.len(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    /// Shortens a line that arrives in chunks.
    fn shorten(line: &[u8], limit: usize, chunk: usize) -> Option<(Vec<u8>, u64)> {
        let mut chunks = line.chunks(chunk);
        let mut shortener = Shortener::json(limit, chunks.next().unwrap_or_default());
        chunks.for_each(|bytes| shortener.push(bytes));
        shortener.finish()
    }

    #[test]
    fn the_event_is_whole_and_its_long_text_is_cut() {
        let text = "é\n\"".repeat(SHORT);
        let line = json!({"a": 1, "text": text, "type": "result", "usage": {"in": [1, 2]}});
        let line = line.to_string();
        for limit in 2000..2020 {
            for chunk in [1, 3, 1000] {
                let (short, left_out) = shorten(line.as_bytes(), limit, chunk).unwrap();
                let event: Value = serde_json::from_slice(&short).unwrap();
                let kept = event["text"].as_str().unwrap();
                assert!(text.starts_with(kept) && kept.len() <= limit);
                assert_eq!(left_out, (text.len() - kept.len()) as u64, "limit {limit}");
                assert_eq!(event["type"], "result");
                assert_eq!(event["usage"]["in"], json!([1, 2]));
            }
        }
    }

    #[test]
    fn half_of_a_character_is_not_kept() {
        let long = "x".repeat(2000);
        let text = format!("{long}😀😀éx");
        let line = format!(r#"{{"t":"{long}\ud83d\ude00\ud83d\ude00\u00e9x","k":1}}"#);
        for limit in 2000..line.len() {
            let (short, left_out) = shorten(line.as_bytes(), limit, 5).unwrap();
            let event: Value = serde_json::from_slice(&short).unwrap();
            let kept = event["t"].as_str().unwrap();
            assert!(text.starts_with(kept));
            assert_eq!(left_out, (text.len() - kept.len()) as u64);
        }
    }

    #[test]
    fn a_line_of_many_values_is_closed_after_a_whole_one() {
        let line = format!("{{\"type\":\"result\",\"list\":[{}0]}}", "12345,".repeat(30_000));
        let (short, left_out) = shorten(line.as_bytes(), 100, 999).unwrap();
        assert!(short.len() <= 100 + TAIL + 2 && left_out > 0);
        let event: Value = serde_json::from_slice(&short).unwrap();
        assert_eq!(event["type"], "result");
        assert!(shorten(&vec![b'['; 100_000], 100, 999).is_none());
    }

    #[test]
    fn text_loses_its_end() {
        assert_eq!(shorten("aéz".as_bytes(), 2, 1), Some((b"a".to_vec(), 3)));
    }

    proptest! {
        #[test]
        fn any_event_stays_readable(text in ".{0,40}", more in "\\PC{0,40}", limit in 1usize..9000, chunk in 1usize..300) {
            let (text, more) = (text.repeat(100), more.repeat(50));
            let line = json!({"first": text, "list": [more, {"k": text}], "type": "result"}).to_string();
            let (short, _) = shorten(line.as_bytes(), limit, chunk).unwrap();
            let event: Value = serde_json::from_slice(&short).unwrap();
            prop_assert_eq!(&event["type"], "result");
            prop_assert!(text.starts_with(event["first"].as_str().unwrap()));
        }
    }

    /// Parts of lines; each is repeated, so that a line grows past every limit.
    const PARTS: [&[u8]; 12] = [
        b"[",
        b"{",
        b"]",
        b"}",
        b"\"",
        b"\\",
        b"\\u00e9",
        b"12,",
        b"\"k\":",
        b"\"text\",",
        b"x",
        b"\xff\xc3",
    ];

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn any_line_is_bounded(
            is_json: bool,
            parts in prop::collection::vec((prop::sample::select(PARTS.to_vec()), 1usize..60_000), 1..6),
            limit in 1usize..5000,
        ) {
            let mut line = if is_json { b"{\"first\":[".to_vec() } else { b"text ".to_vec() };
            for (part, times) in &parts {
                line.extend(part.repeat(*times));
            }
            if let Some((short, left_out)) = shorten(&line, limit, 997) {
                let longest = if is_json { limit + TAIL + SHORT + 2 } else { limit };
                // What is closed early gets the brackets that are open there.
                let brackets = short.iter().rev().take_while(|byte| b"]}".contains(byte)).count();
                prop_assert!(short.len() - brackets <= longest, "{} bytes", short.len());
                prop_assert!(brackets <= longest, "{brackets} brackets");
                prop_assert!(left_out > 0 || short == line);
            }
        }
    }

    #[test]
    fn a_line_reaches_the_bound_and_not_further() {
        // Short strings are kept behind the limit, until the tail is full.
        let line = format!("[{}0]", "\"0123456789\",".repeat(TAIL));
        let (short, left_out) = shorten(line.as_bytes(), 100, 999).unwrap();
        assert!((TAIL..=100 + TAIL + 13).contains(&short.len()), "{} bytes", short.len());
        assert_eq!(left_out, (line.len() + 1 - short.len()) as u64);
    }
}
