//! Truncates texts that are too long for a model's policy, in the middle.

use convoke_core::ledger::estimate_tokens;

use crate::history::Piece;
use crate::item::ContentItem;
use crate::model::TruncationPolicy;

/// The estimated number of bytes per token, as in [`estimate_tokens`].
const BYTES_PER_TOKEN: u64 = 4;

impl TruncationPolicy {
    /// Returns the limit in bytes.
    pub const fn max_bytes(self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Tokens(tokens) => tokens.saturating_mul(BYTES_PER_TOKEN),
        }
    }

    /// Returns the policy for recorded outputs: a fifth more, to allow for JSON.
    #[must_use]
    pub const fn with_allowance(self) -> Self {
        match self {
            Self::Bytes(limit) => Self::Bytes(fifth_more(limit)),
            Self::Tokens(limit) => Self::Tokens(fifth_more(limit)),
        }
    }
}

const fn fifth_more(limit: u64) -> u64 {
    limit.saturating_add(limit.div_ceil(5))
}

/// A text without its middle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TruncatedText {
    /// The head, a mark and the tail.
    pub(crate) text: String,
    pub(crate) pieces: Vec<Piece>,
}

/// Truncates a text in the middle; `None` if it fits.
pub(crate) fn truncate_middle(text: &str, policy: TruncationPolicy) -> Option<TruncatedText> {
    let max = usize::try_from(policy.max_bytes()).unwrap_or(usize::MAX);
    if text.len() <= max {
        return None;
    }
    let head = text.floor_char_boundary(max / 2);
    let tail = text.ceil_char_boundary(text.len() - (max - max / 2)).max(head);
    let mark = match policy {
        TruncationPolicy::Tokens(_) => {
            format!("…{} tokens truncated…", estimate_tokens((text.len() - max) as u64))
        }
        TruncationPolicy::Bytes(_) => {
            format!("…{} chars truncated…", text[head..tail].chars().count())
        }
    };
    let pieces = vec![
        Piece::Text(0..head as u64),
        Piece::Mark(mark.len() as u64),
        Piece::Text(tail as u64..text.len() as u64),
    ];
    Some(TruncatedText { text: [&text[..head], &mark, &text[tail..]].concat(), pieces })
}

/// Truncates the texts of an output to a common limit, and keeps images. `None` if everything fits.
pub(crate) fn truncate_parts(
    parts: &[ContentItem],
    policy: TruncationPolicy,
) -> Option<(Vec<ContentItem>, Vec<Piece>)> {
    let cost = |text: &str| match policy {
        TruncationPolicy::Bytes(_) => text.len() as u64,
        TruncationPolicy::Tokens(_) => estimate_tokens(text.len() as u64),
    };
    let (TruncationPolicy::Bytes(mut remaining) | TruncationPolicy::Tokens(mut remaining)) = policy;
    let (mut kept, mut pieces) = (Vec::with_capacity(parts.len()), Vec::new());
    let (mut omitted, mut changed, mut end) = (0, false, 0);
    for part in parts {
        let start = end;
        end += part.text().len() as u64;
        let text = match part {
            ContentItem::InputText(text) | ContentItem::OutputText(text) => text,
            ContentItem::InputImage(_) => {
                kept.push(part.clone());
                pieces.push(Piece::Text(start..end));
                continue;
            }
        };
        if remaining == 0 {
            omitted += 1;
        } else if cost(text) <= remaining {
            remaining -= cost(text);
            kept.push(part.clone());
            pieces.push(Piece::Text(start..end));
        } else {
            let rest = match policy {
                TruncationPolicy::Bytes(_) => TruncationPolicy::Bytes(remaining),
                TruncationPolicy::Tokens(_) => TruncationPolicy::Tokens(remaining),
            };
            let whole =
                || TruncatedText { text: text.clone(), pieces: vec![Piece::Text(0..end - start)] };
            let cut = truncate_middle(text, rest).unwrap_or_else(whole);
            kept.push(ContentItem::InputText(cut.text));
            pieces.extend(cut.pieces.into_iter().map(|piece| piece.after(start)));
            remaining = 0;
            changed = true;
        }
    }
    if omitted > 0 {
        let mark = format!("[omitted {omitted} text items ...]");
        pieces.push(Piece::Mark(mark.len() as u64));
        kept.push(ContentItem::InputText(mark));
        changed = true;
    }
    changed.then_some((kept, pieces))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_middle_is_cut_at_characters_and_counted() {
        let cases = [
            ("0123456789", TruncationPolicy::Bytes(10), None),
            ("0123456789", TruncationPolicy::Bytes(5), Some("01…5 chars truncated…789")),
            ("0123456789", TruncationPolicy::Tokens(2), Some("0123…1 tokens truncated…6789")),
            ("世界世界", TruncationPolicy::Bytes(8), Some("世…2 chars truncated…界")),
            ("abc", TruncationPolicy::Bytes(0), Some("…3 chars truncated…")),
        ];
        for (text, policy, expected) in cases {
            let cut = truncate_middle(text, policy).map(|cut| cut.text);
            assert_eq!(cut.as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn the_allowance_is_a_fifth_rounded_up() {
        let cases = [(10_000, 12_000), (20, 24), (80, 96), (1, 2), (0, 0), (7, 9)];
        for (limit, expected) in cases {
            let policy = TruncationPolicy::Tokens(limit).with_allowance();
            assert_eq!(policy, TruncationPolicy::Tokens(expected));
        }
    }

    #[test]
    fn texts_share_one_budget_and_images_stay() {
        let text = |it: &str| ContentItem::InputText(it.to_owned());
        let image = ContentItem::InputImage("data:".to_owned());
        let parts = [text("aaaa"), image.clone(), text("bbbbbbbb"), text("c")];
        let (kept, pieces) = truncate_parts(&parts, TruncationPolicy::Bytes(8)).unwrap();
        let expected = [
            text("aaaa"),
            image,
            text("bb…4 chars truncated…bb"),
            text("[omitted 1 text items ...]"),
        ];
        assert_eq!(kept, expected);
        let pieces: Vec<_> = pieces.iter().map(|piece| format!("{piece:?}")).collect();
        let expected =
            ["Text(0..4)", "Text(4..9)", "Text(9..11)", "Mark(23)", "Text(15..17)", "Mark(26)"];
        assert_eq!(pieces, expected);
        assert_eq!(truncate_parts(&parts, TruncationPolicy::Bytes(13)), None);
    }

    proptest! {
        #[test]
        fn what_is_kept_is_within_the_budget(text in "\\PC{0,200}", limit in 0_u64..100) {
            for policy in [TruncationPolicy::Bytes(limit), TruncationPolicy::Tokens(limit)] {
                if let Some(TruncatedText { text: cut, .. }) = truncate_middle(&text, policy) {
                    let mark = cut.len() - cut.split("truncated…").last().unwrap().len();
                    let head = cut.find('…').unwrap();
                    prop_assert!((head + cut.len() - mark) as u64 <= policy.max_bytes());
                    prop_assert!(text.len() as u64 > policy.max_bytes());
                }
            }
        }
    }
}
