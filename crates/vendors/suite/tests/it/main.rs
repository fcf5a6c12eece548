//! Tests of all vendors in front of the code that runs them.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod adapters;
mod arguments;
mod config;
mod configuration;
mod recorded_questions;
mod relayed;

use convoke_agent::config::AgentKind;
use convoke_vendors::programs;

/// Returns the kind of agents that run a CLI.
fn kind(name: &str) -> AgentKind {
    AgentKind::Cli(programs().cli(name).unwrap())
}
