//! Finds an agent's program.

use std::path::{Path, PathBuf};

use convoke_protocol::verdict::Failure;

use super::{Context, start_failure};
use crate::search_path::{SearchPath, is_executable};

/// Returns the path of the program: as configured, else the first on `PATH` that is not in the project.
pub(super) fn find(context: &Context<'_>) -> Result<PathBuf, Failure> {
    let name = context.definition.program();
    if context.definition.needs_command() {
        let kind = context.definition.kind.name();
        return Err(start_failure(format!("the agent `{kind}` needs a `command`")));
    }
    let cwd = &context.turn_input.cwd;
    if name.contains('/') {
        let path = cwd.join(name);
        return if is_executable(&path) {
            Ok(path)
        } else {
            Err(start_failure(format!("`{name}` is not an executable file")))
        };
    }
    let path = context.variable("PATH").unwrap_or_default();
    let home = context.variable("HOME").map(Path::new);
    let outside = SearchPath::outside_project(path, cwd, home);
    outside.programs(name).into_iter().next().ok_or_else(|| {
        let inside = std::env::split_paths(path).map(|directory| directory.join(name));
        let mut inside = inside.filter(|program| program.is_absolute() && is_executable(program));
        start_failure(match inside.next() {
            Some(program) => format!(
                "`{}` is in the project, where an agent could have put it, and is not run; install `{name}` \
                 elsewhere, or name it by its path as `command` in agents.toml",
                program.display()
            ),
            None => format!("`{name}` not found on PATH; is it installed?"),
        })
    })
}
