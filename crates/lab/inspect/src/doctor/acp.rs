//! Finds the ACP agents: those that are known by name, and those of the user and of a team.

use std::path::PathBuf;

use convoke_agent::adapter::Preset;
use serde::Serialize;

use super::{Finding, Level};
use crate::diagnostics;
use crate::host_environment::HostEnvironment;

/// An ACP agent to look for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AcpAgent {
    /// Its name, or the member that it is the agent of.
    pub name: String,
    /// Its program; `None` if no program is named that may run here.
    pub program: Option<String>,
    /// The agent that is known by name.
    pub preset: Option<&'static Preset>,
    /// Whether it is reported if it is missing: it was configured.
    pub is_configured: bool,
}

/// The report on an ACP agent. Whether it is signed in is not known before its first turn.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AcpReport {
    /// The name of the agent.
    pub agent: String,
    /// The program that runs; `None` if it is missing.
    pub program: Option<PathBuf>,
    /// The instructions for signing in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sign_in: Option<&'static str>,
    /// The findings about it.
    pub findings: Vec<Finding>,
}

pub(super) fn examine(agents: &[AcpAgent], host_environment: &HostEnvironment) -> Vec<AcpReport> {
    let reports = agents.iter().map(|agent| examine_one(agent, host_environment));
    let reported = reports
        .zip(agents)
        .filter(|(report, agent)| report.program.is_some() || agent.is_configured);
    reported.map(|(report, _)| report).collect()
}

fn examine_one(agent: &AcpAgent, host_environment: &HostEnvironment) -> AcpReport {
    let AcpAgent { name, program, preset, .. } = agent;
    let found = program.as_deref().and_then(|it| host_environment.agent_program(it));
    let (message, fix) = match (program, preset) {
        (Some(program), Some(preset)) if program == preset.command => (
            format!("`{program}` is not on the PATH"),
            format!("Run `npm install -g {}`, or leave it out of the team.", preset.package),
        ),
        (Some(program), _) => (
            format!("`{program}` is not an executable file, or not on the PATH"),
            "Install it, or correct `command`.".to_owned(),
        ),
        (None, _) => (
            "no program is named that may run here".to_owned(),
            "Name it with `command`; that of a team file counts after `convoke trust`.".to_owned(),
        ),
    };
    let missing = Finding::new(Level::Problem, diagnostics::DOCTOR_NOT_INSTALLED, message);
    let findings = if found.is_none() { vec![missing.with_fix(fix)] } else { Vec::new() };
    let sign_in = preset.map(|preset| preset.sign_in);
    AcpReport { agent: name.clone(), program: found, sign_in, findings }
}
