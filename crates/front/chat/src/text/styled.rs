//! Lines of text with faces, such as emphasis, code and links.

use std::ops::Range;

use super::wrap::wrap_lines;

/// The style of a piece of text. The view chooses the colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Face {
    pub(crate) bold: bool,
    pub(crate) italic: bool,
    pub(crate) tint: Tint,
}

impl Face {
    /// Returns a face with a tint and nothing else.
    pub(crate) fn new(tint: Tint) -> Self {
        Self { tint, ..Self::default() }
    }
}

/// A kind of text with its own colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Tint {
    /// Text.
    #[default]
    Plain,
    /// Code without a kind.
    Code,
    /// The text of a link.
    Link,
    /// Decoration: the bar of a quotation, the mark of a list.
    Frame,
    /// A keyword of a language.
    Keyword,
    /// A string.
    Quoted,
    /// A comment.
    Comment,
    /// A line that a diff adds.
    Added,
    /// A line that a diff removes.
    Removed,
}

/// A text and its faces. Every face ends where the next one begins.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct StyledText {
    pub(crate) text: String,
    /// The end of each face.
    faces: Vec<(usize, Face)>,
}

impl StyledText {
    /// Creates a text of one face.
    pub(crate) fn plain(text: &str) -> Self {
        let mut styled = Self::default();
        styled.push(text, Face::default());
        styled
    }

    /// Appends a piece.
    pub(crate) fn push(&mut self, piece: &str, face: Face) {
        if piece.is_empty() {
            return;
        }
        self.text.push_str(piece);
        let end = self.text.len();
        match self.faces.last_mut() {
            Some((last, same)) if *same == face => *last = end,
            _ => self.faces.push((end, face)),
        }
    }

    /// Appends another text.
    fn append(&mut self, other: &Self, range: Range<usize>, from: &mut usize) {
        // The ranges of a caller are in order, so that each face is visited once.
        while let Some(&(end, face)) = other.faces.get(*from) {
            let start = from.checked_sub(1).map_or(0, |before| other.faces[before].0);
            let piece = start.max(range.start)..end.min(range.end);
            if let Some(piece) = other.text.get(piece) {
                self.push(piece, face);
            }
            if end > range.end {
                break;
            }
            *from += 1;
        }
    }

    /// Returns the pieces with their faces.
    pub(crate) fn pieces(&self) -> impl Iterator<Item = (&str, Face)> {
        let starts = std::iter::once(0).chain(self.faces.iter().map(|(end, _)| *end));
        starts.zip(&self.faces).filter_map(|(start, (end, face))| {
            self.text.get(start..*end).map(|piece| (piece, *face))
        })
    }

    /// Wraps the text. O(text).
    pub(crate) fn wrap(&self, width: usize, mut line: impl FnMut(Self)) {
        let mut from = 0;
        wrap_lines(&self.text, width, |range| {
            let mut styled = Self::default();
            styled.append(self, range, &mut from);
            line(styled);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faces_stay_with_their_words_when_lines_are_wrapped() {
        let bold = Face { bold: true, ..Face::default() };
        let mut text = StyledText::default();
        text.push("one ", Face::default());
        text.push("two three", bold);
        text.push(" four\nfive", Face::default());
        let mut lines = Vec::new();
        text.wrap(8, |line| lines.push(line));
        let seen: Vec<Vec<(&str, bool)>> = lines
            .iter()
            .map(|line| line.pieces().map(|(piece, face)| (piece, face.bold)).collect())
            .collect();
        assert_eq!(
            seen,
            [
                vec![("one ", false), ("two", true)],
                vec![("three", true)],
                vec![("four", false)],
                vec![("five", false)]
            ]
        );
    }
}
