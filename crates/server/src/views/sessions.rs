//! The list of sessions, by directory.

use convoke_session::FoundMessage;
use maud::{Markup, html};
use serde_json::json;

use super::text::line;
use super::{action, count, dollars, moment, short};
use crate::stored::ListedSession;

/// The sessions of a directory, under the name that people write.
pub struct Directory {
    /// The directory.
    pub shown: String,
    /// Its sessions, the one that changed last first.
    pub sessions: Vec<ListedSession>,
}

/// The messages that a search found.
pub struct Found<'a> {
    /// The messages that are shown.
    pub messages: &'a [FoundMessage],
    /// Whether there are more.
    pub has_more: bool,
}

/// Renders the list; `found` are messages with the words that were searched for.
pub fn list(
    directories: &[Directory],
    words: &str,
    found: Option<&Found<'_>>,
    no_new: Option<&str>,
) -> Markup {
    html! {
        h1 { "Sessions" }
        form.search role="search" data-search="/" {
            label for="q" { "Search messages" }
            input id="q" name="q" type="search" value=(words) autocomplete="off";
            button type="submit" { "Search" }
        }
        @match no_new {
            None => p { (action("New conversation", "/api/sessions", &json!({}))) },
            Some(why) => p.faint { "No new conversation can be started here: " (why) },
        }
        @if let Some(Found { messages, has_more }) = found {
            p role="status" {
                (count(messages.len() as u64, "message"))
                @if *has_more { " shown; more words narrow the search" } @else { " found" }
            }
            ol.hits {
                @for message in *messages {
                    li {
                        a href=(format!("/sessions/{}#message-{}", message.session, message.number)) { (short(message.session)) ", message " (message.number) }
                        " " (line(&message.excerpt))
                    }
                }
            }
        }
        @if directories.is_empty() && found.is_none() {
            p { "There are no sessions yet. " code { "convoke run" } " starts one." }
        }
        @for Directory { shown, sessions } in directories {
            section {
                h2.path { (shown) }
                ul.sessions {
                    @for session in sessions { (row(session)) }
                }
            }
        }
    }
}

fn row(session: &ListedSession) -> Markup {
    let ListedSession { summary, members, cost_usd, is_held } = session;
    let name = summary.name.as_deref().unwrap_or("a conversation");
    let beginning = summary.beginning.as_deref().unwrap_or_default();
    html! {
        li {
            a href=(format!("/sessions/{}", summary.id)) { (line(name)) " " span.faint { (short(summary.id)) } }
            @if *is_held { " " span.badge { "running" } }
            @if summary.rehearsal.is_some() { " " span.badge { "rehearsal" } }
            p.beginning { (line(beginning)) }
            p.faint {
                (line(&members.join(", "))) " · " (count(summary.turns, "turn"))
                @if summary.waiting > 0 { ", " (summary.waiting) " waiting" }
                @if let Some(cost) = cost_usd { " · " (dollars(*cost)) }
                " · " (moment(summary.updated_at))
            }
        }
    }
}
