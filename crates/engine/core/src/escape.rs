//! Escapes content that an agent's program would act on.

use std::borrow::Cow;

use memchr::memchr_iter;
use serde::{Deserialize, Serialize};

/// Which content is escaped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Escaping {
    /// None: the bytes stay as written.
    #[default]
    AsWritten,
    /// Every `@` that has no backslash before it, with a backslash.
    AtSigns,
    /// A `/` at the start of the prompt, with a header before it.
    LeadingSlash,
}

impl Escaping {
    /// Returns the text with its escapes. Escaping a second time changes nothing.
    ///
    /// ```
    /// use convoke_core::Escaping;
    /// assert_eq!(Escaping::AtSigns.escape("see @notes.md"), "see \\@notes.md");
    /// ```
    pub fn escape(self, text: &str) -> Cow<'_, str> {
        let mut escaped = String::new();
        let mut from = 0;
        for at in self.places(text) {
            escaped.push_str(&text[from..at]);
            escaped.push('\\');
            from = at;
        }
        if escaped.is_empty() {
            return Cow::Borrowed(text);
        }
        escaped.push_str(&text[from..]);
        Cow::Owned(escaped)
    }

    /// Returns the number of characters to escape, which is also the number of bytes that escaping adds.
    pub fn count(self, text: &str) -> usize {
        self.places(text).count()
    }

    /// Returns where an escaped text may continue after a cut: never between a backslash and the character it
    /// escapes.
    pub(crate) fn resume_at(self, text: &str, start: usize) -> usize {
        match self {
            Self::AtSigns if text[start..].starts_with('@') => start + 1,
            _ => start,
        }
    }

    fn places(self, text: &str) -> impl Iterator<Item = usize> {
        let bytes = match self {
            Self::AsWritten | Self::LeadingSlash => &[],
            Self::AtSigns => text.as_bytes(),
        };
        memchr_iter(b'@', bytes).filter(|&at| at == 0 || bytes[at - 1] != b'\\')
    }
}

/// Returns whether a text begins with `/` after white space and control characters; `None` if there is nothing
/// else.
pub fn begins_with_slash(text: &str) -> Option<bool> {
    let is_blank = |c: char| c.is_whitespace() || c.is_control() || c == '\u{feff}';
    text.chars().find(|c| !is_blank(*c)).map(|first| first == '/')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_at_sign_is_escaped_once() {
        for (text, escaped) in [
            ("plain text", "plain text"),
            ("@secret.txt", "\\@secret.txt"),
            ("me@example.com", "me\\@example.com"),
            ("@\"a b.txt\" and @a\\ b.txt", "\\@\"a b.txt\" and \\@a\\ b.txt"),
            ("see \\@secret.txt", "see \\@secret.txt"),
            ("@@generalist @docs:docs://secret", "\\@\\@generalist \\@docs:docs://secret"),
        ] {
            assert_eq!(Escaping::AtSigns.escape(text), escaped);
            assert_eq!(Escaping::AtSigns.escape(escaped), escaped);
            assert_eq!(Escaping::AtSigns.count(text), escaped.len() - text.len());
            assert_eq!(Escaping::AsWritten.escape(text), text);
        }
    }
}
