//! The inspector: what was sent in a turn, to the byte, and what came back.

use convoke_agent::milliseconds;
use convoke_agent::thread::RequestRecord;
use convoke_core::ledger::{Entry, Ledger, State, Target};
use convoke_session::{Attempt, SentTurn, SessionId, Turn, TurnId};
use maud::{Markup, html};
use serde_json::Value;

use super::chart::{self, source};
use super::text::{beginning, exact, line};
use super::{dollars, download, moment, number, percent, seconds, short};
use crate::host::{CacheRow, TurnChanges};
use crate::query::{Grouping, TurnQuery};
use crate::stored::{elapsed, excerpt};

/// The most bytes of one part that are shown at once.
const PART_SHOWN: usize = 16 << 10;
/// The most entries of a ledger that are listed; the JSON form has all.
const MOST_ENTRIES: usize = 1_000;
/// The most events that are listed.
const MOST_EVENTS: usize = 2_000;

/// What the inspector shows beside the turn itself.
pub struct Around {
    /// The requests of the attempt.
    pub requests: Vec<RequestRecord<()>>,
    /// Other turns of the member in which something was sent, the latest first.
    pub others: Vec<TurnId>,
}

/// Renders the list of turns.
pub fn turns(id: SessionId, turns: &[Turn], next: Option<TurnId>) -> Markup {
    html! {
        (crumbs(id, None))
        h1 { "Turns" }
        div.scroll { table {
            thead { tr { th scope="col" { "Turn" } th scope="col" { "Member" } th scope="col" { "Answers" } th scope="col" { "State" } th scope="col" { "Attempts" } th scope="col" { "Queued" } } }
            tbody { @for turn in turns { tr {
                td { @if turn.attempts > 0 { a href=(format!("/sessions/{id}/turns/{}", turn.id)) { (turn.id) } } @else { (turn.id) } }
                td { (line(turn.member.as_str())) }
                td { a href=(format!("/sessions/{id}#message-{}", turn.answers)) { "message " (turn.answers) } }
                td { (turn.state.as_str()) }
                td.figure { (turn.attempts) }
                td { (moment(turn.queued_at)) }
            } } }
        } }
        @if let Some(next) = next { p { a href=(format!("/sessions/{id}/turns?after={next}")) { "Later turns" } } }
    }
}

fn crumbs(id: SessionId, turn: Option<TurnId>) -> Markup {
    html! {
        nav.crumbs aria-label="Place" {
            a href="/" { "Sessions" } " / " a href=(format!("/sessions/{id}")) { (short(id)) }
            @if let Some(turn) = turn { " / " a href=(format!("/sessions/{id}/turns")) { "turns" } " / " a href=(format!("/sessions/{id}/turns/{turn}")) { (turn) } }
        }
    }
}

