//! `convoke request`: shows the exact request that Codex would send from here.

mod arguments;
mod input;
mod output;

use convoke_core::Diagnostic;
use convoke_files::Disk;
use convoke_thread::config::{Config, ConfigError, Machine};
use convoke_thread::pack::Pack;
use convoke_thread::prompt::{Purpose, Request};
use convoke_thread::thread::{Outcome as TurnOutcome, Setup, Step, Thread, TurnOverrides};

pub use self::arguments::Arguments;
use crate::diagnostics::own;
use crate::machine;
use crate::outcome::{Outcome, UsageError};

/// The id of a new thread. It is constant, so that the same directory gives the same bytes.
const NEW_THREAD: &str = "00000000-0000-7000-8000-000000000000";

/// Runs `convoke request`.
pub fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
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
    let output_schema = input::output_schema(arguments.output_schema.as_deref())?;
    let inputs = input::turn(&arguments.image, arguments.prompt.as_deref())?;

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
    output::write(&request, &diagnostics, arguments)?;
    Ok(arguments.deny.outcome(diagnostics.iter().map(|diagnostic| diagnostic.code)))
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

/// Returns a diagnostic if the first request is a compaction.
fn compaction_first(request: &Request) -> Option<Diagnostic> {
    let message = "the recorded thread has reached its limit, so this request asks for a summary; \
                   the prompt would follow with the next one";
    (request.purpose == Purpose::Compaction).then(|| Diagnostic::new(own::THREAD_COMPACTS, message))
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
