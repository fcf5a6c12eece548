//! Supervision: the only module that starts, feeds, drains, times out, cancels and reaps child processes.
//!
//! Every child runs under a guardian (the same binary, see [`guardian`]), which kills the child and everything
//! that it started when the turn is over or Convoke is gone.

mod event_budget;
mod guarded_child;
pub mod guardian;
mod open_tools;
#[cfg_attr(target_os = "linux", path = "linux.rs")]
#[cfg_attr(not(target_os = "linux"), path = "portable.rs")]
mod platform;
mod private_dir;
mod running;
mod start_order;
mod supervise;
mod terminal;

use std::ffi::OsString;
use std::path::PathBuf;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

pub use self::guarded_child::StartError;
pub use self::private_dir::{PrivateDir, temp_root};
pub(crate) use self::private_dir::{is_private_path, other_private_dirs};
pub use self::running::{RestingProgram, RunningProgram};
pub use self::supervise::{Opening, Supervised, Terms, lines_of, supervise, supervise_turn};
pub(crate) use self::terminal::{OutputBounds, Terminal};
use convoke_protocol::image::Image;
use convoke_protocol::usage::Usage;

use crate::ending::Ending;
use crate::sandbox::{Policy, Reach};
use crate::stream::{EventReader, Sink};
use crate::turn::TurnResult;
use crate::turn_input::Permissions;
use crate::working_directory::WorkingDirectory;

/// A program to start.
#[derive(Debug, Clone)]
pub struct Launch {
    pub program: PathBuf,
    /// The arguments. They never contain text of a conversation.
    pub args: Vec<OsString>,
    /// The whole environment.
    pub env: Vec<(OsString, OsString)>,
    /// The working directory. The program is not started if another one took its path.
    pub cwd: WorkingDirectory,
    /// The turn's private directory, for temporary files and the control socket.
    pub private_dir: PathBuf,
    /// The program's private home beside it, which the guardian removes too if Convoke is gone.
    pub private_home: Option<PathBuf>,
    /// The program's policy, which reaches the process that enforces it over its standard input; `None` if nothing is
    /// enforced.
    pub policy: Option<Policy>,
    /// The permissions whose refusals are reported; `None` if they are not looked for.
    pub stopped_by: Option<Permissions>,
}

/// Access to the host, for reading files and running commands on behalf of an agent.
#[derive(Debug, Clone, Copy)]
pub struct HostAccess<'a> {
    /// The launch of the agent's program; its commands run in the same environment.
    pub launch: &'a Launch,
    /// The guardian of commands.
    pub guardian: &'a guardian::Guardian,
    /// The paths that the agent may read and change.
    pub reach: &'a Reach,
}

/// The dialogue with a child over standard input and output.
pub trait Dialogue: Send {
    /// Provides access to the host for client requests. Called once, before the program starts.
    fn equip(&mut self, _access: HostAccess<'_>) -> std::io::Result<()> {
        Ok(())
    }

    /// Returns the first input.
    fn open(&mut self) -> Input;

    /// Begins another turn in a program that rests, and returns its first input.
    fn next_turn(&mut self, _turn: NextTurn<'_>, _sink: &mut Sink<'_>) -> Input {
        Input::last(Vec::new())
    }

    /// Returns whether the turn is complete and the program waits for another one, without work in the background.
    fn is_at_rest(&self) -> bool {
        false
    }

    /// Reads a line of output and returns the next input.
    fn line(&mut self, line: &[u8], sink: &mut Sink<'_>) -> Input;

    /// Returns the reader of the output.
    fn reader(&self) -> &dyn EventReader;

    /// Returns the reader of the output, mutably.
    fn reader_mut(&mut self) -> &mut dyn EventReader;

    /// Reads a line of the error output, for agents that report retries there.
    fn error_line(&mut self, line: &str, sink: &mut Sink<'_>) {
        self.reader_mut().error_line(line, sink);
    }

    /// Returns the input that asks the agent to stop, if it can be asked.
    fn interrupt(&mut self) -> Option<Input> {
        None
    }

    /// Returns the input that answers a question of the agent.
    fn answer(&mut self, _question: &str, _answer: Decision, _sink: &mut Sink<'_>) -> Input {
        Input::nothing()
    }

    /// Waits for an event other than the agent's output, which [`Self::wake`] handles.
    fn poll_wake(&mut self, _context: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }

    /// Handles the wake-up, and returns the next input.
    fn wake(&mut self, _sink: &mut Sink<'_>) -> Input {
        Input::nothing()
    }

    /// Ends the commands that the dialogue started for the agent.
    fn end_commands(&mut self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(std::future::ready(()))
    }

    /// Returns the longest silence in the current step of the dialogue, if it is shorter than the turn's.
    fn silence_limit(&self) -> Option<Duration> {
        None
    }

    /// Returns the input after that silence; `None` if the turn has timed out.
    fn on_silence(&mut self) -> Option<Input> {
        None
    }

    /// Returns the time limit for the program to exit after its turn, if it is not the default.
    fn exit_limit(&self) -> Option<Duration> {
        None
    }

    /// Returns the input that ends an agent that has replied and left background tasks.
    fn dismiss(&mut self, _sink: &mut Sink<'_>) -> Input {
        Input::last(Vec::new())
    }

    /// Returns the result of the turn, after the last line.
    fn finish(&mut self, ending: &Ending<'_>, sink: &mut Sink<'_>) -> TurnResult {
        self.reader_mut().finish(ending, sink)
    }
}

/// Another turn of a program that rests.
#[derive(Debug, Clone, Copy)]
pub struct NextTurn<'t> {
    pub prompt: &'t str,
    pub images: &'t [Image],
    /// The maximum size of the reply.
    pub reply_bytes: usize,
    /// The tokens of the whole session so far.
    pub used: Option<Usage>,
}

/// The answer to an agent's question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// The action is allowed.
    Allowed,
    /// The action is refused, and the turn continues.
    Refused,
    /// The question ends with the turn.
    Withdrawn,
}

/// Input for a child.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Input {
    pub bytes: Vec<u8>,
    /// Whether this is the last input.
    pub last: bool,
}

impl Input {
    /// Creates an empty input; more may follow.
    pub fn nothing() -> Self {
        Self::default()
    }

    /// Creates an input with these bytes; more may follow.
    pub fn more(bytes: Vec<u8>) -> Self {
        Self { bytes, last: false }
    }

    /// Creates the last input.
    pub fn last(bytes: Vec<u8>) -> Self {
        Self { bytes, last: true }
    }
}
