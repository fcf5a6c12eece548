//! The notes that Claude Code writes for itself, one MEMORY.md for each repository.

use std::path::Path;

use convoke_core::diagnostic::Diagnostic;

use super::loader::{Level, Loader};
use convoke_explain::LoadReason;
use convoke_explain::diagnostics;
use convoke_explain::place::{self, GitKind};

const MAX_LINES: usize = 200;
const MAX_LENGTH: usize = 25_000;

/// Loads the notes of the repository, all of whose worktrees and directories share them.
pub(super) fn load(loader: &mut Loader<'_>, repository: Option<&Path>) {
    if !loader.settings.has_memory {
        return;
    }
    let main = repository.and_then(|root| match place::git_kind(loader.files, root) {
        GitKind::Worktree(main) => Some(main),
        _ => None,
    });
    let project = main.as_deref().or(repository).unwrap_or(&loader.session.cwd);
    let key: String = project
        .to_string_lossy()
        .chars()
        .map(|character| if character.is_ascii_alphanumeric() { character } else { '-' })
        .collect();
    let directory = loader.settings.config_dir.join("projects").join(key);
    let path = directory.join("memory/MEMORY.md");
    let Some(cleaned) = loader.open(&path, Level::Managed) else {
        return;
    };
    loader.admit(&path, cleaned, LoadReason::Memory, 0);
    let Some(notes) = loader.report.loaded.last_mut() else {
        return;
    };
    let mut end = kept(&notes.text);
    // A remark of the program follows in a line of its own.
    end += usize::from(notes.text[end..].starts_with('\n'));
    let size = notes.bytes;
    if end < notes.text.len() {
        notes.text.truncate(end);
        notes.bytes_loaded = end as u64;
        notes.whole = false;
        let message = format!(
            "{} is cut after {end} of {size} bytes: {MAX_LINES} lines or {MAX_LENGTH} bytes are loaded",
            path.display()
        );
        let cut = Diagnostic::new(diagnostics::MEMORY_TRUNCATED, message)
            .with_bytes(size.saturating_sub(end as u64))
            .at_path(path.to_string_lossy());
        loader.report.diagnose(cut);
    } else {
        let message =
            format!("{} is loaded too: {size} bytes that Claude Code wrote", path.display());
        loader.report.warn(diagnostics::MEMORY_LOADED, &path, message);
    }
}

/// Returns the length that is kept of the notes: up to the last line that fits, if there is one.
fn kept(text: &str) -> usize {
    let mut lines = memchr::memchr_iter(b'\n', text.as_bytes());
    let end = lines.nth(MAX_LINES - 1).unwrap_or(text.len());
    let text = &text[..end];
    // The length is counted in UTF-16 units, as JavaScript counts.
    let mut units = 0;
    let over = text.char_indices().find(|(_, character)| {
        units += character.len_utf16();
        units > MAX_LENGTH
    });
    match over {
        None => end,
        Some((at, _)) => {
            let up_to = (at + 1).min(text.len());
            match memchr::memrchr(b'\n', &text.as_bytes()[..up_to]) {
                Some(newline) if newline > 0 => newline,
                _ => at,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_cut_after_two_hundred_lines_or_at_a_line_end_before_the_limit() {
        let many = "line\n".repeat(300);
        assert_eq!(kept(many.trim()), 200 * 5 - 1);
        assert_eq!(kept("short"), 5);
        assert_eq!(kept(&"x".repeat(30_000)), 25_000);
        let long = format!("head\n{}", "x".repeat(30_000));
        assert_eq!(kept(&long), 4);
        let lines = "0123456789\n".repeat(199);
        let lines = format!("{lines}{}", "y".repeat(30_000));
        assert_eq!(kept(&lines), 199 * 11 - 1);
        assert_eq!(kept(&"é".repeat(25_001)), 50_000);
    }
}
