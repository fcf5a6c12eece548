//! The list of other programs' sessions.

use maud::{Markup, html};

use crate::other_sessions::{ListedOther, OtherList, OtherName};
use crate::query::ListQuery;
use crate::views::figures::short_number;
use crate::views::sessions::{Row, row};
use crate::views::text::line;
use crate::views::{count, dollars};

/// Renders a page of the list, and a button for more; the first page has the number of sessions.
pub(crate) fn list(
    found: &OtherList,
    query: &ListQuery,
    next: Option<usize>,
    shown_directory: impl Fn(&str) -> String,
) -> Markup {
    html! {
        @if query.from == 0 {
            @if found.total == 0 && query.is_filtered() { p.empty { "No session of another program is like this." } }
            @else if found.total == 0 { p.empty { "No sessions of other programs were found in this home." } }
            @else { p.faint { (count(found.total as u64, "session")) } }
        }
        @if !found.sessions.is_empty() {
            ul.sessions.rows { @for session in &found.sessions { (other(session, &shown_directory)) } }
        }
        @if !found.problems.is_empty() {
            details.problems { summary { (count(found.problems.len() as u64, "problem")) } ul { @for problem in &found.problems { li { (line(problem)) } } } }
        }
        @if let Some(next) = next { button.more type="button" data-more=(format!("/api/programs{}", query.written(next))) { "More sessions" } }
    }
}

fn other(
    ListedOther { found, summary }: &ListedOther,
    shown_directory: &impl Fn(&str) -> String,
) -> Markup {
    let cwd = summary.cwd.as_deref().or(found.cwd.as_deref());
    let project = cwd.map_or_else(|| "unknown directory".to_owned(), shown_directory);
    let mut figures = vec![count(summary.requests, "request")];
    if let Some(usage) = summary.usage {
        figures.push(format!("{} tokens", short_number(usage.input.saturating_add(usage.output))));
    }
    if summary.cost.known > 0 {
        let more = if summary.cost.unknown > 0 { "+" } else { "" };
        figures.push(format!("{}{more}", dollars(summary.cost.amount)));
    } else if summary.usage.is_some() {
        figures.push("price unknown".to_owned());
    }
    row(&Row {
        path: OtherName::of(found).path(),
        subject: html! { @match summary.title.as_ref().or(summary.given_title.as_ref()) { Some(title) => (line(title)), None => "No message of a person" } },
        badges: html! {},
        at: summary.ended_at.unwrap_or(found.changed_at),
        project: &project,
        who: html! { span.badge { (found.program) } },
        figures,
    })
}
