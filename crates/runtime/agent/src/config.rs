//! The agents by name: the built-in ones, and those that the user's file adds or changes.

mod unused;
mod user_file;

use std::collections::BTreeMap;

use convoke_team::TeamFileErrors;
pub use convoke_team::{ApiDeveloperRole, ApiTools, ApiWire};

pub use self::unused::Unused;
use crate::adapter::Preset;
use crate::cli::{Cli, Programs};
use crate::sandbox::SandboxAdditions;
use crate::turn_input::Permissions;

/// A kind of agent: the program or protocol that it uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum AgentKind {
    /// A known CLI.
    Cli(&'static dyn Cli),
    /// Any program that speaks the Agent Client Protocol.
    Acp,
    /// Any command that reads a prompt from standard input and writes its reply to standard output.
    Plain,
    /// A model behind an OpenAI-compatible endpoint, without a program of its own.
    Api,
    /// The built-in agent that needs no program.
    StandIn,
}

impl AgentKind {
    /// The kinds beside the known CLIs.
    const GENERAL: [Self; 4] = [Self::Acp, Self::Plain, Self::Api, Self::StandIn];

    /// Returns every kind of agent.
    pub fn all(programs: Programs) -> impl Iterator<Item = Self> {
        programs.clis.iter().map(|cli| Self::Cli(*cli)).chain(Self::GENERAL)
    }

    /// Returns the name that users type.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cli(cli) => cli.facts().command,
            Self::Acp => "acp",
            Self::Plain => "plain",
            Self::Api => "api",
            Self::StandIn => "stand-in",
        }
    }
}

/// An agent as it is configured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Definition {
    pub kind: AgentKind,
    /// The built-in ACP agent; `None` for every other agent.
    pub preset: Option<&'static Preset>,
    /// The program; `None` for the default.
    pub command: Option<String>,
    /// Additional arguments.
    pub args: Vec<String>,
    /// Additional environment variables.
    pub env: BTreeMap<String, String>,
    /// The default model.
    pub model: Option<String>,
    /// The widest allowed permissions; `None` for those of the turn.
    pub permissions: Option<Permissions>,
    /// The protocol, for a CLI that has several.
    pub protocol: Protocol,
    /// The session mode of an ACP agent, by name.
    pub mode: Option<String>,
    /// Whether an ACP agent can read and write files through Convoke.
    pub client_files: bool,
    /// Whether an ACP agent can run commands through Convoke.
    pub client_terminal: bool,
    /// The replies of a stand-in, turn by turn.
    pub replies: Vec<String>,
    /// The endpoint and tools of an api agent.
    pub api: Api,
    /// The user's additions to its sandbox.
    pub sandbox: SandboxAdditions,
}

/// The endpoint of a model, and the tools that the model is offered.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Api {
    /// The address that the wire's path is appended to, for example `http://127.0.0.1:8080/v1`.
    pub base_url: Option<String>,
    /// The wire format.
    pub wire: ApiWire,
    /// The role of developer messages on the Chat wire: `developer` or `system`.
    pub developer_role: ApiDeveloperRole,
    /// The name of the variable that holds the key; `None` sends no key.
    pub key_env: Option<String>,
    /// The context window in tokens; `None` to derive it from the model's name.
    pub context_window: Option<u64>,
    /// The tools that the model is offered.
    pub tools: ApiTools,
}

/// The protocols of a CLI that has several.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Protocol {
    /// `app-server`: streams text, takes system text of any size, and stops cleanly when asked.
    #[default]
    AppServer,
    /// `exec --json`: one request, whole messages.
    Exec,
}

impl Definition {
    /// Creates the built-in agent of a kind.
    pub fn built_in(kind: AgentKind) -> Self {
        Self {
            kind,
            preset: None,
            command: None,
            args: Vec::new(),
            env: BTreeMap::new(),
            model: None,
            permissions: None,
            protocol: Protocol::default(),
            mode: None,
            client_files: false,
            client_terminal: false,
            replies: Vec::new(),
            api: Api::default(),
            sandbox: SandboxAdditions::default(),
        }
    }

    /// Creates an ACP agent known by name.
    pub fn of_preset(preset: &'static Preset) -> Self {
        Self { preset: Some(preset), ..Self::built_in(AgentKind::Acp) }
    }

    /// Returns the program's name or path.
    pub fn program(&self) -> &str {
        let own = self.command.as_deref().or_else(|| Some(self.preset?.command));
        own.unwrap_or(self.kind.name())
    }

    /// Returns whether the agent cannot run before a program is named.
    pub fn needs_command(&self) -> bool {
        let is_any = matches!(self.kind, AgentKind::Acp | AgentKind::Plain);
        is_any && self.preset.is_none() && self.command.is_none()
    }

    /// Returns the reason why the agent does not use a setting of a team file; `None` if it uses it.
    pub fn unused(&self, setting: &str) -> Option<Unused> {
        if setting == "record" && self.vendor().is_some() {
            return None;
        }
        self.kind.unused(setting)
    }

    /// Returns whether the agent is an adapter that runs a vendor's CLI and speaks ACP.
    pub fn is_adapter(&self) -> bool {
        self.preset.is_some_and(Preset::is_adapter)
    }

    /// Returns the vendor whose CLI the agent runs.
    pub fn vendor(&self) -> Option<&'static dyn Cli> {
        self.kind.vendor().or_else(|| self.preset?.vendor)
    }
}

/// The agents by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Catalog {
    agents: BTreeMap<String, Definition>,
    kinds: Vec<AgentKind>,
}

impl Catalog {
    /// Creates the catalog of the built-in agents.
    pub fn built_in(programs: Programs) -> Self {
        let kinds: Vec<AgentKind> = AgentKind::all(programs).collect();
        let of_kinds = kinds.iter().map(|kind| (kind.name(), Definition::built_in(*kind)));
        let presets = programs.presets.iter();
        let presets = presets.map(|preset| (preset.name, Definition::of_preset(preset)));
        let agents = of_kinds.chain(presets).map(|(name, agent)| (name.to_owned(), agent));
        Self { agents: agents.collect(), kinds }
    }

    /// Returns an agent.
    pub fn get(&self, name: &str) -> Option<&Definition> {
        self.agents.get(name)
    }

    /// Returns all agents, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Definition)> {
        self.agents.iter().map(|(name, agent)| (name.as_str(), agent))
    }

    /// Adds and changes agents from the text of the user's `agents.toml`. A text with errors changes nothing.
    pub fn add_user_file(&mut self, text: &str) -> Result<(), TeamFileErrors> {
        self.agents = user_file::read(text, &self.agents, &self.kinds)?;
        Ok(())
    }
}

/// Returns whether a program would parse a value as an option.
pub(crate) fn is_option(value: &str) -> bool {
    value.starts_with('-')
}
