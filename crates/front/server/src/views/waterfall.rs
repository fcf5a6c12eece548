//! The turns and requests of a session, in order: a list beside the conversation, and a chart of the tokens above it.

use std::collections::HashMap;

use convoke_protocol::id::Millis;
use convoke_protocol::usage::Usage;
use maud::{Markup, html};

use super::figures::{short_number, token_bar, token_kinds, token_legend};
use super::text::{line, version};
use super::{dollars, moment, seconds};

/// The smallest number of tokens that a cache is expected to keep.
const KEPT_LEAST: u64 = 1_024;
/// The height of the chart.
const HEIGHT: f64 = 88.0;

/// A turn or a request.
pub(crate) struct Row {
    /// The id of its element.
    pub id: String,
    /// The address of its view.
    pub path: String,
    pub number: String,
    pub title: String,
    /// What it is, where it is not usual.
    pub badge: Option<Markup>,
    /// The sub-agent that sent it.
    pub agent: Option<String>,
    pub at: Option<Millis>,
    /// Its duration, in milliseconds.
    pub took: Option<u64>,
    pub usage: Option<Usage>,
    pub cost: Option<f64>,
    /// The row whose cache it can use: one of the same group.
    pub group: String,
    /// Whether it belongs to the row above.
    pub is_below: bool,
    pub is_compaction: bool,
    /// The address of the comparison that shows why the cache was missed; `None` if it was not.
    pub miss: Option<String>,
}

/// Finds requests whose cache was missed, among those of each group, and calls `with` with the numbers of the one before and of
/// the one that missed.
pub(crate) fn mark_misses(rows: &mut [Row], with: impl Fn(usize, usize) -> String) {
    let mut before: HashMap<String, (usize, u64)> = HashMap::new();
    for (at, row) in rows.iter_mut().enumerate() {
        let Some(usage) = row.usage else { continue };
        let group = row.group.clone();
        if let Some((earlier, kept)) = before.get(&group) {
            let expected = (*kept).min(usage.input);
            if expected >= KEPT_LEAST && usage.cached.saturating_mul(2) < expected {
                row.miss = Some(with(*earlier, at));
            }
        }
        if !row.is_compaction {
            before.insert(group, (at, usage.cached.saturating_add(usage.cache_write)));
        }
    }
}

/// Renders the rows.
pub(crate) fn rows(rows: &[Row]) -> Markup {
    let tokens = |usage: &Usage| usage.input.saturating_add(usage.output);
    let most = rows.iter().filter_map(|row| row.usage.as_ref()).map(tokens).max().unwrap_or(0);
    html! { ol.rows.request-rows { @for row in rows { (self::row(row, most)) } } }
}

