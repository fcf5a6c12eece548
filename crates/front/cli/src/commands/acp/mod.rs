//! `convoke acp`: Convoke as an agent in an editor, over the Agent Client Protocol, version 1.
//!
//! Standard output carries only the protocol. Each session of the editor is a session of the store; its
//! conversation runs in a separate task, so that a cancel and an answer are handled at any time.

mod listing;
mod output;
mod prompt;
mod session;
mod updates;

use std::collections::HashMap;
use std::io::{self, Read as _};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use convoke_agent::stream::acp::Message;
use convoke_agent::stream::lines::LineSplitter;
use convoke_inspect::HostEnvironment;
use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc::{Receiver, channel};

use self::output::Output;
use self::session::EditorSession;
use crate::conversation::project::find_team_file;
use crate::conversation::sessions::UnknownSession;
use crate::conversation::{self, ConversationOptions, Rehearse};
use crate::host_environment;
use crate::outcome::Outcome;

/// Serve a team to an editor, over the Agent Client Protocol.
///
/// The protocol is on standard input and output. Editors start this command; see `convoke docs editors`.
#[derive(Debug, Args)]
pub struct Arguments {
    /// The team file [default: convoke.toml in the editor's directory or above it]
    #[arg(long, value_name = "FILE")]
    team: Option<PathBuf>,
    /// Run without an account: a built-in stand-in replies; `=cli` the installed programs
    #[arg(
        long,
        value_name = "WITH",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "stand-in"
    )]
    rehearse: Option<Rehearse>,
}

/// The maximum size of a message of the editor.
const MAX_MESSAGE_BYTES: usize = 64 << 20;
/// The number of messages that are read ahead.
const READ_AHEAD: usize = 64;
/// The time for agents to end after the editor has disconnected.
const LEAVING: Duration = Duration::from_secs(2);

const PARSE_ERROR: i64 = -32700;
const INVALID_REQUEST: i64 = -32600;
const UNKNOWN_METHOD: i64 = -32601;
const INVALID_PARAMS: i64 = -32602;
const INTERNAL_ERROR: i64 = -32603;
/// The protocol's code for something that does not exist, such as a session.
const NOT_FOUND: i64 = -32002;

/// Runs `convoke acp`.
pub fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    let runtime = conversation::runtime()?;
    let tasks = tokio::task::LocalSet::new();
    let server = Server {
        team: arguments.team.clone(),
        rehearse: arguments.rehearse,
        host_environment: host_environment::of_process()?,
        output: Output::default(),
        sessions: HashMap::new(),
    };
    tasks.block_on(&runtime, server.serve())?;
    // A read of standard input cannot be interrupted.
    runtime.shutdown_background();
    Ok(Outcome::Done)
}

/// The dialogue with an editor.
struct Server {
    team: Option<PathBuf>,
    rehearse: Option<Rehearse>,
    host_environment: HostEnvironment,
    output: Output,
    sessions: HashMap<String, EditorSession>,
}

/// An error response.
struct ErrorResponse {
    code: i64,
    message: String,
}

impl ErrorResponse {
    fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }
}

impl From<anyhow::Error> for ErrorResponse {
    fn from(error: anyhow::Error) -> Self {
        let code = if error.is::<UnknownSession>() { NOT_FOUND } else { INTERNAL_ERROR };
        Self::new(code, format!("{error:#}"))
    }
}

impl Server {
    async fn serve(mut self) -> anyhow::Result<()> {
        let mut messages = read_messages();
        let mut read_error = None;
        let mut ends = signal(SignalKind::terminate())?;
        let mut interrupts = signal(SignalKind::interrupt())?;
        while !self.output.is_gone() {
            let message = tokio::select! {
                message = messages.recv() => message,
                _ = ends.recv() => None,
                _ = interrupts.recv() => None,
            };
            match message {
                Some(Incoming::Message(line)) => Box::pin(self.read(&line)).await,
                Some(Incoming::TooLong(shortened)) => self.refuse_long(&shortened),
                Some(Incoming::Failed(error)) => {
                    read_error = Some(error);
                    break;
                }
                None => break,
            }
        }
        self.sessions.values().for_each(EditorSession::leave);
        let ending = async {
            for (_, session) in self.sessions.drain() {
                session.end().await;
            }
        };
        // The guardians end the remaining agents when this process has ended.
        let _ = tokio::time::timeout(LEAVING, ending).await;
        match read_error {
            Some(error) => Err(anyhow::Error::from(error).context("cannot read standard input")),
            None => Ok(()),
        }
    }

