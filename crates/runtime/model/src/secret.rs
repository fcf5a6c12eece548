//! The key of an endpoint, read from a variable and sent only in one header.

use std::ffi::{OsStr, OsString};
use std::fmt;

use convoke_core::variable::{is_variable_name, looks_like_a_key};
use convoke_redact::Redactor;
use reqwest::header::HeaderValue;

/// A key. Never displayed.
#[derive(Clone)]
pub struct Key {
    value: String,
    header: HeaderValue,
    redactor: Redactor,
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key([redacted])")
    }
}

/// An unusable key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// The name is not a valid variable name, and may be the key itself.
    #[error("`key-env` must be the name of a variable, not the key itself")]
    NotAName,
    /// The variable is not set, or empty.
    #[error("the variable `{0}`, which `key-env` names, is not set")]
    Unset(String),
    /// The value is not valid in a header.
    #[error(
        "the variable `{0}`, which `key-env` names, contains characters that are invalid in a key"
    )]
    Unusable(String),
}

impl Key {
    /// Reads the key from a variable.
    pub fn from_env(name: &str, env: &[(OsString, OsString)]) -> Result<Self, KeyError> {
        if !is_variable_name(name) {
            return Err(KeyError::NotAName);
        }
        let unset = || {
            if looks_like_a_key(name) {
                KeyError::NotAName
            } else {
                KeyError::Unset(name.to_owned())
            }
        };
        let mut found = env.iter().rev().filter(|(key, _)| key == OsStr::new(name));
        let value = found.next().map(|(_, value)| value).filter(|value| !value.is_empty());
        let value = value.ok_or_else(unset)?;
        let unusable = || KeyError::Unusable(name.to_owned());
        let value = value.to_str().ok_or_else(unusable)?.trim();
        if value.is_empty() {
            return Err(unset());
        }
        let mut header =
            HeaderValue::from_str(&format!("Bearer {value}")).map_err(|_| unusable())?;
        header.set_sensitive(true);
        Ok(Self { value: value.to_owned(), header, redactor: Redactor::default().and_key(value) })
    }

    pub(crate) fn header(&self) -> HeaderValue {
        self.header.clone()
    }

    /// Returns a redactor that also removes this key.
    #[must_use]
    pub fn known_to(&self, redactor: &Redactor) -> Redactor {
        redactor.and_key(&self.value)
    }

    /// Returns the redactor of this key.
    pub fn redactor(&self) -> &Redactor {
        &self.redactor
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env(value: &str) -> Vec<(OsString, OsString)> {
        vec![("MY_KEY".into(), value.into())]
    }

    #[test]
    fn a_key_is_never_shown() {
        let key = Key::from_env("MY_KEY", &env("correct-horse\n")).unwrap();
        assert!(!format!("{key:?} {:?} {:?}", key.header(), key.redactor()).contains("correct"));
        assert_eq!(key.redactor().redact("it is correct-horse!"), "it is [redacted]!");
    }

    #[test]
    fn a_missing_or_broken_key_is_refused_by_the_name_of_its_variable() {
        for (value, told) in
            [("", "is not set"), ("  ", "is not set"), ("a\u{7}b", "invalid in a key")]
        {
            let refused = Key::from_env("MY_KEY", &env(value)).unwrap_err().to_string();
            assert!(refused.contains("`MY_KEY`") && refused.contains(told), "{refused}");
        }
        assert_eq!(
            Key::from_env("OTHER", &env("x")).unwrap_err(),
            KeyError::Unset("OTHER".to_owned())
        );
    }

    #[test]
    fn a_key_in_the_place_of_its_variables_name_is_not_repeated() {
        for name in ["sk-0123", "hf_aB3dE5fG7hJ9kLmNoPqR", "0123abcd", ""] {
            assert_eq!(Key::from_env(name, &env("x")).unwrap_err(), KeyError::NotAName, "{name}");
        }
    }

    #[test]
    fn a_key_of_any_letters_is_known_to_others() {
        let key = Key::from_env("MY_KEY", &env("żółć-horse-battery")).unwrap();
        let known = key.known_to(&Redactor::default());
        assert_eq!(known.redact("it is żółć-horse-battery!"), "it is [redacted]!");
        assert_eq!(known.redact("nothing else"), "nothing else");
    }
}
