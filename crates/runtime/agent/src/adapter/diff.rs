//! Unified diffs of files, for people.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use convoke_diff::LineDiff;

/// The maximum size of both texts that are compared. A model chooses the texts, and its question waits for the
/// result.
const COMPARED: usize = 1 << 20;
/// The time after which a difference is approximated.
const DIFF_TIME: Duration = Duration::from_millis(50);

/// Returns a unified diff of two texts of a file. Texts too long to compare are shown one after the other.
pub fn unified(path: &Path, before: &str, after: &str) -> String {
    let name = path.display().to_string();
    if before.len() + after.len() > COMPARED {
        return replaced(&name, before, after);
    }
    // Excerpts of a file may lack a final line break. It counts as a change only if exactly one of the two has
    // it.
    let is_piece = !before.ends_with('\n') && !after.ends_with('\n');
    let [before, after] = [before, after].map(|text| {
        let end = if is_piece && !text.is_empty() { "\n" } else { "" };
        format!("{text}{end}")
    });
    let changes = LineDiff::new(&before, &after, DIFF_TIME).unified(3);
    if changes.is_empty() { changes } else { format!("--- {name}\n+++ {name}\n{changes}") }
}

fn replaced(name: &str, before: &str, after: &str) -> String {
    let counts = [before, after].map(|text| text.lines().count());
    let mut diff = format!("--- {name}\n+++ {name}\n@@ -1,{} +1,{} @@\n", counts[0], counts[1]);
    for (mark, text) in [('-', before), ('+', after)] {
        for line in text.lines() {
            let _ = writeln!(diff, "{mark}{line}");
        }
    }
    diff
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_are_too_long_are_not_compared() {
        let lines = |last: &str| format!("{}{last}\n", "same\n".repeat(2000));
        let short = unified("a".as_ref(), &lines("one"), &lines("two"));
        assert_eq!(short.matches("same").count(), 3, "{short}");
        assert!(short.ends_with("-one\n+two\n"), "{short}");

        let lines = |last: &str| format!("{}{last}\n", "same\n".repeat(COMPARED / 8));
        let long = unified("a".as_ref(), &lines("one"), &lines("two"));
        assert_eq!(long.matches("same").count(), 2 * (COMPARED / 8));
        assert!(long.contains("-one\n+same\n") && long.ends_with("+two\n"));
    }
}
