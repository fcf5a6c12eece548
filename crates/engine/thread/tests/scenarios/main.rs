//! Replays captures of the real program and compares every request with the captured one.
//!
//! `CONVOKE_SCENARIOS` names the folder of scenarios (default `$CONVOKE_SHARED/scenarios` and
//! `$CONVOKE_SHARED/new/scenarios`); packs come from `$CONVOKE_SHARED/packs`, or else from `packs` beside that
//! folder. Every capture is also mutated in several ways, and the comparison must detect each mutation.

#![allow(clippy::print_stdout, clippy::exit, clippy::expect_used, clippy::panic, missing_docs)]

mod argv;
mod client;
mod compare;
mod frames;
mod harness;
mod mutate;
mod place;
mod play;
mod scenario;
mod script;
mod session;
mod sources;
mod tools;
mod tree;

use std::collections::BTreeMap;
use std::path::Path;

use scenario::Scenario;

fn main() {
    if let Err(wrong) = harness::check() {
        println!("FAILED the harness: {wrong}");
        std::process::exit(1);
    }
    let Some((scenarios, packs)) = place::scenarios() else {
        return;
    };
    let mut groups: BTreeMap<String, [usize; 2]> = BTreeMap::new();
    let mut total = [0; 2];
    let mut mutations = mutate::MutationCounts::default();
    let mut sessions = session::SessionFileCounts::default();
    for folder in scenarios {
        let name = folder.file_name().unwrap_or_default();
        let name = name.to_string_lossy().into_owned();
        let (group, verdict) = run(&folder, &packs, &mut mutations, &mut sessions);
        let column = match verdict {
            Verdict::Passed => 0,
            Verdict::Failed(difference) => {
                println!("FAILED {name}: {difference}");
                1
            }
        };
        groups.entry(group).or_default()[column] += 1;
        total[column] += 1;
    }
    println!("\n{:<16}{:>8}{:>8}", "group", "passed", "failed");
    for (group, [passed, failed]) in &groups {
        println!("{group:<16}{passed:>8}{failed:>8}");
    }
    println!("\n{sessions}");
    println!("{mutations}");
    let [passed, failed] = total;
    println!("{passed} passed, {failed} failed, 0 skipped");
    if failed > 0 || passed == 0 || mutations.unnoticed() > 0 {
        std::process::exit(1);
    }
}

enum Verdict {
    Passed,
    Failed(String),
}

fn run(
    folder: &Path,
    packs: &Path,
    mutations: &mut mutate::MutationCounts,
    sessions: &mut session::SessionFileCounts,
) -> (String, Verdict) {
    let scenario = match Scenario::read(folder) {
        Ok(scenario) => scenario,
        Err(wrong) => return ("unreadable".to_owned(), Verdict::Failed(wrong)),
    };
    let group = scenario.text("group").unwrap_or("other").to_owned();
    if !matches!(scenario.text("driver"), Some("exec" | "app")) {
        let wrong = format!("the driver {:?} is unknown", scenario.text("driver"));
        return (group, Verdict::Failed(wrong));
    }
    mutations.check(&scenario);
    let verdict = match play::play(&scenario, packs) {
        Ok(records) => {
            sessions.check(&scenario, &records);
            Verdict::Passed
        }
        Err(difference) => Verdict::Failed(difference),
    };
    (group, verdict)
}
