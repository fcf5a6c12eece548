//! The keywords of markers, and the search for the next one.

use memchr::memchr;

/// The keyword of a marker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keyword {
    Next,
    From,
    Drop,
    TeamTask,
}

impl Keyword {
    const ALL: [Self; 4] = [Self::Next, Self::From, Self::Drop, Self::TeamTask];

    /// Returns the keyword in its marker.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Next => "NEXT",
            Self::From => "FROM",
            Self::Drop => "DROP",
            Self::TeamTask => "TEAM_TASK",
        }
    }
}

/// The opening of a marker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Opening {
    /// `[KEYWORD:`, and its length.
    Inline(Keyword, usize),
    /// `[TEAM_TASK]`.
    Block,
}

/// The length of `[TEAM_TASK]`.
pub(super) const BLOCK_LEN: usize = b"[TEAM_TASK]".len();

/// Reads the opening of a marker at the start of `text`. Only ASCII case folds.
#[inline]
pub(super) fn opening(text: &[u8]) -> Option<Opening> {
    let inner = text.strip_prefix(b"[")?;
    // Most brackets do not open a marker.
    if !begins_keyword(*inner.first()?) {
        return None;
    }
    for keyword in Keyword::ALL {
        let name = keyword.name().as_bytes();
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
        if found < DENSE {
            from += barren_len(&text[from..]);
        }
    }
    None
}

/// Brackets closer to each other than this are dense, as in some code.
const DENSE: usize = 32;

/// The number of bytes that are examined together.
const BLOCK: usize = 256;

/// Returns how many of the next bytes certainly contain no opening. Where brackets are dense, a branchless
/// search of a block is faster than stopping at each bracket.
#[inline(never)]
fn barren_len(text: &[u8]) -> usize {
    let block = &text[..text.len().min(BLOCK)];
    let pairs = block.iter().zip(block.iter().skip(1));
    let may_open = pairs.fold(false, |may, (&a, &b)| may | ((a == b'[') & begins_keyword(b)));
    // The byte after the block was not examined.
    if may_open { 0 } else { block.len().saturating_sub(1) }
}

#[expect(clippy::needless_bitwise_bool, reason = "without branches the loop over it is vectorised")]
const fn begins_keyword(b: u8) -> bool {
    let b = b.to_ascii_uppercase();
    (b == b'N') | (b == b'F') | (b == b'D') | (b == b'T')
}
