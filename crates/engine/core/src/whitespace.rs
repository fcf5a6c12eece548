//! White space as ECMAScript defines it: U+FEFF is white space, U+0085 is not.
//!
//! Texts are trimmed and split as in a JavaScript runtime, whose set differs from [`char::is_whitespace`] in exactly
//! those two characters.

/// Returns whether a character is white space.
pub const fn is_space(c: char) -> bool {
    matches!(
        c,
        '\u{9}'..='\u{D}'
            | ' '
            | '\u{A0}'
            | '\u{1680}'
            | '\u{2000}'..='\u{200A}'
            | '\u{2028}'
            | '\u{2029}'
            | '\u{202F}'
            | '\u{205F}'
            | '\u{3000}'
            | '\u{FEFF}'
    )
}

/// Returns the text without leading and trailing white space.
pub fn trim(text: &str) -> &str {
    text.trim_matches(is_space)
}

/// Returns the text without leading white space.
pub fn trim_start(text: &str) -> &str {
    text.trim_start_matches(is_space)
}

/// Returns the text without trailing white space.
pub fn trim_end(text: &str) -> &str {
    text.trim_end_matches(is_space)
}

/// Returns whether the text is empty or only white space.
pub fn is_blank(text: &str) -> bool {
    text.chars().all(is_space)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_set_is_ecmascripts() {
        assert!(is_space('\u{FEFF}'), "the byte order mark is white space");
        assert!(!is_space('\u{85}'), "the next-line character is not");
        for c in ['\u{180E}', '\u{200B}', '\u{2060}'] {
            assert!(!is_space(c), "{c:?} is not white space");
        }
        let here: usize = ('\0'..=char::MAX).filter(|&c| is_space(c)).count();
        let rust: usize = ('\0'..=char::MAX).filter(|&c| c.is_whitespace()).count();
        assert_eq!(here, rust);
    }
}
