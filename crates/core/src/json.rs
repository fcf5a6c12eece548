//! Reading JSON by hand, so that an error can name the field and say what was wrong with it.

use serde_json::{Map, Value};

/// A field of the input that is not what it must be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{field}` {problem}")]
pub struct InvalidField {
    /// The path of the field, for example `contextMessages[2].content`.
    pub field: String,
    /// What is wrong with it, for example `must be a string`.
    pub problem: String,
}

impl InvalidField {
    /// Says that a field must be something else.
    pub fn must_be(field: impl Into<String>, what: &str) -> Self {
        Self { field: field.into(), problem: format!("must be {what}") }
    }

    /// Puts the path of the object that holds the field before the field's own.
    #[must_use]
    pub fn within(mut self, path: &str) -> Self {
        self.field = match self.field.as_str() {
            "" => path.to_owned(),
            field => format!("{path}.{field}"),
        };
        self
    }
}

/// Takes a string out of an object; absent and null are none.
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

/// Reads a whole number that is not negative; JSON's `1.0` is one, and one that is too large to hold is
/// the largest.
pub fn whole_number(value: &Value) -> Option<u64> {
    if let Some(number) = value.as_u64() {
        return Some(number);
    }
    let number = value.as_f64()?;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a cast saturates")]
    (number.fract() == 0.0 && number >= 0.0).then_some(number as u64)
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
