//! The files of a project. Links out of an untrusted project are not followed, and links to the user's secrets
//! and to files of the kernel never are. Each file is opened once, and what was opened is checked. Otherwise a project, or a member that changes it, could send any of the user's files to a model.
//!
//! A project is the repository around the working directory, or just that directory. Instruction files above it
//! are read too, because for Codex any `.git` marks a root; links there may not leave their own directory.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use convoke_agent::sandbox::Secrets;
use convoke_agent::turn_input::Trust;
use convoke_core::{Code, Diagnostic};
use convoke_files::{Disk, EntryKind, Files, Head, OpenedFile, git};
use convoke_redact::Redactor;

use crate::diagnostics;
use crate::redacted::{self, MAX_SECRET_BYTES};

/// The directories in which the kernel describes itself and its processes.
const KERNELS: [&str; 2] = ["/proc", "/sys"];

/// The files that a project may refer to.
#[derive(Debug)]
pub(crate) struct ProjectFiles {
    /// The project, if it is untrusted.
    confined_to: Option<Project>,
    /// The user's configuration directory, which may be inside a project and contain links to anywhere.
    configuration: PathBuf,
    /// The known secrets, which are removed from all files.
    redactor: Redactor,
    /// The user's secrets. The working directory never counts as one.
    secrets: Secrets,
    cwd: PathBuf,
    /// The files that were not read, with the reason.
    refused: Mutex<BTreeMap<PathBuf, Code>>,
}

/// An untrusted project.
#[derive(Debug)]
struct Project {
    /// The real path.
    root: PathBuf,
    /// The path as derived from the working directory.
    spelt: PathBuf,
    /// The working directory as given, and its real path.
    cwd: [PathBuf; 2],
    home: Option<PathBuf>,
}

impl Project {
    fn new(cwd: &Path, home: Option<&Path>) -> Self {
        let real = cwd.canonicalize().unwrap_or_else(|_| cwd.to_owned());
        Self {
            root: root_of(&real, home),
            spelt: root_of(cwd, home),
            cwd: [cwd.to_owned(), real],
            home: home.map(Path::to_owned),
        }
    }

    /// Returns the real directory that a path must stay in; `None` for files that do not belong to the project:
    /// those in or above the home directory, and those outside the directories of the working directory.
    fn bounds(&self, path: &Path) -> Option<PathBuf> {
        if path.starts_with(&self.root) || path.starts_with(&self.spelt) {
            return Some(self.root.clone());
        }
        let shared = self.cwd.iter().flat_map(|cwd| cwd.ancestors());
        let shared = shared.filter(|above| path.starts_with(above));
        let shared = shared.max_by_key(|above| above.as_os_str().len())?;
        let is_users = self.home.as_ref().is_some_and(|home| home.starts_with(shared));
        if is_users || shared.parent().is_none() {
            return None;
        }
        Some(shared.canonicalize().unwrap_or_else(|_| shared.to_owned()))
    }
}

impl ProjectFiles {
    /// Opens the project of a working directory: its repository, or just the directory.
    pub fn open(
        cwd: &Path,
        home: Option<&Path>,
        trust: Trust,
        configuration: PathBuf,
        redactor: Redactor,
    ) -> Self {
        let confined_to = match trust {
            Trust::Trusted => None,
            Trust::Untrusted => Some(Project::new(cwd, home)),
        };
        let (secrets, refused) = (Secrets::default(), Mutex::default());
        Self { confined_to, configuration, redactor, secrets, cwd: cwd.to_owned(), refused }
    }

    /// Refuses links to secrets.
    pub fn without(self, secrets: Secrets) -> Self {
        Self { secrets, ..self }
    }

    fn refused(&self) -> MutexGuard<'_, BTreeMap<PathBuf, Code>> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a diagnostic for each refused file.
    pub fn take_refused(&self) -> Vec<Diagnostic> {
        let refused = std::mem::take(&mut *self.refused());
        let diagnostic = |(path, code): (PathBuf, Code)| {
            let shown = path.display().to_string();
            let leads = if code == diagnostics::PROJECT_FILE_SECRET {
                "is a link to one of your secrets"
            } else if code == diagnostics::PROJECT_FILE_KERNEL {
                "is a link to a file of the kernel"
            } else {
                "is a link out of a project that is not trusted"
            };
            let message = format!("{shown} {leads}; it was not read");
            Diagnostic::new(code, message).at_path(shown)
        };
        refused.into_iter().map(diagnostic).collect()
    }

