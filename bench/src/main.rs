//! Times the engine beside a copy of the same bytes, and counts its allocations.
//!
//! `cargo run --release -p bench [history | context | budget | markers | growth]` prints tables in
//! Markdown; it fails when a reader's time grows faster than its input.

#![expect(clippy::print_stdout, reason = "tables are printed")]

mod allocations;
mod budget;
mod context;
mod growth;
mod history;
mod markers;
mod measure;
mod table;
mod texts;

use std::process::ExitCode;

/// A group of measurements, by name.
const GROUPS: [(&str, fn()); 4] = [
    ("history", history::run),
    ("context", context::run),
    ("budget", budget::run),
    ("markers", markers::run),
];

/// The group whose result counts.
const GROWTH: &str = "growth";

fn main() -> ExitCode {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    let is_known = |name: &String| name == GROWTH || GROUPS.iter().any(|(known, _)| known == name);
    if let Some(unknown) = wanted.iter().find(|name| !is_known(name)) {
        println!(
            "there is no group `{unknown}`; there are history, context, budget, markers and growth"
        );
        return ExitCode::from(2);
    }
    for (name, run) in GROUPS {
        if wanted.is_empty() || wanted.iter().any(|w| w == name) {
            run();
        }
    }
    let is_wanted = wanted.is_empty() || wanted.iter().any(|name| name == GROWTH);
    if is_wanted && !growth::run() {
        println!("\na reader's time grows faster than its input");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
