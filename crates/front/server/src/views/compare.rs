//! Two texts that models were given, side by side by part, with the end of what a cache can reuse.

use std::time::Duration;

use convoke_core::ledger::estimate_tokens;
use convoke_diff::LineDiff;
use maud::{Markup, html};

use super::figures::{CacheUse, cache_bars};
use super::given::Part;
use super::text::{beginning, exact, line, plain};
use super::{count, number, percent};
use crate::comparison::{Comparison, Row};
use crate::other_sessions::encoded;
use crate::sent::{Sent, SentName};

/// The maximum number of rows on a page.
const MAX_ROWS: usize = 400;
/// The maximum number of bytes of two parts that are compared by lines.
const MAX_COMPARED: usize = 256 << 10;
/// The maximum number of lines of a part's difference.
const MAX_LINES: usize = 300;
/// The lines around a change.
const AROUND: usize = 3;
/// The maximum time of comparing two parts.
const COMPARING: Duration = Duration::from_millis(50);

/// Returns the address of a comparison.
pub(crate) fn address(earlier: &SentName, later: &SentName) -> String {
    format!("/compare?a={}&b={}", encoded(&earlier.address()), encoded(&later.address()))
}

/// Renders the ways to compare a text: with the one before it, and with any other.
pub(crate) fn link(before: Option<&SentName>, this: &SentName) -> Markup {
    html! {
        nav.links.compare aria-label="Compare" {
            @if let Some(before) = before { a.button href=(address(before, this)) { "Compare with the one before" } }
            button.quiet type="button" data-compare=(this.address()) { "Compare…" }
        }
    }
}

/// Renders a comparison as a view of the page.
pub(crate) fn comparison(earlier: &Sent, later: &Sent, found: &Comparison<'_>) -> Markup {
    let side = |sent: &Sent, bytes: u64| {
        html! { a href=(sent.name().address()) { (line(&sent.title())) } " " span.faint { "~" (number(estimate_tokens(bytes))) " tokens, " (number(bytes)) " bytes" } }
    };
    html! {
        nav.crumbs aria-label="Place" { a href="/" { "Sessions" } " / compare" }
        h1 { "What changed" }
        div.sides {
            p { span.faint { "Earlier" } (side(earlier, found.earlier_bytes)) }
            p { span.faint { "Later" } (side(later, found.later_bytes)) }
        }
        (summary(found, later))
        ol.compared {
            @for (at, row) in found.rows.iter().take(MAX_ROWS).enumerate() {
                @if Some(at) == found.boundary { (boundary(found)) }
                (self::row(row))
            }
        }
        @if found.rows.len() > MAX_ROWS { p.faint { "The first " (MAX_ROWS) " parts; the JSON form has all." } }
    }
}

fn summary(found: &Comparison<'_>, later: &Sent) -> Markup {
    let many = |state: fn(&Row<'_>) -> bool| found.rows.iter().filter(|row| state(row)).count();
    let changed = many(|row| matches!(row, Row::Changed(..)));
    let (added, removed) =
        (many(|row| matches!(row, Row::Added(_))), many(|row| matches!(row, Row::Removed(_))));
    let unchanged = many(|row| matches!(row, Row::Same(_)));
    html! {
        p.verdict {
            @match found.boundary {
                None => "Both texts are the same.",
                Some(_) => { "A cache can reuse " strong { (percent(found.reusable_bytes, found.later_bytes)) } " of the later text. " @if let Some(cause) = &found.cause { (line(cause)) "." } },
            }
        }
        @if let Some(usage) = later.usage().filter(|usage| usage.input > 0) {
            (cache_bars(&CacheUse { reusable: found.reusable_of(usage.input), reused: usage.cached, input: usage.input }))
        }
        ul.legend {
            li.same { (count(unchanged as u64, "part")) " unchanged" }
            li.changed { (changed) " changed" }
            li.added { (added) " added" }
            li.removed { (removed) " removed" }
        }
    }
}

fn boundary(found: &Comparison<'_>) -> Markup {
    html! {
        li.boundary { span { "▲ ~" (number(estimate_tokens(found.reusable_bytes))) " tokens a cache can reuse" } span { "~" (number(estimate_tokens(found.later_bytes - found.reusable_bytes))) " tokens to read again ▼" } }
    }
}

fn row(row: &Row<'_>) -> Markup {
    match row {
        Row::Same(part) => html! { li.same.(part.kind.class()) { (summary_of("=", part)) } },
        Row::Added(part) => html! { li.added.(part.kind.class()) { (folded("+", part)) } },
        Row::Removed(part) => html! { li.removed.(part.kind.class()) { (folded("−", part)) } },
        Row::Changed(earlier, later) => html! {
            li.changed.(later.kind.class()) {
                details open {
                    summary { (summary_of("≠", later)) span.faint { @if earlier.tokens != later.tokens { "~" (number(earlier.tokens)) " → " (number(later.tokens)) " tokens" } } }
                    (lines(earlier, later))
                }
            }
        },
    }
}

fn summary_of(mark: &str, part: &Part<'_>) -> Markup {
    html! {
        span.mark { (mark) }
        span.swatch {}
        span.label title=(plain(&part.source)) { (line(&part.label)) }
        span.section { (line(&part.section)) }
        span.figure title=(format!("{} bytes", number(part.bytes))) { "~" (number(part.tokens)) }
    }
}

fn folded(mark: &str, part: &Part<'_>) -> Markup {
    html! {
        @match &part.text {
            Some(text) => details { summary { (summary_of(mark, part)) } pre.text { (exact(beginning(text, 16 << 10).0, false)) } },
            None => (summary_of(mark, part)),
        }
    }
}

fn lines(earlier: &Part<'_>, later: &Part<'_>) -> Markup {
    let (Some(before), Some(after)) = (&earlier.text, &later.text) else {
        return html! { p.faint { "The text is not kept." } };
    };
    if before.len() + after.len() > MAX_COMPARED {
        return html! { p.faint { "Too long to be compared by lines." } };
    }
    let text = LineDiff::new(before, after, COMPARING).unified(AROUND);
    html! { (super::patch::unified(&text, None, MAX_LINES)) }
}
