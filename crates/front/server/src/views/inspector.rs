//! The inspector: the exact texts that were sent in a turn, and the result.

use convoke_core::Diagnostic;
use convoke_core::ledger::Target;
use convoke_protocol::id::{SessionId, TurnId};
use convoke_protocol::request::RequestRecord;
use convoke_protocol::turn::{Attempt, Turn};
use convoke_session::SentTurn;
use maud::{Markup, html};

use super::text::line;
use super::{dollars, download, ledger, moment, number, percent, requests, seconds, short};
use crate::query::{Grouping, TurnQuery};
use crate::stored::elapsed;

/// The data of the inspector beside the turn itself.
pub struct InspectorData {
    /// The requests of the attempt.
    pub requests: Vec<RequestRecord<()>>,
    /// Other turns in which something was sent, the latest first.
    pub others: Vec<Turn>,
}

/// Renders the list of turns.
pub fn turns(id: SessionId, turns: &[Turn], next: Option<TurnId>) -> Markup {
    html! {
        (crumbs(id, None))
        h1 { "Turns" }
        div.scroll { table {
            thead { tr { th scope="col" { "Turn" } th scope="col" { "Member" } th scope="col" { "Answers" } th scope="col" { "State" } th.figure scope="col" { "Attempts" } th scope="col" { "Queued" } } }
            tbody { @for turn in turns { tr {
                td { @if turn.attempts > 0 { a href=(format!("/sessions/{id}/turns/{}", turn.id)) { "turn " (turn.id) } } @else { "turn " (turn.id) } }
                td { (line(turn.member.as_str())) }
                td { (message_link(id, turn.answers.0)) }
                td { (turn.state.as_str()) @if let Some(problem) = &turn.problem { ": " (line(problem)) } }
                td.figure { (turn.attempts) }
                td { (moment(turn.queued_at)) }
            } } }
        } }
        @if turns.is_empty() { p.faint { "No turns yet." } }
        @if let Some(next) = next { p { a href=(format!("/sessions/{id}/turns?after={next}")) { "Later turns" } } }
    }
}

/// Renders the links back from a view.
pub fn crumbs(id: SessionId, turn: Option<TurnId>) -> Markup {
    html! {
        nav.crumbs aria-label="Place" {
            a href="/" { "Sessions" } " / " a href=(format!("/sessions/{id}")) { (short(id)) }
            @if let Some(turn) = turn { " / " a href=(format!("/sessions/{id}/turns")) { "turns" } " / " a href=(format!("/sessions/{id}/turns/{turn}")) { (turn) } }
        }
    }
}

/// Renders a link to a message.
pub fn message_link(id: SessionId, number: u64) -> Markup {
    html! { a href=(format!("/sessions/{id}?message={number}#message-{number}")) { "message " (number) } }
}

/// Renders a turn as a view of the page.
pub(crate) fn turn(
    id: SessionId,
    sent: &SentTurn,
    around: &InspectorData,
    query: &TurnQuery,
) -> Markup {
    let (turn, attempt) = (&sent.turn, &sent.attempt);
    let base = format!("/sessions/{id}/turns/{}", turn.id);
    let api = format!("/api{base}");
    let attempt_query = format!("attempt={}", attempt.number);
    let query = &TurnQuery { attempt: Some(attempt.number), ..query.clone() };
    html! {
        (crumbs(id, Some(turn.id)))
        h1 { "Turn " (turn.id) ": " (line(turn.member.as_str())) }
        (attempts(&base, sent))
        (facts(id, sent))
        (diagnostics(attempt))
        h2 #picture { "Contents of the prompt" }
        (grouping(&base, query))
        (ledger::view(&sent.ledger, query.by))
        h2 #text { "The exact text" }
        p.actions { span.faint { "Click a part of the picture or a row of the table to show it here." } (white_space(&base, query)) }
        @let texts = [("System text", "system", Target::System, sent.system.as_deref()), ("Prompt", "prompt", Target::Prompt, Some(&*sent.prompt))];
        @for (title, name, target, text) in texts { @if let Some(text) = text {
            h3 { (title) ", " (number(text.len() as u64)) " bytes" }
            p.actions { (download("Download", &format!("{api}/{name}?{attempt_query}"), &format!("turn-{}-{name}.txt", turn.id))) }
            (ledger::sourced(&sent.ledger, target, text, query.whitespace != 0, &format!("{api}/bytes?{attempt_query}&target={name}")))
        } }
        (comparisons(&base, sent, &around.others))
        h2 #received { "Requests to the model" }
        @if around.requests.is_empty() { p.faint { "No request of this attempt is stored; " code { "--record wire" } " records those of programs." } }
        (requests::list(id, turn.id, &around.requests))
        h2 #events { "Events" }
        section data-load=(format!("{api}/steps?{attempt_query}")) aria-label="Events" {}
        h2 #changes { "Changed files" }
        section data-load=(format!("{api}/changes")) aria-label="Changed files" {}
    }
}

