//! Raw HTML whose whole content is plain text: comments, and `<pre>`.

use memchr::memmem;

use super::lines::lines;
use crate::whitespace::is_blank;

/// A kind of raw HTML.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Raw {
    /// `<!-- … -->`
    Comment,
    /// `<pre …> … </pre>`
    Pre,
}

const COMMENT: &str = "<!--";
const COMMENT_END: &str = "-->";
const PRE: &str = "<pre";
const PRE_END: &str = "</pre>";

impl Raw {
    /// Reads the raw HTML that a text begins with.
    pub(super) fn opened_by(text: &str) -> Option<Self> {
        let rest = text.strip_prefix('<')?;
        if rest.starts_with("!--") {
            return Some(Self::Comment);
        }
        let name = text.get(..PRE.len())?;
        let after = text.as_bytes().get(PRE.len());
        let ends_name = matches!(after, None | Some(b' ' | b'\t' | b'\r' | b'\n' | b'>'));
        (ends_name && name.eq_ignore_ascii_case(PRE)).then_some(Self::Pre)
    }

    /// Returns the length of the opening, after which the end may begin: `<!-->` is a whole comment.
    pub(super) fn opening_len(self) -> usize {
        match self {
            Self::Comment => COMMENT.len() - "--".len(),
            Self::Pre => PRE.len(),
        }
    }

    /// Returns the position after the first end at or after a byte.
    pub(super) fn find_end(self, text: &str, from: usize) -> Option<usize> {
        let bytes = &text.as_bytes()[from..];
        let end = match self {
            Self::Comment => memmem::find(bytes, COMMENT_END.as_bytes())? + COMMENT_END.len(),
            Self::Pre => {
                let is_end = |&at: &usize| {
                    let found = bytes.get(at..at + PRE_END.len());
                    found.is_some_and(|found| found.eq_ignore_ascii_case(PRE_END.as_bytes()))
                };
                memmem::find_iter(bytes, b"</").find(is_end)? + PRE_END.len()
            }
        };
        Some(from + end)
    }
}

/// The raw HTML that begins within a line. It counts if it ends in the same paragraph.
///
/// Positions are queried in the order of the text, so that all searches together are linear.
#[derive(Debug)]
pub(super) struct RawSpans<'a> {
    text: &'a str,
    comment_end: Memo,
    pre_end: Memo,
    paragraph_end: Memo,
}

/// The result of the last search: valid for every start up to it.
type Memo = Option<usize>;

impl<'a> RawSpans<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, comment_end: None, pre_end: None, paragraph_end: None }
    }

    /// Returns the end of the raw HTML that begins at a byte of the text.
    pub(super) fn end_of_span(&mut self, at: usize) -> Option<usize> {
        let text = self.text;
        let raw = Raw::opened_by(&text[at..])?;
        let from = at + raw.opening_len();
        let (memo, end_len) = match raw {
            Raw::Comment => (&mut self.comment_end, COMMENT_END.len()),
            Raw::Pre => (&mut self.pre_end, PRE_END.len()),
        };
        let search = || raw.find_end(text, from).unwrap_or(usize::MAX);
        let end = recall(memo, from + end_len, search);
        let paragraph = recall(&mut self.paragraph_end, at, || paragraph_end(text, at));
        (end <= paragraph).then_some(end)
    }
}

/// Returns the earlier result if it is not before `from`, and searches again otherwise.
fn recall(memo: &mut Memo, from: usize, search: impl FnOnce() -> usize) -> usize {
    match *memo {
        Some(found) if found >= from => found,
        _ => *memo.insert(search()),
    }
}

/// Returns the start of the first blank line after a byte, or the end of the text.
fn paragraph_end(text: &str, from: usize) -> usize {
    let mut at = from;
    for (number, line) in lines(&text[from..]).enumerate() {
        if number > 0 && is_blank(line.content) {
            return at;
        }
        at += line.whole.len();
    }
    at
}
