//! A session as one HTML file: its turns, what was said, and what each model was given. It loads nothing and runs nothing: a link to
//! a turn, to a request or to one of its parts shows it, by the style sheet alone.

use std::io::Write;

use convoke_agent::thread::ThreadStore as _;
use convoke_protocol::attachment::Attachment;
use convoke_protocol::id::{MessageNumber, SessionId, TurnId};
use convoke_protocol::message::Message;
use convoke_protocol::request::RequestRecord;
use convoke_protocol::session::Session;
use convoke_protocol::turn::{Turn, TurnState};
use convoke_session::sent_turn::requests_of;
use convoke_session::{AnyStore, SentTurn, Store as _, StoreError};
use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::assets::STYLE;
use crate::stored::{PendingMessage, team_of};
use crate::views::figures::{strip, usage_facts};
use crate::views::given::{self, Given, of_body, of_turn};
use crate::views::text::line;
use crate::views::{conversation, count, markdown};

/// The rows that are read at a time.
const PAGE: usize = 64;

/// An error of [`write()`].
#[derive(Debug, thiserror::Error)]
pub enum DocumentError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The file could not be written.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

/// Writes a session: every message, and for every turn and every stored request the parts of its text. Memory is O(page).
pub async fn write(
    store: &AnyStore,
    id: SessionId,
    out: &mut (impl Write + Send),
) -> Result<(), DocumentError> {
    let store = &store.snapshot().await?;
    let session = store.session(id).await?;
    let costs = store.costs(id).await?;
    out.write_all(head(&session).0.as_bytes())?;
    out.write_all(conversation::cost(&costs).0.as_bytes())?;
    out.write_all(
        b"<div class=\"export-panes\"><nav class=\"pane\" aria-label=\"Turns\"><h2>Turns</h2>",
    )?;
    write_turns(store, id, out).await?;
    out.write_all(b"</nav><section class=\"pane\" aria-label=\"Conversation\"><h2>Messages</h2><ol class=\"messages\">")?;
    write_messages(store, id, out).await?;
    out.write_all(b"</ol>")?;
    out.write_all(pending(&PendingMessage::read(store, id).await?).0.as_bytes())?;
    out.write_all(b"</section><section class=\"pane inspector\" aria-label=\"Inspector\">")?;
    let nothing =
        html! { div.empty { p { "Choose a turn or a request to see what the model was given." } } };
    out.write_all(nothing.0.as_bytes())?;
    write_views(store, id, out).await?;
    Ok(out.write_all(b"</section></div></main></body></html>")?)
}

fn head(session: &Session) -> Markup {
    let name = session.began.name.as_deref().unwrap_or("A conversation");
    html! {
        (DOCTYPE)
        (PreEscaped("<html lang=\"en\">"))
        head {
            meta charset="utf-8";
            meta name="viewport" content="width=device-width, initial-scale=1";
            meta name="color-scheme" content="light dark";
            // Nothing is loaded and nothing runs, whatever a message contains.
            meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'";
            title { (line(name)) }
            style { (PreEscaped(STYLE)) }
        }
        (PreEscaped("<body class=\"document\"><main>"))
        (conversation::heading(session, &session.began.directory))
        @if let Some(team) = team_of(session) { p { "Members: " (line(&team.names().map(ToString::to_string).collect::<Vec<_>>().join(", "))) } }
    }
}

/// Returns the id of a turn, or of a request of it.
fn anchor(turn: TurnId, request: Option<u64>) -> String {
    match request {
        None => format!("turn-{turn}"),
        Some(number) => format!("turn-{turn}-request-{number}"),
    }
}

async fn write_turns(
    store: &AnyStore,
    id: SessionId,
    out: &mut (impl Write + Send),
) -> Result<(), DocumentError> {
    let mut after = TurnId::default();
    out.write_all(b"<ol class=\"rows request-rows\">")?;
    loop {
        let turns = store.turns_after(id, after, PAGE).await?;
        let Some(last) = turns.last() else { break };
        after = last.id;
        for turn in &turns {
            let requests = requests_of(store, id, turn, None).await?;
            out.write_all(turn_rows(turn, &requests).0.as_bytes())?;
        }
    }
    Ok(out.write_all(b"</ol>")?)
}