fn attempts(base: &str, sent: &SentTurn) -> Markup {
    html! {
        @if sent.attempts.len() > 1 {
            nav.choice aria-label="Attempts" { span { "Attempt" } @for Attempt { number, .. } in &sent.attempts {
                a href=(format!("{base}?attempt={number}")) aria-current=[(*number == sent.attempt.number).then_some("page")] { (number) }
            } }
        }
    }
}

/// Renders the choice of how the parts of a ledger are grouped.
pub(crate) fn grouping(base: &str, query: &TurnQuery) -> Markup {
    html! {
        nav.choice aria-label="Grouping" { span { "By" } @for by in Grouping::ALL {
            @let chosen = TurnQuery { by, ..query.clone() };
            a href=(format!("{base}{}#picture", chosen.written())) aria-current=[(by == query.by).then_some("true")] { (by.as_str()) }
        } }
    }
}

/// Renders the link that shows or hides white space.
pub(crate) fn white_space(base: &str, query: &TurnQuery) -> Markup {
    let other = TurnQuery { whitespace: u8::from(query.whitespace == 0), ..query.clone() };
    let label = if query.whitespace == 0 { "Show white space" } else { "Hide white space" };
    html! { a href=(format!("{base}{}#text", other.written())) { (label) } }
}

/// Renders the other attempts and turns that a turn can be compared with.
fn comparisons(base: &str, sent: &SentTurn, others: &[Turn]) -> Markup {
    let (same, rest): (Vec<&Turn>, Vec<&Turn>) =
        others.iter().partition(|turn| turn.member == sent.turn.member);
    let number = sent.attempt.number;
    let attempts: Vec<u32> =
        sent.attempts.iter().map(|it| it.number).filter(|it| *it != number).collect();
    html! {
        h2 #compare { "Compare with" }
        @if !attempts.is_empty() {
            p.links { span { "Attempts" } @for other in attempts { a href=(format!("{base}/diff/{}?attempt={number}&other={other}", sent.turn.id)) { "attempt " (other) } } }
        }
        @for (whose, turns) in [("Turns of the same member", same), ("Turns of others", rest)] { @if !turns.is_empty() {
            p.links { span { (whose) } @for turn in turns { a href=(format!("{base}/diff/{}?attempt={number}", turn.id)) { "turn " (turn.id) } } }
        } }
        form.search data-compare=(format!("{base}/diff/")) data-query=(format!("?attempt={number}")) {
            label for="other" { "Any turn" }
            input id="other" name="other" type="number" min="1" required;
            button type="submit" { "Compare" }
        }
    }
}

/// Renders the figures of an attempt.
fn facts(id: SessionId, sent: &SentTurn) -> Markup {
    let (turn, attempt) = (&sent.turn, &sent.attempt);
    let ended = attempt.ended.as_ref();
    html! {
        dl.facts {
            dt { "State" } dd { (turn.state.as_str()) @if let Some(problem) = &turn.problem { ": " (line(problem)) } }
            dt { "Answers" } dd { (message_link(id, turn.answers.0)) }
            @if let Some(reply) = turn.reply { dt { "Reply" } dd { (message_link(id, reply.0)) } }
            dt { "Prompt" } dd { (number(attempt.prompt.bytes)) " bytes, SHA-256 " code.hash { (attempt.prompt.hash) } }
            @if let Some(system) = attempt.system { dt { "System text" } dd { (number(system.bytes)) " bytes, SHA-256 " code.hash { (system.hash) } } }
            @if let Some(most) = sent.ledger.max_bytes { dt { "Budget" } dd { (number(sent.ledger.used_bytes())) " of " (number(most)) " bytes (" (percent(sent.ledger.used_bytes(), most)) ")" } }
            dt { "Began" } dd { (moment(attempt.began_at)) ", engine " (attempt.engine) }
            @if let Some(ended) = ended {
                dt { "Ended" } dd { (line(&ended.verdict.to_string())) " after " (seconds(elapsed(attempt.began_at, ended.at))) }
                @if let Some(model) = &ended.model { dt { "Model" } dd { (line(model)) } }
                @if let Some(usage) = &ended.usage { dt { "Counted" } dd { (number(usage.input)) " tokens in" @if usage.cached > 0 { " (" (number(usage.cached)) " from its cache)" } ", " (number(usage.output)) " out" } }
                @if let Some(cost) = ended.cost_usd { dt { "Cost" } dd { (dollars(cost)) } }
            }
        }
    }
}

/// Renders the diagnostics of the assembly, then those of the agent.
fn diagnostics(attempt: &Attempt) -> Markup {
    let of_agent = attempt.ended.as_ref().map(|ended| &ended.diagnostics);
    let lists = [Some(&attempt.diagnostics), of_agent].into_iter().flatten();
    let list: Vec<&Diagnostic> = lists.flatten().collect();
    html! {
        @if !list.is_empty() {
            h2 { "Diagnostics" }
            ul.notes { @for it in list { li { code { (it.code.name()) } " " (line(&it.message)) } } }
        }
    }
}
