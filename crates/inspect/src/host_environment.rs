//! The environment of a program: variables, home and working directory.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// The environment of a program.
#[derive(Debug, Clone)]
pub struct HostEnvironment {
    /// The variables.
    pub environment: BTreeMap<OsString, OsString>,
    /// The user's home directory.
    pub home: PathBuf,
    /// The working directory.
    pub cwd: PathBuf,
}

impl HostEnvironment {
    /// Returns a variable of the environment that is set and not empty.
    pub fn variable(&self, name: &str) -> Option<&OsStr> {
        let value = self.environment.get(OsStr::new(name))?;
        (!value.is_empty()).then_some(value.as_os_str())
    }

    /// Returns the newest version of Landlock to use, where a variable limits it to test older kernels.
    pub fn newest_landlock(&self) -> Option<u8> {
        self.variable("CONVOKE_LANDLOCK_ABI")?.to_str()?.parse().ok()
    }

    /// Returns every executable file of this name on the `PATH`, in its order.
    pub fn programs(&self, name: &str) -> Vec<PathBuf> {
        let path = self.variable("PATH").unwrap_or_default();
        let candidates = std::env::split_paths(path).map(|directory| directory.join(name));
        let mut found: Vec<PathBuf> = candidates.filter(|path| is_executable(path)).collect();
        found.dedup();
        found
    }

    /// Returns a program on the `PATH` that does not lie in the working directory, where an agent could have put it: it
    /// would run outside of the agent's sandbox.
    pub fn program_elsewhere(&self, name: &str) -> Option<PathBuf> {
        let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let cwd = real(&self.cwd);
        let is_in_cwd = |path: &Path| real(path).starts_with(&cwd);
        let is_elsewhere = |path: &PathBuf| {
            path.is_absolute() && !is_in_cwd(path) && !path.parent().is_some_and(is_in_cwd)
        };
        self.programs(name).into_iter().find(is_elsewhere)
    }

    /// Returns a program as a shell would find it: by its path, or by its name on the `PATH`.
    pub fn program(&self, name: &OsStr) -> Option<PathBuf> {
        if Path::new(name).components().count() > 1 {
            let path = self.cwd.join(name);
            return is_executable(&path).then_some(path);
        }
        self.programs(name.to_str()?).into_iter().next()
    }
}

fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    std::fs::metadata(path)
        .is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}
