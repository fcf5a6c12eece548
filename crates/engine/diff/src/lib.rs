//! Compares two texts by lines.
//!
//! People and models choose the texts, so a comparison has a time limit. After it, the remaining parts count as
//! replaced, which is a correct difference but not the smallest.
//!
//! ```
//! use std::time::Duration;
//!
//! use convoke_diff::LineDiff;
//!
//! let diff = LineDiff::new("one\ntwo\n", "one\n2\n", Duration::from_millis(50));
//! assert_eq!((diff.added(), diff.removed()), (1, 1));
//! assert_eq!(diff.unified(3), "@@ -1,2 +1,2 @@\n one\n-two\n+2\n");
//! ```

use std::collections::HashMap;
use std::fmt::Write as _;
use std::ops::Range;
use std::time::{Duration, Instant};

use similar::algorithms::{Capture, Compact, Replace, myers};
use similar::{DiffOp, DiffTag, group_diff_ops};

/// The difference between two texts.
#[derive(Debug)]
pub struct LineDiff<'a> {
    before: Vec<&'a str>,
    after: Vec<&'a str>,
    steps: Vec<DiffOp>,
}

/// The change to a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum LineChange {
    /// The line is in both texts.
    Same,
    /// The line is only in the first text.
    Removed,
    /// The line is only in the second text.
    Added,
}

impl<'a> LineDiff<'a> {
    /// Compares two texts; a line includes its line break. O((n + m) d) for texts of n and m lines that differ
    /// in d lines, but at most `limit`.
    pub fn new(before: &'a str, after: &'a str, limit: Duration) -> Self {
        let [before, after] = [before, after].map(|text| text.split_inclusive('\n').collect());
        Self::of_lines(before, after, limit)
    }

    /// Compares two lists of lines.
    pub fn of_lines(before: Vec<&'a str>, after: Vec<&'a str>, limit: Duration) -> Self {
        let mut ids = HashMap::new();
        let mut identify = |lines: &[&'a str]| -> Vec<usize> {
            let lines = lines.iter();
            lines
                .map(|line| {
                    let next = ids.len();
                    *ids.entry(*line).or_insert(next)
                })
                .collect()
        };
        let (old, new) = (identify(&before), identify(&after));
        let (old, new) = (old.as_slice(), new.as_slice());
        let mut hook = Compact::new(Replace::new(Capture::new()), old, new);
        let (all_old, all_new) = (0..old.len(), 0..new.len());
        let deadline = Instant::now().checked_add(limit);
        let Ok(()) = myers::diff_deadline(&mut hook, old, all_old, new, all_new, deadline);
        Self { before, after, steps: hook.into_inner().into_inner().into_ops() }
    }

    /// Returns the number of added lines.
    pub fn added(&self) -> usize {
        self.changed().map(|step| step.new_range().len()).sum()
    }

    /// Returns the number of removed lines.
    pub fn removed(&self) -> usize {
        self.changed().map(|step| step.old_range().len()).sum()
    }

    fn changed(&self) -> impl Iterator<Item = &DiffOp> {
        self.steps.iter().filter(|step| step.tag() != DiffTag::Equal)
    }

    /// Returns the lines of both texts in order, removed lines before those that replace them.
    pub fn lines(&self) -> impl Iterator<Item = (LineChange, &'a str)> {
        self.steps.iter().flat_map(|step| self.lines_of(step))
    }

    fn lines_of(&self, step: &DiffOp) -> impl Iterator<Item = (LineChange, &'a str)> {
        let (old, new) = (step.old_range(), step.new_range());
        let (first, added) = match step.tag() {
            DiffTag::Equal => (LineChange::Same, 0..0),
            _ => (LineChange::Removed, new),
        };
        let first = self.before[old].iter().map(move |line| (first, *line));
        first.chain(self.after[added].iter().map(|line| (LineChange::Added, *line)))
    }

    /// Returns the number of runs of changed lines.
    pub fn hunks(&self) -> usize {
        self.changed().count()
    }

    /// Returns each run of changed lines as a unified diff, with up to `context` lines around it.
    pub fn hunk_texts(&self, context: usize) -> Vec<String> {
        let hunk = |step: &DiffOp| {
            let (old, new) = (step.old_range(), step.new_range());
            let from = old.start.saturating_sub(context);
            let to = (old.end + context).min(self.before.len());
            let (above, below) = (old.start - from, to - old.end);
            let mut text = format!(
                "@@ -{} +{} @@\n",
                span(from..to),
                span(from..from + above + new.len() + below)
            );
            let mut push = |sign: char, lines: &[&str]| {
                for line in lines {
                    text.push(sign);
                    text.push_str(line);
                    text.push_str(if line.ends_with('\n') { "" } else { "\n" });
                }
            };
            push(' ', &self.before[from..old.start]);
            push('-', &self.before[old.clone()]);
            push('+', &self.after[new]);
            push(' ', &self.before[old.end..to]);
            text
        };
        self.changed().map(hunk).collect()
    }

