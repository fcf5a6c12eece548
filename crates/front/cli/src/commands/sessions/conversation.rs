//! Output of a whole conversation, page by page: memory is O(page), not O(session).

use std::io::{self, BufWriter, Write};

use convoke_core::{ConversationMessage, Diagnostic};
use convoke_protocol::id::{MessageNumber, SessionId, TurnId};
use convoke_protocol::message::AttachedBytes;
use convoke_protocol::message::Message;
use convoke_protocol::session::Session;
use convoke_protocol::turn::TurnState;
use convoke_server::stored::PendingMessage;
use convoke_session::diagnostics::MESSAGES_PENDING;
use convoke_session::rows::{each_message, each_turn};
use convoke_session::{AnyStore, Store as _, StoreError};
use convoke_team::Team;
use serde::Serialize;
use serde_json::json;

use crate::figures::dollars;
use crate::program;
use crate::terminal::{Paint, printable, stdout};

/// Writes a session as one JSON object.
pub(super) async fn write_json(store: &AnyStore, id: SessionId) -> anyhow::Result<()> {
    let store = &store.snapshot().await?;
    let Session { began, updated_at, state, .. } = store.session(id).await?;
    let head = json!({
        "session": id, "name": began.name, "directory": began.directory,
        "rehearsal": began.rehearsal, "held": store.is_held(id).await?,
        "createdAt": began.created_at, "updatedAt": updated_at, "task": state.task,
        "costs": store.costs(id).await?, "pending": PendingMessage::read(store, id).await?,
    });
    let mut out = BufWriter::new(stdout());
    let head = head.to_string();
    write!(out, "{},\"messages\":[", head.trim_end_matches('}'))?;
    let mut list = JsonList::default();
    each_message(
        store,
        id,
        MessageNumber::default(),
        |Message { number, answers, message, .. }| {
            let message = json!({"number": number, "answers": answers, "message": message});
            anyhow::Ok(list.push(&mut out, &message)?)
        },
    )
    .await?;
    out.write_all(b"],\"turns\":[")?;
    let mut list = JsonList::default();
    each_turn(store, id, |turn| anyhow::Ok(list.push(&mut out, &turn)?)).await?;
    out.write_all(b"]}\n")?;
    Ok(out.flush()?)
}

/// The elements of a JSON list, written one by one.
#[derive(Default)]
struct JsonList {
    is_begun: bool,
}

impl JsonList {
    fn push(&mut self, out: &mut impl Write, value: &impl Serialize) -> io::Result<()> {
        if std::mem::replace(&mut self.is_begun, true) {
            out.write_all(b",")?;
        }
        Ok(serde_json::to_writer(out, value)?)
    }
}

/// Writes a session as text: its messages, then the turns without a reply. Memory: two numbers per reply.
pub(super) async fn write_text(store: &AnyStore, id: SessionId) -> anyhow::Result<()> {
    let store = &store.snapshot().await?;
    let session = store.session(id).await?;
    let paint = Paint::for_stream(&stdout());
    let mut out = BufWriter::new(stdout());
    let name = session.began.name.as_deref().unwrap_or("a conversation");
    writeln!(out, "{}  {}", paint.strong(name), paint.faint(&format!("session {id}")))?;
    writeln!(out, "{} {}", paint.faint("in"), session.began.directory)?;
    if let Some(task) = &session.state.task {
        writeln!(out, "{} {}", paint.faint("task:"), printable(task))?;
    }
    let replies = replies(store, id).await?;
    let text = Team::parse(&session.began.team).map(|team| team.context.text).unwrap_or_default();
    each_message(store, id, MessageNumber::default(), |Message { number, message, .. }| {
        let to = recipients(&message);
        let turn = replies.binary_search_by_key(&number, |(reply, _)| *reply).ok();
        let turn = turn.map_or(String::new(), |index| format!(", turn {}", replies[index].1));
        let name = paint.strong(&printable(message.speaker.name()));
        writeln!(out, "\n{name}{to}  {}", paint.faint(&format!("message {number}{turn}")))?;
        for line in message.text(text).lines() {
            writeln!(out, "{}", format!("  {}", printable(line)).trim_end())?;
        }
        for file in AttachedBytes::from_message(&message) {
            writeln!(out, "{}", paint.faint(&format!("  + {}", printable(&file.to_string()))))?;
        }
        anyhow::Ok(())
    })
    .await?;
    let pending = PendingMessage::read(store, id).await?;
    for message in &pending {
        let to = arrow(&message.to);
        let name = paint.strong(&printable(&message.from));
        writeln!(out, "\n{name}{}  {}", printable(&to), paint.faint("pending"))?;
        for line in message.text.lines() {
            writeln!(out, "{}", format!("  {}", printable(line)).trim_end())?;
        }
        for file in &message.files {
            writeln!(out, "{}", paint.faint(&format!("  + {}", printable(&file.to_string()))))?;
        }
    }
    // The process that holds the session stores them.
    if !pending.is_empty() && !store.is_held(id).await? {
        writeln!(out, "\n{} not stored yet; {}", counted(pending.len()), how_to_store(id))?;
    }
    write_unanswered(&mut out, store, id).await?;
    write_costs(&mut out, store, id).await?;
    Ok(out.flush()?)
}

