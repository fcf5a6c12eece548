//! The keywords of markers, and the search for the next one.

use memchr::memchr;

/// What a marker is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keyword {
    Next,
    From,
    Drop,
    TeamTask,
}

const KEYWORDS: [(Keyword, &[u8]); 4] = [
    (Keyword::Next, b"NEXT"),
    (Keyword::From, b"FROM"),
    (Keyword::Drop, b"DROP"),
    (Keyword::TeamTask, b"TEAM_TASK"),
];

/// How a marker begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Opening {
    /// `[KEYWORD:`, with the length of just that.
    Inline(Keyword, usize),
    /// `[TEAM_TASK]`.
    Block,
}

/// The length of `[TEAM_TASK]`.
pub(super) const BLOCK_LEN: usize = b"[TEAM_TASK]".len();

/// Reads the opening of a marker at the start of `text`, if one stands there. Only ASCII case folds.
pub(super) fn opening(text: &[u8]) -> Option<Opening> {
    let inner = text.strip_prefix(b"[")?;
    // Most brackets are no marker's.
    if !matches!(inner.first()?, b'N' | b'n' | b'F' | b'f' | b'D' | b'd' | b'T' | b't') {
        return None;
    }
    for (keyword, name) in KEYWORDS {
        let Some((head, rest)) = inner.split_at_checked(name.len()) else {
            continue;
        };
        if !head.eq_ignore_ascii_case(name) {
            continue;
        }
        return match rest.first() {
            Some(b':') => Some(Opening::Inline(keyword, name.len() + 2)),
            Some(b']') if keyword == Keyword::TeamTask => Some(Opening::Block),
            _ => None,
        };
    }
    None
}

/// Finds the first opening at or after `from`.
pub(super) fn find_opening(text: &[u8], mut from: usize) -> Option<(usize, Opening)> {
    while let Some(found) = memchr(b'[', text.get(from..)?) {
        let at = from + found;
        if let Some(opening) = opening(&text[at..]) {
            return Some((at, opening));
        }
        from = at + 1;
    }
    None
}
