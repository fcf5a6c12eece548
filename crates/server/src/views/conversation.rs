//! A conversation: its messages, what runs, who is next, and how to take part.

use convoke_agent::permission::PermissionAnswer;
use convoke_session::{MemberCost, Session, SessionId, StopReason, Turn, TurnState};
use convoke_team::Team;
use maud::{Markup, html};
use serde_json::json;

use super::text::{SHOWN, beginning, exact, line};
use super::{action, dollars, download, moment, number, short};
use crate::feed::Step;
use crate::stored::{MessagePage, Question, ShownMessage, Standing, total_cost};

/// Renders a conversation as a view of the page.
pub fn conversation(
    session: &Session,
    directory: &str,
    team: Option<&Team>,
    page: &MessagePage,
    standing: &Standing,
) -> Markup {
    let id = session.began.id;
    html! {
        (heading(session, directory, standing))
        (tools(id))
        div #conversation data-session=(id) data-last=(page.messages.last().map_or(0, |it| it.stored.number.0)) {
            (messages(id, page))
            div #live aria-live="polite" {}
            section #standing aria-label="What the conversation waits for" { (self::standing(id, standing)) }
        }
        (composer(id, team, session))
    }
}

/// Renders the name, directory, task and cost of a session.
pub fn heading(session: &Session, directory: &str, standing: &Standing) -> Markup {
    let name = session.began.name.as_deref().unwrap_or("A conversation");
    html! {
        h1 { (line(name)) }
        p.faint {
            span.path { (line(directory)) } " · session " (short(session.began.id)) " · " (moment(session.began.created_at))
            @if session.began.rehearsal.is_some() { " · " span.badge { "rehearsal" } }
        }
        @if let Some(task) = &session.state.task { p.task { strong { "Task: " } (line(task)) } }
        p #cost { (cost(&standing.costs)) }
    }
}

/// Renders what a session cost, by member.
pub fn cost(costs: &[MemberCost]) -> Markup {
    html! {
        @if let Some(total) = total_cost(costs) {
            "Cost: " (dollars(total))
            @let by: Vec<String> = costs.iter().filter_map(|cost| Some(format!("{} {}", cost.member, dollars(cost.cost_usd?)))).collect();
            span.faint { " (" (line(&by.join(", "))) ")" }
        }
    }
}

fn tools(id: SessionId) -> Markup {
    let base = format!("/api/sessions/{id}");
    let file = |extension: &str| format!("convoke-{}.{extension}", short(id));
    html! {
        nav.tools aria-label="Session" {
            a href=(format!("/sessions/{id}/turns")) { "Turns" }
            a href=(format!("/sessions/{id}/changes")) { "Changes" }
            a href=(format!("/sessions/{id}/cache")) { "Cache" }
            details {
                summary { "Session" }
                div.menu {
                    (action("Resume", &format!("{base}/continue"), &json!({})))
                    (action("Fork", &format!("{base}/fork"), &json!({})))
                    button type="button" data-post=(format!("{base}/rename")) data-ask="name" data-label="The new name" { "Rename" }
                    (action("Release", &format!("{base}/release"), &json!({})))
                    (download("Export HTML", &format!("{base}/export?form=html"), &file("html")))
                    (download("Export Markdown", &format!("{base}/export?form=markdown"), &file("md")))
                    (download("Export snapshot", &format!("{base}/export?form=snapshot"), &file("json")))
                    (download("Export everything", &format!("{base}/export?form=archive"), &file("jsonl")))
                }
            }
        }
    }
}

/// Renders messages, with a button for earlier ones.
pub fn messages(id: SessionId, page: &MessagePage) -> Markup {
    html! {
        @if let Some(first) = page.messages.first().filter(|_| page.has_earlier) {
            button type="button" data-more=(format!("/api/sessions/{id}/messages?before={}", first.stored.number)) { "Earlier messages" }
        }
        ol.messages { @for message in &page.messages { (self::message(id, message)) } }
    }
}

