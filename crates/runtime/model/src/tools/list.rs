//! `list_files`.

use std::fmt::Write as _;
use std::io;

use serde::Deserialize;

use super::ToolError;
use super::confine::{Root, Target};
use rustix::fs::FileType;

/// The maximum number of listed entries. Further ones are counted.
const MAX_ENTRIES: usize = 1000;

#[derive(Deserialize)]
pub(super) struct Arguments {
    #[serde(default)]
    path: String,
}

pub(super) fn run(root: &Root, given: &Arguments, room: usize) -> Result<String, ToolError> {
    let failed = |error: io::Error| ToolError::io(&given.path, &error);
    let Target::Directory(directory) = root.find(&given.path)? else {
        return Err(failed(io::ErrorKind::NotADirectory.into()));
    };
    let mut names = Vec::new();
    for (name, kind) in directory.entries().map_err(failed)? {
        let mut name = name.to_string_lossy().into_owned();
        match kind {
            FileType::Directory => name.push('/'),
            FileType::Symlink => name.push('@'),
            _ => {}
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
    let shown = names.iter().take(MAX_ENTRIES).take_while(fits).count();
    let left_out = names.len() - shown;
    names.truncate(shown);
    let mut text = names.join("\n");
    if left_out > 0 {
        let _ = write!(text, "\n[… {left_out} more entries]");
    }
    Ok(text)
}