    /// Resolves a path. A link that must not be followed counts as missing.
    fn inside(&self, path: &Path) -> io::Result<PathBuf> {
        let real = path.canonicalize()?;
        self.check(path, &real)?;
        Ok(real)
    }

    /// Refuses a path by where it leads, and records it.
    fn check(&self, path: &Path, real: &Path) -> io::Result<()> {
        let is_kernels = KERNELS.iter().any(|kernels| real.starts_with(kernels));
        if path.starts_with(&self.configuration) && !is_kernels {
            return Ok(());
        }
        let bounds = self.confined_to.as_ref().and_then(|project| project.bounds(path));
        let code = if is_kernels {
            diagnostics::PROJECT_FILE_KERNEL
        } else if self.secrets.contain(real, &self.cwd) {
            diagnostics::PROJECT_FILE_SECRET
        } else if bounds.is_some_and(|bounds| !real.starts_with(bounds)) {
            diagnostics::PROJECT_FILE_OUTSIDE
        } else {
            return Ok(());
        };
        self.refused().insert(path.to_owned(), code);
        Err(io::ErrorKind::NotFound.into())
    }

    /// Returns whether a path leads outside, and records it. A dangling link does not count.
    fn is_refused(&self, path: &Path) -> bool {
        self.inside(path).is_err() && self.refused().contains_key(path)
    }
}

/// Returns the root of a directory's project: its repository, or just the directory.
pub fn root_of(cwd: &Path, home: Option<&Path>) -> PathBuf {
    git::project_root(&Disk, cwd, home).unwrap_or_else(|| cwd.to_owned())
}

impl Files for ProjectFiles {
    fn entry_kind(&self, path: &Path) -> io::Result<EntryKind> {
        // Counts as missing, so that it is not also reported as a dangling link.
        if self.is_refused(path) {
            return Err(io::ErrorKind::NotFound.into());
        }
        Disk.entry_kind(path)
    }

    fn kind(&self, path: &Path) -> io::Result<EntryKind> {
        Disk.kind(path)
    }

    fn read_head(&self, path: &Path, limit: u64) -> io::Result<Head> {
        let file = OpenedFile::open(path).inspect_err(|_| {
            // A file of the kernel is not opened, and is reported by its path.
            let _ = self.inside(path);
        })?;
        self.check(path, &file.real_path()?)?;
        if limit == 0 {
            return file.read_head(limit);
        }
        let head = file.read_head(limit.saturating_add(MAX_SECRET_BYTES))?;
        Ok(redacted::head(&self.redactor, head, limit))
    }

    fn names(&self, directory: &Path) -> io::Result<Vec<OsString>> {
        Disk.names(directory)
    }

    fn entries(&self, directory: &Path) -> io::Result<Vec<(OsString, EntryKind)>> {
        Disk.entries(directory)
    }

    fn canonicalize(&self, path: &Path) -> io::Result<PathBuf> {
        let inside = self.inside(path)?;
        Disk.canonicalize(&inside)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use convoke_files::FileKind;

    use super::*;

    #[test]
    fn a_git_above_that_is_not_the_projects_own_widens_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().canonicalize().unwrap();
        let project = home.join("work/project");
        fs::create_dir_all(&project).unwrap();
        fs::write(home.join("work/secret"), "a secret").unwrap();
        std::os::unix::fs::symlink("../secret", project.join("AGENTS.md")).unwrap();
        let link = project.join("AGENTS.md");
        let read = || {
            let trust = Trust::Untrusted;
            let files = ProjectFiles::open(
                &project,
                Some(&home),
                trust,
                home.join(".convoke"),
                Redactor::default(),
            );
            let text = files.read_text(&link, FileKind::Instructions).ok();
            (text, files.take_refused())
        };
        let is_refused = |why: &str| {
            let (text, refused) = read();
            assert_eq!(text, None, "{why}");
            assert_eq!(refused.len(), 1, "{why}");
            let path = link.display().to_string();
            assert_eq!(refused[0].path.as_deref(), Some(&*path), "{why}");
        };
        fs::create_dir(home.join("work/.git")).unwrap();
        is_refused("an empty .git");
        fs::remove_dir(home.join("work/.git")).unwrap();
        fs::write(home.join("work/.git"), "gitdir: nowhere").unwrap();
        is_refused("a .git that leads nowhere");
        fs::remove_file(home.join("work/.git")).unwrap();
        fs::create_dir(home.join(".git")).unwrap();
        fs::write(home.join(".git/HEAD"), "ref: refs/heads/main").unwrap();
        is_refused("the home directory as a repository");
        fs::create_dir(home.join("work/.git")).unwrap();
        fs::write(home.join("work/.git/HEAD"), "ref: refs/heads/main").unwrap();
        assert_eq!(read().0.as_deref(), Some("a secret"), "its own repository");
    }

