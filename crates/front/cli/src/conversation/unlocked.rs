//! What trust in a directory unlocks, beside the settings of its team file: the instructions that programs read there.

use std::path::{Path, PathBuf};

use convoke_inspect::HostEnvironment;
use convoke_inspect::explained::TurnInstructions;
use convoke_inspect::installed::version_on_disk;
use convoke_team::Trust;
use serde::Serialize;

/// The instruction files that a program gets only in a trusted directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Unlocked {
    pub program: String,
    pub files: Vec<PathBuf>,
}

/// Returns the instruction files that programs are started without while a directory is not trusted.
pub fn unlocked(directory: &Path, host_environment: &HostEnvironment) -> Vec<Unlocked> {
    let here = HostEnvironment { cwd: directory.to_owned(), ..host_environment.clone() };
    let withheld = convoke_vendors::clis().filter_map(|vendor| {
        let program = here.agent_program(vendor.facts().command);
        let version = program.and_then(|program| version_on_disk(&program, vendor));
        let turn = TurnInstructions::new(vendor, version.as_deref(), Trust::Untrusted, &here)?;
        let files: Vec<PathBuf> = turn.withheld.into_iter().map(|it| it.path).collect();
        (!files.is_empty()).then(|| Unlocked { program: vendor.to_string(), files })
    });
    withheld.collect()
}
