//! `convoke sessions show`: shows a conversation, a turn, or the exact texts that were sent.

use std::fmt::Write as _;
use std::io::{self, Write};

use clap::Args;
use convoke_changes::Author;
use convoke_core::ledger::Table;
use convoke_protocol::id::{SessionId, TurnId};
use convoke_protocol::request::RequestRecord;
use convoke_protocol::turn::{Attempt, Turn};
use convoke_session::rows::each_turn;
use convoke_session::running_text::AttemptProgress;
use convoke_session::sent_turn::requests_of;
use convoke_session::{AnyStore, SentTurn};

use super::cache;
use super::conversation;
use super::sent::{self, Showing};
use super::turn::{find_turn, read_sent};
use super::window;
use super::{ShownSession, heading, parse_turn, write_json};
use crate::conversation::change_recorder::changes_of;
use crate::figures::{dollars, number};
use crate::host_environment;
use crate::other_programs::{HomeArgument, is_named};
use crate::outcome::{Outcome, UsageError};
use crate::requests::{RequestSelection, remarks, tokens};
use crate::terminal::{Paint, ledger_style, page, printable, stderr, stdout};

#[derive(Debug, Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    pub(super) which: ShownSession,
    #[command(flatten)]
    pub(super) home: HomeArgument,
    /// List the requests to the model; with --json, their windows
    #[arg(long, conflicts_with_all = ["turn", "prompt", "request"])]
    pub(super) requests: bool,
    /// Show one turn
    #[arg(long, value_name = "N", value_parser = parse_turn)]
    turn: Option<TurnId>,
    /// The attempt of the turn [default: the last]
    #[arg(long, value_name = "N", requires = "turn")]
    attempt: Option<u32>,
    /// Show the prompt of the turn byte for byte; without --turn, all prompts with headings
    #[arg(long)]
    prompt: bool,
    /// Show the requests to the model byte for byte: those of the turn, request N, or without --turn all
    #[arg(
        long,
        value_name = "N",
        num_args = 0..=1,
        default_missing_value = "all",
        conflicts_with_all = ["prompt", "system", "events"]
    )]
    pub(super) request: Option<RequestSelection>,
    /// Show how much of each request the provider's cache could serve, how much it served, and what
    /// changed
    #[arg(long, conflicts_with_all = ["attempt", "prompt", "system", "events", "partial", "request", "explain"])]
    pub(super) cache: bool,
    /// Show everything that the model was given in each request of the turn; with --json, the windows
    #[arg(long, requires = "turn", conflicts_with_all = ["prompt", "request", "cache", "explain"])]
    window: bool,
    /// Show the system text
    #[arg(long, conflicts_with = "prompt", requires = "turn")]
    system: bool,
    /// Show the ledger: the source of every byte, and what was left out
    #[arg(long)]
    pub(super) explain: bool,
    /// Show the events of the agent, one per line
    #[arg(long, requires = "turn", conflicts_with_all = ["prompt", "system", "explain"])]
    events: bool,
    /// Show an unfinished reply, byte for byte
    #[arg(long, requires = "turn", conflicts_with_all = ["prompt", "system", "explain", "events"])]
    partial: bool,
    /// Show what the turn changed in the working directory, as a diff; of another program's session, all that it changed
    #[arg(long, conflicts_with_all = ["prompt", "system", "explain", "events", "partial", "request"])]
    pub(super) changes: bool,
    /// Write JSON
    #[arg(long)]
    pub(super) json: bool,
}

impl Arguments {
    /// Returns whether the session is another program's, which no store has.
    pub(super) fn is_of_another_program(&self) -> bool {
        // The home of a window is that of the turn's program.
        let is_elsewhere = self.home.directory.is_some() && !self.window;
        is_elsewhere || is_named(&self.which.id)
    }
}

pub(super) async fn run(arguments: &Arguments, store: &AnyStore) -> anyhow::Result<Outcome> {
    let id = arguments.which.find(store).await?;
    let Arguments { json, explain, .. } = *arguments;
    if arguments.changes && (json || arguments.turn.is_none()) {
        let problem = "--changes needs --turn N, and has no JSON; `convoke changes --json` has";
        return Err(UsageError(problem.to_owned()).into());
    }
    if let Some(turn) = arguments.turn.filter(|_| arguments.changes) {
        let turn = find_turn(store, id, turn).await?.id;
        let changes = changes_of(&host_environment::of_process()?);
        let mut records = changes.records(&id.to_string())?;
        records.retain(|record| record.turn.turn == turn.0 && record.by == Author::Agent);
        crate::commands::changes::write_diff(&changes, &records, turn)?;
        return Ok(Outcome::Done);
    }
    if arguments.cache {
        let turn = arguments.turn.map(|turn| turn.0);
        cache::show(store, id, turn, json).await?;
        return Ok(Outcome::Done);
    }
    if let Some(turn) = arguments.turn.filter(|_| arguments.window) {
        let turn = find_turn(store, id, turn).await?;
        window::show(store, id, &turn, arguments.attempt, &arguments.home, json).await?;
        return Ok(Outcome::Done);
    }
    match (arguments.turn, arguments.request) {
        (Some(turn), Some(wanted)) => {
            let turn = find_turn(store, id, turn).await?;
            let which = (arguments.attempt, wanted);
            sent::show_turn(store, id, &turn, which, Showing { json, explain }).await?;
        }
        (None, Some(RequestSelection::All)) => {
            sent::show_all(store, id, Showing { json, explain }).await?;
        }
        (None, Some(RequestSelection::One(_))) => {
            return Err(UsageError("--request=N needs --turn N".to_owned()).into());
        }
        (None, None) if explain => {
            return Err(UsageError("--explain needs --turn N, or --request".to_owned()).into());
        }
        (Some(turn), None) => show_turn(arguments, store, id, turn).await?,
        (None, None) if arguments.prompt => show_all_prompts(arguments, store, id).await?,
        (None, None) if json => conversation::write_json(store, id).await?,
        (None, None) => conversation::write_text(store, id).await?,
    }
    Ok(Outcome::Done)
}

