//! Finds an agent's program.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::{Context, start_failure};
use crate::verdict::Failure;

/// Returns the path of the program: as configured, else the first on `PATH`.
pub(super) fn find(context: &Context<'_>) -> Result<PathBuf, Failure> {
    let name = context.definition.program();
    if context.definition.needs_command() {
        let kind = context.definition.kind.name();
        return Err(start_failure(format!("the agent `{kind}` needs a `command`")));
    }
    if name.contains('/') {
        let path = context.turn_input.cwd.join(name);
        return if is_program(&path) {
            Ok(path)
        } else {
            Err(start_failure(format!("`{name}` is not an executable file")))
        };
    }
    let path = context.variable("PATH").unwrap_or_default();
    std::env::split_paths(path)
        // A relative directory on PATH could contain the project's programs.
        .filter(|dir| dir.is_absolute())
        .map(|dir| dir.join(name))
        .find(|file| is_program(file))
        .ok_or_else(|| start_failure(format!("`{name}` not found on PATH; is it installed?")))
}

fn is_program(path: &Path) -> bool {
    path.metadata().is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}
