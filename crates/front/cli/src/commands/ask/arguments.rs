//! The arguments of `convoke ask`, and the settings behind them.

use std::io::{IsTerminal, stdin};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum, value_parser};
use convoke_agent::config::{AgentKind, Api, ApiDeveloperRole, ApiTools, ApiWire, Catalog};
use convoke_core::Diagnostic;
use convoke_core::name::nearest;
use convoke_files::FileKind;
use convoke_files::limit::read_stream;
use convoke_model::withhold_key;
use convoke_protocol::id::ThreadId;
use convoke_thread::config::DEFAULT_MODEL;
use convoke_thread::user_input::decode_prompt;

use crate::conversation::home::Home;
use crate::diagnostics::Deny;
use crate::outcome::UsageError;
use crate::requests::RequestSelection;

/// Ask a model one question, with this repository's instructions.
///
/// Standard output is the streamed answer, and nothing else. Options that are not given are taken
/// from an agent in `agents.toml`, in the user's configuration directory, else from `OPENAI_API_KEY` and `OPENAI_BASE_URL`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  OPENAI_API_KEY=… convoke ask \"What does this crate do?\"
  convoke ask --base-url http://127.0.0.1:11434/v1 \"What does this crate do?\"
  convoke ask --thread last \"And the tests?\"")]
pub struct Arguments {
    /// The question; `-` or no argument reads standard input
    prompt: Vec<String>,
    /// Continue an earlier thread: its id, the beginning of its id, or `last`
    #[arg(long, value_name = "ID", value_parser = parse_thread)]
    pub(super) thread: Option<ThreadId>,
    /// Compact the thread instead of asking: a summary replaces its items
    #[arg(
        long,
        requires = "thread",
        conflicts_with_all = ["prompt", "undo_compaction"],
        hide_short_help = true
    )]
    pub(super) compact: bool,
    /// List the threads instead of asking, most recently used first
    #[arg(long, conflicts_with_all = ["prompt", "thread"])]
    pub(super) threads: bool,
    /// Remove the thread and its stored requests instead of asking
    #[arg(
        long,
        requires = "thread",
        conflicts_with_all = ["prompt", "compact", "undo_compaction", "request"]
    )]
    pub(super) forget: bool,
    /// Undo the thread's last compaction instead of asking
    #[arg(long, requires = "thread", conflicts_with = "prompt", hide_short_help = true)]
    pub(super) undo_compaction: bool,
    /// Show the requests of the thread instead of asking: all of them, or request N byte for byte
    #[arg(
        long,
        value_name = "N",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "all",
        requires = "thread",
        conflicts_with_all = ["prompt", "compact", "undo_compaction"]
    )]
    pub(super) request: Option<RequestSelection>,
    /// The agent in agents.toml whose settings are used
    #[arg(long, value_name = "NAME", default_value = "api")]
    agent: String,
    /// The model
    #[arg(long, short, value_name = "MODEL")]
    model: Option<String>,
    /// The address of the endpoint, for example `http://127.0.0.1:8080/v1`
    #[arg(long, value_name = "URL")]
    base_url: Option<String>,
    /// The wire format of the endpoint
    #[arg(long, value_name = "WIRE")]
    wire: Option<Wire>,
    /// The role of developer messages on the Chat wire; not every server knows `developer`
    #[arg(long, value_name = "ROLE", hide_short_help = true)]
    developer_role: Option<DeveloperRole>,
    /// The name of the environment variable that holds the key
    #[arg(long, value_name = "NAME")]
    key_env: Option<String>,
    /// The context window of the model, in tokens
    #[arg(long, value_name = "TOKENS", value_parser = value_parser!(u64).range(1..), hide_short_help = true)]
    context_window: Option<u64>,
    /// The tools that are offered to the model
    #[arg(long, value_name = "TOOLS")]
    tools: Option<Tools>,
    /// The directory of a pack of prompt texts and model settings, instead of the built-in pack
    #[arg(long, value_name = "DIR", hide_short_help = true)]
    pub(super) pack: Option<PathBuf>,
    /// Print the ledger of each request on standard error
    #[arg(long)]
    pub(super) explain: bool,
    /// Write the answer, the ledgers and the diagnostics as JSON at the end
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    pub(super) deny: Deny,
}

/// The endpoint and the model of a question.
#[derive(Debug)]
pub(super) struct ModelChoice {
    pub api: Api,
    /// The model; `None` if none was named.
    pub model: Option<String>,
    /// Whether the wire format was not configured.
    pub is_wire_open: bool,
}

const OPENAI: &str = "https://api.openai.com/";
const OPENAI_KEY: &str = "OPENAI_API_KEY";

/// A wire format.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Wire {
    /// The Responses API
    Responses,
    /// Chat Completions
    Chat,
}

