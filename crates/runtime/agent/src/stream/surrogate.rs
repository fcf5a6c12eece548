//! Repairs lone surrogates in JSON, such as `\ud83d` without its low surrogate.
//!
//! Programs with UTF-16 strings may cut a text between surrogates and escape the rest. A strict parser would
//! reject the whole event.

use memchr::memmem;

/// The escape of U+FFFD.
const REPLACEMENT: &str = "\\ufffd";
const ESCAPE: usize = 6;

/// Returns the JSON text with lone surrogates replaced; `None` if there are none.
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

/// Returns the code unit of the escape at a position.
fn escape(json: &str, at: usize) -> Option<u16> {
    let digits = json.get(at..at + ESCAPE)?.strip_prefix("\\u")?;
    u16::from_str_radix(digits, 16).ok()
}

/// Returns whether a backslash is itself escaped.
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
