//! Which agents are here, and what would fail and why: each finding with its fix.
//!
//! No secret is read, nothing is sent, and nothing is written into a CLI's own directory. What was
//! found is told as what it is: a key that is set is not a key that works.

use serde::Serialize;

use crate::host_environment::HostEnvironment;
use crate::installed::Installed;
use convoke_agent::Vendor;
use convoke_agent::turn_input::Trust;

mod agent;
mod finding;
mod instructions;
mod machine;
mod network;
mod sandbox;
mod sign_in;
mod trial;

pub use finding::{Finding, Level};
pub use instructions::{InstructionFile, Instructions};
pub use machine::Limit;
pub use network::{Network, Proxy, Redirect};
pub use sandbox::SandboxReport;
pub use sign_in::{Evidence, SignInReport};
pub use trial::try_turn;

/// How far an examination goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// Looks, and runs nothing that writes.
    Look,
    /// Asks each CLI whether it is signed in, which makes some of them write into their own directory.
    Ask,
}

/// What was found.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// The version of the report's format.
    pub version: u32,
    /// The agents.
    pub agents: Vec<AgentReport>,
    /// The limits that apply here.
    pub limits: Vec<Limit>,
    /// The way to the network.
    pub network: Network,
    /// What enforces the permissions of agents.
    pub sandbox: SandboxReport,
    /// What there is to say of the machine.
    pub findings: Vec<Finding>,
}

/// What was found of one agent.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentReport {
    /// The agent.
    pub agent: Vendor,
    /// Where it is installed, in the order of the `PATH`; the first is the one that runs.
    pub installed: Vec<Installed>,
    /// How it is signed in.
    pub sign_in: SignInReport,
    /// The instruction files that it will read here.
    pub instructions: Instructions,
    /// The hosts that it must reach.
    pub hosts: &'static [&'static str],
    /// What there is to say of it.
    pub findings: Vec<Finding>,
}

impl AgentReport {
    /// Says whether nothing stands in the way of a turn, as far as can be seen.
    pub fn is_usable(&self) -> bool {
        !self.installed.is_empty()
            && self.findings.iter().all(|found| found.level != Level::Problem)
    }
}

impl Report {
    /// Adds what a trial turn of an agent found.
    pub fn add_trial(&mut self, agent: Vendor, found: &[Finding]) {
        let examined = self.agents.iter_mut().filter(|it| it.agent == agent);
        examined.for_each(|it| it.findings.extend(found.iter().cloned()));
        self.note_if_no_agent_is_usable();
    }

    fn note_if_no_agent_is_usable(&mut self) {
        let is_noted = self.findings.iter().any(|it| *it == finding::no_agent());
        if !is_noted && !self.agents.iter().any(AgentReport::is_usable) {
            self.findings.insert(0, finding::no_agent());
        }
    }

    /// Returns every finding, the agents' first.
    pub fn all_findings(&self) -> impl Iterator<Item = &Finding> {
        let agents = self.agents.iter().flat_map(|agent| &agent.findings);
        agents.chain(&self.findings)
    }
}

/// Examines the agents and the machine; `trust` is that of the working directory.
pub fn examine(
    vendors: &[Vendor],
    host_environment: &HostEnvironment,
    trust: Trust,
    depth: Depth,
) -> Report {
    let vendors = vendors.iter();
    let agents: Vec<AgentReport> =
        vendors.map(|vendor| agent::examine(*vendor, host_environment, trust, depth)).collect();
    let mut findings = Vec::new();
    let limits = machine::limits(host_environment, &mut findings);
    let network = network::examine(host_environment, &mut findings);
    let sandbox = sandbox::examine(host_environment, &mut findings);
    let mut report = Report { version: 1, agents, limits, network, sandbox, findings };
    report.note_if_no_agent_is_usable();
    report
}
