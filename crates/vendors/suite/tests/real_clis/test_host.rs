//! A CLI in its own home, with a model server.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use convoke_agent::adapter::{Host, agent};
use convoke_agent::config::{AgentKind, Definition, Protocol};
use convoke_agent::process::guardian::Guardian;
use convoke_agent::sandbox::SandboxSettings;
use convoke_agent::turn_input::TurnInput;
use convoke_agent::{Agent, AgentTurn, TurnResult};
use convoke_protocol::agent_event::AgentEventKind;
use convoke_protocol::verdict::{Failure, FailureReason, Verdict};
use convoke_rehearsal::{Answer, Rehearsal, RequestKind as Asked, Script, start};
use convoke_wire::RequestParts;
use serde_json::{Value, json};
use tempfile::TempDir;

/// A CLI and its protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cli {
    Claude197,
    Claude325,
    Gemini,
    Codex98,
    Codex166,
    Codex98Exec,
    Codex166Exec,
}

impl Cli {
    pub fn label(self) -> &'static str {
        match self {
            Cli::Claude197 => "claude-2.1.197",
            Cli::Claude325 => "claude-2.1.325",
            Cli::Gemini => "gemini-0.61.0",
            Cli::Codex98 | Cli::Codex98Exec => "codex-0.98.0",
            Cli::Codex166 | Cli::Codex166Exec => "codex-0.166.0",
        }
    }

    /// Returns the kind of its agents.
    pub fn agent_kind(self) -> AgentKind {
        AgentKind::Cli(convoke_vendors::programs().cli(self.kind()).unwrap())
    }

    pub fn kind(self) -> &'static str {
        match self {
            Cli::Claude197 | Cli::Claude325 => "claude",
            Cli::Gemini => "gemini",
            _ => "codex",
        }
    }

    pub fn model(self) -> &'static str {
        match self.kind() {
            // The context windows of other models are smaller than the prompt.
            "claude" => "claude-opus-4-8[1m]",
            "gemini" => "gemini-2.5-flash",
            _ if matches!(self, Cli::Codex98 | Cli::Codex98Exec) => "gpt-5.2-codex",
            _ => "gpt-5.5",
        }
    }

    /// Returns a shell call as the CLI's model would make it.
    pub fn shell(self, command: &str) -> Answer {
        let (tool, input) = self.shell_call(command);
        Answer::call(tool, input)
    }

    /// Returns the name and the input of the tool that runs a command.
    pub fn shell_call(self, command: &str) -> (&'static str, Value) {
        match self.kind() {
            "claude" => {
                ("Bash", json!({"command": command, "description": "test", "timeout": 600_000}))
            }
            "gemini" => ("run_shell_command", json!({"command": command, "description": "test"})),
            _ => ("exec_command", json!({"cmd": command, "yield_time_ms": 60_000})),
        }
    }

    /// Returns its program, or `None` when it is not installed and need not be.
    pub fn program(self) -> Option<PathBuf> {
        let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../target/clis");
        let cache = std::env::var_os("CONVOKE_CLIS").map_or(target, PathBuf::from);
        let name = self.kind();
        let program = cache.join(self.label()).join("node_modules/.bin").join(name);
        if program.exists() {
            return Some(program);
        }
        let required = std::env::var("CI").is_ok_and(|ci| ci == "true");
        assert!(!required, "{} is not installed: run scripts/install-clis", self.label());
        println!("skipped: {} is not installed; scripts/install-clis does that", self.label());
        None
    }
}

/// A CLI in its own home, with a model server.
pub struct TestHost {
    pub cli: Cli,
    pub home: TempDir,
    pub work: TempDir,
    pub server: Rehearsal,
    pub agent: Box<dyn Agent>,
}

impl TestHost {
    pub async fn new(cli: Cli, script: Script) -> Option<Self> {
        let server = start(script).await.unwrap();
        let address = server.base_url();
        Self::with(cli, server, &address)
    }

    /// Creates a CLI with another server instead of the rehearsal server, which sees nothing.
    pub async fn at(cli: Cli, address: &str) -> Option<Self> {
        let server = start(Script::default()).await.unwrap();
        Self::with(cli, server, address)
    }

