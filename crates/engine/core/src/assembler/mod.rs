//! Assemblers: turn an input into a prompt in the format that one kind of agent reads.

mod builtin;
mod format;
mod registry;

pub use builtin::{
    ClaudeAssembler, CodexAssembler, GeminiAssembler, InlineClaudeAssembler, PlainTextAssembler,
};
pub use format::{Format, Headers, LineStyle, SystemPlace};
pub use registry::Assemblers;

use crate::agent_type::AgentType;
use crate::budget::{self, BudgetTooSmall};
use crate::diagnostic::Diagnostic;
use crate::diagnostics;
use crate::escape::{Escaping, begins_with_slash};
use crate::fragment::Fragments;
use crate::input::AssemblerInput;
use crate::ledger::Ledger;
use crate::render;

/// Turns an input into a prompt.
pub trait ContextAssembler: Send + Sync {
    /// Returns the type of agent that reads this format.
    fn agent_type(&self) -> AgentType;

    /// Returns where the system text goes.
    fn system_place(&self) -> SystemPlace {
        SystemPlace::Inline
    }

    /// Assembles the prompt.
    fn assemble<'a>(
        &self,
        input: &'a AssemblerInput<'a>,
    ) -> Result<AssemblerOutput<'a>, BudgetTooSmall>;
}

/// A prompt, its separate system text, and the ledger of both.
#[derive(Debug, Clone, PartialEq)]
pub struct AssemblerOutput<'a> {
    pub prompt: String,
    /// The system text, if it is separate from the prompt.
    pub system_flag: Option<String>,
    pub ledger: Ledger<'a>,
    pub diagnostics: Vec<Diagnostic>,
}

impl AssemblerOutput<'_> {
    /// Returns the output with a ledger that borrows nothing from the input.
    pub fn into_owned(self) -> AssemblerOutput<'static> {
        AssemblerOutput {
            prompt: self.prompt,
            system_flag: self.system_flag,
            ledger: self.ledger.into_owned(),
            diagnostics: self.diagnostics,
        }
    }
}

/// Assembles a prompt in a format: fragments, budget, text and ledger.
///
/// O(context messages + written bytes).
pub fn assemble<'a>(
    format: &Format,
    input: &'a AssemblerInput<'a>,
) -> Result<AssemblerOutput<'a>, BudgetTooSmall> {
    let fragments = Fragments::new(format, input);
    let guarded = match input.escaping {
        Escaping::LeadingSlash => with_first_header(format, &fragments),
        Escaping::AsWritten | Escaping::AtSigns => *format,
    };
    let is_guarded = guarded != *format;
    let format = &guarded;
    let plan = budget::plan(format, &fragments, input.max_bytes)?;
    let mut diagnostics = plan.diagnostics();
    diagnostics.extend(escaped(fragments.escapes(plan.dropped)));
    if is_guarded {
        let message = "a line is sent before the `/` at the start, so that it is not a command";
        diagnostics.push(Diagnostic::new(diagnostics::CONTENT_ESCAPED, message).with_count(1));
    }
    let rendered = render::render(format, fragments, &plan);
    let render::Rendered { prompt, system_flag, ledger, forged } = rendered;
    diagnostics.extend(forged);
    Ok(AssemblerOutput { prompt, system_flag, ledger, diagnostics })
}

/// Headers for formats that have none, used when the prompt would otherwise begin with `/`.
const FIRST_HEADERS: Headers = Headers {
    system: "Instructions:",
    task: "Team Task:",
    context: "Conversation so far:",
    message: "The message is:",
};

/// Returns the format with a header for each section that could be first and begin with `/`. The budget may
/// drop the context, which makes the message the first section.
fn with_first_header(format: &Format, fragments: &Fragments<'_>) -> Format {
    fn begins<'a>(mut texts: impl Iterator<Item = &'a str>) -> Option<bool> {
        texts.find_map(begins_with_slash)
    }
    let mut headers = format.headers;
    let add = |header: &mut &'static str, first: &'static str| {
        if header.is_empty() {
            *header = first;
        }
    };
    let is_inline = format.system == SystemPlace::Inline;
    let system = fragments.system.iter().chain(&fragments.file).filter(|_| is_inline);
    let is_system_first = begins(system.map(|fragment| &*fragment.text));
    let is_task_first = begins(fragments.task.iter().map(|fragment| &*fragment.text));
    match (is_system_first, is_task_first) {
        (Some(true), _) => add(&mut headers.system, FIRST_HEADERS.system),
        (None, Some(true)) => add(&mut headers.task, FIRST_HEADERS.task),
        (None, None) => {
            let mut speakers = fragments.context.messages.iter().map(|message| &*message.from);
            if speakers.any(|speaker| begins_with_slash(speaker) == Some(true)) {
                add(&mut headers.context, FIRST_HEADERS.context);
            }
            if begins(fragments.message.iter().map(|fragment| &*fragment.text)) == Some(true) {
                add(&mut headers.message, FIRST_HEADERS.message);
            }
        }
        _ => {}
    }
    Format { headers, ..*format }
}

fn escaped(count: usize) -> Option<Diagnostic> {
    let message = match count {
        0 => return None,
        1 => "one `@` is sent as `\\@`, so that the agent's program does not act on it".to_owned(),
        _ => format!(
            "{count} `@` are sent as `\\@`, so that the agent's program does not act on them"
        ),
    };
    Some(Diagnostic::new(diagnostics::CONTENT_ESCAPED, message).with_count(count as u64))
}
