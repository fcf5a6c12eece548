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
//!
//! # Modules
//!
//! A model server on the loopback interface with the vendors' wire formats, so that the real CLIs run without an
//! account or network. `server` accepts connections, `connection` reads and records requests, `wire` (one module per
//! format) writes responses, `script` holds the responses, `playback` assigns them, and `body` paces them; `auxiliary` answers
//! requests besides model calls, `record` is a recorded request; `access` checks the secret of the address, and
//! `vendor_hosts` answers for the vendor's other services.
//!
//! # Invariants
//!
//! - It listens on 127.0.0.1 only (`crates/runtime/rehearsal/tests/server.rs:
//!   the_server_listens_on_the_loopback_interface_and_stops_when_dropped`), answers and records only requests with
//!   the secret of its address (`crates/runtime/rehearsal/tests/server.rs:
//!   nobody_can_plant_a_request_without_the_address`), and stores no secret from a header
//!   (`crates/runtime/rehearsal/tests/server.rs: a_request_is_kept_to_the_byte_and_its_secrets_are_not`).
//! - It contains nothing about a CLI (`conformance/tests/architecture/main.rs:
//!   servers_and_wire_formats_contain_nothing_about_a_cli`).

mod access;
mod auxiliary;
mod body;
mod connection;
mod playback;
mod record;
pub mod script;
pub mod server;
mod vendor_hosts;
mod wire;

pub use convoke_protocol::wire::Wire;
pub use convoke_wire::{ModelCall, RequestKind};
pub use record::{Answered, Recorded, Sent};
pub use script::{Answer, End, RawAnswer, Reply, ReplyStep, Script, ScriptError, Usage};
pub use server::{Limits, Rehearsal, RequestFeed, StartError, start, start_with};
pub use vendor_hosts::CertificateError;
