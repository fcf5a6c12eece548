//! The agents by name: the built-in ones, and those that the user's file adds or changes.

mod unused;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use convoke_core::variable::is_variable_name;
use convoke_redact::Redactor;
pub use convoke_team::{ApiDeveloperRole, ApiTools, ApiWire};
use serde::Deserialize;

pub use self::unused::Unused;
use crate::adapter::{PRESETS, Preset};
use crate::sandbox::SandboxAdditions;
use crate::turn_input::Permissions;
use crate::vendor::Vendor;

/// A kind of agent: the program or protocol that it uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AgentKind {
    /// Claude Code.
    Claude,
    /// Codex.
    Codex,
    /// Gemini CLI.
    Gemini,
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
    /// Every kind that works without a file.
    pub const ALL: [Self; 7] =
        [Self::Claude, Self::Codex, Self::Gemini, Self::Acp, Self::Plain, Self::Api, Self::StandIn];

    /// Returns the name that users type.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Codex => "codex",
            Self::Gemini => "gemini",
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
    /// The kind of agent.
    pub kind: AgentKind,
    /// The ACP agent that is known by this name.
    pub preset: Option<&'static Preset>,
    /// The program; `None` for the default.
    pub command: Option<String>,
    /// Additional arguments.
    pub args: Vec<String>,
    /// Additional environment variables.
    pub env: BTreeMap<String, String>,
    /// The default model.
    pub model: Option<String>,
    /// The widest permissions; `None` for those of the turn.
    pub permissions: Option<Permissions>,
    /// The protocol, for Codex.
    pub protocol: Protocol,
    /// The session mode of an ACP agent, by name.
    pub mode: Option<String>,
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
    /// The name of the variable that holds the key; no key is sent without it.
    pub key_env: Option<String>,
    /// The context window in tokens; `None` to derive it from the model's name.
    pub context_window: Option<u64>,
    /// The tools that the model is offered.
    pub tools: ApiTools,
}

/// Codex's protocols.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Protocol {
    /// `app-server`: streams text, takes system text of any size, and stops cleanly when asked.
    #[default]
    AppServer,
    /// `exec --json`: one shot, whole messages.
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
            replies: Vec::new(),
            api: Api::default(),
            sandbox: SandboxAdditions::default(),
        }
    }

    /// Creates an ACP agent that is known by name.
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

    /// Returns the vendor whose CLI the agent runs.
    pub fn vendor(&self) -> Option<Vendor> {
        self.kind.vendor().or_else(|| self.preset?.vendor)
    }
}

/// The agents by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Catalog {
    agents: BTreeMap<String, Definition>,
}

impl Catalog {
    /// Creates the catalog of the built-in agents.
    pub fn built_in() -> Self {
        let kinds = AgentKind::ALL.iter().map(|kind| (kind.name(), Definition::built_in(*kind)));
        let presets = PRESETS.iter().map(|preset| (preset.name, Definition::of_preset(preset)));
        let agents = kinds.chain(presets).map(|(name, agent)| (name.to_owned(), agent));
        Self { agents: agents.collect() }
    }

    /// Returns an agent.
    pub fn get(&self, name: &str) -> Option<&Definition> {
        self.agents.get(name)
    }

    /// Returns all agents, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Definition)> {
        self.agents.iter().map(|(name, agent)| (name.as_str(), agent))
    }

    /// Adds and changes agents from the user's own file, `agents.toml`.
    pub fn add_user_file(&mut self, path: &Path, text: &str) -> Result<(), ConfigError> {
        for (name, entry) in read(path, text)?.agent {
            self.apply(path, name, entry)?;
        }
        Ok(())
    }

    fn apply(&mut self, path: &Path, name: String, entry: Entry) -> Result<(), ConfigError> {
        let base = match (self.agents.remove(&name), entry.kind) {
            (Some(known), Some(kind)) if known.kind != kind => Definition::built_in(kind),
            (Some(known), _) => known,
            (None, Some(kind)) => Definition::built_in(kind),
            (None, None) => {
                return Err(ConfigError::NoKind { path: path.to_owned(), name });
            }
        };
        if let Some(problem) = entry.problem(&name, base.kind) {
            return Err(ConfigError::Invalid { path: path.to_owned(), message: problem });
        }
        let mut env = base.env;
        env.extend(entry.env.unwrap_or_default());
        let changed = Definition {
            kind: base.kind,
            preset: base.preset,
            command: entry.command.or(base.command),
            args: entry.args.unwrap_or(base.args),
            env,
            model: entry.model.or(base.model),
            permissions: entry.permissions.or(base.permissions),
            protocol: entry.protocol.unwrap_or(base.protocol),
            mode: entry.mode.or(base.mode),
            replies: entry.replies.unwrap_or(base.replies),
            api: Api {
                base_url: entry.base_url.or(base.api.base_url),
                wire: entry.wire.unwrap_or(base.api.wire),
                developer_role: entry.developer_role.unwrap_or(base.api.developer_role),
                key_env: entry.key_env.or(base.api.key_env),
                context_window: entry.context_window.or(base.api.context_window),
                tools: entry.tools.unwrap_or(base.api.tools),
            },
            sandbox: SandboxAdditions {
                readable: entry.readable.unwrap_or(base.sandbox.readable),
                writable: entry.writable.unwrap_or(base.sandbox.writable),
                ports: entry.ports.unwrap_or(base.sandbox.ports),
            },
        };
        self.agents.insert(name, changed);
        Ok(())
    }
}

