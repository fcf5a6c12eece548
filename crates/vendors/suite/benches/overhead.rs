//! The overhead of running a program through this crate: for a program that writes one word, and per MiB of
//! output.
//!
//! `cargo bench -p convoke-agent --bench overhead`

#![allow(missing_docs, clippy::print_stdout, clippy::unwrap_used)]

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use convoke_agent::adapter::{Host, agent};
use convoke_agent::config::{AgentKind, Definition};
use convoke_agent::process::guardian::Guardian;
use convoke_agent::sandbox::SandboxSettings;
use convoke_agent::turn_input::TurnInput;

const ROUNDS: usize = 40;
const MEBIBYTES: u32 = 128;

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let hello = "echo hello";
    let by_hand = median((0..ROUNDS).map(|_| run_by_hand(hello)).collect());
    let by_us = median((0..ROUNDS).map(|_| runtime.block_on(run_by_us(hello))).collect());
    println!("one word:  by hand {by_hand:.2?}, through Convoke {by_us:.2?}");

    let output = format!("yes some words of a line of output | head -c {}", MEBIBYTES << 20);
    let by_hand = median((0..5).map(|_| run_by_hand(&output)).collect());
    let by_us = median((0..5).map(|_| runtime.block_on(run_by_us(&output))).collect());
    println!(
        "a MiB:     by hand {:.2?}, through Convoke {:.2?}",
        by_hand / MEBIBYTES,
        by_us / MEBIBYTES
    );
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

fn run_by_hand(script: &str) -> Duration {
    let begin = Instant::now();
    let mut child =
        Command::new("/bin/sh").args(["-c", script]).stdout(Stdio::piped()).spawn().unwrap();
    std::io::copy(&mut child.stdout.take().unwrap(), &mut std::io::sink()).unwrap();
    child.wait().unwrap();
    begin.elapsed()
}

async fn run_by_us(script: &str) -> Duration {
    let dir = tempfile::tempdir().unwrap();
    let definition = Definition {
        command: Some("/bin/sh".to_owned()),
        args: vec!["-c".to_owned(), script.to_owned()],
        ..Definition::built_in(AgentKind::Plain)
    };
    let host = Host {
        guardian: Guardian::from_program(env!("CARGO_BIN_EXE_convoke-test-host")),
        env: std::env::vars_os().collect(),
        temp_root: dir.path().to_owned(),
        state_dir: dir.path().to_owned(),
        sandbox: SandboxSettings::default(),
        programs: convoke_vendors::programs(),
    };
    let agent = agent(definition, host);
    let begin = Instant::now();
    let outcome = agent.start(TurnInput::new("", dir.path())).result().await;
    assert_eq!(outcome.verdict.as_str(), "done");
    begin.elapsed()
}
