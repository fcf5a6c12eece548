//! How much of a request is the same as in the one before: what a provider can take from its cache.
//!
//! The request before is not kept. Its fingerprint is: hashes of its beginning at a few places, the
//! last of them where its items end, because what follows (tools, settings) moves back as items are
//! added.

use serde::{Deserialize, Serialize};

/// The places at which the beginning of a request is hashed.
const MARKS: usize = 32;

/// What is kept of a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fingerprint {
    /// Its bytes.
    pub bytes: u64,
    /// The bytes that were the same as in the request before it.
    pub unchanged: u64,
    /// Places in it, each with the hash of what stands before it.
    marks: Vec<(u64, u64)>,
}

impl Fingerprint {
    /// Takes the fingerprint of a request that follows another.
    pub fn of(body: &str, before: Option<&Self>) -> Self {
        let items = end_of_items(body);
        let places = (1..=MARKS).map(|mark| items * mark / MARKS);
        let marks = hashes(body.as_bytes(), places);
        let unchanged = before.map_or(0, |before| before.shared_with(body));
        Self { bytes: body.len() as u64, unchanged, marks }
    }

    /// Returns how many bytes of the body are surely the beginning of this request too.
    fn shared_with(&self, body: &str) -> u64 {
        let places = self.marks.iter().filter_map(|(place, _)| usize::try_from(*place).ok());
        let now = hashes(body.as_bytes(), places.take_while(|place| *place <= body.len()));
        let same = self.marks.iter().zip(now).take_while(|(then, now)| **then == *now);
        same.last().map_or(0, |((place, _), _)| *place)
    }
}

/// Returns where the items of a body end. Quotes inside texts are escaped, so no text can hold these.
fn end_of_items(body: &str) -> usize {
    let ends = ["],\"tools\":", "],\"stream\":"];
    let found = ends.iter().filter_map(|end| body.find(end)).min();
    found.unwrap_or(body.len())
}

/// Hashes the beginnings that end at these ascending places (FNV-1a), in one pass.
fn hashes(bytes: &[u8], places: impl Iterator<Item = usize>) -> Vec<(u64, u64)> {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    let mut from = 0;
    let marks = places.map(|place| {
        for byte in &bytes[from..place] {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        from = place;
        (place as u64, hash)
    });
    marks.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(items: &[&str]) -> String {
        serde_json::json!({"model": "m", "input": items, "tools": []}).to_string()
    }

    #[test]
    fn a_request_that_goes_on_shares_all_but_the_end_of_the_one_before() {
        let first = body(&["a", "世界", "],\"tools\":"]);
        let before = Fingerprint::of(&first, None);
        assert_eq!(before.unchanged, 0);
        let second = body(&["a", "世界", "],\"tools\":", "b"]);
        let shared = Fingerprint::of(&second, Some(&before)).unchanged;
        assert_eq!(first[..usize::try_from(shared).unwrap()], first[..first.len() - 13]);
        assert!(first.ends_with("],\"tools\":[]}"));
    }

    #[test]
    fn a_change_early_in_a_request_ends_what_is_shared_there() {
        let text = "x".repeat(1000);
        let before = Fingerprint::of(&body(&[&text, &text]), None);
        let changed = Fingerprint::of(&body(&[&text, "y"]), Some(&before)).unchanged;
        assert!((900..=1030).contains(&changed), "{changed}");
        assert_eq!(Fingerprint::of("{}", Some(&before)).unchanged, 0);
    }
}
