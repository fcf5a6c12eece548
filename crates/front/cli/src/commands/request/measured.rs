//! The request of an installed program, measured.

use std::time::Duration;

use convoke_agent::process::guardian::Guardian;
use convoke_files::absolute;
use convoke_inspect::capture::{CaptureError, MeasureOptions, MeasurePurpose, measure};
use convoke_thread::user_input::UserInput;
use convoke_vendor::MeasuredCli;

use super::{Arguments, input, is_built, output, usage};
use crate::conversation::trust_here::TrustHere;
use crate::host_environment;
use crate::outcome::{Outcome, UsageError};
use crate::terminal::ProgressLine;

/// Runs the program and shows its request.
pub(super) fn run(
    agent: &'static dyn MeasuredCli,
    arguments: &Arguments,
) -> anyhow::Result<Outcome> {
    let mut host_environment = host_environment::of_process()?;
    if let Some(directory) = &arguments.cd {
        let directory = absolute(&host_environment.cwd, directory);
        if !directory.is_dir() {
            return Err(
                UsageError(format!("--cd: {} is not a directory", directory.display())).into()
            );
        }
        host_environment.cwd = directory;
    }
    if arguments.codex_home.is_some() && !is_built(agent) {
        return Err(UsageError(format!("--codex-home has no effect for {agent}")).into());
    }
    let directory = arguments.codex_home.as_deref();
    let directory = directory.map(|given| absolute(&host_environment.cwd, given));
    let prompt = match input::turn(&[], arguments.prompt()?)?.pop() {
        Some(UserInput::Text(text)) => text,
        _ => String::new(),
    };
    let TrustHere { trust, changed } = TrustHere::find(&host_environment)?;
    let options = MeasureOptions {
        vendor: agent,
        directory,
        arguments: arguments.program_arguments(agent)?,
        prompt,
        purpose: MeasurePurpose::Show,
        trust,
        time_limit: Duration::from_secs(arguments.timeout),
        guardian: Guardian::this_program()?,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let progress = ProgressLine::begin(format!("running {agent} for its request"));
    let measured = runtime.block_on(measure(options, &host_environment));
    drop(progress);
    let mut measured = measured.map_err(explain)?;
    measured.diagnostics.extend(changed);
    output::write_measured(&measured, arguments)?;
    Ok(arguments
        .deny
        .outcome(measured.diagnostics.iter().map(|diagnostic| diagnostic.code.clone())))
}

/// Converts errors that keep a program from starting to usage errors.
fn explain(error: CaptureError) -> anyhow::Error {
    match error {
        CaptureError::NotInstalled(_)
        | CaptureError::Untrusted { .. }
        | CaptureError::WouldApply { .. }
        | CaptureError::Unclear(_)
        | CaptureError::NotText(_)
        | CaptureError::Copy(_)
        | CaptureError::Managed(_)
        | CaptureError::Endpoint(_) => usage(error).into(),
        error => error.into(),
    }
}
