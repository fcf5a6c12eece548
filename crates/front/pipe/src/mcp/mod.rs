//! A server of the Model Context Protocol that offers tools and nothing else, for both generations of the protocol.
//!
//! Clients of versions up to 2025-11-25 open a connection with `initialize`. Those of 2026-07-28 do not: each
//! request names its version in `_meta`. [`Server::answer`] answers one request of either; [`serve`] is the
//! transport over standard input and output, where calls do not wait for each other.

mod answer;
mod cancellation;
mod stdio;

pub use self::answer::{Generation, Server};
pub use self::cancellation::Cancellation;
pub use self::stdio::{MAX_BATCH, serve};

use serde_json::{Map, Value};

/// The tools of a server.
pub trait Tools: Send + Sync {
    /// Returns the tools, in the order in which they are listed.
    fn list(&self) -> Vec<Tool>;

    /// Runs a call; `None` if there is no such tool. It may take long, and other calls may run meanwhile. The
    /// result of a cancelled call is not sent.
    fn call(
        &self,
        name: &str,
        arguments: Map<String, Value>,
        cancellation: &Cancellation,
    ) -> Option<ToolResult>;

    /// Returns the instructions for clients.
    fn instructions(&self) -> &'static str;
}

/// A tool, as it is listed.
#[derive(Debug, Clone, PartialEq)]
pub struct Tool {
    pub name: String,
    /// The description, for a model.
    pub description: String,
    /// The JSON schema of the arguments.
    pub schema: Value,
    /// Whether the tool changes nothing.
    pub only_reads: bool,
}

/// The result of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolResult {
    /// The text, for a model.
    pub text: String,
    /// Whether the call was refused or failed.
    pub is_error: bool,
}
