//! Imports archives: every line is checked before it is stored.

mod archive;
mod log;
mod request;
mod rows;
mod thread;

use std::io::{BufRead, Read};

use convoke_core::Diagnostic;
use convoke_core::json::has_more_values;
use convoke_protocol::event::{Event, EventKind};
use convoke_protocol::id::{Millis, SessionId};
use convoke_protocol::session::NewSession;
use serde::Deserialize;
use serde_json::Value;

use self::archive::{ArchiveReader, Texts};
pub use self::thread::{BadThread, ThreadCheck};
use super::lines::{FORMAT, Header, LAST_OF_ROWS, VERSION};
use super::{ArchiveProblem, TransferError, snapshot};
use crate::store::{Page, SessionImport, Store, StoreError};

/// The maximum size of a line: far more than a reply or the stored events of a turn. Also the maximum size of a
/// snapshot, which is held in memory whole.
const MAX_LINE_BYTES: u64 = 256 << 20;
/// The maximum number of values in a line.
const MAX_LINE_VALUES: usize = 4_000_000;

/// The limits of an import.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImportLimits {
    /// The maximum number of lines of an archive, or messages of a snapshot.
    pub rows: u64,
    /// The maximum size of all texts, each request counted in full.
    pub bytes: u64,
}

impl Default for ImportLimits {
    fn default() -> Self {
        Self { rows: 10_000_000, bytes: 16 << 30 }
    }
}

/// An imported session.
#[derive(Debug)]
pub struct ImportedSession {
    /// The id of the session: the archive's, unless the store already has a session with it.
    pub session: SessionId,
    /// The diagnostics of the import.
    pub diagnostics: Vec<Diagnostic>,
}

/// An archive or a snapshot to import.
pub struct ArchiveSource<R> {
    lines: BoundedLines<R>,
    kind: ArchiveKind,
}

enum ArchiveKind {
    Archive(Box<Header>),
    /// A log without the texts that its events refer to.
    Log(Box<Header>),
    Snapshot(String),
}

impl<R: BufRead + Send> ArchiveSource<R> {
    /// Opens a file that [`super::export`] or [`super::export_snapshot`] wrote. Only the first line of an
    /// archive is read.
    pub fn open(reader: R, limits: ImportLimits) -> Result<Self, TransferError> {
        let mut lines = BoundedLines { reader, limits, number: 0, bytes: 0, buffer: Vec::new() };
        let mut text = lines.next()?.map(|(_, line)| line.to_owned()).unwrap_or_default();
        if let Ok(Event { kind, session, at, .. }) = serde_json::from_str::<Event>(&text) {
            let header = lines.valid(log_header(kind, session, at))?;
            return Ok(Self { lines, kind: ArchiveKind::Log(Box::new(header)) });
        }
        if !is_header(&text) {
            // A snapshot is one value.
            while let Some((_, line)) = lines.next()? {
                text.push_str(line);
                text.push('\n');
                if text.len() as u64 > MAX_LINE_BYTES {
                    return lines.valid(Err(ArchiveProblem::TooLarge(MAX_LINE_BYTES)));
                }
            }
            if text.trim().is_empty() {
                return Err(TransferError::Empty);
            }
            if has_more_values(text.as_bytes(), MAX_LINE_VALUES) {
                return lines.valid(Err(ArchiveProblem::TooManyValues(MAX_LINE_VALUES)));
            }
            return Ok(Self { lines, kind: ArchiveKind::Snapshot(text) });
        }
        let header = lines.valid(read_header(&text))?;
        Ok(Self { lines, kind: ArchiveKind::Archive(Box::new(header)) })
    }

    /// Returns whether the source contains a team: an archive does, a snapshot does not.
    pub fn has_team(&self) -> bool {
        !matches!(self.kind, ArchiveKind::Snapshot(_))
    }

    /// Checks a snapshot before its team is known.
    pub fn check_snapshot(&self, new: NewSession) -> Result<(), TransferError> {
        match &self.kind {
            ArchiveKind::Archive(_) | ArchiveKind::Log(_) => Ok(()),
            ArchiveKind::Snapshot(text) => snapshot::read(text, new).map(drop),
        }
    }

