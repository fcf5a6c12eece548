//! How a command ends, and the exit code that says so.

use std::process::ExitCode;

use crate::terminal::shown_on;

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The work is done.
    Done,
    /// The work failed, and the output says how.
    Failed,
    /// A diagnostic that the user denied was given.
    Denied,
}

impl From<Outcome> for ExitCode {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Done => ExitCode::SUCCESS,
            Outcome::Failed => ExitCode::from(1),
            Outcome::Denied => ExitCode::from(3),
        }
    }
}

/// Bad usage or configuration: exit code 2. Any other error is exit code 1.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct UsageError(pub String);

/// Explains an error to a person and returns its exit code.
#[expect(clippy::print_stderr, reason = "this is where errors reach the person")]
pub fn report(error: &anyhow::Error) -> ExitCode {
    let text = format!("{error:#}");
    eprintln!("convoke: {}", shown_on(&std::io::stderr(), &text));
    ExitCode::from(if error.is::<UsageError>() { 2 } else { 1 })
}
