//! A conversation: its messages, its running and queued turns, and the form for a message.

use convoke_core::Timestamp;
use convoke_protocol::agent_event::RequestPurpose;
use convoke_protocol::attachment::Attachment;
use convoke_protocol::event::StopReason;
use convoke_protocol::id::SessionId;
use convoke_protocol::message::Message;
use convoke_protocol::milliseconds;
use convoke_protocol::permission::PermissionAnswer;
use convoke_protocol::request::RequestRecord;
use convoke_protocol::session::{MemberCost, Session};
use convoke_protocol::turn::{Attempt, Turn, TurnState};
use convoke_protocol::view::{OpenQuestion, ToolCall};
use convoke_team::Team;
use maud::{Markup, html};
use serde_json::json;

use super::text::{SHOWN, beginning, exact, line};
use super::waterfall::{self, Row};
use super::{action, confirmed, dollars, download, markdown, moment, number, short};
use crate::other_sessions::encoded;
use crate::stored::{MessagePage, PendingMessage, SessionStatus, elapsed, total_cost};

/// Renders a conversation as a view of the page. Costs that are not known yet are loaded by the page.
pub fn conversation(
    session: &Session,
    directory: &str,
    team: Option<&Team>,
    page: &MessagePage,
    status: &SessionStatus,
    costs: Option<&[MemberCost]>,
) -> Markup {
    let id = session.began.id;
    // After a gap, new messages are not shown: they belong to the end of the conversation.
    let last = if page.has_later { None } else { page.messages.last() };
    let last = last.map_or(session.state.last_message.0, |message| message.number.0);
    let left = html! {
        h2 { "Turns" }
        section #turns data-load=(format!("/api/sessions/{id}/waterfall")) aria-label="Turns and requests" {}
    };
    let middle = html! {
        div #conversation data-session=(id) data-last=(last) data-gap[page.has_later] {
            (messages(id, page))
            @if page.has_later { p.notice { "Later messages follow. " a href=(format!("/sessions/{id}")) { "Go to the latest" } } }
            div #live aria-live="polite" {}
            section #standing aria-label="Status" { (self::status(id, status)) }
            (composer(id, team, session))
        }
    };
    html! {
        div.session-head {
            nav.crumbs aria-label="Place" { a href="/" { "Sessions" } " / " (short(id)) }
            (heading(session, directory))
        }
        div.workbench data-shown="conversation" {
            (waterfall::panes(&left, &middle, &facts(id, team, costs)))
        }
    }
}

/// A turn with the requests of its member.
pub(crate) struct SentRow {
    pub turn: Turn,
    /// The last attempt.
    pub attempt: Option<Attempt>,
    pub requests: Vec<RequestRecord<()>>,
}

/// Renders the turns and requests of a session, with the chart of their tokens.
pub(crate) fn waterfall(id: SessionId, turns: &[SentRow]) -> Markup {
    let mut rows = Vec::new();
    for row in turns {
        rows.push(turn_row(id, row));
        rows.extend(row.requests.iter().map(|request| request_row(id, &row.turn, request)));
    }
    let addresses: Vec<String> = rows.iter().map(|row| row.path.clone()).collect();
    waterfall::mark_misses(&mut rows, |before, at| {
        format!("/compare?a={}&b={}", encoded(&addresses[before]), encoded(&addresses[at]))
    });
    html! {
        (waterfall::chart(&rows))
        (waterfall::rows(&rows))
        @if turns.is_empty() { p.empty { "No turns yet." } }
    }
}

/// Renders the name, directory and task of a session.
pub fn heading(session: &Session, directory: &str) -> Markup {
    let name = session.began.name.as_deref().unwrap_or("A conversation");
    html! {
        h1 { (line(name)) }
        p.faint {
            span.path { (line(directory)) } " · session " (short(session.began.id)) " · " (moment(session.began.created_at))
            @if session.began.rehearsal.is_some() { " " span.badge { "rehearsal" } }
        }
        @if let Some(task) = &session.state.task { p.task { strong { "Task: " } (line(task)) } }
    }
}

