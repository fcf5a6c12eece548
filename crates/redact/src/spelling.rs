//! The spellings of a known value: as it is, in JSON, in a URL, in hexadecimal and in base64.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};

/// The deepest nesting of JSON within strings of JSON.
const JSON_DEPTH: usize = 3;

/// Returns a value as it is and in JSON, also within strings of JSON, with slashes and non-ASCII characters escaped or not.
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

/// Returns a value in percent-encoding, hexadecimal and base64.
pub(crate) fn encoded(value: &str) -> Vec<String> {
    let mut spellings = vec![hex(value.as_bytes(), false), hex(value.as_bytes(), true)];
    // The characters that RFC 3986 leaves alone, then JavaScript's encodeURIComponent and encodeURI.
    for kept in ["-_.~", "-_.~!*'()", "-_.~!*'();/?:@&=+$,#"] {
        for upper in [false, true] {
            let spelling = percent(value, kept, upper);
            spellings.push(spelling.replace("%20", "+"));
            spellings.push(spelling);
        }
    }
    for before in 0..3 {
        spellings.extend(base64(value, before, &STANDARD_NO_PAD));
        spellings.extend(base64(value, before, &URL_SAFE_NO_PAD));
    }
    spellings
}

fn json(text: &str) -> String {
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
                escaped.push_str(&hex(&unit.to_be_bytes(), false));
            }
        }
    }
    escaped
}

fn json_ascii_slash(text: &str) -> String {
    json_ascii(text).replace('/', "\\/")
}

fn hex(bytes: &[u8], upper: bool) -> String {
    bytes.iter().map(|byte| hex_byte(*byte, upper)).collect()
}

fn hex_byte(byte: u8, upper: bool) -> String {
    if upper { format!("{byte:02X}") } else { format!("{byte:02x}") }
}

fn percent(text: &str, kept: &str, upper: bool) -> String {
    let encode = |byte: u8| {
        let c = char::from(byte);
        if c.is_ascii_alphanumeric() || kept.contains(c) {
            c.to_string()
        } else {
            format!("%{}", hex_byte(byte, upper))
        }
    };
    text.bytes().map(encode).collect()
}

/// Returns the base64 of a value that stands after a number of bytes, modulo three, of a longer text: the characters that
/// are the same whatever surrounds it, and those of a text that ends with it.
fn base64(value: &str, before: usize, engine: &impl Engine) -> [String; 3] {
    let mut bytes = vec![0; before];
    bytes.extend_from_slice(value.as_bytes());
    let encoded = engine.encode(&bytes);
    let first = [0, 2, 3][before];
    let last = bytes.len() * 8 / 6;
    let padding = "=".repeat((3 - bytes.len() % 3) % 3);
    let at_end = &encoded[first..];
    [encoded[first..last].to_owned(), at_end.to_owned(), format!("{at_end}{padding}")]
}

#[cfg(test)]
mod tests {
    use base64::engine::general_purpose::STANDARD;

    use super::*;

    #[test]
    fn base64_is_found_whatever_surrounds_it() {
        let value = "correct horse/battery?";
        let spellings = encoded(value);
        for before in 0..7 {
            for after in 0..7 {
                let text = format!("{}{value}{}", "u".repeat(before), ":".repeat(after));
                let text = STANDARD.encode(text);
                assert!(spellings.iter().any(|spelling| text.contains(spelling)), "{text}");
            }
        }
    }

    #[test]
    fn spellings_are_those_of_the_usual_programs() {
        let all = [in_json("a\"ü/ b"), encoded("a\"ü/ b")].concat();
        for spelling in [
            "a\"ü/ b",
            "a\\\"ü/ b",
            "a\\\\\\\"ü/ b",
            "a\\\"\\u00fc\\/ b",
            "a%22%C3%BC%2F%20b",
            "a%22%c3%bc/+b",
            "6122c3bc2f2062",
            "6122C3BC2F2062",
        ] {
            assert!(all.iter().any(|it| it == spelling), "{spelling}");
        }
    }
}