/// Renders a turn as a view of the page.
pub(crate) fn turn(id: SessionId, sent: &SentTurn, around: &Around, query: &TurnQuery) -> Markup {
    let (turn, attempt) = (&sent.turn, &sent.attempt);
    let base = format!("/sessions/{id}/turns/{}", turn.id);
    let api = format!("/api{base}");
    let attempt_query = format!("attempt={}", attempt.number);
    html! {
        (crumbs(id, Some(turn.id)))
        h1 { "Turn " (turn.id) ": " (line(turn.member.as_str())) }
        (facts(id, sent))
        @if sent.attempts.len() > 1 {
            nav aria-label="Attempts" { "Attempts: " @for Attempt { number, .. } in &sent.attempts {
                a href=(format!("{base}?attempt={number}")) aria-current=[(*number == attempt.number).then_some("page")] { (number) } " "
            } }
        }
        (diagnostics(&attempt.diagnostics))
        h2 #picture { "What fills the prompt" }
        nav aria-label="Grouping" { "By " @for by in Grouping::ALL {
            a href=(format!("{base}?{attempt_query}&by={}#picture", by.as_str())) aria-current=[(by == query.by).then_some("true")] { (by.as_str()) } " "
        } }
        (ledger_view(&sent.ledger, query.by))
        h2 #text { "The exact text" }
        p.faint {
            "Click a part of the picture or a row of the table to find it. "
            @if query.whitespace == 0 { a href=(format!("{base}?{attempt_query}&whitespace=1#text")) { "Show white space" } }
            @else { a href=(format!("{base}?{attempt_query}#text")) { "Hide white space" } }
        }
        @let texts = [("System text", "system", Target::System, sent.system.as_deref()), ("Prompt", "prompt", Target::Prompt, Some(&*sent.prompt))];
        @for (title, name, target, text) in texts { @if let Some(text) = text {
            h3 { (title) ", " (number(text.len() as u64)) " bytes" }
            p { (download("Download", &format!("{api}/{name}?{attempt_query}"), &format!("turn-{}-{name}.txt", turn.id))) }
            (sourced(&sent.ledger, target, text, query.whitespace != 0, &format!("{api}/bytes?{attempt_query}&target={name}")))
        } }
        @if !around.others.is_empty() {
            h2 { "Compare with another turn" }
            p { @for other in &around.others { a href=(format!("{base}/diff/{other}")) { "turn " (other) } " " } }
        }
        @if !around.requests.is_empty() {
            h2 { "What the model received" }
            (request_list(id, turn.id, &around.requests, attempt))
        }
        h2 { "What happened" }
        details data-load=(format!("{api}/steps?{attempt_query}")) { summary { "Events" } }
        details data-load=(format!("{api}/changes")) { summary { "Changed files" } }
    }
}

/// Renders the figures of an attempt.
fn facts(id: SessionId, sent: &SentTurn) -> Markup {
    let (turn, attempt) = (&sent.turn, &sent.attempt);
    let ended = attempt.ended.as_ref();
    html! {
        dl.facts {
            dt { "State" } dd { (turn.state.as_str()) @if let Some(problem) = &turn.problem { ": " (line(problem)) } }
            dt { "Answers" } dd { a href=(format!("/sessions/{id}#message-{}", turn.answers)) { "message " (turn.answers) } }
            @if let Some(reply) = turn.reply { dt { "Reply" } dd { a href=(format!("/sessions/{id}#message-{reply}")) { "message " (reply) } } }
            dt { "Prompt" } dd { (number(attempt.prompt.bytes)) " bytes, SHA-256 " code.hash { (attempt.prompt.hash) } }
            @if let Some(system) = attempt.system { dt { "System text" } dd { (number(system.bytes)) " bytes, SHA-256 " code.hash { (system.hash) } } }
            @if let Some(most) = sent.ledger.max_bytes { dt { "Budget" } dd { (number(sent.ledger.used_bytes())) " of " (number(most)) " bytes (" (percent(sent.ledger.used_bytes(), most)) ")" } }
            dt { "Engine" } dd { (attempt.engine) }
            @if let Some(ended) = ended {
                dt { "Ended" } dd { (line(&ended.verdict.to_string())) " after " (seconds(elapsed(attempt.began_at, ended.at))) }
                @if let Some(model) = &ended.model { dt { "Model" } dd { (line(model)) } }
                @if let Some(usage) = &ended.usage { dt { "Counted" } dd { (number(usage.input)) " tokens in" @if usage.cached > 0 { " (" (number(usage.cached)) " from its cache)" } ", " (number(usage.output)) " out" } }
                @if let Some(cost) = ended.cost_usd { dt { "Cost" } dd { (dollars(cost)) } }
            }
        }
    }
}

fn diagnostics(list: &Value) -> Markup {
    let list = list.as_array().map(Vec::as_slice).unwrap_or_default();
    html! {
        @if !list.is_empty() {
            h2 { "Diagnostics" }
            ul { @for it in list { li { code { (it["code"].as_str().unwrap_or_default()) } " " (line(it["message"].as_str().unwrap_or_default())) } } }
        }
    }
}

/// Renders a ledger: pictures, what was left out, and the table, with links to the parts of the text.
pub fn ledger_view(ledger: &Ledger<'_>, by: Grouping) -> Markup {
    ledger_table(ledger, by, Some("part"))
}

