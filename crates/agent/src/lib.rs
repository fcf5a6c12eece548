//! Runs one turn of one coding agent.
//!
//! This crate is the only place that knows a vendor's flags and event formats.

pub mod adapter;
pub mod config;
pub mod delivery;
pub mod event;
pub mod process;
pub mod redact;
pub mod stream;
pub mod turn;
pub mod usage;
pub mod verdict;

pub use delivery::Delivery;
pub use turn::{Agent, Outcome, Turn};
pub use verdict::Verdict;
