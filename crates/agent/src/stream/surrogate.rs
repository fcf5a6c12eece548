//! Half characters: `\ud83d` without its other half.
//!
//! Programs whose strings are UTF-16 cut texts in the middle of a character, and write the half that is
//! left as an escape. No Unicode text can hold it, so a reader that is exact loses the whole event.

use memchr::memmem;

/// The escape of U+FFFD, which stands for what cannot be read.
const REPLACEMENT: &str = "\\ufffd";
const ESCAPE: usize = 6;

/// Returns the JSON text with every half character replaced; nothing when there is none.
pub(super) fn mended(json: &str) -> Option<String> {
    let mut mended = String::new();
    let mut copied = 0;
    let mut paired_until = 0;
    for at in memmem::find_iter(json.as_bytes(), b"\\u") {
        if at < paired_until || is_escaped(json, at) {
            continue;
        }
        let half = match escape(json, at) {
            Some(0xD800..=0xDBFF) => {
                let pair = matches!(escape(json, at + ESCAPE), Some(0xDC00..=0xDFFF));
                paired_until = at + if pair { 2 * ESCAPE } else { ESCAPE };
                !pair
            }
            Some(0xDC00..=0xDFFF) => true,
            _ => false,
        };
        if half {
            mended.push_str(&json[copied..at]);
            mended.push_str(REPLACEMENT);
            copied = at + ESCAPE;
        }
    }
    if copied == 0 {
        return None;
    }
    mended.push_str(&json[copied..]);
    Some(mended)
}

/// Returns the number in the escape that begins here.
fn escape(json: &str, at: usize) -> Option<u16> {
    let digits = json.get(at..at + ESCAPE)?.strip_prefix("\\u")?;
    u16::from_str_radix(digits, 16).ok()
}

/// Returns whether a backslash is itself the escaped one of a pair.
fn is_escaped(json: &str, at: usize) -> bool {
    let before = json.as_bytes()[..at].iter().rev();
    before.take_while(|&&byte| byte == b'\\').count() % 2 == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_are_replaced_and_whole_characters_are_not() {
        for (json, expected) in [
            (r#""a\ud83d""#, Some(r#""a\ufffd""#)),
            (r#""\udc4b b""#, Some(r#""\ufffd b""#)),
            (r#""\ud83d\ud83d\udc4b""#, Some(r#""\ufffd\ud83d\udc4b""#)),
            (r#""\uD83D\uDC4B""#, None),
            (r#""\\ud83d""#, None),
            (r#""\\\ud83d""#, Some(r#""\\\ufffd""#)),
            (r#""\u001b \u00e9""#, None),
            (r#""\ud8"#, None),
            (r#""\u+d83""#, None),
            ("plain", None),
        ] {
            assert_eq!(mended(json).as_deref(), expected, "{json}");
        }
    }
}
