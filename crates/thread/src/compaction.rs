//! The history that a compaction leaves: the kept user messages and the summary.

use convoke_core::diagnostic::Diagnostic;

use crate::diagnostics;
use crate::history::{Entry, History, Origin, user_text};
use crate::item::{ContentItem, ResponseItem};
use crate::model::TruncationPolicy;
use crate::truncate::{tokens, truncate_middle};

/// The tokens of user messages that a compaction keeps.
const KEPT_TOKENS: u64 = 20_000;

/// Returns the summary message: the pack's prefix and the last thing that the model said.
pub fn summary(history: &History, prefix: &str) -> String {
    let said = history.items().rev().find_map(|item| match item {
        ResponseItem::Message(message) if message.role == "assistant" => {
            message.content.iter().rev().find_map(|part| match part {
                ContentItem::OutputText(text) => Some(text.as_str()),
                _ => None,
            })
        }
        _ => None,
    });
    format!("{prefix}\n{}", said.unwrap_or(""))
}

/// Builds the history after a compaction: fresh initial context, the user messages that fit, newest
/// first chosen and oldest first told, and the summary.
pub fn rebuild(
    initial_context: Vec<Entry>,
    history: &History,
    summary: String,
    prefix: &str,
    diagnostics: &mut Vec<Diagnostic>,
) -> Vec<Entry> {
    let earlier = format!("{prefix}\n");
    let messages: Vec<String> =
        history.items().filter_map(user_text).filter(|text| !text.starts_with(&earlier)).collect();
    let mut entries = initial_context;
    entries.extend(keep(&messages, KEPT_TOKENS, diagnostics));
    entries.push(Entry::new(ResponseItem::user(summary), Origin::Summary));
    entries
}

fn keep(messages: &[String], budget: u64, diagnostics: &mut Vec<Diagnostic>) -> Vec<Entry> {
    let mut remaining = budget;
    let mut kept = Vec::new();
    for (index, text) in messages.iter().enumerate().rev() {
        let size = text.len() as u64;
        if remaining == 0 {
            diagnostics.push(left_out(&messages[..=index]));
            break;
        }
        let cost = tokens(size);
        if cost <= remaining {
            remaining -= cost;
            kept.push(Entry::new(ResponseItem::user(text), Origin::Kept));
            continue;
        }
        let policy = TruncationPolicy::Tokens(remaining);
        let cut = truncate_middle(text, policy).unwrap_or_else(|| text.clone());
        let lost = size.saturating_sub(cut.len() as u64);
        let message = format!("{lost} bytes of a user message did not fit into {budget} tokens");
        diagnostics
            .push(Diagnostic::new(diagnostics::COMPACTION_TRUNCATED, message).with_bytes(lost));
        let mut entry = Entry::new(ResponseItem::user(cut), Origin::Kept);
        entry.cut = lost;
        kept.push(entry);
        if index > 0 {
            diagnostics.push(left_out(&messages[..index]));
        }
        break;
    }
    kept.reverse();
    kept
}

fn left_out(messages: &[String]) -> Diagnostic {
    let bytes: u64 = messages.iter().map(|text| text.len() as u64).sum();
    let count = messages.len();
    let message = format!("{count} older user messages ({bytes} bytes) were left out");
    Diagnostic::new(diagnostics::COMPACTION_TRUNCATED, message)
        .with_count(count as u64)
        .with_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(messages: &[&str], budget: u64) -> (Vec<String>, usize) {
        let messages: Vec<_> = messages.iter().map(|it| (*it).to_owned()).collect();
        let mut diagnostics = Vec::new();
        let entries = keep(&messages, budget, &mut diagnostics);
        let texts = entries.iter().filter_map(|entry| user_text(&entry.item));
        (texts.collect(), diagnostics.len())
    }

    #[test]
    fn the_newest_messages_are_kept_in_their_order() {
        assert_eq!(kept(&["a", "b"], 2), (vec!["a".into(), "b".into()], 0));
        assert_eq!(kept(&["a", "b"], 1), (vec!["b".into()], 1));
        let cut = "0123…2 tokens truncated…cdef";
        let messages = ["x", "y", "0123456789abcdef"];
        assert_eq!(kept(&messages, 2), (vec![cut.into()], 2));
    }
}
