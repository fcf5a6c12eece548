//! The cleaned text, built line by line.

use std::borrow::Cow;
use std::ops::Range;

use super::lines::Line;
use crate::whitespace::{trim_end, trim_start};

/// The cleaned text so far.
pub(super) struct Output<'a> {
    original: &'a str,
    text: String,
    /// Whether there are only blank lines so far.
    at_start: bool,
    /// The end of the last non-blank line, without its line break.
    content_end: usize,
    /// Whether a line was removed after the last non-blank line.
    removed_since: bool,
    changed: bool,
}

impl<'a> Output<'a> {
    pub(super) fn new(original: &'a str) -> Self {
        Self {
            original,
            text: String::with_capacity(original.len()),
            at_start: true,
            content_end: 0,
            removed_since: false,
            changed: false,
        }
    }

    /// Keeps a line as it is.
    pub(super) fn keep(&mut self, line: &Line<'_>) {
        self.text.push_str(line.content);
        self.end_line(line);
    }

    /// Keeps a blank line, unless it follows a line removed at the start of the text.
    pub(super) fn keep_blank(&mut self, line: &Line<'_>) {
        if !(self.at_start && self.removed_since) {
            self.text.push_str(line.whole);
        }
    }

    /// Removes a whole line, and blank lines between it and the start of the text.
    pub(super) fn remove(&mut self) {
        if self.at_start {
            self.text.clear();
        }
        self.removed_since = true;
        self.changed = true;
    }

    /// Keeps the text around the gaps of a line, or removes the line if there is none.
    ///
    /// White space around a gap becomes one space between two texts, and is removed elsewhere. The line's
    /// indentation stays, and its end is trimmed.
    pub(super) fn keep_around(&mut self, line: &Line<'_>, indent: usize, gaps: &[Range<usize>]) {
        let content = line.content;
        let before = self.text.len();
        self.text.push_str(&content[..indent]);
        let mut has_text = false;
        let mut spaced = false;
        let mut from = indent;
        let ends = gaps.iter().map(|gap| (gap.start, gap.end));
        for (end, next) in ends.chain([(content.len(), content.len())]) {
            let piece = &content[from..end];
            let text = trim_start(piece);
            spaced |= text.len() < piece.len();
            let text_end = trim_end(text);
            if !text_end.is_empty() {
                if has_text && spaced {
                    self.text.push(' ');
                }
                self.text.push_str(text_end);
                has_text = true;
                spaced = text_end.len() < text.len();
            }
            from = next;
        }
        self.changed = true;
        if has_text {
            self.end_line(line);
        } else {
            self.text.truncate(before);
            self.remove();
        }
    }

    fn end_line(&mut self, line: &Line<'_>) {
        self.at_start = false;
        self.removed_since = false;
        self.content_end = self.text.len();
        self.text.push_str(line.ending);
    }

    /// Returns the text. If a line was removed at its end, the white space before that line is removed too.
    pub(super) fn finish(mut self) -> Cow<'a, str> {
        if !self.changed {
            return Cow::Borrowed(self.original);
        }
        if self.removed_since {
            self.text.truncate(self.content_end);
        }
        Cow::Owned(self.text)
    }
}
