//! Front matter before it is parsed as YAML: what is refused, and what needs no parser.
//!
//! The parser takes time that grows with the square of how deep flow collections nest, and reads to the end before it
//! counts.

use std::fmt;

use crate::FileKind;

/// The deepest that flow collections may nest; the reader itself takes no more.
const MAX_DEPTH: usize = 128;

/// A text that is not read as YAML.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refused {
    /// It has more bytes than front matter may have.
    TooLong {
        /// Its bytes.
        size: u64,
        /// The most that it may have.
        limit: u64,
    },
    /// Its brackets and braces nest deeper than is read.
    TooDeep,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong { size, limit } => {
                write!(f, "it has {size} bytes, and the limit is {limit} bytes")
            }
            Self::TooDeep => write!(f, "its brackets nest more than {MAX_DEPTH} deep"),
        }
    }
}

impl std::error::Error for Refused {}

/// Checks front matter before it is read as YAML, in one pass. Brackets count everywhere, in texts too: no person
/// writes a text with as many open brackets as the limit.
pub fn check(front_matter: &str) -> Result<(), Refused> {
    let (size, limit) = (front_matter.len() as u64, FileKind::FrontMatter.limit());
    if size > limit {
        return Err(Refused::TooLong { size, limit });
    }
    // Nearly no front matter has so many brackets; a count alone is many times as fast.
    let is_open = |byte: &u8| matches!(byte, b'[' | b'{');
    if front_matter.bytes().filter(is_open).count() <= MAX_DEPTH {
        return Ok(());
    }
    let mut depth = 0_usize;
    for byte in front_matter.bytes() {
        match byte {
            b'[' | b'{' => depth += 1,
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > MAX_DEPTH {
            return Err(Refused::TooDeep);
        }
    }
    Ok(())
}

/// Reads front matter of the most common form: each line is a key, a colon, and a text in one line, plain or in quotes.
///
/// Returns the keys and texts in order, or `None` for every other form, which needs a YAML parser and takes it many times
/// as long. Every value is one that YAML reads as a text.
pub fn plain_fields(front_matter: &str) -> Option<Vec<(&str, &str)>> {
    let lines = front_matter.strip_suffix('\n').unwrap_or(front_matter).split('\n');
    let mut fields: Vec<(&str, &str)> = Vec::new();
    for line in lines {
        let (key, value) = plain_field(line.strip_suffix('\r').unwrap_or(line))?;
        if fields.len() == MAX_PLAIN_FIELDS || fields.iter().any(|(other, _)| *other == key) {
            return None;
        }
        fields.push((key, value));
    }
    Some(fields)
}

/// The maximum number of keys that [`plain_fields`] reads: it compares each with all before it.
const MAX_PLAIN_FIELDS: usize = 32;

/// The longest key that [`plain_fields`] reads; YAML has a limit of its own, of 1024 characters.
const MAX_PLAIN_KEY: usize = 64;

fn plain_field(line: &str) -> Option<(&str, &str)> {
    let (key, rest) = line.split_once(':')?;
    let is_key_byte = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    let is_key = key.starts_with(|it: char| it.is_ascii_alphabetic())
        && key.len() <= MAX_PLAIN_KEY
        && key.bytes().all(is_key_byte)
        && !is_word_of_yaml(key);
    let value = rest.strip_prefix(' ')?.trim_matches(' ');
    // Without an early end, sixteen bytes and more are compared at once.
    let is_ascii = value.bytes().fold(true, |so_far, byte| so_far & is_printable_ascii(byte));
    let is_one_line = is_ascii || value.chars().all(is_text);
    (is_key && is_one_line).then_some((key, plain_text(value)?))
}

/// Returns the text of a value in one line.
fn plain_text(value: &str) -> Option<&str> {
    for (quote, escape) in [('"', '\\'), ('\'', '\'')] {
        if let Some(quoted) = value.strip_prefix(quote) {
            let text = quoted.strip_suffix(quote)?;
            return (!text.contains([quote, escape])).then_some(text);
        }
    }
    let is_plain = value.starts_with(char::is_alphabetic)
        && !value.contains(": ")
        && !value.contains(" #")
        && !value.ends_with(':')
        && !is_word_of_yaml(value);
    is_plain.then_some(value)
}

/// Returns whether YAML takes a word for something else than a text.
fn is_word_of_yaml(word: &str) -> bool {
    ["true", "false", "null"].iter().any(|it| word.eq_ignore_ascii_case(it))
}

fn is_printable_ascii(byte: u8) -> bool {
    matches!(byte, b' '..=b'~')
}

/// Returns whether a character is literal in YAML, wherever it is in a text.
fn is_text(character: char) -> bool {
    let is_line_break = matches!(character, '\u{2028}' | '\u{2029}');
    let is_refused = matches!(character, '\u{feff}' | '\u{fffe}' | '\u{ffff}');
    matches!(character, ' '..='~') || character >= '\u{a0}' && !is_line_break && !is_refused
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_keys_and_texts_are_read_and_every_other_form_is_left_to_a_parser() {
        let read = [
            ("a: b", vec![("a", "b")]),
            ("a: b\n", vec![("a", "b")]),
            ("name: x-1\r\ndescription:  Use it: so, [or] #so. \r\n", vec![]),
            (
                "a-b_1: b:c d#e {f} \nx: \"y: 'z' #\"\ny: ' \"q\\ '",
                vec![("a-b_1", "b:c d#e {f}"), ("x", "y: 'z' #"), ("y", " \"q\\ ")],
            ),
            ("a: 技能 — “ok”…", vec![("a", "技能 — “ok”…")]),
            ("a: ''", vec![("a", "")]),
        ];
        for (front, expected) in read {
            let expected = (!expected.is_empty()).then_some(expected);
            assert_eq!(plain_fields(front), expected, "{front:?}");
        }
        for other in [
            "",
            "\n",
            "a:",
            "a: ",
            "a:b",
            "a : b",
            " a: b",
            "a: b\n  c",
            "a: b\n\nc: d",
            "a: b\na: c",
            "a: true",
            "a: Null",
            "true: a",
            "a: 1",
            "a: -b",
            "a: [b]",
            "a: |",
            "a: *b",
            "a: b # c",
            "a: b: c",
            "a: b:",
            "a: b\tc",
            "# a",
            "- a: b",
            "\"a\": b",
            "a: \"b\\n\"",
            "a: 'b''c'",
            "a: \"b\" c",
            "a: 'b",
            "a: b\u{2028}c",
            "a: b\u{85}c",
            "a: \u{feff}b",
            "a: b\rc: d",
            "...",
            "<<: a",
            "a: ~",
        ] {
            assert_eq!(plain_fields(other), None, "{other:?}");
        }
    }

    #[test]
    fn what_nests_too_deep_or_is_too_long_is_refused_before_it_is_read() {
        assert_eq!(check("paths: [src/**, {a: [b]}]"), Ok(()));
        assert_eq!(check(&format!("a: {}{}", "[".repeat(128), "]".repeat(128))), Ok(()));
        assert_eq!(check(&"[".repeat(129)), Err(Refused::TooDeep));
        assert_eq!(check(&"[{".repeat(30_000)), Err(Refused::TooDeep));
        assert_eq!(check(&"a: [b]\n".repeat(9_000)), Ok(()));
        let long = "x".repeat(64 * 1024 + 1);
        assert!(matches!(check(&long), Err(Refused::TooLong { size: 65_537, limit: 65_536 })));
    }
}
