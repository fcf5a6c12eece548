//! The Markdown blocks that decide where markers count: list items, code fences, quotations, and raw HTML at
//! the start of a line.

use super::code::Fence;
use super::lines::Line;
use super::raw::Raw;
use crate::whitespace::is_blank;

/// The kind of a line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum LineKind {
    /// Only white space.
    Blank,
    /// Fenced code, a quotation or raw HTML: no markers.
    Text,
    /// Markers count.
    Prose,
    /// Raw HTML up to this byte; markers count after it.
    ProseFrom(usize),
}

/// The open blocks between two lines.
#[derive(Debug, Default)]
pub(super) struct Blocks {
    /// The column at which the content of each open list item begins, outermost first.
    items: Vec<usize>,
    /// The open block of the innermost item, or of the text itself.
    open: Option<Open>,
    /// Whether the last line was prose that the next may continue, whatever its indentation.
    in_paragraph: bool,
}

#[derive(Debug, Clone, Copy)]
enum Open {
    Fence(Fence),
    Raw(Raw),
}

impl Blocks {
    /// Reads the next line. O(its length), however many items are open.
    pub(super) fn read(&mut self, line: &Line<'_>) -> LineKind {
        let content = line.content;
        if is_blank(content) {
            self.in_paragraph = false;
            return LineKind::Blank;
        }
        let mut cursor = Cursor { line: content, at: 0, column: 0 };
        cursor.skip_indentation();
        let within = self.items.partition_point(|&column| column <= cursor.column);
        if within == self.items.len()
            && let Some(open) = self.open
        {
            return self.read_open(open, &cursor);
        }
        self.open = None;
        self.read_start(line, cursor, within)
    }

    /// Reads a line of an open fence or of open raw HTML.
    fn read_open(&mut self, open: Open, cursor: &Cursor<'_>) -> LineKind {
        let end = match open {
            Open::Fence(fence) => {
                if self.indent_at(self.items.len(), cursor) <= MAX_INDENT
                    && fence.is_closed_by(cursor.rest())
                {
                    self.open = None;
                }
                return LineKind::Text;
            }
            Open::Raw(raw) => raw.find_end(cursor.line, 0),
        };
        self.end_raw(end)
    }

    /// Reads a line on which items and blocks may begin.
    fn read_start(&mut self, line: &Line<'_>, mut cursor: Cursor<'_>, within: usize) -> LineKind {
        let mut depth = within;
        let mut thematic_break = ThematicBreak::new(line.content);
        loop {
            let rest = cursor.rest();
            let is_indented = self.indent_at(depth, &cursor) > MAX_INDENT;
            if !is_indented {
                if let Some(fence) = Fence::opened_by(&line.with_return()[cursor.at..]) {
                    self.leave_all_but(depth);
                    self.open = Some(Open::Fence(fence));
                    return LineKind::Text;
                }
                if rest.starts_with('>') {
                    self.leave_all_but(depth);
                    return LineKind::Text;
                }
                if let Some(raw) = Raw::opened_by(rest) {
                    self.leave_all_but(depth);
                    self.open = Some(Open::Raw(raw));
                    return self.end_raw(raw.find_end(line.content, cursor.at + raw.opening_len()));
                }
                if thematic_break.is_at(cursor.at) {
                    self.leave_all_but(depth);
                    return LineKind::Prose;
                }
                if let Some(mark_len) = list_mark_len(rest) {
                    self.leave_all_but(depth);
                    self.items.push(cursor.enter_item(mark_len));
                    depth += 1;
                    if cursor.rest().is_empty() {
                        return LineKind::Prose;
                    }
                    continue;
                }
            }
            // Prose continues the paragraph of an item even if it is indented less.
            if !self.in_paragraph {
                self.leave_all_but(depth);
                self.in_paragraph = !is_indented;
            }
            return LineKind::Prose;
        }
    }

    /// Ends the paragraph, and all items but the outermost `depth`.
    fn leave_all_but(&mut self, depth: usize) {
        self.items.truncate(depth);
        self.in_paragraph = false;
    }

    /// Reads a line of raw HTML, which may end on it.
    fn end_raw(&mut self, end: Option<usize>) -> LineKind {
        match end {
            Some(end) => {
                self.open = None;
                LineKind::ProseFrom(end)
            }
            None => LineKind::Text,
        }
    }

    /// Returns the indentation of a line within the items that it belongs to.
    fn indent_at(&self, depth: usize, cursor: &Cursor<'_>) -> usize {
        let content = depth.checked_sub(1).map_or(0, |innermost| self.items[innermost]);
        cursor.column - content
    }
}

/// The maximum indentation of a block; deeper text is code, or continues a paragraph.
const MAX_INDENT: usize = 3;

/// The width of a tab.
const TAB_STOP: usize = 4;

/// A position in a line, in bytes and in columns. Columns are exact up to the first mark or text.
#[derive(Debug, Clone, Copy)]
struct Cursor<'a> {
    line: &'a str,
    at: usize,
    column: usize,
}

