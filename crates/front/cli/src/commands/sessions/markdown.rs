//! A conversation as Markdown, to be pasted or mailed.

use std::io::{self, Write};

use convoke_protocol::id::{MessageNumber, SessionId};
use convoke_protocol::message::AttachedBytes;
use convoke_protocol::message::Message;
use convoke_server::stored::PendingMessage;
use convoke_session::rows::each_message;
use convoke_session::time_format::utc;
use convoke_session::{AnyStore, Store as _};
use convoke_team::Team;

use super::conversation::{arrow, recipients};
use crate::figures::dollars;
use crate::terminal::printable;

/// Writes the messages of a session under a heading each, page by page. Their text is Markdown as it was
/// written, without routing markers.
pub(super) async fn write(
    store: &AnyStore,
    id: SessionId,
    out: &mut impl Write,
) -> anyhow::Result<()> {
    let store = &store.snapshot().await?;
    let session = store.session(id).await?;
    let name = session.began.name.as_deref().unwrap_or("Conversation");
    writeln!(out, "# {}\n", escape(name))?;
    if let Some(task) = &session.state.task {
        writeln!(out, "Task: {}\n", escape(task))?;
    }
    let rehearsal = if session.began.rehearsal.is_some() { ", a rehearsal" } else { "" };
    writeln!(out, "- Session `{id}`{rehearsal}, {}", utc(session.began.created_at))?;
    for cost in store.costs(id).await? {
        if let Some(amount) = cost.cost_usd {
            writeln!(out, "- {}: {}", escape(cost.member.as_str()), dollars(amount))?;
        }
    }
    let policy = Team::parse(&session.began.team).map(|team| team.context.text).unwrap_or_default();
    each_message(store, id, MessageNumber::default(), |Message { number, message, .. }| {
        let who = format!("{}{}", message.speaker.name(), recipients(&message));
        writeln!(out, "\n## {} ({number})\n", escape(&who))?;
        writeln!(out, "{}", close_fence(&message.text(policy)))?;
        write_files(out, &AttachedBytes::from_message(&message))?;
        anyhow::Ok(())
    })
    .await?;
    for PendingMessage { from, to, text, files } in PendingMessage::read(store, id).await? {
        let who = format!("{from}{}", arrow(&to));
        writeln!(out, "\n## {} (pending)\n", escape(&who))?;
        writeln!(out, "{}", close_fence(&text))?;
        write_files(out, &files)?;
    }
    Ok(())
}

fn write_files(out: &mut impl Write, files: &[AttachedBytes]) -> io::Result<()> {
    if files.is_empty() {
        return Ok(());
    }
    let files: Vec<String> = files.iter().map(|file| escape(&file.to_string())).collect();
    writeln!(out, "\nAttached: {}", files.join("; "))
}

/// Returns a text as one line with Markdown characters escaped.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in printable(&text.replace(['\n', '\r'], " ")).chars() {
        if c.is_ascii_punctuation() && !matches!(c, ',' | '.' | ':' | '-' | '(' | ')' | '\'' | '/')
        {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}

/// Closes the last code fence of a text, so that it cannot extend into the next message.
fn close_fence(text: &str) -> String {
    let mut open: Option<(char, usize)> = None;
    for line in text.lines() {
        let line = line.trim_start_matches(' ');
        let Some(mark) = line.chars().next().filter(|mark| matches!(mark, '`' | '~')) else {
            continue;
        };
        let length = line.chars().take_while(|c| *c == mark).count();
        let rest = &line[length..];
        match open {
            None if length >= 3 && !(mark == '`' && rest.contains('`')) => {
                open = Some((mark, length));
            }
            Some((opened, least))
                if opened == mark && length >= least && rest.trim().is_empty() =>
            {
                open = None;
            }
            _ => {}
        }
    }
    let text = text.trim_end_matches('\n');
    match open {
        Some((mark, length)) => format!("{text}\n{}", mark.to_string().repeat(length)),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_open_fence_is_closed() {
        for (text, closed) in [
            ("plain\n", "plain"),
            ("```rust\nlet a;\n```\n", "```rust\nlet a;\n```"),
            ("````\n```\n", "````\n```\n````"),
            ("~~~\n```", "~~~\n```\n~~~"),
            ("``` not a fence `", "``` not a fence `"),
        ] {
            assert_eq!(close_fence(text), closed);
        }
    }

    #[test]
    fn names_cannot_add_structure() {
        assert_eq!(escape("a\n# b *c*"), "a \\# b \\*c\\*");
    }
}
