//! Supervision: the one place that starts, feeds, drains, times out, cancels and reaps child processes.
//!
//! A child never hangs from Convoke itself. A guardian (the same binary, see [`guardian`]) holds it and
//! everything that it starts, and ends all of it when the turn is over or Convoke is gone.

mod event_budget;
mod guarded_child;
pub mod guardian;
#[cfg_attr(target_os = "linux", path = "linux.rs")]
#[cfg_attr(not(target_os = "linux"), path = "portable.rs")]
mod platform;
mod private_dir;
mod supervise;

use std::ffi::OsString;
use std::path::PathBuf;

pub use self::guarded_child::StartError;
pub use self::private_dir::PrivateDir;
pub(crate) use self::private_dir::other_private_dirs;
pub use self::supervise::supervise;
use crate::stream::{Sink, TurnPhase};
use crate::turn::TurnResult;
use crate::verdict::Ending;

/// A program to start.
#[derive(Debug, Clone)]
pub struct Launch {
    /// The program's file.
    pub program: PathBuf,
    /// Its arguments, which never hold text of a conversation.
    pub args: Vec<OsString>,
    /// Its whole environment.
    pub env: Vec<(OsString, OsString)>,
    /// The directory that it works in.
    pub cwd: PathBuf,
    /// A directory of this turn alone, for its temporary files and our control socket.
    pub private_dir: PathBuf,
    /// What the program may do, as a file for the confine step; `None` if nothing is enforced.
    pub policy: Option<PathBuf>,
}

/// What is said to a child over standard input, and how its standard output is read.
pub trait Dialogue: Send {
    /// Returns what is written first.
    fn open(&mut self) -> Input;

    /// Reads a line of output and returns what is to be written in answer.
    fn line(&mut self, line: &[u8], sink: &mut Sink<'_>) -> Input;

    /// Reads a line of the error output, for agents that tell of retries there.
    fn error_line(&mut self, _line: &str, _sink: &mut Sink<'_>) {}

    /// Says how many bytes of text were left out of the next line.
    fn line_lacks(&mut self, bytes: u64);

    /// Returns what asks the agent to stop, when it can be asked.
    fn interrupt(&mut self) -> Option<Input>;

    /// Returns what answers a question of the agent.
    fn answer(&mut self, _question: &str, _answer: Decision) -> Input {
        Input::nothing()
    }

    /// Returns how far the turn has come.
    fn phase(&self) -> TurnPhase;

    /// Returns what ends an agent that has answered and left something running in the background.
    fn dismiss(&mut self, _sink: &mut Sink<'_>) -> Input {
        Input::last(Vec::new())
    }

    /// Returns the result of the turn, after the last line.
    fn finish(&mut self, ending: &Ending<'_>, sink: &mut Sink<'_>) -> TurnResult;

    /// Returns the id of the agent's session, once the agent has named it.
    fn session(&self) -> Option<&str>;
}

/// What an agent is told about its question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// It may do it.
    Allowed,
    /// It may not, and goes on without.
    Refused,
    /// The turn ends, and the question with it.
    Withdrawn,
}

/// What is written to a child's standard input.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Input {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// Whether the input ends here.
    pub last: bool,
}

impl Input {
    /// Nothing, and more may follow.
    pub fn nothing() -> Self {
        Self::default()
    }

    /// These bytes, and more may follow.
    pub fn more(bytes: Vec<u8>) -> Self {
        Self { bytes, last: false }
    }

    /// These bytes and no more.
    pub fn last(bytes: Vec<u8>) -> Self {
        Self { bytes, last: true }
    }
}