    /// Returns the first text with some of the hunks: those that are taken, in order.
    pub fn with_hunks(&self, takes: &[bool]) -> String {
        let mut takes = takes.iter();
        let mut text = String::new();
        for step in &self.steps {
            let is_taken = step.tag() != DiffTag::Equal && *takes.next().unwrap_or(&false);
            let lines = if is_taken {
                &self.after[step.new_range()]
            } else {
                &self.before[step.old_range()]
            };
            text.extend(lines.iter().copied());
        }
        text
    }

    /// Returns the changes as a unified diff without names, each with up to `context` lines around it. Equal
    /// texts give an empty diff.
    pub fn unified(&self, context: usize) -> String {
        let mut text = String::new();
        for hunk in group_diff_ops(self.steps.clone(), context) {
            let (Some(first), Some(last)) = (hunk.first(), hunk.last()) else { continue };
            let old = span(first.old_range().start..last.old_range().end);
            let new = span(first.new_range().start..last.new_range().end);
            let _ = writeln!(text, "@@ -{old} +{new} @@");
            for (change, line) in hunk.iter().flat_map(|step| self.lines_of(step)) {
                text.push(match change {
                    LineChange::Same => ' ',
                    LineChange::Removed => '-',
                    LineChange::Added => '+',
                });
                text.push_str(line);
                if !line.ends_with('\n') {
                    text.push_str("\n\\ No newline at end of file\n");
                }
            }
        }
        text
    }
}

/// Formats a range of lines like a unified diff: counted from 1, and an empty range by the line before it.
fn span(lines: Range<usize>) -> String {
    match lines.len() {
        1 => (lines.start + 1).to_string(),
        0 => format!("{},0", lines.start),
        many => format!("{},{many}", lines.start + 1),
    }
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LIMIT: Duration = Duration::from_mins(1);

    #[test]
    fn some_hunks_of_a_difference_are_taken() {
        let diff = LineDiff::new("a\nb\nc\nd\ne\n", "a\nB\nc\nd\nE\nf\n", LIMIT);
        assert_eq!(diff.hunks(), 2);
        let texts = diff.hunk_texts(1);
        assert_eq!(texts[0], "@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n");
        assert_eq!(diff.with_hunks(&[true, false]), "a\nB\nc\nd\ne\n");
        assert_eq!(diff.with_hunks(&[false, true]), "a\nb\nc\nd\nE\nf\n");
        assert_eq!(diff.with_hunks(&[true, true]), "a\nB\nc\nd\nE\nf\n");
    }

    #[test]
    fn a_diff_reads_as_git_writes_it() {
        let cases = [
            ("", "", ""),
            ("a\n", "a\n", ""),
            ("", "a\n", "@@ -0,0 +1 @@\n+a\n"),
            ("a\nb\n", "", "@@ -1,2 +0,0 @@\n-a\n-b\n"),
            ("a\n", "a", "@@ -1 +1 @@\n-a\n+a\n\\ No newline at end of file\n"),
            (
                "1\n2\n3\n4\n5\n6\n7\n8\n9\n",
                "1\nx\n3\n4\n5\n6\n7\n8\n",
                "@@ -1,3 +1,3 @@\n 1\n-2\n+x\n 3\n@@ -8,2 +8 @@\n 8\n-9\n",
            ),
        ];
        for (before, after, expected) in cases {
            assert_eq!(LineDiff::new(before, after, LIMIT).unified(1), expected, "{before:?}");
        }
    }

    #[test]
    fn a_comparison_without_time_is_correct() {
        let [before, after] = [2, 3].map(|step| {
            let lines: Vec<String> = (0..2000).map(|line| (line * step % 7).to_string()).collect();
            lines.join("\n")
        });
        let diff = LineDiff::new(&before, &after, Duration::ZERO);
        assert_eq!(sides(&diff), [before.clone(), after.clone()]);
    }

    fn sides(diff: &LineDiff<'_>) -> [String; 2] {
        [LineChange::Removed, LineChange::Added].map(|side| {
            let lines =
                diff.lines().filter(|(change, _)| [side, LineChange::Same].contains(change));
            lines.map(|(_, line)| line).collect()
        })
    }

    proptest! {
        #[test]
        fn a_diff_holds_both_texts(before in "[ab\n]{0,40}", after in "[ab\n]{0,40}") {
            let diff = LineDiff::new(&before, &after, LIMIT);
            let lines = |text: &str| text.split_inclusive('\n').count();
            prop_assert_eq!(lines(&before) - diff.removed(), lines(&after) - diff.added());
            prop_assert_eq!(sides(&diff), [before, after]);
        }
    }
}
