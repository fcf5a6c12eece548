//! The diagnostics of a report, grouped by code: errors first, then losses, then notes.

use convoke_core::{Code, Severity};
use convoke_explain::DirectoryReport;

/// All diagnostics of one code.
#[derive(Debug)]
pub struct Finding {
    pub code: Code,
    /// The agents concerned, in order.
    pub agents: Vec<String>,
    /// The messages, without duplicates.
    pub messages: Vec<String>,
}

/// The findings of a report.
#[derive(Debug, Default)]
pub struct Findings {
    pub problems: Vec<Finding>,
    pub notes: Vec<Finding>,
}

impl Findings {
    /// Groups the diagnostics of all agents.
    pub fn new(report: &DirectoryReport) -> Self {
        let mut findings: Vec<Finding> = Vec::new();
        for agent in &report.agents {
            let mut name = agent.edition.title().to_owned();
            let editions = report.agents.iter().filter(|it| it.agent == agent.agent).count();
            if editions > 1 {
                name = format!("{name} {}", agent.edition.version());
            }
            for diagnostic in &agent.diagnostics {
                let index = findings.iter().position(|it| it.code == diagnostic.code);
                let index = index.unwrap_or_else(|| {
                    findings.push(Finding {
                        code: diagnostic.code.clone(),
                        agents: Vec::new(),
                        messages: Vec::new(),
                    });
                    findings.len() - 1
                });
                let finding = &mut findings[index];
                let message = match (&diagnostic.path, diagnostic.line) {
                    (Some(path), Some(line)) => format!("{path}:{line}: {}", diagnostic.message),
                    _ => diagnostic.message.clone(),
                };
                if !finding.messages.contains(&message) {
                    finding.messages.push(message);
                }
                if !finding.agents.contains(&name) {
                    finding.agents.push(name.clone());
                }
            }
        }
        findings.sort_by_key(|finding| finding.code.severity());
        let (notes, problems) =
            findings.into_iter().partition(|it| it.code.severity() == Severity::Note);
        Self { problems, notes }
    }
}