/// Renders a ledger; `parts` is the beginning of the ids of its parts, if the text is shown by parts.
pub fn ledger_table(ledger: &Ledger<'_>, by: Grouping, parts_id: Option<&str>) -> Markup {
    let link = |index: usize| parts_id.map(|id| format!("#{id}-{index}"));
    let parts = chart::parts(ledger, by);
    let used = ledger.used_bytes();
    let entries: Vec<Entry<'_>> = ledger.entries().take(MOST_ENTRIES + 1).collect();
    let left_out: Vec<(usize, &Entry<'_>)> =
        entries.iter().enumerate().filter(|(_, entry)| entry.cut_bytes > 0).collect();
    html! {
        (chart::pictures(&parts, "The ledger"))
        @if !left_out.is_empty() {
            h3 { "Left out" }
            ul.left-out { @for (index, entry) in &left_out { li {
                a href=[link(*index)] { (entry.section) ": " (line(&source(&entry.source))) } ": "
                (number(entry.cut_bytes)) " bytes " (state(entry.state())) " — " (line(&entry.rule.to_string()))
            } } }
        }
        details open { summary { "Table" } div.scroll { table.ledger {
            thead { tr { th scope="col" { "Section" } th scope="col" { "Source" } th scope="col" { "Bytes" } th scope="col" { "Share" } th scope="col" { "Left out" } th scope="col" { "Rule" } } }
            tbody { @for (index, entry) in entries.iter().take(MOST_ENTRIES).enumerate() {
                tr data-row=(index) {
                    td { a href=[link(index)] { (entry.section) } }
                    td { (line(&source(&entry.source))) }
                    td.figure data-bytes=(entry.kept_bytes()) { (number(entry.kept_bytes())) }
                    td.figure { (percent(entry.kept_bytes(), used)) }
                    td.figure { @if entry.cut_bytes > 0 { (number(entry.cut_bytes)) } }
                    td { (line(&entry.rule.to_string())) }
                }
            } }
            tfoot { tr { th scope="row" colspan="2" { "Sent" } td.figure.used-bytes { (number(used)) } td colspan="3" {} } }
        } } }
        @if entries.len() > MOST_ENTRIES { p.faint { "The first " (number(MOST_ENTRIES as u64)) " entries; the JSON form has all." } }
    }
}

fn state(state: State) -> &'static str {
    match state {
        State::Kept => "kept",
        State::Cut => "cut",
        State::Dropped => "dropped",
    }
}

/// Renders a text by its ledger: each entry where it stands, what was left out in its place.
pub fn sourced(
    ledger: &Ledger<'_>,
    target: Target,
    text: &str,
    shows_white_space: bool,
    bytes_path: &str,
) -> Markup {
    let white = if shows_white_space { "&whitespace=1" } else { "" };
    let mut end = 0;
    let entries: Vec<(usize, Entry<'_>)> = ledger
        .entries()
        .take(MOST_ENTRIES)
        .enumerate()
        .filter(|(_, entry)| entry.target == target)
        .collect();
    html! {
        pre.sourced tabindex="0" {
            @for (index, entry) in entries {
                @let (from, to) = (usize::try_from(entry.range.start).unwrap_or(0), usize::try_from(entry.range.end).unwrap_or(0));
                @let part = super::text::slice(text, from, to);
                @let (shown, rest) = beginning(part, PART_SHOWN);
                @let _ = std::mem::replace(&mut end, to);
                span.part #(format!("part-{index}")) tabindex="-1" title=(format!("{}: {}", entry.section, source(&entry.source))) {
                    (exact(shown, shows_white_space))
                    @if rest > 0 { button.more type="button" data-more=(format!("{bytes_path}&from={}&to={to}{white}", from + shown.len())) { "Show " (number(rest as u64)) " more bytes" } }
                }
                @if entry.cut_bytes > 0 {
                    span.left-out { "[" (number(entry.cut_bytes)) " bytes " (state(entry.state())) " of " (entry.section) ", " (line(&source(&entry.source))) ": " (line(&entry.rule.to_string())) "]" }
                }
            }
            @if end < text.len() {
                button.more type="button" data-more=(format!("{bytes_path}&from={end}&to={}{white}", text.len())) { "Show " (number((text.len() - end) as u64)) " more bytes" }
            }
        }
    }
}