/// Renders a message.
pub fn message(id: SessionId, message: &ShownMessage) -> Markup {
    let number = message.stored.number;
    let said = &message.stored.message;
    let (text, rest) = beginning(&message.text, SHOWN);
    let kind = if said.said.speaker.is_ai() { "agent" } else { "person" };
    html! {
        li.message.(kind) #(format!("message-{number}")) data-number=(number) {
            header {
                strong { (line(said.said.speaker.name())) }
                @if !said.addressees().is_empty() { " → " (line(&said.addressees().join(", "))) }
                " " span.faint {
                    a href=(format!("#message-{number}")) { "message " (number) }
                    @if let Some(turn) = message.turn {
                        ", " a href=(format!("/sessions/{id}/turns/{turn}")) { "turn " (turn) }
                    }
                }
            }
            pre.text { (exact(text, false)) @if rest > 0 { (more(&format!("/api/sessions/{id}/messages/{number}/text"), text.len(), rest)) } }
            @if let Some(turn) = message.turn {
                details data-load=(format!("/api/sessions/{id}/turns/{turn}/steps")) { summary { "Steps of the turn" } }
            }
        }
    }
}

/// Renders a button that continues a text where it stands.
pub fn more(path: &str, from: usize, rest: usize) -> Markup {
    html! {
        button.more type="button" data-more=(format!("{path}?from={from}")) { "Show " (number(rest as u64)) " more bytes" }
    }
}

/// Renders the steps of a running turn.
pub(crate) fn steps(steps: &[Step]) -> Markup {
    html! { @for step in steps { (tool(&step.name, &step.input, step.output.as_ref().map(|(ok, text)| (*ok, &**text)))) } }
}

/// Renders a tool call, folded.
pub fn tool(name: &str, input: &str, output: Option<(bool, &str)>) -> Markup {
    let state = match output {
        None => "running",
        Some((true, _)) => "done",
        Some((false, _)) => "failed",
    };
    html! {
        details.step {
            summary { (line(name)) " " span.faint { (line(beginning(input, 80).0)) } " " span.badge { (state) } }
            pre.text { (exact(input, false)) }
            @if let Some((_, output)) = output { pre.text { (exact(output, false)) } }
        }
    }
}

/// Renders what the conversation waits for.
pub fn standing(id: SessionId, standing: &Standing) -> Markup {
    let (running, queued): (Vec<&Turn>, Vec<&Turn>) =
        standing.open.iter().partition(|turn| turn.state == TurnState::Running);
    html! {
        @for question in &standing.questions { (self::question(id, question)) }
        @for turn in &running {
            p.running role="status" {
                strong { (line(turn.member.as_str())) } " is at work on "
                a href=(format!("/sessions/{id}/turns/{}", turn.id)) { "turn " (turn.id) }
                @if !standing.is_held { " (interrupted: its process is gone) " (action("Resume", &format!("/api/sessions/{id}/continue"), &json!({}))) }
                @if standing.is_held_here { " " (action("Cancel", &format!("/api/sessions/{id}/cancel"), &json!({}))) }
            }
        }
        @if !queued.is_empty() {
            p.queue { "Next: " @for (index, turn) in queued.iter().enumerate() { @if index > 0 { ", " } (line(turn.member.as_str())) " (turn " (turn.id) ")" } }
            @if running.is_empty() && !standing.is_held { p { (action("Resume", &format!("/api/sessions/{id}/continue"), &json!({}))) } }
        }
        @if standing.is_held && !standing.is_held_here {
            p.notice role="status" { "Another process runs this session. You can follow it here; end it there to take part." }
        }
        @if let Some(problem) = &standing.problem { p.problem role="alert" { (line(problem)) } }
        @if let Some(stop) = standing.stop.as_ref().and_then(stopped) { p.notice role="status" { (line(&stop)) } }
        @if !standing.unanswered.is_empty() {
            section.unanswered {
                h2 { "Turns without a reply" }
                ul { @for turn in &standing.unanswered { (unanswered(id, turn)) } }
            }
        }
        @if !standing.notes.is_empty() {
            details.notes { summary { "Diagnostics (" (standing.notes.len()) ")" } ul {
                @for note in &standing.notes { li { code { (note.code.to_string()) } " " (line(&note.message)) } }
            } }
        }
    }
}

