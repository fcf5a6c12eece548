//! The built-in assemblers: five formats.

use super::{AssemblerOutput, ContextAssembler, Format, Headers, LineStyle, SystemPlace, assemble};
use crate::agent_type::AgentType;
use crate::budget::BudgetTooSmall;
use crate::input::AssemblerInput;

macro_rules! assemblers {
    ($($(#[$doc:meta])* $name:ident for $agent_type:expr => $format:expr;)+) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, Default)]
        pub struct $name;

        impl $name {
            /// The format.
            pub const FORMAT: Format = $format;
        }

        impl ContextAssembler for $name {
            fn agent_type(&self) -> AgentType {
                $agent_type
            }

            fn system_place(&self) -> SystemPlace {
                Self::FORMAT.system
            }

            fn assemble<'a>(
                &self,
                input: &'a AssemblerInput<'a>,
            ) -> Result<AssemblerOutput<'a>, BudgetTooSmall> {
                assemble(&Self::FORMAT, input)
            }
        }
    )+};
}

assemblers! {
    /// Assembles for Claude Code: brackets, and the system text separate from the prompt.
    ClaudeAssembler for AgentType::ClaudeCode => Format {
        system: SystemPlace::Apart,
        headers: BRACKETS,
        line: LineStyle::Arrow,
    };
    /// Assembles for a Claude Code without a separate system text: all of it is in the prompt.
    InlineClaudeAssembler for AgentType::ClaudeCode => Format {
        system: SystemPlace::Inline,
        headers: BRACKETS,
        line: LineStyle::Arrow,
    };
    /// Assembles for Codex: brackets, all in one prompt.
    CodexAssembler for AgentType::OpenaiCodex => Format {
        system: SystemPlace::Inline,
        headers: BRACKETS,
        line: LineStyle::Arrow,
    };
    /// Assembles for Gemini CLI: titles, because Gemini echoes brackets.
    GeminiAssembler for AgentType::GoogleGemini => Format {
        system: SystemPlace::Inline,
        headers: Headers {
            system: "Instructions:",
            task: "Team Task:",
            context: "Conversation so far:",
            message: "Your task:",
        },
        line: LineStyle::Dash,
    };
    /// Assembles for any other agent: text and blank lines, nothing else.
    PlainTextAssembler for AgentType::Plain => Format {
        system: SystemPlace::Inline,
        headers: Headers { system: "", task: "", context: "", message: "" },
        line: LineStyle::Bare,
    };
}

const BRACKETS: Headers =
    Headers { system: "[SYSTEM]", task: "[TEAM_TASK]", context: "[CONTEXT]", message: "[MESSAGE]" };