fn turn_row(id: SessionId, row: &SentRow) -> Row {
    let SentRow { turn, attempt, requests } = row;
    let ended = attempt.as_ref().and_then(|attempt| attempt.ended.as_ref());
    let class = match turn.state {
        TurnState::Failed | TurnState::Cancelled => "failed",
        TurnState::Running => "live",
        TurnState::Queued => "waits",
        TurnState::Done => "done",
    };
    let is_usual = turn.state == TurnState::Done;
    let took = attempt.as_ref().zip(ended).map(|(it, ended)| elapsed(it.began_at, ended.at));
    Row {
        id: format!("row-{}", turn.id),
        path: format!("/sessions/{id}/turns/{}", turn.id),
        number: turn.id.to_string(),
        title: turn.member.to_string(),
        badge: (!is_usual).then(|| html! { span.badge.(class) { (turn.state.as_str()) } }),
        agent: None,
        at: Some(attempt.as_ref().map_or(turn.queued_at, |attempt| attempt.began_at)),
        took,
        // The requests of a turn have its tokens.
        usage: ended.and_then(|ended| ended.usage).filter(|_| requests.is_empty()),
        cost: ended.and_then(|ended| ended.cost_usd),
        group: turn.member.to_string(),
        is_below: false,
        is_compaction: false,
        miss: None,
    }
}

fn request_row(id: SessionId, turn: &Turn, request: &RequestRecord<()>) -> Row {
    let (number, outcome) = (request.number, &request.outcome);
    let failed = outcome.status.filter(|status| *status >= 400);
    Row {
        id: format!("row-{}-{number}", turn.id),
        path: format!("/sessions/{id}/turns/{}/requests/{number}", turn.id),
        number: String::new(),
        title: format!("request {number}, {}", request.meta.purpose.as_str()),
        badge: failed.map(|status| html! { span.badge.failed { (status) } }),
        agent: None,
        at: Some(request.meta.at),
        took: outcome.elapsed.map(milliseconds::whole),
        usage: outcome.usage,
        cost: None,
        group: turn.member.to_string(),
        is_below: true,
        is_compaction: request.meta.purpose == RequestPurpose::Compaction,
        miss: None,
    }
}

/// Renders the side bar: members, costs, views and actions.
fn facts(id: SessionId, team: Option<&Team>, costs: Option<&[MemberCost]>) -> Markup {
    let base = format!("/api/sessions/{id}");
    let file = |extension: &str| format!("convoke-{}.{extension}", short(id));
    let export = |form: &str| format!("{base}/export?form={form}");
    html! {
        nav.views aria-label="Views of the session" {
            a href=(format!("/sessions/{id}/turns")) { "Turns" }
            a href=(format!("/sessions/{id}/changes")) { "Changes" }
            a href=(format!("/sessions/{id}/cache")) { "Cache" }
        }
        @if let Some(team) = team {
            h2 { "Members" }
            ul.members { @for member in &team.members {
                li { span.dot.(hue(member.name.as_str())) {} " " (line(member.name.as_str())) " " span.faint { @match member.agent() { Some(settings) => (line(&settings.agent)), None => "person" } } }
            } }
        }
        @match costs {
            Some(costs) => section #cost aria-label="Cost" { (cost(costs)) },
            None => section #cost aria-label="Cost" data-load=(format!("{base}/cost")) {},
        }
        details.menu {
            summary { "Session" }
            (action("Resume", &format!("{base}/continue"), &json!({})))
            (action("Fork", &format!("{base}/fork"), &json!({})))
            button type="button" data-post=(format!("{base}/rename")) data-ask="name" data-label="The new name" { "Rename" }
            (action("Release", &format!("{base}/release"), &json!({})))
            (confirmed("Undo the last turn", &format!("{base}/undo"), &json!({})))
            (confirmed("Redo the last undone turn", &format!("{base}/redo"), &json!({})))
            (download("Export HTML", &export("html"), &file("html")))
            (download("Export Markdown", &export("markdown"), &file("md")))
            (download("Export snapshot", &export("snapshot"), &file("json")))
            (download("Export everything", &export("archive"), &file("jsonl")))
        }
    }
}

/// Returns the class of a speaker's colour.
fn hue(name: &str) -> String {
    let sum: u32 = name.bytes().map(u32::from).sum();
    format!("c{}", sum % 8)
}

/// Renders the cost of a session, by member.
pub fn cost(costs: &[MemberCost]) -> Markup {
    html! {
        @if let Some(total) = total_cost(costs) {
            h2 { "Cost" }
            p { strong { (dollars(total)) } }
            ul.costs { @for cost in costs { @if let Some(own) = cost.cost_usd { li { (line(cost.member.as_str())) " " span.figure { (dollars(own)) } } } } }
        }
    }
}

/// Renders messages, with a button for earlier ones.
pub fn messages(id: SessionId, page: &MessagePage) -> Markup {
    html! {
        @if let Some(first) = page.messages.first().filter(|_| page.has_earlier) {
            button type="button" data-more=(format!("/api/sessions/{id}/messages?before={}", first.number)) { "Earlier messages" }
        }
        ol.messages { @for message in &page.messages { (self::message(id, message)) } }
    }
}

