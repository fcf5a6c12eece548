//! The input of a turn.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use convoke_core::ledger::Ledger;
use convoke_protocol::id::{AttemptRef, ThreadId};
use convoke_protocol::image::Image;
use convoke_protocol::memory::Branch;
use convoke_protocol::resume::ResumeHandle;
pub use convoke_team::{Permissions, Trust};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::approvals::Approvals;
use crate::team_tools::TeamTools;

/// The input of one turn of one agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnInput {
    /// The system text, if the agent accepts one.
    pub system: Option<String>,
    pub prompt: String,
    /// The images that the messages of the prompt show, oldest first.
    pub images: Vec<Image>,
    /// The ledger of the prompt and system text, if they were assembled. A model member copies its entries into
    /// the ledger of each request.
    pub ledger: Option<Ledger<'static>>,
    /// The working directory, by its real path: the turn is refused if a link is on it, which another turn may have put
    /// there.
    pub cwd: PathBuf,
    /// The agent's own copy of the project around `cwd`, in a directory of Convoke; `None` if it works elsewhere.
    pub workspace: Option<PathBuf>,
    /// Directories of Convoke that the agent can read.
    pub readable: Vec<PathBuf>,
    /// The agent's permissions.
    pub permissions: Permissions,
    /// The model; `None` for the agent's default.
    pub model: Option<String>,
    /// The agent's session to resume.
    pub resume: Option<ResumeHandle>,
    /// How the session goes on; `None` if it ends with the turn.
    pub memory: Option<SessionMemory>,
    /// Whether the user trusts the files in the directory.
    pub trust: Trust,
    /// The limits of the turn.
    pub limits: Limits,
    /// The rules that answer the agent's questions without a person.
    pub approvals: Approvals,
    /// The writer of the agent's thread.
    pub thread_writer: ThreadWriter,
    /// The attempt; `None` outside a session.
    pub attempt: Option<AttemptRef>,
    /// The member's thread in its session; `None` outside a session.
    pub thread: Option<ThreadId>,
    /// The tools to reach the team; `None` if the agent has none.
    pub team_tools: Option<TeamTools>,
    /// The time until which the turn may run; `None` if it is not limited by whoever holds its session.
    pub held_until: Option<HeldUntil>,
}

/// A deadline that the caller keeps extending. When it expires, the guardian terminates the agent, even if this process
/// is stopped.
#[derive(Debug, Clone)]
pub struct HeldUntil {
    until: watch::Receiver<Instant>,
    /// Whether the guardian has terminated the agent, possibly because the last extension did not reach it.
    has_ended: Arc<AtomicBool>,
}

impl HeldUntil {
    /// Creates a deadline that ends at the last time received.
    pub fn new(until: watch::Receiver<Instant>) -> Self {
        Self { until, has_ended: Arc::default() }
    }

    /// Returns the remaining time.
    pub fn left(&mut self) -> Duration {
        self.until.borrow_and_update().saturating_duration_since(Instant::now())
    }

    /// Returns whether the deadline has passed, here or for the guardian.
    pub fn is_over(&self) -> bool {
        self.has_ended.load(Ordering::Relaxed) || *self.until.borrow() <= Instant::now()
    }

    /// Records that the guardian has terminated the agent.
    pub(crate) fn end(&self) {
        self.has_ended.store(true, Ordering::Relaxed);
    }

    /// Waits until the deadline is extended, and returns the remaining time; `None` if no extension can follow.
    pub async fn extended(&mut self) -> Option<Duration> {
        self.until.changed().await.ok()?;
        Some(self.left())
    }
}

impl PartialEq for HeldUntil {
    fn eq(&self, other: &Self) -> bool {
        self.until.same_channel(&other.until)
    }
}

impl Eq for HeldUntil {}

impl TurnInput {
    /// Creates an input with the most restrictive permissions and the default limits.
    pub fn new(prompt: impl Into<String>, cwd: impl Into<PathBuf>) -> Self {
        Self {
            system: None,
            prompt: prompt.into(),
            images: Vec::new(),
            ledger: None,
            cwd: cwd.into(),
            workspace: None,
            readable: Vec::new(),
            permissions: Permissions::ReadOnly,
            model: None,
            resume: None,
            memory: None,
            trust: Trust::Untrusted,
            limits: Limits::default(),
            attempt: None,
            thread: None,
            team_tools: None,
            held_until: None,
            approvals: Approvals::default(),
            thread_writer: ThreadWriter::Agent,
        }
    }
}

/// A session that goes on after the turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionMemory {
    /// Where the session to resume goes on.
    pub branch: Branch,
    /// The time for which the program is kept for the next turn.
    pub idle: Duration,
}

/// The writer of a turn's thread lines, for agents whose thread Convoke stores.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ThreadWriter {
    /// The agent, before its turn ends.
    #[default]
    Agent,
    /// The caller, in one commit with the end of the turn. With two commits, a crash in between would retry a
    /// turn that is already in the thread. The result contains the lines.
    Caller {
        /// The name of the turn in its thread, the same for all of its attempts.
        turn: String,
    },
}

/// The limits of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The maximum duration of the turn.
    pub turn: Duration,
    /// The maximum time without output, including during tool calls.
    pub silence: Duration,
    /// The time after the reply until background shells of the agent are terminated.
    pub background: Duration,
    /// The time limit for a person's answer to a question. Afterwards, the question is refused.
    pub ask: Duration,
    /// The time after a cancellation before the agent is interrupted, and again before it is killed.
    pub grace: Duration,
    /// The maximum size of a line of output.
    pub line_bytes: usize,
    /// The maximum size of the output.
    pub output_bytes: u64,
    /// The maximum size of the reply and of each text in an event.
    pub reply_bytes: usize,
    /// The maximum size of the text in all events.
    pub event_bytes: usize,
    /// The maximum number of retries of a failed request. An agent without such a setting is terminated when it
    /// reports one retry too many.
    pub retries: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            turn: Duration::from_mins(30),
            silence: Duration::from_mins(30),
            background: Duration::from_mins(10),
            ask: Duration::from_mins(10),
            grace: Duration::from_secs(3),
            line_bytes: 16 << 20,
            output_bytes: 512 << 20,
            reply_bytes: 4 << 20,
            event_bytes: 32 << 20,
            retries: 3,
        }
    }
}
