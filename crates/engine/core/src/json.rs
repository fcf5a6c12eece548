//! Parses JSON values with errors that name the field.

use serde_json::{Map, Value};

/// An invalid field of the input.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{field}` {problem}")]
pub struct InvalidField {
    /// The path of the field, for example `contextMessages[2].content`.
    pub field: String,
    /// The problem, for example `must be a string`.
    pub problem: String,
}

impl InvalidField {
    /// Creates an error of the form `must be …`.
    pub fn must_be(field: impl Into<String>, what: &str) -> Self {
        Self { field: field.into(), problem: format!("must be {what}") }
    }

    /// Prefixes the field with the path of its object.
    #[must_use]
    pub fn within(mut self, path: &str) -> Self {
        self.field = match self.field.as_str() {
            "" => path.to_owned(),
            field => format!("{path}.{field}"),
        };
        self
    }
}

/// Takes a string out of an object; `None` if absent or null.
pub fn take_string(
    object: &mut Map<String, Value>,
    field: &'static str,
) -> Result<Option<String>, InvalidField> {
    match object.shift_remove(field) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(InvalidField::must_be(field, "a string")),
    }
}

/// Parses a non-negative integer; `1.0` is accepted, and larger numbers saturate.
pub fn whole_number(value: &Value) -> Option<u64> {
    if let Some(number) = value.as_u64() {
        return Some(number);
    }
    let number = value.as_f64()?;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a cast saturates")]
    (number.fract() == 0.0 && number >= 0.0).then_some(number as u64)
}

/// Returns whether JSON has more than `most` values. A parsed value takes many times the memory of its text, so
/// limiting the bytes is not enough.
pub fn has_more_values(json: &[u8], most: usize) -> bool {
    if json.len() <= most {
        return false;
    }
    let (mut count, mut rest) = (0, json);
    loop {
        let text = memchr::memchr(b'"', rest).unwrap_or(rest.len());
        count += rest[..text].iter().filter(|byte| matches!(byte, b',' | b'[' | b'{')).count();
        if count > most || text == rest.len() {
            return count > most;
        }
        rest = &rest[text + 1..];
        // Find the end of the string; a backslash escapes the byte after it.
        while let Some(at) = memchr::memchr2(b'"', b'\\', rest) {
            let is_end = rest[at] == b'"';
            rest = rest.get(at + if is_end { 1 } else { 2 }..).unwrap_or_default();
            if is_end {
                break;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn whole_numbers_are_neither_negative_nor_fractional() {
        assert_eq!(whole_number(&json!(5)), Some(5));
        assert_eq!(whole_number(&json!(5.0)), Some(5));
        assert_eq!(whole_number(&json!(1e300)), Some(u64::MAX));
        for no in [json!(-1), json!(0.5), json!("5"), json!(null)] {
            assert_eq!(whole_number(&no), None, "{no}");
        }
    }
}