async fn show_turn(
    arguments: &Arguments,
    store: &AnyStore,
    session: SessionId,
    turn: TurnId,
) -> anyhow::Result<()> {
    let sent = read_sent(store, session, turn, arguments.attempt).await?;
    if arguments.events || arguments.partial {
        let AttemptProgress { reply, events } = sent.read_progress(store, session).await?;
        let (text, what) = if arguments.events {
            (events, "no events are stored")
        } else {
            (reply, "no unfinished reply; a finished one is a message")
        };
        if text.is_empty() {
            return Err(UsageError(format!("turn {turn}: {what}")).into());
        }
        return Ok(write_exactly(&text)?);
    }
    if arguments.json {
        write_json(&sent.json()?)?;
        return Ok(());
    }
    if arguments.prompt {
        write_exactly(&sent.prompt)?;
    } else if arguments.system {
        write_exactly(sent.system.as_deref().unwrap_or_default())?;
    } else if !arguments.explain {
        let requests = requests_of(store, session, &sent.turn, arguments.attempt).await?;
        let paint = Paint::for_stream(&stdout());
        write!(stdout(), "{}{}", describe(&sent, paint), describe_requests(&requests))?;
    }
    if arguments.explain {
        let ledger = &sent.ledger;
        if arguments.prompt || arguments.system {
            let mut err = stderr();
            let style = ledger_style(&err);
            write!(err, "{}", Table { ledger, style })?;
        } else {
            page(&Table { ledger, style: ledger_style(&stdout()) }.to_string())?;
        }
    }
    Ok(())
}

/// Writes a text byte for byte; on a terminal, ends its last line.
pub(super) fn write_exactly(text: &str) -> io::Result<()> {
    let mut out = stdout().verbatim();
    out.write_all(text.as_bytes())?;
    if out.is_terminal() && !text.ends_with('\n') {
        out.write_all(b"\n")?;
    }
    out.flush()
}

fn describe(sent: &SentTurn, paint: Paint) -> String {
    let Turn { id, member, answers, state, problem, .. } = &sent.turn;
    let mut text = format!(
        "{}: {member} answers message {answers}: {}\n",
        paint.strong(&format!("turn {id}")),
        state.as_str()
    );
    if let Some(problem) = problem {
        let _ = writeln!(text, "  {}", paint.bad(&printable(problem)));
    }
    for Attempt { number: attempt, engine, prompt, system, ended, .. } in &sent.attempts {
        let _ = writeln!(text, "  attempt {attempt}, engine {engine}");
        let _ = writeln!(text, "    prompt  {:>9} bytes  {}", number(prompt.bytes), prompt.hash);
        if let Some(system) = system {
            let _ =
                writeln!(text, "    system  {:>9} bytes  {}", number(system.bytes), system.hash);
        }
        match ended {
            None => text += "    not ended; --partial shows the reply so far\n",
            Some(ended) => {
                let _ = writeln!(text, "    ended   {}", ended.verdict);
                if !ended.verdict.is_sent() {
                    text += "    sent            0 bytes\n";
                }
                if let Some(usage) = &ended.usage {
                    let _ = writeln!(text, "    counted {}", tokens(usage));
                }
                if let Some(cost) = ended.cost_usd {
                    let _ = writeln!(text, "    cost    {}", dollars(cost));
                }
                if let Some(partial) = ended.partial {
                    let bytes = number(partial.bytes);
                    let _ = writeln!(
                        text,
                        "    partial {bytes} bytes of a reply; --attempt {attempt} --partial shows them"
                    );
                }
            }
        }
    }
    text
}

/// Describes the requests of the attempt.
fn describe_requests(requests: &[RequestRecord<()>]) -> String {
    let mut text = String::new();
    for request in requests {
        let _ = writeln!(text, "  {}", request.title());
        for remark in remarks(request) {
            let _ = writeln!(text, "    {remark}");
        }
    }
    text
}

/// Shows the texts of every turn, each with a heading.
async fn show_all_prompts(
    arguments: &Arguments,
    store: &AnyStore,
    session: SessionId,
) -> anyhow::Result<()> {
    let paint = Paint::for_stream(&stdout());
    let mut turns = Vec::new();
    each_turn(store, session, |turn| {
        turns.extend(Some(turn).filter(|turn| turn.attempts > 0));
        anyhow::Ok(())
    })
    .await?;
    for turn in &turns {
        let sent = read_sent(store, session, turn.id, None).await?;
        if arguments.json {
            write_json(&sent.json()?)?;
            continue;
        }
        let mut out = stdout();
        let texts = [("system text", sent.system.as_deref()), ("prompt", Some(&*sent.prompt))];
        for (name, text) in texts.into_iter().filter_map(|(name, text)| Some((name, text?))) {
            let Turn { id, member, .. } = turn;
            let bytes = number(text.len() as u64);
            let title = format!("──── turn {id}, {member}: {name}, {bytes} bytes");
            writeln!(out, "{}", paint.strong(&heading(&title)))?;
            out.write_all(text.as_bytes())?;
            writeln!(out, "{}", if text.ends_with('\n') { "" } else { "\n" })?;
        }
    }
    Ok(())
}
