//! Lines, each with the line break that ends it.

use memchr::memchr;

/// A line and its line break, LF or CRLF; the last line may have none.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Line<'a> {
    /// The line without its line break.
    pub(super) content: &'a str,
    /// The line break.
    pub(super) ending: &'a str,
    /// The line with its line break.
    pub(super) whole: &'a str,
}

impl<'a> Line<'a> {
    /// Returns the line up to its LF, including the CR of a CRLF.
    pub(super) fn with_return(&self) -> &'a str {
        self.whole.strip_suffix('\n').unwrap_or(self.whole)
    }
}

/// Splits a text into lines.
pub(super) fn lines(mut rest: &str) -> impl Iterator<Item = Line<'_>> {
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let len = memchr(b'\n', rest.as_bytes()).map_or(rest.len(), |at| at + 1);
        let (whole, after) = rest.split_at(len);
        rest = after;
        let content = match whole.strip_suffix('\n') {
            Some(line) => line.strip_suffix('\r').unwrap_or(line),
            None => whole,
        };
        Some(Line { content, ending: &whole[content.len()..], whole })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_breaks_are_lf_and_crlf() {
        let split: Vec<_> =
            lines("a\r\nb\rc\n\nd").map(|line| (line.content, line.ending)).collect();
        assert_eq!(split, [("a", "\r\n"), ("b\rc", "\n"), ("", "\n"), ("d", "")]);
    }
}