    /// Refuses a message over the limit. A shortened message still has its id, unless that lies behind the cut.
    fn refuse_long(&self, shortened: &str) {
        let message = format!("the message is too long: the limit is {MAX_MESSAGE_BYTES} bytes");
        match Message::parse(shortened) {
            // The question is not left open.
            Some(Message::Response { id, .. }) => self.output.answered(&id, &Err(json!(message))),
            Some(Message::Request { id, .. }) => {
                self.output.respond(&id, Err((INVALID_REQUEST, message)));
            }
            Some(Message::Notification { .. }) | None => {
                self.output.respond(&Value::Null, Err((INVALID_REQUEST, message)));
            }
        }
    }

    async fn read(&mut self, line: &str) {
        if line.trim().is_empty() {
            return;
        }
        match Message::parse(line) {
            Some(Message::Request { id, method, params }) => {
                match self.request(&id, &method, &params).await {
                    Ok(Some(result)) => self.output.respond(&id, Ok(result)),
                    Ok(None) => {}
                    Err(ErrorResponse { code, message }) => {
                        self.output.respond(&id, Err((code, message)));
                    }
                }
            }
            Some(Message::Notification { method, params }) => self.notified(&method, &params),
            Some(Message::Response { id, outcome }) => self.output.answered(&id, &outcome),
            None => {
                let is_json = serde_json::from_str::<Value>(line).is_ok();
                let (code, message) = if is_json {
                    (INVALID_REQUEST, "not a JSON-RPC message")
                } else {
                    (PARSE_ERROR, "not JSON")
                };
                self.output.respond(&Value::Null, Err((code, message.to_owned())));
            }
        }
    }

    fn notified(&self, method: &str, params: &Value) {
        match method {
            "session/cancel" => {
                if let Some(session) = self.sessions.get(&text(params, "sessionId")) {
                    session.cancel();
                }
            }
            "$/cancel_request" => {
                let mut sessions = self.sessions.values();
                if let Some(session) = sessions.find(|it| it.answers(&params["requestId"])) {
                    session.cancel();
                }
            }
            _ => {}
        }
    }

    /// Carries out a request; `None` if its response comes later.
    async fn request(
        &mut self,
        id: &Value,
        method: &str,
        params: &Value,
    ) -> Result<Option<Value>, ErrorResponse> {
        match method {
            "initialize" => Ok(Some(abilities())),
            // There is nothing to sign in to: `initialize` offers no method.
            "authenticate" => {
                let method = text(params, "methodId");
                let message = format!("no sign-in method `{method}`: Convoke needs none");
                Err(ErrorResponse::new(INVALID_PARAMS, message))
            }
            "session/new" => self.open(id, params, None).await,
            "session/load" => self.open(id, params, Some(History::Repeat)).await,
            "session/resume" => self.open(id, params, Some(History::Keep)).await,
            "session/list" => listing::list(&self.host_environment, params).await.map(Some),
            "session/close" => self.close(params).await.map(Some),
            "session/prompt" => self.prompt(id, params).map(|()| None),
            method => Err(ErrorResponse::new(
                UNKNOWN_METHOD,
                format!("method `{method}` is not supported"),
            )),
        }
    }

    /// Opens a session: a new one, or one of the store.
    async fn open(
        &mut self,
        id: &Value,
        params: &Value,
        stored: Option<History>,
    ) -> Result<Option<Value>, ErrorResponse> {
        let cwd = PathBuf::from(text(params, "cwd"));
        if !cwd.is_absolute() {
            return Err(ErrorResponse::new(INVALID_PARAMS, "`cwd` must be an absolute path"));
        }
        if !cwd.is_dir() {
            let message = format!("`cwd` is not a directory: {}", cwd.display());
            return Err(ErrorResponse::new(INVALID_PARAMS, message));
        }
        let named = text(params, "sessionId");
        if stored.is_some() && named.len() < SESSION_ID {
            return Err(no_session(params));
        }
        if let Some(open) = self.sessions.remove(&named) {
            open.end().await;
        }
        let host_environment = HostEnvironment { cwd, ..self.host_environment.clone() };
        // The path is relative to the editor's directory, which may differ from that of this process.
        let found = || find_team_file(&host_environment).map(|it| host_environment.cwd.join(it));
        let options = ConversationOptions {
            team: self.team.clone().or_else(|| found().filter(|_| stored.is_none())),
            session: stored.is_some().then_some(named),
            rehearse: self.rehearse,
            script: None,
            has_round: false,
            record: None,
            alone: None,
            composed: None,
        };
        let servers = params["mcpServers"].as_array().map_or(0, Vec::len);
        let session =
            EditorSession::open(&options, &host_environment, self.output.clone(), servers).await?;
        if stored == Some(History::Repeat) {
            session.repeat(&self.output);
        }
        let name = session.id.clone();
        let result = if stored.is_none() { json!({ "sessionId": name }) } else { json!({}) };
        // Editors reject updates of a session before its response.
        self.output.respond(id, Ok(result));
        self.output.update(&name, &session::commands());
        self.sessions.insert(name, session);
        Ok(None)
    }

