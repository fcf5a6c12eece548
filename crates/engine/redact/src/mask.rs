//! Replaces spans of a text by a mark.

/// The replacement of a secret.
pub const MARK: &str = "[redacted]";

/// A byte range, counted from the start of the whole text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Span {
    pub start: usize,
    pub end: usize,
}

/// Writes a text part by part, with one mark for each group of overlapping spans.
#[derive(Debug, Clone, Default)]
pub(crate) struct Masker {
    /// The end of the text that was written or masked so far.
    done: usize,
}

impl Masker {
    /// Returns whether the text from a position on is written unchanged, as far as earlier spans go.
    pub fn is_clear_at(&self, position: usize) -> bool {
        self.done <= position
    }

    /// Writes the part before `settled` of a text that begins at `base`, and removes the spans that begin in
    /// it. Returns the number of marks.
    pub fn write(
        &mut self,
        (base, text): (usize, &str),
        settled: usize,
        spans: &mut Vec<Span>,
        out: &mut String,
    ) -> u64 {
        spans.sort_unstable();
        let mut marks = 0;
        let mut from = self.done.max(base);
        let count = spans.partition_point(|span| span.start < settled);
        for span in spans.drain(..count) {
            if span.start >= self.done {
                out.push_str(&text[from - base..span.start - base]);
                out.push_str(MARK);
                marks += 1;
            }
            self.done = self.done.max(span.end);
            from = from.max(self.done);
        }
        if from < settled {
            out.push_str(&text[from - base..settled - base]);
        }
        marks
    }
}
