//! One run of a program: fed, drained, bounded in time, and ended with all of its process group.

use std::ffi::OsString;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;

pub(super) struct Child<'a> {
    pub program: &'a Path,
    pub arguments: &'a [OsString],
    pub environment: Vec<(OsString, OsString)>,
    pub cwd: &'a Path,
    pub stdin: &'a [u8],
    pub patience: Duration,
}

/// How a program ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", tag = "how")]
pub enum Ended {
    /// By itself, or by somebody else's signal.
    Exited {
        /// Its exit code; none after a signal.
        code: Option<i32>,
        /// The end of what it wrote, to its standard error if there was anything.
        last_words: String,
    },
    /// By ours, because it took too long.
    TimedOut,
}

pub(super) async fn run(child: Child<'_>) -> std::io::Result<Ended> {
    let mut running = Command::new(child.program)
        .args(child.arguments)
        .env_clear()
        .envs(child.environment)
        .current_dir(child.cwd)
        .stdin(if child.stdin.is_empty() { Stdio::null() } else { Stdio::piped() })
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()?;
    let group = Group(running.id());
    let (stdin, stdout, stderr) =
        (running.stdin.take(), running.stdout.take(), running.stderr.take());
    let feeding = async {
        if let Some(mut stdin) = stdin {
            // A program that does not read to the end has its reasons.
            let _ = stdin.write_all(child.stdin).await;
        }
    };
    let ended = async {
        let ((), out, error, status) =
            tokio::join!(feeding, tail(stdout), tail(stderr), running.wait());
        let last_words = if error.trim().is_empty() { out } else { error };
        status.map(|status| Ended::Exited { code: status.code(), last_words })
    };
    let ended = tokio::select! {
        ended = ended => ended,
        () = tokio::time::sleep(child.patience) => Ok(Ended::TimedOut),
        _ = tokio::signal::ctrl_c() => Err(std::io::ErrorKind::Interrupted.into()),
    };
    drop(group);
    ended
}

/// The process group of the program; whatever of it is left ends with this.
struct Group(Option<u32>);

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(id) = self.0.and_then(|id| i32::try_from(id).ok()) {
            let _ = killpg(Pid::from_raw(id), Signal::SIGKILL);
        }
    }
}

/// Reads everything and returns the last 4 KiB of it.
async fn tail(pipe: Option<impl AsyncRead + Unpin>) -> String {
    const KEPT: usize = 4096;
    let Some(mut pipe) = pipe else {
        return String::new();
    };
    let mut kept = Vec::new();
    let mut chunk = vec![0; 64 * 1024];
    while let Ok(read @ 1..) = pipe.read(&mut chunk).await {
        kept.extend_from_slice(&chunk[..read]);
        let surplus = kept.len().saturating_sub(KEPT);
        kept.drain(..surplus);
    }
    String::from_utf8_lossy(&kept).into_owned()
}
