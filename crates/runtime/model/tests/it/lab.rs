//! A server, a directory, a store, and members that use them.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use convoke_agent::config::{Api, ApiTools, ApiWire};
use convoke_agent::thread::{MemoryThreadStore, ThreadStore};
use convoke_agent::{Agent, AgentTurn, TurnInput, TurnResult};
use convoke_model::{Host, Log, ModelAgent, Settings};
use convoke_protocol::agent_event::{AgentEvent, AgentEventKind, TextPart};
use convoke_protocol::id::ThreadId;
use convoke_protocol::verdict::Verdict;
use convoke_rehearsal::{Rehearsal, Script, start};
use convoke_thread::config::Machine;
use serde_json::Value;

/// The time limit for every wait; machines that build at the same time are slow.
pub const TIMEOUT: Duration = Duration::from_mins(2);

pub const KEY: &str = "correct-horse-battery";

/// Everything that a member's turns depend on.
pub struct Lab {
    pub server: Rehearsal,
    pub folder: tempfile::TempDir,
    pub store: Arc<MemoryThreadStore>,
    pub api: Api,
    /// The environment of the members.
    pub env: Vec<(OsString, OsString)>,
    /// The thread of the members, if they have their own.
    pub thread: Option<ThreadId>,
}

/// The events and the result of a turn.
pub struct FinishedTurn {
    pub events: Vec<AgentEvent<'static>>,
    pub outcome: TurnResult,
}

impl Lab {
    pub async fn new(wire: ApiWire, script: Script) -> Self {
        let server = start(script).await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        for name in ["work/.git", "home", "config"] {
            std::fs::create_dir_all(folder.path().join(name)).unwrap();
        }
        std::fs::write(folder.path().join("work/.git/HEAD"), "ref: refs/heads/main\n").unwrap();
        let lab = Self {
            api: Api {
                base_url: Some(format!("{}/v1", server.base_url())),
                wire,
                key_env: Some("MODEL_KEY".to_owned()),
                // The default of an unknown model; without it every turn would have a diagnostic.
                context_window: Some(128_000),
                ..Api::default()
            },
            server,
            folder,
            store: Arc::default(),
            env: vec![("MODEL_KEY".into(), KEY.into())],
            thread: None,
        };
        lab.write("AGENTS.md", "Be brief.\n");
        lab
    }

    pub fn with_tools(mut self) -> Self {
        self.api.tools = ApiTools::Read;
        self
    }

    pub fn with_window(mut self, tokens: u64) -> Self {
        self.api.context_window = Some(tokens);
        self
    }

    pub fn work(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    pub fn write(&self, path: &str, text: &str) {
        let path = self.work().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    /// Creates a member again, like a restarted program.
    pub fn agent(&self) -> ModelAgent {
        self.agent_with(Arc::<MemoryThreadStore>::clone(&self.store))
    }

    pub fn agent_with(&self, store: Arc<dyn ThreadStore>) -> ModelAgent {
        let settings = Settings {
            api: self.api.clone(),
            model: Some("test-model".to_owned()),
            thread: self.thread.clone(),
        };
        ModelAgent::new(settings, self.host(store))
    }

    /// Creates a member with its own settings and store.
    pub fn member_with(&self, settings: Settings, store: Arc<dyn ThreadStore>) -> ModelAgent {
        ModelAgent::new(settings, self.host(store))
    }

    fn host(&self, store: Arc<dyn ThreadStore>) -> Host {
        let below = |name: &str| self.folder.path().join(name);
        Host {
            env: self.env.clone(),
            machine: Machine {
                home: Some(below("home")),
                codex_home: below("config"),
                cwd: self.work(),
                shell: "bash".to_owned(),
                tmpdir: None,
                openai_base_url: None,
            },
            private: Vec::new(),
            programs: convoke_agent::Programs::default(),
            pack: Arc::new(convoke_packs::convoke().unwrap()),
            store,
        }
    }

    pub fn turn_input(&self, prompt: &str, after: Option<&FinishedTurn>) -> TurnInput {
        let mut turn_input = TurnInput::new(prompt, self.work());
        turn_input.limits.turn = TIMEOUT;
        turn_input.resume = after.map(|taken| taken.outcome.resume.clone().unwrap());
        turn_input
    }

    /// Runs a turn with a new member.
    pub async fn say(&self, prompt: &str, after: Option<&FinishedTurn>) -> FinishedTurn {
        take(self.agent().start(self.turn_input(prompt, after))).await
    }

    /// Returns the bodies of the requests so far.
    pub fn bodies(&self) -> Vec<String> {
        let calls = self.server.model_calls().into_iter();
        calls.map(|call| String::from_utf8(call.body.to_vec()).unwrap()).collect()
    }

    /// Returns the items, or the messages, of a request.
    pub fn items(&self, number: usize) -> Vec<Value> {
        let body: Value = serde_json::from_str(&self.bodies()[number]).unwrap();
        let list = body.get("input").or(body.get("messages")).unwrap();
        list.as_array().unwrap().clone()
    }

    pub async fn lines(&self, taken: &FinishedTurn) -> Vec<String> {
        let lines = self.store.thread_lines(&taken.thread()).await.unwrap();
        lines.into_iter().map(|line| line.text).collect()
    }

    pub async fn log(&self, taken: &FinishedTurn) -> Log {
        Log::load(&*self.store, &taken.thread()).await.unwrap().unwrap()
    }
}

pub async fn take(mut turn: AgentTurn) -> FinishedTurn {
    let mut events = Vec::new();
    while let Some(event) = turn.next().await {
        events.push(event);
    }
    FinishedTurn { events, outcome: turn.result().await }
}

impl FinishedTurn {
    pub fn thread(&self) -> ThreadId {
        ThreadId::parse(&self.outcome.resume.as_ref().unwrap().session).unwrap()
    }

    /// Returns for each request its bytes and those that equal its predecessor's.
    pub fn sent(&self) -> Vec<(u64, u64)> {
        let sent = self.events.iter().filter_map(|event| match event.kind {
            AgentEventKind::Request { bytes, unchanged_bytes, .. } => {
                Some((bytes, unchanged_bytes))
            }
            _ => None,
        });
        sent.collect()
    }

    /// Returns the reply of a turn, which must be done.
    pub fn reply(&self) -> &str {
        assert_eq!(self.outcome.verdict, Verdict::Done);
        &self.outcome.reply
    }

    /// Returns the events as short words, without pieces of text.
    pub fn story(&self) -> Vec<String> {
        let words = self.events.iter().filter_map(|event| {
            Some(match &event.kind {
                AgentEventKind::Text { part: TextPart::Delta, .. }
                | AgentEventKind::Thinking { part: TextPart::Delta, .. }
                | AgentEventKind::Request { .. }
                | AgentEventKind::Usage(_) => return None,
                AgentEventKind::Started { .. } => "started".to_owned(),
                AgentEventKind::Text { text, .. } => format!("text {text}"),
                AgentEventKind::Thinking { text, .. } => format!("thought {text}"),
                AgentEventKind::ToolStarted { name, input, .. } => format!("call {name} {input}"),
                AgentEventKind::ToolFinished { ok, output, .. } => format!("result {ok} {output}"),
                AgentEventKind::Retry { attempt, status, .. } => {
                    format!("retry {attempt} {status:?}")
                }
                AgentEventKind::Warning(diagnostic) => format!("warning {}", diagnostic.code),
                AgentEventKind::Finished { verdict } => format!("finished {}", verdict.as_str()),
                other => format!("{other:?}"),
            })
        });
        words.collect()
    }
}
