//! Finds private keys in PEM: a title, followed by the key in base64.
//!
//! A title alone is not a key, because people mention titles. Keys are quoted, numbered and put in JSON, so
//! other characters may occur between the lines of a key.

use crate::mask::Span;

/// The start of a title.
pub(crate) const BEGINS: &str = "-----BEGIN ";
/// The text after the dashes of the last line.
const ENDS: &[u8] = b"END ";
const DASHES: usize = 5;
/// The maximum number of characters of the words in a title.
const MAX_WORDS: usize = 64;
/// The minimum length of a run of base64; a shorter one is a word, unless it is the last of a key.
const RUN: usize = 16;
/// The length from which a run of base64 is certainly not a word.
const SURE_RUN: usize = 40;
/// The maximum number of bytes between two runs of one key.
const MAX_BETWEEN: usize = 256;
/// The headers above the base64.
const HEADERS: [&[u8]; 6] =
    [b"Proc-Type", b"DEK-Info", b"Version", b"Comment", b"Hash", b"Charset"];
/// The part before the hyphen of headers that have one.
const HYPHENATED: [&[u8]; 2] = [b"Proc", b"DEK"];
const MAX_HEADER_BYTES: usize = 9;

/// Reads a private key, starting after [`BEGINS`].
#[derive(Debug, Clone)]
pub(crate) struct PrivateKey {
    start: usize,
    /// The end of the key so far: of its title, then of its base64, then of its last line.
    end: usize,
    /// Whether base64 was found, so that it is a key.
    has_base64: bool,
    /// Whether a line ended after the title.
    has_lines: bool,
    /// Whether a word was found: the last line of base64, or the start of prose.
    has_word: bool,
    state: State,
}

#[derive(Debug, Clone)]
enum State {
    /// In the words of the title, with its last characters.
    Title {
        last: [u8; 11],
        is_private: bool,
        length: usize,
    },
    /// In the dashes after the title.
    TitleDashes(usize),
    /// Between runs of base64, after this many dashes.
    Between {
        dashes: usize,
    },
    /// After a backslash between runs.
    Escape,
    /// In a run of base64.
    Run(Run),
    /// In a header above the base64.
    Header,
    /// In `END ` of the last line, after this many characters.
    End(usize),
    /// In the words of the last line, and then in its dashes.
    EndWords(usize),
    EndDashes(usize),
}

#[derive(Debug, Clone, Default)]
struct Run {
    length: usize,
    has_letters: bool,
    /// The first characters, which may name a header.
    first: [u8; MAX_HEADER_BYTES],
    /// Whether the last byte was a backslash; in JSON, a slash may be escaped.
    is_escaped: bool,
}

impl PrivateKey {
    /// Starts a key whose title begins at a position.
    pub fn new(start: usize) -> Self {
        Self {
            start,
            end: start + BEGINS.len(),
            has_base64: false,
            has_lines: false,
            has_word: false,
            state: State::Title { last: [0; 11], is_private: false, length: 0 },
        }
    }

    /// Returns the certain part of the key, if it is one.
    pub fn so_far(&self) -> Option<Span> {
        self.has_base64.then_some(Span { start: self.start, end: self.end })
    }

    /// Returns the key if the text ends before the key does: nothing shows that the rest is not part of it.
    pub fn at_end_of_text(&self, at: usize) -> Option<Span> {
        self.has_base64.then_some(Span { start: self.start, end: at })
    }

    /// Returns the position after which more text is needed to decide.
    pub fn open_from(&self) -> usize {
        if self.has_base64 { self.end } else { self.start }
    }

