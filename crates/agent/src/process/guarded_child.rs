//! A child as Convoke sees it: three pipes, and a guardian to talk to.

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
use tokio::time::timeout;

use super::guardian::{Guardian, INTERRUPT, KILL};
use super::{Launch, platform};
use crate::verdict::Exit;

/// How long the guardian may take to come up.
const START_LIMIT: Duration = Duration::from_mins(1);
/// How often what a killed guardian left is looked for.
const MARKED_ROUNDS: usize = 200;

/// A child could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The working directory is not there.
    #[error("the working directory `{}` does not exist", .0.display())]
    NoDirectory(PathBuf),
    /// The turn's own directory could not be used.
    #[error("cannot use the private directory `{}`: {source}", .path.display())]
    PrivateDir {
        /// The directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The guardian did not start.
    #[error("cannot start the guardian process: {0}")]
    Guardian(io::Error),
    /// The guardian did not report in time, or ended.
    #[error("the guardian process did not report")]
    Silent,
}

/// A child that a guardian holds. When this is dropped, the guardian ends the child.
#[derive(Debug)]
pub struct GuardedChild {
    guardian: Child,
    control: OwnedWriteHalf,
    reports: Lines<BufReader<OwnedReadHalf>>,
    private_dir: PathBuf,
    exit: Exit,
    left: Option<u64>,
    problem: Option<String>,
}

/// The child's ends of the pipes.
#[derive(Debug)]
pub struct Pipes {
    pub stdin: ChildStdin,
    pub stdout: ChildStdout,
    pub stderr: ChildStderr,
}

/// How a held child ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChildEnd {
    /// How the child ended.
    pub exit: Exit,
    /// How many processes it left behind, which were ended.
    pub left: u64,
    /// Why it never began.
    pub problem: Option<String>,
}

impl ChildEnd {
    /// Creates the end of a child whose exit status is unknown.
    pub fn unknown() -> Self {
        let problem = "the guardian process did not report the end".to_owned();
        Self { exit: Exit::Unknown, left: 0, problem: Some(problem) }
    }
}

impl GuardedChild {
    /// Starts a program under a guardian.
    pub async fn start(launch: &Launch, guardian: &Guardian) -> Result<(Self, Pipes), StartError> {
        if !launch.cwd.is_dir() {
            return Err(StartError::NoDirectory(launch.cwd.clone()));
        }
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
            .current_dir(&launch.cwd)
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped());
        // Where Convoke was started by a program that ignores the ends of its children, so would the
        // guardian, and learn nothing of the agent's. A signal that is listened to is not inherited so.
        let _ = signal(SignalKind::child());
        let mut guardian =
            tokio::process::Command::from(command).spawn().map_err(StartError::Guardian)?;
        let pipes = take_pipes(&mut guardian).ok_or(StartError::Silent)?;
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
        let (reports, control) = stream.into_split();
        let held = Self {
            guardian,
            control,
            reports: BufReader::new(reports).lines(),
            private_dir: launch.private_dir.clone(),
            exit: Exit::Unknown,
            left: None,
            problem: None,
        };
        Ok((held, pipes))
    }

    /// Interrupts the child, as a user at a terminal would.
    pub async fn interrupt(&mut self) {
        // A guardian that is gone reports so by itself.
        let _ = self.control.write_all(&[INTERRUPT]).await;
    }

    /// Ends the child and everything that it started.
    pub async fn kill(&mut self) {
        let _ = self.control.write_all(&[KILL]).await;
    }

    /// Waits until the child and everything that it started have ended. May be called again after it
    /// was dropped half-way.
    pub async fn ended(&mut self) -> ChildEnd {
        while let Ok(Some(line)) = self.reports.next_line().await {
            match line.split_once(' ') {
                Some(("exit", code)) => self.exit = code.parse().map_or(Exit::Unknown, Exit::Code),
                Some(("signal", n)) => self.exit = n.parse().map_or(Exit::Unknown, Exit::Signal),
                Some(("left", count)) => self.left = count.parse().ok(),
                Some(("error", problem)) => self.problem = Some(problem.to_owned()),
                _ => {}
            }
        }
        let _ = self.guardian.wait().await;
        let left = match self.left {
            Some(left) => left,
            // The guardian went without a report: somebody killed it.
            None => self.end_marked().await,
        };
        ChildEnd { exit: self.exit, left, problem: self.problem.clone() }
    }
}

impl GuardedChild {
    /// Ends what has the private directory of this turn in its environment.
    async fn end_marked(&self) -> u64 {
        let mut ended = BTreeSet::new();
        for _ in 0..MARKED_ROUNDS {
            let marked = platform::using(&self.private_dir);
            if marked.is_empty() {
                break;
            }
            // A keeper ends what it holds, also what has lost the mark, if it is left to.
            for pid in marked.into_iter().filter(|&pid| !platform::is_keeper(pid)) {
                // One that is gone already is no news.
                let _ = kill(pid, Signal::SIGKILL);
                ended.insert(pid);
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        ended.len() as u64
    }
}

/// Returns the connection of a guardian that came, saw its agent end, reported and went, all before
/// anybody here had the time to look.
fn left_connection(listener: UnixListener) -> io::Result<UnixStream> {
    // It does not block: what is not there by now will not come.
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
