//! A model behind an OpenAI-compatible endpoint, as a member of a team.
//!
//! The way of a turn: [`member`] prepares it and stores what came of it, `turn` goes from request to
//! answer to tool and back, [`client`] sends a request and repeats it where that can help, [`wire`]
//! reads what the model says, [`tools`] look into the working directory, [`log`] parses stored threads,
//! and `sent` records requests; both are kept in a [`convoke_agent::thread::ThreadStore`]. The text of a
//! request is decided by `convoke-thread` alone.

pub mod client;
pub mod diagnostics;
pub mod endpoint;
pub mod log;
pub mod member;
mod progress;
mod project_files;
mod redacted;
pub mod secret;
mod sent;
pub mod settings;
pub mod tools;
mod turn;
pub mod wire;

pub use client::{Call, CallError, CallEvent, CallLimits, Client, may_speak_chat};
pub use endpoint::{Endpoint, Proxies};
pub use log::{Log, undo_compaction};
pub use member::{Host, ModelAgent};
pub use project_files::root_of;
pub use secret::Key;
pub use settings::{Settings, withhold_key};
