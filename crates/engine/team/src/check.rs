//! Checks the references of a team file: agents, files and addresses.

use std::ops::Range;

use convoke_core::Code;
use convoke_core::name::nearest;

use crate::AgentSettings;
use crate::diagnostics;
use crate::error::Problem;
use crate::file::ReadMember;
use crate::section::Place;
use crate::suggestion::is_person;

/// The references of a team file: the agents of this machine, and files next to the team file.
pub trait References {
    /// Returns the names of all agents.
    fn agents(&self) -> Vec<&str>;

    /// Checks one setting of a member whose agent is known.
    fn check(&self, settings: &AgentSettings, setting: &str) -> Result<(), BadReference>;

    /// Returns the agent's required settings that are in neither these settings nor the user's configuration.
    fn missing(&self, settings: &AgentSettings) -> Vec<(&'static str, BadReference)>;
}

/// An invalid reference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadReference {
    /// The kind of error.
    pub code: Code,
    /// The end of a sentence that begins with the name of the setting.
    pub problem: String,
    pub fix: String,
}

/// Checks the references of a member.
pub(crate) fn check_member(
    read: &ReadMember,
    references: &dyn References,
    problems: &mut Vec<Problem>,
) {
    let ReadMember { member, path, places } = read;
    let Some(settings) = member.agent() else { return };
    let Some(agent) = places.get("agent").filter(|_| !settings.agent.is_empty()) else { return };
    if !references.agents().contains(&&*settings.agent) {
        problems.push(unknown_agent(path, &settings.agent, agent, references));
        return;
    }
    let mut note = |span: Range<usize>, setting: &str, bad: BadReference| {
        let BadReference { code, problem, fix } = bad;
        let message = format!("`{path}.{setting}` {problem}");
        problems.push(Problem { span, code, message, fix });
    };
    for (&setting, place) in places {
        if let Err(bad) = references.check(settings, setting) {
            let is_unused = bad.code == diagnostics::TEAM_UNUSED_SETTING;
            let span = if is_unused { place.key.clone() } else { place.value.clone() };
            note(span, setting, bad);
        }
    }
    // An invalid setting was already reported.
    for (setting, bad) in references.missing(settings) {
        if !places.contains_key(setting) {
            note(agent.value.clone(), setting, bad);
        }
    }
}

fn unknown_agent(path: &str, agent: &str, place: &Place, references: &dyn References) -> Problem {
    let names = references.agents();
    let (hint, fix) = match nearest(agent, names.iter().copied()) {
        Some(near) => (format!("; did you mean `{near}`?"), format!("write `agent = \"{near}\"`")),
        None => (String::new(), meant(agent, &names)),
    };
    Problem {
        span: place.value.clone(),
        code: diagnostics::TEAM_UNKNOWN_AGENT,
        message: format!("`{path}.agent`: no agent has the name `{agent}`{hint}"),
        fix,
    }
}

/// Returns the fix if the name is that of a company, a model or a person.
fn meant(agent: &str, names: &[&str]) -> String {
    let word = agent.to_ascii_lowercase();
    let begins = |words: &[&str]| words.iter().any(|it| word.starts_with(it));
    if is_person(agent) {
        return "write `human = true` in place of `agent`".to_owned();
    }
    let known = [
        (&["claude", "anthropic", "opus", "sonnet", "haiku"][..], "claude"),
        (&["codex", "chatgpt"], "codex"),
        (&["gemini", "google"], "gemini"),
        (&["github-copilot", "gh-copilot"], "copilot"),
    ];
    if let Some((_, name)) =
        known.iter().find(|(words, name)| begins(words) && names.contains(name))
    {
        return format!("write `agent = \"{name}\"`; `model` is a separate setting");
    }
    if begins(&["gpt", "openai", "o1", "o3", "o4"]) {
        return "write `agent = \"codex\"` for the program, or `agent = \"api\"` with `base-url` and \
                `model` for a model without one"
            .to_owned();
    }
    let servers = [
        "ollama",
        "llama",
        "lmstudio",
        "lm-studio",
        "vllm",
        "openrouter",
        "mistral",
        "deepseek",
        "local",
    ];
    if begins(&servers) {
        return "write `agent = \"api\"`, with `base-url` and `model`".to_owned();
    }
    format!("choose one of {}", names.join(", "))
}
