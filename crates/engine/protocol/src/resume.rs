//! Handles of agents' own sessions.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::id::SessionId;
use crate::usage::Usage;

/// A handle that resumes an agent's session. Contains no secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResumeHandle {
    /// The agent's own id of the session.
    pub session: String,
    /// The working directory of the session. Some agents do not find the session without it.
    pub cwd: PathBuf,
    /// The model of the session. Some agents lose the history when it changes.
    pub model: Option<String>,
    /// The token count of the whole session, for agents that report only that.
    pub used: Option<Usage>,
    /// The program's own name of the last thing in the session, to which it can return.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mark: Option<String>,
    /// The kind of agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// The version of the program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The tokens of the last request: the size of the window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<u64>,
    /// The conversation that the session belongs to. A copy of it must not write into the same session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<SessionId>,
}

impl ResumeHandle {
    /// Creates the handle of a session in a directory.
    pub fn new(session: impl Into<String>, cwd: impl Into<PathBuf>) -> Self {
        Self {
            session: session.into(),
            cwd: cwd.into(),
            model: None,
            used: None,
            mark: None,
            program: None,
            version: None,
            window: None,
            owner: None,
        }
    }
}
