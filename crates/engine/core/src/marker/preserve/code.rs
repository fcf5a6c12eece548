//! Code in Markdown: fences around lines, and spans within one.

use std::collections::HashMap;

use memchr::memchr;

use crate::whitespace::is_blank;

/// An open code fence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fence {
    mark: u8,
    len: usize,
}

impl Fence {
    /// Reads the fence that a line opens.
    ///
    /// A line with a back-tick after the back-ticks is inline code and opens no fence. Neither does a line that
    /// ends in a carriage return: the conformance vectors require this (see `docs/markers.md`).
    pub(super) fn opened_by(line: &str) -> Option<Self> {
        let (fence, info) = fence_at_start(line)?;
        let is_inline_code = fence.mark == b'`' && info.contains('`');
        (!is_inline_code && !info.contains('\r')).then_some(fence)
    }

    /// Returns whether a line closes this fence.
    pub(super) fn is_closed_by(self, line: &str) -> bool {
        fence_at_start(line).is_some_and(|(fence, info)| {
            fence.mark == self.mark && fence.len >= self.len && is_blank(info)
        })
    }
}

/// Reads three or more fence characters after at most three spaces, and the text after them.
fn fence_at_start(line: &str) -> Option<(Fence, &str)> {
    let text = line.trim_start_matches(' ');
    let mark = *text.as_bytes().first()?;
    if line.len() - text.len() > 3 || !matches!(mark, b'`' | b'~') {
        return None;
    }
    let len = run_len(text.as_bytes(), mark);
    (len >= 3).then(|| (Fence { mark, len }, &text[len..]))
}

fn run_len(bytes: &[u8], mark: u8) -> usize {
    bytes.iter().take_while(|&&b| b == mark).count()
}

/// The inline code of one line, found on first use.
#[derive(Debug)]
pub(super) struct CodeSpans {
    /// For each run of back-ticks: its start, and the end of the span that it opens.
    runs: Option<Vec<(usize, usize)>>,
}

impl CodeSpans {
    pub(super) fn new() -> Self {
        Self { runs: None }
    }

    /// Returns the end of the span that the run of back-ticks at `at` opens, or the end of the run if no run of
    /// the same length closes it on this line.
    pub(super) fn end_of_span_or_run(&mut self, line: &str, at: usize) -> usize {
        let runs = self.runs.get_or_insert_with(|| find_runs(line.as_bytes()));
        let index = runs.partition_point(|&(start, _)| start < at);
        runs.get(index).map_or(at + 1, |&(_, end)| end)
    }
}

/// Finds all runs in one pass, and the span that each opens in a second pass from the end.
fn find_runs(line: &[u8]) -> Vec<(usize, usize)> {
    let mut runs = Vec::new();
    let mut from = 0;
    while let Some(found) = memchr(b'`', &line[from..]) {
        let start = from + found;
        from = start + run_len(&line[start..], b'`');
        runs.push((start, from));
    }
    let mut next_end_by_len = HashMap::new();
    for (start, end) in runs.iter_mut().rev() {
        let own_end = *end;
        if let Some(&closing_end) = next_end_by_len.get(&(own_end - *start)) {
            *end = closing_end;
        }
        next_end_by_len.insert(own_end - *start, own_end);
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fence_is_three_marks_after_at_most_three_spaces() {
        let open = ["```", "~~~~", "   ``` rust", "~~~ `x`"];
        let not = ["``", "    ```", "a ```", "``` `x`", "```\r"];
        assert!(open.iter().all(|line| Fence::opened_by(line).is_some()));
        assert!(not.iter().all(|line| Fence::opened_by(line).is_none()));
    }

    #[test]
    fn a_fence_is_closed_by_at_least_as_many_of_its_marks() {
        let fence = Fence::opened_by("~~~~").unwrap();
        assert!(fence.is_closed_by(" ~~~~~ \r"));
        assert!(!fence.is_closed_by("~~~"));
        assert!(!fence.is_closed_by("````"));
        assert!(!fence.is_closed_by("~~~~ x"));
    }

    #[test]
    fn a_span_is_closed_by_a_run_of_equal_length() {
        let line = "`a `` b` ``c``";
        let mut spans = CodeSpans::new();
        assert_eq!(spans.end_of_span_or_run(line, 0), 8);
        assert_eq!(spans.end_of_span_or_run(line, 9), line.len());
        assert_eq!(CodeSpans::new().end_of_span_or_run("``a`", 0), 2);
    }
}
