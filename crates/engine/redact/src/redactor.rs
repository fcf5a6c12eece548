//! The redactor: known secrets, and their removal from whole texts.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::sync::Arc;

use crate::encoding::Encodings;
use crate::known::{Known, Place};
use crate::mask::{MARK, Masker};
use crate::scan::{KnownValues, Scan};
use crate::spelling;
use crate::stream::StreamRedactor;

/// The minimum length of a variable's value. A shorter key is removed only as a separate word.
const MIN_SECRET_BYTES: usize = 8;
/// The minimum length of a key; shorter ones occur in too many texts.
const MIN_KEY_BYTES: usize = 4;
/// Placeholder values for servers without keys, which occur in ordinary texts.
const PLACEHOLDERS: [&str; 16] = [
    "anything",
    "apikey",
    "api-key",
    "default",
    "dummy",
    "empty",
    "fake",
    "key",
    "lm-studio",
    "local",
    "no-key",
    "none",
    "null",
    "ollama",
    "test",
    "unused",
];

/// Words in the names of variables whose values are secrets.
const SECRET_NAMES: &[&str] =
    &["KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL", "COOKIE"];

/// Removes secrets from texts. Cheap to clone.
#[derive(Clone, Default)]
pub struct Redactor {
    values: Arc<[String]>,
    known: Option<Arc<KnownValues>>,
}

impl std::fmt::Debug for Redactor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Redactor({} known secrets)", self.values.len())
    }
}

impl Redactor {
    /// Creates a redactor that knows the secrets of an environment: values of at least eight bytes, of
    /// variables whose names look like secrets.
    pub fn for_env(env: &[(OsString, OsString)]) -> Self {
        let secrets = env.iter().filter_map(|(name, value)| {
            let value = value.to_str()?;
            let is_secret = is_secret_name(name.to_str()?) && value.len() >= MIN_SECRET_BYTES;
            is_secret.then(|| value.to_owned())
        });
        Self::knowing(secrets.collect())
    }

    /// Returns a redactor that also knows a key.
    ///
    /// A key of fewer than eight bytes is removed only as a separate word. A key of fewer than four bytes, and
    /// a placeholder (`none`, `ollama`), is not removed.
    #[must_use]
    pub fn and_key(&self, key: &str) -> Self {
        if key.len() < MIN_KEY_BYTES || self.values.iter().any(|value| value == key) {
            return self.clone();
        }
        let mut values = self.values.to_vec();
        values.push(key.to_owned());
        Self::knowing(values)
    }

    fn knowing(mut values: Vec<String>) -> Self {
        values.retain(|value| !is_placeholder(value));
        let mut spellings = BTreeMap::new();
        for value in &values {
            let place = if value.len() < MIN_SECRET_BYTES { Place::Word } else { Place::Anywhere };
            let all = match place {
                Place::Anywhere => vec![value.clone()],
                Place::Word => spelling::in_json(value),
            };
            for spelling in all {
                let known = spellings.entry(spelling.into_bytes()).or_insert(place);
                *known = place.min(*known);
            }
        }
        let long =
            values.iter().map(String::as_str).filter(|value| value.len() >= MIN_SECRET_BYTES);
        let known = Known::new(&spellings).map(|plain| {
            Arc::new(KnownValues { plain: Arc::new(plain), encodings: Encodings::new(long) })
        });
        Self { values: values.into(), known }
    }

    /// Returns the text without secrets; unchanged if it has none. O(bytes).
    pub fn redact<'t>(&self, text: &'t str) -> Cow<'t, str> {
        masked(text, self.scan()).0
    }

    /// Removes the secrets from a text, and returns the number of places. O(bytes).
    pub fn redact_in_place(&self, text: &mut String) -> u64 {
        let (clean, places) = masked(text, self.scan());
        if let Cow::Owned(clean) = clean {
            *text = clean;
        }
        places
    }

    /// Returns the text without known secrets; text that only has the format of a secret stays. O(bytes).
    pub fn redact_known<'t>(&self, text: &'t str) -> Cow<'t, str> {
        match &self.known {
            Some(known) => masked(text, Scan::new(Some(known), false)).0,
            None => Cow::Borrowed(text),
        }
    }

    /// Starts a text that arrives in pieces.
    pub fn stream(&self) -> StreamRedactor {
        StreamRedactor::new(self)
    }

    pub(crate) fn scan(&self) -> Scan {
        Scan::new(self.known.as_deref(), true)
    }
}

/// Returns whether a variable holds a secret, judging by its name.
pub fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    SECRET_NAMES.iter().any(|word| name.contains(word))
}

/// Returns whether a value is a placeholder, or was already redacted.
fn is_placeholder(value: &str) -> bool {
    let lower = value.to_ascii_lowercase();
    PLACEHOLDERS.contains(&&*lower) || value.contains(MARK) || MARK.contains(value)
}

fn masked(text: &str, mut scan: Scan) -> (Cow<'_, str>, u64) {
    scan.read(text);
    scan.finish();
    let mut spans = scan.into_spans();
    if spans.is_empty() {
        return (Cow::Borrowed(text), 0);
    }
    let mut clean = String::with_capacity(text.len());
    let places = Masker::default().write((0, text), text.len(), &mut spans, &mut clean);
    (Cow::Owned(clean), places)
}
