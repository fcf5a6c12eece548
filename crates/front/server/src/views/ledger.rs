//! A text by its ledger, byte for byte: each entry and each omission in its place.

use convoke_core::ledger::{Entry, Ledger, Source, State, Target};
use maud::{Markup, html};

use super::given::Part;
use super::number;
use super::text::{beginning, exact, line, plain, slice};

/// The maximum number of bytes of one part that are shown at once.
pub const PART_SHOWN: usize = 16 << 10;
/// The maximum number of bytes of all parts that are shown at once.
const ALL_SHOWN: usize = 512 << 10;
/// The maximum number of entries of a ledger that are shown in their places; the JSON form has all.
const MAX_ENTRIES: usize = 1_000;

/// Returns a source in words.
pub fn source(source: &Source<'_>) -> String {
    match source {
        Source::Message { id: Some(id), .. } => id.to_string(),
        Source::Message { index: Some(index), .. } => format!("message {index}"),
        Source::Message { .. } => "a message".to_owned(),
        Source::File { path, lines: Some((from, to)) } => format!("{path}, lines {from} to {to}"),
        Source::File { path, .. } => path.to_string(),
        Source::Setting { name } => format!("`{name}`"),
        Source::Convoke { what } => format!("Convoke: {what}"),
        Source::Program { .. } => "the program's own".to_owned(),
        Source::Tool { .. } => "a tool's output".to_owned(),
        Source::History { .. } => "the history".to_owned(),
        Source::Model { .. } => "the model's answer".to_owned(),
        _ => "another source".to_owned(),
    }
}

fn state(state: State) -> &'static str {
    match state {
        State::Kept => "kept",
        State::Cut => "cut",
        State::Dropped => "dropped",
    }
}

/// Renders a text by its ledger: each entry and each omission in its place. `parts` are its parts, in the order of the ledger.
pub(crate) fn sourced(
    ledger: &Ledger<'_>,
    parts: &[Part<'_>],
    target: Target,
    text: &str,
    shows_white_space: bool,
    bytes_path: &str,
) -> Markup {
    let white = if shows_white_space { "&whitespace=1" } else { "" };
    let name = target_name(target);
    let (mut end, mut room) = (0, ALL_SHOWN);
    let entries: Vec<(Entry<'_>, &Part<'_>)> = ledger
        .entries()
        .zip(parts)
        .take(MAX_ENTRIES)
        .filter(|(entry, _)| entry.target == target)
        .collect();
    html! {
        pre.sourced aria-label=(name) {
            @for (entry, part) in entries {
                @let (from, to) = (usize::try_from(entry.range.start).unwrap_or(0), usize::try_from(entry.range.end).unwrap_or(0));
                @let (shown, rest) = beginning(slice(text, from, to), PART_SHOWN.min(room));
                @let _ = (std::mem::replace(&mut end, to), room = room.saturating_sub(shown.len()));
                span.part.(part.kind.class()) #(format!("part-{}", part.index)) data-part=(part.index) tabindex="-1" title=(plain(&format!("{} · {} · {} bytes · {}", part.label, part.source, number(part.bytes), part.rule))) {
                    (exact(shown, shows_white_space))
                    @if rest > 0 { button.more type="button" data-more=(format!("{bytes_path}&from={}&to={to}{white}", from + shown.len())) { "Show " (number(rest as u64)) " more bytes" } }
                }
                @if entry.cut_bytes > 0 {
                    span.left-out { "[" (number(entry.cut_bytes)) " bytes " (state(entry.state())) " of " (entry.section) ", " (line(&source(&entry.source))) ": " (line(&entry.rule.to_string())) "]" }
                }
            }
            @if end < text.len() {
                button.more type="button" data-more=(format!("{bytes_path}&from={end}&to={}{white}", text.len())) { "Show " (number((text.len() - end) as u64)) " more bytes" }
            }
        }
    }
}

fn target_name(target: Target) -> &'static str {
    match target {
        Target::System => "The system text",
        Target::Prompt => "The text that was sent",
    }
}