fn request_list(
    id: SessionId,
    turn: TurnId,
    requests: &[RequestRecord<()>],
    attempt: &Attempt,
) -> Markup {
    html! {
        (time_line(requests, attempt))
        ul { @for record in requests { li {
            a href=(format!("/sessions/{id}/turns/{turn}/requests/{}", record.number)) { (record.title()) }
            @if let Some(usage) = record.outcome.usage { " — " (number(usage.input)) " tokens in, " (number(usage.cached)) " from the cache, " (number(usage.output)) " out" }
        } } }
    }
}

/// Renders the requests of an attempt over its time.
#[expect(
    clippy::cast_precision_loss,
    reason = "a picture has fewer pixels than a float has digits"
)]
fn time_line(requests: &[RequestRecord<()>], attempt: &Attempt) -> Markup {
    let end = attempt.ended.as_ref().map(|ended| ended.at);
    let end = end
        .into_iter()
        .chain(requests.iter().map(|it| it.meta.at))
        .max()
        .unwrap_or(attempt.began_at);
    let whole = elapsed(attempt.began_at, end).max(1);
    let at = |millis: u64| format!("{:.2}", millis.min(whole) as f64 / whole as f64 * 1000.0);
    html! {
        svg.time-line viewBox=(format!("0 0 1000 {}", requests.len() * 14 + 4)) preserveAspectRatio="none" role="img" aria-label="The requests over the time of the turn" {
            @for (row, record) in requests.iter().enumerate() {
                @let from = elapsed(attempt.began_at, record.meta.at);
                rect.part.c0 x=(at(from)) y=(row * 14 + 2) width=(at(record.outcome.elapsed.map_or(0, milliseconds::whole).max(whole / 200))) height="10" {
                    title { (record.title()) ", " (seconds(from)) " after the start" @if let Some(took) = record.outcome.elapsed.map(milliseconds::whole) { ", took " (seconds(took)) } }
                }
            }
        }
    }
}

/// Renders a request that a model received.
pub(crate) fn request(
    id: SessionId,
    turn: TurnId,
    record: &RequestRecord<()>,
    body: &str,
    ledger: &Ledger<'_>,
    query: &TurnQuery,
) -> Markup {
    let base = format!("/sessions/{id}/turns/{turn}/requests/{}", record.number);
    let outcome = &record.outcome;
    html! {
        (crumbs(id, Some(turn)))
        h1 { "Turn " (turn) ", " (record.title()) }
        dl.facts {
            dt { "Sent" } dd { (moment(record.meta.at)) " to " code { (record.meta.path) } }
            dt { "Unchanged" } dd { (number(record.meta.unchanged_bytes)) " bytes at the beginning are those of the request before: " (percent(record.meta.unchanged_bytes, record.meta.bytes)) ", which a cache can reuse" }
            @if let Some(hash) = &record.meta.sent_sha256 { dt { "Sent bytes" } dd { "SHA-256 " code.hash { (hash) } } }
            @if !record.meta.masked.is_empty() { dt { "Masked" } dd { (line(&record.meta.masked.join(", "))) } }
            @if let Some(model) = &outcome.model { dt { "Model" } dd { (line(model)) } }
            @if let Some(usage) = &outcome.usage { dt { "Counted" } dd { (number(usage.input)) " tokens in, " (number(usage.cached)) " from the cache, " (number(usage.output)) " out" } }
            @if let Some(status) = outcome.status { dt { "Status" } dd { (status) } }
            @if let Some(took) = outcome.elapsed.map(milliseconds::whole) { dt { "Took" } dd { (seconds(took)) } }
            @for failed in &outcome.failed { dt { "Failed" } dd { (line(failed)) } }
        }
        (super::diff::prefix_bar(record.meta.unchanged_bytes, record.meta.bytes))
        nav aria-label="Grouping" { "By " @for by in Grouping::ALL {
            a href=(format!("{base}?by={}", by.as_str())) aria-current=[(by == query.by).then_some("true")] { (by.as_str()) } " "
        } }
        (ledger_view(ledger, query.by))
        h2 #text { "The exact body, " (number(body.len() as u64)) " bytes" }
        p { (download("Download", &format!("/api{base}/body"), &format!("turn-{turn}-request-{}.json", record.number))) }
        (sourced(ledger, Target::Prompt, body, query.whitespace != 0, &format!("/api{base}/bytes?target=prompt")))
    }
}