fn unanswered(id: SessionId, turn: &Turn) -> Markup {
    let state = turn.state.as_str();
    let became = match turn.problem.as_deref() {
        None => state.to_owned(),
        Some(problem) if problem.starts_with(state) => problem.to_owned(),
        Some(problem) => format!("{state}: {problem}"),
    };
    html! {
        li {
            a href=(format!("/sessions/{id}/turns/{}", turn.id)) { "turn " (turn.id) } ", " (line(turn.member.as_str())) ": " (line(&became)) " "
            (action("Retry", &format!("/api/sessions/{id}/retry"), &json!({"turn": turn.id})))
        }
    }
}

/// Returns why a conversation stopped, if that is worth a sentence.
fn stopped(stop: &StopReason) -> Option<String> {
    Some(match stop {
        StopReason::Idle { .. } | StopReason::Left => return None,
        StopReason::Addressed { person, .. } => format!("{person} is asked to answer."),
        StopReason::TurnFailed { turns, .. } => {
            let names: Vec<String> =
                turns.iter().map(|turn| format!("turn {}", turn.turn)).collect();
            format!("The conversation stopped: {} failed.", names.join(", "))
        }
        StopReason::Cancelled { .. } => "The turn was cancelled.".to_owned(),
        StopReason::TurnLimit { limit, .. } => {
            format!("The conversation stopped after {limit} turns.")
        }
        StopReason::Repetition { member, times, .. } => {
            format!("The conversation stopped: {member} repeated itself {times} times.")
        }
        StopReason::QueueFull { limit, left_out, .. } => {
            format!("The queue is full: {limit} turns wait, {left_out} were not added.")
        }
    })
}

fn question(id: SessionId, question: &Question) -> Markup {
    let Question { turn, member, question, answers, expires_at } = question;
    let path = format!("/api/sessions/{id}/answer");
    html! {
        section.question role="alertdialog" aria-label=(format!("{member} asks for permission")) {
            p { strong { (line(member.as_str())) } " asks in turn " (turn) " to use " code { (line(&question.tool)) } ":" }
            pre.text { (exact(&question.summary, false)) }
            @if let Some(diff) = &question.diff { details { summary { "The change" } pre.text { (exact(diff, false)) } } }
            p {
                @for answer in answers {
                    (action(answer_label(*answer), &path, &json!({"question": question.id, "answer": answer}))) " "
                }
                span.faint { "No answer by " (moment(convoke_session::Millis(*expires_at))) " means no." }
            }
        }
    }
}

fn answer_label(answer: PermissionAnswer) -> &'static str {
    match answer {
        PermissionAnswer::Once => "Allow once",
        PermissionAnswer::Session => "Allow in this session",
        PermissionAnswer::Never => "Do not allow",
    }
}

fn composer(id: SessionId, team: Option<&Team>, session: &Session) -> Markup {
    let Some(team) = team else {
        return html! { p.notice { "The team file of this session cannot be read, so nothing can be said here." } };
    };
    let asker = session.state.asker.as_ref();
    html! {
        form #composer data-say=(format!("/api/sessions/{id}/say")) aria-label="Say something" {
            label for="say" { "Message" }
            textarea id="say" name="text" rows="3" required placeholder="@name addresses a member; Ctrl-Enter sends" aria-describedby="say-help" {}
            ul #completions role="listbox" aria-label="Members" hidden {}
            p #say-help.faint { "Members: " (line(&team.names().map(ToString::to_string).collect::<Vec<_>>().join(", "))) }
            p.send {
                label for="to" { "To" }
                select id="to" name="to" {
                    option value="" { "whom the text names" }
                    @for name in team.agents() { option value=(name) { (name) } }
                }
                label for="person" { "As" }
                select id="person" name="person" {
                    @for name in team.people() { option value=(name) selected[asker == Some(name)] { (name) } }
                }
                button type="submit" { "Send" }
            }
            datalist #members { @for name in team.names() { option value=(name) {} } }
        }
    }
}
