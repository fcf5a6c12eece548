//! A short list of the instruction files of an agent. `convoke explain` has the details.

use std::path::PathBuf;

use convoke_agent::turn_input::Trust;
use convoke_core::Diagnostic;
use convoke_vendor::MeasuredCli;
use serde::Serialize;

use super::{Finding, Level};
use crate::explained::TurnInstructions;
use crate::host_environment::HostEnvironment;

/// The instruction files of an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Instructions {
    /// The files, in loading order.
    pub files: Vec<InstructionFile>,
    pub diagnostics: Vec<Diagnostic>,
}

/// An instruction file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InstructionFile {
    /// The file.
    pub path: PathBuf,
    /// The number of bytes that are loaded.
    pub bytes: u64,
    /// Whether the whole file is loaded.
    pub whole: bool,
}

/// Examines what a turn here, in a directory with this trust, makes the agent read.
pub(super) fn examine(
    vendor: &'static dyn MeasuredCli,
    version: Option<&str>,
    trust: Trust,
    host_environment: &HostEnvironment,
    findings: &mut Vec<Finding>,
) -> Instructions {
    let mut instructions = Instructions { files: Vec::new(), diagnostics: Vec::new() };
    if let Some(turn) = TurnInstructions::new(vendor, version, trust, host_environment) {
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
