//! The diagnostics for people: grouped by code, problems before notes, the fix last.

use convoke_core::diagnostic::Code;
use convoke_explain::Report;

/// All that one code has to say.
#[derive(Debug)]
pub struct Finding {
    pub code: Code,
    /// The agents that it concerns, in order.
    pub agents: Vec<String>,
    /// What happened, each once.
    pub messages: Vec<String>,
}

/// What was found, as a person wants to read it.
#[derive(Debug, Default)]
pub struct Findings {
    pub problems: Vec<Finding>,
    pub notes: Vec<Finding>,
}

impl Findings {
    /// Groups the diagnostics of all agents.
    pub fn of(report: &Report) -> Self {
        let mut findings: Vec<Finding> = Vec::new();
        let several_codex = report.agents.iter().filter(|it| it.agent == "codex").count() > 1;
        for agent in &report.agents {
            let mut name = agent.edition.title().to_owned();
            if several_codex && agent.agent == "codex" {
                name = format!("{name} {}", agent.version);
            }
            for diagnostic in &agent.diagnostics {
                let index = findings.iter().position(|it| it.code == diagnostic.code);
                let index = index.unwrap_or_else(|| {
                    findings.push(Finding {
                        code: diagnostic.code,
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
        findings.sort_by_key(|finding| weight(finding.code));
        let (notes, problems) = findings.into_iter().partition(|it| is_note(it.code));
        Self { problems, notes }
    }
}

/// The order of problems: what loses most comes first; the rest keeps the order of the agents.
fn weight(code: Code) -> usize {
    const FIRST: [Code; 8] = [
        Code::SettingsMalformed,
        Code::AgentsMdTruncated,
        Code::ImportOutside,
        Code::AgentsMdUnreadable,
        Code::AgentsMdUntrusted,
        Code::FolderUntrusted,
        Code::FileTooLarge,
        Code::NamesUnread,
    ];
    FIRST.iter().position(|first| *first == code).unwrap_or(FIRST.len())
}

/// Tells what is worth knowing from what goes wrong.
fn is_note(code: Code) -> bool {
    matches!(
        code,
        Code::TextDropped
            | Code::RulesUnordered
            | Code::RulesConditional
            | Code::MemoryLoaded
            | Code::VersionsDiffer
            | Code::ParentsAboveRoot
            | Code::ParentsWithoutRoot
            | Code::SubmoduleOuter
            | Code::WorktreeNested
            | Code::NamesAddUp
            | Code::ImportInComment
    )
}
