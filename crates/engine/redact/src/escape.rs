//! Decodes escapes of JSON, URLs and programming languages, nested and mixed.
//!
//! A text inside JSON strings has more backslashes the deeper it is nested, so backslashes are dropped; percent
//! signs are decoded again (`%252F`).

/// The maximum number of backslashes, and the maximum depth of percent-encoding, of one escape.
const MAX_NESTING: u32 = 64;

/// A byte of the decoded text.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Decoded {
    /// The byte; for a line break or a tab, the letter of its escape.
    pub byte: u8,
    /// Whether the byte is a line break or a tab, escaped or not.
    pub is_break: bool,
    /// The range of its source, in whole characters.
    pub start: usize,
    pub end: usize,
}

/// Decodes a text a byte at a time.
#[derive(Debug, Clone, Default)]
pub(crate) struct Unescape {
    state: State,
    /// The last character of more than one byte.
    wide: (usize, usize),
}

#[derive(Debug, Clone, Copy, Default)]
enum State {
    #[default]
    Plain,
    Backslashes {
        start: usize,
        count: u32,
    },
    Digits(Digits),
}

/// An escape whose digits are being read.
#[derive(Debug, Clone, Copy)]
struct Digits {
    start: usize,
    /// The first character of the escape, and the digits so far.
    text: [u8; 5],
    length: usize,
    /// The number of times that the percent sign was encoded.
    depth: u32,
}

impl Digits {
    fn new(first: u8, start: usize) -> Self {
        Self { start, text: [first, 0, 0, 0, 0], length: 1, depth: 0 }
    }

    fn is_complete(&self) -> bool {
        self.length == if self.text[0] == b'u' { 5 } else { 3 }
    }

    fn value(&self) -> u32 {
        let digits = self.text[1..self.length].iter().map(|&digit| char::from(digit).to_digit(16));
        digits.fold(0, |value, digit| value * 16 + digit.unwrap_or(0))
    }
}

impl Unescape {
    /// Reads the byte at a position, and passes the bytes that it completes to `give`.
    pub fn step(&mut self, byte: u8, at: usize, give: &mut impl FnMut(Decoded)) {
        match std::mem::take(&mut self.state) {
            State::Plain => {}
            State::Backslashes { start, count } => match byte {
                b'\\' => {
                    let is_deep = count >= MAX_NESTING;
                    let (start, count) = if is_deep { (at, 1) } else { (start, count + 1) };
                    self.state = State::Backslashes { start, count };
                    return;
                }
                b'u' | b'x' => {
                    self.state = State::Digits(Digits::new(byte, start));
                    return;
                }
                b'n' | b'r' | b't' => {
                    return give(Decoded { byte, is_break: true, start, end: at + 1 });
                }
                b'"' | b'\'' | b'/' => {
                    return give(Decoded { byte, is_break: false, start, end: at + 1 });
                }
                _ => {}
            },
            State::Digits(mut digits) => {
                if byte.is_ascii_hexdigit() {
                    digits.text[digits.length] = byte;
                    digits.length += 1;
                    if digits.is_complete() {
                        self.decode(digits, at, give);
                    } else {
                        self.state = State::Digits(digits);
                    }
                    return;
                }
                // It is not an escape.
                for &byte in &digits.text[..digits.length] {
                    give(Decoded { byte, is_break: false, start: digits.start, end: at });
                }
            }
        }
        let length = match byte {
            0xc0..=0xdf => 2,
            0xe0..=0xef => 3,
            0xf0.. => 4,
            _ => 1,
        };
        if length > 1 {
            self.wide = (at, at + length);
        }
        let source = if byte.is_ascii() { (at, at + 1) } else { self.wide };
        self.plain(byte, source, 0, give);
    }

    /// Returns where an incomplete escape begins.
    pub fn open_from(&self) -> Option<usize> {
        match self.state {
            State::Plain => None,
            State::Backslashes { start, .. } | State::Digits(Digits { start, .. }) => Some(start),
        }
    }

    fn decode(&mut self, digits: Digits, at: usize, give: &mut impl FnMut(Decoded)) {
        let (start, value) = (digits.start, digits.value());
        match (u8::try_from(value), char::from_u32(value)) {
            (Ok(byte), _) if byte.is_ascii() || digits.text[0] != b'u' => {
                self.plain(byte, (start, at + 1), digits.depth + 1, give);
            }
            (_, Some(c)) => {
                for &byte in c.encode_utf8(&mut [0; 4]).as_bytes() {
                    give(Decoded { byte, is_break: false, start, end: at + 1 });
                }
            }
            // Half of a character, which no known value contains.
            (_, None) => give(Decoded { byte: 0xff, is_break: false, start, end: at + 1 }),
        }
    }

    /// Reads a literal byte, or one that began an escape.
    fn plain(
        &mut self,
        byte: u8,
        (start, end): (usize, usize),
        depth: u32,
        give: &mut impl FnMut(Decoded),
    ) {
        let start = if depth > MAX_NESTING { end - 1 } else { start };
        let (byte, is_break) = match byte {
            b'\\' => {
                self.state = State::Backslashes { start, count: 1 };
                return;
            }
            b'%' => {
                let depth = if depth > MAX_NESTING { 0 } else { depth };
                self.state = State::Digits(Digits { depth, ..Digits::new(byte, start) });
                return;
            }
            b'\n' => (b'n', true),
            b'\r' => (b'r', true),
            b'\t' => (b't', true),
            byte => (byte, false),
        };
        give(Decoded { byte, is_break, start, end });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(text: &str) -> String {
        let (mut unescape, mut bytes) = (Unescape::default(), Vec::new());
        for (at, byte) in text.bytes().enumerate() {
            unescape.step(byte, at, &mut |decoded| bytes.push(decoded.byte));
        }
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn escapes_are_decoded_at_any_depth() {
        for (text, clear) in [
            ("plain é", "plain é"),
            (r#"a\"b\/c\u00e9\u00E9\x41"#, "a\"b/cééA"),
            (r#"a\\\"b\\\\\\\"c\\\\u0026"#, "a\"b\"c&"),
            ("a%2Fb%2fc%C3%A9", "a/b/cé"),
            ("a%252Fb%25252Fc", "a/b/c"),
            ("%5Cu0041%5c%22", "A\""),
            ("100% sure, 5%2 and %zz \\u12x \\y", "100% sure, 5%2 and %zz u12x y"),
            ("a\nb\\nc%0Ad\\\\nd", "anbncndnd"),
        ] {
            assert_eq!(decoded(text), clear, "{text}");
        }
    }

    #[test]
    fn what_is_open_is_bounded() {
        for text in ["\\".repeat(5000), "%".to_owned() + &"25".repeat(5000)] {
            let mut unescape = Unescape::default();
            for (at, byte) in text.bytes().enumerate() {
                unescape.step(byte, at, &mut |_| {});
                assert!(at - unescape.open_from().unwrap_or(at) <= 200);
            }
        }
    }
}
