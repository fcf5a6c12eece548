//! Line breaks, as ECMAScript has them: LF, CR, CRLF, U+2028, U+2029.

use std::ops::Range;

use memchr::{memchr_iter, memchr2, memchr3_iter};

/// The first byte of U+2028 and U+2029, and the two others of each.
const LEAD: u8 = 0xE2;
const LINE_SEPARATOR: [u8; 2] = [0x80, 0xA8];
const PARAGRAPH_SEPARATOR: [u8; 2] = [0x80, 0xA9];

/// Returns where each line break stands. That of a CRLF is its LF.
pub(crate) fn line_breaks(text: &str) -> impl DoubleEndedIterator<Item = Range<usize>> {
    let bytes = text.as_bytes();
    memchr3_iter(b'\n', b'\r', LEAD, bytes).filter_map(move |at| {
        let rest = &bytes[at + 1..];
        let len = match bytes[at] {
            b'\n' => 1,
            b'\r' if rest.first() != Some(&b'\n') => 1,
            LEAD if rest.starts_with(&LINE_SEPARATOR) => 3,
            LEAD if rest.starts_with(&PARAGRAPH_SEPARATOR) => 3,
            _ => return None,
        };
        Some(at..at + len)
    })
}

/// Returns how many line breaks there are.
pub(crate) fn count_line_breaks(text: &str) -> usize {
    let bytes = text.as_bytes();
    // To count one byte is much quicker than to stop at each of three.
    match memchr2(b'\r', LEAD, bytes) {
        None => memchr_iter(b'\n', bytes).count(),
        Some(_) => line_breaks(text).count(),
    }
}

/// Tells whether a byte can be the last of a line break.
pub(crate) fn ends_line_break(byte: u8) -> bool {
    matches!(byte, b'\n' | b'\r' | 0xA8 | 0xA9)
}

/// Returns where each line but the first begins.
pub(crate) fn line_starts(text: &str) -> impl Iterator<Item = usize> {
    line_breaks(text).map(|line_break| line_break.end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_line_break_is_found_once() {
        let text = "a\nb\r\nc\rd\u{2028}e\u{2029}f\u{201C}g\n\r";
        assert_eq!(count_line_breaks(text), 7);
        assert_eq!(count_line_breaks("a\nb\n\n"), 3);
        let starts: Vec<_> = line_starts(text).map(|start| &text[start..]).collect();
        let rests = ["b", "c", "d", "e", "f", "\r", ""];
        assert_eq!(starts.len(), rests.len());
        assert!(
            starts.iter().zip(rests).all(|(start, rest)| start.starts_with(rest)),
            "{starts:?}"
        );
    }
}