/// Returns whether a program would parse a value as an option.
pub(crate) fn is_option(value: &str) -> bool {
    value.starts_with('-')
}

/// Returns whether a path means the same in every working directory.
fn is_anchored(path: &Path) -> bool {
    path.is_absolute() || path.starts_with("~")
}

/// An error in a file of agents.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The file is not TOML, or a setting is wrong.
    #[error("{}: {message}", .path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// The error and its line.
        message: String,
    },
    /// A new agent has no `kind`.
    #[error("{}: `agent.{name}` is new and needs `kind` (claude, codex, gemini, acp, plain, api, stand-in)", .path.display())]
    NoKind {
        /// The file.
        path: PathBuf,
        /// The agent.
        name: String,
    },
}

/// Parses a file. An error names the line and does not repeat it: it may hold a key.
fn read(path: &Path, text: &str) -> Result<File, ConfigError> {
    toml::from_str(text).map_err(|error: toml::de::Error| {
        let before = error.span().and_then(|span| text.get(..span.start));
        let line = before.map_or_else(String::new, |before| {
            format!("line {}: ", before.matches('\n').count() + 1)
        });
        let said = Redactor::default().redact(error.message()).into_owned();
        ConfigError::Invalid { path: path.to_owned(), message: format!("{line}{said}") }
    })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    agent: BTreeMap<String, Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Entry {
    kind: Option<AgentKind>,
    command: Option<String>,
    args: Option<Vec<String>>,
    env: Option<BTreeMap<String, String>>,
    model: Option<String>,
    permissions: Option<Permissions>,
    protocol: Option<Protocol>,
    mode: Option<String>,
    replies: Option<Vec<String>>,
    base_url: Option<String>,
    wire: Option<ApiWire>,
    developer_role: Option<ApiDeveloperRole>,
    key_env: Option<String>,
    context_window: Option<u64>,
    tools: Option<ApiTools>,
    readable: Option<Vec<PathBuf>>,
    writable: Option<Vec<PathBuf>>,
    ports: Option<Vec<u16>>,
}

impl Entry {
    /// Returns the names of the settings that are set.
    fn settings(&self) -> Vec<&'static str> {
        let Self {
            kind: _,
            command,
            args,
            env,
            model,
            permissions,
            protocol,
            mode,
            replies,
            base_url,
            wire,
            developer_role,
            key_env,
            context_window,
            tools,
            readable,
            writable,
            ports,
        } = self;
        let settings = [
            ("command", command.is_some()),
            ("args", args.is_some()),
            ("env", env.is_some()),
            ("model", model.is_some()),
            ("permissions", permissions.is_some()),
            ("protocol", protocol.is_some()),
            ("mode", mode.is_some()),
            ("replies", replies.is_some()),
            ("base-url", base_url.is_some()),
            ("wire", wire.is_some()),
            ("developer-role", developer_role.is_some()),
            ("key-env", key_env.is_some()),
            ("context-window", context_window.is_some()),
            ("tools", tools.is_some()),
            ("readable", readable.is_some()),
            ("writable", writable.is_some()),
            ("ports", ports.is_some()),
        ];
        settings.into_iter().filter(|(_, is_set)| *is_set).map(|(name, _)| name).collect()
    }

    /// Returns an error in well-formed settings. It never contains a key.
    fn problem(&self, name: &str, kind: AgentKind) -> Option<String> {
        let unused = self.settings().into_iter().find_map(|it| Some((it, kind.unused(it)?)));
        if let Some((setting, Unused { problem, fix })) = unused {
            return Some(format!("`agent.{name}.{setting}` {problem}; {fix}"));
        }
        if let Some(model) = self.model.as_deref().filter(|model| is_option(model)) {
            return Some(format!(
                "`agent.{name}.model` must not begin with `-`, which programs take for an option, not \
                 `{model}`"
            ));
        }
        if self.key_env.as_deref().is_some_and(|variable| !is_variable_name(variable)) {
            return Some(format!(
                "`agent.{name}.key-env` must be the name of a variable, not the key itself"
            ));
        }
        let paths = [("readable", &self.readable), ("writable", &self.writable)];
        for (setting, paths) in paths {
            let wrong = paths.iter().flatten().find(|path| !is_anchored(path));
            if let Some(path) = wrong {
                let path = path.display();
                return Some(format!(
                    "`agent.{name}.{setting}` must hold paths that begin with `/` or `~/`, not `{path}`"
                ));
            }
        }
        if self.context_window == Some(0) {
            return Some(format!(
                "`agent.{name}.context-window` must be a number of tokens, 1 or more"
            ));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"
        [agent.claude]
        model = "opus"

        [agent.reviewer]
        kind = "plain"
        command = "/opt/review"
        args = ["-x"]
    "#;

    #[test]
    fn built_in_agents_need_no_file() {
        let catalog = Catalog::built_in();
        let names: Vec<&str> = catalog.iter().map(|(name, _)| name).collect();
        assert_eq!(
            names,
            [
                "acp",
                "api",
                "claude",
                "claude-acp",
                "codex",
                "codex-acp",
                "copilot",
                "gemini",
                "gemini-acp",
                "kilo",
                "kimi",
                "opencode",
                "plain",
                "qwen",
                "stand-in"
            ]
        );
        assert_eq!(catalog.get("claude-acp").unwrap().program(), "claude-agent-acp");
        assert_eq!(catalog.get("codex").unwrap().program(), "codex");
    }

    #[test]
    fn a_users_file_adds_and_changes_agents() {
        let mut catalog = Catalog::built_in();
        catalog.add_user_file(Path::new("agents.toml"), FILE).unwrap();
        assert_eq!(catalog.get("claude").unwrap().model.as_deref(), Some("opus"));
        assert_eq!(catalog.get("claude").unwrap().kind, AgentKind::Claude);
        assert_eq!(catalog.get("reviewer").unwrap().program(), "/opt/review");
    }

    #[test]
    fn a_model_that_programs_would_take_for_an_option_is_refused() {
        let mut catalog = Catalog::built_in();
        let text = "[agent.claude]\nmodel = \"--debug\"\n";
        let refused = catalog.add_user_file(Path::new("agents.toml"), text).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "agents.toml: `agent.claude.model` must not begin with `-`, which programs take for an \
             option, not `--debug`"
        );
    }

    #[test]
    fn a_setting_that_the_kind_does_not_use_is_refused() {
        for (text, words) in [
            ("[agent.claude]\nbase-url = \"http://h\"\n", "ANTHROPIC_BASE_URL"),
            ("[agent.stand-in]\npermissions = \"read-only\"\n", "runs no program"),
            ("[agent.claude]\nreadable = [\"keys\"]\n", "begin with `/` or `~/`, not `keys`"),
            ("[agent.api]\ncommand = \"x\"\n", "runs no program"),
            ("[agent.gemini]\nprotocol = \"exec\"\n", "one protocol"),
        ] {
            let refused = Catalog::built_in().add_user_file(Path::new("agents.toml"), text);
            let told = refused.unwrap_err().to_string();
            assert!(told.contains(words), "{told}");
        }
    }

    #[test]
    fn a_key_that_stands_in_the_file_is_not_repeated() {
        let key = "sk-0123456789abcdefghijklmnop";
        for (setting, words) in [
            (format!("key = \"{key}\""), "line 2: unknown field `key`"),
            (format!("key-env = {key}"), "line 2: "),
            (format!("key-env = \"{key}\""), "`agent.api.key-env` must be the name of a variable"),
            (format!("wire = \"{key}\""), "line 2: unknown variant"),
            (format!("context-window = \"{key}\""), "line 2: invalid type"),
        ] {
            let text = format!("[agent.api]\n{setting}\n");
            let refused = Catalog::built_in().add_user_file(Path::new("agents.toml"), &text);
            let told = refused.unwrap_err().to_string();
            assert!(told.contains(words) && !told.contains("0123"), "{told}");
        }
    }

    #[test]
    fn a_context_window_of_nothing_is_refused() {
        let text = "[agent.api]\ncontext-window = 0\n";
        let refused = Catalog::built_in().add_user_file(Path::new("agents.toml"), text);
        assert_eq!(
            refused.unwrap_err().to_string(),
            "agents.toml: `agent.api.context-window` must be a number of tokens, 1 or more"
        );
    }

    #[test]
    fn a_wrong_file_is_refused_with_its_name_and_line() {
        let mut catalog = Catalog::built_in();
        let path = Path::new("agents.toml");
        let wrong = catalog.add_user_file(path, "[agent.max]\ncomand = \"x\"\n").unwrap_err();
        let text = wrong.to_string();
        assert!(text.starts_with("agents.toml: line 2: unknown field `comand`, exp"), "{text}");
        let no_kind = catalog.add_user_file(path, "[agent.max]\n").unwrap_err();
        assert!(no_kind.to_string().contains("needs `kind`"));
    }
}
