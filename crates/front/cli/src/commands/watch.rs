//! `convoke watch`: runs a coding agent as its user would, with every request on record.

use std::ffi::OsString;
use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use convoke_agent::process::guardian::Guardian;
use convoke_agent::thread::ThreadStore as _;
use convoke_agent::turn_input::Trust;
use convoke_core::NewMessage;
use convoke_inspect::HostEnvironment;
use convoke_inspect::record::{WatchError, Watched, WatchedProgram, WatchingAgent};
use convoke_open::prices::{self, Charged, Cost, OwnPrices};
use convoke_protocol::event::Event;
use convoke_protocol::id::{SessionId, ThreadId};
use convoke_protocol::request::RequestRecord;
use convoke_protocol::session::NewSession;
use convoke_protocol::usage::Usage;
use convoke_redact::Redactor;
use convoke_server::{Scope, Server, Token};
use convoke_session::{AnyStore, Coordinator, MemberAgent, Store as _, TeamAgents};
use convoke_team::{Team, quantity};
use tempfile::TempDir;
use tokio::task::JoinHandle;

use super::serve::machine::Machine;
use super::serve::opening;
use super::serve::other_sessions::Others;
use crate::conversation::store::{OWN_FILE, open_url, store_url};
use crate::conversation::{self, project};
use crate::figures::{count, dollars};
use crate::host_environment;
use crate::outcome::{Outcome, UsageError, described};
use crate::program;
use crate::requests::tokens;
use crate::terminal::{is_quiet, printable, stderr};
use crate::user_settings::UserSettings;

/// Run a coding agent as you would, with every request on record.
///
/// The program has your terminal, your sign-in and your settings; only the address of its model leads through Convoke, which
/// forwards every request unchanged and stores it on this machine. The exit code is the program's.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  convoke watch -- claude
  convoke watch --open -- codex resume --last
  convoke watch --name \"the migration\" -- gemini")]
pub struct Arguments {
    /// The name of the session
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Show the requests in your browser while the program runs
    #[arg(long)]
    open: bool,
    /// The room for the requests; beyond it, the bodies of the oldest are dropped
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = parse_size)]
    max_disk: u64,
    /// The program (claude, codex or gemini) and its arguments
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        required = true,
        value_name = "COMMAND"
    )]
    command: Vec<OsString>,
}

/// The time limit of the one turn, which has none.
const NO_LIMIT: Duration = Duration::from_hours(24 * 365 * 10);

/// The person of the session.
const PERSON: &str = "user";

/// Runs `convoke watch`.
pub fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    let runtime = conversation::runtime()?;
    runtime.block_on(Box::pin(watch(arguments)))
}

async fn watch(arguments: &Arguments) -> anyhow::Result<Outcome> {
    let host_environment = host_environment::of_process()?;
    if store_url(&host_environment)? != OWN_FILE {
        let why = "watch keeps its records on this machine only, and the store is one that several machines share: \
                   add `--store sqlite:`";
        return Err(UsageError(why.to_owned()).into());
    }
    let guardian = Guardian::this_program()?;
    let program = WatchedProgram::prepare(&arguments.command, &host_environment, guardian).await;
    let program = program.map_err(|error| match error {
        WatchError::Private(_) => anyhow::Error::from(error),
        _ => UsageError(described(&error.into())).into(),
    })?;
    let store = open_url(&host_environment, OWN_FILE).await?;
    let watched = run_program(arguments, &host_environment, &store, program).await;
    store.close().await;
    watched
}

/// Runs the program as the one turn of a new session.
async fn run_program(
    arguments: &Arguments,
    host_environment: &HostEnvironment,
    store: &AnyStore,
    program: WatchedProgram,
) -> anyhow::Result<Outcome> {
    let (agent, command_line) = (program.agent(), program.command_line());
    let redactor = program.redactor().clone();
    let session = NewSession {
        id: SessionId::generate(),
        created_at: store.now(),
        name: arguments.name.clone(),
        directory: project::as_text(&host_environment.cwd)?,
        team: format!("[[member]]\nname = \"{agent}\"\nagent = \"{agent}\"\n"),
        task: None,
        rehearsal: None,
    };
    let id = session.id;
    let thread = ThreadId::of_member(id, agent);
    let (watching, ended) =
        program.into_agent(Arc::new(store.clone()), thread.clone(), arguments.max_disk);
    let team_agents = one_member(&session, agent, watching, host_environment, redactor)?;
    let ignored = Box::new(|_: Event| {});
    let mut coordinator = Coordinator::create(store.clone(), session, team_agents, ignored).await?;
    let page =
        if arguments.open { Some(Page::open(host_environment, store, id).await?) } else { None };
    announce(agent, id, page.as_ref())?;
    coordinator.accept(NewMessage::from_person(PERSON, command_line).to([agent])).await?;
    let ran = coordinator.run().await;
    coordinator.close().await;
    // An error of the session does not end the program, which still runs in the terminal.
    let watched = ended.await.context("the program was not started, or its end is unknown")?;
    let requests = store.requests(&thread).await;
    let prices = UserSettings::read(host_environment)?.prices;
    let summary = Summary { agent, session: id, watched: &watched, prices };
    summary.show(&requests.unwrap_or_default())?;
    ran?;
    Ok(Outcome::Exit(watched.end.with_context(|| format!("cannot start {agent}"))?.code()))
}

