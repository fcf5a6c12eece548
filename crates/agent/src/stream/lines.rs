//! Lines: bytes in, whole lines out, whatever the chunks were.
//!
//! A line that lies within one chunk is not copied. Cutting happens at newlines only, so a character
//! that was split over two chunks is whole again in its line. A line over the limit is left out.

use memchr::memchr;

/// Cuts chunks into lines.
#[derive(Debug)]
pub struct Lines {
    torn: Vec<u8>,
    limit: usize,
    skipping: bool,
    too_long: u64,
}

impl Lines {
    /// Creates a cutter for lines of at most `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self { torn: Vec::new(), limit, skipping: false, too_long: 0 }
    }

    /// Takes a chunk and hands on every line that it completes, without its newline.
    pub fn push(&mut self, mut chunk: &[u8], mut line: impl FnMut(&[u8])) {
        while let Some(end) = memchr(b'\n', chunk) {
            let (head, rest) = chunk.split_at(end);
            chunk = rest.get(1..).unwrap_or_default();
            if self.skipping {
                self.skipping = false;
            } else if self.torn.len() + head.len() > self.limit {
                self.too_long += 1;
                self.torn.clear();
            } else if self.torn.is_empty() {
                line(head);
            } else {
                self.torn.extend_from_slice(head);
                line(&self.torn);
                self.torn.clear();
            }
        }
        if self.skipping {
            return;
        }
        if self.torn.len() + chunk.len() > self.limit {
            self.torn = Vec::new();
            self.skipping = true;
            self.too_long += 1;
        } else {
            self.torn.extend_from_slice(chunk);
        }
    }

    /// Hands on what stands behind the last newline.
    pub fn finish(&mut self, mut line: impl FnMut(&[u8])) {
        let last = std::mem::take(&mut self.torn);
        if !last.is_empty() {
            line(&last);
        }
    }

    /// Returns how many lines were left out because of their length.
    pub fn too_long(&self) -> u64 {
        self.too_long
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(chunks: &[&[u8]], limit: usize) -> (Vec<String>, u64) {
        let mut lines = Lines::new(limit);
        let mut out = Vec::new();
        let mut keep = |line: &[u8]| out.push(String::from_utf8_lossy(line).into_owned());
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
    fn a_line_over_the_limit_is_left_out_and_counted() {
        let text = b"ok\n0123456789\nok\n0123456789";
        for size in 1..text.len() {
            let chunks: Vec<&[u8]> = text.chunks(size).collect();
            assert_eq!(cut(&chunks, 9), (vec!["ok".into(), "ok".into()], 2));
        }
    }
}
