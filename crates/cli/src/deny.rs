//! `--deny CODE`: a diagnostic that the user does not want turns into a failing exit.

use convoke_core::{Code, Diagnostic};

use crate::outcome::{Outcome, UsageError};

/// Reads the codes that were denied; an unknown one is bad usage.
pub fn parse(names: &[String]) -> Result<Vec<Code>, UsageError> {
    let codes = names.iter().map(|name| name.parse::<Code>());
    codes
        .collect::<Result<_, _>>()
        .map_err(|error| UsageError(format!("--deny: {error}")))
}

/// Says how a command ends that gave these diagnostics.
pub fn outcome(diagnostics: &[Diagnostic], denied: &[Code]) -> Outcome {
    if diagnostics
        .iter()
        .any(|diagnostic| denied.contains(&diagnostic.code))
    {
        Outcome::Denied
    } else {
        Outcome::Done
    }
}