fn row(row: &Row, most: u64) -> Markup {
    let content = html! {
        a.row href=(row.path) data-inspect=(row.path) {
            span.name {
                span.number { (row.number) }
                span.subject { (line(&row.title)) }
                @if let Some(badge) = &row.badge { (badge) }
                @if let Some(cost) = row.cost { span.cost { (dollars(cost)) } }
            }
            @if let Some(agent) = &row.agent { span.faint.origin-line { "sub-agent " (line(agent)) } }
            @if let Some(usage) = &row.usage { (token_bar(usage, most)) }
            span.origin-line {
                span { @if let Some(at) = row.at { (moment(at)) } @if let Some(took) = row.took { " · " (seconds(took)) } }
                @match &row.usage {
                    Some(usage) => span.figures { (short_number(usage.input)) " in · " (short_number(usage.cached)) " cached · " (short_number(usage.output)) " out" },
                    None => span.figures { "not counted" },
                }
            }
        }
        @if let Some(miss) = &row.miss { a.miss href=(miss) { "Cache missed: compare" } }
    };
    let version = version(&content);
    html! { li #(row.id) .sub[row.agent.is_some() || row.is_below] data-version=(version) { (content) } }
}

/// Renders the tokens of rows as a chart, with compactions and misses.
#[expect(clippy::cast_precision_loss, reason = "a picture has fewer pixels than a float digits")]
pub(crate) fn chart(rows: &[Row]) -> Markup {
    let counted: Vec<(&Row, &Usage)> =
        rows.iter().filter_map(|row| Some((row, row.usage.as_ref()?))).collect();
    if counted.len() < 2 {
        return html! {};
    }
    let tokens = |usage: &Usage| usage.input.saturating_add(usage.output);
    let most = counted.iter().map(|(_, usage)| tokens(usage)).max().unwrap_or(0).max(1);
    // Few requests are no wider than many.
    let step = (1000.0 / counted.len() as f64).min(20.0);
    let label = format!(
        "Tokens of {} requests, at most {}; the list has the same",
        counted.len(),
        short_number(most)
    );
    html! {
        figure.chart-figure {
            svg.chart viewBox=(format!("0 0 1000 {HEIGHT}")) preserveAspectRatio="none" role="img" aria-label=(label) {
                @for (at, (row, usage)) in counted.iter().enumerate() {
                    @let x = at as f64 * step;
                    (column(usage, most, x, step))
                    @if row.is_compaction { line.compaction x1=(fixed(x)) x2=(fixed(x)) y1="0" y2=(HEIGHT) {} }
                    @if row.miss.is_some() { rect.miss x=(fixed(x)) y="0" width=(fixed(step * 0.8)) height="4" {} }
                    rect.hit data-inspect=(row.path) x=(fixed(x)) y="0" width=(fixed(step)) height=(HEIGHT) {
                        title { (row.number) ": " (short_number(usage.input)) " in, " (short_number(usage.cached)) " cached, " (short_number(usage.output)) " out" @if row.miss.is_some() { ", cache missed" } @if row.is_compaction { ", compaction" } }
                    }
                }
            }
            figcaption { (token_legend()) }
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "a picture has fewer pixels than a float digits")]
fn column(usage: &Usage, most: u64, x: f64, step: f64) -> Markup {
    let mut y = HEIGHT;
    let parts = token_kinds(usage).map(|(class, _, tokens)| {
        let height = tokens as f64 / most as f64 * (HEIGHT - 8.0);
        y -= height;
        (class, y, height)
    });
    html! { @for (class, y, height) in parts { @if height > 0.0 {
        rect.(class) x=(fixed(x)) y=(fixed(y)) width=(fixed(step * 0.8)) height=(fixed(height)) {}
    } } }
}

fn fixed(length: f64) -> String {
    format!("{length:.2}")
}

/// Renders the panes of a session: waterfall, conversation and inspector. `attributes` stand on the frame.
pub(crate) fn panes(left: &Markup, middle: &Markup, right: &Markup) -> Markup {
    html! {
        div.pane-choice role="group" aria-label="Panes" {
            @for (pane, label) in [("waterfall", "Requests"), ("conversation", "Conversation"), ("inspector", "Inspector")] {
                button type="button" data-pane=(pane) aria-pressed=(if pane == "conversation" { "true" } else { "false" }) { (label) }
            }
        }
        section.pane.waterfall aria-label="Requests" data-name="waterfall" tabindex="0" { (left) }
        (divider("left", "Width of the requests"))
        section.pane.conversation aria-label="Conversation" data-name="conversation" { (middle) }
        (divider("right", "Width of the inspector"))
        section.pane.inspector aria-label="Inspector" data-name="inspector" tabindex="0" { (right) }
    }
}

fn divider(side: &str, label: &str) -> Markup {
    html! { div.divider role="separator" aria-orientation="vertical" aria-label=(label) aria-valuenow="50" tabindex="0" data-resize=(side) title="Drag to resize, double-click or Enter to fold" {} }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(input: u64, cached: u64, cache_write: u64) -> Row {
        Row {
            id: String::new(),
            path: String::new(),
            number: String::new(),
            title: String::new(),
            badge: None,
            agent: None,
            at: None,
            took: None,
            usage: Some(Usage { input, cached, cache_write, ..Usage::default() }),
            cost: None,
            group: String::new(),
            is_below: false,
            is_compaction: false,
            miss: None,
        }
    }

    #[test]
    fn a_request_that_reads_its_beginning_again_missed_the_cache() {
        let mut rows =
            [row(5_000, 0, 5_000), row(6_000, 5_000, 1_000), row(7_000, 0, 7_000), row(90, 0, 0)];
        mark_misses(&mut rows, |before, at| format!("{before}-{at}"));
        let misses: Vec<_> = rows.iter().map(|row| row.miss.as_deref()).collect();
        assert_eq!(misses, [None, None, Some("1-2"), None]);
    }
}
