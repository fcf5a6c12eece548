//! The difference between two texts that models were given, by parts.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::Duration;

use convoke_diff::{LineChange, LineDiff};
use serde_json::{Value, json};

use crate::views::given::{Given, Kind, Part};

/// The maximum time of comparing the parts of two texts.
const COMPARING: Duration = Duration::from_millis(200);

/// A part of one text, or of both.
#[derive(Debug)]
pub(crate) enum Row<'p> {
    Same(&'p Part<'p>),
    Changed(&'p Part<'p>, &'p Part<'p>),
    Added(&'p Part<'p>),
    Removed(&'p Part<'p>),
}

/// The difference between two texts.
#[derive(Debug)]
pub(crate) struct Comparison<'p> {
    pub rows: Vec<Row<'p>>,
    /// The row before which the part that a cache can reuse ends; `None` if the texts are the same.
    pub boundary: Option<usize>,
    /// The bytes at the beginning that are the same.
    pub reusable_bytes: u64,
    pub earlier_bytes: u64,
    pub later_bytes: u64,
    /// Why the texts differ, in words.
    pub cause: Option<String>,
}

impl<'p> Comparison<'p> {
    /// Compares two texts by their parts with content.
    pub fn between(earlier: &'p Given<'_>, later: &'p Given<'_>) -> Self {
        let before: Vec<&Part<'_>> = content(earlier);
        let after: Vec<&Part<'_>> = content(later);
        let rows = rows(&before, &after);
        let boundary = rows.iter().position(|row| !matches!(row, Row::Same(_)));
        let same: u64 = rows[..boundary.unwrap_or(rows.len())]
            .iter()
            .map(|row| if let Row::Same(part) = row { part.bytes } else { 0 })
            .sum();
        let within = boundary.map_or(0, |at| common_beginning(&rows[at]));
        let bytes = |parts: &[&Part<'_>]| parts.iter().map(|part| part.bytes).sum::<u64>();
        let cause = boundary.map(|at| cause(&rows[at]));
        Self {
            boundary,
            reusable_bytes: same + within,
            earlier_bytes: bytes(&before),
            later_bytes: bytes(&after),
            cause,
            rows,
        }
    }

    /// Returns the share of a number of tokens that a cache can reuse.
    pub fn reusable_of(&self, tokens: u64) -> u64 {
        let whole = u128::from(self.later_bytes.max(1));
        let share = u128::from(tokens) * u128::from(self.reusable_bytes) / whole;
        u64::try_from(share).unwrap_or(u64::MAX)
    }

    /// Returns the JSON form.
    pub fn json(&self) -> Value {
        let rows = self.rows.iter().map(|row| {
            let (state, part) = match row {
                Row::Same(part) => ("unchanged", part),
                Row::Changed(_, part) => ("changed", part),
                Row::Added(part) => ("added", part),
                Row::Removed(part) => ("removed", part),
            };
            json!({
                "state": state, "part": part.index, "kind": part.kind.name(),
                "section": part.section, "label": part.label, "bytes": part.bytes,
            })
        });
        json!({
            "rows": rows.collect::<Vec<_>>(), "boundary": self.boundary,
            "reusableBytes": self.reusable_bytes, "earlierBytes": self.earlier_bytes,
            "laterBytes": self.later_bytes, "cause": self.cause,
        })
    }
}

fn content<'p>(given: &'p Given<'_>) -> Vec<&'p Part<'p>> {
    given.parts.iter().filter(|part| !matches!(part.kind, Kind::Frame | Kind::Unknown)).collect()
}

