//! A model behind an OpenAI-compatible endpoint, as a member of a team.
//!
//! [`member`] prepares a turn and stores its result, `turn` loops over requests, responses and tool calls,
//! [`client`] sends and retries requests, [`wire`] parses responses, [`tools`] read the working directory,
//! [`stored_thread`] parses stored threads, and `sent` records requests; both are stored in a
//! [`convoke_agent::thread::ThreadStore`]. Only `convoke-thread` decides the content of requests.
//!
//! # Modules
//!
//! A model behind an OpenAI-compatible endpoint as an agent.
//!
//! - `member` prepares a turn and stores its result, or returns it to the caller, which stores it with the end of the turn.
//! - `turn` loops over requests, responses and tool calls; `progress` collects what a turn stores.
//! - `client` sends a request and retries it; `wire` parses either stream; `endpoint` is the address, `settings` are those of a member.
//! - `tools` list, read and search the working directory; `project_files` reads project files within the trust rules.
//! - `stored_thread` parses stored threads and `sent` records requests, both through `convoke-agent`'s `ThreadStore`.
//! - `secret` holds the key; `redacted` removes it from everything that enters a thread.
//!
//! # Invariants
//!
//! - Only `convoke-thread` decides the content of a request; the client sends bytes
//!   (`crates/runtime/model/tests/scenarios/main.rs: request`).
//! - A turn is stored whole or not at all; in a session, in one commit with its result
//!   (`crates/runtime/model/tests/crash/main.rs: a_crash_at_any_write_point_leaves_each_turn_remembered_once`).
//! - Every request is stored before it is sent (`crates/runtime/model/tests/it/member.rs:
//!   a_request_that_cannot_be_stored_is_not_sent`).

pub mod client;
pub mod diagnostics;
pub mod endpoint;
pub mod member;
mod progress;
mod project_files;
mod redacted;
pub mod secret;
mod sent;
pub mod settings;
pub mod stored_thread;
pub mod tools;
mod turn;
pub mod wire;

pub use client::{CallError, CallEvent, CallLimits, Client, RunningRequest, may_speak_chat};
pub use endpoint::{Endpoint, Proxies};
pub use member::{Host, ModelAgent};
pub use project_files::root_of;
pub use secret::Key;
pub use settings::{Settings, withhold_key};
pub use stored_thread::{Log, undo_compaction};
