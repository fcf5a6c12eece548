//! The difference between two prompts: how much a cache can reuse, the first difference, and its cause.

use convoke_core::ledger::{Entry, Ledger, Source, Target};
use convoke_protocol::id::SessionId;
use convoke_session::SentTurn;
use convoke_session::diff::{PromptDiff, text_diff};
use serde::Serialize;
use serde_json::{Value, json};

use crate::views::ledger::source;
use crate::views::number;

/// The difference between the texts of two attempts.
#[derive(Debug)]
pub struct Difference {
    /// The texts, line by line.
    pub texts: PromptDiff,
    /// The first difference; `None` if the texts are the same.
    pub first: Option<FirstDifference>,
}

/// The first byte that differs.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FirstDifference {
    /// The text.
    pub target: Target,
    /// The byte in that text.
    pub byte: u64,
    /// The section of the later text there, or of the earlier one where the later one ends.
    pub section: String,
    /// The source of the text there.
    pub source: String,
    /// The cause, in words.
    pub cause: String,
}

impl Difference {
    /// Compares two attempts, in the order of the arguments.
    pub fn between(earlier: &SentTurn, later: &SentTurn) -> Self {
        let system = |sent: &SentTurn| sent.system.clone().unwrap_or_default();
        let texts = PromptDiff {
            member: later.turn.member.clone(),
            system: text_diff(&system(earlier), &system(later)),
            prompt: text_diff(&earlier.prompt, &later.prompt),
        };
        let place = if texts.system.is_same() {
            (Target::Prompt, &texts.prompt)
        } else {
            (Target::System, &texts.system)
        };
        let first = match place {
            (_, text) if text.is_same() => None,
            (target, text) => {
                first_difference(&earlier.ledger, &later.ledger, target, text.common_prefix)
            }
        };
        Self { texts, first }
    }

    /// Returns the JSON form.
    pub fn json(&self, session: SessionId, earlier: &SentTurn, later: &SentTurn) -> Value {
        json!({
            "session": session, "earlier": earlier.turn.id, "later": later.turn.id,
            "attempts": [earlier.attempt.number, later.attempt.number],
            "reusableBytes": self.texts.reusable_bytes(), "firstDifference": self.first,
            "diff": self.texts,
        })
    }
}

/// Names the first difference by the ledgers of both texts.
fn first_difference(
    earlier: &Ledger<'_>,
    later: &Ledger<'_>,
    target: Target,
    byte: u64,
) -> Option<FirstDifference> {
    let before = subject(earlier, target, byte);
    let after = subject(later, target, byte);
    let named = after.as_ref().or(before.as_ref())?;
    let (section, whose) = (named.section.to_string(), source(&named.source));
    let cause = cause(earlier, later, before.as_ref(), after.as_ref());
    Some(FirstDifference { target, byte, section, source: whose, cause })
}

/// Returns the first entry at or after a byte that is not a frame of Convoke's; the frame itself if nothing follows it.
fn subject<'l>(ledger: &'l Ledger<'_>, target: Target, byte: u64) -> Option<Entry<'l>> {
    let is_there = |entry: &Entry<'_>| {
        entry.target == target && entry.kept_bytes() > 0 && entry.range.end > byte
    };
    let is_content = |entry: &Entry<'_>| !matches!(entry.source, Source::Convoke { .. });
    let content = ledger.entries().find(|entry| is_there(entry) && is_content(entry));
    content.or_else(|| ledger.entries().find(is_there))
}