    #[test]
    fn a_link_to_a_secret_is_read_in_no_project() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().canonicalize().unwrap();
        let project = home.join("project");
        fs::create_dir_all(&project).unwrap();
        for (name, text) in [(".ssh/id", "a key"), ("shared.md", "shared"), ("kube", "a token")] {
            fs::create_dir_all(home.join(name).parent().unwrap()).unwrap();
            fs::write(home.join(name), text).unwrap();
        }
        let link = |to: &str, at: &str| std::os::unix::fs::symlink(to, project.join(at)).unwrap();
        link("../.ssh/id", "AGENTS.md");
        link("../.ssh", "directory");
        link("../kube", "config");
        link("../shared.md", "shared.md");
        let kube = home.join("kube");
        for trust in [Trust::Trusted, Trust::Untrusted] {
            let variable = |name: &str| (name == "KUBECONFIG").then_some(kube.as_os_str());
            let secrets = Secrets::of_user(
                Some(&home),
                &project,
                variable,
                &[],
                convoke_agent::Programs::default(),
            );
            let files = ProjectFiles::open(
                &project,
                Some(&home),
                trust,
                home.join(".convoke"),
                Redactor::default(),
            )
            .without(secrets);
            let read =
                |name: &str| files.read_text(&project.join(name), FileKind::Instructions).ok();
            for name in ["AGENTS.md", "directory/id", "config"] {
                assert_eq!(read(name), None, "{name}");
                let refused = files.take_refused();
                assert_eq!(refused[0].code, diagnostics::PROJECT_FILE_SECRET, "{refused:?}");
            }
            let shared = (trust == Trust::Trusted).then_some("shared");
            assert_eq!(read("shared.md").as_deref(), shared, "{trust:?}");
        }
    }

    #[test]
    fn a_link_above_the_project_leads_no_further_than_its_own_directory() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().canonicalize().unwrap();
        let unpacked = home.join("downloads/unpacked");
        let cwd = unpacked.join("sub");
        fs::create_dir_all(&cwd).unwrap();
        fs::create_dir(unpacked.join(".git")).unwrap();
        fs::write(home.join("secret"), "a secret").unwrap();
        fs::write(unpacked.join("inside"), "inside").unwrap();
        let link = |to: &str, at: PathBuf| std::os::unix::fs::symlink(to, at).unwrap();
        link("../../secret", unpacked.join("AGENTS.md"));
        link("inside", unpacked.join("inner.md"));
        link("../..", unpacked.join(".agents"));
        link("secret", home.join("AGENTS.md"));
        let trust = Trust::Untrusted;
        let files = ProjectFiles::open(
            &cwd,
            Some(&home),
            trust,
            home.join(".convoke"),
            Redactor::default(),
        );
        let read = |path: PathBuf| files.read_text(&path, FileKind::Instructions).ok();
        assert_eq!(read(unpacked.join("AGENTS.md")), None);
        assert_eq!(read(unpacked.join(".agents/secret")), None);
        assert_eq!(files.take_refused().len(), 2);
        assert_eq!(read(unpacked.join("inner.md")).as_deref(), Some("inside"));
        // The user's own file in the home directory may be a link to anywhere.
        assert_eq!(read(home.join("AGENTS.md")).as_deref(), Some("a secret"));
        assert!(files.take_refused().is_empty());
    }
}
