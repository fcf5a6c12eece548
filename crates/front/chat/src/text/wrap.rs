//! Wraps text by display width.

use std::ops::Range;

use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

/// Wraps printable text at spaces, between wide characters, or else anywhere. O(text).
pub(crate) fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    wrap_onto(text, width, &mut lines);
    lines
}

/// Appends the lines of a text, and returns the start of the last line, the only one that changes when text is
/// appended.
pub(crate) fn wrap_onto(text: &str, width: usize, lines: &mut Vec<String>) -> usize {
    wrap_lines(text, width, |range| lines.push(text[range].to_owned()))
}

/// Calls `line` with the range of each line, in order, and returns the start of the last one.
pub(crate) fn wrap_lines(text: &str, width: usize, mut line: impl FnMut(Range<usize>)) -> usize {
    let mut begins = 0;
    let mut last = 0;
    for written in text.split('\n') {
        let shifted = |range: Range<usize>| line(begins + range.start..begins + range.end);
        last = begins + wrap_line(written, width.max(2), shifted);
        begins += written.len() + 1;
    }
    last
}

fn wrap_line(line: &str, width: usize, mut emit: impl FnMut(Range<usize>)) -> usize {
    // The start and width of the current line, and its last break opportunity with the width up to it.
    let (mut start, mut filled) = (0, 0);
    let mut last_break: Option<(usize, usize)> = None;
    let mut is_indented = true;
    let trimmed = |from: usize, to: usize| from..from + line[from..to].trim_end_matches(' ').len();
    for (at, grapheme) in line.grapheme_indices(true) {
        let wide = grapheme.width();
        let is_space = grapheme == " ";
        while filled + wide > width && filled > 0 && !is_space {
            let (cut, before) = last_break.take().unwrap_or((at, filled));
            emit(trimmed(start, cut));
            start = cut;
            filled -= before;
        }
        filled += wide;
        if is_space && !is_indented || wide > 1 {
            last_break = Some((at + grapheme.len(), filled));
        }
        is_indented &= is_space;
    }
    emit(trimmed(start, line.len()));
    start
}

/// Cuts a line to a width, with a mark at the cut.
pub(crate) fn clip(line: &str, width: usize) -> String {
    if line.width() <= width {
        return line.to_owned();
    }
    let mut clipped = String::new();
    let mut filled = 1;
    for grapheme in line.graphemes(true) {
        filled += grapheme.width();
        if filled > width {
            break;
        }
        clipped.push_str(grapheme);
    }
    if width > 0 {
        clipped.push('…');
    }
    clipped
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lines_break_at_spaces_and_else_anywhere() {
        for (text, lines) in [
            ("", &[""][..]),
            ("one two three", &["one two", "three"]),
            ("one  two  three", &["one  two", "three"]),
            ("abcdefghijk", &["abcdefgh", "ijk"]),
            ("    abcdefgh", &["    abcd", "efgh"]),
            ("a\n\nb", &["a", "", "b"]),
            ("漢字漢字漢字", &["漢字漢字", "漢字"]),
            ("ab漢字漢字", &["ab漢字漢", "字"]),
            ("a漢字漢字漢", &["a漢字漢", "字漢"]),
            ("👩‍👩‍👧👩‍👩‍👧👩‍👩‍👧👩‍👩‍👧👩‍👩‍👧", &["👩‍👩‍👧👩‍👩‍👧👩‍👩‍👧👩‍👩‍👧", "👩‍👩‍👧"]),
        ] {
            assert_eq!(wrap(text, 8), lines, "{text}");
        }
    }

    #[test]
    fn a_clipped_line_ends_with_a_mark() {
        let clipped = ["abc", "abcd", "漢字"].map(|line| clip(line, 3));
        assert_eq!(clipped, ["abc", "ab…", "漢…"]);
        assert_eq!(clip("abc", 0), "");
    }

    proptest! {
        #[test]
        fn no_line_is_too_wide_and_nothing_but_spaces_is_lost(
            text in "[ a-z漢é👩\u{301}\n]{0,200}", width in 2_usize..30,
        ) {
            let lines = wrap(&text, width);
            for line in &lines {
                prop_assert!(line.width() <= width, "{line:?} in {width}");
            }
            let solid = |text: &str| text.replace([' ', '\n'], "");
            prop_assert_eq!(solid(&lines.concat()), solid(&text));
        }
    }
}
