//! Sessions in a database.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use convoke_protocol::id::Millis;
use convoke_protocol::window::{At, Place};
use convoke_source::lines::MAX_LINE;
use convoke_source::record::{Parsed, parse};
use convoke_source::{Report, SourceError};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, ErrorCode, OpenFlags, Row, params};

use super::PROGRAM;
use super::copy::Copy;
use super::store::{MessageRow, PartRow, SessionRow, parsed};

/// The tables that are read.
const TABLES: [&str; 3] = ["session", "message", "part"];
/// The maximum number of sessions that one session started.
const MAX_TREE: i64 = 10_000;
/// The maximum size of a row, in bytes.
const MAX_ROW: i64 = 16 << 20;

const COLUMNS: &str =
    "s.id, s.parent_id, s.directory, s.title, s.version, s.time_created, s.time_updated";
/// Sessions without a parent, and all that are reached from them. What is not reached is a circle.
const REACHED: &str = "WITH RECURSIVE reached(id) AS (
    SELECT id FROM session WHERE parent_id IS NULL OR parent_id NOT IN (SELECT id FROM session)
    UNION SELECT s.id FROM session s JOIN reached ON s.parent_id = reached.id)";
const TREE: &str = "WITH RECURSIVE tree(id) AS (
    SELECT ?1 UNION SELECT s.id FROM session s JOIN tree ON s.parent_id = tree.id)";

/// A copy of a database.
#[derive(Debug)]
pub struct Database {
    connection: Connection,
    /// The database that was copied.
    path: PathBuf,
    name: Arc<str>,
    /// Removed with the connection.
    copy: Copy,
}

impl Database {
    /// Copies and opens a database.
    pub fn open(path: &Path) -> Result<Self, SourceError> {
        let copy = Copy::of(path).map_err(SourceError::read(path))?;
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(copy.path(), flags);
        let connection = connection.map_err(|error| problem(path, &error))?;
        let name = path.to_string_lossy().into();
        let database = Self { connection, path: path.to_owned(), name, copy };
        database.check()?;
        Ok(database)
    }

