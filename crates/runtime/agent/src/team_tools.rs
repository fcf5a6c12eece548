//! Tools with which an agent reaches its team while its turn runs.
//!
//! A turn with these tools gets [`TeamTools`], which send calls to the coordinator. A model member offers each
//! [`TeamTool`] to its model as a function. A program gets an MCP server instead, `convoke mcp`, which connects
//! to a local port of Convoke ([`socket`]). The turn is identified by the secret in the server's environment,
//! never by an argument of a call.

pub mod socket;
mod tool;

use std::ffi::OsString;
use std::path::PathBuf;

use convoke_protocol::id::AttemptRef;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tokio::sync::{mpsc, oneshot};

pub use self::tool::{MAX_READ, TeamTool};

/// The name of the MCP server, as agents see it.
pub const SERVER: &str = "team";
/// The variable of the socket's address.
pub const SOCKET: &str = "CONVOKE_TEAM_SOCKET";
/// The variable of the turn's secret.
pub const SECRET: &str = "CONVOKE_TEAM_SECRET";

/// The tools of one turn. Clones send calls for the same turn.
#[derive(Debug, Clone)]
pub struct TeamTools {
    caller: AttemptRef,
    calls: mpsc::Sender<TeamCall>,
}

/// A call of a tool, for the coordinator.
#[derive(Debug)]
pub struct TeamCall {
    /// The attempt whose agent calls.
    pub caller: AttemptRef,
    /// The name of the tool.
    pub tool: String,
    pub arguments: Map<String, Value>,
    /// The sender for the answer.
    pub reply: oneshot::Sender<TeamAnswer>,
}

/// The answer to a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TeamAnswer {
    /// The text for the agent.
    pub text: String,
    /// Whether the call was refused or failed.
    pub is_error: bool,
}

impl TeamAnswer {
    /// Creates the answer of a successful call.
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), is_error: false }
    }

    /// Creates the answer of a call that was refused or failed.
    pub fn error(text: impl Into<String>) -> Self {
        Self { text: text.into(), is_error: true }
    }
}

impl TeamTools {
    /// Creates the tools of an attempt, whose calls go to `calls`.
    pub fn new(caller: AttemptRef, calls: mpsc::Sender<TeamCall>) -> Self {
        Self { caller, calls }
    }

    /// Calls a tool and waits for its answer.
    pub async fn call(&self, tool: impl Into<String>, arguments: Map<String, Value>) -> TeamAnswer {
        let (reply, answer) = oneshot::channel();
        let call = TeamCall { caller: self.caller, tool: tool.into(), arguments, reply };
        let gone = || TeamAnswer::error("the conversation has stopped, or the turn is over");
        if self.calls.send(call).await.is_err() {
            return gone();
        }
        answer.await.unwrap_or_else(|_| gone())
    }
}

impl PartialEq for TeamTools {
    fn eq(&self, other: &Self) -> bool {
        self.caller == other.caller && self.calls.same_channel(&other.calls)
    }
}

impl Eq for TeamTools {}

/// The command that starts the MCP server of a turn.
#[derive(Debug, Clone)]
pub struct McpServer {
    /// The program.
    pub command: PathBuf,
    /// The arguments.
    pub args: [&'static str; 1],
    /// The variables.
    pub env: [(&'static str, OsString); 2],
    /// The port that the server connects to.
    pub port: u16,
}

impl McpServer {
    /// Creates the command that runs `program` as the server for a socket.
    pub fn new(program: PathBuf, socket: &socket::TeamSocket) -> Self {
        let address = socket.address();
        let env = [(SOCKET, address.to_string().into()), (SECRET, socket.secret().into())];
        Self { command: program, args: ["mcp"], env, port: address.port() }
    }

    /// Returns the server in the format of most programs' settings.
    pub fn settings(&self) -> Value {
        let env = self.env.iter().map(|(name, value)| ((*name).to_owned(), text(value)));
        let env: Map<String, Value> = env.collect();
        json!({ "command": self.command_text(), "args": self.args, "env": env })
    }

    /// Returns the server in the format of ACP.
    pub fn of_session(&self) -> Value {
        let env =
            self.env.iter().map(|(name, value)| json!({ "name": name, "value": text(value) }));
        let env: Vec<Value> = env.collect();
        json!({ "name": SERVER, "command": self.command_text(), "args": self.args, "env": env })
    }

    /// Returns the path of the program.
    pub fn command_text(&self) -> String {
        self.command.to_string_lossy().into_owned()
    }
}

fn text(value: &OsString) -> Value {
    Value::from(value.to_string_lossy())
}
