//! `convoke sessions search`.

use std::collections::HashMap;
use std::io::Write as _;
use std::path::PathBuf;

use clap::Args;
use convoke_open::Catalog;
use convoke_open::search::{Hit, Query, is_below, search};
use convoke_protocol::id::{Millis, SessionId};
use convoke_protocol::session::Summary;
use convoke_session::{AnyStore, Store as _};
use jiff::civil::Date;
use jiff::tz::TimeZone;
use serde_json::json;

use super::list::{OWN, tell};
use super::write_json;
use crate::conversation::sessions::WorkingDirectory;
use crate::figures::age;
use crate::host_environment;
use crate::other_programs::{HomeArgument, open_index, tell_without_index, with_catalog};
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
    /// Search only the sessions of this program; `convoke` for its own
    #[arg(long, value_name = "PROGRAM")]
    agent: Option<String>,
    /// Search only sessions of other programs in which a file of this name was changed
    #[arg(long, value_name = "NAME")]
    file: Option<String>,
    /// Search only the sessions of other programs in this directory and below
    #[arg(long, value_name = "DIR")]
    project: Option<PathBuf>,
    /// Search only what sessions of other programs have from this day on: 2026-11-01
    #[arg(long, value_name = "DAY")]
    since: Option<Date>,
    /// Search only what they have up to this day
    #[arg(long, value_name = "DAY")]
    until: Option<Date>,
    /// Search the outputs of tools in other programs' sessions too
    #[arg(long)]
    deep: bool,
    #[command(flatten)]
    home: HomeArgument,
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
    let is_wanted = |program| arguments.agent.as_deref().is_none_or(|wanted| wanted == program);
    let is_of_others = arguments.file.is_some()
        || arguments.project.is_some()
        || arguments.since.is_some()
        || arguments.until.is_some();
    let is_own = is_wanted(OWN) && arguments.home.is_own() && !is_of_others;
    let mut found = if is_own {
        store.search(&words, within, arguments.limit.saturating_add(1)).await?
    } else {
        Vec::new()
    };
    let mut has_more = found.len() > arguments.limit;
    found.truncate(arguments.limit);
    let mut others = search_others(arguments, &words, &here)?;
    has_more |= found.len() + others.len() > arguments.limit;
    others.truncate(arguments.limit - found.len());
    if arguments.json {
        write_json(
            &json!({"version": 1, "messages": found, "others": others, "isComplete": !has_more}),
        )?;
        return Ok(Outcome::Done);
    }
    let mut out = stdout();
    let paint = Paint::for_stream(&out);
    if found.is_empty() && others.is_empty() {
        let wider = if arguments.all { "" } else { "; `--all` searches other directories too" };
        writeln!(out, "No message contains these words{wider}.")?;
    }
    for message in &found {
        let Some(session) = sessions.get(&message.session) else { continue };
        let age = age(store.now().since(session.updated_at));
        let place = format!("message {}  {age}", message.number);
        writeln!(out, "{}  {}", paint.strong(&session.id.short()), paint.faint(&place))?;
        writeln!(out, "  {}", printable(&message.excerpt))?;
    }
    for hit in &others {
        let id: String = hit.session.chars().take(8).collect();
        let name = format!("{}:{}", hit.agent, printable(&id));
        let age = hit.at.map_or_else(String::new, |at| age(store.now().since(at)));
        let place = format!("{}  {age}  {}", hit.kind, printable(&hit.source.to_string()));
        writeln!(out, "{}  {}", paint.strong(&name), paint.faint(&place))?;
        writeln!(out, "  {}", printable(&hit.excerpt))?;
    }
    if has_more {
        writeln!(out, "More messages contain these words; `--limit` shows more.")?;
    }
    Ok(Outcome::Done)
}

/// Searches the sessions of other programs; those of the session that changed last come first.
fn search_others(
    arguments: &Arguments,
    words: &[String],
    here: &WorkingDirectory,
) -> anyhow::Result<Vec<Hit>> {
    let project = arguments.project.as_ref().map(std::path::absolute).transpose()?;
    let query = Query {
        words: words.iter().map(|word| word.to_lowercase()).collect(),
        is_deep: arguments.deep,
        file: arguments.file.clone(),
        since: arguments.since.map(midnight).transpose()?,
        until: arguments.until.map(|day| midnight(day.tomorrow()?)).transpose()?,
    };
    let mut index = open_index(&arguments.home)?;
    let (hits, problems) = with_catalog(&arguments.home, |catalog| {
        let mut found = catalog.list();
        if let Some(index) = index.as_mut().filter(|_| found.problems.is_empty()) {
            index.prune(&found.sessions)?;
        }
        found.sessions.retain(|session| {
            let is_here = || session.cwd.as_deref().is_some_and(|cwd| here.is_near(cwd));
            let is_wanted = arguments.agent.as_deref().is_none_or(|it| it == session.program);
            is_wanted
                && match &project {
                    Some(project) => is_below(session, project),
                    None => arguments.all || !arguments.home.is_own() || is_here(),
                }
        });
        let Catalog { readers, .. } = catalog;
        let limit = arguments.limit.saturating_add(1);
        let sessions = found.sessions.clone();
        search(readers, sessions, index.as_mut(), &query, limit).or_else(|error| {
            tell_without_index(&error)?;
            Ok(search(readers, found.sessions, None, &query, limit)?)
        })
    })?;
    tell(&problems)?;
    Ok(hits)
}

fn midnight(day: Date) -> anyhow::Result<Millis> {
    Ok(Millis(day.to_zoned(TimeZone::system())?.timestamp().as_millisecond()))
}
