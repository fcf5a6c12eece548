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
    /// Removes the markers of a reply.
    markers: Option<MarkerFilter>,
}

impl FlowingText {
    pub(super) fn new(indent: usize, columns: Option<usize>) -> Self {
        let columns = columns.map(|columns| columns.max(indent + 20));
        Self { indent, columns, column: 0, word: String::new(), spaces: 0, markers: None }
    }

    /// Creates the text of a reply without its routing markers.
    pub(super) fn of_reply(indent: usize, columns: Option<usize>) -> Self {
        Self { markers: Some(MarkerFilter::default()), ..Self::new(indent, columns) }
    }

    /// Returns whether the next character begins a line.
    pub(super) fn is_at_line_start(&self) -> bool {
        self.column == 0 && self.word.is_empty()
    }

    /// Writes a piece; an incomplete word is held back. Control and invisible characters are replaced by marks.
    pub(super) fn write(&mut self, piece: &str, out: &mut impl Write) -> io::Result<()> {
        match &mut self.markers {
            None => self.write_text(piece, out),
            Some(markers) => {
                let piece = markers.push(piece);
                self.write_text(&piece, out)
            }
        }
    }

    fn write_text(&mut self, piece: &str, out: &mut impl Write) -> io::Result<()> {
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

    /// Ends the line that the text has begun; the text continues on the next one.
    pub(super) fn break_line(&mut self, out: &mut impl Write) -> io::Result<()> {
        if self.column > 0 {
            out.write_all(b"\n")?;
            (self.column, self.spaces) = (0, 0);
        }
        Ok(())
    }

    /// Ends the text and its last line.
    pub(super) fn finish(&mut self, out: &mut impl Write) -> io::Result<()> {
        if let Some(held) = self.markers.as_mut().map(MarkerFilter::finish) {
            self.write_text(&held, out)?;
        }
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

/// The keywords of the inline markers.
const KEYWORDS: [&str; 4] = ["NEXT:", "FROM:", "DROP:", "TEAM_TASK:"];
/// The maximum length of a marker.
const MAX_MARKER_BYTES: usize = 1024;

/// Removes markers from a text that arrives in pieces. Ambiguous text, as in code, is shown.
#[derive(Debug, Default)]
struct MarkerFilter {
    /// The beginning of a possible marker.
    held: String,
    /// White space that is shown if text follows it.
    space: String,
    /// The beginning of the line.
    line_start: String,
    /// Whether the line is in a block of code.
    is_fenced: bool,
    /// Whether a backtick of this line is open.
    is_code: bool,
    /// Whether something was shown.
    has_begun: bool,
    /// Whether something of this line was shown.
    is_in_line: bool,
    /// Whether a line break is skipped: the line had nothing but markers.
    skips_break: bool,
}

impl MarkerFilter {
    /// Returns the part of the text that can be shown now.
    fn push(&mut self, piece: &str) -> String {
        let mut shown = String::with_capacity(piece.len());
        for c in piece.chars() {
            if self.held.is_empty() && !(c == '[' && self.may_mark()) {
                self.show(c, &mut shown);
                continue;
            }
            if matches!(c, '[' | '\n') || self.held.len() > MAX_MARKER_BYTES {
                self.release(&mut shown);
                if c == '[' && self.may_mark() {
                    self.held.push(c);
                } else {
                    self.show(c, &mut shown);
                }
                continue;
            }
            self.held.push(c);
            let body = &self.held[1..];
            let begins = |keyword: &&str| {
                let length = keyword.len().min(body.len());
                body.is_char_boundary(length)
                    && keyword[..length].eq_ignore_ascii_case(&body[..length])
            };
            if !KEYWORDS.iter().any(begins) {
                self.release(&mut shown);
            } else if c == ']' {
                self.held.clear();
                self.skips_break = !self.is_in_line;
            }
        }
        shown
    }

    /// Returns the rest, without trailing white space.
    fn finish(&mut self) -> String {
        let mut shown = String::new();
        self.release(&mut shown);
        *self = Self::default();
        shown
    }

    fn may_mark(&self) -> bool {
        !self.is_fenced && !self.is_code && !self.line_start.starts_with(['>', '`', '~'])
    }

    fn release(&mut self, shown: &mut String) {
        for c in std::mem::take(&mut self.held).chars() {
            self.show(c, shown);
        }
    }

    fn show(&mut self, c: char, shown: &mut String) {
        if c == '\n' {
            let is_fence = self.line_start == "```" || self.line_start == "~~~";
            self.is_fenced ^= is_fence;
            self.line_start.clear();
            self.is_code = false;
            if std::mem::take(&mut self.is_in_line) {
                // The line is complete: flush it.
                self.space.clear();
                shown.push(c);
            } else if !std::mem::take(&mut self.skips_break) && self.has_begun {
                self.space.push(c);
            }
            return;
        }
        if c.is_whitespace() {
            self.space.push(c);
            return;
        }
        if self.line_start.chars().count() < 3 {
            self.line_start.push(c);
        }
        self.is_code ^= c == '`';
        self.skips_break = false;
        self.has_begun = true;
        self.is_in_line = true;
        shown.push_str(&std::mem::take(&mut self.space));
        shown.push(c);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markers_of_a_reply_are_not_shown_however_it_arrives() {
        for (text, shown) in [
            ("Done.\n\n[NEXT: lin]\n", "Done."),
            ("[NEXT: lin]\nDone.", "Done."),
            ("Ask [NEXT: lin] now", "Ask  now"),
            ("a\n[next: lin]\n[DROP: sam]\nb", "a\nb"),
            ("[TEAM_TASK: ship it] ok", " ok"),
            ("a[0] and [NEXT step] and [x]", "a[0] and [NEXT step] and [x]"),
            ("`[NEXT: lin]` stays", "`[NEXT: lin]` stays"),
            ("```\n[NEXT: lin]\n```\n[NEXT: sam]", "```\n[NEXT: lin]\n```"),
            ("> [NEXT: lin]", "> [NEXT: lin]"),
            ("[NEXT: no end\nmore", "[NEXT: no end\nmore"),
            ("[NEXT: a [NEXT: b] c", "[NEXT: a  c"),
            ("    indented\n\n  - item", "    indented\n\n  - item"),
        ] {
            let mut whole = MarkerFilter::default();
            let at_once = whole.push(text) + &whole.finish();
            assert_eq!(at_once.trim_end(), shown, "{text:?}");
            let mut pieces = MarkerFilter::default();
            let mut by_char: String =
                text.chars().map(|c| pieces.push(c.encode_utf8(&mut [0; 4]))).collect();
            by_char.push_str(&pieces.finish());
            assert_eq!(by_char.trim_end(), shown, "{text:?}, piece by piece");
        }
        let mut lines = MarkerFilter::default();
        assert_eq!(lines.push("begun\n"), "begun\n", "a line is not held back");
    }

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