    /// Reads the byte at a position, and returns whether the key may continue.
    pub fn step(&mut self, byte: u8, at: usize) -> bool {
        match &mut self.state {
            State::Title { last, is_private, length } => {
                if byte == b'-' {
                    let is_private = *is_private;
                    self.state = State::TitleDashes(1);
                    return is_private;
                }
                last.rotate_left(1);
                last[10] = byte;
                *is_private |= last == b"PRIVATE KEY";
                *length += 1;
                is_title(byte) && *length <= MAX_WORDS
            }
            State::TitleDashes(count) => {
                *count += 1;
                if *count == DASHES {
                    self.end = at + 1;
                    self.state = State::Between { dashes: 0 };
                }
                byte == b'-'
            }
            State::Between { dashes } if byte == b'-' => {
                *dashes += 1;
                if *dashes == DASHES {
                    self.state = State::End(0);
                }
                self.is_near(at)
            }
            State::Between { .. } => self.between(byte, at),
            State::Escape => match byte {
                b'/' => self.begin_run(byte, at),
                b'n' | b'r' | b't' => {
                    self.state = State::Between { dashes: 0 };
                    self.is_near(at)
                }
                _ => self.between(byte, at),
            },
            State::Run(_) => self.run(byte, at),
            State::Header => {
                match byte {
                    b'\n' => self.state = State::Between { dashes: 0 },
                    b'\\' => self.state = State::Escape,
                    _ => {}
                }
                self.has_lines |= matches!(byte, b'\n' | b'\\');
                self.is_near(at)
            }
            State::End(count) => {
                // A title and an end on one line, or with nothing between them, contain no secret.
                let is_key = self.has_base64 || self.has_word && self.has_lines;
                let is_end = ENDS.get(*count) == Some(&byte);
                *count += 1;
                if !is_end || *count < ENDS.len() {
                    return is_end;
                }
                self.has_base64 = is_key;
                self.end = at + 1;
                self.state = State::EndWords(0);
                is_key
            }
            State::EndWords(count) => {
                *count += 1;
                let continues = is_title(byte) && *count <= MAX_WORDS || byte == b'-';
                if byte == b'-' {
                    self.state = State::EndDashes(1);
                }
                self.end = if continues { at + 1 } else { at };
                continues
            }
            State::EndDashes(count) => {
                *count += 1;
                let continues = byte == b'-' && *count <= DASHES;
                self.end = if continues { at + 1 } else { at };
                continues
            }
        }
    }

    /// Reads a byte that may occur between two runs: white space, quotation marks, and signs before a line. Any
    /// byte outside ASCII counts as a sign.
    fn between(&mut self, byte: u8, at: usize) -> bool {
        self.has_lines |= matches!(byte, b'\n' | b'\\');
        match byte {
            b'\\' => self.state = State::Escape,
            _ if is_base64(byte) => return self.begin_run(byte, at),
            _ if is_sign(byte) => self.state = State::Between { dashes: 0 },
            _ => return false,
        }
        self.is_near(at)
    }

    fn begin_run(&mut self, byte: u8, at: usize) -> bool {
        self.state = State::Run(Run::default());
        self.is_near(at) && self.run(byte, at)
    }

    fn run(&mut self, byte: u8, at: usize) -> bool {
        let State::Run(run) = &mut self.state else { return false };
        if std::mem::take(&mut run.is_escaped) && byte != b'/' {
            self.end_run(at - 1, true);
            self.has_lines = true;
            self.state = State::Escape;
            return self.step(byte, at);
        }
        match byte {
            _ if is_base64(byte) => {
                run.push(byte);
                if run.length >= if self.has_base64 { RUN } else { SURE_RUN } {
                    self.has_base64 = true;
                    self.end = at + 1;
                }
                // A second word is prose.
                !(self.has_word && byte.is_ascii_alphabetic())
            }
            b'\\' => {
                run.is_escaped = true;
                true
            }
            b':' if run.is(&HEADERS) => {
                self.state = State::Header;
                true
            }
            b'-' if run.is(&HYPHENATED) => {
                run.push(byte);
                true
            }
            _ => {
                let continues = byte == b'-' || is_sign(byte);
                self.end_run(at, continues);
                self.state = State::Between { dashes: 0 };
                continues && self.step(byte, at)
            }
        }
    }

    /// Ends a run at a position. The key may or may not continue after it.
    fn end_run(&mut self, at: usize, continues: bool) {
        let State::Run(run) = &self.state else { return };
        if run.length >= RUN && (self.has_base64 || continues) {
            self.has_base64 = true;
            self.end = at;
        } else {
            // A line number is not a word.
            self.has_word |= run.has_letters;
        }
    }

    fn is_near(&self, at: usize) -> bool {
        at - self.end <= MAX_BETWEEN
    }
}

impl Run {
    fn push(&mut self, byte: u8) {
        if let Some(place) = self.first.get_mut(self.length) {
            *place = byte;
        }
        self.length += 1;
        self.has_letters |= byte.is_ascii_alphabetic();
    }

    fn is(&self, words: &[&[u8]]) -> bool {
        let first = self.first.get(..self.length);
        first.is_some_and(|first| words.contains(&first))
    }
}

fn is_title(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b' '
}

fn is_base64(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=')
}

fn is_sign(byte: u8) -> bool {
    let is_space = byte.is_ascii_whitespace() || byte == 0x0b;
    is_space || !byte.is_ascii() || matches!(byte, b'"' | b'\'' | b',' | b'|' | b'>' | b'#' | b'*')
}
