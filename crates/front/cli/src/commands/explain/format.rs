//! The report in other formats: JSON, SARIF, annotations of a workflow, Markdown.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::path::Path;

use clap::ValueEnum;
use convoke_core::{Code, Diagnostic, Severity};
use convoke_explain::DirectoryReport;
use serde_json::Value;

use crate::figures::number;
use crate::findings::{Finding, Level, Place, Rule, annotations, sarif};
use crate::tokens::TextTokens;

/// A format that programs read, or a page of a discussion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// The whole report
    Json,
    /// SARIF 2.1.0, for code scanning
    Sarif,
    /// Annotations of a GitHub workflow
    Github,
    /// A table, for a comment
    Markdown,
}

/// Findings with the rules that they refer to.
#[derive(Debug, Default)]
pub struct Found {
    pub rules: Vec<Rule>,
    pub findings: Vec<Finding>,
}

impl Found {
    /// Collects the diagnostics of all agents; what several agents have is one finding.
    pub fn in_report(report: &DirectoryReport) -> Self {
        let mut found = Self::default();
        found.add_report(report);
        found
    }

    /// Adds the diagnostics of a report.
    pub fn add_report(&mut self, report: &DirectoryReport) {
        let root = report.repository.as_deref().unwrap_or(&report.cwd);
        let mut grouped: Vec<(&Diagnostic, Vec<&str>)> = Vec::new();
        for agent in &report.agents {
            for diagnostic in &agent.diagnostics {
                let same = |(other, _): &&mut (&Diagnostic, _)| {
                    (&other.code, &other.message, &other.path, other.line)
                        == (
                            &diagnostic.code,
                            &diagnostic.message,
                            &diagnostic.path,
                            diagnostic.line,
                        )
                };
                match grouped.iter_mut().find(same) {
                    Some((_, agents)) if agents.contains(&agent.edition.title()) => {}
                    Some((_, agents)) => agents.push(agent.edition.title()),
                    None => grouped.push((diagnostic, vec![agent.edition.title()])),
                }
            }
        }
        for (diagnostic, agents) in grouped {
            let code = &diagnostic.code;
            self.add_rule(code);
            let message = relative_text(root, &diagnostic.message);
            self.findings.push(Finding {
                rule: code.name().to_owned(),
                level: level(code.severity()),
                key: format!("{} {message}", agents.join(", ")),
                message: format!("{}: {message}", agents.join(", ")),
                place: diagnostic.path.as_deref().map(|path| Place {
                    file: relative(root, Path::new(path)),
                    line: diagnostic.line,
                }),
            });
        }
    }

    /// Adds the rule of a code, once.
    pub fn add_rule(&mut self, code: &Code) {
        if !self.rules.iter().any(|rule| rule.id == code.name()) {
            self.rules.push(Rule {
                id: code.name().to_owned(),
                summary: code.meaning().to_owned(),
                help: code.fix().to_owned(),
            });
        }
    }

    /// Removes findings that are there already.
    pub fn without_repetitions(mut self) -> Self {
        let mut known = HashSet::new();
        self.findings
            .retain(|it| known.insert((it.rule.clone(), it.key.clone(), it.place.clone())));
        self
    }

    /// Writes the findings as SARIF.
    pub fn sarif(&self) -> Value {
        sarif::log(&self.rules, &self.findings)
    }

    /// Writes the findings as annotations of a workflow.
    pub fn annotations(&self) -> String {
        annotations::commands(&self.rules, &self.findings)
    }

    /// Writes the findings as a list in Markdown.
    pub fn markdown(&self) -> String {
        let mut out = String::new();
        for finding in &self.findings {
            let place = match &finding.place {
                Some(Place { file, line: Some(line) }) => {
                    format!(" {}", code(&format!("{file}:{line}")))
                }
                Some(place) => format!(" {}", code(&place.file)),
                None => String::new(),
            };
            let help = self.rules.iter().find(|rule| rule.id == finding.rule);
            let help = help.map(|rule| &*rule.help).filter(|help| !help.is_empty());
            let help = help.map(|help| format!(" *{}*", cell(help))).unwrap_or_default();
            let (rule, message) = (code(&finding.rule), cell(&finding.message));
            let _ = writeln!(out, "- {rule}{place}: {message}{help}");
        }
        out
    }
}

/// Writes the report of one directory as a page: what each program loads, and the findings.
pub fn markdown(report: &DirectoryReport, tokens: &TextTokens) -> String {
    let root = report.repository.as_deref().unwrap_or(&report.cwd);
    let mut out = String::from("| program | file | bytes | tokens |\n|---|---|--:|--:|\n");
    for agent in &report.agents {
        let title = format!("{} {}", agent.edition.title(), agent.edition.version());
        let mut total = 0;
        for file in &agent.loaded {
            let count = tokens.count(&file.text);
            total += if file.is_pasted { 0 } else { count };
            let cut = if file.whole { "" } else { " (cut)" };
            let path = code(&relative(root, &file.path));
            let (bytes, count) = (number(file.bytes_loaded), number(count));
            let _ = writeln!(out, "| {title} | {path}{cut} | {bytes} | {count} |");
        }
        let (bytes, total) = (number(agent.bytes_loaded()), number(total));
        let _ = writeln!(out, "| **{title}** | **all** | **{bytes}** | **{total}** |");
    }
    let findings = Found::in_report(report).markdown();
    if !findings.is_empty() {
        let _ = write!(out, "\n{findings}");
    }
    out
}

/// Returns the level of a severity.
pub const fn level(severity: Severity) -> Level {
    match severity {
        Severity::Error => Level::Error,
        Severity::Loss => Level::Warning,
        Severity::Note => Level::Note,
    }
}

/// Returns a path as it is seen from the root of the repository, and `.` for the root.
pub fn relative(root: &Path, path: &Path) -> String {
    match path.strip_prefix(root) {
        Ok(below) if below.as_os_str().is_empty() => ".".to_owned(),
        Ok(below) => below.to_string_lossy().into_owned(),
        Err(_) => path.to_string_lossy().into_owned(),
    }
}

/// Shortens the paths of a message in the same way.
pub fn relative_text(root: &Path, message: &str) -> String {
    if root.parent().is_none() {
        return message.to_owned();
    }
    message.replace(&format!("{}/", root.display()), "")
}

/// Writes a text as code that may stand in a cell of a table.
pub fn code(text: &str) -> String {
    // A backtick inside needs a longer fence, and a bar would end the cell.
    let text: String =
        text.chars().map(|it| if it.is_control() { '\u{fffd}' } else { it }).collect();
    let text = text.replace('|', "\\|");
    if text.contains('`') { format!("`` {text} ``") } else { format!("`{text}`") }
}

/// Writes a text that may stand in a cell of a table, and is nothing but text there.
pub fn cell(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '|' | '<' | '*' | '_' | '[' | ']' | '\\' | '~' => {
                out.push('\\');
                out.push(character);
            }
            '@' => out.push_str("@\u{200b}"),
            it if it.is_control() => out.push(' '),
            it => out.push(it),
        }
    }
    out
}
