//! Runs a program under the same supervision as agents.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use convoke_agent::adapter::OneShot;
use convoke_agent::permission::Approvals;
use convoke_agent::process::guardian::Guardian;
use convoke_agent::process::{Dialogue, Launch, PrivateDir, supervise};
use convoke_agent::stream::plain::Plain;
use convoke_agent::turn_input::Limits;
use convoke_agent::verdict::{Failure, FailureReason};
use convoke_agent::{AgentTurn, TurnResult, Verdict};
use convoke_redact::Redactor;
use serde::{Deserialize, Serialize};

pub(super) struct Child<'a> {
    pub program: PathBuf,
    pub arguments: Vec<OsString>,
    /// Its whole environment.
    pub environment: Vec<(OsString, OsString)>,
    pub cwd: &'a Path,
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

/// Runs a program to its end, or until `enough` is over.
pub(super) async fn run(
    child: &Child<'_>,
    dialogue: Box<dyn Dialogue>,
    guardian: &Guardian,
    enough: impl Future<Output = ()>,
) -> ChildEnd {
    let turn = start(child, dialogue, guardian);
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
    match result.verdict {
        _ if was_enough => ChildEnd::Stopped,
        Verdict::Done => ChildEnd::Done { output: result.reply },
        Verdict::Failed(failure) => ChildEnd::Failed { reason: failure.message },
        Verdict::TimedOut => ChildEnd::TimedOut,
        Verdict::Cancelled | Verdict::Withdrawn => ChildEnd::Interrupted,
    }
}

fn start(child: &Child<'_>, mut dialogue: Box<dyn Dialogue>, guardian: &Guardian) -> AgentTurn {
    let (turn, side) = AgentTurn::open(Redactor::for_env(&child.environment));
    let limits = Limits {
        turn: child.time_limit,
        silence: child.time_limit,
        reply_bytes: OUTPUT_KEPT,
        // Its actions after the request to end do not matter.
        grace: Duration::ZERO,
        ..Limits::default()
    };
    let (guardian, temporary) = (guardian.clone(), child.temporary.to_owned());
    let approvals = Approvals::default();
    // No person can answer a question.
    approvals.set_attended(false);
    let mut launch = Launch {
        program: child.program.clone(),
        args: child.arguments.clone(),
        env: child.environment.clone(),
        // A directory that does not exist is reported when the program is started.
        cwd: child.cwd.canonicalize().unwrap_or_else(|_| child.cwd.to_owned()),
        private_dir: PathBuf::new(),
        private_home: None,
        // It is the user's own command, and runs as if the user had started it.
        policy: None,
        stopped_by: None,
    };
    tokio::spawn(async move {
        let failed = |error: String| TurnResult::failed(Failure::new(FailureReason::Start, error));
        let result = match PrivateDir::create(&temporary) {
            Ok(private) => {
                private.path().clone_into(&mut launch.private_dir);
                let dialogue = dialogue.as_mut();
                let ended =
                    supervise(&launch, &guardian, dialogue, &limits, &approvals, None, &side).await;
                ended.unwrap_or_else(|error| failed(error.to_string()))
            }
            Err(error) => failed(error.to_string()),
        };
        side.finish(result).await;
    });
    turn
}
