//! Errors of a team file: position, message and fix.

use std::fmt::{self, Write as _};
use std::ops::Range;

use convoke_core::Code;
use unicode_width::UnicodeWidthChar as _;

use crate::diagnostics;

/// The errors of a team file, in the order of its text. There is at least one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TeamFileErrors {
    pub errors: Vec<TeamFileError>,
}

/// One error of a team file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TeamFileError {
    /// The 1-based line.
    pub line: usize,
    /// The 1-based column, in characters.
    pub column: usize,
    /// The kind of error.
    pub code: Code,
    pub message: String,
    pub fix: String,
    /// The line of the file, shortened, with a caret below the error; empty if the file has no text.
    pub excerpt: String,
}

impl TeamFileErrors {
    /// Creates the error of a file that has no text to show.
    pub fn unreadable(message: impl Into<String>, fix: impl Into<String>) -> Self {
        let error = TeamFileError {
            line: 1,
            column: 1,
            code: diagnostics::TEAM_UNREADABLE,
            message: message.into(),
            fix: fix.into(),
            excerpt: String::new(),
        };
        Self { errors: vec![error] }
    }

    /// Creates the error of a file that is not UTF-8.
    pub fn not_utf8(bytes: &[u8]) -> Self {
        let chunk = bytes.utf8_chunks().next();
        let text = chunk.as_ref().map_or("", |chunk| chunk.valid());
        let line = text.matches('\n').count() + 1;
        let column = text.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        let found = match bytes {
            [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => "UTF-16, not UTF-8".to_owned(),
            _ => match chunk.as_ref().and_then(|chunk| chunk.invalid().first()) {
                Some(byte) => format!("not UTF-8: byte 0x{byte:02X} in column {column}"),
                None => "not UTF-8".to_owned(),
            },
        };
        let mut errors = Self::unreadable(format!("the text is {found}"), "save the file as UTF-8");
        for error in &mut errors.errors {
            (error.line, error.column) = (line, column);
        }
        errors
    }

    /// Returns the full report. Each error begins with `FILE:LINE:`.
    pub fn report(&self, file: &str) -> String {
        let mut text = String::new();
        for TeamFileError { line, message, fix, excerpt, .. } in &self.errors {
            let margin = " ".repeat(line.to_string().len());
            let _ = writeln!(text, "{file}:{line}: {message}");
            if !excerpt.is_empty() {
                let (source, caret) = excerpt.split_once('\n').unwrap_or((excerpt, ""));
                let _ = writeln!(text, "{margin} |\n{line} | {source}\n{margin} | {caret}");
            }
            let _ = writeln!(text, "{margin} = fix: {fix}");
        }
        text
    }
}

impl fmt::Display for TeamFileErrors {
    /// Writes the first error as one line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(first) = self.errors.first() else {
            return f.write_str("the team file is invalid");
        };
        write!(f, "line {}: {}", first.line, first.message)?;
        if !first.message.ends_with('?') {
            write!(f, "; {}", first.fix)?;
        }
        match self.errors.len() {
            1 => Ok(()),
            2 => f.write_str(" (and 1 more error)"),
            count => write!(f, " (and {} more errors)", count - 1),
        }
    }
}

impl std::error::Error for TeamFileErrors {}

/// An error with its byte range in the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The byte range.
    pub span: Range<usize>,
    /// The kind of error.
    pub code: Code,
    pub message: String,
    pub fix: String,
}

/// The maximum number of reported errors. A file of 1 MiB can contain hundreds of thousands.
const MAX_ERRORS: usize = 1000;

/// Locates problems in a text, in order. O(text + problems · log(lines)).
pub(crate) fn locate(text: &str, mut problems: Vec<Problem>) -> Option<TeamFileErrors> {
    problems.sort_by_key(|problem| (problem.span.start, problem.span.end));
    problems.dedup();
    let left_out = problems.len().saturating_sub(MAX_ERRORS);
    problems.truncate(MAX_ERRORS);
    let lines = LineIndex::new(text);
    let mut errors: Vec<TeamFileError> = problems.into_iter().map(|it| lines.error(it)).collect();
    let last = errors.last_mut()?;
    if left_out > 0 {
        let _ = write!(last.fix, "; {left_out} more errors are not listed");
    }
    Some(TeamFileErrors { errors })
}

/// A text with an index of its lines.
pub(crate) struct LineIndex<'t> {
    pub text: &'t str,
    /// The offset at which each line starts.
    starts: Vec<usize>,
}

impl<'t> LineIndex<'t> {
    pub fn new(text: &'t str) -> Self {
        let after_breaks = text.match_indices('\n').map(|(at, _)| at + 1);
        Self { text, starts: std::iter::once(0).chain(after_breaks).collect() }
    }

    /// Returns the index of the line of an offset.
    pub fn index(&self, at: usize) -> usize {
        self.starts.partition_point(|&start| start <= at) - 1
    }

    /// Returns the offset of the start of a line, by its index.
    pub fn start(&self, index: usize) -> usize {
        self.starts[index]
    }

