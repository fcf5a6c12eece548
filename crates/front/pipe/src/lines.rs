//! Splits a stream into lines of bytes. The caller rejects invalid UTF-8.

use std::fmt;
use std::io::{self, BufRead, Read};

use convoke_core::json::has_more_values;

/// The default maximum size of a line.
pub const DEFAULT_LINE_BYTES: u64 = 64 << 20;

/// The maximum number of values in a line.
const MAX_VALUES: usize = 4_000_000;

/// One line and its 1-based number.
pub(crate) struct Line {
    pub(crate) number: u64,
    pub(crate) bytes: Result<Vec<u8>, TooLarge>,
}

/// A line over a limit, which was skipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TooLarge {
    Bytes { size: u64, limit: u64 },
    Values,
}

impl fmt::Display for TooLarge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes { size, limit } => write!(
                f,
                "the line has {size} bytes; the limit is {limit} bytes, see --max-line-bytes"
            ),
            Self::Values => write!(f, "the line has more than {MAX_VALUES} values, the limit"),
        }
    }
}

/// Reads the lines that are not blank. At most `limit` bytes of a line are kept, not counting the line break.
pub(crate) fn lines(mut input: impl BufRead, limit: u64) -> impl Iterator<Item = io::Result<Line>> {
    let mut number = 0;
    std::iter::from_fn(move || {
        loop {
            let mut bytes = Vec::new();
            // One more byte, for the line break.
            match (&mut input).take(limit.saturating_add(1)).read_until(b'\n', &mut bytes) {
                Err(error) => return Some(Err(error)),
                Ok(0) => return None,
                Ok(_) => number += 1,
            }
            if bytes.len() as u64 > limit && bytes.last() != Some(&b'\n') {
                let read = bytes.len() as u64;
                drop(bytes);
                let size = skip_line(&mut input).map(|rest| read + rest);
                let line = |size| Line { number, bytes: Err(TooLarge::Bytes { size, limit }) };
                return Some(size.map(line));
            }
            if has_more_values(&bytes, MAX_VALUES) {
                return Some(Ok(Line { number, bytes: Err(TooLarge::Values) }));
            }
            if !bytes.trim_ascii().is_empty() {
                return Some(Ok(Line { number, bytes: Ok(bytes) }));
            }
        }
    })
}

/// Skips the rest of a line and returns its size, without the line break.
fn skip_line(input: &mut impl BufRead) -> io::Result<u64> {
    let mut skipped = 0;
    loop {
        let buffer = input.fill_buf()?;
        if buffer.is_empty() {
            return Ok(skipped);
        }
        let end = buffer.iter().position(|byte| *byte == b'\n');
        let used = end.map_or(buffer.len(), |end| end + 1);
        skipped += end.unwrap_or(buffer.len()) as u64;
        input.consume(used);
        if end.is_some() {
            return Ok(skipped);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the numbers of the lines, each with its bytes or the limit that it exceeds.
    fn read(text: &[u8], limit: u64) -> Vec<(u64, Result<Vec<u8>, TooLarge>)> {
        // A small buffer, so that lines span several reads.
        let lines = lines(io::BufReader::with_capacity(3, text), limit);
        let lines = lines.map(|line| line.unwrap());
        lines.map(|line| (line.number, line.bytes)).collect()
    }

    #[test]
    fn a_line_over_the_limit_is_passed_over_and_the_next_is_read() {
        let found = read(b"12345\n\n123456\nab\n1234567", 5);
        let too_large = |size| Err(TooLarge::Bytes { size, limit: 5 });
        let expected = [
            (1, Ok(b"12345\n".to_vec())),
            (3, too_large(6)),
            (4, Ok(b"ab\n".to_vec())),
            (5, too_large(7)),
        ];
        assert_eq!(found, expected);
        assert_eq!(read(b"12345", 5), [(1, Ok(b"12345".to_vec()))]);
    }

    #[test]
    fn a_line_of_too_many_values_is_passed_over_and_the_next_is_read() {
        let text = format!("[{}0]\n{{}}\n", "0,".repeat(MAX_VALUES));
        let found = read(text.as_bytes(), DEFAULT_LINE_BYTES);
        assert_eq!(found, [(1, Err(TooLarge::Values)), (2, Ok(b"{}\n".to_vec()))]);
    }

    /// A line without an end, which counts the bytes read from it.
    struct Endless {
        left: u64,
    }

    impl Read for Endless {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let size = buffer.len().min(usize::try_from(self.left).unwrap());
            buffer[..size].fill(b'x');
            self.left -= size as u64;
            Ok(size)
        }
    }

    #[test]
    fn no_more_than_the_limit_is_kept_of_a_line_of_any_length() {
        let input = io::BufReader::new(Endless { left: 1 << 28 });
        let mut found = lines(input, 1 << 10);
        let line = found.next().unwrap().unwrap();
        assert_eq!(line.bytes, Err(TooLarge::Bytes { size: 1 << 28, limit: 1 << 10 }));
        assert!(found.next().is_none());
    }
}