/// Renders the stored events of an attempt, in order.
pub fn steps(events: &str, partial: &str) -> Markup {
    html! {
        ol.events { @for line in events.lines().take(MOST_EVENTS) { (event(line)) } }
        @if events.lines().nth(MOST_EVENTS).is_some() { p.faint { "The first " (number(MOST_EVENTS as u64)) " events; the JSON form has all." } }
        @if events.is_empty() { p.faint { "No events are stored." } }
        @if !partial.is_empty() { h3 { "The unfinished reply" } pre.text { (exact(beginning(partial, PART_SHOWN).0, false)) } }
    }
}

/// Renders a stored event, folded if it has a text.
fn event(line_: &str) -> Markup {
    let event: Value = serde_json::from_str(line_).unwrap_or_default();
    let kind = &event["event"];
    let name = kind["kind"].as_str().unwrap_or("event");
    let texts: Vec<(&String, String)> = kind
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(key, value)| *key != "kind" && !value.is_null())
        .map(|(key, value)| (key, value.as_str().map_or_else(|| value.to_string(), str::to_owned)))
        .collect();
    let first = texts.iter().find(|(key, _)| {
        matches!(key.as_str(), "name" | "text" | "reason" | "verdict" | "message")
    });
    html! {
        li { details.step {
            summary { (name) @if !event["subAgent"].is_null() { " (sub-agent)" } " " span.faint { (line(beginning(first.map_or("", |(_, text)| text), 100).0)) } }
            dl { @for (key, text) in &texts { dt { (line(key)) } dd { pre.text { (exact(excerpt(text), false)) } } } }
        } }
    }
}

/// Renders what turns changed.
pub fn changes(id: SessionId, changes: &[TurnChanges], heading: bool) -> Markup {
    html! {
        @if heading { (crumbs(id, None)) h1 { "Changed files" } }
        @if changes.iter().all(|it| it.files.is_empty()) { p { "No changes are recorded." } }
        @for change in changes.iter().filter(|it| !it.files.is_empty()) {
            section {
                h3 {
                    @if change.undo { "Undo of turn " (change.turn) }
                    @else if let Some(member) = &change.member { a href=(format!("/sessions/{id}/turns/{}", change.turn)) { "Turn " (change.turn) } ", " (line(member.as_str())) @if change.interrupted { ", interrupted" } }
                    @else { "You, before turn " (change.turn) }
                }
                p.path.faint { (line(&change.directory.display().to_string())) }
                @if change.by == "agent" && !change.undo {
                    p { button type="button" data-post=(format!("/api/sessions/{id}/undo")) data-body=(serde_json::json!({"turn": change.turn})) data-confirm="undo" { "Undo" } }
                }
                @for file in &change.files {
                    details.step {
                        summary { (line(&file.path)) " " span.faint { (file.status) @if let (Some(added), Some(removed)) = (file.added, file.removed) { ", +" (added) " −" (removed) } } }
                        pre.text.diff { (exact(beginning(&file.diff, PART_SHOWN).0, false)) }
                    }
                }
            }
        }
    }
}

/// Renders what each request shares with the one before it.
pub fn cache(id: SessionId, rows: &[CacheRow]) -> Markup {
    html! {
        (crumbs(id, None))
        h1 { "What caches could serve" }
        @if rows.is_empty() { p { "No request of this session is stored; " code { "--record wire" } " stores those of programs." } }
        ol.cache { @for row in rows { li {
            @match row.turn {
                Some(turn) => a href=(format!("/sessions/{id}/turns/{turn}/requests/{}", row.number)) { (line(&row.line)) },
                None => (line(&row.line)),
            }
            @let figure = |name: &str| row.json[name].as_u64().unwrap_or(0);
            (super::diff::prefix_bar(figure("unchangedBytes"), figure("bytes")))
            ul.faint { @for remark in &row.remarks { li { (line(remark)) } } }
        } } }
    }
}
