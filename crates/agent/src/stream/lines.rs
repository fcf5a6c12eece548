//! Splits chunks of bytes into lines.
//!
//! A line within one chunk is not copied. Chunks are split at newlines only, so characters stay whole. A line over the
//! limit is shortened.

use memchr::memchr;

use super::shorten::Shortener;

/// Splits chunks into lines.
#[derive(Debug)]
pub struct Lines {
    torn: Vec<u8>,
    limit: usize,
    long: Option<Shortener>,
    too_long: u64,
}

/// A line without its newline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line<'l> {
    /// The bytes.
    pub bytes: &'l [u8],
    /// The number of bytes that were cut.
    pub left_out: u64,
}

impl Lines {
    /// Creates a splitter for lines of at most `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self { torn: Vec::new(), limit, long: None, too_long: 0 }
    }

    /// Adds a chunk and passes on every complete line.
    pub fn push(&mut self, mut chunk: &[u8], mut line: impl FnMut(Line<'_>)) {
        while let Some(end) = memchr(b'\n', chunk) {
            let (head, rest) = chunk.split_at(end);
            chunk = rest.get(1..).unwrap_or_default();
            if self.long.is_none() && self.torn.is_empty() && head.len() <= self.limit {
                line(Line { bytes: head, left_out: 0 });
            } else {
                self.keep(head);
                self.finish(&mut line);
            }
        }
        self.keep(chunk);
    }

    /// Passes on the text after the last newline.
    pub fn finish(&mut self, mut line: impl FnMut(Line<'_>)) {
        if let Some(long) = self.long.take() {
            if let Some((bytes, left_out)) = long.finish() {
                line(Line { bytes: &bytes, left_out });
            }
        } else if !self.torn.is_empty() {
            line(Line { bytes: &self.torn, left_out: 0 });
            self.torn.clear();
        }
    }

    /// Returns the number of lines over the limit.
    pub fn too_long(&self) -> u64 {
        self.too_long
    }

    fn keep(&mut self, bytes: &[u8]) {
        if let Some(long) = &mut self.long {
            long.push(bytes);
        } else if self.torn.len() + bytes.len() > self.limit {
            self.too_long += 1;
            self.torn.extend_from_slice(bytes);
            self.long = Some(Shortener::new(self.limit, &std::mem::take(&mut self.torn)));
        } else {
            self.torn.extend_from_slice(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(chunks: &[&[u8]], limit: usize) -> (Vec<String>, u64) {
        let mut lines = Lines::new(limit);
        let mut out = Vec::new();
        let mut keep = |line: Line<'_>| out.push(String::from_utf8_lossy(line.bytes).into_owned());
        for chunk in chunks {
            lines.push(chunk, &mut keep);
        }
        lines.finish(&mut keep);
        (out, lines.too_long())
    }

    #[test]
    fn lines_are_the_same_however_the_bytes_arrive() {
        let text = "eins\n\nzwei 你好\ndrei".as_bytes();
        let whole = cut(&[text], 100);
        assert_eq!(whole.0, ["eins", "", "zwei 你好", "drei"]);
        for size in 1..text.len() {
            let chunks: Vec<&[u8]> = text.chunks(size).collect();
            assert_eq!(cut(&chunks, 100), whole, "chunks of {size} bytes");
        }
    }

    #[test]
    fn a_line_over_the_limit_is_shortened_and_counted() {
        let text = b"ok\n0123456789\nok\n{\"a\":\"bcd\"}";
        for size in 1..text.len() {
            let chunks: Vec<&[u8]> = text.chunks(size).collect();
            let lines = ["ok", "012345678", "ok", "{\"a\":\"bcd\"}"].map(str::to_owned).to_vec();
            assert_eq!(cut(&chunks, 9), (lines, 2), "chunks of {size} bytes");
        }
    }
}
