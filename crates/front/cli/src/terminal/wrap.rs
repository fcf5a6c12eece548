//! Breaks lines between words at the width of a terminal.

use unicode_width::UnicodeWidthChar as _;

/// Breaks the lines of a text that arrives in pieces. Continuation lines keep the indentation; a word
/// that is wider than the terminal stays whole.
#[derive(Debug, Default)]
pub(super) struct LineWrap {
    columns: usize,
    /// The column of the next character.
    column: usize,
    /// The spaces at the beginning of the line.
    indent: usize,
    /// Whether the line is JSON, in which a line break could change a string.
    is_json: bool,
    /// Spaces that were not written yet.
    spaces: usize,
    /// An incomplete word, with its colours.
    word: String,
    word_width: usize,
    /// Whether a colour sequence is being read.
    is_control: bool,
}

impl LineWrap {
    pub(super) fn new(columns: usize) -> Self {
        Self { columns: columns.max(20), ..Self::default() }
    }

    /// Returns the part of the text that can be written now. O(piece).
    pub(super) fn push(&mut self, piece: &str) -> String {
        let mut shown = String::with_capacity(piece.len() + 8);
        for c in piece.chars() {
            match c {
                '\u{1b}' => {
                    self.is_control = true;
                    self.word.push(c);
                }
                _ if self.is_control => {
                    self.is_control = !c.is_ascii_alphabetic();
                    self.word.push(c);
                }
                '\n' => {
                    self.release(&mut shown);
                    shown.push(c);
                    self.column = 0;
                }
                '\r' => {
                    self.release(&mut shown);
                    self.column = 0;
                    self.word.push(c);
                }
                ' ' => {
                    self.write_word(&mut shown);
                    self.spaces += 1;
                }
                c => {
                    self.word.push(c);
                    self.word_width += c.width().unwrap_or(0);
                }
            }
        }
        shown
    }

    /// Writes the rest.
    pub(super) fn release(&mut self, shown: &mut String) {
        self.write_word(shown);
        self.column += self.spaces;
        shown.extend(std::iter::repeat_n(' ', std::mem::take(&mut self.spaces)));
    }

    fn write_word(&mut self, shown: &mut String) {
        if self.word.is_empty() {
            return;
        }
        let is_visible = self.word_width > 0;
        if self.column == 0 && is_visible {
            self.indent = self.spaces.min(self.columns / 2);
            self.is_json = self.spaces == 0 && self.word.starts_with('{');
        }
        let is_full = self.column + self.spaces + self.word_width > self.columns;
        if is_full && is_visible && self.column > self.indent && !self.is_json {
            shown.push('\n');
            self.spaces = self.indent;
            self.column = 0;
        }
        shown.extend(std::iter::repeat_n(' ', self.spaces));
        shown.push_str(&self.word);
        self.column = (self.column + self.spaces + self.word_width).min(self.columns + 1);
        self.spaces = 0;
        self.word.clear();
        self.word_width = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrapped(text: &str, columns: usize) -> String {
        let mut whole = LineWrap::new(columns);
        let mut at_once = whole.push(text);
        whole.release(&mut at_once);
        let mut pieces = LineWrap::new(columns);
        let mut by_char = String::new();
        for c in text.chars() {
            by_char.push_str(&pieces.push(c.encode_utf8(&mut [0; 4])));
        }
        pieces.release(&mut by_char);
        assert_eq!(at_once, by_char, "piece by piece");
        at_once
    }

    #[test]
    fn lines_break_between_words_and_keep_their_indentation() {
        for (text, shown) in [
            ("one two three four five\n", "one two three four\nfive\n"),
            ("  one two three four five\n", "  one two three four\n  five\n"),
            ("short\n\n  x\n", "short\n\n  x\n"),
            ("a /path/that/is/wider/than/all x\n", "a\n/path/that/is/wider/than/all\nx\n"),
            ("{\"a\": \"one two three four five\"}\n", "{\"a\": \"one two three four five\"}\n"),
            (
                "\u{1b}[1mone two three\u{1b}[0m four five\n",
                "\u{1b}[1mone two three\u{1b}[0m four\nfive\n",
            ),
            ("漢字漢字 漢字漢字 漢字漢字\n", "漢字漢字 漢字漢字\n漢字漢字\n"),
            ("no line break? ", "no line break? "),
            ("\r\u{1b}[2K  live one two threes", "\r\u{1b}[2K  live one two\n  threes"),
        ] {
            assert_eq!(wrapped(text, 20), shown, "{text:?}");
        }
    }
}
