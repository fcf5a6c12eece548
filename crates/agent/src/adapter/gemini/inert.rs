//! Keeps Gemini CLI from interpreting a prompt.
//!
//! A prompt that begins with `/` is a command; a line break in front makes it text. `@name` stands for a
//! file, a resource of an MCP server or a sub-agent; `\@` does not. What a name stands for depends on
//! settings, extensions and files that may change, so every `@` is escaped. The model sees both changes.

use std::borrow::Cow;

use convoke_core::Diagnostic;
use memchr::memchr_iter;

use crate::diagnostics;

/// Returns the escaped prompt and a diagnostic for each kind of change.
pub(super) fn inert(prompt: &str) -> (Cow<'_, str>, Vec<Diagnostic>) {
    let mut notes = Vec::new();
    let mut text = escape(prompt);
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

/// Escapes every `@` that is not escaped yet.
pub(crate) fn escape(text: &str) -> Cow<'_, str> {
    let bytes = text.as_bytes();
    let mut escaped = String::new();
    let mut from = 0;
    for at in memchr_iter(b'@', bytes).filter(|&at| at == 0 || bytes[at - 1] != b'\\') {
        escaped.push_str(&text[from..at]);
        escaped.push('\\');
        from = at;
    }
    if from == 0 && escaped.is_empty() {
        return Cow::Borrowed(text);
    }
    escaped.push_str(&text[from..]);
    Cow::Owned(escaped)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_at_sign_and_a_first_slash_are_made_text() {
        for (prompt, sent) in [
            ("plain text", "plain text"),
            ("@secret.txt", "\\@secret.txt"),
            ("see @secret.txt.", "see \\@secret.txt."),
            ("me@example.com", "me\\@example.com"),
            ("@\"a b.txt\" and @a\\ b.txt", "\\@\"a b.txt\" and \\@a\\ b.txt"),
            ("see \\@secret.txt", "see \\@secret.txt"),
            ("@@generalist @docs:docs://secret", "\\@\\@generalist \\@docs:docs://secret"),
            ("/compact", "\n/compact"),
            ("// comment", "// comment"),
        ] {
            let (text, notes) = inert(prompt);
            assert_eq!(text, sent, "{prompt}");
            assert_eq!(notes.is_empty(), prompt == sent, "{prompt}");
            assert_eq!(escape(&escape(prompt)), escape(prompt), "{prompt}");
        }
    }
}
