//! `convoke request`: the exact request that a turn here would send to a model, by the installed program
//! (`measured`) or assembled by rule.

mod arguments;
mod input;
mod measured;
mod output;

use convoke_agent::Cli;
use convoke_core::Diagnostic;
use convoke_files::Disk;
use convoke_inspect::installed::Installed;
use convoke_protocol::wire::Wire;
use convoke_thread::config::{Config, ConfigError, Machine};
use convoke_thread::pack::{Pack, Shape};
use convoke_thread::prompt::{Request, RequestPurpose};
use convoke_thread::record::Record;
use convoke_thread::thread::{Setup, Step, Thread, TurnOutcome, TurnOverrides};

pub use self::arguments::Arguments;
use crate::diagnostics::own;
use crate::outcome::{Outcome, UsageError};
use crate::{host_environment, machine};

/// The id of a new thread. It is constant, so that the same directory gives the same bytes.
const NEW_THREAD: &str = "00000000-0000-7000-8000-000000000000";

/// Runs `convoke request`.
pub fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    match arguments.agent {
        Some(agent) => measured::run(agent, arguments),
        None => assemble(arguments),
    }
}

fn assemble(arguments: &Arguments) -> anyhow::Result<Outcome> {
    let codex_home = machine::codex_home(arguments.codex_home.as_deref())?;
    let machine = machine::of_process(codex_home, arguments.shell.as_deref())?;
    let pack = read_pack(arguments)?;
    let overrides = arguments.overrides(&machine.cwd)?;
    let mut config = Config::load(&Disk, &machine, pack.shape, &overrides)
        .map_err(|error| explain_config(error, &machine))?;
    if let Some(wire) = arguments.wire {
        config.provider.wire = wire.into();
    }
    let mut diagnostics = Vec::new();
    let tools = input::tools(arguments.tools.as_deref(), &mut diagnostics)?;
    let listed_models = input::listed_models(arguments.models.as_deref())?;
    let record = input::record(arguments.rollout.as_deref(), &mut diagnostics)?;
    if let Some(record) = &record
        && arguments.shape.is_none()
    {
        check_version(record, &pack)?;
    }
    let output_schema = input::output_schema(arguments.output_schema.as_deref())?;
    let inputs = input::turn(&arguments.image, arguments.prompt()?)?;

    let setup =
        Setup { files: &Disk, pack: &pack, machine: &machine, listed_models: &listed_models };
    let mut thread = match &record {
        Some(record) => Thread::resume(setup, config, record),
        None => Thread::start(setup, config, NEW_THREAD),
    }
    .map_err(usage)?;
    thread.set_tools(tools);
    let overrides = TurnOverrides { output_schema, ..TurnOverrides::default() };
    let request = match thread.begin_turn(inputs, &overrides).map_err(usage)? {
        Step::Send(request) => request,
        Step::Done(TurnOutcome::Failed(reason)) => return Err(UsageError(reason).into()),
        Step::RunTools(_) | Step::Done(TurnOutcome::Finished) => {
            anyhow::bail!("the turn ended without a request")
        }
    };
    diagnostics.extend(compaction_first(&request));
    diagnostics.extend(request.diagnostics.iter().cloned());
    let assembled = output::Assembled {
        request: &request,
        shape: pack.shape,
        pack: &pack.name,
        wire: if request.path.ends_with("/completions") { Wire::Chat } else { Wire::Responses },
        installed: installed_codex(pack.shape),
        diagnostics: &diagnostics,
    };
    output::write_assembled(&assembled, arguments)?;
    Ok(arguments.deny.outcome(diagnostics.iter().map(|diagnostic| diagnostic.code.clone())))
}

fn read_pack(arguments: &Arguments) -> Result<Pack, UsageError> {
    let mut pack = match &arguments.pack {
        Some(folder) => Pack::load(&Disk, folder).map_err(usage)?,
        None => convoke_packs::convoke().map_err(usage)?,
    };
    if let Some(shape) = arguments.shape {
        pack.shape = shape;
    }
    Ok(pack)
}

/// Refuses a thread that another version of Codex recorded: its items and their order differ.
fn check_version(record: &Record, pack: &Pack) -> Result<(), UsageError> {
    let Some(version) = record.codex_version.as_deref().filter(|it| !pack.shape.covers(it)) else {
        return Ok(());
    };
    let shape = pack.shape.name();
    Err(UsageError(format!(
        "--rollout: it was recorded by Codex {version}, and the request would have the shape {shape}; \
         to continue it in this shape anyway, pass --shape {shape}"
    )))
}

/// The CLI whose requests are built by rule, and whose flags the command takes.
const BUILT: &str = "codex";

fn is_built(agent: &dyn Cli) -> bool {
    agent.facts().command == BUILT
}

/// Returns the version of an installed Codex that has another shape.
fn installed_codex(shape: Shape) -> Option<String> {
    let host_environment = host_environment::of_process().ok()?;
    let program = host_environment.programs(BUILT).into_iter().next()?;
    let version =
        Installed::on_disk(&program, convoke_vendors::programs().cli(BUILT).ok()?).version?;
    (!shape.covers(&version)).then_some(version)
}

/// Returns a diagnostic if the first request is a compaction.
fn compaction_first(request: &Request) -> Option<Diagnostic> {
    let message = "the recorded thread has reached its limit, so this request asks for a summary; \
                   the prompt would follow with the next one";
    (request.purpose == RequestPurpose::Compaction)
        .then(|| Diagnostic::new(own::THREAD_COMPACTS, message))
}

/// Adds the configuration file to errors that do not name it.
fn explain_config(error: ConfigError, machine: &Machine) -> UsageError {
    match error {
        ConfigError::UnknownProfile(_) | ConfigError::UnknownProvider(_) => {
            let file = machine.codex_home.join("config.toml");
            UsageError(format!("{}, or what overrides it: {error}", file.display()))
        }
        other => usage(other),
    }
}

/// Converts an error with its causes to a usage error.
fn usage(error: impl Into<anyhow::Error>) -> UsageError {
    UsageError(format!("{:#}", error.into()))
}