    /// Stores the source as a new session, atomically. Memory: one page, and the ids and hashes of an archive.
    ///
    /// A snapshot gets the team of `new`. An archive has its own team, but gets the directory of `new`: a file
    /// must not choose where agents work. `check` validates the threads.
    pub async fn import(
        self,
        store: &impl Store,
        new: NewSession,
        check: ThreadCheck<'_>,
    ) -> Result<ImportedSession, TransferError> {
        let Self { mut lines, kind } = self;
        let (header, texts) = match kind {
            ArchiveKind::Archive(header) => (*header, Texts::Included),
            ArchiveKind::Log(header) => (*header, Texts::LeftOut),
            ArchiveKind::Snapshot(text) => {
                let snapshot::Snapshot { session, events, diagnostics } =
                    snapshot::read(&text, new)?;
                if events.len() as u64 > lines.limits.rows.saturating_add(1) {
                    return lines.valid(Err(ArchiveProblem::TooManyRows(lines.limits.rows)));
                }
                let id = session.id;
                let mut import = store.import(session).await?;
                import.write(Page { events, ..Page::default() }).await?;
                import.finish().await?;
                return Ok(ImportedSession { session: id, diagnostics });
            }
        };
        let (mut session, state) = header.into_parts();
        let written = session.id;
        session.directory = new.directory;
        match store.session(session.id).await {
            Ok(_) => session.id = new.id,
            Err(StoreError::NoSession(_)) => {}
            Err(error) => return Err(error.into()),
        }
        let id = session.id;
        let mut archive = ArchiveReader::new(&session, written, state, texts, check);
        let mut import = store.import(session).await?;
        while let Some((number, line)) = lines.next()? {
            if line.trim().is_empty() {
                continue;
            }
            let expanded = archive.add(line, number)?;
            lines.count(expanded)?;
            if let Some(page) = archive.full_page() {
                import.write(page).await?;
            }
        }
        import.write(archive.finish()?).await?;
        import.finish().await?;
        Ok(ImportedSession { session: id, diagnostics: Vec::new() })
    }
}

/// Returns the header of a log, which begins with the event that creates the session.
fn log_header(kind: EventKind, id: SessionId, at: Millis) -> Result<Header, ArchiveProblem> {
    let EventKind::Created { name, directory, team, task, rehearsal } = kind else {
        let what = "a log begins with the event that creates its session";
        return Err(ArchiveProblem::Broken(what.to_owned()));
    };
    checked(Header::new(NewSession { id, created_at: at, name, directory, team, task, rehearsal }))
}

fn is_header(line: &str) -> bool {
    #[derive(Deserialize)]
    struct Format {
        format: String,
    }
    serde_json::from_str::<Format>(line).is_ok_and(|it| it.format == FORMAT)
}

fn read_header(line: &str) -> Result<Header, ArchiveProblem> {
    let header: Value = serde_json::from_str(line)?;
    if !header["version"].as_u64().is_some_and(|found| (1..=VERSION).contains(&found)) {
        return Err(ArchiveProblem::Version(header["version"].clone()));
    }
    let header: Header = serde_json::from_value(header)?;
    if header.state.is_some() != (header.version <= LAST_OF_ROWS) {
        let what = format!("the field `state` does not belong to version {}", header.version);
        return Err(ArchiveProblem::Broken(what));
    }
    checked(header)
}

fn checked(header: Header) -> Result<Header, ArchiveProblem> {
    if let Err(error) = convoke_team::Team::parse(&header.team) {
        let problem = format!("the field `team` is not a team file: {error}");
        return Err(ArchiveProblem::Broken(problem));
    }
    archive::check_time("createdAt", header.created_at)?;
    Ok(header)
}

/// The lines of a file, within limits.
struct BoundedLines<R> {
    reader: R,
    limits: ImportLimits,
    /// The number of the line that was read last, from 1.
    number: usize,
    /// The bytes of all texts so far.
    bytes: u64,
    buffer: Vec<u8>,
}

impl<R: BufRead> BoundedLines<R> {
    /// Returns the next line and its number.
    fn next(&mut self) -> Result<Option<(usize, &str)>, TransferError> {
        self.buffer.clear();
        let limit = MAX_LINE_BYTES.min(self.limits.bytes);
        let mut limited = self.reader.by_ref().take(limit + 1);
        let read = limited.read_until(b'\n', &mut self.buffer).map_err(TransferError::Read)?;
        if read == 0 {
            return Ok(None);
        }
        self.number += 1;
        if read as u64 > limit {
            return self.valid(Err(ArchiveProblem::TooLarge(limit)));
        }
        if self.number as u64 > self.limits.rows.saturating_add(1) {
            return self.valid(Err(ArchiveProblem::TooManyRows(self.limits.rows)));
        }
        self.count(read as u64)?;
        if has_more_values(&self.buffer, MAX_LINE_VALUES) {
            return self.valid(Err(ArchiveProblem::TooManyValues(MAX_LINE_VALUES)));
        }
        match std::str::from_utf8(&self.buffer) {
            Ok(line) => Ok(Some((self.number, line.trim_end_matches(['\r', '\n'])))),
            Err(error) => {
                let problem = ArchiveProblem::Json(format!("the line is not UTF-8: {error}"));
                Err(TransferError::Invalid { line: self.number, problem })
            }
        }
    }

    /// Counts bytes against the limit.
    fn count(&mut self, bytes: u64) -> Result<(), TransferError> {
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes > self.limits.bytes {
            return self.valid(Err(ArchiveProblem::TooLarge(self.limits.bytes)));
        }
        Ok(())
    }

    /// Adds the number of the last line to a problem.
    fn valid<T>(&self, result: Result<T, ArchiveProblem>) -> Result<T, TransferError> {
        result.map_err(|problem| TransferError::Invalid { line: self.number, problem })
    }
}
