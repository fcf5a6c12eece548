//! Finds passwords in URLs: `scheme://user:password@host`.

use crate::mask::Span;

/// The maximum number of bytes of a URL's authority.
const MAX_BYTES: usize = 1 << 10;

/// Placeholders for a password.
const PLACEHOLDERS: [&[u8]; 9] = [
    b"password",
    b"your_password",
    b"your-password",
    b"yourpassword",
    b"passwd",
    b"pass",
    b"pwd",
    b"secret",
    b"%s",
];
/// The text after the `@` of an image with a tag, which is not a password.
const DIGEST: &[u8] = b"sha256:";

/// Reads the authority of a URL.
#[derive(Debug, Clone)]
pub(crate) struct Authority {
    start: usize,
    /// The start of the password.
    password: Option<usize>,
    /// The end of the password, before the last `@`.
    end: Option<usize>,
    /// The text from the password on.
    text: Vec<u8>,
}

impl Authority {
    /// Starts an authority at a position.
    pub fn new(start: usize) -> Self {
        Self { start, password: None, end: None, text: Vec::new() }
    }

    /// Reads the byte at a position, and returns whether the authority continues.
    pub fn step(&mut self, byte: u8, at: usize) -> bool {
        match (byte, self.password) {
            (b':', None) => self.password = Some(at + 1),
            (b'@', Some(start)) if at > start => self.end = Some(at),
            (b'@', None)
            | (b'/' | b'?' | b'#' | b'"' | b'\'' | b'`' | b'\\' | b'|' | ..=b' ' | 0x7f.., _) => {
                return false;
            }
            _ => {}
        }
        if self.password.is_some_and(|start| at >= start) {
            self.text.push(byte.to_ascii_lowercase());
        }
        at - self.start < MAX_BYTES
    }

    /// Returns the password, if the authority has ended.
    pub fn password(&self) -> Option<Span> {
        let (start, end) = self.password.zip(self.end)?;
        let (password, rest) = self.text.split_at_checked(end - start)?;
        let is_digest = rest.get(1..).is_some_and(|host| host.starts_with(DIGEST));
        (!is_digest && !is_placeholder(password)).then_some(Span { start, end })
    }

    /// Returns the position after which more text is needed to decide.
    pub fn open_from(&self) -> Option<usize> {
        self.password
    }
}

/// Returns whether a text stands for a password: `${PASSWORD}`, `<password>`, `***`.
fn is_placeholder(text: &[u8]) -> bool {
    let is_filler = |filler: u8| text.iter().all(|&byte| byte == filler);
    text.first().is_some_and(|first| b"${<[".contains(first))
        || PLACEHOLDERS.contains(&text)
        || b"*x.".iter().any(|&filler| is_filler(filler))
}
