//! The text that `GEMINI_SYSTEM_MD` puts in the place of the program's own system text.

use std::path::{Path, PathBuf};

use convoke_agent::env_file;
use convoke_explain::Session;
use convoke_files::{FileKind, Files, absolute};

/// The variable that switches it on, or names its file.
pub(super) const VARIABLE: &str = "GEMINI_SYSTEM_MD";

/// The file in the working directory that is read when the variable names none.
const DEFAULT: &str = ".gemini/system.md";

/// The place in a text at which the list of skills is written.
const SKILLS: &str = "${AgentSkills}";

/// A system text of the user's.
#[derive(Debug)]
pub(super) struct SystemText(String);

impl SystemText {
    /// Returns what keeps the skills out of it.
    pub(super) fn without_skills(&self) -> Option<&'static str> {
        (!self.0.contains(SKILLS)).then_some(VARIABLE)
    }
}

/// Reads the text in the place of the program's own, if there is one. Fails with its path.
pub(super) fn replaced(
    files: &dyn Files,
    session: &Session,
) -> Option<Result<SystemText, PathBuf>> {
    let value = match session.variables.get(VARIABLE) {
        Some(value) => value.clone(),
        None => env_file::value(&variables_file(files, session)?, VARIABLE)?,
    };
    let value = value.trim();
    let path = match value.to_ascii_lowercase().as_str() {
        "" | "0" | "false" => return None,
        "1" | "true" => session.cwd.join(DEFAULT),
        _ => match value.strip_prefix("~/") {
            Some(below_home) => session.home.join(below_home),
            None => absolute(&session.cwd, Path::new(value)),
        },
    };
    Some(files.read_text(&path, FileKind::Instructions).map(SystemText).map_err(|_| path))
}

/// Returns the text of the `.env` file that the program loads: the first from the working directory upwards, then in the
/// home.
fn variables_file(files: &dyn Files, session: &Session) -> Option<String> {
    let directories = session.cwd.ancestors().chain([session.home.as_path()]);
    let mut paths = directories.flat_map(|it| [it.join(".gemini/.env"), it.join(".env")]);
    let path = paths.find(|path| files.kind(path).is_ok())?;
    files.read_text(&path, FileKind::Variables).ok()
}
