//! Findings, and whether the change has what they name.

use serde::{Deserialize, Serialize};

use crate::answer::Severity;
use crate::change::{Change, FileChange};

/// What a reviewer found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Finding {
    /// The path from the root of the repository.
    pub file: String,
    /// The line of the file as it is now; of a deleted file, as it was.
    pub line: u64,
    pub severity: Severity,
    pub claim: String,
    pub evidence: String,
    pub suggestion: String,
}

/// A finding, and why it does not count, if it does not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckedFinding {
    pub finding: Finding,
    pub problem: Option<Problem>,
}

/// Why a finding does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Problem {
    /// The file is not part of the change.
    FileNotChanged,
    /// The line is not among the changed lines and those around them.
    OutsideDiff,
    /// The code that it quotes is not in the file.
    CodeNotFound,
}

impl Problem {
    /// Describes the problem.
    pub const fn text(self) -> &'static str {
        match self {
            Self::FileNotChanged => "the file is not part of the change",
            Self::OutsideDiff => "the line is outside of the change",
            Self::CodeNotFound => "the quoted code is not in the file",
        }
    }
}

impl CheckedFinding {
    /// Checks a finding against the change.
    pub fn new(finding: Finding, change: &Change) -> Self {
        let problem = match change.file(&finding.file) {
            None => Some(Problem::FileNotChanged),
            Some(file) if !has_line(file, finding.line) => Some(Problem::OutsideDiff),
            Some(file) if !has_code(file, &finding.evidence) => Some(Problem::CodeNotFound),
            Some(_) => None,
        };
        Self { finding, problem }
    }

    /// Returns whether it counts.
    pub const fn counts(&self) -> bool {
        self.problem.is_none()
    }
}

/// Returns whether a line is in a hunk. Of a file that is no text, every line may be meant.
fn has_line(file: &FileChange, line: u64) -> bool {
    if file.opaque.is_some() || file.hunks.is_empty() {
        return true;
    }
    file.hunks.iter().any(|hunk| {
        let range = if file.after.is_none() { &hunk.before } else { &hunk.after };
        // Where lines were removed at the end of a file, the last line stands for them.
        range.contains(&line) || range.is_empty() && range.start.saturating_sub(1) == line
    })
}

/// Returns whether the code that a text quotes is in a file, now or before. A text that quotes no code says nothing about it.
fn has_code(file: &FileChange, evidence: &str) -> bool {
    let quoted = quoted_code(evidence);
    if file.opaque.is_some() || quoted.is_empty() {
        return true;
    }
    let texts = [&file.before, &file.after].map(|text| squeezed(text.as_deref().unwrap_or("")));
    quoted.iter().any(|code| texts.iter().any(|text| text.contains(code.as_str())))
}

/// Returns the code in a text without white space: what stands in backticks, else the whole text if it is nothing but code.
fn quoted_code(evidence: &str) -> Vec<String> {
    let in_backticks: Vec<String> = evidence
        .split('`')
        .skip(1)
        .step_by(2)
        .map(squeezed)
        .filter(|code| code.len() >= MIN_CODE)
        .collect();
    if !in_backticks.is_empty() {
        return in_backticks;
    }
    let looks_like_code = CODE_MARKS.iter().any(|mark| evidence.contains(mark));
    if !looks_like_code || has_prose(evidence) {
        return Vec::new();
    }
    let lines = evidence.lines().map(|line| {
        // A line that is copied from a diff has its mark.
        line.strip_prefix(['+', '-']).unwrap_or(line)
    });
    let code = squeezed(&lines.collect::<String>());
    if code.len() >= MIN_CODE { vec![code] } else { Vec::new() }
}

/// Shorter code is in many files.
const MIN_CODE: usize = 4;
const CODE_MARKS: [&str; 10] = [";", "{", "}", "()", " = ", "==", "=>", "->", "::", "("];
/// So many plain words in a row are a sentence.
const SENTENCE: usize = 4;

fn has_prose(text: &str) -> bool {
    let mut words = 0;
    for word in text.split_whitespace() {
        let is_plain = word.trim_end_matches([',', '.']).chars().all(char::is_alphabetic);
        words = if is_plain { words + 1 } else { 0 };
        if words >= SENTENCE {
            return true;
        }
    }
    false
}

fn squeezed(text: &str) -> String {
    text.chars().filter(|it| !it.is_whitespace()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_counts_only_if_the_change_has_its_line_and_its_code() {
        let lines: Vec<String> = (1..=40).map(|line| format!("let v{line} = {line};\n")).collect();
        let before = lines.concat();
        let after = before.replace("let v20 = 20;", "let v20 = read(path).unwrap();");
        let change = Change::of_texts([
            ("src/a.rs", Some(&*before), Some(&*after)),
            ("gone.rs", Some("fn old() {}\n"), None),
        ]);
        let cases = [
            ("src/a.rs", 20, "let v20 = read(path).unwrap();", None),
            ("./src/a.rs", 18, "", None),
            ("src/a.rs", 20, "`read(path).unwrap()` panics", None),
            ("src/a.rs", 20, "it panics if the file is missing (see above)", None),
            ("src/a.rs", 20, "+let v20 =\n+    read(path).unwrap();", None),
            ("src/a.rs", 20, "let v20 = 20;", None),
            ("gone.rs", 1, "fn old() {}", None),
            ("src/a.rs", 30, "", Some(Problem::OutsideDiff)),
            ("src/a.rs", 4000, "", Some(Problem::OutsideDiff)),
            ("src/b.rs", 20, "", Some(Problem::FileNotChanged)),
            ("src/a.rs", 20, "`eval(input)` runs it", Some(Problem::CodeNotFound)),
            ("src/a.rs", 20, "exec(user_input);", Some(Problem::CodeNotFound)),
        ];
        for (file, line, evidence, expected) in cases {
            let finding = Finding {
                file: file.to_owned(),
                line,
                severity: Severity::High,
                claim: "c".to_owned(),
                evidence: evidence.to_owned(),
                suggestion: String::new(),
            };
            let checked = CheckedFinding::new(finding, &change);
            assert_eq!(checked.problem, expected, "{file}:{line} {evidence}");
        }
    }
}
