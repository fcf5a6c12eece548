//! The input line: editing by grapheme, and a history.

use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

use crate::text::shown;

/// The maximum number of lines in the history.
const HISTORY: usize = 500;
/// The maximum size of the text.
const MAX_BYTES: usize = 1 << 20;

/// The text of the input line.
#[derive(Debug, Clone, Default)]
pub(crate) struct Editor {
    text: String,
    /// A byte position at a grapheme boundary.
    cursor: usize,
    history: Vec<String>,
    /// The position in the history, and the text before it was recalled.
    recalled: Option<(usize, String)>,
}

/// The displayed rows and the cursor.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Rows {
    pub(crate) rows: Vec<String>,
    /// Row and column.
    pub(crate) cursor: (usize, usize),
}

impl Editor {
    /// Returns the text.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Returns the text before the cursor.
    pub(crate) fn before(&self) -> &str {
        &self.text[..self.cursor]
    }

    /// Inserts text at the cursor. Returns the number of bytes over the limit, which are left out.
    pub(crate) fn insert(&mut self, text: &str) -> usize {
        let text = text.replace("\r\n", "\n").replace('\r', "\n");
        let text: String =
            text.chars().filter(|&c| matches!(c, '\n' | '\t') || !c.is_control()).collect();
        let room = MAX_BYTES - self.text.len().min(MAX_BYTES);
        let kept = &text[..text.floor_char_boundary(room)];
        self.text.insert_str(self.cursor, kept);
        self.cursor += kept.len();
        text.len() - kept.len()
    }

    /// Replaces the text from a position to the cursor.
    pub(crate) fn complete(&mut self, from: usize, with: &str) {
        self.text.replace_range(from..self.cursor, with);
        self.cursor = from + with.len();
    }

    /// Takes the text and adds it to the history.
    pub(crate) fn take(&mut self) -> String {
        let text = std::mem::take(&mut self.text);
        self.cursor = 0;
        self.recalled = None;
        if !text.trim().is_empty() {
            self.remember(text.clone());
        }
        text
    }

    /// Adds a line to the history.
    pub(crate) fn remember(&mut self, line: String) {
        if self.history.last() == Some(&line) {
            return;
        }
        self.history.push(line);
        let over = self.history.len().saturating_sub(HISTORY);
        self.history.drain(..over);
        if let Some((at, _)) = &mut self.recalled {
            *at = at.saturating_sub(over);
        }
    }

    /// Returns the line that was entered last.
    pub(crate) fn last_entered(&self) -> Option<&str> {
        self.history.last().map(String::as_str)
    }

    /// Clears the text.
    pub(crate) fn clear(&mut self) {
        self.text.clear();
        self.cursor = 0;
        self.recalled = None;
    }

    pub(crate) fn left(&mut self) {
        self.cursor = self.previous();
    }

    pub(crate) fn right(&mut self) {
        self.cursor = self.next();
    }

    pub(crate) fn word_left(&mut self) {
        let mut words = self.text[..self.cursor].unicode_word_indices();
        self.cursor = words.next_back().map_or(0, |(at, _)| at);
    }

    pub(crate) fn word_right(&mut self) {
        let after = &self.text[self.cursor..];
        let word = after.unicode_word_indices().next();
        self.cursor += word.map_or(after.len(), |(at, word)| at + word.len());
    }

    pub(crate) fn home(&mut self) {
        self.cursor = self.line_start();
    }

    pub(crate) fn end(&mut self) {
        self.cursor = self.line_end();
    }

    pub(crate) fn backspace(&mut self) {
        self.remove(self.previous(), self.cursor);
    }

    pub(crate) fn delete(&mut self) {
        self.remove(self.cursor, self.next());
    }

    pub(crate) fn delete_word(&mut self) {
        let end = self.cursor;
        self.word_left();
        self.remove(self.cursor, end);
    }

    pub(crate) fn delete_to_start(&mut self) {
        self.remove(self.line_start(), self.cursor);
    }

    pub(crate) fn delete_to_end(&mut self) {
        self.remove(self.cursor, self.line_end());
    }

    /// Moves up a line, or back in the history.
    pub(crate) fn up(&mut self) {
        let start = self.line_start();
        if start > 0 {
            let column = self.text[start..self.cursor].graphemes(true).count();
            self.cursor = start - 1;
            self.cursor = self.line_start();
            self.go_to_column(column);
            return;
        }
        match &mut self.recalled {
            Some((at, _)) if *at > 0 => *at -= 1,
            Some(_) => return,
            None if self.history.is_empty() => return,
            None => self.recalled = Some((self.history.len() - 1, self.text.clone())),
        }
        self.recall();
    }

