//! Compares two captures part by part.
//!
//! Parts are paired by text first, then by name; the rest was removed or added. The path of the private home differs
//! between runs and is ignored.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

use convoke_core::ledger::estimate_tokens;
use convoke_diff::LineDiff;
use convoke_wire::{Part, PartKind, RequestParts};
use serde::Serialize;

use super::{Capture, CaptureError};

/// The time after which a difference is approximated.
const DIFF_TIME: Duration = Duration::from_millis(500);

/// The difference between two captures.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Difference {
    /// The version of the report's format.
    pub version: u32,
    /// The first capture.
    pub a: Side,
    /// The second capture.
    pub b: Side,
    /// The changed parts: first in the order of `b`, then those only in `a`.
    pub changes: Vec<Change>,
    /// The number of parts that are the same.
    pub same_parts: usize,
    /// The size of those parts.
    pub same_bytes: u64,
    /// The size of the envelope in each capture.
    pub envelope_bytes: (u64, u64),
}

/// One of two captures.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Side {
    /// The CLI.
    pub agent: String,
    pub version: Option<String>,
    /// The model that it calls.
    pub model: String,
    pub body_bytes: u64,
    /// The estimated tokens.
    pub tokens_estimate: u64,
}

/// A part that differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", tag = "change")]
pub enum Change {
    /// Only the second capture has it.
    Added {
        part: PartKind,
        /// The position.
        place: String,
        title: String,
        bytes: u64,
    },
    /// Only the first capture has it.
    Removed {
        part: PartKind,
        /// The position.
        place: String,
        title: String,
        bytes: u64,
    },
    /// Both have it, with different texts.
    Changed {
        part: PartKind,
        /// The position in the second.
        place: String,
        title: String,
        /// The size in the first.
        bytes_before: u64,
        /// The size in the second.
        bytes: u64,
        /// The number of lines only in the second.
        lines_added: usize,
        /// The number of lines only in the first.
        lines_removed: usize,
        /// The unified diff.
        diff: String,
    },
}

/// Compares the turns of two captures.
pub fn compare(a: &Capture, b: &Capture) -> Result<Difference, CaptureError> {
    let (side_a, old, envelope_a) = take_apart(a)?;
    let (side_b, new, envelope_b) = take_apart(b)?;
    let pairs = pair(&old, &new);
    let mut difference = Difference {
        version: 1,
        a: side_a,
        b: side_b,
        changes: Vec::new(),
        same_parts: 0,
        same_bytes: 0,
        envelope_bytes: (envelope_a, envelope_b),
    };
    let mut is_left = vec![true; old.len()];
    for (part, before) in new.iter().zip(pairs) {
        let before = before.map(|index| {
            is_left[index] = false;
            &old[index]
        });
        match before {
            Some(before) if before.text == part.text => {
                difference.same_parts += 1;
                difference.same_bytes += part.text.len() as u64;
            }
            Some(before) => difference.changes.push(changed(before, part)),
            None => difference.changes.push(Change::Added {
                part: part.kind,
                place: part.place.clone(),
                title: part.title.clone(),
                bytes: part.text.len() as u64,
            }),
        }
    }
    let removed = old.iter().zip(is_left).filter(|(_, is_left)| *is_left);
    difference.changes.extend(removed.map(|(part, _)| Change::Removed {
        part: part.kind,
        place: part.place.clone(),
        title: part.title.clone(),
        bytes: part.text.len() as u64,
    }));
    Ok(difference)
}

fn take_apart(capture: &Capture) -> Result<(Side, Vec<Part>, u64), CaptureError> {
    let account = capture.account()?;
    let side = Side {
        agent: capture.program.agent.to_string(),
        version: capture.program.version.clone(),
        body_bytes: account.body_bytes(),
        tokens_estimate: estimate_tokens(account.body_bytes()),
        model: account.model.clone(),
    };
    let body = capture.turn().map(|request| &request.body[..]).unwrap_or_default();
    let request_parts = RequestParts::parse(account.wire, body)
        .map_err(|source| CaptureError::NotJson { number: account.request, source })?;
    let home = capture.home.to_string_lossy();
    let parts = request_parts.parts.into_iter().map(|mut part| {
        part.text = part.text.replace(&*home, "~");
        part.title = part.title.replace(&*home, "~");
        part
    });
    Ok((side, parts.collect(), account.envelope_bytes()))
}

/// Returns, for each new part, the matching old part.
fn pair(old: &[Part], new: &[Part]) -> Vec<Option<usize>> {
    let mut pairs =
        Pairs { old, new, is_free: vec![true; old.len()], found: vec![None; new.len()] };
    pairs.by(|part| Some((part.kind, part.text.clone())));
    pairs.by(|part| Some((part.kind, part.title.clone())));
    // Tools are paired by name, other parts by position.
    pairs.by(|part| (part.kind != PartKind::Tool).then(|| (part.kind, part.place.clone())));
    pairs.found
}

struct Pairs<'a> {
    old: &'a [Part],
    new: &'a [Part],
    is_free: Vec<bool>,
    found: Vec<Option<usize>>,
}

impl Pairs<'_> {
    /// Pairs the remaining parts with equal keys, in order.
    fn by<K: Hash + Eq>(&mut self, key: impl Fn(&Part) -> Option<K>) {
        let mut by_key: HashMap<K, Vec<usize>> = HashMap::new();
        for index in (0..self.old.len()).rev().filter(|index| self.is_free[*index]) {
            if let Some(key) = key(&self.old[index]) {
                by_key.entry(key).or_default().push(index);
            }
        }
        for (part, found) in self.new.iter().zip(&mut self.found) {
            if found.is_none() {
                let fitting = key(part).and_then(|key| by_key.get_mut(&key));
                *found = fitting.and_then(Vec::pop);
                if let Some(index) = *found {
                    self.is_free[index] = false;
                }
            }
        }
    }
}

fn changed(before: &Part, after: &Part) -> Change {
    let diff = LineDiff::new(&before.text, &after.text, DIFF_TIME);
    Change::Changed {
        part: after.kind,
        place: after.place.clone(),
        title: after.title.clone(),
        bytes_before: before.text.len() as u64,
        bytes: after.text.len() as u64,
        lines_added: diff.added(),
        lines_removed: diff.removed(),
        diff: diff.unified(1),
    }
}
