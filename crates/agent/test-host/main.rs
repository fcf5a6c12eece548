//! A program for the tests. Like the real binary it has the guardian's mode; else it plays Convoke:
//! it runs one turn of a plain command and waits for its end.

use std::path::PathBuf;
use std::process::ExitCode;

use convoke_agent::Verdict;
use convoke_agent::adapter::{Host, agent};
use convoke_agent::config::{AgentKind, Definition};
use convoke_agent::process::guardian::{Guardian, run_if_asked};
use convoke_agent::turn_input::{Permissions, TurnInput};

fn main() -> ExitCode {
    if let Some(code) = run_if_asked() {
        return code;
    }
    match play_convoke() {
        Some(Verdict::Done) => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

/// Takes `KIND MODEL DIRECTORY COMMAND ARGS…` and runs one turn there, with every permission.
fn play_convoke() -> Option<Verdict> {
    let mut args = std::env::args().skip(1);
    let name = args.next()?;
    let kind = AgentKind::ALL.into_iter().find(|kind| kind.name() == name)?;
    let model = args.next().filter(|model| !model.is_empty());
    let dir = PathBuf::from(args.next()?);
    let definition = Definition {
        command: Some(args.next()?),
        args: args.collect(),
        model,
        ..Definition::built_in(kind)
    };
    let host = Host {
        guardian: Guardian::this_program().ok()?,
        env: std::env::vars_os().collect(),
        temp_root: dir.clone(),
        state_dir: dir.clone(),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
    let outcome = runtime.block_on(async {
        let mut turn_input = TurnInput::new("Begin.", dir);
        turn_input.permissions = Permissions::Full;
        agent(definition, host).start(turn_input).result().await
    });
    Some(outcome.verdict)
}
