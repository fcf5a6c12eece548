//! Fields of records, read from where they stand in a line. A field of the wrong type is as good as none.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

/// A field that was not read yet.
pub(super) type Raw<'r> = Option<&'r RawValue>;

#[derive(Deserialize)]
struct Str<'r>(#[serde(borrow)] Cow<'r, str>);

/// Returns a text.
pub(super) fn text(field: Raw<'_>) -> Option<Cow<'_, str>> {
    let field = field?.get();
    if !field.starts_with('"') {
        return None;
    }
    serde_json::from_str::<Str<'_>>(field).ok().map(|text| text.0)
}

/// Returns a whole number.
pub(super) fn number(field: Raw<'_>) -> Option<u64> {
    serde_json::from_str(field?.get()).ok()
}

/// Returns an object whose fields are known.
pub(super) fn object<'r, T: Deserialize<'r>>(field: Raw<'r>) -> Option<T> {
    let field = field?.get();
    if !field.starts_with('{') {
        return None;
    }
    serde_json::from_str(field).ok()
}

/// Returns the elements of a list; of anything else, none.
pub(super) fn list(field: Raw<'_>) -> Vec<&RawValue> {
    let list = field.filter(|field| field.get().starts_with('['));
    list.and_then(|list| serde_json::from_str(list.get()).ok()).unwrap_or_default()
}
