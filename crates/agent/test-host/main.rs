//! A program for the tests. Like the real binary it has the guardian's mode; else it plays Convoke:
//! it runs one turn of a plain command and waits for its end.

use std::path::PathBuf;
use std::process::ExitCode;

use convoke_agent::adapter::{Host, agent};
use convoke_agent::config::{Definition, Kind};
use convoke_agent::delivery::Delivery;
use convoke_agent::process::guardian::{Guardian, run_if_asked};

fn main() -> ExitCode {
    if let Some(code) = run_if_asked() {
        return code;
    }
    match play_convoke() {
        Some(()) => ExitCode::SUCCESS,
        None => ExitCode::FAILURE,
    }
}

/// Runs `COMMAND ARGS…` in the directory that is named first.
fn play_convoke() -> Option<()> {
    let mut args = std::env::args().skip(1);
    let dir = PathBuf::from(args.next()?);
    let definition = Definition {
        command: Some(args.next()?),
        args: args.collect(),
        ..Definition::built_in(Kind::Plain)
    };
    let host = Host {
        guardian: Guardian::this_program().ok()?,
        env: std::env::vars_os().collect(),
        temp_root: dir.clone(),
        state_dir: dir.clone(),
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .ok()?;
    runtime.block_on(async {
        let turn = agent(definition, host).start(Delivery::new("", dir));
        turn.outcome().await;
    });
    Some(())
}
