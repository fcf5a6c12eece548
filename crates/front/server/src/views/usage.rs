//! The tokens and dollars of all sessions, as charts.

use convoke_protocol::usage::Usage;
use maud::{Markup, html};

use super::figures::{short_number, strip, token_bar, token_kinds, token_legend, usage_facts};
use super::text::{line, plain};
use super::{count, dollars, number};
use crate::other_sessions::{UsageFigures, UsageRow};
use crate::query::UsageQuery;

/// The size of the chart of days.
const WIDTH: f64 = 1000.0;
const HEIGHT: f64 = 180.0;
/// The widest column.
const WIDEST: f64 = 40.0;
/// The maximum number of rows of a list.
const MAX_ROWS: usize = 20;

/// Renders the figures as a view of the page. `shown` writes a directory for people.
pub(crate) fn usage(
    figures: &UsageFigures,
    query: UsageQuery,
    shown: impl Fn(&str) -> String,
) -> Markup {
    let total = &figures.total;
    let mut facts = vec![("Requests", html! { span.figure { (number(total.requests)) } })];
    facts.extend(usage_facts(Some(&total.usage)));
    facts.push(("At API prices", html! { span.figure { (cost(total)) } }));
    let projects: Vec<UsageRow> = figures
        .by_project
        .iter()
        .map(|row| UsageRow { name: shown(&row.name), ..row.clone() })
        .collect();
    html! {
        div.heading {
            h1 { "Usage" }
            nav.choice aria-label="Time" { @for (days, name) in [(7, "7 days"), (30, "30 days"), (0, "all")] {
                a href=(format!("/usage?days={days}")) aria-current=[(query.days == days).then_some("true")] { (name) }
            } }
        }
        @if total.requests == 0 { div.empty { p { "Nothing was counted in this time." } p.faint { "The figures are those of other programs\u{2019} sessions, as " code { "convoke usage" } " prints them." } } }
        @else {
            (strip(&facts))
            div.charts {
                section aria-label="By day" { h2 { "By day" } (days(&figures.by_day)) (token_legend()) }
                (bars("By program", &figures.by_program))
                (bars("By model", &figures.by_model))
                (bars("By project", &projects))
            }
            p.faint { (count(figures.sessions as u64, "session")) ". Prices: " (line(&figures.prices)) ". With a subscription these figures are not paid." }
        }
        @if !figures.problems.is_empty() {
            details.problems { summary { (count(figures.problems.len() as u64, "problem")) } ul { @for problem in &figures.problems { li { (line(problem)) } } } }
        }
    }
}

fn cost(row: &UsageRow) -> Markup {
    html! {
        @if row.unpriced == row.requests { "unknown" } @else { (dollars(row.cost_usd)) }
        @if row.unpriced > 0 && row.unpriced < row.requests { " " span.faint title=(format!("without {} of unknown price", count(row.unpriced, "request"))) { "+" } }
    }
}

const fn tokens(usage: &Usage) -> u64 {
    usage.input.saturating_add(usage.output)
}

/// Renders a column for each day.
#[expect(clippy::cast_precision_loss, reason = "a picture has fewer pixels than a float digits")]
fn days(rows: &[UsageRow]) -> Markup {
    let most = rows.iter().map(|row| tokens(&row.usage)).max().unwrap_or(0).max(1);
    let step = (WIDTH / rows.len().max(1) as f64).min(WIDEST);
    let height = |tokens: u64| tokens as f64 / most as f64 * HEIGHT;
    html! {
        svg.chart.days viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) preserveAspectRatio="none" role="img" aria-label=(format!("Tokens of {}, at most {} on one; the table has the same", count(rows.len() as u64, "day"), short_number(most))) {
            @for (at, row) in rows.iter().enumerate() {
                @let x = format!("{:.2}", at as f64 * step);
                @for (class, tokens, below) in stacked(&row.usage) {
                    @let part = height(tokens);
                    @let y = HEIGHT - height(below) - part;
                    @if part > 0.0 { rect.(class) x=(x) y=(format!("{y:.2}")) width=(format!("{:.2}", step * 0.8)) height=(format!("{part:.2}")) { title { (plain(&row.name)) ": " (short_number(tokens)) } } }
                }
            }
        }
        details { summary { "As a table" } div.scroll tabindex="0" role="region" aria-label="Tokens by day" { table {
            thead { tr { th scope="col" { "Day" } th.figure scope="col" { "Requests" } th.figure scope="col" { "Input" } th.figure scope="col" { "Cached" } th.figure scope="col" { "Output" } th.figure scope="col" { "Cost" } } }
            tbody { @for row in rows { tr {
                td { (line(&row.name)) } td.figure { (number(row.requests)) } td.figure { (number(row.usage.input)) }
                td.figure { (number(row.usage.cached)) } td.figure { (number(row.usage.output)) } td.figure { (cost(row)) }
            } } }
        } } }
    }
}

/// Returns the tokens by kind, each with the tokens of those before it.
fn stacked(usage: &Usage) -> impl Iterator<Item = (&'static str, u64, u64)> {
    let mut below = 0_u64;
    token_kinds(usage).into_iter().map(move |(class, _, tokens)| {
        let before = below;
        below = below.saturating_add(tokens);
        (class, tokens, before)
    })
}

/// Renders a bar for each row, the largest first.
fn bars(title: &str, rows: &[UsageRow]) -> Markup {
    let mut rows: Vec<&UsageRow> = rows.iter().collect();
    rows.sort_by_key(|row| std::cmp::Reverse(tokens(&row.usage)));
    let most = rows.first().map_or(0, |row| tokens(&row.usage));
    html! {
        section aria-label=(title) {
            h2 { (title) }
            div.usage-bars { @for row in rows.iter().take(MAX_ROWS) {
                span.name title=(plain(&row.name)) { (line(&row.name)) }
                (token_bar(&row.usage, most))
                span.figure { (short_number(tokens(&row.usage))) " · " (cost(row)) }
            } }
            @if rows.len() > MAX_ROWS { p.faint { "The largest " (MAX_ROWS) " of " (rows.len()) "." } }
        }
    }
}
