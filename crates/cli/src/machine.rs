//! The machine and its user, as far as requests depend on them.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use convoke_files::{Disk, absolute};
use convoke_thread::config::Machine;
use convoke_thread::environment::shell_name;
use nix::unistd::{Uid, User};

use crate::outcome::UsageError;

/// Where shells are looked for beside `PATH`.
const SHELL_FOLDERS: [&str; 4] = ["/bin", "/usr/bin", "/usr/local/bin", "/opt/homebrew/bin"];

/// Asks the system about itself. `codex_home` is where the user's own documents, skills and settings
/// are; a login shell that is given stands for the one that the system knows.
pub fn of_process(codex_home: PathBuf, login_shell: Option<&Path>) -> anyhow::Result<Machine> {
    let cwd = std::env::current_dir().context("the working directory is gone")?;
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

/// Returns Codex's home. One that was named must be there, as in Codex; the default one need not.
pub fn codex_home(given: Option<&Path>) -> anyhow::Result<PathBuf> {
    let cwd = std::env::current_dir().context("the working directory is gone")?;
    let from_environment = variable("CODEX_HOME").map(PathBuf::from);
    let (named, by) = match (given, from_environment) {
        (Some(given), _) => (absolute(&cwd, given), "--codex-home"),
        (None, Some(named)) => (absolute(&cwd, &named), "CODEX_HOME"),
        (None, None) => {
            let missing = || UsageError("HOME is not set; name --codex-home DIR".to_owned());
            return Ok(home().map(|home| home.join(".codex")).ok_or_else(missing)?);
        }
    };
    // Codex resolves the links of a home that is named, and shows the result in skill paths.
    let found = named.canonicalize().ok().filter(|found| found.is_dir());
    let missing = || UsageError(format!("{by}: {} is no directory", named.display()));
    Ok(found.ok_or_else(missing)?)
}

fn variable(name: &str) -> Option<std::ffi::OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}
