//! The list of sessions: one row each, with filters and a search.

use convoke_protocol::id::Millis;
use convoke_protocol::session::FoundMessage;
use maud::{Markup, html};

use super::text::{line, plain};
use super::{count, dollars, moment_ago, short};
use crate::other_sessions::encoded;
use crate::query::ListQuery;
use crate::stored::{ListedSession, SessionState};

/// A page of the list.
pub struct List<'r> {
    /// The sessions, the one that changed last first, each with its directory for people.
    pub sessions: Vec<(&'r ListedSession, String)>,
    pub query: &'r ListQuery,
    /// The number of all sessions.
    pub total: usize,
    /// The number of sessions up to the end of this page, if there are more.
    pub next: Option<usize>,
    /// The names of programs whose sessions are shown beside them; none if they are not.
    pub programs: &'r [&'static str],
}

/// The messages that a search found.
pub struct FoundMessages {
    /// The messages that are shown.
    pub messages: Vec<FoundMessage>,
    /// Whether there are more.
    pub has_more: bool,
}

/// A row of a list of sessions, of any program.
pub(crate) struct Row<'r> {
    pub path: String,
    pub subject: Markup,
    pub badges: Markup,
    pub at: Millis,
    pub project: &'r str,
    /// The program, or the members of the team.
    pub who: Markup,
    pub figures: Vec<String>,
}

/// Renders a row. The whole row is the link.
pub(crate) fn row(row: &Row<'_>) -> Markup {
    html! {
        li { a.row href=(row.path) {
            span.subject { (row.subject) " " (row.badges) }
            span.when { (moment_ago(row.at)) }
            span.origin-line { span.path title=(plain(row.project)) { (line(row.project)) } span { (row.who) } }
            span.figures { @for figure in &row.figures { span { (figure) } } }
        } }
    }
}

/// Renders the list as a view of the page; `found` are messages with the words that were searched for.
pub(crate) fn list(list: &List<'_>, found: Option<&FoundMessages>, no_new: Option<&str>) -> Markup {
    let has_own = list.query.shows_own();
    let has_others = !list.programs.is_empty() && list.query.shows_others();
    html! {
        div.heading {
            h1 { "Sessions" }
            @if no_new.is_none() { button.primary type="button" data-post="/api/sessions" data-body="{}" { "New conversation" } }
        }
        (filters(list))
        @if let Some(why) = no_new { p.faint { "No new conversation can be started here: " (why) } }
        @if let Some(found) = found { (hits(found, &list.query.q)) }
        @if has_own {
            section aria-label="Sessions of Convoke" {
                @if has_others { h2 { "Convoke" } }
                @if list.total == 0 { (nothing(list.query)) }
                @else { p.faint { (count(list.total as u64, "session")) } ul.sessions.rows { (rows(list)) } }
            }
        }
        @if has_others {
            section aria-label="Sessions of other programs" { h2 { "Other programs" } section data-load=(others(list.query)) aria-label="The list" {} }
        }
    }
}

fn others(query: &ListQuery) -> String {
    format!("/api/programs{}", query.written(0))
}

fn nothing(query: &ListQuery) -> Markup {
    html! {
        div.empty {
            @if query.is_filtered() { p { "No session of Convoke is like this." } p { a href="/" { "Show all" } } }
            @else { p { "No sessions yet." } p.faint { code { "convoke run" } " starts one." } }
        }
    }
}

fn filters(list: &List<'_>) -> Markup {
    let query = list.query;
    html! {
        form.filters role="search" data-search="/" {
            label.words { "Search messages" input id="q" name="q" type="search" value=(query.q) autocomplete="off"; }
            @if !list.programs.is_empty() {
                label { "Program" select name="program" {
                    option value="" { "all" }
                    option value="convoke" selected[query.program == "convoke"] { "Convoke" }
                    @for program in list.programs { option value=(program) selected[query.program == *program] { (program) } }
                } }
            }
            label { "Project" input name="project" value=(query.project) placeholder="any" autocomplete="off" size="14"; }
            label { "State" select name="state" {
                option value="" { "any" }
                @for state in SessionState::ALL { option value=(state.as_str()) selected[query.state == state.as_str()] { (state.name()) } }
            } }
            label { "Changed" select name="days" {
                option value="" { "any time" }
                @for (days, name) in [(1, "today"), (7, "in 7 days"), (30, "in 30 days")] { option value=(days) selected[query.days == Some(days)] { (name) } }
            } }
            button type="submit" { "Search" }
        }
    }
}

fn hits(found: &FoundMessages, words: &str) -> Markup {
    let FoundMessages { messages, has_more } = found;
    html! {
        p role="status" {
            (count(messages.len() as u64, "message"))
            @if *has_more { " shown; add words to narrow the search" } @else { " found" }
        }
        p.faint { "In the sessions of Convoke; " code { "convoke sessions search" } " finds words in those of other programs too." }
        ol.hits.rows {
            @for message in messages {
                li { a.row href=(format!("/sessions/{0}?message={1}#message-{1}", message.session, message.number)) {
                    span.excerpt { (marked(&message.excerpt, words)) }
                    span.origin-line { (short(message.session)) " · message " (message.number) }
                } }
            }
        }
    }
}

/// Renders a text in which words are marked, whatever their case.
fn marked(text: &str, words: &str) -> Markup {
    let words: Vec<String> = words.split_whitespace().map(str::to_lowercase).collect();
    let is_match = |piece: &str| {
        let lower = piece.to_lowercase();
        words.iter().any(|word| lower.starts_with(word.as_str()))
    };
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let pieces = text.split_inclusive(|c: char| !c.is_alphanumeric());
    html! { @for piece in pieces { @if is_match(piece) { mark { (line(piece.trim_end())) } @if piece.ends_with(' ') { " " } } @else { (super::text::exact(piece, false)) } } }
}

/// Renders the rows of a page of the list, and a button for more.
pub(crate) fn rows(list: &List<'_>) -> Markup {
    html! {
        @for (session, directory) in &list.sessions { (own(session, directory)) }
        @if let Some(next) = list.next {
            li.more-rows { button.more type="button" data-more=(format!("/api/sessions{}", list.query.written(next))) { "More sessions" } }
        }
    }
}

fn own(session: &ListedSession, directory: &str) -> Markup {
    let ListedSession { summary, members, cost_usd, state, .. } = session;
    let name = summary.name.as_deref();
    let subject = summary.beginning.as_deref().or(name).unwrap_or("A conversation");
    let mut figures = vec![count(summary.turns, "turn")];
    if let Some(tokens) = session.tokens {
        figures.push(format!("{} tokens", super::figures::short_number(tokens)));
    }
    if let Some(cost) = cost_usd {
        figures.push(dollars(*cost));
    }
    row(&Row {
        path: format!("/sessions/{}", summary.id),
        subject: html! { (line(subject)) },
        badges: html! {
            @if *state != SessionState::Idle { span.badge.(state.class()) { (state.name()) } }
            @if summary.rehearsal.is_some() { " " span.badge { "rehearsal" } }
        },
        at: summary.updated_at,
        project: directory,
        who: html! { @if let Some(name) = name.filter(|name| *name != subject) { (line(name)) " · " } (line(&members.join(", "))) },
        figures,
    })
}

/// Returns a value as a part of an address.
pub(crate) fn parameter(name: &str, value: &str) -> String {
    if value.is_empty() { String::new() } else { format!("&{name}={}", encoded(value)) }
}
