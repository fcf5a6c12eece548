//! Who wrote each line of a file, as far as turns are recorded.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use convoke_diff::{LineChange, LineDiff};
use convoke_files::limit::FileKind;
use convoke_files::{Disk, Files as _};

use crate::change::{Change, Content, Node, Oid, change_at, listed};
use crate::content::blob;
use crate::error::ChangesError;
use crate::record::Record;
use crate::store::Changes;
use crate::tree_path::TreePath;

/// Files over this size are not blamed.
const MAX_BYTES: u64 = 2 << 20;
/// The time after which a difference is approximated.
const DIFF_TIME: Duration = Duration::from_secs(2);

/// A line of a file with its author.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlamedLine {
    /// The text, without the line break.
    pub text: String,
    pub origin: Origin,
}

/// Where a line comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// It was there before the first recorded change.
    Before,
    /// A change wrote it: this one of the records.
    Record(usize),
    /// It was written since the last recorded change.
    Since,
}

/// The lines of a file at some moment.
type Lines = Vec<(String, Origin)>;

impl Changes {
    /// Returns the lines of a file as it is now. `records` are those of a session.
    pub fn blame(
        &self,
        records: &[Record],
        directory: &Path,
        path: &TreePath,
    ) -> Result<Vec<BlamedLine>, ChangesError> {
        let steps = history(records, directory, path);
        let mut oids: Vec<Oid> = steps.iter().flat_map(|(_, it)| contents(it)).collect();
        oids.sort_unstable();
        oids.dedup();
        let texts = self.contents(directory, &oids, MAX_BYTES)?;
        let text = |node: &Option<Node>| {
            let oid = node.as_ref().and_then(Node::content).and_then(Content::stored)?;
            Some((oid, String::from_utf8_lossy(texts.get(&oid)?).into_owned()))
        };
        let mut lines = Lines::new();
        // What an undo brings back was written by whoever wrote it first.
        let mut known: HashMap<Oid, Lines> = HashMap::new();
        for (record, change) in steps {
            let (before, after) = (text(&change.before), text(&change.after));
            if let Some((_, before)) = &before {
                lines = rewritten(&lines, before, Origin::Before);
            }
            known.extend(before.map(|(oid, _)| (oid, lines.clone())));
            let Some((oid, after)) = after else {
                lines.clear();
                continue;
            };
            lines = match known.get(&oid) {
                Some(lines) => lines.clone(),
                None => rewritten(&lines, &after, Origin::Record(record)),
            };
            known.insert(oid, lines.clone());
        }
        let now = current(directory, path)?;
        lines = match known.remove(&blob(now.as_bytes())) {
            Some(lines) => lines,
            None => rewritten(&lines, &now, Origin::Since),
        };
        let line = |(text, origin): (String, Origin)| {
            let text = text.strip_suffix('\n').unwrap_or(&text).to_owned();
            BlamedLine { text, origin }
        };
        Ok(lines.into_iter().map(line).collect())
    }
}

/// Returns the changes of a file, the oldest first, also those that it had under other names.
fn history<'r>(
    records: &'r [Record],
    directory: &Path,
    path: &TreePath,
) -> Vec<(usize, &'r Change)> {
    let mut path = path.clone();
    let mut found = Vec::new();
    for (number, record) in records.iter().enumerate().rev() {
        if record.directory != directory {
            continue;
        }
        let Some(change) = change_at(&record.changes, &path) else { continue };
        let moved = listed(&record.changes).into_iter().find(|it| it.change.path == path);
        match moved.and_then(|it| it.from) {
            Some(from) => path = from.path.clone(),
            None => found.push((number, change)),
        }
    }
    found.reverse();
    found
}

fn contents(change: &Change) -> impl Iterator<Item = Oid> {
    let nodes = [&change.before, &change.after].into_iter().flatten();
    let nodes = nodes.filter(|node| node.size() <= MAX_BYTES);
    nodes.filter_map(|node| node.content()?.stored())
}

/// Reads the file as it is now.
fn current(directory: &Path, path: &TreePath) -> Result<String, ChangesError> {
    let at = path.under(directory);
    let metadata = fs::symlink_metadata(&at).map_err(ChangesError::io(&at))?;
    if !metadata.is_file() {
        return Err(ChangesError::Unblamable { path: path.clone(), why: "it is no file" });
    }
    if metadata.len() > MAX_BYTES {
        return Err(ChangesError::Unblamable { path: path.clone(), why: "it is over 2 MiB" });
    }
    let bytes = Disk.read(&at, FileKind::Record).map_err(ChangesError::io(&at))?;
    if bytes.contains(&0) {
        return Err(ChangesError::Unblamable { path: path.clone(), why: "it is not text" });
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Returns the lines of a new text: those that stay keep their origin.
fn rewritten(lines: &Lines, text: &str, origin: Origin) -> Lines {
    let before: Vec<&str> = lines.iter().map(|(line, _)| line.as_str()).collect();
    let diff = LineDiff::of_lines(before, text.split_inclusive('\n').collect(), DIFF_TIME);
    let mut old = lines.iter();
    let mut new = Lines::new();
    for (change, line) in diff.lines() {
        match change {
            LineChange::Same => new.extend(old.next().cloned()),
            LineChange::Removed => drop(old.next()),
            LineChange::Added => new.push((line.to_owned(), origin)),
        }
    }
    new
}
