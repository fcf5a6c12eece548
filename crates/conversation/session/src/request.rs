//! Request deltas: the texts of a request, stored as the difference from the previous request.
//!
//! A request repeats its whole thread. Deltas are stored on disk and in archives, so that a thread of many
//! turns takes about as much space as its last request.

use convoke_protocol::content::ContentHash;
use convoke_protocol::request::{RequestRecord, RequestTexts};
use serde::{Deserialize, Serialize};

/// The texts of a request as deltas from its predecessor; for the first request, from nothing.
pub type RequestDelta = RequestTexts<TextDelta>;

/// The difference of a text from the previous one: the part between a common prefix and a common suffix.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TextDelta {
    /// The number of bytes at the start that both texts share.
    pub from_start: usize,
    /// The number of bytes at the end that both texts share, not counting those at the start.
    pub from_end: usize,
    /// The text in between.
    pub between: String,
    /// The hash of the whole text.
    pub hash: ContentHash,
}

/// A delta that does not reproduce the stored text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DeltaError {
    /// The delta refers to bytes outside the previous text.
    #[error("the delta refers to bytes outside the previous text")]
    OutOfRange,
    /// The result is not UTF-8.
    #[error("the delta splits a character")]
    NotUtf8,
    /// The result has another hash.
    #[error("the text does not have the hash {0}")]
    Hash(ContentHash),
}

impl TextDelta {
    /// Compares a text with the previous one. O(common bytes), plus one hash of the text.
    pub fn between(before: &str, text: &str) -> Self {
        let pairs = before.bytes().zip(text.bytes());
        let mut start = pairs.take_while(|(one, other)| one == other).count();
        while !text.is_char_boundary(start) {
            start -= 1;
        }
        let pairs = before[start..].bytes().rev().zip(text[start..].bytes().rev());
        let mut end = pairs.take_while(|(one, other)| one == other).count();
        while !text.is_char_boundary(text.len() - end) {
            end -= 1;
        }
        Self {
            from_start: start,
            from_end: end,
            between: text[start..text.len() - end].to_owned(),
            hash: hash_of(text),
        }
    }

    /// Applies the delta to the previous text, and checks the hash.
    pub fn apply(&self, before: String) -> Result<String, DeltaError> {
        let mut text = before.into_bytes();
        splice(&mut text, self.from_start, self.from_end, self.between.as_bytes())?;
        checked(text, self.hash)
    }
}

/// Replaces the part between the first `from_start` and the last `from_end` bytes. O(changed bytes and those
/// after them).
pub(crate) fn splice(
    text: &mut Vec<u8>,
    from_start: usize,
    from_end: usize,
    between: &[u8],
) -> Result<(), DeltaError> {
    let end = text.len().checked_sub(from_end).filter(|end| *end >= from_start);
    let end = end.ok_or(DeltaError::OutOfRange)?;
    let tail = text.split_off(end);
    text.truncate(from_start);
    text.extend_from_slice(between);
    text.extend_from_slice(&tail);
    Ok(())
}

fn hash_of(text: &str) -> ContentHash {
    #[cfg(test)]
    tests::HASHED.with(|hashed| hashed.set(hashed.get() + text.len()));
    ContentHash::new(text)
}

/// Returns a text if it has the expected hash.
pub(crate) fn checked(text: Vec<u8>, hash: ContentHash) -> Result<String, DeltaError> {
    let text = String::from_utf8(text).map_err(|_| DeltaError::NotUtf8)?;
    if hash_of(&text) == hash { Ok(text) } else { Err(DeltaError::Hash(hash)) }
}

/// Applies a delta to the texts of the previous request. An error comes with the name of the text.
pub fn apply(
    record: &RequestRecord<RequestDelta>,
    before: RequestTexts,
) -> Result<RequestTexts, (&'static str, DeltaError)> {
    let RequestTexts { body, ledger } = &record.texts;
    Ok(RequestTexts {
        body: body.apply(before.body).map_err(|error| ("body", error))?,
        ledger: ledger.apply(before.ledger).map_err(|error| ("ledger", error))?,
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use std::cell::Cell;

    use super::*;

    thread_local! {
        /// The number of bytes hashed by this thread.
        pub(crate) static HASHED: Cell<usize> = const { Cell::new(0) };
    }

    #[test]
    fn a_text_comes_back_from_its_delta_or_not_at_all() {
        let texts =
            ["", "[1]", "[1,2]", "[1,2]", "[1,世界]", "[1,世丗]", "[世]", "界", "", "aaa", "aa"];
        for before in texts {
            for text in texts {
                let delta = TextDelta::between(before, text);
                assert_eq!(delta.apply(before.to_owned()).as_deref(), Ok(text));
            }
        }
        let delta = TextDelta::between("[1,2]", "[1,2,3]");
        assert_eq!((delta.from_start, delta.from_end, &*delta.between), (4, 1, ",3"));
        let apply = |delta: &TextDelta, before: &str| delta.apply(before.to_owned());
        assert_eq!(apply(&delta, "[1,3]"), Err(DeltaError::Hash(delta.hash)));
        assert_eq!(apply(&delta, "[1"), Err(DeltaError::OutOfRange));
        assert_eq!(apply(&delta, "[1世"), Err(DeltaError::NotUtf8));
        let beyond = TextDelta { from_end: usize::MAX, ..delta };
        assert_eq!(apply(&beyond, "[1,2]"), Err(DeltaError::OutOfRange));
    }
}