/// Renders a message.
pub fn message(id: SessionId, message: &Message) -> Markup {
    let number = message.number;
    let said = &message.message;
    let (text, rest) = beginning(&message.text, SHOWN);
    let name = said.speaker.name();
    let kind = if said.speaker.is_ai() { "agent" } else { "person" };
    let at = said.timestamp.as_ref().and_then(Timestamp::millis);
    html! {
        li.message.(kind).(hue(name)) #(format!("message-{number}")) data-number=(number) tabindex="-1" {
            header {
                span { strong { (line(name)) } @if !said.addressees().is_empty() { span.faint { " → " (line(&said.addressees().join(", "))) } } }
                span.faint {
                    @if let Some(at) = at { (moment(at)) " · " }
                    a href=(format!("?message={number}#message-{number}")) { "message " (number) }
                    @if let Some(turn) = message.turn { " · " a href=(format!("/sessions/{id}/turns/{turn}")) { "turn " (turn) } }
                }
            }
            @if rest > 0 { pre.text { (exact(text, false)) (more(&format!("/api/sessions/{id}/messages/{number}/text"), text.len(), rest)) } }
            @else { (markdown::folded(text)) }
            @for attachment in Attachment::from_message(said) { (self::attachment(&attachment)) }
            @if let Some(turn) = message.turn {
                details data-load=(format!("/api/sessions/{id}/turns/{turn}/steps")) { summary { "Steps of the turn" } }
            }
        }
    }
}

/// Renders a file that a message attaches, folded.
pub fn attachment(attachment: &Attachment) -> Markup {
    let Attachment { path, text } = attachment;
    let (shown, rest) = beginning(text, SHOWN);
    html! {
        details.attachment {
            summary { span.path { (line(path)) } " " span.faint { "attached, " (number(text.len() as u64)) " bytes" } }
            pre.text { (exact(shown, false)) }
            @if rest > 0 { p.faint { (number(rest as u64)) " more bytes; the prompt of the turn has the whole text." } }
        }
    }
}

/// Renders a button that loads more of a text in place.
pub fn more(path: &str, from: usize, rest: usize) -> Markup {
    let mark = if path.contains('?') { '&' } else { '?' };
    html! {
        button.more type="button" data-more=(format!("{path}{mark}from={from}")) { "Show " (number(rest as u64)) " more bytes" }
    }
}