    pub fn with(cli: Cli, server: Rehearsal, address: &str) -> Option<Self> {
        let program = cli.program()?;
        let home = TempDir::new().unwrap();
        let work = TempDir::new().unwrap();
        let definition = Definition {
            command: Some(program.display().to_string()),
            args: codex_settings(cli, address),
            protocol: match cli {
                Cli::Codex98Exec | Cli::Codex166Exec => Protocol::Exec,
                _ => Protocol::AppServer,
            },
            ..Definition::built_in(cli.agent_kind())
        };
        if cli == Cli::Gemini {
            let settings = json!({"security": {"auth": {"selectedType": "gemini-api-key"}}});
            std::fs::create_dir(home.path().join(".gemini")).unwrap();
            std::fs::write(home.path().join(".gemini/settings.json"), settings.to_string())
                .unwrap();
        }
        let host = Host {
            guardian: Guardian::from_program(env!("CARGO_BIN_EXE_convoke-test-host")),
            env: environment_at(address, &server, home.path()),
            temp_root: home.path().to_owned(),
            state_dir: home.path().join("state"),
            sandbox: SandboxSettings::default(),
            programs: convoke_vendors::programs(),
        };
        Some(Self { cli, home, work, server, agent: agent(definition, host) })
    }

    /// Creates a Codex that uses its vendor's endpoint, replaced by the server, with a user's key.
    pub async fn with_key(cli: Cli, key: &str) -> Option<Self> {
        let program = cli.program()?;
        let home = TempDir::new().unwrap();
        let server = start(Script::default()).await.unwrap();
        let address = format!("{}/v1", server.base_url());
        let mut env = environment(&server, home.path());
        env.push(("CODEX_API_KEY".into(), key.into()));
        // One version reads the variable, the other the file.
        env.push(("OPENAI_BASE_URL".into(), address.clone().into()));
        let config = format!("openai_base_url = \"{address}\"\n");
        std::fs::write(home.path().join("codex/config.toml"), config).unwrap();
        let command = Some(program.display().to_string());
        let definition = Definition {
            command,
            ..Definition::built_in(AgentKind::Cli(
                convoke_vendors::programs().cli("codex").unwrap(),
            ))
        };
        let host = Host {
            guardian: Guardian::from_program(env!("CARGO_BIN_EXE_convoke-test-host")),
            env,
            temp_root: home.path().to_owned(),
            state_dir: home.path().join("state"),
            sandbox: SandboxSettings::default(),
            programs: convoke_vendors::programs(),
        };
        let work = TempDir::new().unwrap();
        Some(Self { cli, home, work, server, agent: agent(definition, host) })
    }

    /// Returns the same host with another program instead of the CLI.
    pub fn with_command(self, program: &str, args: &[&str]) -> Self {
        let definition = Definition {
            command: Some(program.to_owned()),
            args: args.iter().map(|&arg| arg.to_owned()).collect(),
            ..Definition::built_in(self.cli.agent_kind())
        };
        let host = Host {
            guardian: Guardian::from_program(env!("CARGO_BIN_EXE_convoke-test-host")),
            env: environment(&self.server, self.home.path()),
            temp_root: self.home.path().to_owned(),
            state_dir: self.home.path().join("state"),
            sandbox: SandboxSettings::default(),
            programs: convoke_vendors::programs(),
        };
        Self { agent: agent(definition, host), ..self }
    }

    pub fn turn_input(&self, prompt: &str) -> TurnInput {
        let mut turn_input = TurnInput::new(prompt, self.work.path());
        turn_input.model = Some(self.cli.model().to_owned());
        turn_input.limits.turn = Duration::from_mins(5);
        turn_input.limits.retries = 1;
        turn_input
    }

    pub async fn run(&self, turn_input: TurnInput) -> TurnResult {
        self.agent.start(turn_input).result().await
    }