impl<'a> Cursor<'a> {
    fn rest(&self) -> &'a str {
        &self.line[self.at..]
    }

    fn skip_indentation(&mut self) {
        for byte in self.line[self.at..].bytes() {
            self.column = match byte {
                b' ' => self.column + 1,
                b'\t' => (self.column / TAB_STOP + 1) * TAB_STOP,
                _ => return,
            };
            self.at += 1;
        }
    }

    /// Moves past the mark of an item and the white space after it. Returns the column at which the content of
    /// the item begins: that of its text, or one after the mark if the content is blank or code.
    fn enter_item(&mut self, mark_len: usize) -> usize {
        self.at += mark_len;
        self.column += mark_len;
        let after_mark = self.column + 1;
        self.skip_indentation();
        let is_code = self.column > after_mark + MAX_INDENT;
        if is_code || self.rest().is_empty() { after_mark } else { self.column }
    }
}

/// Returns the length of the mark of a list item: `-`, `+`, `*`, or up to nine digits with `.` or `)`,
/// and white space behind it.
fn list_mark_len(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let len = match bytes.first()? {
        b'-' | b'+' | b'*' => 1,
        _ => {
            let digits = bytes.iter().take(10).take_while(|b| b.is_ascii_digit()).count();
            let is_number =
                (1..=9).contains(&digits) && matches!(bytes.get(digits), Some(b'.' | b')'));
            is_number.then_some(digits + 1)?
        }
    };
    matches!(bytes.get(len), None | Some(b' ' | b'\t')).then_some(len)
}

/// The thematic break at the end of a line (`- - -`, `***`), which looks like list items.
struct ThematicBreak<'a> {
    line: &'a [u8],
    /// The mark at the end of the line, and the start of the run of it and white space.
    run: Option<(u8, usize)>,
}

impl<'a> ThematicBreak<'a> {
    fn new(line: &'a str) -> Self {
        Self { line: line.as_bytes(), run: None }
    }

    /// Returns whether the line is a thematic break from a byte on.
    fn is_at(&mut self, at: usize) -> bool {
        let line = self.line;
        if !matches!(line[at], b'-' | b'*' | b'_') {
            return false;
        }
        let is_space = |b: u8| matches!(b, b' ' | b'\t');
        let &mut (mark, start) = self.run.get_or_insert_with(|| {
            let mark = line.iter().copied().rfind(|&b| !is_space(b)).unwrap_or(b' ');
            let before = line.iter().rposition(|&b| b != mark && !is_space(b));
            (mark, before.map_or(0, |before| before + 1))
        });
        let marks = line[at..].iter().filter(|&&b| b == mark);
        line[at] == mark && start <= at && marks.take(3).count() == 3
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::marker::preserve::lines::lines;

    fn kinds(text: &str) -> String {
        let mut blocks = Blocks::default();
        let letter = |kind| match kind {
            LineKind::Blank => ' ',
            LineKind::Text => 'T',
            LineKind::Prose => 'p',
            LineKind::ProseFrom(_) => 'f',
        };
        lines(text).map(|line| letter(blocks.read(&line))).collect()
    }

    #[test]
    fn a_fence_in_an_item_ends_with_it() {
        let cases = [
            ("- ```\n  x\n  ```\np", "TTTp"),
            ("- ```\n\n  x\np", "T Tp"),
            ("12) ~~~\n    x\n    ~~~\n    p", "TTTp"),
            ("- a\n\n    ```\n    x\n    ```\n  p", "p TTTp"),
            ("- a\n\t```\n\tx\n\t```\np", "pTTTp"),
            ("-\t```\n    x\n  p", "TTp"),
            ("+ 1. * ```\n       x\n      p", "TTp"),
            ("- a\nlazy\n     ```\n     x\n  ```\np", "ppTTTp"),
            ("-\n  ```\n  x\n  ```\np", "pTTTp"),
            ("- a\n- ```\n  x\n- p", "pTTp"),
        ];
        for (text, expected) in cases {
            assert_eq!(kinds(text), expected, "{text:?}");
        }
    }

    #[test]
    fn what_only_looks_like_an_item_opens_no_fence() {
        let texts = [
            "-```\np",
            "1234567890. ```\np",
            "-     ```\np",
            "    - ```\np",
            "\t```\np",
            "a. ```\np",
        ];
        for text in texts {
            assert_eq!(kinds(text), "pp", "{text:?}");
        }
    }

    #[test]
    fn a_thematic_break_is_no_item() {
        for text in ["- - -\n     ```", "- a\n* * *\n     ```", "- * * *\n      ```"] {
            assert!(kinds(text).ends_with('p'), "{text:?}");
        }
    }

    #[test]
    fn quotations_and_raw_html_begin_within_items_too() {
        let cases = [
            ("- > x\n1. > x\n   > x\np", "TTTp"),
            ("- <pre>\n  x\n\n  x\np", "TT Tp"),
            ("<PRE class='a'>\nx\n\nx</pre>p\np", "TT fp"),
            ("<!-- x --> p\n<!-->p\n<!--\n\nx\n-->p", "ffT Tf"),
            ("<prefix>\np", "pp"),
        ];
        for (text, expected) in cases {
            assert_eq!(kinds(text), expected, "{text:?}");
        }
    }

    #[test]
    fn nested_items_cost_no_more_than_their_lines() {
        let marks = "- ".repeat(100_000);
        let deep = format!("{marks}a\n{}", "b\n".repeat(100_000));
        assert_eq!(kinds(&deep).len(), 100_001);
        let mixed = "- * ".repeat(100_000) + "a\n" + &"_ - ".repeat(100_000);
        assert_eq!(kinds(&mixed), "pp");
    }
}
