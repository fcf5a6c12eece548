//! Splits chunks of bytes into lines.
//!
//! A line within one chunk is not copied. Chunks are split only at newlines, so characters stay whole. A line
//! over a limit is shortened.

use memchr::memchr;

use super::shorten::Shortener;

/// The maximum number of values in a line of JSON; a parsed value takes many times the memory of its text.
pub(crate) const MAX_VALUES: usize = 100_000;

/// Splits chunks into lines.
#[derive(Debug)]
pub struct LineSplitter {
    torn: Vec<u8>,
    limit: usize,
    /// The size up to which a line certainly is within every limit.
    plain_limit: usize,
    is_json: bool,
    long: Option<Shortener>,
    too_long: u64,
}

/// A line without its newline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line<'l> {
    pub bytes: &'l [u8],
    /// The number of bytes that were cut.
    pub left_out: u64,
}

impl LineSplitter {
    /// Creates a splitter for lines of JSON, of at most `limit` bytes and a fixed number of values.
    pub fn json(limit: usize) -> Self {
        let plain_limit = limit.min(MAX_VALUES);
        Self { torn: Vec::new(), limit, plain_limit, is_json: true, long: None, too_long: 0 }
    }

    /// Creates a splitter for lines of text, of at most `limit` bytes.
    pub fn text(limit: usize) -> Self {
        Self { plain_limit: limit, is_json: false, ..Self::json(limit) }
    }

    /// Adds a chunk, and calls `line` for every complete line.
    pub fn push(&mut self, mut chunk: &[u8], mut line: impl FnMut(Line<'_>)) {
        while let Some(end) = memchr(b'\n', chunk) {
            let (head, rest) = chunk.split_at(end);
            chunk = rest.get(1..).unwrap_or_default();
            if self.long.is_none() && self.torn.is_empty() && head.len() <= self.plain_limit {
                line(Line { bytes: head, left_out: 0 });
            } else {
                self.keep(head);
                self.finish(&mut line);
            }
        }
        self.keep(chunk);
    }

    /// Calls `line` for the text after the last newline.
    pub fn finish(&mut self, mut line: impl FnMut(Line<'_>)) {
        if let Some(long) = self.long.take() {
            match long.finish() {
                Some((bytes, left_out)) => {
                    self.too_long += u64::from(left_out > 0);
                    line(Line { bytes: &bytes, left_out });
                }
                None => self.too_long += 1,
            }
        } else if !self.torn.is_empty() {
            line(Line { bytes: &self.torn, left_out: 0 });
            self.torn.clear();
        }
    }

    /// Returns the number of lines over a limit.
    pub fn too_long(&self) -> u64 {
        self.too_long
    }

    fn keep(&mut self, bytes: &[u8]) {
        if let Some(long) = &mut self.long {
            return long.push(bytes);
        }
        self.torn.extend_from_slice(bytes);
        if self.torn.len() > self.plain_limit {
            let beginning = std::mem::take(&mut self.torn);
            let shorten = if self.is_json { Shortener::json } else { Shortener::text };
            self.long = Some(shorten(self.limit, &beginning));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(chunks: &[&[u8]], limit: usize) -> (Vec<String>, u64) {
        let mut lines = LineSplitter::json(limit);
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
    fn a_line_of_json_keeps_a_bounded_number_of_values_and_text_keeps_them_all() {
        let list = format!("{{\"type\":\"x\",\"list\":[{}0]}}\nnext", "0,".repeat(MAX_VALUES));
        let lines = |mut lines: LineSplitter| {
            let mut sizes = Vec::new();
            let mut keep = |line: Line<'_>| sizes.push((line.bytes.len(), line.left_out > 0));
            list.as_bytes().chunks(4096).for_each(|chunk| lines.push(chunk, &mut keep));
            lines.finish(&mut keep);
            (sizes, lines.too_long())
        };
        let (sizes, too_long) = lines(LineSplitter::json(1 << 20));
        assert!(sizes[0].0 < 2 * MAX_VALUES + 20 && sizes[0].1, "{sizes:?}");
        assert_eq!((sizes[1], too_long), ((4, false), 1));
        let whole = list.len() - "\nnext".len();
        assert_eq!(lines(LineSplitter::text(1 << 20)), (vec![(whole, false), (4, false)], 0));
    }

    #[test]
    fn a_line_over_the_limit_is_shortened_and_counted() {
        let text = b"ok\n0123456789\nok\n{\"a\":\"bcd\"}";
        for size in 1..text.len() {
            let chunks: Vec<&[u8]> = text.chunks(size).collect();
            let lines = ["ok", "012345678", "ok", "{\"a\":\"bcd\"}"].map(str::to_owned).to_vec();
            assert_eq!(cut(&chunks, 9), (lines, 1), "chunks of {size} bytes");
        }
    }
}
