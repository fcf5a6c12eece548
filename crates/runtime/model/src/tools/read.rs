//! `read_file`.

use std::fmt::Write as _;

use serde::Deserialize;

use super::confine::{Root, Target};
use super::{ToolError, lenient_number};

/// The default number of lines.
const USUAL_LINES: usize = 500;

#[derive(Deserialize)]
pub(super) struct Arguments {
    path: String,
    #[serde(default, deserialize_with = "lenient_number")]
    first_line: Option<usize>,
    #[serde(default, deserialize_with = "lenient_number")]
    line_count: Option<usize>,
}

pub(super) fn run(root: &Root, given: &Arguments, room: usize) -> Result<String, ToolError> {
    let text = match root.find(&given.path)? {
        Target::File(directory, name) => directory.read_text(&name)?,
        Target::Directory(_) => {
            let path = &given.path;
            return Err(ToolError::new(format!("`{path}` is a directory; list it instead")));
        }
    };
    if text.is_empty() {
        return Ok("the file is empty".to_owned());
    }
    let first = given.first_line.unwrap_or(1).max(1);
    let total = text.lines().count();
    if first > total {
        return Err(ToolError::new(format!("`{}` has {total} lines", given.path)));
    }
    let lines = text.split_inclusive('\n').skip(first - 1);
    let mut shown = String::new();
    let mut count = 0;
    for line in lines.take(given.line_count.unwrap_or(USUAL_LINES).max(1)) {
        if shown.len() + line.len() > room {
            // A first line over the limit is cut.
            if shown.is_empty() {
                shown.push_str(&line[..line.floor_char_boundary(room)]);
                shown.push_str("[… line cut]\n");
                count = 1;
            }
            break;
        }
        shown.push_str(line);
        count += 1;
    }
    let last = first + count - 1;
    if last < total || first > 1 {
        if !shown.ends_with('\n') {
            shown.push('\n');
        }
        let _ = write!(shown, "[lines {first} to {last} of {total}]");
    }
    Ok(shown)
}
