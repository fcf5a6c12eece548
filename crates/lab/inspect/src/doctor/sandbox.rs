//! The enforcer of the agents' permissions on this machine.

use convoke_agent::sandbox::{Enforcer, Gap, Route, SandboxAdditions};
use convoke_agent::turn_input::Permissions;
use serde::Serialize;

use super::{Finding, Level};
use crate::host_environment::HostEnvironment;

/// The enforcer of the agents' permissions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SandboxReport {
    /// The enforcer, in words.
    pub enforcer: String,
    pub gaps: Vec<Gap>,
}

pub(super) fn examine(
    host_environment: &HostEnvironment,
    findings: &mut Vec<Finding>,
) -> SandboxReport {
    // All vendors have the same.
    let any = convoke_vendors::programs().clis.first().copied();
    let enforcer = Enforcer::on_this_machine(any, host_environment.newest_landlock());
    let gaps = enforcer.gaps(Permissions::Edit, Route::Direct, &SandboxAdditions::default());
    let list: Vec<&str> = gaps.iter().map(|gap| gap.as_str()).collect();
    let message = format!("{enforcer} enforces permissions; not enforced: {}", list.join("; "));
    // The network is closed in turns whose requests go through Convoke.
    let is_usual = |gap: &Gap| gap.is_everywhere() || *gap == Gap::Network;
    let level = if gaps.iter().all(is_usual) { Level::Note } else { Level::Warning };
    let code = convoke_agent::diagnostics::SANDBOX_PARTIAL;
    findings.push(
        Finding::new(level, code, message)
            .with_fix("`convoke docs permissions` says what each permission means."),
    );
    SandboxReport { enforcer: enforcer.to_string(), gaps }
}
