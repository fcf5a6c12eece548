//! Handles of agents' own sessions.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

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
}
