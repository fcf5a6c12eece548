//! A short list of the instruction files of an agent. `convoke explain` has the details.

use std::path::PathBuf;

use convoke_agent::Vendor;
use convoke_core::Diagnostic;
use serde::Serialize;

use crate::explained::explained;
use crate::host_environment::HostEnvironment;

/// The instruction files of an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Instructions {
    /// The files, in loading order.
    pub files: Vec<InstructionFile>,
    /// The diagnostics.
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

pub(super) fn examine(
    vendor: Vendor,
    version: Option<&str>,
    host_environment: &HostEnvironment,
) -> Instructions {
    let mut instructions = Instructions { files: Vec::new(), diagnostics: Vec::new() };
    if let Some(agent) = explained(vendor, version, host_environment) {
        instructions.files.extend(agent.loaded.into_iter().map(|file| InstructionFile {
            path: file.path,
            bytes: file.bytes_loaded,
            whole: file.whole,
        }));
        instructions.diagnostics.extend(agent.diagnostics);
    }
    instructions
}