    /// Returns every text that the model was sent in its latest call.
    pub fn texts(&self) -> Vec<String> {
        let calls = self.server.model_calls();
        let call = calls.last().unwrap();
        let request_parts =
            RequestParts::parse(call.model_call().unwrap().wire, &call.body).unwrap();
        request_parts.parts.into_iter().map(|part| part.text).collect()
    }

    /// Returns the other hosts that the CLI tried to reach.
    pub fn elsewhere(&self) -> Vec<String> {
        let requests = self.server.requests().into_iter();
        let hosts = requests.filter_map(|request| match request.kind {
            Asked::Elsewhere { host } => Some(host),
            Asked::Telemetry => Some(request.target),
            _ => None,
        });
        hosts.collect()
    }

    pub fn pids(&self) -> Vec<i32> {
        let text = std::fs::read_to_string(self.work.path().join("pids")).unwrap_or_default();
        text.lines().filter_map(|line| line.parse().ok()).collect()
    }

    /// Returns the processes that have this test's home in their environment.
    pub fn processes(&self) -> Vec<i32> {
        let mark = format!("HOME={}", self.home.path().display());
        let entries = std::fs::read_dir("/proc").unwrap().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        let ours = pids.filter(|pid| {
            let environ = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environ.split(|&byte| byte == 0).any(|variable| variable == mark.as_bytes())
        });
        ours.filter(|&pid| runs(pid)).collect()
    }
}

pub fn codex_settings(cli: Cli, base_url: &str) -> Vec<String> {
    if cli.kind() != "codex" {
        return Vec::new();
    }
    let settings = [
        "model_provider=\"rehearsal\"".to_owned(),
        "model_providers.rehearsal.name=\"rehearsal\"".to_owned(),
        format!("model_providers.rehearsal.base_url=\"{base_url}/v1\""),
        "model_providers.rehearsal.env_key=\"REHEARSAL_KEY\"".to_owned(),
        "model_providers.rehearsal.wire_api=\"responses\"".to_owned(),
    ];
    settings.into_iter().flat_map(|setting| ["-c".to_owned(), setting]).collect()
}

pub fn environment(server: &Rehearsal, home: &Path) -> Vec<(OsString, OsString)> {
    environment_at(&server.base_url(), server, home)
}

/// Returns the environment of a CLI whose model is at an address and whose proxy is the server.
pub fn environment_at(address: &str, server: &Rehearsal, home: &Path) -> Vec<(OsString, OsString)> {
    let path = std::env::var_os("PATH").unwrap();
    let mut env: Vec<(OsString, OsString)> = vec![
        ("PATH".into(), path),
        ("HOME".into(), home.into()),
        ("CODEX_HOME".into(), home.join("codex").into()),
        ("NO_PROXY".into(), "127.0.0.1,localhost".into()),
    ];
    std::fs::create_dir_all(home.join("codex")).unwrap();
    for name in ["ANTHROPIC_API_KEY", "GEMINI_API_KEY", "REHEARSAL_KEY"] {
        env.push((name.into(), "rehearsal-key".into()));
    }
    for name in ["ANTHROPIC_BASE_URL", "GOOGLE_GEMINI_BASE_URL"] {
        env.push((name.into(), address.into()));
    }
    for name in ["HTTPS_PROXY", "HTTP_PROXY"] {
        env.push((name.into(), server.proxy_url().into()));
    }
    env
}

pub fn runs(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

pub fn codes(outcome: &TurnResult) -> Vec<&str> {
    outcome.diagnostics.iter().map(|diagnostic| diagnostic.code.name()).collect()
}

pub fn reason(outcome: &TurnResult) -> Option<FailureReason> {
    match &outcome.verdict {
        Verdict::Failed(Failure { reason, .. }) => Some(*reason),
        _ => None,
    }
}

/// Waits until a condition holds.
pub async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let patience = Instant::now() + Duration::from_mins(3);
    while !holds() {
        assert!(Instant::now() < patience, "{what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Reads events until the agent has written text.
pub async fn until_text(turn: &mut AgentTurn) {
    while let Some(event) = turn.next().await {
        if matches!(event.kind, AgentEventKind::Text { .. }) {
            return;
        }
    }
    panic!("it said nothing");
}
