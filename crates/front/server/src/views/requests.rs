//! Requests to models: those of a turn, one request, and the use of caches.

use convoke_core::ledger::{Ledger, Target};
use convoke_protocol::id::{SessionId, TurnId};
use convoke_protocol::milliseconds;
use convoke_protocol::request::RequestRecord;
use maud::{Markup, html};

use super::diff::prefix_bar;
use super::inspector::{crumbs, grouping, white_space};
use super::text::line;
use super::{download, ledger, moment, number, percent, seconds};
use crate::host::CacheRow;
use crate::query::TurnQuery;

/// Renders the requests of a turn as a view of the page.
pub fn of_turn(id: SessionId, turn: TurnId, requests: &[RequestRecord<()>]) -> Markup {
    html! {
        (crumbs(id, Some(turn)))
        h1 { "Requests of turn " (turn) }
        @if requests.is_empty() { p { "No request of this turn is stored; " code { "--record wire" } " records those of programs." } }
        (list(id, turn, requests))
    }
}

/// Renders a list of requests.
pub fn list(id: SessionId, turn: TurnId, requests: &[RequestRecord<()>]) -> Markup {
    html! {
        ul.requests { @for record in requests { li {
            a href=(format!("/sessions/{id}/turns/{turn}/requests/{}", record.number)) { (record.title()) }
            @if let Some(usage) = record.outcome.usage { span.faint { " " (number(usage.input)) " tokens in, " (number(usage.cached)) " from the cache, " (number(usage.output)) " out" } }
        } } }
    }
}

/// Renders a request that a model received.
pub(crate) fn request(
    id: SessionId,
    turn: TurnId,
    record: &RequestRecord<()>,
    body: &str,
    of_body: &Ledger<'_>,
    query: &TurnQuery,
) -> Markup {
    let base = format!("/sessions/{id}/turns/{turn}/requests/{}", record.number);
    html! {
        (crumbs(id, Some(turn)))
        h1 { "Turn " (turn) ", " (record.title()) }
        (facts(record))
        h2 { "Reusable by a cache" }
        p { (number(record.meta.unchanged_bytes)) " bytes at the beginning are those of the request before: " (percent(record.meta.unchanged_bytes, record.meta.bytes)) "." }
        (prefix_bar(record.meta.unchanged_bytes, record.meta.bytes))
        h2 #picture { "Contents of the request" }
        (grouping(&base, query))
        (ledger::view(of_body, query.by))
        h2 #text { "The exact body, " (number(body.len() as u64)) " bytes" }
        p.actions {
            (white_space(&base, query))
            (download("Download", &format!("/api{base}/body"), &format!("turn-{turn}-request-{}.json", record.number)))
        }
        (ledger::sourced(of_body, Target::Prompt, body, query.whitespace != 0, &format!("/api{base}/bytes?target=prompt")))
    }
}

fn facts(record: &RequestRecord<()>) -> Markup {
    let outcome = &record.outcome;
    html! {
        dl.facts {
            dt { "Sent" } dd { (moment(record.meta.at)) " to " code { (record.meta.path) } }
            @if let Some(hash) = &record.meta.sent_sha256 { dt { "Sent bytes" } dd { "SHA-256 " code.hash { (hash) } } }
            @if !record.meta.masked.is_empty() { dt { "Masked" } dd { (line(&record.meta.masked.join(", "))) } }
            @if let Some(model) = &outcome.model { dt { "Model" } dd { (line(model)) } }
            @if let Some(usage) = &outcome.usage { dt { "Counted" } dd { (number(usage.input)) " tokens in, " (number(usage.cached)) " from the cache, " (number(usage.output)) " out" } }
            @if let Some(status) = outcome.status { dt { "Status" } dd { (status) } }
            @if let Some(took) = outcome.elapsed.map(milliseconds::whole) { dt { "Took" } dd { (seconds(took)) } }
            @for failed in &outcome.failed { dt { "Failed" } dd { (line(failed)) } }
        }
    }
}

/// Renders each request, compared with the one before it.
pub fn cache(id: SessionId, rows: &[CacheRow]) -> Markup {
    html! {
        (crumbs(id, None))
        h1 { "Cache use" }
        @if rows.is_empty() { p { "No request of this session is stored; " code { "--record wire" } " records those of programs." } }
        ol.cache { @for row in rows { li {
            @match row.turn {
                Some(turn) => a href=(format!("/sessions/{id}/turns/{turn}/requests/{}", row.number)) { (line(&row.line)) },
                None => (line(&row.line)),
            }
            @let figure = |name: &str| row.json[name].as_u64().unwrap_or(0);
            (prefix_bar(figure("unchangedBytes"), figure("bytes")))
            ul.faint { @for remark in &row.remarks { li { (line(remark)) } } }
        } } }
    }
}
