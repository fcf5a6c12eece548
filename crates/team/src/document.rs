//! Parses a settings file and collects every error.

use std::collections::BTreeMap;

use toml::de::DeTable;

use crate::error::{Problem, TeamFileCode, TeamFileErrors, locate};
use crate::section::Section;
use crate::syntax::{foreign_problem, syntax_problem};

/// Parses a TOML text and reads its settings with `read`, which collects their problems. Returns every error, syntax
/// errors included.
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
        let syntax = errors.iter().map(|error| syntax_problem(text, error)).collect();
        problems = beside_syntax(text, syntax, problems);
    }
    match locate(text, problems) {
        Some(errors) => Err(errors),
        None => Ok(settings),
    }
}

/// Joins the syntax errors, one per line, with the problems that they did not cause.
fn beside_syntax(text: &str, syntax: Vec<Problem>, others: Vec<Problem>) -> Vec<Problem> {
    let mut starts = vec![0];
    starts.extend(text.match_indices('\n').map(|(at, _)| at + 1));
    let line = |problem: &Problem| starts.partition_point(|&start| start <= problem.span.start) - 1;
    let is_header = |line: &usize| text[starts[*line]..].trim_start().starts_with('[');
    let headers: Vec<usize> = (0..starts.len()).filter(is_header).collect();
    let mut by_line = BTreeMap::new();
    for problem in syntax {
        by_line.entry(line(&problem)).or_insert(problem);
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
            it.code != TeamFileCode::Missing
                && !by_line.contains_key(&line)
                && !is_below_wrong_header(line)
        })
        .collect();
    kept.extend(by_line.into_values());
    kept
}