    fn failed(&self) -> impl Fn(rusqlite::Error) -> SourceError + '_ {
        |error| problem(&self.path, &error)
    }

    /// Checks that it has the tables that are read: no views, which could take any time.
    fn check(&self) -> Result<(), SourceError> {
        // What a schema defines is not trusted with anything but tables.
        self.connection.pragma_update(None, "trusted_schema", false).map_err(self.failed())?;
        let known =
            "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name IN (?1, ?2, ?3)
            AND sql NOT LIKE 'CREATE VIRTUAL%'";
        let number: i64 =
            self.connection.query_row(known, TABLES, |row| row.get(0)).map_err(self.failed())?;
        if number == 3 {
            return Ok(());
        }
        let problem =
            "it has not the tables session, message and part; a newer version may have written it";
        Err(SourceError::Format {
            program: PROGRAM,
            path: self.path.clone(),
            problem: problem.to_owned(),
        })
    }

    /// Returns the sessions that no other session started.
    pub fn roots(&self) -> Result<Vec<SessionRow>, SourceError> {
        let query = format!(
            "{REACHED} SELECT {COLUMNS} FROM session s WHERE s.parent_id IS NULL
            OR s.parent_id NOT IN (SELECT id FROM session) OR s.id NOT IN reached
            ORDER BY s.time_updated DESC, s.id"
        );
        let rows = || -> rusqlite::Result<Vec<SessionRow>> {
            let mut query = self.connection.prepare(&query)?;
            query.query_map([], |row| Ok(session(row)))?.collect()
        };
        rows().map_err(self.failed())
    }

    /// Returns a session and those that it started, itself first.
    pub fn tree(&self, id: &str) -> Result<Vec<SessionRow>, SourceError> {
        let query = format!(
            "{TREE} SELECT {COLUMNS} FROM session s WHERE s.id IN tree
            ORDER BY s.id <> ?1, s.time_created, s.id LIMIT ?2"
        );
        let rows = || -> rusqlite::Result<Vec<SessionRow>> {
            let mut query = self.connection.prepare(&query)?;
            query.query_map(params![id, MAX_TREE], |row| Ok(session(row)))?.collect()
        };
        rows().map_err(self.failed())
    }

    /// Visits the messages of a tree of sessions, in the order of their times.
    pub fn messages(
        &self,
        sessions: &[SessionRow],
        report: &mut Report,
        visit: &mut dyn FnMut(MessageRow, &mut Report) -> ControlFlow<()>,
    ) -> Result<(), SourceError> {
        if self.copy.is_disturbed {
            let note = "the database changed while it was copied, and its end may be missing";
            report.notes.retain(|known| known != note);
            report.notes.push(note.to_owned());
        }
        let Some(root) = sessions.first() else { return Ok(()) };
        let mut read = || {
            self.index()?;
            self.visit(&root.id, report, visit)
        };
        read().map_err(self.failed())
    }

    /// Indexes the parts of the copy by their messages, where the program has not: each message would need a pass.
    fn index(&self) -> rusqlite::Result<()> {
        let known = "SELECT count(*) FROM pragma_index_list('part') AS i
            JOIN pragma_index_info(i.name) AS c ON c.seqno = 0 WHERE c.name = 'message_id' AND NOT i.partial";
        let number: i64 = self.connection.query_row(known, [], |row| row.get(0))?;
        if number == 0 {
            self.connection.execute_batch("CREATE INDEX convoke_part ON part (message_id, id)")?;
        }
        Ok(())
    }

    fn visit(
        &self,
        root: &str,
        report: &mut Report,
        visit: &mut dyn FnMut(MessageRow, &mut Report) -> ControlFlow<()>,
    ) -> rusqlite::Result<()> {
        // Only the ids are sorted: the contents may be large.
        let mut ids = self.connection.prepare(&format!(
            "{TREE} SELECT m.rowid FROM message m WHERE m.session_id IN tree ORDER BY m.time_created, m.id"
        ))?;
        let mut message = self.connection.prepare(
            "SELECT id, session_id, time_created,
            CASE WHEN octet_length(data) <= ?2 THEN data END FROM message WHERE rowid = ?1",
        )?;
        let mut parts = self.connection.prepare(
            "SELECT id, CASE WHEN octet_length(data) <= ?2 THEN data END FROM part
            WHERE message_id = ?1 ORDER BY id",
        )?;
        let mut ids = ids.query([root])?;
        while let Some(row) = ids.next()? {
            let rowid: i64 = row.get(0)?;
            let mut found = message.query(params![rowid, MAX_ROW])?;
            let Some(row) = found.next()? else { continue };
            let id = text(row, 0);
            let place = self.place("message", &id);
            let Some(data) = parsed(json(row, 3), &place, report) else { continue };
            let mut message = MessageRow {
                session_id: text(row, 1),
                created_at: Millis(number(row, 2)),
                id,
                place,
                data,
                parts: Vec::new(),
                is_incomplete: false,
            };
            let mut rows = parts.query(params![message.id, MAX_ROW])?;
            self.parts(&mut rows, &mut message, report)?;
            if visit(message, report).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn parts(
        &self,
        rows: &mut rusqlite::Rows<'_>,
        message: &mut MessageRow,
        report: &mut Report,
    ) -> rusqlite::Result<()> {
        let mut bytes = 0;
        while let Some(row) = rows.next()? {
            let id = text(row, 0);
            let place = self.place("part", &id);
            bytes += row.get_ref(1)?.as_bytes_or_null().ok().flatten().map_or(0, <[u8]>::len);
            // The parts of one message together have the limit of one.
            let json = if bytes > MAX_LINE { Parsed::TooLarge } else { json(row, 1) };
            match parsed(json, &place, report) {
                Some(data) => message.parts.push(PartRow { id, place, data }),
                None => message.is_incomplete = true,
            }
        }
        Ok(())
    }

    fn place(&self, table: &str, id: &str) -> Place {
        Place { file: self.name.clone(), at: At::Row(format!("{table}/{id}").into()) }
    }
}

/// Returns the error of a database.
fn problem(path: &Path, error: &rusqlite::Error) -> SourceError {
    let problem = match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase) => "it is not a database, or it is encrypted".to_owned(),
        Some(ErrorCode::DatabaseCorrupt) => format!("the database is damaged ({error})"),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            "another process has locked the database; try again".to_owned()
        }
        Some(ErrorCode::Unknown) | None => {
            format!("its tables have another form; a newer version may have written it ({error})")
        }
        Some(_) => format!("the database cannot be read ({error})"),
    };
    SourceError::Format { program: PROGRAM, path: path.to_owned(), problem }
}

fn session(row: &Row<'_>) -> SessionRow {
    SessionRow {
        id: text(row, 0),
        parent: Some(text(row, 1)).filter(|parent| !parent.is_empty()),
        directory: text(row, 2),
        title: text(row, 3),
        version: text(row, 4),
        created_at: Millis(number(row, 5)),
        updated_at: Millis(number(row, 6)),
        file: None,
    }
}

/// Returns a column as text, whatever its type.
fn text(row: &Row<'_>, column: usize) -> String {
    match row.get_ref(column) {
        Ok(ValueRef::Text(bytes) | ValueRef::Blob(bytes)) => {
            String::from_utf8_lossy(bytes).into_owned()
        }
        Ok(ValueRef::Integer(number)) => number.to_string(),
        _ => String::new(),
    }
}

fn number(row: &Row<'_>, column: usize) -> i64 {
    match row.get_ref(column) {
        Ok(ValueRef::Integer(number)) => number,
        #[expect(clippy::cast_possible_truncation, reason = "a float saturates")]
        Ok(ValueRef::Real(number)) => number as i64,
        _ => 0,
    }
}

/// Parses a column; one that was left out is too large.
fn json(row: &Row<'_>, column: usize) -> Parsed {
    match row.get_ref(column) {
        Ok(ValueRef::Text(bytes) | ValueRef::Blob(bytes)) => parse(bytes),
        Ok(ValueRef::Null) => Parsed::TooLarge,
        _ => parse(b""),
    }
}