/// Returns a team of one member, whose turns have no time limit.
fn one_member(
    session: &NewSession,
    agent: &'static str,
    watching: WatchingAgent,
    host_environment: &HostEnvironment,
    redactor: Redactor,
) -> anyhow::Result<TeamAgents> {
    let mut team = Team::parse(&session.team).context("the team of the session")?;
    team.limits.turn_timeout = NO_LIMIT;
    let mut member = MemberAgent::new(Arc::new(watching), &host_environment.cwd);
    member.trust = Trust::Trusted;
    let mut team_agents = TeamAgents::new(team, [(agent.into(), member)].into());
    team_agents.redactor = redactor;
    Ok(team_agents)
}

/// Says where the requests are shown, before the program has the terminal.
fn announce(agent: &str, session: SessionId, page: Option<&Page>) -> std::io::Result<()> {
    if is_quiet() {
        return Ok(());
    }
    let (program, id) = (program::name(), session.short());
    let place = match page {
        Some(page) => page.url.clone(),
        None => format!("`{program} sessions show {id} --request`, or `{program} serve`"),
    };
    writeln!(stderr(), "convoke: the requests of {agent} are recorded in session {id}: {place}")
}

/// What is said after the end of the program.
struct Summary<'w> {
    agent: &'static str,
    session: SessionId,
    watched: &'w Watched,
    prices: OwnPrices,
}

impl Summary<'_> {
    fn show(&self, requests: &[RequestRecord<()>]) -> std::io::Result<()> {
        if is_quiet() {
            return Ok(());
        }
        let Self { agent, session, watched, prices: own } = self;
        let mut out = stderr();
        for note in &watched.notes {
            writeln!(out, "convoke: {}", printable(note))?;
        }
        let mut cost = Cost::default();
        let mut usage = Usage::default();
        for record in requests {
            let Some(counted) = record.outcome.usage else { continue };
            usage = usage.and(counted);
            let model = record.outcome.model.as_deref().unwrap_or_default();
            let at = Some(record.meta.at);
            let charged = Charged {
                provider: None,
                model,
                usage: counted,
                cache_write_hour: 0,
                tier: None,
                at,
            };
            cost.add(prices::cost(&charged, own));
        }
        let sent = count(requests.len() as u64, "request");
        let cost = shown_cost(cost);
        let (tokens, session) = (tokens(&usage), session.short());
        writeln!(out, "convoke: {agent} sent {sent}: {tokens}{cost}; session {session}")
    }
}

/// Returns the cost for people; an unknown price is named.
fn shown_cost(cost: Cost) -> String {
    match (cost.known, cost.unknown) {
        (0, 0) => String::new(),
        (0, _) => ", of unknown price".to_owned(),
        (_, 0) => format!(", {} at API prices", dollars(cost.amount)),
        (_, unknown) => {
            let unknown = count(unknown, "request");
            let amount = dollars(cost.amount);
            format!(", {amount} at API prices, and {unknown} of unknown price")
        }
    }
}

/// The page of the session, which ends when it is dropped.
struct Page {
    url: String,
    serving: JoinHandle<()>,
    /// The file that led the browser to it.
    _opened: TempDir,
}

impl Page {
    async fn open(
        host_environment: &HostEnvironment,
        store: &AnyStore,
        session: SessionId,
    ) -> anyhow::Result<Self> {
        let others = Arc::new(Others::default());
        let machine = Machine::new(host_environment.clone(), store.clone(), others);
        let (token, scope) = (Token::generate(), Scope::One(session));
        let server =
            Server::bind(0, Vec::new(), token, store.clone(), Arc::new(machine), scope).await?;
        let url = server.url();
        let serving = tokio::spawn(server.serve(std::future::pending()));
        let opened = opening::open(&url);
        if opened.is_err() {
            serving.abort();
        }
        Ok(Self { url, serving, _opened: opened? })
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// Parses a number of bytes with a unit.
fn parse_size(written: &str) -> Result<u64, String> {
    let bytes = quantity::bytes(written).filter(|bytes| *bytes > 0);
    bytes.ok_or_else(|| "a size is a number with a unit, such as 200MiB or 1GiB".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_price_is_named() {
        let cost = |amount, known, unknown| shown_cost(Cost { amount, known, unknown });
        assert_eq!(cost(0.0, 0, 0), "");
        assert_eq!(cost(0.0, 0, 2), ", of unknown price");
        assert_eq!(cost(1.5, 2, 0), ", $1.50 at API prices");
        assert_eq!(cost(1.5, 2, 1), ", $1.50 at API prices, and 1 request of unknown price");
    }
}