fn turn_rows(turn: &Turn, requests: &[RequestRecord<()>]) -> Markup {
    html! {
        li { a.row href=(format!("#{}", anchor(turn.id, None))) {
            (turn.id) " " strong { (line(turn.member.as_str())) }
            @if turn.state != TurnState::Done { " " span.badge { (turn.state.as_str()) } }
        } }
        @for request in requests {
            li { a.row href=(format!("#{}", anchor(turn.id, Some(request.number)))) {
                span.faint { "request " (request.number) ", " (request.meta.purpose.as_str()) }
            } }
        }
    }
}

async fn write_messages(
    store: &AnyStore,
    id: SessionId,
    out: &mut (impl Write + Send),
) -> Result<(), DocumentError> {
    let mut after = MessageNumber::default();
    loop {
        let messages = store.messages_after(id, after, PAGE).await?;
        let Some(last) = messages.last() else { return Ok(()) };
        after = last.number;
        for message in &messages {
            out.write_all(self::message(message).0.as_bytes())?;
        }
    }
}

fn message(message: &Message) -> Markup {
    let (number, said) = (message.number, &message.message);
    let kind = if said.speaker.is_ai() { "agent" } else { "person" };
    html! {
        li.message.(kind) #(format!("message-{number}")) {
            header {
                span { strong { (line(said.speaker.name())) } @if !said.addressees().is_empty() { span.faint { " → " (line(&said.addressees().join(", "))) } } }
                span.faint { "message " (number) @if let Some(turn) = message.turn { " · " a href=(format!("#{}", anchor(turn, None))) { "turn " (turn) } } }
            }
            (markdown::rendered(&message.text))
            @for attachment in Attachment::from_message(said) { (conversation::attachment(&attachment)) }
        }
    }
}

fn pending(messages: &[PendingMessage]) -> Markup {
    html! {
        @if !messages.is_empty() {
            h2 { "Pending" }
            p { "Accepted, and not stored before this file was written." }
            ol.messages {
                @for message in messages { li.message.person {
                    header {
                        strong { (line(&message.from)) }
                        @if !message.to.is_empty() { " → " (line(&message.to.join(", "))) }
                        " " span.faint { "waits" }
                    }
                    (markdown::rendered(&message.text))
                    @for file in &message.files { p.faint { "+ " (line(&file.to_string())) } }
                } }
            }
        }
    }
}

/// Writes what each turn and each stored request held.
async fn write_views(
    store: &AnyStore,
    id: SessionId,
    out: &mut (impl Write + Send),
) -> Result<(), DocumentError> {
    let mut after = TurnId::default();
    loop {
        let turns = store.turns_after(id, after, PAGE).await?;
        let Some(last) = turns.last() else { return Ok(()) };
        after = last.id;
        for turn in turns {
            let requests = requests_of(store, id, &turn, None).await?;
            let turn_id = turn.id;
            if let Some(sent) = SentTurn::read(store, id, turn, None).await? {
                out.write_all(turn_view(&sent).0.as_bytes())?;
            }
            for request in requests {
                let view = request_view(store, turn_id, &request).await?;
                out.write_all(view.0.as_bytes())?;
            }
        }
    }
}

fn turn_view(sent: &SentTurn) -> Markup {
    let anchor = anchor(sent.turn.id, None);
    let parts = of_turn(&sent.ledger, sent.system.as_deref(), &sent.prompt);
    let given = Given { parts, path: format!("/{anchor}"), query: String::new() };
    html! {
        section.view #(anchor) {
            h2 { "Turn " (sent.turn.id) ": " (line(sent.turn.member.as_str())) ", " (sent.turn.state.as_str()) }
            p.faint { "The prompt: ~" (count(given.tokens(), "token")) ", " (count(given.bytes(), "byte")) }
            (given::whole(&given, &anchor))
        }
    }
}

async fn request_view(
    store: &AnyStore,
    turn: TurnId,
    record: &RequestRecord<()>,
) -> Result<Markup, DocumentError> {
    let anchor = anchor(turn, Some(record.number));
    let texts =
        store.request_texts(&record.thread, record.number).await.map_err(StoreError::from)?;
    let ledger = texts.parse_ledger(&record.meta);
    Ok(html! {
        section.view #(anchor) {
            h2 { "Request " (record.number) " of turn " (turn) ", " (record.meta.purpose.as_str()) }
            (strip(&usage_facts(record.outcome.usage.as_ref())))
            @match &ledger {
                Ok(ledger) => {
                    @let given = Given { parts: of_body(ledger, &texts.body), path: format!("/{anchor}"), query: String::new() };
                    (given::whole(&given, &anchor))
                },
                Err(error) => p.problem { "Its ledger is damaged: " (line(&error.to_string())) },
            }
        }
    })
}
