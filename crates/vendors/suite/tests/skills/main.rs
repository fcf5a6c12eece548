//! Compares the explained list of skills with the list that the real programs were seen to send.
//!
//! Every scenario is a tree of files and, for each agent, the list of its request. They come from
//! `conformance/skills` and `$CONVOKE_SHARED/skills`, or from the folder that `CONVOKE_SKILLS` names. Each is laid
//! out in memory and in a temporary directory that stands for `/lab`.

#![expect(clippy::print_stdout, clippy::expect_used, reason = "a test may stop, and say so")]

mod compare;
mod layout;
mod scenario;

use std::process::ExitCode;

use scenario::Scenario;

fn main() -> ExitCode {
    let folders = convoke_conformance::own("CONVOKE_SKILLS", &["skills"]);
    let filter = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    let (mut passed, mut failed, mut mutated, mut unnoticed) = (0, 0, 0, 0);
    for path in convoke_conformance::files(&folders, "json") {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if filter.as_ref().is_some_and(|filter| !name.contains(filter.as_str())) {
            continue;
        }
        let scenario = Scenario::read(&path);
        let outcome = scenario.as_ref().map_err(Clone::clone).and_then(run);
        match (outcome, scenario) {
            (Ok(()), Ok(scenario)) => {
                passed += 1;
                for unseen in unseen_mutations(&scenario, &mut mutated) {
                    println!("FAIL {name}: {unseen}");
                    unnoticed += 1;
                }
            }
            (Err(reason), _) | (Ok(()), Err(reason)) => {
                println!("FAIL {name}: {reason}");
                failed += 1;
            }
        }
    }
    println!("{} of {mutated} mutated expectations noticed", mutated - unnoticed);
    failed += unnoticed;
    println!("{passed} passed, {failed} failed, 0 skipped");
    if failed == 0 && passed > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn run(scenario: &Scenario) -> Result<(), String> {
    for laid in layout::all(scenario) {
        for (agent, expected) in &scenario.results {
            let report = laid.explain(scenario, agent);
            compare::compare(&laid, scenario, expected, &report)
                .map_err(|difference| format!("{agent} ({}): {difference}", laid.title))?;
        }
    }
    Ok(())
}

/// A comparison that cannot fail proves nothing: every changed expectation must be noticed.
fn unseen_mutations(scenario: &Scenario, mutated: &mut usize) -> Vec<String> {
    let mut unseen = Vec::new();
    let laid = layout::in_memory(scenario);
    for (agent, expected) in &scenario.results {
        let report = laid.explain(scenario, agent);
        for (what, changed) in expected.mutations() {
            *mutated += 1;
            if compare::compare(&laid, scenario, &changed, &report).is_ok() {
                unseen.push(format!("{agent}: nobody noticed that {what}"));
            }
        }
    }
    unseen
}
