//! A model behind an OpenAI-compatible endpoint, as a member of a team.
//!
//! [`member`] prepares a turn and stores its result, `turn` loops over requests, responses and tool calls,
//! [`client`] sends and retries requests, [`wire`] parses responses, [`tools`] read the working directory,
//! [`stored_thread`] parses stored threads, and `sent` records requests; both are stored in a
//! [`convoke_agent::thread::ThreadStore`]. Only `convoke-thread` decides the content of requests.

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
