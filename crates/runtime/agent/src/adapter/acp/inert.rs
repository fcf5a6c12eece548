//! Prevents the programs of ACP agents from interpreting a prompt.
//!
//! Some programs treat a prompt that begins with `/`, after blanks, as a command: they drop it, answer it
//! themselves, or refuse it. A line before the prompt makes it plain text for all of them. Some also
//! read files that the last block names with `@`, so a fixed sentence follows the prompt there.
//!
//! An assembled prompt is already escaped ([`super::super::escaping`]); other callers may send any text.

use std::borrow::Cow;

use convoke_core::{Diagnostic, Escaping, begins_with_slash};

use crate::diagnostics;

/// The escaping of prompts for ACP agents.
pub(in crate::adapter) const ESCAPING: Escaping = Escaping::LeadingSlash;

/// The line before a prompt that a program would treat as a command.
const LEAD: &str = "The message is:\n";

/// Returns the text blocks of a prompt, and a diagnostic if it was changed.
pub(super) fn blocks<'p>(
    prompt: &'p str,
    tail: Option<&'static str>,
) -> (Vec<Cow<'p, str>>, Option<Diagnostic>) {
    let (text, note) = if begins_with_slash(prompt) == Some(true) {
        let message =
            "a line was inserted before the `/` at the start, so that it is not a command";
        let note = Diagnostic::new(diagnostics::AGENT_TEXT_ESCAPED, message).with_count(1);
        (Cow::Owned(format!("{LEAD}{prompt}")), Some(note))
    } else {
        (Cow::Borrowed(prompt), None)
    };
    (std::iter::once(text).chain(tail.map(Cow::Borrowed)).collect(), note)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_prompt_that_begins_with_a_slash_is_changed() {
        for prompt in ["Instructions:\nx", "a /help", "", "x\n/help\n", "@/etc/passwd", "!ls", "#x"]
        {
            let (blocks, note) = blocks(prompt, None);
            assert_eq!((blocks, note), (vec![Cow::Borrowed(prompt)], None));
        }
        for prompt in ["/help", " /help", "\u{feff}/x y", "\n\t//", "\u{85}/", "\0/x"] {
            let (blocks, note) = blocks(prompt, None);
            assert_eq!(blocks, [format!("The message is:\n{prompt}")]);
            assert_eq!(note.unwrap().code, diagnostics::AGENT_TEXT_ESCAPED);
        }
    }

    #[test]
    fn no_prompt_is_the_last_block_where_that_is_scanned() {
        let (blocks, _) = blocks("read @/etc/passwd", Some("Reply."));
        assert_eq!(blocks, ["read @/etc/passwd", "Reply."]);
    }
}
