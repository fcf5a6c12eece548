//! Printable text: control and invisible characters are replaced by marks.

use std::borrow::Cow;
use std::fmt::Write as _;

use unicode_segmentation::UnicodeSegmentation;

/// The maximum size of a grapheme that is shown: enough for emoji families, not for piles of accents.
const MAX_BYTES: usize = 64;

/// Returns a text with line breaks and printable characters only. Control and invisible characters are
/// replaced by marks.
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.chars().any(|c| c != '\n' && is_dangerous(c)) && !has_piles(text) {
        return Cow::Borrowed(text);
    }
    let mut clean = String::with_capacity(text.len());
    for grapheme in text.graphemes(true) {
        match grapheme {
            "\n" | "\r\n" | "\u{2028}" | "\u{2029}" => clean.push('\n'),
            "\t" => clean.push_str("    "),
            _ => clean.push_str(&shown(grapheme)),
        }
    }
    Cow::Owned(clean)
}

/// Returns a text as one line of printable text.
pub(crate) fn printable_line(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    printable(&words.join(" ")).into_owned()
}

/// Returns the printable form of a grapheme.
pub(crate) fn shown(grapheme: &str) -> Cow<'_, str> {
    if grapheme.len() > MAX_BYTES {
        return Cow::Borrowed("\u{FFFD}");
    }
    if !grapheme.chars().any(is_dangerous) {
        return Cow::Borrowed(grapheme);
    }
    let mut marks = String::new();
    for c in grapheme.chars() {
        let mark = match c {
            '\t' => '⇥',
            '\u{0}'..='\u{1F}' => char::from_u32(0x2400 + u32::from(c)).unwrap_or('\u{FFFD}'),
            '\u{7F}' => '\u{2421}',
            c if is_dangerous(c) => '\u{FFFD}',
            c => c,
        };
        // Writing to a string cannot fail.
        let _ = marks.write_char(mark);
    }
    Cow::Owned(marks)
}

/// Returns whether a character controls the terminal, changes the direction of writing, or is invisible where
/// it could carry a message.
pub fn is_dangerous(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{AD}' | '\u{61C}' | '\u{180E}' | '\u{200B}' | '\u{200E}' | '\u{200F}'
            | '\u{2028}'..='\u{202E}' | '\u{2060}'..='\u{206F}' | '\u{FEFF}'
            | '\u{FFF9}'..='\u{FFFB}' | '\u{E0000}'..='\u{E0FFF}')
}

/// Returns whether a text has a grapheme that is longer than a letter with its accents.
pub(super) fn has_piles(text: &str) -> bool {
    // ASCII has no combining characters.
    !text.is_ascii() && text.graphemes(true).any(|grapheme| grapheme.len() > MAX_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_sequences_become_marks() {
        for (text, clean) in [
            ("plain\ntext", "plain\ntext"),
            ("\u{1b}[31mred\u{1b}[0m", "␛[31mred␛[0m"),
            ("\u{1b}]0;title\u{7}", "␛]0;title␇"),
            ("\u{9b}2J\u{7f}", "\u{FFFD}2J␡"),
            ("a\r\nb\rc", "a\nb␍c"),
            ("a\tb", "a    b"),
            ("\u{202e}evil\u{2066}", "\u{FFFD}evil\u{FFFD}"),
            ("hidden\u{e0041}\u{e0042}", "hidden\u{FFFD}\u{FFFD}"),
            ("漢字 👩‍👩‍👧 é", "漢字 👩‍👩‍👧 é"),
        ] {
            assert_eq!(printable(text), clean, "{text:?}");
        }
    }

    #[test]
    fn a_pile_of_accents_does_not_run_over_other_lines() {
        let pile = format!("a{}", "\u{301}".repeat(500));
        assert_eq!(printable(&format!("x{pile}y")), "x\u{FFFD}y");
    }

    #[test]
    fn a_line_has_no_breaks() {
        assert_eq!(printable_line(" a\n\n b\u{1b}c "), "a b␛c");
    }
}
