//! The boundaries of words.

/// Tracks which of the last 64 bytes begin a word.
///
/// A word begins after anything but an ASCII letter or digit, after a JSON escape (`\n`), and after a URL
/// escape (`%3D`).
#[derive(Debug, Clone, Default)]
pub(crate) struct Boundary {
    /// One bit per byte, the latest in the lowest bit.
    starts: u64,
    last: [u8; 3],
}

impl Boundary {
    /// Reads the next byte.
    pub fn step(&mut self, byte: u8) {
        let [third, second, first] = self.last;
        let is_escaped = second == b'\\' && matches!(first, b'n' | b'r' | b't')
            || third == b'%' && second.is_ascii_hexdigit() && first.is_ascii_hexdigit();
        let starts = is_escaped || !first.is_ascii_alphanumeric();
        self.starts = self.starts << 1 | u64::from(starts);
        self.last = [second, first, byte];
    }

    /// Returns whether a word begins at the start of the last `length` bytes. For more than 64 bytes, assumes
    /// that it does.
    pub fn is_start_of_last(&self, length: usize) -> bool {
        match length {
            1..=64 => self.starts >> (length - 1) & 1 == 1,
            _ => true,
        }
    }
}
