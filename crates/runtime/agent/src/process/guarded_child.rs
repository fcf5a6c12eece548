//! A child process under a guardian: three pipes and a control socket.

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{Instant, timeout};

use super::guardian::{
    ALLOW, Guardian, INTERRUPT, KILL, LEASE_OVER, RECEIVED, SWEEP_LIMIT, TERMINATE,
};
use super::start_order::StartOrder;
use super::{Launch, platform};
use crate::ending::Exit;

/// The time limit for the start of the guardian.
const START_LIMIT: Duration = Duration::from_mins(1);

/// An error of starting a child.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The working directory does not exist, was replaced, or a link is on its path.
    #[error("{0}")]
    NoDirectory(io::Error),
    /// The turn's private directory could not be used.
    #[error("cannot use the private directory `{}`: {source}", .path.display())]
    PrivateDir {
        /// The directory.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The guardian did not start.
    #[error("cannot start the guardian process: {0}")]
    Guardian(io::Error),
    /// The guardian ended, or did not report in time.
    #[error("the guardian process did not report")]
    Silent,
}

/// A child under a guardian. Dropping it terminates the child.
#[derive(Debug)]
pub struct GuardedChild {
    guardian: Child,
    control: OwnedWriteHalf,
    reports: Lines<BufReader<OwnedReadHalf>>,
    private_dir: PathBuf,
    exit: Exit,
    left: Option<u64>,
    is_lease_over: bool,
    problem: Option<String>,
}

/// The child's ends of the pipes.
#[derive(Debug)]
pub struct Pipes {
    pub stdin: ChildStdin,
    pub stdout: ChildStdout,
    pub stderr: ChildStderr,
}

/// The end of a child.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChildEnd {
    /// The exit status.
    pub exit: Exit,
    /// The number of processes that the child left behind and that were terminated.
    pub left: u64,
    /// Whether the guardian ended the child because its lease expired.
    pub is_lease_over: bool,
    /// The reason why the child could not be started.
    pub problem: Option<String>,
}

impl ChildEnd {
    /// Creates the end of a child whose exit status is unknown.
    pub fn unknown() -> Self {
        let problem = "the guardian process did not report the end".to_owned();
        Self { exit: Exit::Unknown, left: 0, is_lease_over: false, problem: Some(problem) }
    }
}

