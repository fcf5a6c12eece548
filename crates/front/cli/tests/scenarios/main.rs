//! Runs the scenarios of `codex exec` from outside: the binary, over a real directory.
//!
//! `CONVOKE_SCENARIOS` and `CONVOKE_SHARED` name the captures and the packs, as for the scenarios of
//! `convoke-thread`, which plays all of them inside. The captures were made below `/lab`. Here each is laid out below a temporary directory that stands for it: the
//! prefix is mapped in arguments, configuration, environment and links, and mapped back in what the
//! command prints. The contents of all other files stay as they are.
//!
//! The command shows the request that a turn begins with, so the first request of each run is
//! compared. Later ones need a model's answer.

#![allow(clippy::print_stdout, clippy::exit, clippy::unwrap_used, missing_docs)]

#[allow(dead_code, reason = "shared with the scenarios of convoke-thread")]
#[path = "../../../../engine/thread/tests/scenarios/compare.rs"]
mod compare;
mod lab;
#[path = "../../../../engine/thread/tests/scenarios/place.rs"]
mod place;
mod run;
#[allow(dead_code, reason = "shared with the scenarios of convoke-thread")]
#[path = "../../../../engine/thread/tests/scenarios/scenario.rs"]
mod scenario;

use std::path::Path;

use scenario::Scenario;

/// The result of a scenario.
pub(crate) enum Verdict {
    /// So many first requests are equal, and so many later ones were out of reach.
    Passed {
        compared: usize,
        later: usize,
    },
    Failed(String),
    Skipped(String),
}

fn main() {
    let Some((scenarios, packs)) = place::scenarios() else {
        return;
    };
    let (mut passed, mut failed, mut skipped) = (0, 0, 0);
    let (mut all_compared, mut all_later) = (0, 0);
    for folder in scenarios {
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        match verdict(&folder, &packs) {
            Verdict::Passed { compared, later } => {
                passed += 1;
                all_compared += compared;
                all_later += later;
            }
            Verdict::Failed(difference) => {
                failed += 1;
                println!("FAILED {name}: {difference}");
            }
            Verdict::Skipped(reason) => {
                skipped += 1;
                println!("skipped {name}: {reason}");
            }
        }
    }
    println!("\n{all_compared} requests compared; {all_later} later ones need a model's answer");
    println!("{passed} passed, {failed} failed, {skipped} skipped");
    if failed > 0 || passed == 0 {
        std::process::exit(1);
    }
}

fn verdict(folder: &Path, packs: &Path) -> Verdict {
    let scenario = match Scenario::read(folder) {
        Ok(scenario) => scenario,
        Err(wrong) => return Verdict::Failed(wrong),
    };
    match scenario.text("driver") {
        Some("exec") => {}
        Some("app") => return Verdict::Skipped("it is no run of `codex exec`".to_owned()),
        other => return Verdict::Failed(format!("the driver {other:?} is unknown")),
    }
    run::all(&scenario, packs).unwrap_or_else(Verdict::Failed)
}
