//! Filters output for a terminal.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher as _, Hasher as _};
use std::sync::OnceLock;

use convoke_chat::is_dangerous;
use unicode_width::UnicodeWidthChar as _;

/// The maximum number of successive zero-width characters. Emoji families need seven.
const MAX_COMBINING: usize = 16;

/// The first character of a style mark: a Unicode noncharacter, reserved for internal use.
const MARK: char = '\u{FDD0}';
/// Its first byte in UTF-8.
const MARK_BYTE: u8 = 0xEF;

/// A control sequence that this program may send to a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Control {
    Reset,
    Bold,
    Faint,
    Red,
    BoldRed,
    Green,
    Yellow,
    Cyan,
    ClearLine,
}

impl Control {
    const ALL: [Self; 9] = [
        Self::Reset,
        Self::Bold,
        Self::Faint,
        Self::Red,
        Self::BoldRed,
        Self::Green,
        Self::Yellow,
        Self::Cyan,
        Self::ClearLine,
    ];

    const fn sequence(self) -> &'static str {
        match self {
            Self::Reset => "\u{1b}[0m",
            Self::Bold => "\u{1b}[1m",
            Self::Faint => "\u{1b}[2m",
            Self::Red => "\u{1b}[31m",
            Self::BoldRed => "\u{1b}[1;31m",
            Self::Green => "\u{1b}[32m",
            Self::Yellow => "\u{1b}[33m",
            Self::Cyan => "\u{1b}[36m",
            Self::ClearLine => "\r\u{1b}[2K",
        }
    }

    /// Returns the mark that represents the sequence in text on its way to a [`Filter`].
    ///
    /// Untrusted text cannot contain it: the mark includes a secret of this process.
    pub(super) fn mark(self) -> &'static str {
        static MARKS: OnceLock<Vec<String>> = OnceLock::new();
        let marks = MARKS.get_or_init(|| {
            let secret = RandomState::new().build_hasher().finish();
            let digits =
                secret.to_be_bytes().map(|byte| char::from_u32(0xF_0000 + u32::from(byte)));
            let secret: String = digits.into_iter().flatten().collect();
            (0..Self::ALL.len()).map(|index| format!("{MARK}{secret}{index}")).collect()
        });
        marks.get(self as usize).map_or("", String::as_str)
    }
}

/// Returns the mark that clears the line of the cursor.
pub fn clear_line() -> &'static str {
    Control::ClearLine.mark()
}

/// Converts written bytes to terminal output, piece by piece.
#[derive(Debug, Default)]
pub(super) struct Filter {
    /// An incomplete character.
    bytes: Vec<u8>,
    /// An incomplete mark, or a carriage return whose next character is not known yet.
    held: String,
    /// The number of zero-width characters since the last one with a width.
    combining: usize,
}

impl Filter {
    /// Creates a filter that replaces marks by colours and passes every other byte through.
    pub(super) fn exact() -> Self {
        Self::default()
    }

    /// Replaces the marks of a piece by control sequences; everything else is unchanged. O(bytes).
    pub(super) fn painted(&mut self, piece: &[u8]) -> Vec<u8> {
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.extend_from_slice(piece);
        let mut painted = Vec::with_capacity(bytes.len());
        let mut rest = bytes.as_slice();
        while let Some(at) = rest.iter().position(|byte| *byte == MARK_BYTE) {
            let (before, after) = rest.split_at(at);
            painted.extend_from_slice(before);
            rest = after;
            let mut controls = Control::ALL.iter();
            if let Some(control) = controls.find(|it| rest.starts_with(it.mark().as_bytes())) {
                painted.extend_from_slice(control.sequence().as_bytes());
                rest = &rest[control.mark().len()..];
            } else if Control::ALL.iter().any(|it| it.mark().as_bytes().starts_with(rest)) {
                rest.clone_into(&mut self.bytes);
                return painted;
            } else {
                painted.push(MARK_BYTE);
                rest = &rest[1..];
            }
        }
        painted.extend_from_slice(rest);
        painted
    }

