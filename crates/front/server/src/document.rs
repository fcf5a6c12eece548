//! A session as one HTML file: the same views, no script, no request.

use std::io::Write;

use convoke_protocol::attachment::Attachment;
use convoke_protocol::id::{MessageNumber, SessionId, TurnId};
use convoke_session::{AnyStore, SentTurn, Store as _};
use maud::{DOCTYPE, PreEscaped, html};

use crate::assets::STYLE;
use crate::stored::{PendingMessage, team_of};
use crate::views::given::{self, Given, of_turn};
use crate::views::text::{exact, line};
use crate::views::{conversation, number};

/// The rows that are read at a time.
const PAGE: usize = 64;

/// An error of [`write()`].
#[derive(Debug, thiserror::Error)]
pub enum DocumentError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] convoke_session::StoreError),
    /// The file could not be written.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

/// Writes a session: every message, and for every turn the ledger and the exact texts. Memory is O(page).
pub async fn write(
    store: &AnyStore,
    id: SessionId,
    out: &mut (impl Write + Send),
) -> Result<(), DocumentError> {
    let store = &store.snapshot().await?;
    let session = store.session(id).await?;
    let costs = store.costs(id).await?;
    let name = session.began.name.clone().unwrap_or_else(|| "A conversation".to_owned());
    let head = html! {
        (DOCTYPE)
        (PreEscaped("<html lang=\"en\">"))
        head {
            meta charset="utf-8";
            meta name="viewport" content="width=device-width, initial-scale=1";
            meta name="color-scheme" content="light dark";
            // Nothing is loaded and nothing runs, whatever a message contains.
            meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'";
            title { (line(&name)) }
            style { (PreEscaped(STYLE)) }
        }
        (PreEscaped("<body class=\"document\"><main>"))
        (conversation::heading(&session, &session.began.directory))
        (conversation::cost(&costs))
        @if let Some(team) = team_of(&session) { p { "Members: " (line(&team.names().map(ToString::to_string).collect::<Vec<_>>().join(", "))) } }
        h2 { "Messages" }
        (PreEscaped("<ol class=\"messages\">"))
    };
    out.write_all(head.0.as_bytes())?;
    let mut after = MessageNumber::default();
    loop {
        let messages = store.messages_after(id, after, PAGE).await?;
        let Some(last) = messages.last() else { break };
        after = last.number;
        for message in &messages {
            let (number, said) = (message.number, &message.message);
            let kind = if said.speaker.is_ai() { "agent" } else { "person" };
            let item = html! {
                li.message.(kind) #(format!("message-{number}")) {
                    header {
                        strong { (line(said.speaker.name())) }
                        @if !said.addressees().is_empty() { " → " (line(&said.addressees().join(", "))) }
                        " " span.faint { "message " (number) @if let Some(turn) = message.turn { ", " a href=(format!("#turn-{turn}")) { "turn " (turn) } } }
                    }
                    pre.text { (exact(&message.text, false)) }
                    @for attachment in Attachment::from_message(said) { (conversation::attachment(&attachment)) }
                }
            };
            out.write_all(item.0.as_bytes())?;
        }
    }
    out.write_all(b"</ol>")?;
    let pending = PendingMessage::read(store, id).await?;
    if !pending.is_empty() {
        let waiting = html! {
            h2 { "Pending" }
            p { "Accepted, and not stored before this file was written." }
            ol.messages {
                @for message in &pending { li.message.person {
                    header {
                        strong { (line(&message.from)) }
                        @if !message.to.is_empty() { " → " (line(&message.to.join(", "))) }
                        " " span.faint { "waits" }
                    }
                    pre.text { (exact(&message.text, false)) }
                    @for file in &message.files { p.faint { "+ " (line(&file.to_string())) } }
                } }
            }
        };
        out.write_all(waiting.0.as_bytes())?;
    }
    out.write_all(b"<h2>Prompts</h2>")?;
    let mut after = TurnId::default();
    loop {
        let turns = store.turns_after(id, after, PAGE).await?;
        let Some(last) = turns.last() else { break };
        after = last.id;
        for turn in turns {
            let heading = format!("turn {}, {}: {}", turn.id, turn.member, turn.state.as_str());
            let anchor = format!("turn-{}", turn.id);
            let Some(sent) = SentTurn::read(store, id, turn, None).await? else { continue };
            let given = Given {
                parts: of_turn(&sent.ledger, sent.system.as_deref(), &sent.prompt),
                path: format!("/{anchor}"),
                query: String::new(),
            };
            let section = html! {
                details.turn #(anchor) {
                    summary { (line(&heading)) ", " (number(sent.ledger.used_bytes())) " bytes" }
                    (given::whole(&given))
                }
            };
            out.write_all(section.0.as_bytes())?;
        }
    }
    Ok(out.write_all(b"</main></body></html>")?)
}