/// Renders the steps of a running turn.
pub(crate) fn steps(steps: &[ToolCall]) -> Markup {
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

/// Renders the open turns and questions of the conversation.
pub fn status(id: SessionId, status: &SessionStatus) -> Markup {
    let (running, queued): (Vec<&Turn>, Vec<&Turn>) =
        status.open.iter().partition(|turn| turn.state == TurnState::Running);
    html! {
        @for question in &status.questions { (self::question(id, question)) }
        @for turn in &running {
            p.running role="status" {
                strong data-running=(turn.id) { (line(turn.member.as_str())) } " is working on "
                a href=(format!("/sessions/{id}/turns/{}", turn.id)) { "turn " (turn.id) }
                @if !status.is_held { " (interrupted: its process has ended) " (action("Resume", &format!("/api/sessions/{id}/continue"), &json!({}))) }
                @if status.is_held_here || (status.is_shared && status.is_held) { " " (action("Cancel", &format!("/api/sessions/{id}/cancel"), &json!({}))) }
            }
        }
        @if !status.pending.is_empty() {
            section.pending aria-label="Messages that wait" {
                ol { @for message in &status.pending { (pending(message)) } }
                p.faint {
                    @if status.is_held { "They are sent when the running turn has ended." }
                    @else { "They are sent when the conversation goes on." }
                }
                @if !status.is_held && status.open.is_empty() { p { (action("Resume", &format!("/api/sessions/{id}/continue"), &json!({}))) } }
            }
        }
        @if !queued.is_empty() {
            p.queue { "Next: " @for (index, turn) in queued.iter().enumerate() { @if index > 0 { ", " } (line(turn.member.as_str())) " (turn " (turn.id) ")" } }
            @if running.is_empty() && !status.is_held { p { (action("Resume", &format!("/api/sessions/{id}/continue"), &json!({}))) } }
        }
        @if status.is_held && !status.is_held_here && status.is_shared {
            p.notice role="status" { "Another process is running this turn. Your message will be stored when the turn has ended." }
        } @else if status.is_held && !status.is_held_here {
            p.notice role="status" { "Another process runs this session. You can follow it here; end it there to take part." }
        }
        @if let Some(problem) = &status.problem { p.problem role="alert" { (line(problem)) } }
        @if let Some(stop) = status.stop.as_ref().and_then(stopped) { p.notice role="status" { (line(&stop)) } }
        @if !status.unanswered.is_empty() {
            section.unanswered {
                h2 { "Turns without a reply" }
                ul { @for turn in &status.unanswered { (unanswered(id, turn)) } }
            }
        }
        @if !status.notes.is_empty() {
            details.notes { summary { "Diagnostics (" (status.notes.len()) ")" } ul {
                @for note in &status.notes { li { code { (note.code.to_string()) } " " (line(&note.message)) } }
            } }
        }
    }
}

fn pending(message: &PendingMessage) -> Markup {
    let PendingMessage { from, to, text, files } = message;
    let (shown, rest) = beginning(text, SHOWN);
    html! {
        li { div.message.person.(hue(from)) {
            header {
                span { strong { (line(from)) } @if !to.is_empty() { span.faint { " → " (line(&to.join(", "))) } } }
                span.badge { "waits" }
            }
            pre.text { (exact(shown, false)) @if rest > 0 { "…" } }
            @for file in files { p.faint { "+ " (line(&file.to_string())) } }
        } }
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

/// Returns a sentence on why a conversation stopped, if it needs one.
fn stopped(stop: &StopReason) -> Option<String> {
    Some(match stop {
        StopReason::Idle { .. } | StopReason::Left => return None,
        StopReason::Addressed { person, .. } => format!("Waiting for {person} to answer."),
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
            format!("The conversation stopped: {member} repeated the same message {times} times.")
        }
        StopReason::QueueFull { limit, left_out, .. } => {
            format!("The queue is full: {limit} turns queued, {left_out} not added.")
        }
    })
}

fn question(id: SessionId, question: &OpenQuestion) -> Markup {
    let OpenQuestion { turn, member, question, answers, expires_at } = question;
    let path = format!("/api/sessions/{id}/answer");
    html! {
        section.question data-question=(question.id) aria-label=(format!("{member} asks for permission")) {
            div role="alert" { h2 { (line(member.as_str())) " asks to use " code { (line(&question.tool)) } } }
            p.faint { "turn " (turn) " · no answer by " (moment(convoke_protocol::id::Millis(*expires_at))) " means no · " span data-until=(expires_at) {} }
            pre.text tabindex="0" { (exact(&question.summary, false)) }
            @if let Some(diff) = &question.diff { (super::patch::unified(diff, None, 400)) }
            p.actions {
                // The first button is where a key goes that was meant for something else: it refuses.
                @for answer in answers.iter().rev() {
                    (action(answer_label(*answer), &path, &json!({"question": question.id, "answer": answer})))
                }
            }
        }
    }
}

fn answer_label(answer: PermissionAnswer) -> &'static str {
    match answer {
        PermissionAnswer::Once => "Allow once",
        PermissionAnswer::Session => "Allow in this session",
        PermissionAnswer::No => "Refuse once",
        PermissionAnswer::Never => "Refuse",
    }
}

fn composer(id: SessionId, team: Option<&Team>, session: &Session) -> Markup {
    let Some(team) = team else {
        return html! { p.notice { "The team file of this session cannot be read, so no message can be sent here." } };
    };
    let asker = session.state.asker.as_ref();
    html! {
        form #composer data-say=(format!("/api/sessions/{id}/say")) aria-label="Send a message" {
            label for="say" { "Message" }
            textarea id="say" name="text" rows="2" required aria-describedby="say-help" aria-controls="completions" {}
            ul #completions role="listbox" aria-label="Members" hidden {}
            p.send {
                label for="to" { "To" }
                select id="to" name="to" {
                    option value="" { "as named in the text" }
                    option value="all" { "all" }
                    @for name in team.agents() { option value=(name) { (name) } }
                }
                label for="person" { "As" }
                select id="person" name="person" {
                    @for name in team.people() { option value=(name) selected[asker == Some(name)] { (name) } }
                }
                button.primary type="submit" { "Send" }
                span #say-help.faint { "@name addresses a member, @path attaches a file. " span data-enter-help { "Enter sends, Shift-Enter breaks the line." } }
                label.setting { input type="checkbox" data-enter-setting; " Ctrl-Enter sends" }
            }
            datalist #members { @for name in team.names() { option value=(name) {} } }
        }
    }
}
