//! The changes of several turns as one: a line for each file.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use convoke_changes::{Change, Changes, FileDiff, LineCounts, Record, TreePath, joined};
use convoke_core::figures::count;

use super::paths::names;
use crate::terminal::{Paint, stdout};

/// The columns of a bar.
const BAR: u64 = 40;

/// The changes from the first state of a directory to the last.
pub(super) struct Net {
    pub(super) directory: PathBuf,
    pub(super) files: Vec<FileDiff>,
}

/// Returns the changes that records made together, of some paths, by directory.
pub(super) fn net(
    changes: &Changes,
    records: &[Record],
    paths: &[TreePath],
) -> anyhow::Result<Vec<Net>> {
    let mut directories: Vec<&Path> = records.iter().map(|it| &*it.directory).collect();
    directories.sort_unstable();
    directories.dedup();
    let mut found = Vec::new();
    for directory in directories {
        let of_directory = records.iter().filter(|record| record.directory == directory);
        let mut all: Vec<Change> = joined(of_directory.map(|record| &*record.changes));
        all.retain(|change| names(paths, &change.path));
        let files = changes.diffs(directory, &all)?;
        if !files.is_empty() {
            found.push(Net { directory: directory.to_owned(), files });
        }
    }
    Ok(found)
}

/// Writes the names of changed files, one a line.
pub(super) fn write_names(all: &[Net]) -> anyhow::Result<()> {
    let mut out = stdout();
    for file in all.iter().flat_map(|net| &net.files) {
        writeln!(out, "{}", file.path)?;
    }
    Ok(())
}

/// Writes the changed files with the counts of their lines, as `git diff --stat` does.
pub(super) fn write_stat(all: &[Net]) -> anyhow::Result<()> {
    let mut out = stdout();
    let paint = Paint::for_stream(&out);
    if all.is_empty() {
        writeln!(out, "no changes are recorded")?;
    }
    for Net { directory, files } in all {
        if all.len() > 1 {
            writeln!(out, "{}", paint.strong(&directory.display().to_string()))?;
        }
        let width = files.iter().map(|file| file.path.to_string().chars().count()).max();
        let width = width.unwrap_or(0);
        let lines = |file: &FileDiff| file.lines.map_or(0, |it| it.added + it.removed);
        let most = files.iter().map(lines).max().unwrap_or(0);
        let digits = most.to_string().len();
        let mut sum = LineCounts::default();
        for file in files {
            let path = format!("{:<width$}", file.path.to_string());
            let Some(LineCounts { added, removed }) = file.lines else {
                writeln!(out, " {path} | {:>digits$} bytes", file.bytes)?;
                continue;
            };
            sum.added += added;
            sum.removed += removed;
            let mark = |mark: &str, lines: u64| {
                let length = if most <= BAR { lines } else { (lines * BAR).div_ceil(most) };
                mark.repeat(usize::try_from(length).unwrap_or(0))
            };
            let (plus, minus) = (paint.good(&mark("+", added)), paint.bad(&mark("-", removed)));
            writeln!(out, " {path} | {:>digits$} {plus}{minus}", added + removed)?;
        }
        writeln!(
            out,
            " {} changed, {} added, {} removed",
            count(files.len() as u64, "file"),
            count(sum.added, "line"),
            count(sum.removed, "line"),
        )?;
    }
    Ok(())
}
