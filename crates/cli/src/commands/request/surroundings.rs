//! The machine and its user, as far as a request depends on them.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use convoke_thread::config::Machine;
use convoke_thread::environment::shell_name;
use convoke_thread::files::{Disk, absolute};
use nix::unistd::{Uid, User};

use super::Arguments;
use crate::outcome::UsageError;

/// Where shells are looked for beside `PATH`.
const SHELL_FOLDERS: [&str; 4] = ["/bin", "/usr/bin", "/usr/local/bin", "/opt/homebrew/bin"];

/// Asks the system about itself.
pub(super) fn machine(arguments: &Arguments) -> anyhow::Result<Machine> {
    let cwd = std::env::current_dir().context("the working directory is gone")?;
    let user = User::from_uid(Uid::current()).ok().flatten();
    let home = variable("HOME").map(PathBuf::from);
    let home = home.or_else(|| user.as_ref().map(|user| user.dir.clone()));
    let given = arguments.shell.as_deref();
    let login_shell = given.or(user.as_ref().map(|user| user.shell.as_path()));
    let mut search_path: Vec<PathBuf> =
        variable("PATH").map(|it| std::env::split_paths(&it).collect()).unwrap_or_default();
    search_path.extend(SHELL_FOLDERS.map(PathBuf::from));
    Ok(Machine {
        codex_home: codex_home(arguments.codex_home.as_deref(), home.as_deref(), &cwd)?,
        shell: shell_name(&Disk, login_shell, &search_path).to_owned(),
        tmpdir: variable("TMPDIR").map(PathBuf::from),
        openai_base_url: variable("OPENAI_BASE_URL").and_then(|it| it.into_string().ok()),
        home,
        cwd,
    })
}

/// A home that was named must be there, as in Codex; the default one need not.
fn codex_home(
    given: Option<&Path>,
    home: Option<&Path>,
    cwd: &Path,
) -> Result<PathBuf, UsageError> {
    let from_environment = variable("CODEX_HOME").map(PathBuf::from);
    let (named, by) = match (given, from_environment) {
        (Some(given), _) => (absolute(cwd, given), "--codex-home"),
        (None, Some(named)) => (absolute(cwd, &named), "CODEX_HOME"),
        (None, None) => {
            let missing = || UsageError("HOME is not set; name --codex-home DIR".to_owned());
            return home.map(|home| home.join(".codex")).ok_or_else(missing);
        }
    };
    // Codex resolves the links of a home that is named, and shows the result in skill paths.
    let found = named.canonicalize().ok().filter(|found| found.is_dir());
    found.ok_or_else(|| UsageError(format!("{by}: {} is no directory", named.display())))
}

fn variable(name: &str) -> Option<std::ffi::OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}
