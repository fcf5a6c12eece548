//! Parses a settings file and collects every error.

use std::collections::BTreeMap;

use toml::de::{DeTable, Error};

use crate::diagnostics;
use crate::error::{Problem, TeamFileErrors, locate};
use crate::section::Section;
use crate::syntax::{SyntaxErrors, foreign_problem};

/// Parses a TOML text and reads its settings with `read`, which collects their problems. Returns every error,
/// including syntax errors.
pub fn read_document<T>(
    text: &str,
    read: impl FnOnce(Section<'_>, &mut Vec<Problem>) -> T,
) -> Result<T, TeamFileErrors> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if let Some(errors) = foreign_problem(text).and_then(|problem| locate(text, vec![problem])) {
        return Err(errors);
    }
    let (table, errors) = DeTable::parse_recoverable(text);
    let mut problems = Vec::new();
    let settings = read(Section::of_document(text, table.into_inner()), &mut problems);
    if !errors.is_empty() {
        problems = beside_syntax(text, &errors, problems);
    }
    match locate(text, problems) {
        Some(errors) => Err(errors),
        None => Ok(settings),
    }
}

/// Joins the syntax errors, one per line, with the problems that they did not cause. O(text + errors ·
/// log(lines)).
fn beside_syntax(text: &str, errors: &[Error], others: Vec<Problem>) -> Vec<Problem> {
    let syntax = SyntaxErrors::new(text);
    let headers = syntax.headers();
    let line = |problem: &Problem| syntax.lines().index(problem.span.start);
    let mut by_line = BTreeMap::new();
    for error in errors {
        let span = syntax.span(error);
        by_line.entry(syntax.lines().index(span.start)).or_insert((error, span));
    }
    // Settings below an unreadable header belong to no table.
    let is_below_wrong_header = |line: usize| {
        let before = headers.partition_point(|&header| header <= line);
        headers[..before].last().is_some_and(|header| by_line.contains_key(header))
    };
    let mut kept: Vec<Problem> = others
        .into_iter()
        .filter(|it| {
            // A missing setting may be in an unreadable line.
            let line = line(it);
            it.code != diagnostics::TEAM_MISSING_SETTING
                && !by_line.contains_key(&line)
                && !is_below_wrong_header(line)
        })
        .collect();
    kept.extend(by_line.into_values().map(|(error, span)| syntax.problem(error, span)));
    kept
}
