//! Settings files of the agents: JSON with or without comments, and TOML.

use std::io;
use std::path::Path;

use convoke_files::json::without_comments;
use convoke_files::{FileKind, Files};
use serde_json::Value;

use crate::diagnostics;
use crate::report::AgentReport;

/// Reads a JSON object with comments. Errors are reported once.
pub fn commented_json(files: &dyn Files, path: &Path, report: &mut AgentReport) -> Option<Value> {
    let text = text(files, path, report)?;
    object(&without_comments(&text), path, report)
}

/// Reads a JSON object. Errors are reported once.
pub fn json(files: &dyn Files, path: &Path, report: &mut AgentReport) -> Option<Value> {
    let text = text(files, path, report)?;
    object(text.trim_start_matches('\u{feff}'), path, report)
}

fn object(text: &str, path: &Path, report: &mut AgentReport) -> Option<Value> {
    if text.trim().is_empty() {
        return None;
    }
    match serde_json::from_str::<Value>(text) {
        Ok(value) if value.is_object() => Some(value),
        Ok(_) => {
            malformed(report, path, "it is not a JSON object");
            None
        }
        Err(error) => {
            malformed(report, path, &error.to_string());
            None
        }
    }
}

/// Reads a TOML table. Errors are reported once.
pub fn toml(files: &dyn Files, path: &Path, report: &mut AgentReport) -> Option<toml::Table> {
    let text = text(files, path, report)?;
    match text.parse::<toml::Table>() {
        Ok(table) => Some(table),
        Err(error) => {
            let mut place = String::new();
            if let Some(span) = error.span() {
                place = format!(" on line {}", crate::text::line_at(&text, span.start));
            }
            malformed(report, path, &format!("{}{place}", error.message()));
            None
        }
    }
}

fn text(files: &dyn Files, path: &Path, report: &mut AgentReport) -> Option<String> {
    match files.read(path, FileKind::Configuration) {
        Ok(bytes) => Some(String::from_utf8_lossy(&bytes).into_owned()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => None,
        Err(error) => {
            malformed(report, path, &error.to_string());
            None
        }
    }
}

fn malformed(report: &mut AgentReport, path: &Path, what: &str) {
    let message = format!("{}: {what}", path.display());
    report.warn(diagnostics::SETTINGS_MALFORMED, path, message);
}

/// Returns the strings of a value that is a string or a list of strings.
pub fn strings(value: &Value) -> Vec<String> {
    match value {
        Value::String(text) => vec![text.clone()],
        Value::Array(values) => {
            values.iter().filter_map(Value::as_str).map(str::to_owned).collect()
        }
        _ => Vec::new(),
    }
}
