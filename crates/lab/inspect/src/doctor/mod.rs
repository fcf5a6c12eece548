//! Examines the agents of this machine: installation, sign-in and problems, each with a fix.
//!
//! Reads no secrets, sends nothing, and writes nothing to a CLI's directory. Whether a key is valid is not checked.

use serde::Serialize;

use crate::host_environment::HostEnvironment;
use crate::installed::Installed;
use convoke_agent::process::guardian::Guardian;
use convoke_agent::turn_input::Trust;
use convoke_vendor::MeasuredCli;

mod acp;
mod agent;
mod finding;
mod instructions;
mod machine;
mod network;
mod sandbox;
mod sign_in;
mod trial;

pub use acp::{AcpAgent, AcpReport};
pub use finding::{Finding, Level};
pub use instructions::{InstructionFile, Instructions};
pub use machine::Limit;
pub use network::{Network, Proxy, Redirect};
pub use sandbox::SandboxReport;
pub use sign_in::{Evidence, SignInReport};
pub use trial::try_turn;

/// The depth of an examination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// Run nothing that writes.
    Look,
    /// Ask each CLI whether it is signed in, which makes some of them write to their own directory.
    Ask,
}

/// The report.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineReport {
    /// The version of the report's format.
    pub version: u32,
    pub agents: Vec<AgentReport>,
    /// The ACP agents that are installed or configured.
    pub acp: Vec<AcpReport>,
    /// The members of the team here whose agents are none of these, and can run a turn.
    pub members: Vec<String>,
    /// The limits of this machine.
    pub limits: Vec<Limit>,
    /// The network settings.
    pub network: Network,
    /// The enforcer of the agents' permissions.
    pub sandbox: SandboxReport,
    /// The findings about the machine.
    pub findings: Vec<Finding>,
}

/// The report on one agent.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentReport {
    pub agent: &'static dyn MeasuredCli,
    /// The installations, in the order of `PATH`; the first one runs.
    pub installed: Vec<Installed>,
    pub sign_in: SignInReport,
    /// The instruction files that it loads here.
    pub instructions: Instructions,
    /// The hosts of the endpoint that it would use; several where it depends on the sign-in, none where it is unknown.
    pub hosts: Vec<String>,
    /// The findings about it.
    pub findings: Vec<Finding>,
}

impl AgentReport {
    /// Returns whether no known problem prevents a turn.
    pub fn is_usable(&self) -> bool {
        !self.installed.is_empty()
            && self.findings.iter().all(|found| found.level != Level::Problem)
    }
}

impl MachineReport {
    /// Adds what a trial turn of an agent found.
    pub fn add_trial(&mut self, agent: &'static dyn MeasuredCli, found: &[Finding]) {
        let examined = self.agents.iter_mut().filter(|it| it.agent == agent);
        examined.for_each(|it| it.findings.extend(found.iter().cloned()));
        self.note_if_no_agent_is_usable();
    }

    fn note_if_no_agent_is_usable(&mut self) {
        let is_noted = self.findings.iter().any(|it| *it == finding::no_agent());
        let is_usable = self.agents.iter().any(AgentReport::is_usable)
            || self.acp.iter().any(|agent| agent.program.is_some())
            || !self.members.is_empty();
        if !is_noted && !is_usable {
            self.findings.insert(0, finding::no_agent());
        }
    }

    /// Returns every finding, the agents' first.
    pub fn all_findings(&self) -> impl Iterator<Item = &Finding> {
        let agents = self.agents.iter().flat_map(|agent| &agent.findings);
        let acp = self.acp.iter().flat_map(|agent| &agent.findings);
        agents.chain(acp).chain(&self.findings)
    }
}

/// Examines the agents and the machine; `trust` is that of the working directory.
pub fn examine(
    vendors: &[&'static dyn MeasuredCli],
    acp: &[AcpAgent],
    members: Vec<String>,
    host_environment: &HostEnvironment,
    trust: Trust,
    depth: Depth,
    guardian: &Guardian,
) -> MachineReport {
    let vendors = vendors.iter();
    let examined =
        vendors.map(|vendor| agent::examine(*vendor, host_environment, trust, depth, guardian));
    let agents: Vec<AgentReport> = examined.collect();
    let mut findings = Vec::new();
    let limits = machine::limits(host_environment, &mut findings);
    let network = network::examine(host_environment, &mut findings);
    let sandbox = sandbox::examine(host_environment, &mut findings);
    let acp = acp::examine(acp, host_environment);
    let mut report =
        MachineReport { version: 1, agents, acp, members, limits, network, sandbox, findings };
    report.note_if_no_agent_is_usable();
    report
}
