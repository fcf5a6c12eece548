//! The list of parts beside the text.

use maud::{Markup, html};

use super::{Given, Kind, Part, label};
use crate::query::PartOrder;
use crate::views::text::plain;
use crate::views::{count, number};

/// The maximum number of rows that are loaded at a time.
const ROWS: usize = 120;

/// Renders the list, in the order of the text.
pub(crate) fn list(given: &Given<'_>) -> Markup {
    let frame: Vec<&Part<'_>> = given.frame().collect();
    let frame_tokens: u64 = frame.iter().map(|part| part.tokens).sum();
    html! {
        div.list-head {
            span { (count(given.content().count() as u64, "part")) }
            div.choice role="group" aria-label="Order" data-rows=(given.address("rows", "")) {
                button type="button" data-sort="sent" aria-pressed="true" { "as sent" }
                button type="button" data-sort="size" aria-pressed="false" { "largest first" }
            }
            span.figure { "~tokens" }
        }
        div.rows-scroller tabindex="0" role="region" aria-label="The list of parts" {
            ol.rows.part-rows { (rows(given, PartOrder::Sent, 0)) }
            @if !frame.is_empty() {
                ol.rows { li.k-frame { a.row href="#frame" { span.swatch {} span.label { "Frame" } span.section { (count(frame.len() as u64, "piece")) } span.figure { (number(frame_tokens)) } } } }
            }
        }
        p.sum { span { "All" } span.figure { span.used-bytes { (number(given.bytes())) } " bytes · ~" (number(given.tokens())) " tokens" } }
    }
}

/// Renders rows of the list from one on, with a button for more.
pub(crate) fn rows(given: &Given<'_>, order: PartOrder, from: usize) -> Markup {
    let mut parts: Vec<&Part<'_>> = given.content().collect();
    if order == PartOrder::Size {
        parts.sort_by_key(|part| std::cmp::Reverse(part.tokens));
    }
    let next = from.saturating_add(ROWS);
    html! {
        @for part in parts.iter().skip(from).take(ROWS) { (row(part)) }
        @if next < parts.len() {
            li.more-rows { button.more type="button" data-more=(given.address("rows", &format!("sort={}&from={next}", order.as_str()))) { "Show " (count((parts.len() - next) as u64, "more part")) } }
        }
    }
}

/// Renders the whole list, each row as a link to its part in a document.
pub(super) fn links(given: &Given<'_>, prefix: &str) -> Markup {
    html! {
        ol.rows.part-rows { @for part in given.content() {
            li.(part.kind.class()) { a.row href=(format!("#{prefix}-part-{}", part.index)) {
                span.swatch {}
                span.label { (label(&part.label)) }
                span.section { (label(&part.section)) }
                span.figure { (number(part.tokens)) }
            } }
        } }
    }
}

fn row(part: &Part<'_>) -> Markup {
    let rule = if part.left_out > 0 {
        format!("{}: {} bytes left out", part.rule, number(part.left_out))
    } else {
        part.rule.clone()
    };
    html! {
        li.(part.kind.class()) data-part=(part.index) {
            a.row href=(format!("#part-{}", part.index)) title=(plain(&format!("{} · {} bytes, ~{} tokens · {rule}", part.source, number(part.bytes), number(part.tokens)))) {
                span.swatch {}
                span.label { (label(&part.label)) }
                span.section { @if part.left_out > 0 { span.left-out { @if part.bytes == 0 { "left out" } @else { "cut" } } " " } @if part.kind != Kind::Unknown { (label(&part.section)) } }
                span.figure data-bytes=(part.bytes) { (number(part.tokens)) }
            }
        }
    }
}
