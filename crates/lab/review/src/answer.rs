//! What a reviewer answers, parsed strictly: one JSON object of a fixed form, and nothing else.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::finding::Finding;

/// The answer of a reviewer to one part.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Answer {
    pub verdict: Opinion,
    pub findings: Vec<Finding>,
}

/// What a reviewer thinks of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Opinion {
    Approve,
    Reject,
}

/// How serious a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    Low,
    Medium,
    High,
    Critical,
}

/// The form of an answer, as it is asked for.
pub const FORM: &str = r#"{"verdict": "approve" | "reject", "findings": [{"file": string, "line": integer, "severity": "low" | "medium" | "high" | "critical", "claim": string, "evidence": string, "suggestion": string}]}"#;

/// A reply that is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AnswerError {
    #[error("the answer is empty")]
    Empty,
    #[error("the answer is not one JSON object of the form that was asked for: {0}")]
    Malformed(String),
}

/// Parses a reply: the object alone, or in one code fence that is the whole reply.
pub fn parse(reply: &str) -> Result<Answer, AnswerError> {
    let answer: Answer = parse_object(reply)?;
    for finding in &answer.findings {
        let texts = [("file", &finding.file), ("claim", &finding.claim)];
        if let Some((name, _)) = texts.into_iter().find(|(_, text)| text.trim().is_empty()) {
            return Err(AnswerError::Malformed(format!("`{name}` is empty")));
        }
        if finding.line == 0 {
            return Err(AnswerError::Malformed("`line` counts from 1".to_owned()));
        }
    }
    Ok(answer)
}

/// Parses a reply that must be one JSON object.
pub(crate) fn parse_object<T: for<'t> Deserialize<'t>>(reply: &str) -> Result<T, AnswerError> {
    let text = unfenced(reply.trim());
    if text.is_empty() {
        return Err(AnswerError::Empty);
    }
    if !text.starts_with('{') {
        return Err(AnswerError::Malformed("it does not begin with `{`".to_owned()));
    }
    serde_json::from_str(text).map_err(|error| AnswerError::Malformed(error.to_string()))
}

/// Returns what is in a code fence that is the whole text.
fn unfenced(text: &str) -> &str {
    let inside = text.strip_prefix("```").and_then(|rest| rest.strip_suffix("```"));
    let inside = inside.and_then(|inside| inside.split_once('\n'));
    match inside {
        Some(("" | "json", body)) if !body.contains("```") => body.trim(),
        _ => text,
    }
}

/// Returns the request to correct a reply.
pub fn repair(error: &AnswerError, form: &str) -> String {
    format!(
        "Your last answer was not accepted: {error}. Answer once more, to the same review, with one JSON object of this form and nothing \
         else, without a code fence:\n\n{form}"
    )
}

impl Severity {
    /// Returns the name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::Critical => "critical",
        }
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FINDING: &str =
        r#"{"file":"a.rs","line":3,"severity":"high","claim":"c","evidence":"e","suggestion":"s"}"#;

    #[test]
    fn only_one_whole_object_of_the_form_is_an_answer() {
        let with = |findings: &str| format!(r#"{{"verdict":"reject","findings":[{findings}]}}"#);
        let good = [
            r#"{"verdict":"approve","findings":[]}"#.to_owned(),
            format!("  {}\n", with(FINDING)),
            format!("```json\n{}\n```", with(FINDING)),
            format!("```\n{}\n```", with("")),
        ];
        for reply in good {
            assert!(parse(&reply).is_ok(), "{reply}");
        }
        let approve = r#"{"verdict":"approve","findings":[]}"#;
        let bad = [
            String::new(),
            "LGTM, approved!".to_owned(),
            format!("Here is my review: {approve}"),
            format!("{approve} I hope that helps."),
            format!("{approve}{approve}"),
            format!("```json\n{approve}\n```\nand\n```json\n{approve}\n```"),
            r#"{"verdict":"approve"}"#.to_owned(),
            r#"{"findings":[]}"#.to_owned(),
            r#"{"verdict":"approved","findings":[]}"#.to_owned(),
            r#"{"verdict":"reject","verdict":"approve","findings":[]}"#.to_owned(),
            r#"{"verdict":"approve","findings":[],"score":10}"#.to_owned(),
            r#"{"verdict":"approve","findings":{}}"#.to_owned(),
            r#"[{"verdict":"approve","findings":[]}]"#.to_owned(),
            r#"{"verdict":"approve","findings":[]"#.to_owned(),
            with(&FINDING.replace('3', "0")),
            with(&FINDING.replace('3', "-1")),
            with(&FINDING.replace('3', "\"3\"")),
            with(&FINDING.replace("high", "blocker")),
            with(&FINDING.replace(r#","suggestion":"s""#, "")),
            with(&FINDING.replace("a.rs", " ")),
        ];
        for reply in bad {
            assert!(parse(&reply).is_err(), "{reply}");
        }
    }
}
