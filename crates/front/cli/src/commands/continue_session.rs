//! `convoke continue`: goes on with a session with another agent.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;
use convoke_agent::config::{Catalog as Agents, Definition};
use convoke_core::figures::thousands;
use convoke_core::ledger::{Table, estimate_tokens};
use convoke_core::name::{nearest, shell_word};
use convoke_files::FileKind;
use convoke_files::beneath::Beneath;
use convoke_inspect::HostEnvironment;
use convoke_open::handover::{
    self, BudgetTooSmall, FileToday, Handover, History, Options, OwnLog, Tokens,
};
use convoke_open::prices::context_window;
use convoke_protocol::id::EventNumber;
use convoke_redact::Redactor;
use convoke_session::Store as _;
use convoke_source::Kept;
use serde_json::json;

use crate::commands::run::{Arguments as RunArguments, run as run_conversation};
use crate::commands::sessions::bad_name;
use crate::conversation::alone::Alone;
use crate::conversation::home::Home;
use crate::conversation::sessions::find;
use crate::conversation::store::open_store_for_reading;
use crate::conversation::{ConversationOptions, Rehearse};
use crate::diagnostics::Deny;
use crate::host_environment;
use crate::other_programs::{
    HomeArgument, is_named, redactor, resume_command, short_name, with_catalog,
};
use crate::outcome::{Outcome, UsageError};
use crate::program;
use crate::terminal::{ledger_style, printable, stderr, stdout, write_json};

/// The number of events per read.
const PAGE: usize = 1_000;

/// Go on with a session with another agent, in the session's directory.
///
/// The agent gets a handover: what the person wrote, what was said and done last, the answers, plans and edits, within a
/// budget, with an account of what was left out. Nothing is written into the files of other programs.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  convoke continue claude:3f2a --with codex \"Finish the migration\"
  convoke continue last --with gemini
  convoke continue claude:3f2a --print | pbcopy
  convoke continue claude:3f2a --with codex --dry-run --explain")]
pub struct Arguments {
    /// The session: `claude:ID`, a path to its file, an id of Convoke's own, or `last`
    #[arg(value_name = "SESSION")]
    session: String,
    /// What to do next; without it the agent goes on with your last message
    #[arg(value_name = "MESSAGE")]
    message: Option<String>,
    /// The agent: claude, codex, gemini, or any other that a team file can name
    #[arg(long = "with", value_name = "AGENT")]
    agent: Option<String>,
    #[command(flatten)]
    home: HomeArgument,
    /// The size of the handover in tokens [default: a tenth of the agent's window, 20,000 if it is unknown]
    #[arg(long, value_name = "TOKENS", value_parser = clap::value_parser!(u64).range(1..))]
    budget: Option<u64>,
    /// Work in this directory instead of the session's
    #[arg(long)]
    here: bool,
    /// Print the handover instead of starting a session
    #[arg(long)]
    print: bool,
    /// Show what would be started instead of starting it
    #[arg(long)]
    dry_run: bool,
    /// Show the ledger of the handover: the source of every byte, and what was left out
    #[arg(long)]
    explain: bool,
    /// Write JSON: the handover and its ledger with --print or --dry-run, else one event per line
    #[arg(long)]
    json: bool,
    /// Run without an account; see `convoke run`
    #[arg(long, value_name = "WITH", num_args = 0..=1, require_equals = true, default_missing_value = "stand-in")]
    rehearse: Option<Rehearse>,
    #[command(flatten)]
    deny: Deny,
}

/// A session that was read.
struct ReadSession {
    history: History,
    /// The session on the command line: `claude:3f2a`, or an id.
    name: String,
    directory: Option<PathBuf>,
    /// The program that the session is of, and the command with which it goes on by itself.
    program: &'static str,
    own_resume: Option<String>,
}

/// Runs `convoke continue`.
pub fn run(arguments: Arguments) -> anyhow::Result<Outcome> {
    let host = host_environment::of_process()?;
    let agents = Home::new(&host).read_catalog()?;
    let agent = arguments.agent.as_deref().map(|name| known_agent(name, &agents)).transpose()?;
    let budget = arguments.budget.map_or_else(|| handover::budget_for(window(agent)), Tokens);
    let session = read_session(&arguments.session, &arguments.home, budget, &host)?;
    if session.history.is_empty() {
        let name = &session.name;
        return Err(
            UsageError(format!("{name} has no messages: there is nothing to continue")).into()
        );
    }
    offer_own_resume(&arguments, agent, &session)?;
    let directory = if arguments.print && session.directory.is_none() {
        host.cwd.clone()
    } else {
        working_directory(&arguments, &session, &host)?
    };
    let handover = write_handover(&arguments, &session, budget, &directory)?;
    if arguments.print || arguments.dry_run {
        show(&arguments, &handover, &session, &directory)?;
        return Ok(Outcome::Done);
    }
    if arguments.explain {
        let mut err = stderr();
        write!(err, "{}", Table { ledger: &handover.ledger, style: ledger_style(&err) })?;
    }
    start(arguments, handover, directory)
}

