//! Runs a program under the same supervision as agents.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use convoke_agent::adapter::OneShot;
use convoke_agent::approvals::Approvals;
use convoke_agent::launch::{self, ConfinedEnvironment, ObservedPlace, ObservedState, Program};
use convoke_agent::process::guardian::Guardian;
use convoke_agent::process::{Dialogue, PrivateDir, supervise, temp_root};
use convoke_agent::stream::plain::Plain;
use convoke_agent::turn_input::Limits;
use convoke_agent::{AgentTurn, Cli, TurnResult};
use convoke_core::Diagnostic;
use convoke_protocol::verdict::{Failure, FailureReason, Verdict};
use convoke_redact::Redactor;
use serde::{Deserialize, Serialize};

use crate::host_environment::HostEnvironment;

#[derive(Clone)]
pub(super) struct Child<'a> {
    pub program: PathBuf,
    pub vendor: Option<&'static dyn Cli>,
    pub arguments: Vec<OsString>,
    pub environment: ConfinedEnvironment,
    pub cwd: &'a Path,
    /// The user's environment, with the secrets that are hidden.
    pub host_environment: &'a HostEnvironment,
    pub state: ObservedState<'a>,
    /// The directory for temporary files.
    pub temporary: &'a Path,
    pub time_limit: Duration,
}

/// The end of a program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "how")]
pub enum ChildEnd {
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
    /// Stopped by us, after the wanted request.
    Stopped,
    /// Killed at the time limit.
    TimedOut,
    /// Interrupted by the user.
    Interrupted,
}

/// The size of the output that is kept to explain failures.
const OUTPUT_KEPT: usize = 64 << 10;

/// Returns the dialogue with a program that reads standard input and writes standard output.
pub(super) fn one_shot(stdin: impl Into<String>) -> Box<dyn Dialogue> {
    Box::new(OneShot::new(Plain::new(OUTPUT_KEPT), stdin.into()))
}

/// The run of a program.
pub(super) struct ChildRun {
    pub end: ChildEnd,
    /// What was not enforced.
    pub diagnostics: Vec<Diagnostic>,
}

/// Runs a program to its end, or until `enough` is over.
pub(super) async fn run(
    child: &Child<'_>,
    dialogue: Box<dyn Dialogue>,
    guardian: &Guardian,
    enough: impl Future<Output = ()>,
) -> ChildRun {
    let (turn, diagnostics) = match start(child, dialogue, guardian) {
        Ok(started) => started,
        Err(reason) => {
            return ChildRun { end: ChildEnd::Failed { reason }, diagnostics: Vec::new() };
        }
    };
    let canceller = turn.canceller();
    let result = turn.result();
    let (mut result, mut enough) = (std::pin::pin!(result), std::pin::pin!(enough));
    let mut was_enough = false;
    let result = tokio::select! {
        result = &mut result => result,
        () = &mut enough => {
            was_enough = true;
            canceller.cancel();
            result.await
        }
        _ = tokio::signal::ctrl_c() => {
            canceller.cancel();
            result.await
        }
    };
    let end = match result.verdict {
        _ if was_enough => ChildEnd::Stopped,
        Verdict::Done => ChildEnd::Done { output: result.reply },
        Verdict::Failed(failure) => ChildEnd::Failed { reason: failure.message },
        Verdict::TimedOut => ChildEnd::TimedOut,
        Verdict::Cancelled | Verdict::Withdrawn => ChildEnd::Interrupted,
    };
    ChildRun { end, diagnostics }
}

/// Starts a program; the error is why it cannot be started.
fn start(
    child: &Child<'_>,
    mut dialogue: Box<dyn Dialogue>,
    guardian: &Guardian,
) -> Result<(AgentTurn, Vec<Diagnostic>), String> {
    let private = PrivateDir::create(child.temporary).map_err(|error| error.to_string())?;
    let program = Program {
        path: child.program.clone(),
        args: child.arguments.clone(),
        environment: child.environment.clone(),
    };
    // A directory that does not exist is reported when the program is started.
    let cwd = child.cwd.canonicalize().unwrap_or_else(|_| child.cwd.to_owned());
    let place = ObservedPlace {
        vendor: child.vendor,
        programs: convoke_vendors::programs(),
        cwd: &cwd,
        users_home: &child.host_environment.home,
        users_variables: &child.host_environment.environment,
        private_dir: private.path(),
        temp_root: &temp_root(),
        state: child.state,
        private: &child.host_environment.private_directories(),
        newest_abi: child.host_environment.newest_landlock(),
    };
    let confined = launch::observed(program, place).map_err(|error| error.to_string())?;
    let (launch, diagnostics) = (confined.launch, confined.diagnostics);
    let (turn, side) = AgentTurn::open(Redactor::for_env(&launch.env));
    let limits = Limits {
        turn: child.time_limit,
        silence: child.time_limit,
        reply_bytes: OUTPUT_KEPT,
        // Its actions after the request to end do not matter.
        grace: Duration::ZERO,
        ..Limits::default()
    };
    let guardian = guardian.clone();
    let approvals = Approvals::default();
    // No person can answer a question.
    approvals.set_attended(false);
    tokio::spawn(async move {
        let failed = |error: String| TurnResult::failed(Failure::new(FailureReason::Start, error));
        let dialogue = dialogue.as_mut();
        let ended = supervise(&launch, &guardian, dialogue, &limits, &approvals, None, &side).await;
        // Kept until the program has ended.
        drop(private);
        side.finish(ended.unwrap_or_else(|error| failed(error.to_string()))).await;
    });
    Ok((turn, diagnostics))
}
