//! A child as Convoke sees it: three pipes, and a guardian to talk to.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::UnixListener;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout};
use tokio::time::timeout;

use super::Launch;
use super::guardian::{Guardian, INTERRUPT, KILL};
use crate::verdict::Exit;

/// How long the guardian may take to come up.
const START_LIMIT: Duration = Duration::from_secs(20);
const PREFIX: &str = "convoke-";

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

/// Creates a directory for one turn, which only this user can read.
pub fn private_dir(root: &Path) -> io::Result<tempfile::TempDir> {
    tempfile::Builder::new().prefix(PREFIX).tempdir_in(root)
}

/// Returns whether a directory is one of ours, which may be removed.
pub fn is_private_dir(dir: &Path) -> bool {
    dir.file_name()
        .and_then(|name| name.to_str())
        .is_some_and(|name| name.starts_with(PREFIX))
}

/// A child that a guardian holds. When this is dropped, the guardian ends the child.
#[derive(Debug)]
pub struct Held {
    guardian: Child,
    control: OwnedWriteHalf,
    reports: Lines<BufReader<OwnedReadHalf>>,
    exit: Exit,
    left: u64,
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
pub struct Report {
    /// How the child ended.
    pub exit: Exit,
    /// How many processes it left behind, which were ended.
    pub left: u64,
    /// Why it never began.
    pub problem: Option<String>,
}

impl Held {
    /// Starts a program under a guardian.
    pub async fn start(launch: &Launch, guardian: &Guardian) -> Result<(Self, Pipes), StartError> {
        if !launch.cwd.is_dir() {
            return Err(StartError::NoDirectory(launch.cwd.clone()));
        }
        let socket = launch.private_dir.join("guardian");
        let listener = UnixListener::bind(&socket).map_err(|source| StartError::PrivateDir {
            path: launch.private_dir.clone(),
            source,
        })?;
        let mut command = guardian.command(&socket, &launch.program, &launch.args);
        command
            .env_clear()
            .envs(launch.env.iter().map(|(key, value)| (key, value)))
            .current_dir(&launch.cwd)
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped());
        let mut guardian = tokio::process::Command::from(command)
            .spawn()
            .map_err(StartError::Guardian)?;
        let pipes = take_pipes(&mut guardian).ok_or(StartError::Silent)?;
        let connected = tokio::select! {
            connected = timeout(START_LIMIT, listener.accept()) => connected,
            _ = guardian.wait() => return Err(StartError::Silent),
        };
        let Ok(Ok((stream, _))) = connected else {
            return Err(StartError::Silent);
        };
        // Nobody else is to connect; the turn's directory goes with the turn.
        let _ = std::fs::remove_file(&socket);
        let (reports, control) = stream.into_split();
        let held = Self {
            guardian,
            control,
            reports: BufReader::new(reports).lines(),
            exit: Exit::Unseen,
            left: 0,
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
    pub async fn ended(&mut self) -> Report {
        while let Ok(Some(line)) = self.reports.next_line().await {
            match line.split_once(' ') {
                Some(("exit", code)) => self.exit = code.parse().map_or(Exit::Unseen, Exit::Code),
                Some(("signal", n)) => self.exit = n.parse().map_or(Exit::Unseen, Exit::Signal),
                Some(("left", count)) => self.left = count.parse().unwrap_or(0),
                Some(("error", problem)) => self.problem = Some(problem.to_owned()),
                _ => {}
            }
        }
        let _ = self.guardian.wait().await;
        Report {
            exit: self.exit,
            left: self.left,
            problem: self.problem.clone(),
        }
    }
}

fn take_pipes(guardian: &mut Child) -> Option<Pipes> {
    Some(Pipes {
        stdin: guardian.stdin.take()?,
        stdout: guardian.stdout.take()?,
        stderr: guardian.stderr.take()?,
    })
}
