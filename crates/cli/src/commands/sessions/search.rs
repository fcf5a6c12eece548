//! `convoke sessions search`.

use std::collections::HashMap;
use std::io::Write as _;

use clap::Args;
use convoke_agent::id::now;
use convoke_session::{AnyStore, SessionId, Store as _, Summary};
use serde_json::json;

use super::list::age;
use super::{short, write_json};
use crate::conversation::sessions::Here;
use crate::host_environment;
use crate::outcome::{Outcome, UsageError};
use crate::terminal::{Paint, printable, stdout};

/// The number of messages that are shown unless `--limit` says otherwise.
const LIMIT: usize = 20;
/// The most messages that are looked at when those of other directories are left out.
const MOST: usize = 10_000;

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// The words to look for: a message has to contain words that begin with each of them
    #[arg(value_name = "WORDS", required = true)]
    words: Vec<String>,
    /// Search the sessions of every directory
    #[arg(long)]
    all: bool,
    /// The most messages to show
    #[arg(long, value_name = "N", default_value_t = LIMIT)]
    limit: usize,
    /// Write JSON
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(arguments: &Arguments, store: &AnyStore) -> anyhow::Result<Outcome> {
    let words = arguments.words.iter().flat_map(|words| words.split_whitespace());
    let words: Vec<String> =
        words.filter(|word| word.contains(char::is_alphanumeric)).map(str::to_owned).collect();
    if words.is_empty() {
        return Err(UsageError("name a word to look for".to_owned()).into());
    }
    let here = Here::find(&host_environment::of_process()?);
    let sessions = store.sessions().await?;
    let sessions: HashMap<SessionId, &Summary> =
        sessions.iter().map(|session| (session.id, session)).collect();
    let limit = if arguments.all { arguments.limit } else { MOST };
    let mut found = Vec::new();
    for message in store.search(&words, limit).await? {
        let Some(session) = sessions.get(&message.session) else { continue };
        if arguments.all || here.has(session) {
            found.push((*session, message));
        }
    }
    found.truncate(arguments.limit);
    if arguments.json {
        let found: Vec<_> = found.iter().map(|(_, message)| message).collect();
        write_json(&json!({"version": 1, "messages": found}))?;
        return Ok(Outcome::Done);
    }
    let mut out = stdout();
    let paint = Paint::for_stream(&out);
    if found.is_empty() {
        let wider = if arguments.all { "" } else { "; `--all` searches other directories too" };
        writeln!(out, "No message has these words{wider}.")?;
    }
    for (session, message) in &found {
        let age = age(now().since(session.updated_at));
        let place = format!("message {}  {age}", message.number);
        writeln!(out, "{}  {}", paint.strong(&short(session.id)), paint.faint(&place))?;
        writeln!(out, "  {}", printable(&message.excerpt))?;
    }
    Ok(Outcome::Done)
}
