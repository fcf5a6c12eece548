//! `convoke sessions search`.

use std::collections::HashMap;
use std::io::Write as _;

use clap::Args;
use convoke_protocol::id::SessionId;
use convoke_protocol::session::Summary;
use convoke_session::{AnyStore, Store as _};
use serde_json::json;

use super::list::age;
use super::{short, write_json};
use crate::conversation::sessions::WorkingDirectory;
use crate::host_environment;
use crate::outcome::{Outcome, UsageError};
use crate::terminal::{Paint, printable, stdout};

/// The default of `--limit`.
const LIMIT: usize = 20;

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// The words to search for: a message must contain a word that begins with each of them
    #[arg(value_name = "WORDS", required = true)]
    words: Vec<String>,
    /// Search the sessions of every directory
    #[arg(long)]
    all: bool,
    /// The maximum number of messages to show
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
        return Err(UsageError("no search words given".to_owned()).into());
    }
    let here = WorkingDirectory::find(&host_environment::of_process()?);
    let sessions = store.sessions().await?;
    let sessions: HashMap<SessionId, &Summary> =
        sessions.iter().map(|session| (session.id, session)).collect();
    let of_here = sessions.values().filter(|session| here.has(session)).map(|session| session.id);
    let of_here: Vec<SessionId> = of_here.collect();
    let within = (!arguments.all).then_some(&*of_here);
    // One more than is shown, to find out whether there are more.
    let mut found = store.search(&words, within, arguments.limit.saturating_add(1)).await?;
    let has_more = found.len() > arguments.limit;
    found.truncate(arguments.limit);
    if arguments.json {
        write_json(&json!({"version": 1, "messages": found, "isComplete": !has_more}))?;
        return Ok(Outcome::Done);
    }
    let mut out = stdout();
    let paint = Paint::for_stream(&out);
    if found.is_empty() {
        let wider = if arguments.all { "" } else { "; `--all` searches other directories too" };
        writeln!(out, "No message contains these words{wider}.")?;
    }
    for message in &found {
        let Some(session) = sessions.get(&message.session) else { continue };
        let age = age(store.now().since(session.updated_at));
        let place = format!("message {}  {age}", message.number);
        writeln!(out, "{}  {}", paint.strong(&short(session.id)), paint.faint(&place))?;
        writeln!(out, "  {}", printable(&message.excerpt))?;
    }
    if has_more {
        writeln!(out, "More messages contain these words; `--limit` shows more.")?;
    }
    Ok(Outcome::Done)
}
