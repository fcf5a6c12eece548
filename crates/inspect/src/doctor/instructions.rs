//! The instruction files that an agent will read here: a short list. `convoke explain` has the whole
//! account.

use std::path::PathBuf;

use convoke_agent::Vendor;
use convoke_agent::turn_input::Trust;
use convoke_core::Diagnostic;
use serde::Serialize;

use super::{Finding, Level};
use crate::explained::TurnInstructions;
use crate::host_environment::HostEnvironment;

/// What an agent will read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Instructions {
    /// The files, in the order in which they are read.
    pub files: Vec<InstructionFile>,
    /// What is odd about them.
    pub diagnostics: Vec<Diagnostic>,
}

/// A file that an agent will read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InstructionFile {
    /// The file.
    pub path: PathBuf,
    /// The bytes of it that are read.
    pub bytes: u64,
    /// Whether that is all of it.
    pub whole: bool,
}

/// Examines what a turn here, in a directory with this trust, makes the agent read.
pub(super) fn examine(
    vendor: Vendor,
    version: Option<&str>,
    trust: Trust,
    host_environment: &HostEnvironment,
    findings: &mut Vec<Finding>,
) -> Instructions {
    let mut instructions = Instructions { files: Vec::new(), diagnostics: Vec::new() };
    if let Some(turn) = TurnInstructions::of(vendor, version, trust, host_environment) {
        let withheld = turn.diagnostic();
        findings.extend(withheld.map(|it| Finding::new(Level::Warning, it.code, it.message)));
        let agent = turn.report;
        instructions.files.extend(agent.loaded.into_iter().map(|file| InstructionFile {
            path: file.path,
            bytes: file.bytes_loaded,
            whole: file.whole,
        }));
        instructions.diagnostics.extend(agent.diagnostics);
    }
    instructions
}
