//! The boundaries of words.

/// The word beginnings among the last 64 bytes.
///
/// A word begins after anything but an ASCII letter or digit, after an escape of JSON (`\n`) and after one of a URL
/// (`%3D`).
#[derive(Debug, Clone, Default)]
pub(crate) struct Boundary {
    /// One bit for each byte, the latest lowest.
    starts: u64,
    last: [u8; 3],
}

impl Boundary {
    /// Takes the next byte.
    pub fn step(&mut self, byte: u8) {
        let [third, second, first] = self.last;
        let is_escaped = second == b'\\' && matches!(first, b'n' | b'r' | b't')
            || third == b'%' && second.is_ascii_hexdigit() && first.is_ascii_hexdigit();
        let starts = is_escaped || !first.is_ascii_alphanumeric();
        self.starts = self.starts << 1 | u64::from(starts);
        self.last = [second, first, byte];
    }

    /// Returns whether a word begins where the last `length` bytes do. Of more than 64 bytes it is assumed.
    pub fn is_start_of_last(&self, length: usize) -> bool {
        match length {
            1..=64 => self.starts >> (length - 1) & 1 == 1,
            _ => true,
        }
    }
}
