//! Growing text: only the last row is wrapped again.

use super::wrap::wrap_onto;

/// The size to which a text is cut when it is twice as long.
const KEPT_BYTES: usize = 64 << 10;
/// The maximum size of a row, which bounds the cost of zero-width characters.
const MAX_ROW_BYTES: usize = 4 << 10;

/// A growing text in lines of a width.
#[derive(Debug, Clone, Default)]
pub(crate) struct Flow {
    text: String,
    width: usize,
    lines: Vec<String>,
    /// The start of the last row in the text, and its index.
    open: (usize, usize),
}

impl Flow {
    /// Creates an empty text.
    pub(crate) fn new(width: usize) -> Self {
        Self { width, ..Self::default() }
    }

    /// Returns the wrapped lines.
    pub(crate) fn lines(&self) -> &[String] {
        &self.lines
    }

    /// Returns the text.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Appends text. O(added text + last row).
    pub(crate) fn push(&mut self, more: &str) {
        self.text.push_str(more);
        if self.text.len() > 2 * KEPT_BYTES {
            let from = self.text.ceil_char_boundary(self.text.len() - KEPT_BYTES);
            let from = self.text[from..].find('\n').map_or(from, |at| from + at + 1);
            self.replace(format!("…\n{}", &self.text[from..]));
            return;
        }
        let (from, row) = self.open;
        self.lines.truncate(row);
        let last = wrap_onto(&self.text[from..], self.width, &mut self.lines);
        self.open = (from + last, self.lines.len() - 1);
        if self.text.len() - self.open.0 > MAX_ROW_BYTES {
            self.open = (self.text.len(), self.lines.len());
        }
    }

    /// Replaces the text.
    pub(crate) fn replace(&mut self, text: String) {
        self.lines.clear();
        let last = wrap_onto(&text, self.width, &mut self.lines);
        self.open = (last, self.lines.len() - 1);
        self.text = text;
    }

    /// Wraps the text for a new width.
    pub(crate) fn resize(&mut self, width: usize) {
        self.width = width;
        let text = std::mem::take(&mut self.text);
        self.replace(text);
    }
}

#[cfg(test)]
mod tests {
    use super::super::wrap::wrap;
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_text_that_grew_looks_like_one_that_came_whole(
            pieces in prop::collection::vec("[ a-z漢\n]{0,12}", 1..20), width in 2_usize..20,
        ) {
            let mut flow = Flow::new(width);
            for piece in &pieces {
                flow.push(piece);
            }
            prop_assert_eq!(flow.lines(), wrap(&pieces.concat(), width));
            flow.resize(width + 3);
            prop_assert_eq!(flow.lines(), wrap(&pieces.concat(), width + 3));
        }
    }

    #[test]
    fn only_the_end_of_a_long_text_is_kept() {
        let mut flow = Flow::new(80);
        for _ in 0..100_000 {
            flow.push("a line of text\n");
        }
        flow.push("the end");
        assert!(flow.text().len() <= 2 * KEPT_BYTES);
        assert!(flow.text().starts_with("…\na line"));
        assert_eq!(flow.lines().last().map(String::as_str), Some("the end"));
    }

    #[test]
    fn a_text_without_line_breaks_stays_cheap() {
        let mut flow = Flow::new(80);
        for _ in 0..200_000 {
            flow.push("word ");
        }
        assert!(flow.text().len() <= 2 * KEPT_BYTES + 8);
    }
}
