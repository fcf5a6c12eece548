//! Finds the ACP agents that are known by name.

use std::path::PathBuf;

use convoke_agent::adapter::Preset;
use serde::Serialize;

use crate::host_environment::HostEnvironment;

/// An ACP agent that is installed. Whether it is signed in is not known before its first turn.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AcpReport {
    /// The name of the agent.
    pub agent: &'static str,
    /// The program that runs.
    pub program: PathBuf,
    /// The instructions for signing in.
    pub sign_in: &'static str,
}

pub(super) fn examine(
    presets: &[&'static Preset],
    host_environment: &HostEnvironment,
) -> Vec<AcpReport> {
    let installed = presets.iter().filter_map(|preset| {
        let program = host_environment.agent_program(preset.command)?;
        Some(AcpReport { agent: preset.name, program, sign_in: preset.sign_in })
    });
    installed.collect()
}
