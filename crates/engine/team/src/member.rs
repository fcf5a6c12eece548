//! The members of a team.

use std::collections::BTreeMap;
use std::time::Duration;

use convoke_core::name::{MemberName, NameKey};

use crate::{ApiDeveloperRole, ApiTools, ApiWire, Memory, Permissions, Record, WorkspaceChoice};

/// A participant of a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// The name with which others address the member.
    pub name: MemberName,
    /// Another name, for people.
    pub display_name: Option<String>,
    /// Whether the member is a person or an agent.
    pub kind: MemberKind,
    /// The number of context messages; `None` for the team's.
    pub window: Option<usize>,
    /// The budget of a prompt in bytes; `None` for the team's.
    pub max_bytes: Option<u64>,
}

/// Whether a member is a person or an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum MemberKind {
    /// A person.
    Human,
    /// An agent.
    Agent(Box<AgentSettings>),
}

/// The settings of an agent.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AgentSettings {
    /// The agent: claude, codex, gemini, api, plain, or one that the user defined.
    pub agent: String,
    /// The role summary. First in the system text, never cut.
    pub role_summary: Option<String>,
    /// The configured system text.
    pub instructions: Option<String>,
    /// The file whose text follows the configured system text, relative to the team file.
    pub instructions_file: Option<String>,
    /// The model; `None` for the agent's default.
    pub model: Option<String>,
    /// The program to run instead of the default.
    pub command: Option<String>,
    /// Arguments for the program.
    pub args: Vec<String>,
    /// Environment variables for the program.
    pub env: BTreeMap<String, String>,
    /// The working directory; `None` for the directory of the team file.
    pub cwd: Option<String>,
    /// The permissions; `None` for the user's own setting for the agent.
    pub sandbox: Option<Permissions>,
    /// The address of an api agent's model.
    pub base_url: Option<String>,
    /// The wire format of that address.
    pub wire: Option<ApiWire>,
    /// The role of developer messages on the Chat wire.
    pub developer_role: Option<ApiDeveloperRole>,
    /// The name of the variable that holds the key. No file contains the key itself.
    pub key_env: Option<String>,
    /// The model's context window in tokens.
    pub context_window: Option<u64>,
    /// The tools offered to the model.
    pub tools: Option<ApiTools>,
    /// The recording of requests; `None` for the team's setting.
    pub record: Option<Record>,
    /// What the agent keeps after a turn; `None` for the team's setting.
    pub memory: Option<Memory>,
    /// The tokens of its session's window beyond which a turn starts afresh; `None` for no limit.
    pub memory_limit: Option<u64>,
    /// The time after which its program ends between turns; `None` for the default.
    pub idle_timeout: Option<Duration>,
    /// Whether the agent gets tools to reach its team; `None` for the team's setting.
    pub team_tools: Option<bool>,
    /// The session mode of an ACP agent; `None` for the user's own setting.
    pub mode: Option<String>,
    /// Whether an ACP agent can read and write files through Convoke; `None` for the user's own setting.
    pub client_files: Option<bool>,
    /// Whether an ACP agent can run commands through Convoke; `None` for the user's own setting.
    pub client_terminal: Option<bool>,
    /// Whether the agent works in a copy of the directory; `None` for the team's choice.
    pub workspace: Option<WorkspaceChoice>,
    /// Ignored files that are copied into the workspace; the team's if empty.
    pub workspace_copy: Vec<String>,
    /// Ignored files that are linked into the workspace; the team's if empty.
    pub workspace_link: Vec<String>,
    /// The name or label of the node that runs the agent's turns; `None` for any machine.
    pub node: Option<String>,
}

impl AgentSettings {
    /// The time after which a program ends between turns by default.
    pub const IDLE_TIMEOUT: Duration = Duration::from_mins(10);

    /// Returns whether the agent's own session goes on from turn to turn.
    pub fn remembers(&self) -> bool {
        self.memory == Some(Memory::Session)
    }
}

impl Member {
    /// Returns the agent's settings; a person has none.
    pub fn agent(&self) -> Option<&AgentSettings> {
        match &self.kind {
            MemberKind::Human => None,
            MemberKind::Agent(settings) => Some(settings),
        }
    }

    /// Returns whether this is the member's name or display name.
    pub fn is_called(&self, key: &NameKey) -> bool {
        self.names().any(|name| NameKey::new(name) == *key)
    }

    /// Returns the name and the display name.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.name.as_str()).chain(self.display_name.as_deref())
    }
}
