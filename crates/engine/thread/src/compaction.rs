//! The history after a compaction: the kept user messages and the summary.

use convoke_core::diagnostic::Diagnostic;
use convoke_core::ledger::{Rule, Source, estimate_tokens};
use convoke_core::{Fragment, TextWriter};

use crate::diagnostics;
use crate::history::{Entry, History, Origin, Piece, Section, UserMessages};
use crate::item::{ContentItem, ResponseItem};
use crate::model::TruncationPolicy;
use crate::truncate::{TruncatedText, truncate_middle};

/// The number of tokens of user messages that a compaction keeps.
const KEPT_TOKENS: u64 = 20_000;

/// Returns the summary message: the pack's prefix and the model's last text.
pub fn summary(history: &History, prefix: &str) -> Entry {
    let last = history.items().rev().find_map(|item| match item {
        ResponseItem::Message(message) if message.role == "assistant" => {
            message.content.iter().rev().find_map(|part| match part {
                ContentItem::OutputText(text) => Some(text.as_str()),
                _ => None,
            })
        }
        _ => None,
    });
    let mut text = TextWriter::new(Section::Summary.name());
    text.frame("summary prefix", &format!("{prefix}\n"));
    let last = last.unwrap_or("").to_owned();
    text.fragment(Fragment::new(last, Source::Model { id: None, index: None }));
    Entry::message("user", Section::Summary, text.finish())
}

/// Builds the history after a compaction: a new initial context, the newest user messages that fit, in order,
/// and the summary.
pub fn rebuild(
    initial_context: Vec<Entry>,
    history: &History,
    summary: Entry,
    prefix: &str,
    users: UserMessages,
    diagnostics: &mut Vec<Diagnostic>,
) -> Vec<Entry> {
    let mut messages = Vec::new();
    for entry in history.entries() {
        match message(entry, prefix, users) {
            Some(message) => messages.push(message),
            None if entry.is_of_user() && entry.item.role() == Some("user") => {
                diagnostics.push(taken_for_injected(entry));
            }
            None => {}
        }
    }
    let mut entries = initial_context;
    entries.extend(keep(&messages, KEPT_TOKENS, diagnostics));
    entries.push(summary);
    entries
}

/// Returns the text of a user message, and the origin of that text alone.
fn message(entry: &Entry, prefix: &str, users: UserMessages) -> Option<(String, Origin)> {
    let (section, ranges) = entry.kept_text(prefix, users)?;
    let pieces: Vec<_> =
        ranges.iter().map(|range| Piece::Text(range.start as u64..range.end as u64)).collect();
    let all: String = entry.item.texts().collect();
    let text: String = ranges.into_iter().map(|range| &all[range]).collect();
    let origin = if text.len() == all.len() {
        entry.origin.clone()
    } else {
        entry.origin.cut(&entry.item, &pieces, &Rule::Other(IMAGES.into()))
    };
    Some((text, origin.in_section(&entry.item, section)))
}

/// The rule that removes the images of a message.
const IMAGES: &str = "compaction keeps no images";

fn keep(
    messages: &[(String, Origin)],
    budget: u64,
    diagnostics: &mut Vec<Diagnostic>,
) -> Vec<Entry> {
    let mut remaining = budget;
    let mut kept = Vec::new();
    for (index, (text, origin)) in messages.iter().enumerate().rev() {
        let size = text.len() as u64;
        if remaining == 0 {
            diagnostics.push(left_out(&messages[..=index]));
            break;
        }
        let cost = estimate_tokens(size);
        let whole = Entry::new(ResponseItem::user(text), origin.clone());
        if cost <= remaining {
            remaining -= cost;
            kept.push(whole);
            continue;
        }
        let policy = TruncationPolicy::Tokens(remaining);
        let cut = truncate_middle(text, policy);
        let bytes = |cut: &TruncatedText| cut.pieces.iter().map(Piece::text_bytes).sum::<u64>();
        let lost = size - cut.as_ref().map_or(size, bytes);
        let message = format!("{lost} bytes of a user message did not fit into {budget} tokens");
        diagnostics
            .push(Diagnostic::new(diagnostics::COMPACTION_TRUNCATED, message).with_bytes(lost));
        kept.push(match cut {
            None => whole,
            Some(cut) => {
                let rule = Rule::MiddleCut { needed: size, available: policy.max_bytes() };
                let origin = whole.origin.cut(&whole.item, &cut.pieces, &rule);
                Entry::new(ResponseItem::user(cut.text), origin)
            }
        });
        if index > 0 {
            diagnostics.push(left_out(&messages[..index]));
        }
        break;
    }
    kept.reverse();
    kept
}

/// Reports a message of the user that Codex takes for one of its own.
fn taken_for_injected(entry: &Entry) -> Diagnostic {
    let bytes = entry.item.text_bytes();
    let message =
        format!("a user message of {bytes} bytes begins like a text of Codex and was left out");
    Diagnostic::new(diagnostics::COMPACTION_DROPPED, message).with_bytes(bytes)
}

fn left_out(messages: &[(String, Origin)]) -> Diagnostic {
    let bytes: u64 = messages.iter().map(|(text, _)| text.len() as u64).sum();
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
        let origin = Origin::Section(Section::User);
        let messages: Vec<_> =
            messages.iter().map(|it| ((*it).to_owned(), origin.clone())).collect();
        let mut diagnostics = Vec::new();
        let entries = keep(&messages, budget, &mut diagnostics);
        let texts = entries.iter().map(|entry| entry.item.texts().collect());
        (texts.collect(), diagnostics.len())
    }

    #[test]
    fn a_kept_message_of_a_codex_session_is_still_called_recognised() {
        let entry = |text: &str| Entry::new(ResponseItem::user(text), Origin::Codex);
        for (text, section) in [("hello", Section::Kept), ("<turn_aborted>x", Section::TurnAborted)]
        {
            let (_, origin) = message(&entry(text), "P", UserMessages::ByOrigin).unwrap();
            let Origin::Fragments(kept, entries) = &origin else { panic!("{origin:?}") };
            assert_eq!((*kept, &*entries[0].section), (section, section.name()));
            assert_eq!(entries[0].rule, Rule::Recognised);
        }
        assert_eq!(message(&entry("<skill>x"), "P", UserMessages::ByOrigin), None);
        assert_eq!(message(&entry("P\nx"), "P", UserMessages::ByOrigin), None);
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