/// Returns the recipients of a message after an arrow; empty if it is to everyone.
pub(super) fn recipients(message: &ConversationMessage) -> String {
    arrow(message.addressees())
}

/// Returns recipients after an arrow; empty if there are none.
pub(super) fn arrow(to: &[String]) -> String {
    if to.is_empty() { String::new() } else { format!(" → {}", to.join(", ")) }
}

/// Returns the diagnostic that an export or a copy of a session does not contain the messages of its inbox, if it has any.
pub(super) async fn pending_diagnostic(
    store: &AnyStore,
    id: SessionId,
) -> Result<Option<Diagnostic>, StoreError> {
    let pending = store.arrived(id).await?.len();
    let message = format!("not included: {} pending; {}", counted(pending), how_to_store(id));
    let diagnostic = Diagnostic::new(MESSAGES_PENDING, message).with_count(pending as u64);
    Ok((pending > 0).then_some(diagnostic))
}

/// Returns a number of messages with its verb.
fn counted(messages: usize) -> String {
    if messages == 1 { "1 message is".to_owned() } else { format!("{messages} messages are") }
}

/// Names the command that stores the messages of an inbox.
fn how_to_store(id: SessionId) -> String {
    let (program, session, store) = (program::name(), id.short(), program::store_option());
    format!("`{program} sessions resume {session}{store}` stores and answers what is pending")
}

/// Writes the reported cost of the session, by member.
async fn write_costs(out: &mut impl Write, store: &AnyStore, id: SessionId) -> anyhow::Result<()> {
    let costs = store.costs(id).await?;
    let costs: Vec<_> =
        costs.iter().filter_map(|cost| Some((cost.member.as_str(), cost.cost_usd?))).collect();
    if costs.is_empty() {
        return Ok(());
    }
    let members: Vec<String> =
        costs.iter().map(|(member, cost)| format!("{member} {}", dollars(*cost))).collect();
    let total: f64 = costs.iter().map(|(_, cost)| cost).sum();
    writeln!(out, "\ncost: {} ({})", dollars(total), printable(&members.join(", ")))?;
    Ok(())
}

/// Returns the number of each reply with its turn, in order.
async fn replies(store: &AnyStore, id: SessionId) -> anyhow::Result<Vec<(MessageNumber, TurnId)>> {
    let mut replies = Vec::new();
    each_turn(store, id, |turn| {
        replies.extend(turn.reply.map(|reply| (reply, turn.id)));
        anyhow::Ok(())
    })
    .await?;
    replies.sort_unstable();
    Ok(replies)
}

async fn write_unanswered(
    out: &mut impl Write,
    store: &AnyStore,
    id: SessionId,
) -> anyhow::Result<()> {
    // A turn whose process has ended is still stored as running.
    let is_abandoned = !store.is_held(id).await?;
    let mut is_first = true;
    each_turn(store, id, |turn| {
        if turn.reply.is_some() {
            return Ok(());
        }
        if std::mem::take(&mut is_first) {
            writeln!(out)?;
        }
        let state = turn.state.as_str();
        let became = match turn.problem.as_deref().map(printable) {
            _ if is_abandoned && turn.state == TurnState::Running => {
                let (program, session) = (program::name(), id.short());
                let store = program::store_option();
                format!("interrupted; `{program} run --session {session}{store}` retries it")
            }
            None => state.to_owned(),
            Some(problem) if problem.starts_with(state) => problem.into_owned(),
            Some(problem) => format!("{state}: {problem}"),
        };
        writeln!(out, "turn {}, {}: {became}", turn.id, turn.member)?;
        anyhow::Ok(())
    })
    .await
}
