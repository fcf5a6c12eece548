//! The kept part of a truncated text, and the truncation mark.

use std::fmt;

use crate::escape::Escaping;

/// The kept part of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeptPart {
    /// All of it.
    Whole,
    /// The head and the tail (either may be empty) with a mark between them on a line of its own. `resumption`
    /// comes between the mark and the tail.
    Ends { head: usize, tail: usize, mark: Mark, resumption: &'static str },
}

/// The mark of missing bytes: `[… N bytes cut]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) cut: usize,
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[… {} bytes cut]", self.cut)
    }
}

impl Mark {
    /// The bytes of a mark without its number.
    const FRAME: usize = "[… ".len() + " bytes cut]".len();

    fn len(self) -> usize {
        Self::FRAME + digits(self.cut)
    }
}

/// The number of digits of the largest length.
const MAX_DIGITS: usize = 20;

fn digits(number: usize) -> usize {
    number.checked_ilog10().map_or(1, |log| log as usize + 1)
}

impl KeptPart {
    /// Returns the bytes that are written for a text of `len` bytes.
    pub(crate) fn len(self, len: usize) -> usize {
        match self {
            Self::Whole => len,
            Self::Ends { head, tail, mark, resumption } => {
                head + usize::from(head > 0) + mark.len() + resumption.len() + tail
            }
        }
    }

    fn head(text: &str, head: usize) -> Self {
        Self::Ends { head, tail: 0, mark: Mark { cut: text.len() - head }, resumption: "" }
    }

    fn head_and_tail(text: &str, head: usize, tail: usize, resumption: &'static str) -> Self {
        if tail == 0 {
            return Self::head(text, head);
        }
        Self::Ends { head, tail, mark: Mark { cut: text.len() - head - tail }, resumption }
    }

    /// Cuts the end so that the text fits into `room`, if at least `floor` bytes stay.
    ///
    /// More digits make the mark longer and the head shorter, so digit counts are tried in ascending order.
    pub(crate) fn without_end(text: &str, room: usize, floor: usize) -> Option<Self> {
        let cut = |reserved: usize| {
            let head = text.floor_char_boundary(room.checked_sub(Mark::FRAME + reserved + 1)?);
            let kept = Self::head(text, head);
            let allowed = (floor..text.len()).contains(&head) && kept.len(text.len()) <= room;
            allowed.then_some(kept)
        };
        let mark_alone = || Some(Self::head(text, 0)).filter(|kept| kept.len(0) <= room);
        let longest = (1..=MAX_DIGITS).find_map(cut);
        match floor {
            0 if !text.is_empty() => longest.or_else(mark_alone),
            _ => longest,
        }
    }

    /// Cuts the middle so that the text fits into `room`; the tail begins after `resumption`, and never within an
    /// escape.
    pub(crate) fn without_middle(
        text: &str,
        room: usize,
        resumption: &'static str,
        escaping: Escaping,
    ) -> Option<Self> {
        if text.is_empty() || room >= text.len() {
            return None;
        }
        let cut = |reserved: usize| {
            let both = room.checked_sub(Mark::FRAME + reserved + 1 + resumption.len())?;
            let head = text.floor_char_boundary(both.div_ceil(2));
            let start = text.ceil_char_boundary(text.len() - (both - head));
            let tail = text.len() - escaping.resume_at(text, start);
            let kept = Self::head_and_tail(text, head, tail, resumption);
            (kept.len(text.len()) <= room).then_some(kept)
        };
        let mark_alone = || Some(Self::head(text, 0)).filter(|kept| kept.len(0) <= room);
        (1..=MAX_DIGITS).find_map(cut).or_else(mark_alone)
    }

    /// Returns the shortest form of a text that keeps its first `floor` bytes. A text shorter than its mark
    /// stays whole.
    pub(crate) fn shortest(text: &str, floor: usize) -> Self {
        let cut = Self::head(text, floor);
        if cut.len(text.len()) < text.len() { cut } else { Self::Whole }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_knows_its_length() {
        for cut in [0, 9, 10, 99, 100, 12345, usize::MAX] {
            let mark = Mark { cut };
            assert_eq!(mark.len(), mark.to_string().len());
            assert!(mark.len() < 48);
        }
    }

    #[test]
    fn the_longest_head_that_fits_is_kept() {
        let text = "é".repeat(600);
        for room in 0..text.len() {
            let best = (0..text.len())
                .filter(|&head| text.is_char_boundary(head))
                .map(|head| KeptPart::head(&text, head))
                .rfind(|kept| kept.len(text.len()) <= room);
            assert_eq!(KeptPart::without_end(&text, room, 0), best, "room {room}");
        }
    }

    #[test]
    fn head_and_tail_fill_the_room() {
        let text = "abc\u{1F680}é ".repeat(300);
        for room in 20..text.len() {
            let Some(kept) = KeptPart::without_middle(&text, room, "\n", Escaping::AsWritten)
            else {
                panic!("room {room}")
            };
            let KeptPart::Ends { head, tail, .. } = kept else { panic!("room {room}") };
            assert!(text.is_char_boundary(head) && text.is_char_boundary(text.len() - tail));
            let len = kept.len(text.len());
            assert!(len <= room && len + 8 >= room.min(text.len()), "room {room}, {len}");
        }
    }
}