fn known_agent<'c>(name: &str, agents: &'c Agents) -> Result<&'c Definition, UsageError> {
    agents.get(name).ok_or_else(|| {
        let hint = nearest(name, agents.iter().map(|(name, _)| name));
        let hint = hint.map_or_else(String::new, |it| format!("; did you mean `{it}`?"));
        UsageError(format!("no agent is called `{name}`{hint} (`convoke docs agents`)"))
    })
}

/// Returns the window of an agent in tokens, if it is known.
fn window(agent: Option<&Definition>) -> Option<u64> {
    let agent = agent?;
    agent.api.context_window.or_else(|| context_window(agent.model.as_deref()?))
}

/// Returns what a session was asked for and did, within a number of tokens, and its program: of a session of Convoke's own the agent
/// of its only member.
pub(in crate::commands) fn told(
    name: &str,
    tokens: u64,
    host: &HostEnvironment,
) -> anyhow::Result<(String, String)> {
    let budget = Tokens(tokens);
    let session = read_session(name, &HomeArgument::default(), budget, host)?;
    let today = |_: &str| FileToday::Unknown;
    let options = Options { budget, message: None, shown_by: "", today: &today };
    let handover = handover::write(&session.history, &options)?;
    Ok((session.program.to_owned(), handover.text))
}

