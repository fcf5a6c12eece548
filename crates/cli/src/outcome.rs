//! Outcomes of commands and their exit codes.

use std::io::Write as _;
use std::process::ExitCode;

use convoke_redact::Redactor;
use convoke_session::{CoordinatorError, StoreError};

use crate::conversation::home::Home;
use crate::conversation::project::TeamFileReport;
use crate::host_environment;
use crate::terminal::{stderr, stdout};

/// The outcome of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The command succeeded.
    Done,
    /// The command failed, and its output says why.
    Failed,
    /// A diagnostic named by `--deny` was given.
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

/// Prints an error and returns its exit code.
pub fn report(error: &anyhow::Error) -> ExitCode {
    if let Some(report) = error.downcast_ref::<TeamFileReport>() {
        let text = Redactor::default().redact(&report.to_string()).into_owned();
        let _ = writeln!(stderr(), "{text}");
        return ExitCode::from(2);
    }
    let text = format!("{}{}", explained(error), database_location(error));
    let _ = writeln!(stderr(), "convoke: {text}");
    if let Some(hint) = error.downcast_ref::<CoordinatorError>().and_then(CoordinatorError::hint) {
        let _ = writeln!(stderr(), "hint: {hint}");
    }
    ExitCode::from(if error.is::<UsageError>() { 2 } else { 1 })
}

/// Prints help, the version or a usage error, and returns the exit code.
pub fn show_usage(usage: &clap::Error) -> ExitCode {
    let mut screen = if usage.use_stderr() { stderr() } else { stdout() };
    let shown = write!(screen, "{}", usage.render());
    let is_done = usage.exit_code() == 0 && shown.is_ok();
    if is_done { ExitCode::SUCCESS } else { ExitCode::from(2) }
}

/// Returns the text of an error with those causes that add information.
fn explained(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if text.is_empty() {
            text = cause;
        } else if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

/// Returns the path of the database if it failed: its own errors do not name it.
fn database_location(error: &anyhow::Error) -> String {
    match host_environment::of_process() {
        Ok(host_environment) if is_database_error(error) && !is_of_server(error) => {
            let file = Home::new(&host_environment).data.join("sessions.db");
            format!(
                "; sessions are stored in {}: if the disk is full, free some space and resume the session; \
                 if the file is damaged, move it away or restore a backup",
                file.display()
            )
        }
        _ => String::new(),
    }
}

/// Returns whether the database caused an error.
fn is_database_error(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        let in_conversation = match cause.downcast_ref() {
            Some(CoordinatorError::Store(error)) => Some(error),
            _ => None,
        };
        let store = in_conversation.or_else(|| cause.downcast_ref());
        matches!(store, Some(StoreError::Database(_)))
    })
}

/// Returns whether the database is a server, not a file.
fn is_of_server(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        let in_conversation = match cause.downcast_ref() {
            Some(CoordinatorError::Store(error)) => Some(error),
            _ => None,
        };
        let store: Option<&StoreError> = in_conversation.or_else(|| cause.downcast_ref());
        store.is_some_and(StoreError::is_of_server)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_of_the_database_is_recognised_behind_other_errors() {
        let failed = || StoreError::Database("the disk is full".into());
        assert!(is_database_error(&failed().into()));
        assert!(is_database_error(&CoordinatorError::Store(failed()).into()));
        assert!(is_database_error(&anyhow::Error::from(failed()).context("cannot begin")));
        assert!(!is_database_error(&anyhow::anyhow!("no such file")));
    }

    #[test]
    fn a_cause_that_the_error_contains_is_not_repeated() {
        let error = std::io::Error::other("the disk is full");
        let error = StoreError::Io { path: "/x/y".into(), source: error };
        let error = anyhow::Error::from(error).context("cannot begin");
        assert_eq!(explained(&error), "cannot begin: /x/y: the disk is full");
        let error = anyhow::anyhow!("no such file").context("cannot read a");
        assert_eq!(explained(&error), "cannot read a: no such file");
    }
}