    /// Cancels the running prompt of a session and closes it. The session stays in the store.
    async fn close(&mut self, params: &Value) -> Result<Value, ErrorResponse> {
        let name = text(params, "sessionId");
        let Some(session) = self.sessions.remove(&name) else {
            return Err(no_session(params));
        };
        session.end().await;
        Ok(json!({}))
    }

    fn prompt(&mut self, id: &Value, params: &Value) -> Result<(), ErrorResponse> {
        let name = text(params, "sessionId");
        let Some(session) = self.sessions.get_mut(&name) else {
            return Err(no_session(params));
        };
        let Some(blocks) = params["prompt"].as_array() else {
            return Err(ErrorResponse::new(
                INVALID_PARAMS,
                "`prompt` must be a list of content blocks",
            ));
        };
        let prompt = prompt::Prompt::from_blocks(blocks);
        if prompt.text.trim().is_empty() {
            let left_out = prompt.left_out.join(", ");
            let message = match left_out.as_str() {
                "" => "the prompt has no text".to_owned(),
                _ => format!("the prompt has no text and no image: {left_out}"),
            };
            return Err(ErrorResponse::new(INVALID_PARAMS, message));
        }
        if session.is_busy() {
            if prompt.text.trim() == "/cancel" {
                session.cancel();
                self.output.respond(id, Ok(json!({ "stopReason": "end_turn" })));
                return Ok(());
            }
            let message = "a prompt of this session is running; cancel it first";
            return Err(ErrorResponse::new(INVALID_REQUEST, message));
        }
        session.prompt(id.clone(), prompt)
    }
}

/// The length of a session's id.
const SESSION_ID: usize = 36;

/// Whether an editor needs the messages of a stored session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum History {
    /// They are sent.
    Repeat,
    /// The editor has them.
    Keep,
}

fn abilities() -> Value {
    json!({
        "protocolVersion": 1,
        "agentCapabilities": {
            "loadSession": true,
            "promptCapabilities": { "image": true, "audio": false, "embeddedContext": true },
            "mcpCapabilities": { "http": false, "sse": false },
            "sessionCapabilities": { "close": {}, "list": {}, "resume": {} },
        },
        "authMethods": [],
        "agentInfo": {
            "name": "convoke",
            "title": "Convoke",
            "version": env!("CARGO_PKG_VERSION"),
        },
    })
}

fn text(params: &Value, name: &str) -> String {
    params[name].as_str().unwrap_or_default().to_owned()
}

/// Returns the error of a request that names an unknown session, or none.
fn no_session(params: &Value) -> ErrorResponse {
    match params["sessionId"].as_str() {
        Some(name) => ErrorResponse::new(NOT_FOUND, format!("no session `{name}`")),
        None => ErrorResponse::new(INVALID_PARAMS, "`sessionId` must be the id of a session"),
    }
}

/// A line from the editor.
enum Incoming {
    Message(String),
    /// A message over the limit, shortened.
    TooLong(String),
    /// Standard input cannot be read.
    Failed(io::Error),
}

/// Reads messages in a separate thread, which ends with the process.
fn read_messages() -> Receiver<Incoming> {
    let (sender, messages) = channel(READ_AHEAD);
    std::thread::spawn(move || {
        let mut input = io::stdin().lock();
        let mut lines = LineSplitter::json(MAX_MESSAGE_BYTES);
        let mut buffer = vec![0; 64 << 10];
        let mut is_read = true;
        while is_read {
            let count = match input.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => {
                    // Without a reader the process is ending.
                    let _ = sender.blocking_send(Incoming::Failed(error));
                    break;
                }
            };
            let mut too_long = lines.too_long();
            lines.push(&buffer[..count], |line| {
                let text = String::from_utf8_lossy(line.bytes).into_owned();
                let incoming = if line.left_out == 0 {
                    Incoming::Message(text)
                } else {
                    too_long += 1;
                    Incoming::TooLong(text)
                };
                is_read &= sender.blocking_send(incoming).is_ok();
            });
            // A line of which nothing could be kept is refused too.
            for _ in too_long..lines.too_long() {
                is_read &= sender.blocking_send(Incoming::TooLong(String::new())).is_ok();
            }
        }
    });
    messages
}