    /// Returns the lines without their breaks.
    pub fn all(&self) -> impl Iterator<Item = &'t str> {
        self.starts.iter().map(|&start| self.from(start))
    }

    /// Returns the rest of a line from an offset, without its break.
    pub fn from(&self, at: usize) -> &'t str {
        let next = self.starts.get(self.index(at) + 1).copied().unwrap_or(self.text.len());
        self.text[at..next].trim_end_matches(['\n', '\r'])
    }

    fn error(&self, problem: Problem) -> TeamFileError {
        let Problem { span, code, message, fix } = problem;
        let start = self.text.floor_char_boundary(span.start);
        let end = self.text.ceil_char_boundary(span.end.max(start));
        let index = self.index(start);
        let line_start = self.starts[index];
        let line = self.from(line_start);
        let from = (start - line_start).min(line.len());
        let to = (end - line_start).clamp(from, line.len());
        TeamFileError {
            line: index + 1,
            column: line[..from].chars().count() + 1,
            code,
            message,
            fix,
            excerpt: excerpt(line, from..to),
        }
    }
}

/// The maximum number of characters of a line that an excerpt shows before and after the start of an error.
const REACH: usize = 60;

/// Returns a shortened line with a caret below it. A value that may be a secret is not shown.
fn excerpt(line: &str, marked: Range<usize>) -> String {
    let shown_to = visible(line);
    let marked =
        marked.start.min(shown_to)..marked.end.min(shown_to).max(marked.start.min(shown_to));
    let before = &line[..marked.start];
    let from = before.char_indices().rev().nth(REACH - 1).map_or(0, |(at, _)| at);
    let rest = &line[marked.start..shown_to];
    let to = rest.char_indices().nth(REACH).map_or(shown_to, |(at, _)| marked.start + at);
    let (mut source, mut caret) = (String::new(), String::new());
    let mut add = |text: &str, mark: Option<char>| {
        for c in text.chars() {
            // Tabs and zero-width characters must not move the caret.
            let (c, width) = match c.width() {
                Some(width) if width > 0 => (c, width),
                _ => (if c.is_whitespace() { ' ' } else { '\u{fffd}' }, 1),
            };
            source.push(c);
            caret.extend(std::iter::repeat_n(mark.unwrap_or(' '), width));
        }
    };
    if from > 0 {
        add("…", None);
    }
    add(&line[from..marked.start], None);
    let marked_end = marked.end.min(to);
    if marked.is_empty() {
        // For a missing setting, the caret marks its position.
        let rest = &line[marked.start..to];
        let first = rest.chars().next().map_or(0, char::len_utf8);
        match first {
            0 if to < line.len() => {}
            0 => add(" ", Some('^')),
            _ => add(&rest[..first], Some('^')),
        }
        add(&rest[first..], None);
    } else {
        add(&line[marked.start..marked_end], Some('^'));
        add(&line[marked_end..to], None);
    }
    if to < line.len() {
        add("…", (marked.start == to).then_some('^'));
    }
    format!("{}\n{}", source.trim_end(), caret.trim_end())
}

/// Returns the length of the part of a line that may be shown: only the name of a setting that may hold a
/// secret.
fn visible(line: &str) -> usize {
    let Some(equals) = line.find('=') else { return line.len() };
    let name = line[..equals].to_ascii_lowercase();
    let is_secret =
        ["key", "env", "token", "secret", "password"].iter().any(|word| name.contains(word));
    if !is_secret {
        return line.len();
    }
    let value = &line[equals + 1..];
    equals + 1 + (value.len() - value.trim_start().len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(line: &str, marked: &str) -> String {
        let at = line.find(marked).unwrap();
        excerpt(line, at..at + marked.len())
    }

    #[test]
    fn the_caret_is_below_the_error() {
        assert_eq!(shown("window = -1", "-1"), "window = -1\n         ^^");
        assert_eq!(shown("\tname = 名, 5", "5"), " name = 名, 5\n            ^");
        assert_eq!(excerpt("name =", 6..6), "name =\n      ^");
        assert_eq!(excerpt("", 0..0), "\n^");
    }

    #[test]
    fn a_long_line_is_shortened_on_both_sides() {
        let line = format!("{} = 5{}", "k".repeat(500), "x".repeat(1 << 20));
        let text = shown(&line, "5");
        assert!(text.len() < 300 && text.starts_with('…'), "{text}");
        assert!(text.lines().next().unwrap().ends_with('…'), "{text}");
    }

    #[test]
    fn a_value_that_may_be_a_secret_is_not_shown() {
        for line in ["key-env = \"s3cr3t\"", "env = { A = \"s3cr3t\" }", "API_KEY = 's3cr3t'"] {
            let text = shown(line, "s3cr3t");
            assert!(!text.contains("s3cr3t") && text.contains(" = …\n"), "{text}");
        }
    }

    #[test]
    fn control_characters_are_not_shown() {
        let text = shown("name = \u{202e}\u{1b}x", "x");
        assert_eq!(text, "name = \u{fffd}\u{fffd}x\n         ^");
    }
}
