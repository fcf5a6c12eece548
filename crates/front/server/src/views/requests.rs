//! Requests to models: those of a turn, one request, and the use of caches.

use convoke_core::ledger::Target;
use convoke_protocol::id::{SessionId, TurnId};
use convoke_protocol::milliseconds;
use convoke_protocol::request::RequestRecord;
use maud::{Markup, html};

use super::figures::{CacheUse, cache_bars, strip, usage_facts};
use super::given::{self, Given};
use super::inspector::crumbs;
use super::text::line;
use super::{compare, download, ledger, moment, number, percent, seconds};
use crate::host::CacheRow;
use crate::query::{Reading, TurnQuery};
use crate::sent::{SentName, StoredRequest};

/// Renders the requests of a turn as a view of the page.
pub fn of_turn(id: SessionId, turn: TurnId, requests: &[RequestRecord<()>]) -> Markup {
    html! {
        (crumbs(id, Some(turn)))
        h1 { "Requests of turn " (turn) }
        @if requests.is_empty() { (none_stored("this turn")) }
        (list(id, turn, requests))
    }
}

fn none_stored(of: &str) -> Markup {
    html! { div.empty { p { "No request of " (of) " is stored." } p.faint { code { "--record wire" } " records those of programs." } } }
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
pub(crate) fn request(stored: &StoredRequest, given: &Given<'_>, query: &TurnQuery) -> Markup {
    let StoredRequest { session: id, turn, record, texts, ledger, before } = stored;
    let base = format!("/sessions/{id}/turns/{turn}/requests/{}", record.number);
    let file = format!("turn-{turn}-request-{}.json", record.number);
    let tools = html! {
        (readings(&base, query))
        button.quiet type="button" data-copy=(format!("/api{base}/body")) { "Copy all" }
        (download("Download", &format!("/api{base}/body"), &file))
    };
    let exact = (query.reading == Reading::Exact).then(|| {
        ledger::sourced(
            ledger,
            &given.parts,
            Target::Prompt,
            &texts.body,
            query.whitespace != 0,
            &format!("/api{base}/bytes?target=prompt"),
        )
    });
    let this = SentName::Request { session: *id, turn: turn.0, number: record.number };
    html! {
        (crumbs(*id, Some(*turn)))
        div.heading {
            h1 { "Request " (record.number) span.faint { " · turn " (turn) " · " (record.meta.purpose.as_str()) } }
            (compare::link(before.as_ref(), &this))
        }
        (facts(record))
        (cache_of(record, before.is_some()))
        (given::view(given, &tools, exact.as_ref()))
        (details(record))
    }
}

/// Renders the choice between a text by parts and the exact bytes.
pub(crate) fn readings(base: &str, query: &TurnQuery) -> Markup {
    let address = |reading: Reading, whitespace: u8| {
        format!("{base}{}", TurnQuery { reading, whitespace, ..query.clone() }.written())
    };
    html! {
        nav.choice aria-label="Reading" {
            @for (reading, label) in [(Reading::Parts, "Readable"), (Reading::Exact, "Exact")] {
                a href=(address(reading, query.whitespace)) aria-current=[(reading == query.reading).then_some("true")] { (label) }
            }
        }
        @if query.reading == Reading::Exact {
            a.quiet href=(address(Reading::Exact, u8::from(query.whitespace == 0))) { @if query.whitespace == 0 { "Show white space" } @else { "Hide white space" } }
        } @else { button.quiet type="button" data-wrap aria-pressed="false" title="Breaks long lines, or numbers lines that are not broken" { "Line numbers" } }
    }
}

fn facts(record: &RequestRecord<()>) -> Markup {
    let outcome = &record.outcome;
    let mut facts = Vec::new();
    if let Some(model) = &outcome.model {
        facts.push(("Model", html! { (line(model)) }));
    }
    facts.push(("Sent", html! { (moment(record.meta.at)) }));
    facts.push(("Size", html! { span.figure { (number(record.sent_bytes())) } " bytes" }));
    facts.extend(usage_facts(outcome.usage.as_ref()));
    if let Some(took) = outcome.elapsed.map(milliseconds::whole) {
        facts.push(("Took", html! { (seconds(took)) }));
    }
    if let Some(status) = outcome.status.filter(|status| *status >= 400) {
        facts.push(("Status", html! { span.badge.failed { (status) } }));
    }
    html! {
        (strip(&facts))
        @for failed in &outcome.failed { p.problem { "An attempt at sending it failed: " (line(failed)) } }
    }
}

fn cache_of(record: &RequestRecord<()>, has_before: bool) -> Markup {
    let Some(usage) = record.outcome.usage.filter(|usage| has_before && usage.input > 0) else {
        return html! {};
    };
    let unchanged = record.meta.unchanged_bytes;
    let reusable = scaled(usage.input, unchanged, record.meta.bytes);
    html! {
        section.cache-use aria-label="Cache" {
            (cache_bars(&CacheUse { reusable, reused: usage.cached, input: usage.input }))
            p.faint { (number(unchanged)) " of " (number(record.meta.bytes)) " bytes begin as in the request before: " (percent(unchanged, record.meta.bytes)) "." }
        }
    }
}

/// Returns a share of a number.
fn scaled(number: u64, part: u64, whole: u64) -> u64 {
    let share = u128::from(number) * u128::from(part) / u128::from(whole.max(1));
    u64::try_from(share).unwrap_or(u64::MAX)
}

fn details(record: &RequestRecord<()>) -> Markup {
    html! {
        details.plumbing {
            summary { "Details" }
            dl.facts {
                dt { "Path" } dd { code { (record.meta.path) } }
                @if let Some(hash) = &record.meta.sent_sha256 { dt { "Sent bytes" } dd { "SHA-256 " code.hash { (hash) } } }
                @if !record.meta.masked.is_empty() { dt { "Masked" } dd { (line(&record.meta.masked.join(", "))) } }
                @if let Some(status) = record.outcome.status { dt { "Status" } dd { (status) } }
                @for (name, value) in &record.meta.headers { dt { code { (line(name)) } } dd { (line(value)) } }
            }
        }
    }
}

/// Renders each request, compared with the one before it.
pub fn cache(id: SessionId, rows: &[CacheRow]) -> Markup {
    html! {
        (crumbs(id, None))
        h1 { "Cache" }
        p.faint { "What a cache could have served of each request, because it begins as the one before it, and what the provider's cache did serve." }
        @if rows.is_empty() { (none_stored("this session")) }
        ol.cache { @for row in rows { (cache_row(id, row)) } }
    }
}

fn cache_row(id: SessionId, row: &CacheRow) -> Markup {
    let figure = |name: &str| row.json[name].as_u64();
    let input = figure("countedTokens").unwrap_or(0);
    let text = |name: &str| row.json[name].as_str().unwrap_or_default().to_owned();
    let this = row.turn.map(|turn| SentName::Request { session: id, turn, number: row.number });
    let before = row.before.map(|(turn, number)| SentName::Request { session: id, turn, number });
    html! {
        li {
            div.heading {
                h2 {
                    @match &this {
                        Some(this) => a href=(this.path()) { "Request " (row.number) },
                        None => { "Request " (row.number) },
                    }
                    span.faint { " · " (line(&text("member"))) @if let Some(turn) = row.turn { " · turn " (turn) } " · " (number(figure("bytes").unwrap_or(0))) " bytes" }
                }
                @if let (Some(before), Some(this)) = (&before, &this) { (compare::link(Some(before), this)) }
            }
            @if input > 0 { (cache_bars(&CacheUse { reusable: figure("unchangedTokens").unwrap_or(0), reused: figure("cachedTokens").unwrap_or(0), input })) }
            @else { p.faint { (number(figure("unchangedBytes").unwrap_or(0))) " bytes could be reused; the provider counted nothing" } }
            ul.causes {
                @for remark in &row.remarks { li { (line(remark)) } }
                @if let Some(lost) = row.lost_usd { li { "What was read again cost " strong { (super::dollars(lost)) } " more at API prices." } }
            }
        }
    }
}
