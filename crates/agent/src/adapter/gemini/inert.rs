//! Keeping a prompt from being acted on.
//!
//! A prompt that begins with `/` is a command; a line break in front makes it text. `@path` stands for
//! the file of that name in the workspace; `\@` does not. Both changes are one byte that the model sees
//! too, so they are made only where the program would act, and reported.

use std::borrow::Cow;
use std::path::Path;

use crate::diagnostics;
use convoke_core::Diagnostic;
use memchr::memchr_iter;

/// More at-signs than this are all escaped: looking for each file would take too long.
const MOST_LOOKUPS: usize = 10_000;

/// Returns the prompt as it can be sent, and what was changed in it.
pub(super) fn inert<'p>(prompt: &'p str, cwd: &Path) -> (Cow<'p, str>, Vec<Diagnostic>) {
    let mut notes = Vec::new();
    let mut text = Cow::Borrowed(prompt);
    let ats = expanded_ats(prompt, cwd);
    if !ats.is_empty() {
        let mut escaped = String::with_capacity(prompt.len() + ats.len());
        let mut from = 0;
        for &at in &ats {
            escaped.push_str(&prompt[from..at]);
            escaped.push('\\');
            from = at;
        }
        escaped.push_str(&prompt[from..]);
        text = Cow::Owned(escaped);
        let message = format!("{} times `@` would have attached a file", ats.len());
        notes.push(
            Diagnostic::new(diagnostics::AGENT_TEXT_ESCAPED, message).with_count(ats.len() as u64),
        );
    }
    if prompt.starts_with('/') && !prompt.starts_with("//") && !prompt.starts_with("/*") {
        text = Cow::Owned(format!("\n{text}"));
        let message = "a line break was put before the `/` at the start";
        notes.push(Diagnostic::new(diagnostics::AGENT_TEXT_ESCAPED, message).with_count(1));
    }
    (text, notes)
}

/// Returns where an `@` stands before the name of something in the workspace.
fn expanded_ats(prompt: &str, cwd: &Path) -> Vec<usize> {
    let unescaped = memchr_iter(b'@', prompt.as_bytes())
        .filter(|&at| at == 0 || prompt.as_bytes()[at - 1] != b'\\');
    let ats: Vec<usize> = unescaped.collect();
    if ats.len() > MOST_LOOKUPS {
        return ats;
    }
    let workspace = cwd.canonicalize().unwrap_or_else(|_| cwd.to_owned());
    let names_a_file = |at: usize| {
        let name = path_after(&prompt[at + 1..]);
        let plain: String = name.replace('"', "");
        let unescaped: String = plain.replace('\\', "");
        [plain, unescaped].iter().any(|name| {
            !name.is_empty()
                && cwd.join(name).canonicalize().is_ok_and(|path| path.starts_with(&workspace))
        })
    };
    ats.into_iter().filter(|&at| names_a_file(at)).collect()
}

/// Returns the path that the program would read behind an `@`: up to white space or punctuation, with
/// quotations and escaped characters whole.
fn path_after(text: &str) -> &str {
    let mut chars = text.char_indices().peekable();
    while let Some((index, c)) = chars.next() {
        match c {
            '"' => {
                let Some(length) = text[index + 1..].find('"') else {
                    continue;
                };
                while chars.next_if(|&(i, _)| i <= index + 1 + length).is_some() {}
            }
            '\\' => {
                chars.next();
            }
            ' ' | '\t' | '\n' | '\r' | ',' | ';' | '!' | '?' | '(' | ')' | '[' | ']' | '{'
            | '}' => {
                return &text[..index];
            }
            '.' => {
                let next = chars.peek().map(|&(_, c)| c);
                if next.is_none_or(|c| matches!(c, ' ' | '\t' | '\n' | '\r')) {
                    return &text[..index];
                }
            }
            _ => {}
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_program_would_act_on_is_changed() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("src")).unwrap();
        std::fs::write(dir.path().join("secret.txt"), "x").unwrap();
        std::fs::write(dir.path().join("a b.txt"), "x").unwrap();
        for (prompt, sent) in [
            ("plain text", "plain text"),
            ("see @secret.txt.", "see \\@secret.txt."),
            ("me@secret.txt", "me\\@secret.txt"),
            ("see @\"a b.txt\" and @a\\ b.txt", "see \\@\"a b.txt\" and \\@a\\ b.txt"),
            ("all of (@src)", "all of (\\@src)"),
            ("see \\@secret.txt", "see \\@secret.txt"),
            ("hi @max, see @/etc/hostname", "hi @max, see @/etc/hostname"),
            ("/compact", "\n/compact"),
            ("// comment", "// comment"),
        ] {
            assert_eq!(inert(prompt, dir.path()).0, sent, "{prompt}");
            let changed = prompt != sent;
            assert_eq!(!inert(prompt, dir.path()).1.is_empty(), changed, "{prompt}");
        }
    }
}
