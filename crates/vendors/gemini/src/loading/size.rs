//! The size limit of Gemini CLI: beyond the model's window it sends no request.

/// The tokens of the model's window.
const WINDOW_TOKENS: u64 = 1024 * 1024;

/// The approximate size of the program's own text: 23 KB of system instruction.
const OVERHEAD_TOKENS: u64 = 23_000 / 4;

/// The bytes that plain text may have, for showing a limit.
pub(super) const LIMIT_BYTES: u64 = (WINDOW_TOKENS - OVERHEAD_TOKENS) * 4;

/// More bytes than any request can hold; nothing beyond needs to be read.
pub(super) const MORE_THAN_ANY_REQUEST: usize = 5 * 1024 * 1024;

/// Returns whether texts are too long for one request, by the program's own estimate: a quarter of
/// a token for an ASCII character, 1.3 for any other.
pub(super) fn is_too_long<'a>(texts: impl Iterator<Item = &'a str>) -> bool {
    // In units of a twentieth of a token.
    let mut units = OVERHEAD_TOKENS * 20;
    for text in texts {
        let ascii = text.bytes().filter(u8::is_ascii).count() as u64;
        let starts = text.bytes().filter(|byte| byte & 0xc0 != 0x80).count() as u64;
        units += ascii * 5 + (starts - ascii) * 26;
    }
    units > WINDOW_TOKENS * 20
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_mebibytes_are_too_long_and_one_is_not() {
        let four = "x".repeat(4 * 1024 * 1024);
        assert!(is_too_long([&*four].into_iter()));
        assert!(!is_too_long([&four[..1024 * 1024]].into_iter()));
        assert!(!is_too_long([&four[..usize::try_from(LIMIT_BYTES).unwrap()]].into_iter()));
        let wide = "世".repeat(900_000);
        assert!(is_too_long([&*wide].into_iter()));
    }
}
