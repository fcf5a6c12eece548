//! The search path for programs that Convoke starts by name.
//!
//! A directory of the project on `PATH` (`.venv/bin`, `node_modules/.bin`) may contain programs that an agent
//! put there. They are not started, because they would run without that agent's sandbox, or with that of
//! another member.

use std::ffi::{OsStr, OsString};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use convoke_files::{Disk, git};

/// The directories of a search path, without those in a project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchPath {
    directories: Vec<PathBuf>,
    /// The project's path as given, and without links; `None` if the working directory is the home or above it.
    project: Option<[PathBuf; 2]>,
}

impl SearchPath {
    /// Returns the absolute directories of `path` outside the project around a working directory.
    pub fn outside_project(path: &OsStr, cwd: &Path, home: Option<&Path>) -> Self {
        let root = git::project_root(&Disk, cwd, home).unwrap_or_else(|| cwd.to_owned());
        let is_home =
            home.is_some_and(|home| home.starts_with(&root) || home.starts_with(real(&root)));
        let project = (!is_home).then(|| [root.clone(), real(&root)]);
        let all = std::env::split_paths(path).filter(|directory| directory.is_absolute());
        let mut found = Self { directories: Vec::new(), project };
        found.directories = all.filter(|directory| !found.is_in_project(directory)).collect();
        found
    }

    /// Returns every program with this name, in order. Links into the project are skipped.
    pub fn programs(&self, name: &str) -> Vec<PathBuf> {
        let candidates = self.directories.iter().map(|directory| directory.join(name));
        let mut found: Vec<PathBuf> =
            candidates.filter(|path| is_executable(path) && !self.is_in_project(path)).collect();
        found.dedup();
        found
    }

    /// Returns the value of `PATH` for programs that run outside a sandbox.
    pub fn to_variable(&self) -> OsString {
        std::env::join_paths(&self.directories).unwrap_or_default()
    }

    fn is_in_project(&self, path: &Path) -> bool {
        let real = real(path);
        self.project.iter().flatten().any(|it| path.starts_with(it) || real.starts_with(it))
    }
}

/// Returns whether a file is executable.
pub fn is_executable(path: &Path) -> bool {
    path.metadata().is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

fn real(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_program_in_the_project_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let program = |path: &str| {
            let path = root.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, "#!/bin/sh\n").unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
            path
        };
        let cwd = root.join("home/shop/sub");
        program("home/shop/bin/x");
        let own = program("home/.local/bin/x");
        std::fs::create_dir_all(root.join("home/shop/.git")).unwrap();
        std::fs::write(root.join("home/shop/.git/HEAD"), "ref: refs/heads/main\n").unwrap();
        std::fs::create_dir_all(&cwd).unwrap();
        let links = root.join("links");
        std::fs::create_dir(&links).unwrap();
        std::os::unix::fs::symlink(root.join("home/shop/bin/x"), links.join("x")).unwrap();
        std::os::unix::fs::symlink(root.join("home/shop/bin"), root.join("linked")).unwrap();
        let entries =
            ["home/shop/bin", "linked", "links", "home/.local/bin"].map(|it| root.join(it));
        let path =
            std::env::join_paths(entries.iter().map(PathBuf::as_path).chain([Path::new("bin")]));
        let path = path.unwrap();
        let home = root.join("home");
        let found = SearchPath::outside_project(&path, &cwd, Some(&home));
        assert_eq!(found.programs("x"), std::slice::from_ref(&own));
        let variable = found.to_variable();
        let kept: Vec<PathBuf> = std::env::split_paths(&variable).collect();
        assert_eq!(kept, [links, root.join("home/.local/bin")]);
        // In the home directory, everything would be in the working directory.
        let at_home = SearchPath::outside_project(&path, &home, Some(&home));
        assert!(at_home.programs("x").contains(&own));
    }
}
