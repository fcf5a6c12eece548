//! A program that runs, in a turn or between two.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

use super::guarded_child::{GuardedChild, Pipes, StartError};
use super::guardian::Guardian;
use super::supervise::extended;
use super::{Input, Launch};
use crate::stream::lines::LineSplitter;
use crate::turn_input::HeldUntil;

/// A program under its guardian, with its pipes. Dropping it terminates the program and everything that it started.
pub struct RunningProgram {
    pub(super) held: GuardedChild,
    /// The inputs, bounded by their bytes: a dialogue does not wait, and one input may be larger than many.
    pub(super) input: Option<mpsc::UnboundedSender<Input>>,
    /// The number of bytes written to the program that it has not read.
    pub(super) unread: Arc<AtomicUsize>,
    pub(super) stdout: ChildStdout,
    pub(super) stderr: ChildStderr,
    pub(super) lines: LineSplitter,
    pub(super) is_error_open: bool,
}

impl RunningProgram {
    /// Starts a program whose output is split into these lines.
    pub async fn start(
        launch: &Launch,
        guardian: &Guardian,
        lines: LineSplitter,
    ) -> Result<Self, StartError> {
        let (held, pipes) = GuardedChild::start(launch, guardian).await?;
        let Pipes { stdin, stdout, stderr } = pipes;
        let (input, inputs) = mpsc::unbounded_channel();
        let unread = Arc::new(AtomicUsize::new(0));
        // A separate task, so that a child that does not read cannot block reading its output.
        tokio::spawn(feed(stdin, inputs, unread.clone()));
        let input = Some(input);
        Ok(Self { held, input, unread, stdout, stderr, lines, is_error_open: true })
    }

    /// Kills the program and everything that it started, and waits for their end.
    async fn end(mut self) {
        self.held.kill().await;
        self.held.ended().await;
    }

    /// Reads and drops the output until the program is wanted. Returns `None` if it has ended, or was not wanted in time.
    async fn rest(
        mut self,
        idle: Duration,
        mut held_until: Option<HeldUntil>,
        mut wanted: oneshot::Receiver<()>,
    ) -> Option<Self> {
        let end = Instant::now() + idle;
        let mut out = vec![0; 8 << 10];
        let mut err = vec![0; 8 << 10];
        loop {
            tokio::select! {
                biased;
                is_wanted = &mut wanted => return is_wanted.ok().map(|()| self),
                () = sleep_until(end) => break,
                left = extended(&mut held_until) => self.held.allow(left).await,
                read = self.stdout.read(&mut out) => match read {
                    // What a program writes between its turns is no part of any.
                    Ok(count @ 1..) => self.lines.push(&out[..count], |_| {}),
                    Ok(0) | Err(_) => break,
                },
                read = self.stderr.read(&mut err), if self.is_error_open => {
                    self.is_error_open = matches!(read, Ok(1..));
                }
                _ = self.held.ended() => return None,
            }
        }
        self.end().await;
        None
    }
}

/// A program between two turns. Dropping it terminates the program.
pub struct RestingProgram {
    wanted: oneshot::Sender<()>,
    resting: JoinHandle<Option<RunningProgram>>,
}

impl RestingProgram {
    /// Keeps a program for a time; while its session is held, where that has an end.
    pub fn new(program: RunningProgram, idle: Duration, held_until: Option<HeldUntil>) -> Self {
        let (wanted, is_wanted) = oneshot::channel();
        Self { wanted, resting: tokio::spawn(program.rest(idle, held_until, is_wanted)) }
    }

    /// Returns whether the program still runs.
    pub fn is_alive(&self) -> bool {
        !self.resting.is_finished()
    }

    /// Returns the program, unless it has ended.
    pub async fn wake(self) -> Option<RunningProgram> {
        // Fails only if the program has ended.
        let _ = self.wanted.send(());
        match self.resting.await {
            Ok(program) => program,
            Err(error) => {
                tracing::warn!(%error, "a program between two turns was lost");
                None
            }
        }
    }

    /// Terminates the program, and waits for its end.
    pub async fn end(self) {
        if let Some(program) = self.wake().await {
            program.end().await;
        }
    }
}

/// Writes inputs in order, until the child closes its input or no more follow.
async fn feed(
    mut stdin: ChildStdin,
    mut inputs: mpsc::UnboundedReceiver<Input>,
    unread: Arc<AtomicUsize>,
) {
    while let Some(input) = inputs.recv().await {
        unread.fetch_sub(input.bytes.len(), Ordering::Relaxed);
        if stdin.write_all(&input.bytes).await.is_err() || input.last {
            break;
        }
    }
}
