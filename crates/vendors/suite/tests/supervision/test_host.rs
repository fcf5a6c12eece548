//! A directory, and a shell script that runs in it as an agent.

use std::path::Path;
use std::time::{Duration, Instant};

use convoke_agent::adapter::{Host, agent};
use convoke_agent::config::{AgentKind, Definition};
use convoke_agent::process::guardian::Guardian;
use convoke_agent::sandbox::SandboxSettings;
use convoke_agent::turn_input::{Limits, Permissions, TurnInput};
use convoke_agent::{Agent, TurnResult};
use convoke_protocol::verdict::{Failure, FailureReason, Verdict};
use tempfile::TempDir;

pub const HOST: &str = env!("CARGO_BIN_EXE_convoke-test-host");

/// A directory, and a shell script that runs in it as an agent.
pub struct TestHost {
    pub dir: TempDir,
    temporary: TempDir,
}

impl TestHost {
    pub fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap(), temporary: tempfile::tempdir().unwrap() }
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Returns the directory for temporary files.
    pub fn temporary(&self) -> &Path {
        self.temporary.path()
    }

    pub fn agent(&self, script: &str) -> Box<dyn Agent> {
        let definition = Definition {
            command: Some("/bin/sh".to_owned()),
            args: vec!["-c".to_owned(), script.to_owned()],
            ..Definition::built_in(AgentKind::Plain)
        };
        agent(definition, self.host())
    }

    pub fn host(&self) -> Host {
        Host {
            guardian: Guardian::from_program(HOST),
            env: std::env::vars_os().collect(),
            temp_root: self.temporary().to_owned(),
            state_dir: self.path().to_owned(),
            sandbox: SandboxSettings::default(),
            programs: convoke_vendors::programs(),
        }
    }

    pub fn turn_input(&self, prompt: &str) -> TurnInput {
        let mut turn_input = TurnInput::new(prompt, self.path());
        turn_input.permissions = Permissions::Full;
        turn_input.limits = Limits {
            turn: Duration::from_mins(5),
            grace: Duration::from_millis(200),
            ..Limits::default()
        };
        turn_input
    }

    pub async fn run(&self, script: &str, prompt: &str) -> TurnResult {
        self.agent(script).start(self.turn_input(prompt)).result().await
    }

    /// Returns the processes whose ids the script has written to `pids`.
    pub fn pids(&self) -> Vec<i32> {
        let text = std::fs::read_to_string(self.path().join("pids")).unwrap_or_default();
        text.lines().filter_map(|line| line.parse().ok()).collect()
    }

    /// Waits until the script has written this many ids.
    pub async fn has_pids(&self, count: usize) -> Vec<i32> {
        until("the child never came up", || self.pids().len() >= count).await;
        self.pids()
    }
}

/// Waits until a condition holds.
pub async fn until(otherwise: &str, mut holds: impl FnMut() -> bool) {
    let patience = Instant::now() + Duration::from_mins(2);
    while !holds() {
        assert!(Instant::now() < patience, "{otherwise}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Returns whether a process is running; a zombie is not.
pub fn runs(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

pub fn codes(outcome: &TurnResult) -> Vec<&str> {
    let codes = outcome.diagnostics.iter();
    codes.map(|diagnostic| diagnostic.code.name()).collect()
}

pub fn reason(outcome: &TurnResult) -> Option<FailureReason> {
    match &outcome.verdict {
        Verdict::Failed(Failure { reason, .. }) => Some(*reason),
        _ => None,
    }
}

/// A script that starts a tool shell in its own session, like the CLIs, and continues.
pub const WITH_TOOLS: &str =
    "echo $$ >>pids; setsid sh -c 'echo $$ >>pids; sleep 1000 & echo $! >>pids; wait' & wait";