    /// Returns the bytes that were held back because they could begin a mark.
    pub(super) fn release(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes)
    }

    /// Returns the terminal output of a piece. O(bytes).
    pub(super) fn shown(&mut self, piece: &[u8]) -> String {
        let mut text = std::mem::take(&mut self.held);
        self.decode(piece, &mut text);
        let mut shown = String::with_capacity(text.len());
        let mut rest = text.as_str();
        while let Some(c) = rest.chars().next() {
            if c == MARK {
                if let Some(control) = Control::ALL.iter().find(|it| rest.starts_with(it.mark())) {
                    shown.push_str(control.sequence());
                    rest = &rest[control.mark().len()..];
                    continue;
                }
                if Control::ALL.iter().any(|it| it.mark().starts_with(rest)) {
                    break;
                }
            } else if rest == "\r" {
                break;
            } else if rest.starts_with("\r\n") {
                rest = &rest[1..];
                continue;
            }
            shown.push(self.character(c));
            rest = &rest[c.len_utf8()..];
        }
        rest.clone_into(&mut self.held);
        shown
    }

    /// Appends a piece as text. Invalid UTF-8 is replaced; an incomplete character is kept for the next piece.
    fn decode(&mut self, piece: &[u8], text: &mut String) {
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.extend_from_slice(piece);
        let mut rest = bytes.as_slice();
        while let Err(error) = std::str::from_utf8(rest) {
            let (valid, after) = rest.split_at(error.valid_up_to());
            text.push_str(std::str::from_utf8(valid).unwrap_or_default());
            let Some(invalid) = error.error_len() else {
                after.clone_into(&mut self.bytes);
                return;
            };
            text.push(char::REPLACEMENT_CHARACTER);
            rest = &after[invalid..];
        }
        text.push_str(std::str::from_utf8(rest).unwrap_or_default());
    }

    /// Returns the displayed form of a character.
    fn character(&mut self, c: char) -> char {
        let has_width = matches!(c, '\n' | '\t') || c.width().is_some_and(|width| width > 0);
        self.combining = if has_width { 0 } else { self.combining + 1 };
        match c {
            '\n' | '\t' => c,
            '\u{0}'..='\u{1F}' => {
                char::from_u32(0x2400 + u32::from(c)).unwrap_or(char::REPLACEMENT_CHARACTER)
            }
            '\u{7F}' => '\u{2421}',
            MARK => char::REPLACEMENT_CHARACTER,
            c if is_dangerous(c) || self.combining > MAX_COMBINING => char::REPLACEMENT_CHARACTER,
            c => c,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(pieces: &[&[u8]]) -> String {
        let mut filter = Filter::default();
        pieces.iter().map(|piece| filter.shown(piece)).collect()
    }

    #[test]
    fn control_sequences_become_marks() {
        for (text, clean) in [
            ("plain\n\ttext", "plain\n\ttext"),
            ("\u{1b}[31mred\u{1b}[0m", "␛[31mred␛[0m"),
            ("\u{1b}]52;c;aGk=\u{7}", "␛]52;c;aGk=␇"),
            ("\u{90}q\u{9c}\u{9b}2J\u{7f}", "\u{FFFD}q\u{FFFD}\u{FFFD}2J␡"),
            ("a\r\nb\rc", "a\nb␍c"),
            ("\u{202e}evil\u{2066}\u{200b}\u{feff}", "\u{FFFD}evil\u{FFFD}\u{FFFD}\u{FFFD}"),
            ("hidden\u{e0041}", "hidden\u{FFFD}"),
            ("漢字 👩‍👩‍👧 é", "漢字 👩‍👩‍👧 é"),
        ] {
            assert_eq!(shown(&[text.as_bytes()]), clean, "{text:?}");
            let bytes: Vec<&[u8]> = text.as_bytes().chunks(1).collect();
            assert_eq!(shown(&bytes), clean, "{text:?} in single bytes");
        }
    }

    #[test]
    fn bytes_that_are_not_utf8_are_replaced() {
        assert_eq!(shown(&[b"a\xffb\xc3", b"(c"]), "a\u{FFFD}b\u{FFFD}(c");
        assert_eq!(shown(&[b"\xc3", b"\xa9"]), "é");
    }

    #[test]
    fn a_pipe_gets_its_bytes_with_colours_in_place_of_marks() {
        let painted = format!("{}na\u{FDD0}me{}", Control::Green.mark(), Control::Reset.mark());
        let mut bytes = painted.into_bytes();
        bytes.extend(b"\xff\x1b\xef");
        let expected = b"\x1b[32mna\xef\xb7\x90me\x1b[0m\xff\x1b\xef".to_vec();
        for size in [1, 3, bytes.len()] {
            let mut filter = Filter::exact();
            let mut shown: Vec<u8> =
                bytes.chunks(size).flat_map(|piece| filter.painted(piece)).collect();
            shown.extend(filter.release());
            assert_eq!(shown, expected, "in pieces of {size}");
        }
    }

    #[test]
    fn a_pile_of_accents_is_cut() {
        let pile = shown(&[format!("a{}", "\u{301}".repeat(500)).as_bytes()]);
        assert_eq!(pile.matches('\u{301}').count(), MAX_COMBINING);
    }

    #[test]
    fn only_this_process_can_make_a_control_sequence() {
        let painted = format!("{}name{}", Control::Green.mark(), Control::Reset.mark());
        assert_eq!(shown(&[painted.as_bytes()]), "\u{1b}[32mname\u{1b}[0m");
        let bytes: Vec<&[u8]> = painted.as_bytes().chunks(1).collect();
        assert_eq!(shown(&bytes), "\u{1b}[32mname\u{1b}[0m");
        let guess = format!("{MARK}{}0", "\u{F0000}".repeat(8));
        assert!(!shown(&[guess.as_bytes()]).contains('\u{1b}'));
    }
}
