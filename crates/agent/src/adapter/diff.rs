//! The change to a file, as a person reads it.

use std::path::Path;

use similar::TextDiff;

/// Returns a unified diff of two texts of a file.
pub(crate) fn unified(path: &Path, before: &str, after: &str) -> String {
    let name = path.display().to_string();
    let diff = TextDiff::from_lines(before, after);
    diff.unified_diff().header(&name, &name).missing_newline_hint(false).to_string()
}
