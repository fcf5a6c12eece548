//! JSON with comments, as programs allow it in their settings.

/// Removes `//` and `/* */` comments outside of strings, and a byte order mark. Line breaks stay, so that errors
/// name the right line.
///
/// ```
/// assert_eq!(convoke_files::json::without_comments("[1, // one\n2]"), "[1, \n2]");
/// ```
pub fn without_comments(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text.trim_start_matches('\u{feff}');
    while let Some(character) = rest.chars().next() {
        let length = match character {
            '"' => string_length(rest),
            '/' if rest.starts_with("//") => {
                let length = rest.find('\n').unwrap_or(rest.len());
                rest = &rest[length..];
                continue;
            }
            '/' if rest.starts_with("/*") => {
                let length = rest[2..].find("*/").map_or(rest.len(), |at| at + 4);
                out.extend(rest[..length].chars().filter(|it| *it == '\n'));
                rest = &rest[length..];
                continue;
            }
            other => other.len_utf8(),
        };
        out.push_str(&rest[..length]);
        rest = &rest[length..];
    }
    out
}

/// Returns the length of the string literal at the start of a text.
fn string_length(text: &str) -> usize {
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_go_and_strings_stay() {
        let cases = [
            (r#"{"a": 1} // x"#, r#"{"a": 1} "#),
            ("{/* x\ny */\"a\": 1}", "{\n\"a\": 1}"),
            (r#"{"a": "http://x", "b": "\"//"}"#, r#"{"a": "http://x", "b": "\"//"}"#),
            ("/* never closed", ""),
            ("/*/ not closed yet */1", "1"),
            ("\"never closed // x", "\"never closed // x"),
        ];
        for (text, expected) in cases {
            assert_eq!(without_comments(text), expected, "{text}");
        }
    }
}
