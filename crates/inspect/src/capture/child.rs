//! One run of a program, by the supervision that agents have: fed, drained, bounded in time, and ended
//! with everything that it started.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use convoke_agent::adapter::{Host, agent};
use convoke_agent::config::{Definition, Kind};
use convoke_agent::process::guardian::Guardian;
use convoke_agent::sandbox::{SandboxAdditions, SandboxSettings};
use convoke_agent::turn_input::Permissions;
use convoke_agent::{TurnInput, Verdict};
use serde::{Deserialize, Serialize};

pub(super) struct Child<'a> {
    pub program: &'a str,
    pub arguments: Vec<String>,
    pub environment: Vec<(OsString, OsString)>,
    pub cwd: &'a Path,
    /// Where its temporary files lie.
    pub temporary: &'a Path,
    pub stdin: String,
    pub patience: Duration,
}

/// How a program ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "how")]
pub enum Ended {
    /// With exit code 0.
    Done {
        /// What it wrote to its standard output.
        output: String,
    },
    /// In another way.
    Failed {
        /// The end of what it said about it.
        reason: String,
    },
    /// By us, because it took too long.
    TimedOut,
    /// By us, because the user wanted so.
    Interrupted,
}

/// The output is shown to nobody, and kept only to tell what went wrong.
const OUTPUT_KEPT: usize = 64 << 10;

pub(super) async fn run(child: &Child<'_>, guardian: &Guardian) -> Ended {
    let definition = Definition {
        command: Some(child.program.to_owned()),
        args: child.arguments.clone(),
        // It is the user's own command, and runs as if the user had started it.
        sandbox: SandboxAdditions { readable: vec!["/".into()], ..SandboxAdditions::default() },
        ..Definition::built_in(Kind::Plain)
    };
    let host = Host {
        guardian: guardian.clone(),
        env: child.environment.clone(),
        temp_root: child.temporary.to_owned(),
        state_dir: child.temporary.to_owned(),
        sandbox: SandboxSettings::default(),
    };
    let mut turn_input = TurnInput::new(child.stdin.clone(), child.cwd);
    turn_input.permissions = Permissions::Full;
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
