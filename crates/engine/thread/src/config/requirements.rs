//! The values that an administrator allows in `requirements.toml`. Other values are replaced.

use convoke_codex::config::{ConfigError, Setting, parse};
use toml::Table;

use crate::permissions::{ApprovalPolicy, SandboxMode};

/// The allowed values; an empty list allows all.
#[derive(Debug, Default)]
pub(super) struct Requirements {
    approvals: Vec<ApprovalPolicy>,
    sandboxes: Vec<SandboxMode>,
}

impl Requirements {
    pub(super) fn read(table: &Table) -> Result<Self, ConfigError> {
        let setting = Setting::without_profile(table);
        let texts = |key: &str| Ok::<_, ConfigError>(setting.texts(key)?.unwrap_or_default());
        let (approvals, sandboxes) = ("allowed_approval_policies", "allowed_sandbox_modes");
        let approvals: Result<_, _> =
            texts(approvals)?.iter().map(|name| parse(approvals, name)).collect();
        // Modes of other kinds of sandboxes are not available here.
        let sandboxes = texts(sandboxes)?.iter().filter_map(|name| name.parse().ok()).collect();
        Ok(Self { approvals: approvals?, sandboxes })
    }

    /// Returns the policy if it is allowed, else the first allowed one.
    pub(super) fn approval(&self, chosen: ApprovalPolicy) -> ApprovalPolicy {
        match self.approvals.first() {
            Some(first) if !self.approvals.contains(&chosen) => *first,
            _ => chosen,
        }
    }

    /// Returns the mode if it is allowed, else the narrowest one.
    pub(super) fn sandbox(&self, chosen: SandboxMode) -> SandboxMode {
        let is_allowed = self.sandboxes.is_empty() || self.sandboxes.contains(&chosen);
        if is_allowed { chosen } else { SandboxMode::ReadOnly }
    }
}
