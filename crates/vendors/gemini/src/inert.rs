//! Prevents Gemini CLI from interpreting a prompt.
//!
//! A prompt that begins with `/` is a command; a line break in front makes it text. `@name` means a file, a resource of an
//! MCP server or a sub-agent; `\@` does not. The meaning of a name depends on settings, extensions and files that may
//! change, so every `@` is escaped. The model sees both changes.
//!
//! An assembled prompt is escaped already ([`convoke_agent::adapter::escaping`]) and begins with a header, so nothing is
//! left to change here; other callers may send any text.

use std::borrow::Cow;

use convoke_core::{Diagnostic, Escaping};

use convoke_agent::diagnostics;

/// The escaping of Gemini CLI's prompts.
const ESCAPING: Escaping = Escaping::AtSigns;

/// Returns the escaped prompt and a diagnostic for each kind of change.
pub(super) fn inert(prompt: &str) -> (Cow<'_, str>, Vec<Diagnostic>) {
    let mut notes = Vec::new();
    let mut text = ESCAPING.escape(prompt);
    let escaped = text.len() - prompt.len();
    if escaped > 0 {
        let message = format!("`@` was escaped {escaped} times, so that gemini attaches nothing");
        let note = Diagnostic::new(diagnostics::AGENT_TEXT_ESCAPED, message);
        notes.push(note.with_count(escaped as u64));
    }
    if prompt.starts_with('/') && !prompt.starts_with("//") && !prompt.starts_with("/*") {
        text = Cow::Owned(format!("\n{text}"));
        let message = "a line break was inserted before the `/` at the start";
        notes.push(Diagnostic::new(diagnostics::AGENT_TEXT_ESCAPED, message).with_count(1));
    }
    (text, notes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_at_sign_and_a_first_slash_are_made_text() {
        for (prompt, sent) in [
            ("plain text", "plain text"),
            ("see @secret.txt.", "see \\@secret.txt."),
            ("see \\@secret.txt", "see \\@secret.txt"),
            ("/compact", "\n/compact"),
            ("/compact @all", "\n/compact \\@all"),
            ("// comment", "// comment"),
        ] {
            let (text, notes) = inert(prompt);
            assert_eq!(text, sent, "{prompt}");
            assert_eq!(notes.is_empty(), prompt == sent, "{prompt}");
        }
    }
}
