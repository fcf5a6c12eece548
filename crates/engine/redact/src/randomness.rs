//! Distinguishes keys from words.
//!
//! Entropy hardly distinguishes thirty characters such as `spinner-pulse-animation-container` from a key. What
//! differs is how letters and digits alternate within a segment (a run of letters and digits): in random text,
//! the kind of character changes every two or three characters; in names, rarely.

/// The length from which a single segment can show that a text is random.
const SEGMENT: u32 = 16;
/// The length from which a segment counts together with others.
const SHORT_SEGMENT: u32 = 8;
/// The number of digits that is neither a date nor a version.
const LONG_NUMBER: u32 = 10;
/// The length of a run of consonants that no word has.
const CONSONANTS: u32 = 5;
/// The lengths of the segments of a UUID.
const UUID: [u32; 5] = [8, 4, 4, 4, 12];

/// Measures a text byte by byte.
#[derive(Debug, Clone, Default)]
pub(crate) struct Randomness {
    segment: Segment,
    /// The total length of short segments that look random.
    short: u32,
    /// The number of segments of a UUID so far.
    uuid: usize,
}

#[derive(Debug, Clone)]
struct Segment {
    length: u32,
    digits: u32,
    /// The number of digits that differ from the previous character.
    varied_digits: u32,
    /// The number of changes between a letter and a digit.
    changes: u32,
    /// The number of changes from lower case to upper case.
    humps: u32,
    consonants: u32,
    has_long_consonants: bool,
    is_hex: bool,
    last: u8,
}

impl Default for Segment {
    fn default() -> Self {
        Self {
            length: 0,
            digits: 0,
            varied_digits: 0,
            changes: 0,
            humps: 0,
            consonants: 0,
            has_long_consonants: false,
            is_hex: true,
            // Names begin with a lower-case letter.
            last: b'a',
        }
    }
}

impl Randomness {
    /// Reads the next byte, and returns whether it shows that the text is random.
    pub fn step(&mut self, byte: u8) -> bool {
        if byte.is_ascii_alphanumeric() {
            self.segment.step(byte);
            self.segment.is_random()
        } else {
            self.end_segment()
        }
    }

    /// Ends a segment, and returns whether all segments so far show that the text is random.
    pub fn end_segment(&mut self) -> bool {
        let segment = std::mem::take(&mut self.segment);
        if segment.length == 0 {
            return false;
        }
        if segment.is_dense() || segment.is_number() {
            self.short += segment.length;
        }
        let continues = |at: usize| segment.is_hex && UUID.get(at) == Some(&segment.length);
        self.uuid = if continues(self.uuid) { self.uuid + 1 } else { usize::from(continues(0)) };
        self.short >= SEGMENT || self.uuid == UUID.len()
    }
}

impl Segment {
    fn step(&mut self, byte: u8) {
        let is_digit = byte.is_ascii_digit();
        self.length = self.length.saturating_add(1);
        self.digits = self.digits.saturating_add(u32::from(is_digit));
        self.changes += u32::from(is_digit != self.last.is_ascii_digit());
        self.humps += u32::from(byte.is_ascii_uppercase() && self.last.is_ascii_lowercase());
        let is_vowel = matches!(byte.to_ascii_lowercase(), b'a' | b'e' | b'i' | b'o' | b'u' | b'y');
        // `xxxx` is a placeholder for a key.
        let is_repeated = byte.eq_ignore_ascii_case(&self.last);
        self.varied_digits += u32::from(is_digit && !is_repeated);
        let is_consonant = !is_digit && !is_vowel;
        self.consonants = if is_consonant { self.consonants + u32::from(!is_repeated) } else { 0 };
        self.has_long_consonants |= self.consonants >= CONSONANTS;
        self.is_hex &= byte.is_ascii_hexdigit();
        self.last = byte;
    }

    fn points(&self) -> u32 {
        2 * self.changes + self.humps
    }

    fn is_random(&self) -> bool {
        let alternates =
            self.changes >= 2 && self.points() >= 6 && self.points() * 4 >= self.length;
        let letters = self.length - self.digits;
        let is_numeric =
            self.varied_digits >= SEGMENT || self.varied_digits >= LONG_NUMBER && letters >= 4;
        self.length >= SEGMENT && (alternates || is_numeric || self.has_long_consonants)
    }

    fn is_dense(&self) -> bool {
        let is_short = (SHORT_SEGMENT..SEGMENT).contains(&self.length);
        is_short && self.changes >= 2 && self.points() >= 6 && self.points() * 2 >= self.length
    }

    fn is_number(&self) -> bool {
        self.digits == self.length && self.varied_digits >= LONG_NUMBER
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_random(text: &str) -> bool {
        let mut randomness = Randomness::default();
        let steps = text.bytes().filter(|byte| randomness.step(*byte)).count();
        randomness.end_segment() || steps > 0
    }

    #[test]
    fn names_are_not_random() {
        for name in [
            "spinner-pulse-animation-container",
            "learn-pipeline-standard-scaler-2024-01-15",
            "hub_download_with_retries_and_backoff",
            "internationalization-utils",
            "getUserByIdFromDatabaseOrCache",
            "x86_64-unknown-linux-gnu-h264-mp4-v2",
            "sha256sum-utf8decoder-base64url",
            "animationcontainer2024",
            "sha256sumofthewholefile",
            "build-20240115120000-main",
        ] {
            assert!(!is_random(name), "{name}");
        }
    }

    #[test]
    fn keys_are_random() {
        for key in [
            "7fK2mQ9xR4tV1bN8",
            "9c1185a5c5e9fc54612808977ee8f548",
            "1234567890abcdef",
            "abcdefghijklmnopqrstuvwxyz123456",
            "proj-aBcD3fGh1jK2mN4pQ5rS6tU7vW8xY9z0",
            "lf-7ab6c3fe-5acd-4c1d-9f3e-0a1b2c3d4e5f",
            "1234567890123-4567890123456",
            "qWzRtPlKjHgFdSxCvBnM",
        ] {
            assert!(is_random(key), "{key}");
        }
    }
}
