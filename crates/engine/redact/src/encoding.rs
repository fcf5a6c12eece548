//! Finds known values in other spellings: escaped, in base64 and in hexadecimal, also split into lines.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use aho_corasick::automaton::StateID;

use crate::escape::{Decoded, Unescape};
use crate::known::{Known, Place};
use crate::mask::Span;
use crate::spelling;

/// The maximum number of bytes between two characters of an encoded value: a line break, an indentation, a
/// separator.
const MAX_GAP: u32 = 16;

/// The minimum length of a spelling; shorter ones occur in too many texts.
const MIN_LENGTH: usize = 6;

/// The spellings of known values, in a text with decoded escapes.
#[derive(Debug)]
pub(crate) struct Encodings {
    unescaped: Option<Arc<Known>>,
    base64: Option<Arc<Known>>,
    hex: Option<Arc<Known>>,
    /// The bytes that begin neither a spelling nor an escape.
    idle: Arc<[bool; 256]>,
}

impl Encodings {
    /// Creates the spellings of these values.
    pub fn new<'v>(values: impl Iterator<Item = &'v str> + Clone) -> Self {
        let known = |spellings: &mut dyn Iterator<Item = Vec<u8>>| {
            let spellings: BTreeMap<_, _> = spellings.map(|it| (it, Place::Anywhere)).collect();
            Known::new(&spellings).map(Arc::new)
        };
        let unescaped = known(&mut values.clone().filter_map(unescaped));
        let base64 = known(&mut values.clone().flat_map(spelling::base64).map(String::into_bytes));
        let hex = values.flat_map(|value| {
            let hex = spelling::hex(value.as_bytes()).into_bytes();
            // As in the source of many languages: `0x5a, 0x78`.
            let prefixed = hex.chunks(2).flat_map(|byte| [b"0x", byte].concat()).collect();
            [hex, prefixed]
        });
        let hex = known(&mut hex.into_iter());
        let begins = |known: &Option<Arc<Known>>, byte: Option<u8>| {
            known.as_ref().zip(byte).is_some_and(|(known, byte)| known.begins_with(byte))
        };
        let is_idle = |byte: u8| {
            let mut decoded = None;
            Unescape::default().step(byte, 0, &mut |it| decoded = Some(it));
            decoded.is_some_and(|decoded| {
                !begins(&unescaped, Some(as_unescaped(decoded)))
                    && !begins(&base64, as_base64(decoded))
                    && !begins(&hex, as_hex(decoded))
            })
        };
        // A character of several bytes is read whole.
        let idle = std::array::from_fn(|byte| {
            u8::try_from(byte).is_ok_and(|byte| byte.is_ascii() && is_idle(byte))
        });
        Self { unescaped, base64, hex, idle: Arc::new(idle) }
    }
}

/// Returns a value with its escapes decoded; `None` if too little is left.
fn unescaped(value: &str) -> Option<Vec<u8>> {
    let (mut unescape, mut bytes) = (Unescape::default(), Vec::new());
    for (at, byte) in spelling::json(value).bytes().enumerate() {
        unescape.step(byte, at, &mut |decoded| bytes.push(as_unescaped(decoded)));
    }
    (bytes.len() >= MIN_LENGTH).then_some(bytes)
}

/// Finds spellings of known values.
#[derive(Debug, Clone)]
pub(crate) struct EncodedScan {
    unescape: Unescape,
    unescaped: Option<Finder>,
    base64: Option<Finder>,
    hex: Option<Finder>,
    idle: Arc<[bool; 256]>,
    /// Whether nothing is open.
    is_idle: bool,
}

impl EncodedScan {
    /// Starts a text.
    pub fn new(encodings: &Encodings) -> Self {
        let finder = |known: &Option<Arc<Known>>| known.as_ref().map(Finder::new);
        Self {
            unescape: Unescape::default(),
            unescaped: finder(&encodings.unescaped),
            base64: finder(&encodings.base64),
            hex: finder(&encodings.hex),
            idle: Arc::clone(&encodings.idle),
            is_idle: true,
        }
    }

    /// Reads the byte at a position, and adds the values that end with it.
    pub fn step(&mut self, byte: u8, at: usize, spans: &mut Vec<Span>) {
        if self.is_idle && self.idle[usize::from(byte)] {
            return;
        }
        let Self { unescape, unescaped, base64, hex, .. } = self;
        unescape.step(byte, at, &mut |decoded| {
            let places = [
                (&mut *unescaped, Some(as_unescaped(decoded))),
                (&mut *base64, as_base64(decoded)),
                (&mut *hex, as_hex(decoded)),
            ];
            for (finder, byte) in places {
                if let Some(finder) = finder {
                    finder.step(byte, decoded, spans);
                }
            }
        });
        let finders = [&self.unescaped, &self.base64, &self.hex];
        self.is_idle = self.unescape.open_from().is_none()
            && finders.into_iter().flatten().all(Finder::is_idle);
    }

    /// Returns the position after which more text is needed to decide.
    pub fn open_from(&self) -> Option<usize> {
        let finders = [&self.unescaped, &self.base64, &self.hex];
        let open = finders.into_iter().flatten().filter_map(Finder::open_from);
        open.chain(self.unescape.open_from()).min()
    }
}

/// Normalises a byte: a space and a plus sign are equal in the query of a URL.
fn as_unescaped(decoded: Decoded) -> u8 {
    if decoded.byte == b' ' { b'+' } else { decoded.byte }
}

/// Normalises a byte of base64: both alphabets are equal; `None` for characters between lines.
fn as_base64(decoded: Decoded) -> Option<u8> {
    match decoded.byte {
        _ if decoded.is_break => None,
        b' ' => None,
        b'-' => Some(b'+'),
        b'_' => Some(b'/'),
        byte => Some(byte),
    }
}

/// Normalises a hexadecimal digit: both cases are equal; `None` for characters between digits.
fn as_hex(decoded: Decoded) -> Option<u8> {
    match decoded.byte {
        _ if decoded.is_break => None,
        b' ' | b':' | b',' | b'-' => None,
        byte => Some(byte.to_ascii_lowercase()),
    }
}

#[derive(Debug, Clone)]
struct Finder {
    known: Arc<Known>,
    state: StateID,
    /// The starts of the sources of the last bytes.
    starts: VecDeque<usize>,
    gap: u32,
}

impl Finder {
    fn new(known: &Arc<Known>) -> Self {
        let starts = VecDeque::with_capacity(known.longest());
        Self { known: Arc::clone(known), state: known.start(), starts, gap: 0 }
    }

    /// Reads the next byte; `None` is a gap.
    fn step(&mut self, byte: Option<u8>, decoded: Decoded, spans: &mut Vec<Span>) {
        let Some(byte) = byte else {
            self.gap += 1;
            if self.gap > MAX_GAP {
                self.state = self.known.start();
            }
            return;
        };
        self.gap = 0;
        if self.is_idle() {
            self.starts.clear();
        }
        if self.starts.len() == self.known.longest() {
            self.starts.pop_front();
        }
        self.starts.push_back(decoded.start);
        self.state = self.known.step(self.state, byte);
        let found = self.known.found(self.state);
        spans.extend(found.map(|(length, _)| Span {
            start: self.starts[self.starts.len() - length],
            end: decoded.end,
        }));
    }

    fn is_idle(&self) -> bool {
        self.state == self.known.start()
    }

    fn open_from(&self) -> Option<usize> {
        let open = self.known.open_bytes(self.state);
        (open > 0).then(|| self.starts[self.starts.len() - open])
    }
}
