//! The facts about this machine and its user that requests depend on.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use convoke_files::{Disk, absolute};
use convoke_thread::config::Machine;
use convoke_thread::environment::shell_name;
use nix::unistd::{Uid, User};

use crate::outcome::UsageError;

/// Directories that are searched for shells in addition to `PATH`.
const SHELL_FOLDERS: [&str; 4] = ["/bin", "/usr/bin", "/usr/local/bin", "/opt/homebrew/bin"];

/// Reads the facts of this machine. `codex_home` holds the user's own instructions, skills and settings;
/// `login_shell` overrides the shell of the user database.
pub fn of_process(codex_home: PathBuf, login_shell: Option<&Path>) -> anyhow::Result<Machine> {
    let cwd = std::env::current_dir().context("cannot determine the working directory")?;
    let user = User::from_uid(Uid::current()).ok().flatten();
    let login_shell = login_shell.or(user.as_ref().map(|user| user.shell.as_path()));
    let mut search_path: Vec<PathBuf> =
        variable("PATH").map(|it| std::env::split_paths(&it).collect()).unwrap_or_default();
    search_path.extend(SHELL_FOLDERS.map(PathBuf::from));
    Ok(Machine {
        codex_home,
        shell: shell_name(&Disk, login_shell, &search_path).to_owned(),
        tmpdir: variable("TMPDIR").map(PathBuf::from),
        openai_base_url: variable("OPENAI_BASE_URL").and_then(|it| it.into_string().ok()),
        home: home(),
        cwd,
    })
}

/// Returns the user's home directory.
pub fn home() -> Option<PathBuf> {
    let named = variable("HOME").map(PathBuf::from);
    named.or_else(|| User::from_uid(Uid::current()).ok().flatten().map(|user| user.dir))
}

/// Returns Codex's home directory. Like Codex, requires that an explicitly named one exists.
pub fn codex_home(given: Option<&Path>) -> anyhow::Result<PathBuf> {
    let cwd = std::env::current_dir().context("cannot determine the working directory")?;
    let from_environment = variable("CODEX_HOME").map(PathBuf::from);
    let (named, by) = match (given, from_environment) {
        (Some(given), _) => (absolute(&cwd, given), "--codex-home"),
        (None, Some(named)) => (absolute(&cwd, &named), "CODEX_HOME"),
        (None, None) => {
            let missing = || UsageError("HOME is not set; pass --codex-home DIR".to_owned());
            return Ok(home().map(|home| home.join(".codex")).ok_or_else(missing)?);
        }
    };
    // Codex resolves links in an explicitly named home, and the result appears in skill paths.
    let found = named.canonicalize().ok().filter(|found| found.is_dir());
    let missing = || UsageError(format!("{by}: {} is not a directory", named.display()));
    Ok(found.ok_or_else(missing)?)
}

fn variable(name: &str) -> Option<std::ffi::OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}
