//! What a project may not tell Gemini CLI before the user trusts its directory.
//!
//! The program runs in no directory that it does not trust itself, and in one that it trusts it follows
//! settings that can run commands, and takes every variable that a `.env` sets: its own address and key
//! among them. Settings cannot be held back, so the turn is refused. A variable can: the program takes
//! none that is set already, so those that the user has not set are set to nothing.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use convoke_core::Diagnostic;

use crate::adapter::{Context, NESTED};
use crate::diagnostics;
use crate::verdict::{Failure, Reason};

/// What is followed in a workspace and cannot be held back.
const FOLLOWED: &[&str] = &[".gemini/settings.json", ".gemini/commands", ".gemini/policies"];

/// A `.env` over this is none that a person wrote, and is refused.
const MOST_BYTES: u64 = 1 << 20;
/// So is one with more names than this.
const MOST_NAMES: usize = 1000;

/// What keeps a project's variables from the program.
#[derive(Debug, Default)]
pub(super) struct Withheld {
    /// Variables to set, so that the program does not take them from the project.
    pub variables: Vec<(OsString, OsString)>,
    /// What the user should know about it.
    pub diagnostics: Vec<Diagnostic>,
}

/// Holds back what can be held back, and refuses the turn where something cannot.
pub(super) fn withhold(context: &Context<'_>) -> Result<Withheld, Failure> {
    let cwd = real(&context.turn_input.cwd);
    if let Some(path) = FOLLOWED.iter().map(|name| cwd.join(name)).find(|path| path.exists()) {
        return Err(untrusted(&path));
    }
    let mut withheld = Withheld::default();
    let mut names = BTreeSet::new();
    for path in project_env_files(context, &cwd) {
        let Some(text) = read(&path)? else { continue };
        let found: BTreeSet<&str> = names_in(&text).collect();
        if found.is_empty() {
            continue;
        }
        // One that the program is told to take in place of another is not looked for by its name.
        let in_cloud_shell = context.variable("CLOUD_SHELL").is_some_and(|value| value == "true");
        if found.len() > MOST_NAMES || (in_cloud_shell && found.contains("GOOGLE_CLOUD_PROJECT")) {
            return Err(untrusted(&path));
        }
        let message = format!(
            "gemini does not take the variables of `{}` until the directory is trusted",
            path.display()
        );
        let count = found.len() as u64;
        withheld
            .diagnostics
            .push(Diagnostic::new(diagnostics::AGENT_SETTING_REFUSED, message).with_count(count));
        names.extend(found.into_iter().map(str::to_owned));
    }
    let is_set = |name: &str| context.variable(name).is_some() && !NESTED.contains(&name);
    let unset = names.into_iter().filter(|name| !is_set(name));
    withheld.variables = unset.map(|name| (name.into(), OsString::new())).collect();
    Ok(withheld)
}

/// Returns the files that the program could take variables from and that are not the user's own: it
/// looks in the working directory and in all above it. What stands in the home itself is the user's,
/// unless it is the directory in question.
fn project_env_files(context: &Context<'_>, cwd: &Path) -> Vec<PathBuf> {
    let home = context.variable("HOME").map(|home| real(Path::new(home)));
    let is_users = |dir: &Path| dir != cwd && home.as_deref() == Some(dir);
    let above = cwd.ancestors().filter(|dir| !is_users(dir));
    above.flat_map(|dir| [dir.join(".gemini/.env"), dir.join(".env")]).collect()
}

fn real(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

/// Reads a file, if there is one that the program could read too.
fn read(path: &Path) -> Result<Option<String>, Failure> {
    match path.metadata() {
        Ok(file) if !file.is_file() || file.len() > MOST_BYTES => Err(untrusted(path)),
        Ok(_) => {
            Ok(std::fs::read(path).ok().map(|text| String::from_utf8_lossy(&text).into_owned()))
        }
        Err(_) => Ok(None),
    }
}

/// Returns every name that a `.env` could set: what stands at the beginning of a line, or behind
/// `export`, and before `=` or `:`. The program sees fewer, because some stand inside of values; to
/// withhold one that it does not see does no harm.
fn names_in(text: &str) -> impl Iterator<Item = &str> {
    text.match_indices(['=', ':']).filter_map(|(at, _)| {
        // White space here may hold line breaks.
        let before = text[..at].trim_end_matches(is_space);
        let line_and_name = before.trim_end_matches(is_name);
        let name = &before[line_and_name.len()..];
        let line = line_and_name.rsplit(LINE_ENDS).next().unwrap_or_default();
        let line = line.trim_matches(is_space);
        (!name.is_empty() && matches!(line, "" | "export")).then_some(name)
    })
}

const LINE_ENDS: [char; 4] = ['\n', '\r', '\u{2028}', '\u{2029}'];

fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-')
}

/// Returns whether the program takes a character for white space.
fn is_space(c: char) -> bool {
    c.is_whitespace() || c == '\u{feff}'
}

fn untrusted(path: &Path) -> Failure {
    let path = path.display();
    let message = format!(
        "gemini would follow `{path}`; read it, then trust the directory with `convoke trust`"
    );
    Failure::new(Reason::Untrusted, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_that_could_be_set_is_found() {
        for (text, names) in [
            ("A=1\nexport B = 2\n", vec!["A", "B"]),
            ("\u{feff}A: 1\r  C.d-e=x", vec!["A", "C.d-e"]),
            ("A\u{feff}\n=1", vec!["A"]),
            ("X=\"one\nY=two\"\u{2028}Z=3", vec!["X", "Y", "Z"]),
            ("URL=http://h?a=b # and c=d", vec!["URL"]),
            ("# A=1\n\n  # B: 2\nwords alone", vec![]),
            ("=1\né=2", vec![]),
        ] {
            assert_eq!(names_in(text).collect::<Vec<_>>(), names, "{text}");
        }
    }
}
