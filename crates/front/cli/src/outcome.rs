//! Outcomes of commands and their exit codes.

use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use convoke_core::name::shell_word;
use convoke_inspect::HostEnvironment;
use convoke_redact::Redactor;
use convoke_session::store::{FileFailure, ServerFailure};
use convoke_session::{CoordinatorError, StoreError};
use rustix::fs::StatVfs;

use crate::conversation::home::Home;
use crate::conversation::project::TeamFileReport;
use crate::conversation::sessions::UnknownSession;
use crate::host_environment;
use crate::program;
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
    /// The program that the command ran ended with this code.
    Exit(u8),
}

impl From<Outcome> for ExitCode {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Done => ExitCode::SUCCESS,
            Outcome::Failed => ExitCode::from(1),
            Outcome::Denied => ExitCode::from(3),
            Outcome::Exit(code) => ExitCode::from(code),
        }
    }
}

/// Bad usage or configuration: exit code 2. Any other error is exit code 1.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct UsageError(pub String);

/// The work that a command had done when its output failed.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct WorkDone(pub String);

/// Adds to a failed write what was done before it: a closed or full output must not hide it.
pub trait AfterWork<T> {
    /// Names the work, as in "the session was removed".
    fn after(self, work: impl Into<String>) -> anyhow::Result<T>;
}

impl<T, E> AfterWork<T> for Result<T, E>
where
    Self: Context<T, E>,
{
    fn after(self, work: impl Into<String>) -> anyhow::Result<T> {
        self.with_context(|| WorkDone(format!("{}, but not reported", work.into())))
    }
}

/// Prints an error and returns its exit code.
pub fn report(error: &anyhow::Error) -> ExitCode {
    if let Some(report) = error.downcast_ref::<TeamFileReport>() {
        let text = without_numbers(&Redactor::default().redact(&report.to_string()));
        let _ = writeln!(stderr(), "{text}");
        return ExitCode::from(2);
    }
    let _ = writeln!(stderr(), "convoke: {}", described(error));
    if let Some(hint) = error.downcast_ref::<CoordinatorError>().and_then(CoordinatorError::hint) {
        let _ = writeln!(stderr(), "hint: {hint}");
    }
    if let Some(hint) = held_hint(error) {
        let _ = writeln!(stderr(), "hint: {hint}");
    }
    let is_usage = error.is::<UsageError>() || error.is::<UnknownSession>();
    ExitCode::from(if is_usage { 2 } else { 1 })
}

/// Returns what to do about a session that another process has locked.
fn held_hint(error: &anyhow::Error) -> Option<String> {
    let StoreError::Held { session, .. } = any_store_error(error)? else { return None };
    let (program, store) = (program::name(), program::store_option());
    Some(format!(
        "wait until that process has ended, or end it; `{program} sessions fork {session}{store}` makes a copy to go on with"
    ))
}

/// Prints help, the version or a usage error, and returns the exit code.
pub fn show_usage(usage: &clap::Error) -> ExitCode {
    let mut screen = if usage.use_stderr() { stderr() } else { stdout() };
    let shown = write!(screen, "{}", usage.render());
    let is_done = usage.exit_code() == 0 && shown.is_ok();
    if is_done { ExitCode::SUCCESS } else { ExitCode::from(2) }
}

/// Returns an error with its causes, and what to do if the database failed.
pub fn described(error: &anyhow::Error) -> String {
    without_numbers(&format!("{}{}", explained(error), database_advice(error)))
}

/// Returns a text without the numbers of the system's errors: the words before them say the same.
fn without_numbers(text: &str) -> String {
    let mut parts = text.split(" (os error ");
    let mut shown = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let number = part.split_once(')');
        match number.filter(|(number, _)| number.bytes().all(|byte| byte.is_ascii_digit())) {
            Some((_, rest)) => shown.push_str(rest),
            None => shown.extend([" (os error ", part]),
        }
    }
    shown
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

/// Returns what to do if the database failed. The errors of a file do not name it.
fn database_advice(error: &anyhow::Error) -> String {
    let Some(store) = store_error(error) else { return String::new() };
    let Ok(host_environment) = host_environment::of_process() else { return String::new() };
    if store.is_of_server() {
        return server_advice(store.server_failure(), &host_environment);
    }
    let data = Home::new(&host_environment).data;
    // SQLite cannot tell whether every failed write met a full disk.
    let failure = match store.file_failure() {
        Some(FileFailure::Unreadable) if is_full(&data) => Some(FileFailure::Full),
        failure => failure,
    };
    let file = data.join("sessions.db");
    format!("; sessions are stored in {}{}", file.display(), advice(failure))
}