fn read_session(
    name: &str,
    home: &HomeArgument,
    budget: Tokens,
    host: &HostEnvironment,
) -> anyhow::Result<ReadSession> {
    let redactor = redactor(host);
    if home.directory.is_some() || is_named(name) {
        return read_foreign(name, home, budget, &redactor);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(read_own(name, budget, &redactor, host))
}

fn read_foreign(
    name: &str,
    home: &HomeArgument,
    budget: Tokens,
    redactor: &Redactor,
) -> anyhow::Result<ReadSession> {
    with_catalog(home, |catalog| {
        let session = catalog.find(name).map_err(bad_name)?;
        let name = short_name(&session);
        let mut history = History::new(&name, budget, redactor);
        let mut reader = catalog.open(&session, Kept::Shown)?;
        reader.advance(&mut history)?;
        let found = reader.report().to_string();
        if !found.is_empty() {
            writeln!(stderr(), "{}", printable(&found))?;
        }
        let directory = history.directory().or(session.cwd.as_deref()).map(PathBuf::from);
        let own_resume = resume_command(&session);
        Ok(ReadSession { history, name, directory, program: session.program, own_resume })
    })
}

async fn read_own(
    written: &str,
    budget: Tokens,
    redactor: &Redactor,
    host: &HostEnvironment,
) -> anyhow::Result<ReadSession> {
    let store = open_store_for_reading(host).await?;
    let id = find(&store, written).await?;
    let name = id.short();
    let mut log = OwnLog::new(History::new(format!("convoke:{name}"), budget, redactor));
    let mut after = EventNumber::default();
    loop {
        let events = store.events(id, after, PAGE).await?;
        let Some(last) = events.last().and_then(|event| event.number) else { break };
        for event in &events {
            log.add(event);
        }
        after = last;
    }
    store.close().await;
    let directory = log.history.directory().map(PathBuf::from);
    let own_resume = format!("{} run --session {name}{}", program::name(), program::store_option());
    let history = log.history;
    Ok(ReadSession { history, name, directory, program: "convoke", own_resume: Some(own_resume) })
}

/// Says that a program can go on with its own session; another agent must be named.
fn offer_own_resume(
    arguments: &Arguments,
    agent: Option<&Definition>,
    session: &ReadSession,
) -> anyhow::Result<()> {
    let ReadSession { program, own_resume, directory, .. } = session;
    let at = directory.as_deref().filter(|it| it.is_dir() && *program != "convoke");
    let at = at.map(|it| format!("cd {} && ", shell_word(&it.to_string_lossy())));
    let own = own_resume.as_ref().map(|it| format!("{}{it}", at.unwrap_or_default()));
    if agent.is_none() && !arguments.print {
        let own = own.map_or_else(String::new, |own| {
            format!("; {program} itself goes on with it by `{own}`")
        });
        return Err(UsageError(format!("say who goes on with it: --with AGENT{own}")).into());
    }
    let target = agent.and_then(Definition::vendor).map(|vendor| vendor.facts().command);
    if let Some(own) =
        own.filter(|_| target == Some(*program) || arguments.agent.as_deref() == Some(*program))
    {
        writeln!(
            stderr(),
            "{program} can go on with its own session, with all of its history: `{own}`"
        )?;
    }
    Ok(())
}

fn working_directory(
    arguments: &Arguments,
    session: &ReadSession,
    host: &HostEnvironment,
) -> Result<PathBuf, UsageError> {
    let name = &session.name;
    match &session.directory {
        _ if arguments.here => Ok(host.cwd.clone()),
        Some(directory) if directory.is_dir() => Ok(directory.clone()),
        // A text to paste needs no directory.
        Some(directory) if arguments.print => Ok(directory.clone()),
        Some(directory) => Err(UsageError(format!(
            "the directory of {name} is gone: {}; go to the one that replaces it and add --here",
            directory.display()
        ))),
        None => Err(UsageError(format!(
            "the file of {name} does not tell its directory; go there and add --here"
        ))),
    }
}

fn write_handover(
    arguments: &Arguments,
    session: &ReadSession,
    budget: Tokens,
    directory: &Path,
) -> anyhow::Result<Handover> {
    let root = Beneath::open(directory).ok();
    let original = session.directory.as_deref();
    let today =
        |path: &str| root.as_ref().map_or(FileToday::Gone, |root| file_today(root, original, path));
    let shown_by = format!("convoke sessions show {}", session.name);
    let message = arguments.message.as_deref().filter(|text| !text.trim().is_empty());
    let options = Options { budget, message, shown_by: &shown_by, today: &today };
    handover::write(&session.history, &options).map_err(|error: BudgetTooSmall| {
        UsageError(format!("{error}; raise --budget, or shorten the message")).into()
    })
}

/// Reads a file of the session's directory as it is today. Files elsewhere are not read: the session names them, not the user.
pub(in crate::commands) fn file_today(
    root: &Beneath,
    original: Option<&Path>,
    path: &str,
) -> FileToday {
    let path = Path::new(path);
    let path = original.and_then(|original| path.strip_prefix(original).ok()).unwrap_or(path);
    let Ok(file) = root.file(path) else { return FileToday::Unknown };
    match file.read(FileKind::ClientFile) {
        Ok(None) => FileToday::Gone,
        Ok(Some(bytes)) => String::from_utf8(bytes).map_or(FileToday::Unknown, FileToday::Text),
        Err(_) => FileToday::Unknown,
    }
}

fn show(
    arguments: &Arguments,
    handover: &Handover,
    session: &ReadSession,
    directory: &Path,
) -> anyhow::Result<()> {
    let Handover { text, ledger } = handover;
    if arguments.json {
        write_json(&json!({
            "session": session.name, "from": session.program, "with": arguments.agent,
            "directory": directory.to_string_lossy(), "text": text, "ledger": ledger,
        }))?;
        return Ok(());
    }
    let mut out = stdout();
    if arguments.print {
        writeln!(out, "{text}")?;
        if arguments.explain {
            let mut err = stderr();
            write!(err, "{}", Table { ledger, style: ledger_style(&err) })?;
        }
        return Ok(());
    }
    let bytes = text.len() as u64;
    let agent = arguments.agent.as_deref().unwrap_or_default();
    writeln!(
        out,
        "{agent} would go on with {} in {}; the handover has {} bytes, about {} tokens",
        session.name,
        printable(&directory.to_string_lossy()),
        thousands(bytes),
        thousands(estimate_tokens(bytes)),
    )?;
    if arguments.explain {
        write!(out, "{}", Table { ledger, style: ledger_style(&out) })?;
    }
    Ok(())
}

/// Starts an ordinary session whose first message is the handover.
fn start(arguments: Arguments, handover: Handover, directory: PathBuf) -> anyhow::Result<Outcome> {
    let Arguments { agent, rehearse, json, deny, .. } = arguments;
    let alone = agent.map(|agent| Box::new(Alone { agent, directory }));
    let conversation = ConversationOptions { rehearse, alone, ..ConversationOptions::default() };
    run_conversation(&RunArguments {
        task: Vec::new(),
        conversation,
        handover: Some(handover.text),
        to: Vec::new(),
        retry: false,
        page: false,
        json,
        deny,
    })
}
