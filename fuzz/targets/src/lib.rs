//! The fuzz targets: functions that take any bytes and panic if a property does not hold.
//!
//! libFuzzer calls them with bytes of its own (`fuzz/fuzz_targets`), the tests of this crate with the
//! seeds below `fuzz/seeds`.

#![allow(
    clippy::expect_used,
    clippy::missing_panics_doc,
    reason = "a panic is how a target reports a failure"
)]

mod acp;
mod assemble;
mod editor;
mod event_streams;
mod front_matter;
mod import;
mod mcp;
mod redactor;
mod rpc;
mod scanner;
mod session_files;
mod snapshot;
mod team_file;
mod wires;

pub use self::acp::acp;
pub use self::assemble::assemble;
pub use self::editor::editor;
pub use self::event_streams::event_streams;
pub use self::front_matter::front_matter;
pub use self::import::import;
pub use self::mcp::mcp;
pub use self::redactor::redactor;
pub use self::rpc::rpc;
pub use self::scanner::scanner;
pub use self::session_files::{
    claude_sessions, codex_sessions, copilot_sessions, gemini_sessions, kimi_sessions,
    opencode_sessions, pi_sessions,
};
pub use self::snapshot::snapshot;
pub use self::team_file::team_file;
pub use self::wires::wires;

/// A fuzz target. Returns whether the input was accepted as what the target reads, so that seeds that
/// have become worthless are noticed.
pub type Target = fn(&[u8]) -> bool;

/// Every target, by its name.
pub const TARGETS: [(&str, Target); 20] = [
    ("acp", acp),
    ("assemble", assemble),
    ("claude_sessions", claude_sessions),
    ("codex_sessions", codex_sessions),
    ("copilot_sessions", copilot_sessions),
    ("editor", editor),
    ("event_streams", event_streams),
    ("front_matter", front_matter),
    ("gemini_sessions", gemini_sessions),
    ("import", import),
    ("kimi_sessions", kimi_sessions),
    ("mcp", mcp),
    ("opencode_sessions", opencode_sessions),
    ("pi_sessions", pi_sessions),
    ("redactor", redactor),
    ("rpc", rpc),
    ("scanner", scanner),
    ("snapshot", snapshot),
    ("team_file", team_file),
    ("wires", wires),
];
