//! Parses the output of Codex: that of its app server, and of `exec --json`.

pub mod app;
mod error;
pub mod exec;
mod item;