/// Returns whether the disk of a directory has no room for another page of a database and its log.
fn is_full(directory: &Path) -> bool {
    let room = |disk: StatVfs| disk.f_bavail.saturating_mul(disk.f_frsize);
    rustix::fs::statvfs(directory).is_ok_and(|disk| room(disk) < 64 << 10)
}

/// Returns what to do about a server that failed.
fn server_advice(failure: Option<ServerFailure>, host_environment: &HostEnvironment) -> String {
    let advice = match failure {
        Some(ServerFailure::Password) => match ignored_password_file(host_environment) {
            Some(ignored) => return format!("; {ignored}"),
            None => {
                "the password is wrong or missing: set CONVOKE_STORE_PASSWORD, or write it to ~/.pgpass"
            }
        },
        Some(ServerFailure::NoDatabase) => "create it with `createdb`, or name another in the URL",
        Some(ServerFailure::ReadOnly) => {
            "the database is read-only, as that of a standby server is: name the server that is written in the URL"
        }
        Some(ServerFailure::TooManyConnections) => {
            "the server has no free connection: end other programs, or raise its `max_connections`"
        }
        Some(ServerFailure::NotFound) => {
            "a file of the connection does not exist: `host=` in the URL must be the directory of the server's socket, \
             such as /run/postgresql, `port=` its port, and `sslrootcert=`, `sslcert=` and `sslkey=` must be files"
        }
        Some(ServerFailure::Refused) => "no server listens there: start it, or correct the URL",
        _ => return String::new(),
    };
    format!("; {advice}")
}

/// Returns why the user's file of passwords is ignored, if it is: others can read it.
fn ignored_password_file(host_environment: &HostEnvironment) -> Option<String> {
    let named = host_environment.variable("PGPASSFILE").map(PathBuf::from);
    let path = named.unwrap_or_else(|| host_environment.home.join(".pgpass"));
    let mode = path.metadata().ok()?.permissions().mode() & 0o777;
    let path = shell_word(&path.display().to_string());
    (mode & 0o077 != 0).then(|| {
        format!(
            "{path} is ignored, because other users can read it (its mode is {mode:04o}): run `chmod 600 {path}`"
        )
    })
}

/// Returns what to do about a file that failed.
fn advice(failure: Option<FileFailure>) -> &'static str {
    match failure {
        Some(FileFailure::Full) => ": the disk is full; free some space and resume the session",
        Some(FileFailure::Damaged) => ": the file is damaged; move it away or restore a backup",
        Some(FileFailure::Locked) => ": another program has locked the file; end it and try again",
        Some(FileFailure::ReadOnly) => ": the file cannot be written; check its permissions",
        Some(FileFailure::Unopened) => {
            ": the file cannot be opened; check its permissions and those of its directory"
        }
        Some(FileFailure::Unreadable) => {
            ": the disk could not be read or written; the messages of the system may say why"
        }
        _ => "",
    }
}

/// Returns the error of the database behind an error.
fn store_error(error: &anyhow::Error) -> Option<&StoreError> {
    any_store_error(error).filter(|store| matches!(store, StoreError::Database(_)))
}

/// Returns the error of the store behind an error.
fn any_store_error(error: &anyhow::Error) -> Option<&StoreError> {
    error.chain().find_map(|cause| match cause.downcast_ref() {
        Some(CoordinatorError::Store(error)) => Some(error),
        _ => cause.downcast_ref::<StoreError>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_of_the_database_is_recognised_behind_other_errors() {
        let failed = || StoreError::Database("it failed".into());
        let is_found = |error: anyhow::Error| store_error(&error).is_some();
        assert!(is_found(failed().into()));
        assert!(is_found(CoordinatorError::Store(failed()).into()));
        assert!(is_found(anyhow::Error::from(failed()).context("cannot begin")));
        assert!(!is_found(anyhow::anyhow!("no such file")));
    }

    #[test]
    fn errors_of_the_system_are_told_without_their_numbers() {
        let told = |text| without_numbers(text);
        assert_eq!(told("a: No such file (os error 2); b (os error 13)"), "a: No such file; b");
        assert_eq!(told("an (os error of ours)"), "an (os error of ours)");
        assert_eq!(told("cut (os error 2"), "cut (os error 2");
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
