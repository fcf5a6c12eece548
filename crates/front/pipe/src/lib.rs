//! The prompt engine for other languages: [`assemble`] answers JSON lines, [`rpc`] keeps a conversation
//! and answers JSON-RPC, and [`mcp`] offers tools to agents and editors.
//!
//! All are functions from a reader to a writer, and use no process, clock or environment.
//!
//! # Modules
//!
//! The engine for other languages: `assemble` (JSON lines) and `rpc` (JSON-RPC), each a function from a reader
//! to a writer. `mcp` is a server of the Model Context Protocol for whatever tools the caller has: `answer` answers one request of
//! either protocol generation, `stdio` is the transport. `lines` splits the input into lines, `prompt_json` is a prompt as JSON.

pub mod assemble;
mod lines;
pub mod mcp;
mod prompt_json;
pub mod rpc;

pub use lines::DEFAULT_LINE_BYTES;