/// Pairs the parts of two texts: the same, those that changed, and those of one text only.
fn rows<'p>(before: &[&'p Part<'p>], after: &[&'p Part<'p>]) -> Vec<Row<'p>> {
    let keys = |parts: &[&Part<'_>]| parts.iter().map(|part| key(part)).collect::<Vec<String>>();
    let (old, new) = (keys(before), keys(after));
    let old = old.iter().map(String::as_str).collect();
    let new = new.iter().map(String::as_str).collect();
    let (mut from, mut to) = (before.iter(), after.iter());
    let mut rows = Vec::new();
    let (mut removed, mut added) = (Vec::new(), Vec::new());
    let diff = LineDiff::of_lines(old, new, COMPARING);
    for (change, _) in diff.lines() {
        match change {
            LineChange::Same => {
                replaced(&mut rows, &mut removed, &mut added);
                from.next();
                rows.extend(to.next().map(|part| Row::Same(part)));
            }
            LineChange::Removed => removed.extend(from.next().copied()),
            LineChange::Added => added.extend(to.next().copied()),
        }
    }
    replaced(&mut rows, &mut removed, &mut added);
    rows
}

/// Returns what two parts have in common if they are the same: kind and content.
fn key(part: &Part<'_>) -> String {
    let mut hasher = DefaultHasher::new();
    (part.kind, part.bytes, part.left_out, &part.text).hash(&mut hasher);
    if part.text.is_none() {
        part.label.hash(&mut hasher);
    }
    format!("{:x}", hasher.finish())
}

/// Adds the parts of a place where the texts differ: those with one name have changed.
fn replaced<'p>(
    rows: &mut Vec<Row<'p>>,
    removed: &mut Vec<&'p Part<'p>>,
    added: &mut Vec<&'p Part<'p>>,
) {
    let name = |part: &Part<'_>| (part.kind, part.section.clone(), part.label.clone());
    let mut names: HashMap<_, Vec<&'p Part<'p>>> = HashMap::new();
    for part in removed.iter().rev() {
        names.entry(name(part)).or_default().push(part);
    }
    let pairs: Vec<(Option<&'p Part<'p>>, &'p Part<'p>)> =
        added.drain(..).map(|part| (names.get_mut(&name(part)).and_then(Vec::pop), part)).collect();
    let paired: Vec<usize> =
        pairs.iter().filter_map(|(before, _)| Some(before.as_ref()?.index)).collect();
    let gone = removed.drain(..).filter(|part| !paired.contains(&part.index));
    rows.extend(gone.map(Row::Removed));
    rows.extend(pairs.into_iter().map(|(before, part)| match before {
        Some(before) => Row::Changed(before, part),
        None => Row::Added(part),
    }));
}

/// Returns the number of bytes with which both parts of a row begin.
fn common_beginning(row: &Row<'_>) -> u64 {
    let Row::Changed(Part { text: Some(before), .. }, Part { text: Some(after), bytes, .. }) = row
    else {
        return 0;
    };
    let same = before.bytes().zip(after.bytes()).take_while(|(a, b)| a == b).count();
    // A readable text may be longer than the bytes that were sent.
    (same as u64).min(*bytes)
}

fn cause(row: &Row<'_>) -> String {
    match row {
        Row::Same(_) => String::new(),
        Row::Changed(_, part) => format!("The first difference is in {}: it changed", part.label),
        Row::Added(part) => format!("The first difference is {}: it is new here", part.label),
        Row::Removed(part) => format!("The first difference is {}: it is gone", part.label),
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::*;
    use crate::views::given::Form;

    fn given(parts: &[(Kind, &'static str, &'static str)]) -> Given<'static> {
        let part =
            |(index, (kind, label, text)): (usize, &(Kind, &'static str, &'static str))| Part {
                index,
                kind: *kind,
                section: "user".to_owned(),
                label: (*label).to_owned(),
                source: String::new(),
                rule: String::new(),
                bytes: text.len() as u64,
                tokens: 1,
                left_out: 0,
                text: Some(Cow::Borrowed(text)),
                form: Form::Text,
            };
        let parts = parts.iter().enumerate().map(part).collect();
        Given { parts, path: String::new(), query: String::new() }
    }

    #[test]
    fn a_cache_can_reuse_what_stands_before_the_first_difference() {
        let earlier = given(&[
            (Kind::System, "rules", "Be brief."),
            (Kind::Files, "CLAUDE.md", "Use tabs. Always."),
            (Kind::Messages, "message 1", "Hello"),
        ]);
        let later = given(&[
            (Kind::System, "rules", "Be brief."),
            (Kind::Files, "CLAUDE.md", "Use tabs. Never."),
            (Kind::Messages, "message 1", "Hello"),
            (Kind::Messages, "message 2", "And now?"),
        ]);
        let found = Comparison::between(&earlier, &later);
        assert_eq!((found.boundary, found.reusable_bytes), (Some(1), 9 + 10));
        let states: Vec<Value> = found.json()["rows"]
            .as_array()
            .unwrap()
            .iter()
            .map(|row| row["state"].clone())
            .collect();
        assert_eq!(states, ["unchanged", "changed", "unchanged", "added"]);
        assert_eq!(
            found.cause.as_deref(),
            Some("The first difference is in CLAUDE.md: it changed")
        );
        let same = Comparison::between(&earlier, &earlier);
        assert_eq!((same.boundary, same.reusable_bytes, same.cause), (None, 31, None));
    }

    #[test]
    fn what_was_removed_is_named() {
        let earlier = given(&[(Kind::Tools, "Bash", "a"), (Kind::Tools, "Read", "b")]);
        let later = given(&[(Kind::Tools, "Read", "b")]);
        let found = Comparison::between(&earlier, &later);
        assert!(matches!(found.rows[..], [Row::Removed(_), Row::Same(_)]));
        assert_eq!(found.cause.as_deref(), Some("The first difference is Bash: it is gone"));
    }
}
