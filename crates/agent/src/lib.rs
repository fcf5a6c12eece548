//! Runs one turn of one coding agent.
//!
//! This crate is the only place that knows a vendor's flags and event formats.

pub mod delivery;
pub mod event;
pub mod stream;
pub mod usage;
pub mod verdict;
