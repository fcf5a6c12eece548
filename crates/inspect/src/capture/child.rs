//! Runs a program under the same supervision as agents.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use convoke_agent::adapter::{Host, agent};
use convoke_agent::config::{Definition, Kind};
use convoke_agent::process::guardian::Guardian;
use convoke_agent::{TurnInput, Verdict};
use serde::{Deserialize, Serialize};

pub(super) struct Child<'a> {
    pub program: &'a str,
    pub arguments: Vec<String>,
    pub environment: Vec<(OsString, OsString)>,
    pub cwd: &'a Path,
    /// The directory for temporary files.
    pub temporary: &'a Path,
    pub stdin: String,
    pub patience: Duration,
}

/// The end of a program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "how")]
pub enum Ended {
    /// With exit code 0.
    Done {
        /// The standard output.
        output: String,
    },
    /// With an error.
    Failed {
        /// The tail of its error output.
        reason: String,
    },
    /// Killed at the time limit.
    TimedOut,
    /// Interrupted by the user.
    Interrupted,
}

/// The size of the output that is kept to explain failures.
const OUTPUT_KEPT: usize = 64 << 10;

pub(super) async fn run(child: &Child<'_>, guardian: &Guardian) -> Ended {
    let definition = Definition {
        command: Some(child.program.to_owned()),
        args: child.arguments.clone(),
        ..Definition::built_in(Kind::Plain)
    };
    let host = Host {
        guardian: guardian.clone(),
        env: child.environment.clone(),
        temp_root: child.temporary.to_owned(),
        state_dir: child.temporary.to_owned(),
    };
    let mut turn_input = TurnInput::new(child.stdin.clone(), child.cwd);
    turn_input.limits.turn = child.patience;
    turn_input.limits.silence = child.patience;
    turn_input.limits.reply_bytes = OUTPUT_KEPT;
    let turn = agent(definition, host).start(turn_input);
    let canceller = turn.canceller();
    let outcome = turn.result();
    let mut outcome = std::pin::pin!(outcome);
    let outcome = tokio::select! {
        outcome = &mut outcome => outcome,
        _ = tokio::signal::ctrl_c() => {
            canceller.cancel();
            outcome.await
        }
    };
    match outcome.verdict {
        Verdict::Done => Ended::Done { output: outcome.reply },
        Verdict::Failed(failure) => Ended::Failed { reason: failure.message },
        Verdict::TimedOut => Ended::TimedOut,
        Verdict::Cancelled => Ended::Interrupted,
    }
}
