//! Compares what is explained with what the real programs were seen to load.
//!
//! Every scenario is a tree of files and, for each agent, what arrived at its model. They come from
//! `conformance/explain` and below `$CONVOKE_SHARED`, or from the folder that `CONVOKE_EXPLAIN` names. Each
//! is laid out in memory and, where a temporary directory can stand for `/lab`, on disk as well.

#![expect(clippy::print_stdout, clippy::expect_used, reason = "a test may stop, and say so")]

mod compare;
mod harness;
mod layout;
mod mutation;
mod scenario;

use std::collections::BTreeMap;
use std::process::ExitCode;

use layout::{Laid, Skipped};
use scenario::Scenario;

fn main() -> ExitCode {
    let folders = convoke_conformance::own("CONVOKE_EXPLAIN", &["explain", "new/explain"]);
    let filter = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    let mut counts = Counts::default();
    if let Err(wrong) = harness::check() {
        println!("FAIL the harness: {wrong}");
        counts.failed += 1;
    }
    for path in convoke_conformance::files(&folders, "json") {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if filter.as_ref().is_some_and(|filter| !name.contains(filter.as_str())) {
            continue;
        }
        match Scenario::read(&path) {
            Ok(scenario) => run(&name, &scenario, &mut counts),
            Err(reason) => {
                println!("FAIL {name}: {reason}");
                counts.failed += 1;
            }
        }
    }
    println!(
        "{} runs in memory, {} on disk; {} of {} mutated expectations noticed",
        counts.in_memory, counts.on_disk, counts.noticed, counts.mutated
    );
    for (reason, count) in &counts.not_on_disk {
        println!("{count} in memory only: {reason}");
    }
    let failed = counts.failed + (counts.mutated - counts.noticed);
    println!("{} passed, {failed} failed, {} skipped", counts.passed, counts.skipped);
    if failed == 0 && counts.passed > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

#[derive(Default)]
struct Counts {
    passed: usize,
    failed: usize,
    skipped: usize,
    in_memory: usize,
    on_disk: usize,
    mutated: usize,
    noticed: usize,
    not_on_disk: BTreeMap<&'static str, usize>,
}

fn run(name: &str, scenario: &Scenario, counts: &mut Counts) {
    let mut layouts = vec![layout::in_memory(scenario)];
    match layout::on_disk(scenario) {
        Ok(laid) => layouts.push(laid),
        Err(Skipped(reason)) => *counts.not_on_disk.entry(reason).or_default() += 1,
    }
    let mut failure = None;
    for laid in &layouts {
        for (agent, expected) in &scenario.results {
            let report = laid.explain(scenario, agent);
            *(if laid.is_disk() { &mut counts.on_disk } else { &mut counts.in_memory }) += 1;
            if let Err(difference) = compare::compare(laid, scenario, agent, expected, &report) {
                failure.get_or_insert(format!("{agent} ({}): {difference}", laid.title()));
            }
        }
    }
    if let Some(difference) = failure {
        println!("FAIL {name}: {difference}");
        counts.failed += 1;
    } else {
        counts.passed += 1;
        mutate(name, scenario, &layouts[0], counts);
    }
}

/// A comparison that cannot fail proves nothing: every changed expectation must be noticed.
fn mutate(name: &str, scenario: &Scenario, laid: &Laid, counts: &mut Counts) {
    for (agent, expected) in &scenario.results {
        let report = laid.explain(scenario, agent);
        for (what, mutated) in mutation::mutations(expected, scenario.order_is_free) {
            counts.mutated += 1;
            match compare::compare(laid, scenario, agent, &mutated, &report) {
                Err(_) => counts.noticed += 1,
                Ok(()) => println!("FAIL {name}: {agent}: nobody noticed that {what}"),
            }
        }
    }
}