/// The role of developer messages.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum DeveloperRole {
    /// The role `developer`, as in Codex
    Developer,
    /// The role `system`
    System,
}

/// The tools that a model can be offered.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Tools {
    /// None
    None,
    /// List, read and search this directory
    Read,
}

fn parse_thread(name: &str) -> Result<ThreadId, String> {
    ThreadId::parse(name).ok_or_else(|| "not a valid thread id".to_owned())
}

impl Arguments {
    /// Returns the endpoint and model: from the arguments, else from the user's file, else from the variables that
    /// clients of OpenAI's API read.
    pub(super) fn settings(
        &self,
        home: &Home,
        remarks: &mut Vec<Diagnostic>,
    ) -> anyhow::Result<ModelChoice> {
        let catalog = home.read_catalog()?;
        let (mut api, model) = self.configured(&catalog)?;
        // A configured wire format is kept; otherwise the other one is tried if the first fails.
        let is_wire_open = api.base_url.is_none() && self.wire.is_none();
        if api.base_url.is_none() && self.base_url.is_none() {
            let set = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
            let has_key = set(OPENAI_KEY).is_some();
            api.base_url =
                set("OPENAI_BASE_URL").or_else(|| has_key.then(|| format!("{OPENAI}v1")));
            if api.key_env.is_none() && has_key {
                api.key_env = Some(OPENAI_KEY.to_owned());
            }
        }
        let mut api = Api {
            base_url: self.base_url.clone().or(api.base_url),
            wire: match self.wire {
                Some(Wire::Responses) => ApiWire::Responses,
                Some(Wire::Chat) => ApiWire::Chat,
                None => api.wire,
            },
            developer_role: match self.developer_role {
                Some(DeveloperRole::Developer) => ApiDeveloperRole::Developer,
                Some(DeveloperRole::System) => ApiDeveloperRole::System,
                None => api.developer_role,
            },
            key_env: self.key_env.clone().or(api.key_env),
            context_window: self.context_window.or(api.context_window),
            tools: match self.tools {
                Some(Tools::None) => ApiTools::None,
                Some(Tools::Read) => ApiTools::Read,
                None => api.tools,
            },
        };
        // A key of the file belongs to the file's endpoint and is never sent to another one.
        if self.base_url.is_some() && self.key_env.is_none() {
            remarks.extend(withhold_key(&mut api, false, &catalog));
        }
        let file = "or set it for the agent in agents.toml";
        if api.base_url.is_none() {
            return Err(UsageError(format!(
                "no endpoint configured; set OPENAI_API_KEY, pass --base-url URL, {file}"
            ))
            .into());
        }
        let is_openai = api.base_url.as_deref().is_some_and(|url| url.starts_with(OPENAI));
        let default = is_openai.then(|| DEFAULT_MODEL.to_owned());
        let model = self.model.clone().or(model).or(default);
        Ok(ModelChoice { api, model, is_wire_open })
    }

    fn configured(&self, catalog: &Catalog) -> Result<(Api, Option<String>), UsageError> {
        let names =
            || catalog.iter().filter(|(_, it)| it.kind == AgentKind::Api).map(|(name, _)| name);
        if let Some(agent) = catalog.get(&self.agent).filter(|agent| agent.kind == AgentKind::Api) {
            return Ok((agent.api.clone(), agent.model.clone()));
        }
        let hint = match nearest(&self.agent, names()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("known agents: {}", names().collect::<Vec<_>>().join(", ")),
        };
        Err(UsageError(format!("--agent: no api agent has the name `{}`; {hint}", self.agent)))
    }

    /// Returns the question: the arguments joined, with standard input in place of `-`.
    pub(super) fn question(&self) -> Result<String, UsageError> {
        let parts = match &self.prompt[..] {
            [] => &["-".to_owned()],
            given => given,
        };
        let mut texts = Vec::with_capacity(parts.len());
        let mut input = None;
        for part in parts {
            if part != "-" {
                texts.push(part.clone());
            } else if input.is_none() {
                let text = from_standard_input(!self.prompt.is_empty())?;
                texts.push(input.insert(text).clone());
            } else {
                return Err(UsageError("`-` can be given only once".to_owned()));
            }
        }
        let question = texts.join("\n\n");
        if question.trim().is_empty() {
            return Err(UsageError("the question is empty".to_owned()));
        }
        Ok(question)
    }
}

fn from_standard_input(asked_for: bool) -> Result<String, UsageError> {
    let input = stdin().lock();
    if !asked_for && input.is_terminal() {
        let give = "pass it as an argument or on standard input";
        return Err(UsageError(format!("no question given; {give}")));
    }
    let bytes = read_stream(input, Path::new("-"), FileKind::Input)
        .map_err(|error| UsageError(format!("cannot read standard input: {error}")))?;
    decode_prompt(&bytes).map_err(|wrong| UsageError(format!("standard input {wrong}")))
}
