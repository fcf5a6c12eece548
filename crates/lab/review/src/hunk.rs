//! The pieces of a difference.

use std::ops::Range;
use std::time::Duration;

use convoke_diff::{LineChange, LineDiff};

/// The lines around a change that belong to its hunk.
const CONTEXT: usize = 3;
/// The time for the comparison of one file.
const DIFF_TIME: Duration = Duration::from_millis(500);

/// Lines that differ, with those around them. Lines are counted from 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hunk {
    pub before: Range<u64>,
    pub after: Range<u64>,
    /// The lines, each with ` `, `-` or `+` before it and a line break after it.
    pub lines: Vec<String>,
}

impl Hunk {
    /// Returns the hunk as it is written in a unified diff.
    pub fn text(&self) -> String {
        format!("{}{}", self.header(), self.lines.concat())
    }

    fn header(&self) -> String {
        let range = |lines: &Range<u64>| {
            let count = lines.end - lines.start;
            // An empty range names the line before it.
            let start = if count == 0 { lines.start - 1 } else { lines.start };
            format!("{start},{count}")
        };
        format!("@@ -{} +{} @@\n", range(&self.before), range(&self.after))
    }

    /// Splits the hunk into pieces of at most so many bytes; a longer line is a piece of its own.
    pub fn split(self, bytes: usize) -> Vec<Self> {
        if self.text().len() <= bytes {
            return vec![self];
        }
        let (mut before, mut after) = (self.before.start, self.after.start);
        let mut pieces: Vec<Self> = Vec::new();
        let mut size = usize::MAX;
        for line in self.lines {
            if size.saturating_add(line.len()) > bytes {
                let (before, after) = (before..before, after..after);
                pieces.push(Self { before, after, lines: Vec::new() });
                size = "@@ -1234567,1234567 +1234567,1234567 @@\n".len();
            }
            size += line.len();
            before += u64::from(!line.starts_with('+'));
            after += u64::from(!line.starts_with('-'));
            if let Some(piece) = pieces.last_mut() {
                piece.lines.push(line);
                piece.before.end = before;
                piece.after.end = after;
            }
        }
        pieces
    }
}

/// Returns the hunks between two texts.
pub fn hunks(before: &str, after: &str) -> Vec<Hunk> {
    let diff = LineDiff::new(before, after, DIFF_TIME);
    let lines: Vec<(LineChange, &str)> = diff.lines().collect();
    let changed = lines.iter().enumerate().filter(|(_, (change, _))| *change != LineChange::Same);
    let mut ranges: Vec<Range<usize>> = Vec::new();
    for (at, _) in changed {
        let range = at.saturating_sub(CONTEXT)..(at + CONTEXT + 1).min(lines.len());
        match ranges.last_mut() {
            Some(last) if last.end >= range.start => last.end = range.end,
            _ => ranges.push(range),
        }
    }
    let (mut at, mut old, mut new) = (0, 1, 1);
    let mut hunks = Vec::new();
    for range in ranges {
        let skipped = (range.start - at) as u64;
        (old, new) = (old + skipped, new + skipped);
        let mut hunk = Hunk { before: old..old, after: new..new, lines: Vec::new() };
        for (change, text) in &lines[range.clone()] {
            let mark = match change {
                LineChange::Same => ' ',
                LineChange::Removed => '-',
                LineChange::Added => '+',
            };
            old += u64::from(*change != LineChange::Added);
            new += u64::from(*change != LineChange::Removed);
            let end = if text.ends_with('\n') { "" } else { "\n" };
            hunk.lines.push(format!("{mark}{text}{end}"));
        }
        (hunk.before.end, hunk.after.end, at) = (old, new, range.end);
        hunks.push(hunk);
    }
    hunks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hunks_have_their_lines_and_ranges() {
        let before = (1..=30).map(|line| line.to_string() + "\n").collect::<String>();
        let after = before.replace("\n10\n", "\nten\nten and a half\n").replace("\n25\n", "\n");
        let found = hunks(&before, &after);
        let ranges: Vec<_> = found.iter().map(|it| (it.before.clone(), it.after.clone())).collect();
        assert_eq!(ranges, [(7..14, 7..15), (22..29, 23..29)]);
        assert!(found[0].text().starts_with("@@ -7,7 +7,8 @@\n 7\n 8\n 9\n-10\n+ten\n"));
        assert_eq!(hunks("", "a\n")[0].text(), "@@ -0,0 +1,1 @@\n+a\n");
        assert!(hunks("a", "a").is_empty());
    }

    #[test]
    fn a_split_hunk_has_the_same_lines_in_pieces_of_limited_size() {
        let after = (1..=100).map(|line| line.to_string() + " a line\n").collect::<String>();
        let whole = hunks("", &after).remove(0);
        let pieces = whole.clone().split(300);
        assert!(pieces.len() > 3 && pieces.iter().all(|it| it.text().len() <= 300));
        let lines: Vec<String> = pieces.iter().flat_map(|it| it.lines.clone()).collect();
        assert_eq!(lines, whole.lines);
        for pair in pieces.windows(2) {
            assert_eq!(pair[0].after.end, pair[1].after.start);
        }
        assert_eq!(pieces.last().map(|it| it.after.end), Some(101));
    }
}
