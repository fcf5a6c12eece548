//! Files of sessions: their sizes and times, and reading them line by line.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use convoke_protocol::id::Millis;
use convoke_protocol::window::Place;

use crate::lines::{Line, Lines};
use crate::{FoundSession, Report, SourceError};

/// Returns a session of one file.
pub fn found(
    program: &'static str,
    id: String,
    path: &Path,
    cwd: Option<String>,
) -> Result<FoundSession, SourceError> {
    let metadata = fs::metadata(path).map_err(SourceError::read(path))?;
    let changed = metadata.modified().ok().and_then(|it| it.duration_since(UNIX_EPOCH).ok());
    let changed = changed.and_then(|it| i64::try_from(it.as_millis()).ok());
    Ok(FoundSession {
        program,
        id,
        path: path.to_owned(),
        files: vec![path.to_owned()],
        cwd,
        changed_at: Millis(changed.unwrap_or(0)),
        bytes: metadata.len(),
        parent: None,
    })
}

/// Returns the directories in a directory, in the order of their names; none if there is no such directory.
pub fn directories(path: &Path) -> Result<Vec<PathBuf>, SourceError> {
    entries(path, fs::FileType::is_dir)
}

/// Returns the regular files in a directory, in the order of their names; none if there is no such directory.
pub fn regular(path: &Path) -> Result<Vec<PathBuf>, SourceError> {
    entries(path, fs::FileType::is_file)
}

fn entries(path: &Path, is_it: fn(&fs::FileType) -> bool) -> Result<Vec<PathBuf>, SourceError> {
    if !path.exists() {
        return Ok(Vec::new());
    }
    let entries = fs::read_dir(path).map_err(SourceError::read(path))?;
    let entries = entries.filter_map(Result::ok);
    let found = entries.filter(|entry| entry.file_type().is_ok_and(|kind| is_it(&kind)));
    let mut paths: Vec<PathBuf> = found.map(|entry| entry.path()).collect();
    paths.sort();
    Ok(paths)
}

/// Takes a line, or a line that cannot be read. Returns whether it wants more.
pub type TakeLine<'t> = dyn FnMut(Place, Option<&[u8]>, &mut Report) -> bool + 't;

/// Hands the new lines of a file to a function, until that returns `false`. A line that cannot be read is handed as `None`.
pub fn each_line(
    lines: &mut Lines,
    report: &mut Report,
    take: &mut TakeLine<'_>,
) -> Result<(), SourceError> {
    let path = lines.path().to_owned();
    let file = lines.place(0).file;
    loop {
        let place =
            |number| Place { file: file.clone(), at: convoke_protocol::window::At::Line(number) };
        let goes_on = match lines.next().map_err(SourceError::read(&path))? {
            Line::Complete { bytes: b"", .. } => true,
            Line::Complete { number, bytes } => {
                report.records += 1;
                take(place(number), Some(bytes), report)
            }
            Line::TooLarge { number } => {
                report.too_large += 1;
                take(place(number), None, report)
            }
            Line::End { is_torn } => {
                report.is_torn |= is_torn;
                false
            }
        };
        if !goes_on {
            return Ok(());
        }
    }
}
