//! Findings: a diagnostic with a level and a fix.

use crate::diagnostics;
use convoke_core::{Code, Diagnostic};
use serde::Serialize;
use serde::ser::{SerializeStruct, Serializer};

/// The level of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Level {
    /// For information.
    Note,
    /// Something may go wrong.
    Warning,
    /// Something will go wrong.
    Problem,
}

/// A finding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    pub level: Level,
    pub diagnostic: Diagnostic,
    pub fix: String,
}

impl Finding {
    /// Creates a finding with the fix that its code has.
    pub fn new(level: Level, code: Code, message: impl Into<String>) -> Self {
        let fix = code.fix().to_owned();
        Self { level, diagnostic: Diagnostic::new(code, message), fix }
    }

    /// Sets a more specific fix.
    #[must_use]
    pub fn with_fix(mut self, fix: impl Into<String>) -> Self {
        self.fix = fix.into();
        self
    }
}

impl Serialize for Finding {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut finding = serializer.serialize_struct("Finding", 4)?;
        finding.serialize_field("level", &self.level)?;
        finding.serialize_field("code", &self.diagnostic.code)?;
        finding.serialize_field("message", &self.diagnostic.message)?;
        finding.serialize_field("fix", &self.fix)?;
        finding.end()
    }
}

pub(super) fn no_agent() -> Finding {
    Finding::new(
        Level::Problem,
        diagnostics::DOCTOR_NO_AGENT,
        "no agent on this machine can run a turn",
    )
}
