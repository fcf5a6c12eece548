//! The read tools of models, over a directory on disk.

use std::fs;

use convoke_files::FileKind;
use convoke_model::tools::Toolbox;

use super::{KIB, least, repeated, row};

/// The number of runs of which a figure is the best.
const RUNS: usize = 5;

/// Prints the rows of `search_text`.
pub(super) fn rows() {
    let limit = usize::try_from(FileKind::Gitignore.limit()).unwrap_or(usize::MAX);
    let patterns = [
        ("names in `.gitignore`", "name\n"),
        ("globs in `.gitignore`", "*a*b\n"),
        ("exceptions in `.gitignore`", "!x/**/y\n"),
    ];
    for (input, pattern) in patterns {
        row(["`search_text`", input], (limit / 8).min(64 * KIB), limit, |bytes| {
            searched(&repeated(pattern, bytes))
        });
    }
}

/// Returns the time of a search in a directory of a hundred files.
fn searched(gitignore: &str) -> f64 {
    let Ok(directory) = tempfile::tempdir() else { return f64::NAN };
    let write = |name: &str, text: &str| fs::write(directory.path().join(name), text);
    let files = (0..100).map(|number| write(&format!("{number}.txt"), "a line of text\n"));
    if files.chain([write(".gitignore", gitignore)]).any(|written| written.is_err()) {
        return f64::NAN;
    }
    let Ok(tools) = Toolbox::open(directory.path()) else { return f64::NAN };
    least(RUNS, || drop(tools.run("search_text", r#"{"text": "nowhere"}"#)))
}
