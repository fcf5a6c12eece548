//! Times the engine beside a copy of the same bytes, and counts its allocations.
//!
//! `cargo run --release -p bench [GROUP…]` prints tables in Markdown.

#![expect(clippy::print_stdout, reason = "tables are printed")]

mod allocations;
mod budget;
mod changes;
#[path = "../../crates/conversation/session/tests/postgres/cluster.rs"]
#[expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a benchmark that cannot go on ends"
)]
mod cluster;
mod commands;
mod confine;
mod context;
mod growth;
mod history;
mod instructions;
mod markers;
mod measure;
mod nodes;
mod other_sessions;
mod page;
mod relay;
mod table;
mod texts;

use std::process::ExitCode;

/// A group of measurements, by name.
const GROUPS: [(&str, fn()); 12] = [
    ("history", history::run),
    ("context", context::run),
    ("budget", budget::run),
    ("markers", markers::run),
    ("growth", growth::run),
    ("relay", relay::run),
    ("confine", confine::run),
    ("changes", changes::run),
    ("commands", commands::run),
    ("page", page::run),
    ("nodes", nodes::run),
    ("sessions", other_sessions::run),
];

fn main() -> ExitCode {
    // It holds the programs that it starts, as Convoke does.
    if let Some(code) = convoke_agent::process::guardian::run_if_asked() {
        return code;
    }
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    if let [read, name, input, size] = &wanted[..]
        && read == "read"
    {
        growth::read_once(name, input, size.parse().unwrap_or_default());
        return ExitCode::SUCCESS;
    }
    if let [group, option] = &wanted[..]
        && group == "growth"
        && option == "--instructions"
    {
        growth::count_instructions();
        return ExitCode::SUCCESS;
    }
    if let Some(unknown) = wanted.iter().find(|name| !GROUPS.iter().any(|(n, _)| n == name)) {
        let names = GROUPS.map(|(name, _)| name).join(", ");
        println!("there is no group `{unknown}`; there are {names}");
        return ExitCode::from(2);
    }
    for (name, run) in GROUPS {
        if wanted.is_empty() || wanted.iter().any(|w| w == name) {
            run();
        }
    }
    ExitCode::SUCCESS
}
