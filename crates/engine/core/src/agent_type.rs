//! Agent types: which format an agent reads.

use std::fmt;

/// The type of an agent, in its normal form.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AgentType {
    /// Claude Code.
    ClaudeCode,
    /// OpenAI's Codex.
    OpenaiCodex,
    /// Google's Gemini CLI.
    GoogleGemini,
    /// Plain text.
    Plain,
    /// A type that is not built in, as written.
    Other(String),
}

impl AgentType {
    /// Returns the type for a short or long name, ignoring case.
    ///
    /// ```
    /// use convoke_core::AgentType;
    /// assert_eq!(AgentType::normalize("Claude"), AgentType::ClaudeCode);
    /// assert_eq!(AgentType::normalize("my-agent").name(), "my-agent");
    /// ```
    pub fn normalize(name: &str) -> Self {
        match name.to_lowercase().as_str() {
            "claude" | "claude-code" => Self::ClaudeCode,
            "codex" | "openai-codex" => Self::OpenaiCodex,
            "gemini" | "google-gemini" => Self::GoogleGemini,
            // Neither an API model nor an ACP agent has a format of its own.
            "plain" | "api" | "acp" => Self::Plain,
            _ => Self::Other(name.to_owned()),
        }
    }

    /// Returns the long name.
    pub fn name(&self) -> &str {
        match self {
            Self::ClaudeCode => "claude-code",
            Self::OpenaiCodex => "openai-codex",
            Self::GoogleGemini => "google-gemini",
            Self::Plain => "plain",
            Self::Other(name) => name,
        }
    }
}

impl fmt::Display for AgentType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_and_long_names_are_one_type() {
        let cases = [
            ("claude", "claude-code"),
            ("CLAUDE-Code", "claude-code"),
            ("codex", "openai-codex"),
            ("openai-codex", "openai-codex"),
            ("GEMINI", "google-gemini"),
            ("google-gemini", "google-gemini"),
            ("plain", "plain"),
            ("My-Agent", "My-Agent"),
        ];
        for (written, name) in cases {
            assert_eq!(AgentType::normalize(written).name(), name);
        }
    }
}
