//! Facts about a file's text: its encoding and its lines.

/// Returns whether bytes are UTF-16 text, by their mark or by their zeroes.
pub fn looks_like_utf16(bytes: &[u8]) -> bool {
    if bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]) {
        return true;
    }
    let head = &bytes[..bytes.len().min(64)];
    let odd = head.iter().skip(1).step_by(2);
    let even = head.iter().step_by(2);
    let pairs = head.len() / 2;
    let all_zero = |zeroes: usize| pairs >= 4 && zeroes == pairs;
    all_zero(odd.filter(|byte| **byte == 0).count())
        || all_zero(even.take(pairs).filter(|byte| **byte == 0).count())
}

/// Returns the 1-based line of a byte offset.
pub fn line_at(text: &str, offset: usize) -> u64 {
    let before = &text.as_bytes()[..offset.min(text.len())];
    memchr::memchr_iter(b'\n', before).count() as u64 + 1
}

/// Counts lines on the way through a text, so that many places cost no more than the last one.
#[derive(Debug)]
pub struct LineCounter<'a> {
    text: &'a str,
    at: usize,
    line: u64,
}

impl<'a> LineCounter<'a> {
    /// Creates a counter at the beginning of a text.
    pub fn new(text: &'a str) -> Self {
        Self { text, at: 0, line: 1 }
    }

    /// Returns the 1-based line of a byte offset; asking in ascending order is cheap.
    pub fn line(&mut self, offset: usize) -> u64 {
        let offset = offset.min(self.text.len());
        if offset < self.at {
            *self = Self::new(self.text);
        }
        let between = &self.text.as_bytes()[self.at..offset];
        self.line += memchr::memchr_iter(b'\n', between).count() as u64;
        self.at = offset;
        self.line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn utf16_is_known_by_its_mark_or_its_zeroes() {
        assert!(looks_like_utf16(b"\xff\xfea\0b\0"));
        assert!(looks_like_utf16(b"h\0e\0l\0l\0o\0"));
        assert!(looks_like_utf16(b"\0h\0e\0l\0l\0o"));
        assert!(!looks_like_utf16(b"plain ascii text"));
        assert!(!looks_like_utf16(b"a\0"));
        assert!(!looks_like_utf16(b""));
    }

    #[test]
    fn lines_are_counted_from_one() {
        assert_eq!(line_at("a\nb\nc", 0), 1);
        assert_eq!(line_at("a\nb\nc", 4), 3);
        assert_eq!(line_at("a", 99), 1);
        let mut counter = LineCounter::new("a\nb\nc");
        let lines = [0, 2, 4, 1].map(|offset| counter.line(offset));
        assert_eq!(lines, [1, 2, 3, 1]);
    }
}
