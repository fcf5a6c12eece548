//! `list_files`.

use std::fmt::Write as _;

use serde::Deserialize;

use super::Refusal;
use super::confine::Root;

/// More entries than this are counted and left out.
const MOST_ENTRIES: usize = 1000;

#[derive(Deserialize)]
pub(super) struct Arguments {
    #[serde(default)]
    path: String,
}

pub(super) fn run(root: &Root, given: &Arguments, room: usize) -> Result<String, Refusal> {
    let directory = root.resolve(&given.path)?;
    let failed = |error: std::io::Error| Refusal::io(&given.path, &error);
    let mut names = Vec::new();
    for entry in std::fs::read_dir(&directory).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let mut name = entry.file_name().to_string_lossy().into_owned();
        let kind = entry.file_type().map_err(failed)?;
        if kind.is_dir() {
            name.push('/');
        } else if kind.is_symlink() {
            name.push('@');
        }
        names.push(name);
    }
    if names.is_empty() {
        return Ok("the directory is empty".to_owned());
    }
    names.sort_unstable();
    let mut bytes = 0;
    let fits = |name: &&String| {
        bytes += name.len() + 1;
        bytes <= room
    };
    let shown = names.iter().take(MOST_ENTRIES).take_while(fits).count();
    let left_out = names.len() - shown;
    names.truncate(shown);
    let mut text = names.join("\n");
    if left_out > 0 {
        let _ = write!(text, "\n[… {left_out} more entries]");
    }
    Ok(text)
}
