//! The members of a team.

use std::collections::BTreeMap;

use convoke_core::name::NameKey;

/// Somebody who takes part in a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// The name, by which others address it.
    pub name: String,
    /// The name that people read, when it is another.
    pub display_name: Option<String>,
    /// Whether it is a person or an agent.
    pub kind: MemberKind,
    /// How many context messages it gets, when not as many as everyone.
    pub window: Option<usize>,
    /// The most bytes of its prompts, when not as many as everyone's.
    pub max_bytes: Option<u64>,
}

/// Whether a member is a person or an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MemberKind {
    /// A person.
    Human,
    /// An agent.
    Agent(Box<AgentSettings>),
}

/// How an agent is told who it is, and how it is run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AgentSettings {
    /// The type of agent: claude, codex, gemini, acp, api or plain.
    pub agent: String,
    /// A short line that says who the agent is; it stands first in the system text and is never cut.
    pub role_summary: Option<String>,
    /// The configured system text.
    pub instructions: Option<String>,
    /// The file whose text follows it, relative to the team file.
    pub instructions_file: Option<String>,
    /// The model to use.
    pub model: Option<String>,
    /// The program to run, in place of the usual one.
    pub command: Option<String>,
    /// Arguments for the program.
    pub args: Vec<String>,
    /// Environment variables for the program.
    pub env: BTreeMap<String, String>,
    /// The directory that it works in.
    pub cwd: Option<String>,
    /// What it may do to that directory.
    pub sandbox: Option<String>,
    /// Where an api agent's model is served.
    pub base_url: Option<String>,
    /// What is spoken there: responses or chat.
    pub wire: Option<String>,
    /// Who says on the Chat wire what a developer says: developer or system.
    pub developer_role: Option<String>,
    /// The name of the variable that holds the key. The key itself stands in no file.
    pub key_env: Option<String>,
    /// The tokens that the model can hold.
    pub context_window: Option<u64>,
    /// The tools that the model is offered: none or read.
    pub tools: Option<String>,
}

impl Member {
    /// Returns the agent's settings; a person has none.
    pub fn agent(&self) -> Option<&AgentSettings> {
        match &self.kind {
            MemberKind::Human => None,
            MemberKind::Agent(settings) => Some(settings),
        }
    }

    /// Tells whether a name means this member.
    pub fn is_called(&self, key: &NameKey) -> bool {
        let names = std::iter::once(&self.name).chain(&self.display_name);
        names.into_iter().any(|name| NameKey::new(name) == *key)
    }
}
