//! A text as its difference from the one before: they share a beginning and an end, and what stands
//! between is kept.

use miniz_oxide::inflate::decompress_to_vec_with_limit;

use super::packed::pack_bytes;
use crate::content::ContentHash;
use crate::store::StoreError;

/// What a text has that the one before has not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Difference {
    /// The bytes that both begin with.
    pub(super) from_start: u64,
    /// The bytes that both end with, those of the beginning left out.
    pub(super) from_end: u64,
    /// The bytes of the whole text.
    pub(super) bytes: u64,
    /// The hash of the whole text.
    pub(super) hash: ContentHash,
    /// What stands between, compressed.
    pub(super) packed: Vec<u8>,
}

impl Difference {
    /// Compares a text with the one before. Costs one pass over what is the same, and packs the rest.
    pub(super) fn between(before: &str, text: &str) -> Self {
        let (before, after) = (before.as_bytes(), text.as_bytes());
        let start = same(before.iter().zip(after));
        let end = same(before[start..].iter().rev().zip(after[start..].iter().rev()));
        Self {
            from_start: start as u64,
            from_end: end as u64,
            bytes: after.len() as u64,
            hash: ContentHash::of(text),
            packed: pack_bytes(&after[start..after.len() - end]),
        }
    }

    /// Turns the text before into this one. Costs what is not the same, and what both end with.
    pub(super) fn apply(&self, text: &mut Vec<u8>) -> Result<(), StoreError> {
        let damaged = || StoreError::Damaged(format!("request {} cannot be unpacked", self.hash));
        let size = |bytes: u64| usize::try_from(bytes).map_err(|_| damaged());
        let (start, end) = (size(self.from_start)?, size(self.from_end)?);
        let between = size(self.bytes)?.checked_sub(start + end).ok_or_else(damaged)?;
        let end_at = text.len().checked_sub(end).filter(|at| *at >= start).ok_or_else(damaged)?;
        let end = text.split_off(end_at);
        text.truncate(start);
        let middle = decompress_to_vec_with_limit(&self.packed, between).map_err(|_| damaged())?;
        if middle.len() != between {
            return Err(damaged());
        }
        text.extend(middle);
        text.extend(end);
        Ok(())
    }

    /// Returns the text that came of applying this difference, if it is the one that was kept.
    pub(super) fn checked(&self, text: Vec<u8>) -> Result<String, StoreError> {
        let damaged = |why: &str| StoreError::Damaged(format!("request {} {why}", self.hash));
        let text = String::from_utf8(text).map_err(|_| damaged("is not UTF-8"))?;
        if ContentHash::of(&text) != self.hash {
            return Err(damaged("has another hash"));
        }
        Ok(text)
    }
}

fn same<'b>(pairs: impl Iterator<Item = (&'b u8, &'b u8)>) -> usize {
    pairs.take_while(|(before, after)| before == after).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_comes_back_from_its_differences_or_not_at_all() {
        let texts = [
            "",
            "[1]",
            "[1,2]",
            "[1,2]",
            "[1,2,世界]",
            "[1,2,世丗]",
            "[世]",
            "",
            "aaa",
            "aa",
            "aaaa",
        ];
        let mut before = "";
        let mut read = Vec::new();
        for text in texts {
            let difference = Difference::between(before, text);
            difference.apply(&mut read).unwrap();
            assert_eq!(difference.checked(read.clone()).unwrap(), text);
            before = text;
        }
        let difference = Difference::between("[1,2]", "[1,2,3]");
        assert_eq!((difference.from_start, difference.from_end), (4, 1));
        for other in ["", "[1", "[9,2]"] {
            let mut text = other.as_bytes().to_vec();
            let applied = difference.apply(&mut text).and_then(|()| difference.checked(text));
            assert!(applied.is_err(), "{other}");
        }
    }
}
