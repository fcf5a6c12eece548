//! The list of other programs' sessions.

use maud::{Markup, html};

use super::short_number;
use crate::other_sessions::{ListedOther, OtherList, OtherName};
use crate::views::text::line;
use crate::views::{count, dollars, moment_ago};

/// Renders a page of the list, and a button for more; the first page has the number of sessions.
pub fn list(
    found: &OtherList,
    from: usize,
    next: Option<usize>,
    shown_directory: impl Fn(&str) -> String,
) -> Markup {
    html! {
        @if from == 0 {
            @if found.total == 0 { p { "No sessions of Claude Code, Codex, Gemini CLI, opencode or Copilot were found in this home." } }
            @else { p.faint { (count(found.total as u64, "session")) } }
        }
        @if !found.sessions.is_empty() {
            ul.sessions.rows { @for session in &found.sessions { (row(session, &shown_directory)) } }
        }
        @if !found.problems.is_empty() {
            details.problems { summary { (count(found.problems.len() as u64, "problem")) } ul { @for problem in &found.problems { li { (line(problem)) } } } }
        }
        @if let Some(next) = next { button.more type="button" data-more=(format!("/api/programs?from={next}")) { "More sessions" } }
    }
}

fn row(
    ListedOther { found, summary }: &ListedOther,
    shown_directory: &impl Fn(&str) -> String,
) -> Markup {
    let cwd = summary.cwd.as_deref().or(found.cwd.as_deref());
    let at = summary.ended_at.unwrap_or(found.changed_at);
    html! {
        li { a.row href=(OtherName::of(found).path()) {
            span.name {
                span.subject { @match summary.title.as_ref().or(summary.given_title.as_ref()) { Some(title) => (line(title)), None => "No message of a person" } }
                span.when { (moment_ago(at)) }
            }
            span.origin-line {
                span.path { @match cwd { Some(cwd) => (line(&shown_directory(cwd))), None => "unknown directory" } }
                span { span.badge { (found.program) } }
                span.figures {
                    span { (count(summary.requests, "request")) }
                    @if let Some(usage) = summary.usage { span { (short_number(usage.input.saturating_add(usage.output))) " tokens" } }
                    @if summary.cost.known > 0 { span { (dollars(summary.cost.amount)) @if summary.cost.unknown > 0 { "+" } } }
                    @else if summary.usage.is_some() { span { "price unknown" } }
                }
            }
        } }
    }
}
