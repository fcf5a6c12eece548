//! The prompt engine for other languages: [`assemble`] answers JSON lines, [`rpc`] keeps a conversation
//! and answers JSON-RPC, and [`mcp`] offers tools to agents and editors.
//!
//! All are functions from a reader to a writer, and use no process, clock or environment.

pub mod assemble;
mod lines;
pub mod mcp;
mod prompt_json;
pub mod rpc;

pub use lines::DEFAULT_LINE_BYTES;
