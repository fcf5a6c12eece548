//! What a project may not tell Gemini CLI before the user trusts its directory.
//!
//! The program runs in no directory that it does not trust itself, and in one that it trusts it follows
//! settings that can run commands, and takes every variable that a `.env` sets: its own address and key
//! among them. Settings cannot be held back, so the turn is refused. A variable can: the program takes
//! none that is set already, so those that the user has not set are set to nothing.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use convoke_core::Diagnostic;
use convoke_files::{Disk, FileKind, Files};

use crate::adapter::{Context, NESTED};
use crate::diagnostics;
use crate::env_file;
use crate::verdict::{Failure, FailureReason};

/// What is followed in a workspace and cannot be held back.
const FOLLOWED: &[&str] = &[".gemini/settings.json", ".gemini/commands", ".gemini/policies"];

/// A `.env` with more names than this is none that a person wrote, and is refused.
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
        let found: BTreeSet<&str> = env_file::names(&text).collect();
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
        Ok(file) if !file.is_file() || file.len() > FileKind::Variables.limit() => {
            Err(untrusted(path))
        }
        Ok(_) => match Disk.read(path, FileKind::Variables) {
            Ok(text) => Ok(Some(String::from_utf8_lossy(&text).into_owned())),
            // It has grown since.
            Err(error) if error.kind() == ErrorKind::FileTooLarge => Err(untrusted(path)),
            Err(_) => Ok(None),
        },
        Err(_) => Ok(None),
    }
}

fn untrusted(path: &Path) -> Failure {
    let path = path.display();
    let message = format!(
        "gemini would follow `{path}`; read it, then trust the directory with `convoke trust`"
    );
    Failure::new(FailureReason::Untrusted, message)
}