    /// Moves down a line, or forward in the history.
    pub(crate) fn down(&mut self) {
        let end = self.line_end();
        if end < self.text.len() {
            let column = self.text[self.line_start()..self.cursor].graphemes(true).count();
            self.cursor = end + 1;
            self.go_to_column(column);
            return;
        }
        if let Some((at, _)) = &mut self.recalled {
            *at += 1;
            self.recall();
        }
    }

    /// Returns the text in printable rows of a width.
    pub(crate) fn rows(&self, width: usize) -> Rows {
        let width = width.max(2);
        let mut rows = vec![String::new()];
        let mut filled = 0;
        let mut cursor = (0, 0);
        for (at, grapheme) in self.text.grapheme_indices(true) {
            let shown = shown(grapheme);
            let wide = shown.width();
            if grapheme != "\n" && filled + wide > width {
                rows.push(String::new());
                filled = 0;
            }
            if at == self.cursor {
                cursor = (rows.len() - 1, filled);
            }
            if grapheme == "\n" {
                rows.push(String::new());
                filled = 0;
            } else if let Some(row) = rows.last_mut() {
                row.push_str(&shown);
                filled += wide;
            }
        }
        if self.cursor == self.text.len() {
            if filled >= width {
                rows.push(String::new());
                filled = 0;
            }
            cursor = (rows.len() - 1, filled);
        }
        Rows { rows, cursor }
    }

    fn recall(&mut self) {
        let Some((at, draft)) = self.recalled.take() else { return };
        match self.history.get(at) {
            Some(entry) => {
                self.text.clone_from(entry);
                self.recalled = Some((at, draft));
            }
            None => self.text = draft,
        }
        self.cursor = self.text.len();
    }

    fn remove(&mut self, from: usize, to: usize) {
        self.text.replace_range(from..to, "");
        self.cursor = from;
    }

    fn previous(&self) -> usize {
        let mut before = self.text[..self.cursor].grapheme_indices(true);
        before.next_back().map_or(0, |(at, _)| at)
    }

    fn next(&self) -> usize {
        let after = self.text[self.cursor..].graphemes(true).next();
        self.cursor + after.map_or(0, str::len)
    }

    fn line_start(&self) -> usize {
        self.text[..self.cursor].rfind('\n').map_or(0, |at| at + 1)
    }

    fn line_end(&self) -> usize {
        self.text[self.cursor..].find('\n').map_or(self.text.len(), |at| self.cursor + at)
    }

    fn go_to_column(&mut self, column: usize) {
        let line = &self.text[self.cursor..self.line_end()];
        self.cursor += line.graphemes(true).take(column).map(str::len).sum::<usize>();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(text: &str) -> Editor {
        let mut editor = Editor::default();
        editor.insert(text);
        editor
    }

    #[test]
    fn editing_is_by_grapheme() {
        let mut editor = written("añ👩‍👩‍👧漢");
        editor.left();
        editor.backspace();
        assert_eq!(editor.text(), "añ漢");
        editor.backspace();
        editor.delete();
        assert_eq!(editor.text(), "a");
    }

    #[test]
    fn words_and_lines_are_removed_at_once() {
        let mut editor = written("one two\nthree four");
        editor.delete_word();
        assert_eq!(editor.text(), "one two\nthree ");
        editor.delete_to_start();
        assert_eq!(editor.text(), "one two\n");
        editor.up();
        editor.word_right();
        editor.delete_to_end();
        assert_eq!(editor.text(), "one\n");
    }

    #[test]
    fn the_history_recalls_earlier_input_and_then_the_draft() {
        let mut editor = written("first");
        editor.take();
        editor.insert("second");
        editor.take();
        editor.insert("draft");
        let mut seen = Vec::new();
        for step in [Editor::up, Editor::up, Editor::up, Editor::down, Editor::down, Editor::down] {
            step(&mut editor);
            seen.push(editor.text().to_owned());
        }
        assert_eq!(seen, ["second", "first", "first", "second", "draft", "draft"]);
    }

    #[test]
    fn pasted_text_keeps_its_lines_and_cannot_control_the_terminal() {
        let editor = written("a\r\n\tb\u{1b}[2J\u{7}");
        assert_eq!(editor.text(), "a\n\tb[2J");
        let Rows { rows, cursor } = editor.rows(20);
        assert_eq!((rows, cursor), (vec!["a".to_owned(), "⇥b[2J".to_owned()], (1, 5)));
    }

    #[test]
    fn rows_break_where_the_width_ends() {
        let rows = written("漢字漢字a").rows(5);
        assert_eq!(rows.rows, ["漢字", "漢字a", ""], "a full row needs another for the cursor");
        assert_eq!(rows.cursor, (2, 0));
    }
}