fn cause(
    earlier: &Ledger<'_>,
    later: &Ledger<'_>,
    before: Option<&Entry<'_>>,
    after: Option<&Entry<'_>>,
) -> String {
    let (before, after) = match (before, after) {
        (Some(before), Some(after)) => (before, after),
        (None, Some(after)) => return format!("{} was added", source(&after.source)),
        (Some(before), None) => return format!("{} was removed", source(&before.source)),
        (None, None) => return "the texts end differently".to_owned(),
    };
    if before.source == after.source && before.section == after.section {
        return if before.cut_bytes == after.cut_bytes {
            format!("{} changed", source(&after.source))
        } else {
            format!(
                "{} was cut differently: {} bytes left out before, {} now",
                source(&after.source),
                number(before.cut_bytes),
                number(after.cut_bytes)
            )
        };
    }
    let has = |ledger: &Ledger<'_>, section: &str| {
        ledger.entries().any(|entry| entry.section == section && entry.kept_bytes() > 0)
    };
    if !has(earlier, &after.section) {
        return format!("the section {} is new", after.section);
    }
    if !has(later, &before.section) {
        return format!("the section {} was removed", before.section);
    }
    let again = later.entries().find(|entry| entry.source == before.source);
    match again {
        Some(entry) if entry.kept_bytes() == 0 => {
            format!("{} was left out: {}", source(&before.source), entry.rule)
        }
        None if matches!(before.source, Source::Message { .. }) => {
            format!("{} is no longer in the window", source(&before.source))
        }
        None => format!("{} was removed", source(&before.source)),
        Some(_) => format!("{} was added before it", source(&after.source)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A ledger of entries: section, source, kept and cut bytes.
    fn ledger(entries: &[(&str, &str, u64, u64)]) -> Ledger<'static> {
        let mut end = 0;
        let entries: Vec<Value> = entries
            .iter()
            .map(|(section, source, kept, cut)| {
                let source = match source.strip_prefix("convoke ") {
                    Some(what) => json!({"kind": "convoke", "what": what}),
                    None if source.starts_with('m') => json!({"kind": "message", "id": source}),
                    None => json!({"kind": "setting", "name": source}),
                };
                let from = end;
                end += kept;
                let rule = if *cut > 0 {
                    "oldest context first: 9 bytes needed, 5 available"
                } else {
                    "fits"
                };
                json!({
                    "target": "prompt", "section": section, "source": source, "range": [from, end],
                    "keptBytes": kept, "cutBytes": cut, "rule": rule,
                })
            })
            .collect();
        serde_json::from_value(json!({"maxBytes": null, "entries": entries})).unwrap()
    }

    fn cause_of(earlier: &Ledger<'_>, later: &Ledger<'_>, byte: u64) -> String {
        first_difference(earlier, later, Target::Prompt, byte).unwrap().cause
    }

    #[test]
    fn the_cause_of_a_difference_is_named() {
        let first = ledger(&[("SYSTEM", "rules", 10, 0), ("MESSAGE", "m1", 5, 0)]);
        let other_rules = ledger(&[("SYSTEM", "rules", 12, 0), ("MESSAGE", "m1", 5, 0)]);
        assert_eq!(cause_of(&first, &other_rules, 4), "`rules` changed");
        let with_context = ledger(&[
            ("SYSTEM", "rules", 10, 0),
            ("CONTEXT", "convoke separator", 2, 0),
            ("CONTEXT", "m1", 5, 0),
            ("MESSAGE", "m2", 5, 0),
        ]);
        assert_eq!(cause_of(&first, &with_context, 10), "the section CONTEXT is new");
        assert_eq!(cause_of(&with_context, &first, 10), "the section CONTEXT was removed");
        let moved = ledger(&[
            ("SYSTEM", "rules", 10, 0),
            ("CONTEXT", "convoke separator", 2, 0),
            ("CONTEXT", "m2", 5, 0),
            ("MESSAGE", "m3", 5, 0),
        ]);
        assert_eq!(cause_of(&with_context, &moved, 12), "m1 is no longer in the window");
        let dropped = ledger(&[
            ("SYSTEM", "rules", 10, 0),
            ("CONTEXT", "convoke separator", 2, 0),
            ("CONTEXT", "m1", 0, 5),
            ("CONTEXT", "m2", 5, 0),
            ("MESSAGE", "m3", 5, 0),
        ]);
        assert_eq!(
            cause_of(&with_context, &dropped, 12),
            "m1 was left out: oldest context first: 9 bytes needed, 5 available"
        );
        let cut = ledger(&[("SYSTEM", "rules", 10, 0), ("MESSAGE", "m1", 3, 2)]);
        assert_eq!(
            cause_of(&first, &cut, 12),
            "m1 was cut differently: 0 bytes left out before, 2 now"
        );
        let ended = ledger(&[("SYSTEM", "rules", 10, 0)]);
        assert_eq!(cause_of(&ended, &first, 10), "m1 was added");
        assert_eq!(cause_of(&first, &ended, 10), "m1 was removed");
    }
}
