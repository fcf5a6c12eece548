//! The inspector: the exact texts that were sent in a turn, and the result.

use convoke_core::Diagnostic;
use convoke_core::ledger::Target;
use convoke_protocol::id::{SessionId, TurnId};
use convoke_protocol::request::RequestRecord;
use convoke_protocol::turn::{Attempt, Turn};
use convoke_session::SentTurn;
use maud::{Markup, html};

use super::figures::{strip, usage_facts};
use super::given::{self, Given};
use super::text::line;
use super::{
    compare, dollars, download, ledger, moment, number, percent, requests, seconds, short,
};
use crate::query::{Reading, TurnQuery};
use crate::sent::SentName;
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
    given: &Given<'_>,
    around: &InspectorData,
    query: &TurnQuery,
) -> Markup {
    let (turn, attempt) = (&sent.turn, &sent.attempt);
    let base = format!("/sessions/{id}/turns/{}", turn.id);
    let api = format!("/api{base}");
    let attempt_query = format!("attempt={}", attempt.number);
    let query = &TurnQuery { attempt: Some(attempt.number), ..query.clone() };
    let exact = (query.reading == Reading::Exact).then(|| exact_texts(sent, given, query, &api));
    html! {
        (crumbs(id, Some(turn.id)))
        div.heading {
            h1 { "Turn " (turn.id) ": " (line(turn.member.as_str())) }
            (compare::link(previous(id, turn, &around.others).as_ref(), &SentName::Turn { session: id, turn: turn.id.0, attempt: Some(attempt.number) }))
        }
        (attempts(&base, sent))
        (facts(id, sent))
        (diagnostics(attempt))
        (given::view(given, &tools(sent, &base, query), exact.as_ref()))
        (details(sent))
        section.below {
            h2 #received { "Requests to the model" }
            @if around.requests.is_empty() { p.faint { "No request of this attempt is stored; " code { "--record wire" } " records those of programs." } }
            (requests::list(id, turn.id, &around.requests))
            h2 #events { "Events" }
            section data-load=(format!("{api}/steps?{attempt_query}")) aria-label="Events" {}
            h2 #changes { "Changed files" }
            section data-load=(format!("{api}/changes")) aria-label="Changed files" {}
            (comparisons(&base, sent, &around.others))
        }
    }
}

/// Returns the turn before one of the same member.
fn previous(id: SessionId, turn: &Turn, others: &[Turn]) -> Option<SentName> {
    let before = others.iter().find(|it| it.member == turn.member && it.id < turn.id)?;
    Some(SentName::Turn { session: id, turn: before.id.0, attempt: None })
}

fn tools(sent: &SentTurn, base: &str, query: &TurnQuery) -> Markup {
    let attempt = format!("attempt={}", sent.attempt.number);
    let address = |name: &str| format!("/api{base}/{name}?{attempt}");
    let file = |name: &str| format!("turn-{}-{name}.txt", sent.turn.id);
    html! {
        (requests::readings(base, query))
        button.quiet type="button" data-copy=(address("prompt")) { "Copy all" }
        (download("Download", &address("prompt"), &file("prompt")))
        @if sent.system.is_some() { (download("System text", &address("system"), &file("system"))) }
    }
}

fn exact_texts(sent: &SentTurn, given: &Given<'_>, query: &TurnQuery, api: &str) -> Markup {
    let attempt = format!("attempt={}", sent.attempt.number);
    let texts = [
        ("System text", "system", Target::System, sent.system.as_deref()),
        ("Prompt", "prompt", Target::Prompt, Some(&*sent.prompt)),
    ];
    html! {
        @for (title, name, target, text) in texts { @if let Some(text) = text {
            h2.section { (title) ", " (number(text.len() as u64)) " bytes" }
            (ledger::sourced(&sent.ledger, &given.parts, target, text, query.whitespace != 0, &format!("{api}/bytes?{attempt}&target={name}")))
        } }
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

/// Renders the facts of an attempt.
fn facts(id: SessionId, sent: &SentTurn) -> Markup {
    let (turn, attempt) = (&sent.turn, &sent.attempt);
    let mut facts = vec![(
        "State",
        html! { (turn.state.as_str()) @if let Some(problem) = &turn.problem { ": " (line(problem)) } },
    )];
    facts.push(("Answers", message_link(id, turn.answers.0)));
    if let Some(reply) = turn.reply {
        facts.push(("Reply", message_link(id, reply.0)));
    }
    if let Some(most) = sent.ledger.max_bytes {
        let used = sent.ledger.used_bytes();
        facts.push((
            "Budget",
            html! { span.figure { (number(used)) } " of " (number(most)) " bytes " span.faint { (percent(used, most)) } },
        ));
    }
    facts.push(("Began", moment(attempt.began_at)));
    if let Some(ended) = &attempt.ended {
        facts.push(("Ended", html! { (line(&ended.verdict.to_string())) }));
        facts.push(("Took", html! { (seconds(elapsed(attempt.began_at, ended.at))) }));
        if let Some(model) = &ended.model {
            facts.push(("Model", line(model)));
        }
        if ended.usage.is_some() {
            facts.extend(usage_facts(ended.usage.as_ref()));
        }
        if let Some(cost) = ended.cost_usd {
            facts.push(("Cost", html! { span.figure { (dollars(cost)) } }));
        }
    }
    strip(&facts)
}

/// Renders what is rarely needed of an attempt.
fn details(sent: &SentTurn) -> Markup {
    let attempt = &sent.attempt;
    html! {
        details.plumbing {
            summary { "Details" }
            dl.facts {
                dt { "Prompt" } dd { (number(attempt.prompt.bytes)) " bytes, SHA-256 " code.hash { (attempt.prompt.hash) } }
                @if let Some(system) = attempt.system { dt { "System text" } dd { (number(system.bytes)) " bytes, SHA-256 " code.hash { (system.hash) } } }
                dt { "Engine" } dd { (attempt.engine) }
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
