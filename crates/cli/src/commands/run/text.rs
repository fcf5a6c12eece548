//! Streamed text, indented and wrapped at the width of the screen.

use std::io::{self, Write};

use convoke_chat::printable;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Writes streamed text. Only words wider than the screen are split.
#[derive(Debug)]
pub(super) struct FlowingText {
    indent: usize,
    /// The width of the screen; `None` without wrapping.
    columns: Option<usize>,
    /// The column of the next character.
    column: usize,
    /// An incomplete word.
    word: String,
    spaces: usize,
}

impl FlowingText {
    pub(super) fn new(indent: usize, columns: Option<usize>) -> Self {
        let columns = columns.map(|columns| columns.max(indent + 20));
        Self { indent, columns, column: 0, word: String::new(), spaces: 0 }
    }

    /// Returns whether the next character begins a line.
    pub(super) fn is_at_line_start(&self) -> bool {
        self.column == 0 && self.word.is_empty()
    }

    /// Writes a piece; an incomplete word is held back. Control and invisible characters are replaced by marks.
    pub(super) fn write(&mut self, piece: &str, out: &mut impl Write) -> io::Result<()> {
        for c in printable(piece).chars() {
            match c {
                '\n' => {
                    self.flush_word(out)?;
                    self.spaces = 0;
                    self.column = 0;
                    out.write_all(b"\n")?;
                }
                ' ' | '\t' => {
                    self.flush_word(out)?;
                    self.spaces += if c == '\t' { 4 } else { 1 };
                }
                c => self.word.push(c),
            }
        }
        if self.columns.is_none() {
            self.flush_word(out)?;
        }
        Ok(())
    }

    /// Ends the text and its last line.
    pub(super) fn finish(&mut self, out: &mut impl Write) -> io::Result<()> {
        self.flush_word(out)?;
        self.spaces = 0;
        if self.column > 0 {
            out.write_all(b"\n")?;
            self.column = 0;
        }
        Ok(())
    }

    fn flush_word(&mut self, out: &mut impl Write) -> io::Result<()> {
        if self.word.is_empty() {
            return Ok(());
        }
        let width = self.word.width();
        let is_full =
            self.columns.is_some_and(|columns| self.column + self.spaces + width > columns);
        if is_full && self.column > self.indent {
            out.write_all(b"\n")?;
            self.column = 0;
            self.spaces = 0;
        }
        if self.column == 0 {
            self.spaces += self.indent;
        }
        write!(out, "{:1$}", "", self.spaces)?;
        self.column += self.spaces;
        self.spaces = 0;
        for c in std::mem::take(&mut self.word).chars() {
            let width = c.width().unwrap_or(0);
            if self.columns.is_some_and(|columns| self.column + width > columns) {
                write!(out, "\n{:1$}", "", self.indent)?;
                self.column = self.indent;
            }
            write!(out, "{c}")?;
            self.column += width;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flowed(pieces: &[&str], columns: Option<usize>) -> String {
        let mut out = Vec::new();
        let mut text = FlowingText::new(2, columns);
        for piece in pieces {
            text.write(piece, &mut out).unwrap();
        }
        text.finish(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn words_are_wrapped_however_they_arrive() {
        let whole = flowed(&["one two three four five six seven\n\n  - eight"], Some(22));
        assert_eq!(whole, "  one two three four\n  five six seven\n\n    - eight\n");
        let pieces = ["on", "e two thr", "ee four five s", "ix seven\n", "\n  - ei", "ght"];
        assert_eq!(flowed(&pieces, Some(22)), whole);
    }

    #[test]
    fn a_word_that_is_wider_than_the_screen_is_split() {
        assert_eq!(
            flowed(&[&"x".repeat(30)], Some(22)),
            format!("  {}\n  {}\n", "x".repeat(20), "x".repeat(10))
        );
        assert_eq!(
            flowed(&["宽".repeat(12).as_str()], Some(22)),
            format!("  {}\n  {}\n", "宽".repeat(10), "宽".repeat(2))
        );
    }

    #[test]
    fn without_a_screen_nothing_is_wrapped() {
        assert_eq!(
            flowed(&["a ".repeat(60).trim_end()], None),
            format!("  {}\n", "a ".repeat(60).trim_end())
        );
    }

    #[test]
    fn no_reply_can_draw_on_the_screen() {
        assert_eq!(flowed(&["a\u{1b}[2Jb\rc\u{9b}1m"], None), "  a␛[2Jb␍c\u{FFFD}1m\n");
    }
}
