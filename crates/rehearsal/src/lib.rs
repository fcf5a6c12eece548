//! A model server on the loopback interface, so that agents run with no account and no network.
//!
//! It implements OpenAI Responses and Chat Completions, Anthropic Messages and Gemini `generateContent`, streamed and
//! not, answers from a [`Script`], and records every request byte for byte.
//!
//! ```
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use convoke_rehearsal::{Answer, Script, start};
//!
//! let server = start(Script::new([Answer::say("Hello."), Answer::error(429)])).await?;
//! println!("point the agent to {}", server.base_url());
//! // … the agent runs …
//! for request in server.shutdown().await {
//!     println!("{} {}: {} bytes", request.method, request.target, request.body.len());
//! }
//! # Ok(())
//! # }
//! ```
//!
//! [`server`] accepts connections, `connection` reads and records requests, `convoke-wire` parses them, [`script`]
//! provides the answers, and `wire` formats them for the vendor.

mod access;
mod auxiliary;
mod body;
mod connection;
mod playback;
mod record;
pub mod script;
pub mod server;
mod wire;

pub use convoke_protocol::wire::Wire;
pub use convoke_wire::{ModelCall, RequestKind};
pub use record::{Answered, Recorded, Sent};
pub use script::{Answer, End, Reply, ReplyStep, Script, ScriptError, Usage};
pub use server::{Limits, Rehearsal, RequestFeed, StartError, start, start_with};
