//! The list of sessions, by directory.

use convoke_protocol::session::FoundMessage;
use maud::{Markup, html};
use serde_json::json;

use super::text::line;
use super::{action, count, dollars, moment, short};
use crate::other_sessions::encoded;
use crate::stored::ListedSession;

/// The sessions of a directory.
pub struct Directory<'r> {
    /// The directory.
    pub shown: String,
    /// Its sessions, the one that changed last first.
    pub sessions: Vec<&'r ListedSession>,
}

/// A page of the list.
pub struct List<'r> {
    pub directories: Vec<Directory<'r>>,
    /// The words that were searched for.
    pub words: &'r str,
    /// The number of all sessions.
    pub total: usize,
    /// The number of sessions up to the end of this page, if there are more.
    pub next: Option<usize>,
    /// Whether the sessions of other programs are shown beside them.
    pub has_others: bool,
}

/// The messages that a search found.
pub struct FoundMessages {
    /// The messages that are shown.
    pub messages: Vec<FoundMessage>,
    /// Whether there are more.
    pub has_more: bool,
}

/// Renders the list as a view of the page; `found` are messages with the words that were searched for.
pub fn list(list: &List<'_>, found: Option<&FoundMessages>, no_new: Option<&str>) -> Markup {
    html! {
        div.heading {
            h1 { "Sessions" }
            @if no_new.is_none() { (action("New conversation", "/api/sessions", &json!({}))) }
        }
        form.search role="search" data-search="/" {
            label for="q" { "Search messages" }
            input id="q" name="q" type="search" value=(list.words) autocomplete="off";
            button type="submit" { "Search" }
        }
        @if let Some(why) = no_new { p.faint { "No new conversation can be started here: " (why) } }
        @if let Some(FoundMessages { messages, has_more }) = found {
            p role="status" {
                (count(messages.len() as u64, "message"))
                @if *has_more { " shown; add words to narrow the search" } @else { " found" }
            }
            p.faint { "In the sessions of Convoke; " code { "convoke sessions search" } " finds words in those of other programs too." }
            ol.hits {
                @for message in messages {
                    li {
                        a href=(format!("/sessions/{0}?message={1}#message-{1}", message.session, message.number)) { (short(message.session)) ", message " (message.number) }
                        " " (line(&message.excerpt))
                    }
                }
            }
        }
        div.origins.two[list.has_others && list.total > 0] {
            section aria-label="Sessions of Convoke" {
                @if list.has_others { h2.origin { "Convoke" } }
                @if found.is_none() {
                    @if list.total == 0 { p { "No sessions yet. " code { "convoke run" } " starts one." } }
                    @else { p.faint { (count(list.total as u64, "session")) } }
                }
                (directories(list))
            }
            @if list.has_others {
                section aria-label="Sessions of other programs" { h2.origin { "Other programs" } section data-load="/api/programs" aria-label="The list" {} }
            }
        }
    }
}

/// Renders the sessions of a page of the list, and a button for more.
pub fn directories(list: &List<'_>) -> Markup {
    html! {
        @for Directory { shown, sessions } in &list.directories {
            section.directory {
                h2.path { (shown) }
                ul.sessions { @for session in sessions { (row(session)) } }
            }
        }
        @if let Some(next) = list.next {
            button type="button" data-more=(format!("/api/sessions?q={}&from={next}", encoded(list.words))) { "More sessions" }
        }
    }
}

fn row(session: &ListedSession) -> Markup {
    let ListedSession { summary, members, cost_usd, is_held } = session;
    let name = summary.name.as_deref().unwrap_or("a conversation");
    let beginning = summary.beginning.as_deref().unwrap_or_default();
    html! {
        li {
            p.name {
                a href=(format!("/sessions/{}", summary.id)) { (line(name)) } " " span.faint { (short(summary.id)) }
                @if *is_held { " " span.badge.live { "running" } }
                @if summary.rehearsal.is_some() { " " span.badge { "rehearsal" } }
                span.when { (moment(summary.updated_at)) }
            }
            @if !beginning.is_empty() { p.beginning { (line(beginning)) } }
            p.faint {
                (line(&members.join(", "))) " · " (count(summary.turns, "turn"))
                @if summary.waiting > 0 { ", " (summary.waiting) " waiting" }
                @if let Some(cost) = cost_usd { " · " (dollars(*cost)) }
            }
        }
    }
}
