//! Passwords in URLs: `scheme://user:password@host`.

use crate::mask::Span;

/// The most bytes of a URL's authority.
const MOST_BYTES: usize = 1 << 10;

/// Reads the authority of a URL.
#[derive(Debug, Clone)]
pub(crate) struct Authority {
    start: usize,
    /// The start of the password.
    password: Option<usize>,
    /// The end of the password, before the last `@`.
    end: Option<usize>,
    /// It begins like a placeholder: `${PASSWORD}`, `<password>`.
    is_placeholder: bool,
}

impl Authority {
    /// Begins an authority at a position.
    pub fn new(start: usize) -> Self {
        Self { start, password: None, end: None, is_placeholder: false }
    }

    /// Takes the byte at a position, and returns whether the authority continues.
    pub fn step(&mut self, byte: u8, at: usize) -> bool {
        if self.password == Some(at) {
            self.is_placeholder = matches!(byte, b'$' | b'{' | b'<' | b'[');
        }
        match (byte, self.password) {
            (b':', None) => self.password = Some(at + 1),
            (b'@', Some(start)) if at > start => self.end = Some(at),
            (b'@', None)
            | (b'/' | b'?' | b'#' | b'"' | b'\'' | b'`' | b'\\' | b'|' | ..=b' ' | 0x7f.., _) => {
                return false;
            }
            _ => {}
        }
        at - self.start < MOST_BYTES
    }

    /// Returns the password, when the authority is over.
    pub fn password(&self) -> Option<Span> {
        let (start, end) = self.password.zip(self.end)?;
        (!self.is_placeholder).then_some(Span { start, end })
    }

    /// Returns from where on more text decides.
    pub fn open_from(&self) -> Option<usize> {
        self.password
    }
}
