//! Export, import and fork of whole sessions, page by page.
//!
//! An archive is JSON lines: a header, then the events of the log and the texts that they refer to, and the
//! threads of models with every request. Archives are untrusted input: every line is checked, and an
//! inconsistent archive stores nothing.

mod copy;
mod export;
mod fork;
mod import;
mod lines;
mod pages;
mod snapshot;
#[cfg(test)]
mod tests;

use std::io::{self, Write};

use convoke_protocol::id::{MessageNumber, Millis, SessionId};
use convoke_protocol::session::NewSession;
use serde_json::Value;

pub use self::copy::{CopiedSession, copy};
pub use self::export::{export, export_log};
pub use self::fork::fork;
pub use self::import::{ArchiveSource, BadThread, ImportLimits, ImportedSession, ThreadCheck};
use crate::store::{Store, StoreError};

/// An error of an export, import, copy or fork.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TransferError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The output failed.
    #[error("cannot write the session: {0}")]
    Io(#[from] io::Error),
    /// The input failed.
    #[error("cannot read the session: {0}")]
    Read(#[source] io::Error),
    /// The input is empty.
    #[error("the file is empty")]
    Empty,
    /// The input is not a valid archive.
    #[error("line {line}: {problem}")]
    Invalid {
        /// The 1-based line.
        line: usize,
        problem: ArchiveProblem,
    },
    /// The input is not a valid snapshot.
    #[error("{0}: {reason}", reason = .0.reason)]
    Snapshot(#[from] convoke_core::InvalidSnapshot),
    /// The other store has different contents under the session's id.
    #[error("the other store has another session {session}; it was left as it is")]
    Differs { session: SessionId },
    /// There is no such message to fork at.
    #[error("there is no message {0} to fork at")]
    NoMessage(MessageNumber),
}

/// A problem of an archive.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ArchiveProblem {
    /// The line is not JSON of the expected form.
    #[error("{0}")]
    Json(String),
    /// The archive has another version.
    #[error(
        "the file has version {0}, and this version of Convoke reads up to version {newest}",
        newest = lines::VERSION
    )]
    Version(Value),
    /// The lines are inconsistent.
    #[error("{0}")]
    Broken(String),
    /// The archive has more lines than the limit allows.
    #[error("the session has more than {0} rows, the limit of an import")]
    TooManyRows(u64),
    /// The texts of the archive are larger than the limit allows.
    #[error(
        "the session is larger than {0} bytes, the limit of an import, with its requests in full"
    )]
    TooLarge(u64),
    /// A line has more values than the limit allows.
    #[error("the line has more than {0} values, the limit of an import")]
    TooManyValues(usize),
}

impl From<serde_json::Error> for ArchiveProblem {
    fn from(error: serde_json::Error) -> Self {
        Self::Json(error.to_string())
    }
}

impl From<(usize, ArchiveProblem)> for TransferError {
    fn from((line, problem): (usize, ArchiveProblem)) -> Self {
        Self::Invalid { line, problem }
    }
}

/// Writes the conversation as a snapshot (002, version 1) with the given time.
pub async fn export_snapshot(
    store: &impl Store,
    session: SessionId,
    at: Millis,
    out: &mut (impl Write + Send),
) -> Result<(), TransferError> {
    snapshot::write(store, session, at, out).await
}

/// Imports an archive or a snapshot within the usual limits. See [`ArchiveSource::import`].
pub async fn import(
    store: &impl Store,
    text: impl io::BufRead + Send,
    new: NewSession,
    check: ThreadCheck<'_>,
) -> Result<ImportedSession, TransferError> {
    ArchiveSource::open(text, ImportLimits::default())?.import(store, new, check).await
}
