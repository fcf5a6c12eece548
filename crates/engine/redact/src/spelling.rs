//! The spellings of a known value: in JSON, in hexadecimal and in base64.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;

/// The maximum nesting of JSON inside JSON strings.
const JSON_DEPTH: usize = 3;

/// Returns a value as given and in JSON, also inside JSON strings, with slashes and non-ASCII characters
/// escaped or not.
pub(crate) fn in_json(value: &str) -> Vec<String> {
    let mut spellings = vec![value.to_owned()];
    for escape in [json, json_slash, json_ascii, json_ascii_slash] {
        let mut spelling = value.to_owned();
        for _ in 0..JSON_DEPTH {
            spelling = escape(&spelling);
            spellings.push(spelling.clone());
        }
    }
    spellings
}

/// Returns a text as in a JSON string.
pub(crate) fn json(text: &str) -> String {
    let quoted = serde_json::Value::from(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

fn json_slash(text: &str) -> String {
    json(text).replace('/', "\\/")
}

fn json_ascii(text: &str) -> String {
    let mut escaped = String::new();
    for c in json(text).chars() {
        if c.is_ascii() {
            escaped.push(c);
        } else {
            for unit in c.encode_utf16(&mut [0; 2]) {
                escaped.push_str("\\u");
                escaped.push_str(&hex(&unit.to_be_bytes()));
            }
        }
    }
    escaped
}

fn json_ascii_slash(text: &str) -> String {
    json_ascii(text).replace('/', "\\/")
}

/// Returns bytes in hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let digit = |value: u8| char::from_digit(value.into(), 16).unwrap_or_default();
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// Returns a value in base64 at any offset of a longer text: the characters that do not depend on the
/// surrounding text, and those of a text that ends with the value.
pub(crate) fn base64(value: &str) -> impl Iterator<Item = String> {
    (0..3).flat_map(move |before| {
        let bytes = [&[0; 2][..before.min(2)], value.as_bytes()].concat();
        let encoded = STANDARD_NO_PAD.encode(&bytes);
        let first = [0, 2, 3][before];
        let last = bytes.len() * 8 / 6;
        let padding = "=".repeat((3 - bytes.len() % 3) % 3);
        let at_end = &encoded[first..];
        [encoded[first..last].to_owned(), at_end.to_owned(), format!("{at_end}{padding}")]
    })
}

#[cfg(test)]
mod tests {
    use base64::engine::general_purpose::STANDARD;

    use super::*;

    #[test]
    fn base64_is_found_whatever_surrounds_it() {
        let value = "correct horse/battery?";
        let spellings: Vec<String> = base64(value).collect();
        for before in 0..7 {
            for after in 0..7 {
                let text = format!("{}{value}{}", "u".repeat(before), ":".repeat(after));
                let text = STANDARD.encode(text);
                assert!(spellings.iter().any(|spelling| text.contains(spelling)), "{text}");
            }
        }
    }
}
