//! A ledger: its pictures, its table, the omissions, and the exact text by parts.

use convoke_core::ledger::{Entry, Ledger, State, Target};
use maud::{Markup, html};

use super::chart::{self, source};
use super::text::{beginning, exact, line, slice};
use super::{number, percent};
use crate::query::Grouping;

/// The maximum number of bytes of one part that are shown at once.
pub const PART_SHOWN: usize = 16 << 10;
/// The maximum number of entries of a ledger that are listed; the JSON form has all.
const MAX_ENTRIES: usize = 1_000;

/// Renders a ledger whose text is shown on the same page: its entries link to their parts.
pub fn view(ledger: &Ledger<'_>, by: Grouping) -> Markup {
    table(ledger, by, Some("part"))
}

/// Renders a ledger; `parts_id` is the beginning of the ids of its parts, if the text is shown by parts.
pub fn table(ledger: &Ledger<'_>, by: Grouping, parts_id: Option<&str>) -> Markup {
    let link = |index: usize| parts_id.map(|id| format!("#{id}-{index}"));
    let parts = chart::parts(ledger, by);
    let used = ledger.used_bytes();
    let entries: Vec<Entry<'_>> = ledger.entries().take(MAX_ENTRIES + 1).collect();
    html! {
        div.beside {
            (chart::pictures(&parts, "The ledger"))
            div.scroll tabindex="0" role="region" aria-label="The ledger as a table" { table.ledger {
                thead { tr { th scope="col" { "Section" } th scope="col" { "Source" } th.figure scope="col" { "Bytes" } th.figure scope="col" { "Share" } th scope="col" { "Rule" } } }
                tbody { @for (index, entry) in entries.iter().take(MAX_ENTRIES).enumerate() {
                    tr data-row=(index) {
                        td { a href=[link(index)] { (entry.section) } }
                        td { (line(&source(&entry.source))) }
                        td.figure data-bytes=(entry.kept_bytes()) { (number(entry.kept_bytes())) }
                        td.figure { (percent(entry.kept_bytes(), used)) }
                        td { (line(&entry.rule.to_string())) @if entry.cut_bytes > 0 { " " span.left-out { (number(entry.cut_bytes)) " bytes " (state(entry.state())) } } }
                    }
                } }
                tfoot { tr { th scope="row" colspan="2" { "Sent" } td.figure.used-bytes { (number(used)) } td.figure { "100.0 %" } td {} } }
            } }
        }
        @if entries.len() > MAX_ENTRIES { p.faint { "The first " (number(MAX_ENTRIES as u64)) " entries; the JSON form has all." } }
        (left_out(&entries, link))
    }
}

/// Renders the omissions, with the rule and its arithmetic.
fn left_out(entries: &[Entry<'_>], link: impl Fn(usize) -> Option<String>) -> Markup {
    let left_out: Vec<(usize, &Entry<'_>)> =
        entries.iter().enumerate().filter(|(_, entry)| entry.cut_bytes > 0).collect();
    html! {
        @if !left_out.is_empty() {
            h3 { "Left out" }
            ul.left-out { @for (index, entry) in &left_out { li {
                a href=[link(*index)] { (entry.section) ": " (line(&source(&entry.source))) } ", "
                (number(entry.cut_bytes)) " bytes " (state(entry.state())) ": " (line(&entry.rule.to_string()))
            } } }
        }
    }
}

fn state(state: State) -> &'static str {
    match state {
        State::Kept => "kept",
        State::Cut => "cut",
        State::Dropped => "dropped",
    }
}

/// Renders a text by its ledger: each entry and each omission in its place.
pub fn sourced(
    ledger: &Ledger<'_>,
    target: Target,
    text: &str,
    shows_white_space: bool,
    bytes_path: &str,
) -> Markup {
    let white = if shows_white_space { "&whitespace=1" } else { "" };
    let name = target_name(target);
    let mut end = 0;
    let entries: Vec<(usize, Entry<'_>)> = ledger
        .entries()
        .take(MAX_ENTRIES)
        .enumerate()
        .filter(|(_, entry)| entry.target == target)
        .collect();
    html! {
        pre.sourced tabindex="0" role="region" aria-label=(name) {
            @for (index, entry) in entries {
                @let (from, to) = (usize::try_from(entry.range.start).unwrap_or(0), usize::try_from(entry.range.end).unwrap_or(0));
                @let (shown, rest) = beginning(slice(text, from, to), PART_SHOWN);
                @let _ = std::mem::replace(&mut end, to);
                span.part #(format!("part-{index}")) tabindex="-1" title=(format!("{}: {}", entry.section, source(&entry.source))) {
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