impl GuardedChild {
    /// Starts a program under a guardian.
    pub async fn start(launch: &Launch, guardian: &Guardian) -> Result<(Self, Pipes), StartError> {
        launch.cwd.reopen().map_err(StartError::NoDirectory)?;
        let order = StartOrder::new(launch).to_bytes().map_err(StartError::Guardian)?;
        let socket = launch.private_dir.join("guardian");
        let listener = platform::at_short_path(&socket, |path| UnixListener::bind(path));
        let listener = listener.map_err(|source| StartError::PrivateDir {
            path: launch.private_dir.clone(),
            source,
        })?;
        let mut command = guardian.command(&socket, launch);
        command
            .env_clear()
            .envs(launch.env.iter().map(|(key, value)| (key, value)))
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped());
        // If Convoke inherited an ignored SIGCHLD, the guardian would too, and could not wait for the agent. A
        // signal with a handler is not inherited as ignored.
        let _ = signal(SignalKind::child());
        let mut guardian =
            tokio::process::Command::from(command).spawn().map_err(StartError::Guardian)?;
        let mut pipes = take_pipes(&mut guardian).ok_or(StartError::Silent)?;
        platform::widen(&pipes.stdout);
        let connected = tokio::select! {
            biased;
            connected = timeout(START_LIMIT, listener.accept()) => connected.map(Result::ok).ok(),
            _ = guardian.wait() => None,
        };
        let stream = match connected.flatten() {
            Some((stream, _)) => stream,
            None => left_connection(listener).map_err(|_| StartError::Silent)?,
        };
        // Prevents further connections; the directory itself is removed with the turn.
        let _ = std::fs::remove_file(&socket);
        // A process that has ended does not read its order, and its end is reported.
        let _ = timeout(START_LIMIT, pipes.stdin.write_all(&order))
            .await
            .map_err(|_| StartError::Silent)?;
        let (reports, control) = stream.into_split();
        let held = Self {
            guardian,
            control,
            reports: BufReader::new(reports).lines(),
            private_dir: launch.private_dir.clone(),
            exit: Exit::Unknown,
            left: None,
            is_lease_over: false,
            problem: None,
        };
        Ok((held, pipes))
    }

    /// Sends the child an interrupt, like Ctrl-C.
    pub async fn interrupt(&mut self) {
        // A lost guardian is noticed elsewhere.
        let _ = self.control.write_all(&[INTERRUPT]).await;
    }

    /// Asks the child to end.
    pub async fn terminate(&mut self) {
        let _ = self.control.write_all(&[TERMINATE]).await;
    }

    /// Kills the child and everything that it started.
    pub async fn kill(&mut self) {
        let _ = self.control.write_all(&[KILL]).await;
    }

    /// Makes the guardian kill everything after a time, even if Convoke is stopped meanwhile. The next call
    /// replaces the time.
    pub async fn allow(&mut self, time: Duration) {
        let millis = u32::try_from(time.as_millis()).unwrap_or(u32::MAX).to_be_bytes();
        let [a, b, c, d] = millis;
        let _ = self.control.write_all(&[ALLOW, a, b, c, d]).await;
    }

    /// Waits until the child and everything that it started have ended. Cancel-safe.
    pub async fn ended(&mut self) -> ChildEnd {
        loop {
            let line = match self.reports.next_line().await {
                Ok(Some(line)) => line,
                Ok(None) => break,
                // The guardian ended before it read the last command.
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => break,
                Err(error) => {
                    self.problem
                        .get_or_insert(format!("cannot read the guardian's report: {error}"));
                    break;
                }
            };
            match line.split_once(' ') {
                Some(("exit", code)) => self.exit = code.parse().map_or(Exit::Unknown, Exit::Code),
                Some(("signal", n)) => self.exit = n.parse().map_or(Exit::Unknown, Exit::Signal),
                Some((LEASE_OVER, _)) => self.is_lease_over = true,
                Some(("left", count)) => self.left = count.parse().ok(),
                Some(("error", problem)) => self.problem = Some(problem.to_owned()),
                _ => {}
            }
        }
        // A guardian that was killed does not read it.
        let _ = self.control.write_all(&[RECEIVED]).await;
        let _ = self.guardian.wait().await;
        let left = match self.left {
            Some(left) => left,
            // The guardian was killed.
            None => self.end_marked().await,
        };
        let (is_lease_over, problem) = (self.is_lease_over, self.problem.clone());
        ChildEnd { exit: self.exit, left, is_lease_over, problem }
    }
}

impl GuardedChild {
    /// Kills the processes whose environment contains this turn's private directory.
    async fn end_marked(&self) -> u64 {
        let mut ended = BTreeSet::new();
        let end = Instant::now() + SWEEP_LIMIT;
        while Instant::now() < end {
            // A keeper also kills processes without the mark. Then it removes the directory, and may wait until this
            // process releases the home.
            let (keepers, marked): (Vec<_>, Vec<_>) = platform::using(&self.private_dir)
                .into_iter()
                .partition(|&it| platform::is_keeper(it));
            if marked.is_empty() && (keepers.is_empty() || !self.private_dir.exists()) {
                break;
            }
            for pid in marked {
                // The process may have ended already.
                let _ = kill(pid, Signal::SIGKILL);
                ended.insert(pid);
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        ended.len() as u64
    }
}

/// Returns the connection of a guardian that connected, reported and exited before it was accepted.
fn left_connection(listener: UnixListener) -> io::Result<UnixStream> {
    // Does not block: a connection that is not queued yet will not come.
    let (stream, _) = listener.into_std()?.accept()?;
    stream.set_nonblocking(true)?;
    UnixStream::from_std(stream)
}

fn take_pipes(guardian: &mut Child) -> Option<Pipes> {
    Some(Pipes {
        stdin: guardian.stdin.take()?,
        stdout: guardian.stdout.take()?,
        stderr: guardian.stderr.take()?,
    })
}
