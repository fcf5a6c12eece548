//! The delivery: everything that one turn of one agent is given.

use std::path::PathBuf;
use std::time::Duration;

use convoke_core::ledger::Ledger;
pub use convoke_team::{Permissions, Trust};
use serde::{Deserialize, Serialize};

use crate::id::AttemptRef;
use crate::permission::Approvals;
use crate::usage::Usage;

/// What one turn is given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnInput {
    /// Text that stands beside the agent's own instructions, when the agent takes one.
    pub system: Option<String>,
    /// The text that the agent answers.
    pub prompt: String,
    /// The ledger of prompt and system text, when they were assembled. An agent of ours carries its entries
    /// on into the ledger of each request.
    pub ledger: Option<Ledger<'static>>,
    /// The directory that the agent works in.
    pub cwd: PathBuf,
    /// What the agent may do.
    pub permissions: Permissions,
    /// The model; the agent's own choice when there is none.
    pub model: Option<String>,
    /// The session that this turn goes on with.
    pub resume: Option<ResumeHandle>,
    /// Whether the user trusts the files in the directory.
    pub trust: Trust,
    /// What the turn may use.
    pub limits: Limits,
    /// What answers the agent's questions without a person.
    pub approvals: Approvals,
    /// Who keeps what the agent remembers of the turn.
    pub keeper: ThreadWriter,
    /// The attempt of a session that this is; `None` outside of a session.
    pub attempt: Option<AttemptRef>,
}

impl TurnInput {
    /// Creates a delivery with the narrowest permissions and the usual limits.
    pub fn new(prompt: impl Into<String>, cwd: impl Into<PathBuf>) -> Self {
        Self {
            system: None,
            prompt: prompt.into(),
            ledger: None,
            cwd: cwd.into(),
            permissions: Permissions::ReadOnly,
            model: None,
            resume: None,
            trust: Trust::Untrusted,
            limits: Limits::default(),
            attempt: None,
            approvals: Approvals::default(),
            keeper: ThreadWriter::Agent,
        }
    }
}

/// Who keeps what an agent remembers of a turn, where the agent has no memory outside of Convoke.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ThreadWriter {
    /// The agent does, before its turn ends.
    #[default]
    Agent,
    /// The caller does, in one step with its own note that the turn has ended: else a crash between the
    /// two would leave a turn that is remembered and taken again. The outcome brings what to keep.
    Caller {
        /// Names the turn among those of its thread: another attempt of it has the same name.
        turn: String,
    },
}

/// What resumes a session of an agent. It holds no secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResumeHandle {
    /// The agent's own name of the session.
    pub session: String,
    /// The directory that it was held in: some agents find it nowhere else.
    pub cwd: PathBuf,
    /// The model that it was held with: a change costs some agents their memory.
    pub model: Option<String>,
    /// The tokens counted over the session so far, for agents that count so.
    pub used: Option<Usage>,
}

/// What a turn may use. Each has an end, so that no agent runs, writes or grows for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// From the start to the end of the turn.
    pub turn: Duration,
    /// Without a byte of output; a tool that runs silently counts.
    pub silence: Duration,
    /// For shells that the agent left running in the background when it answered; then they are ended.
    pub background: Duration,
    /// For a person's answer to a question of the agent; no answer is a no.
    pub ask: Duration,
    /// After a cancel, before the agent is interrupted and then killed.
    pub grace: Duration,
    /// The bytes of one line of output.
    pub line_bytes: usize,
    /// The bytes of all output of a turn.
    pub output_bytes: u64,
    /// The bytes of the reply, and of any text in an event.
    pub reply_bytes: usize,
    /// The bytes of text in all events of a turn.
    pub event_bytes: usize,
    /// How often a failed request to the model is repeated. An agent that cannot be told is stopped
    /// when it says that it tries once more.
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
            line_bytes: 32 << 20,
            output_bytes: 512 << 20,
            reply_bytes: 4 << 20,
            event_bytes: 32 << 20,
            retries: 3,
        }
    }
}
