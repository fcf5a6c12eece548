//! Line breaks that a reader of a prompt may recognise: LF, VT, FF, CR, CRLF, U+0085, U+2028 and U+2029.

use std::ops::Range;

use memchr::{memchr_iter, memchr2, memchr3};

/// The number of bytes that are searched at once.
const BLOCK: usize = 64;

/// Returns the line breaks of a text, in order. CRLF counts once, at its LF.
pub(crate) fn line_breaks(text: &str) -> impl Iterator<Item = Range<usize>> {
    let bytes = text.as_bytes();
    let mut from = 0;
    std::iter::from_fn(move || {
        loop {
            let at = from + find_candidate(&bytes[from..])?;
            from = at + 1;
            if let Some(line_break) = line_break_at(bytes, at) {
                from = line_break.end;
                return Some(line_break);
            }
        }
    })
}

/// Returns the last line break of a text. O(the last line).
pub(crate) fn last_line_break(text: &str) -> Option<Range<usize>> {
    let bytes = text.as_bytes();
    (0..bytes.len()).rev().find_map(|at| line_break_at(bytes, at))
}

/// Returns the number of line breaks.
pub(crate) fn count_line_breaks(text: &str) -> usize {
    let bytes = text.as_bytes();
    // Counting one byte is much faster than stopping at each of several.
    match memchr2(0xC2, 0xE2, bytes).or_else(|| memchr3(b'\r', 0x0B, 0x0C, bytes)) {
        None => memchr_iter(b'\n', bytes).count(),
        Some(_) => line_breaks(text).count(),
    }
}

/// Returns whether a byte can be the last of a line break.
pub(crate) fn ends_line_break(byte: u8) -> bool {
    matches!(byte, b'\n'..=b'\r' | 0x85 | 0xA8 | 0xA9)
}

/// Returns where each line but the first begins.
pub(crate) fn line_starts(text: &str) -> impl Iterator<Item = usize> {
    line_breaks(text).map(|line_break| line_break.end)
}

/// Returns the line break that begins at a byte.
fn line_break_at(bytes: &[u8], at: usize) -> Option<Range<usize>> {
    let len = match bytes[at..] {
        [b'\r', b'\n', ..] => return None,
        [b'\n'..=b'\r', ..] => 1,
        [0xC2, 0x85, ..] => 2,
        [0xE2, 0x80, 0xA8 | 0xA9, ..] => 3,
        _ => return None,
    };
    Some(at..at + len)
}

/// Returns the position of the first byte that can begin a line break.
fn find_candidate(bytes: &[u8]) -> Option<usize> {
    // The loop over a block has no branch per byte, so it is vectorised.
    let has_none = |block: &&[u8]| !block.iter().fold(false, |any, &b| any | begins_line_break(b));
    let skipped = BLOCK * bytes.chunks(BLOCK).take_while(has_none).count();
    let rest = bytes.get(skipped..)?;
    Some(skipped + rest.iter().position(|&b| begins_line_break(b))?)
}

#[expect(clippy::needless_bitwise_bool, reason = "without branches the loop over it is vectorised")]
const fn begins_line_break(byte: u8) -> bool {
    (byte.wrapping_sub(b'\n') <= b'\r' - b'\n') | (byte == 0xC2) | (byte == 0xE2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_line_break_is_found_once() {
        let text = "a\nb\r\nc\rd\u{2028}e\u{2029}f\u{201C}g\n\rh\u{B}i\u{C}j\u{85}k\u{A9}";
        assert_eq!(count_line_breaks(text), 10);
        assert_eq!(count_line_breaks("a\nb\n\n"), 3);
        let starts: Vec<_> = line_starts(text).map(|start| &text[start..]).collect();
        let rests = ["b", "c", "d", "e", "f", "\r", "h", "i", "j", "k"];
        assert_eq!(starts.len(), rests.len());
        assert!(
            starts.iter().zip(rests).all(|(start, rest)| start.starts_with(rest)),
            "{starts:?}"
        );
    }

    #[test]
    fn line_breaks_are_found_wherever_they_stand() {
        for line_break in ["\n", "\r", "\u{B}", "\u{C}", "\u{85}", "\u{2028}", "\u{2029}"] {
            for before in 0..3 * BLOCK {
                let text = "é".repeat(before) + line_break + &"x".repeat(BLOCK);
                let range = 2 * before..2 * before + line_break.len();
                assert_eq!(last_line_break(&text), Some(range.clone()));
                assert!(line_breaks(&text).eq([range]));
            }
        }
    }
}
