//! The user's own repository, read only: commits, files as they were, and what differs from them.
//!
//! `git` reads it with the user's configuration, which may say that the directory is safe, and with none of the repository's commands:
//! filters and drivers that its configuration names are switched off.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::error::ChangesError;
use crate::git::{Deadline, Finished, Git, Host, Program, git_command};

/// The maximum bytes of the output of a command.
const MAX_OUTPUT: u64 = 256 << 20;
/// The maximum bytes of a file that is read from a commit.
const MAX_FILE: u64 = 64 << 20;
const TIME: Duration = Duration::from_mins(2);

/// A repository and its working tree.
#[derive(Debug, Clone)]
pub struct UsersRepository {
    program: Program,
    home: PathBuf,
    config: PathBuf,
    /// The top directory of the working tree, free of links.
    root: PathBuf,
    /// Settings that switch off commands of its configuration.
    overrides: Vec<OsString>,
}

/// A commit, as it is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commit {
    /// The beginning of its name.
    pub id: String,
    /// The first line of its message.
    pub subject: String,
}

/// A path that differs from a commit.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Changed {
    /// The path from the root.
    pub path: PathBuf,
    /// The path in the commit, if it had another.
    pub earlier: Option<PathBuf>,
    pub how: How,
}

/// How a path differs from a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum How {
    Added,
    Changed,
    Deleted,
    Moved,
}

impl UsersRepository {
    /// Finds the repository around a directory; `None` if there is none.
    pub fn find(host: &Host, directory: &Path) -> Result<Option<Self>, ChangesError> {
        let mut repository = Self {
            program: Program::find(&host.path, &[directory.to_owned()]),
            home: host.home.clone(),
            config: host.config.clone(),
            root: directory.to_owned(),
            overrides: Vec::new(),
        };
        let found = repository.run("rev-parse", &["--show-toplevel"])?;
        if !found.status.success() {
            // What git says of a directory without a repository, and of nothing else.
            let is_none = found.message.contains("not a git repository")
                || found.message.contains("must be run in a work tree");
            return if is_none { Ok(None) } else { Err(found.error("rev-parse")) };
        }
        let root = PathBuf::from(OsString::from_vec(found.stdout.trim_ascii_end().to_vec()));
        repository.program = Program::find(&host.path, std::slice::from_ref(&root));
        repository.root = root;
        repository.overrides = repository.commands_switched_off()?;
        Ok(Some(repository))
    }

    /// Returns the top directory of the working tree.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the full name of a commit; `None` if a revision names none.
    pub fn commit(&self, revision: &str) -> Result<Option<String>, ChangesError> {
        let revision = format!("{revision}^{{commit}}");
        let found =
            self.run("rev-parse", &["--verify", "--quiet", "--end-of-options", &revision])?;
        Ok(found.status.success().then(|| text(&found.stdout)))
    }

    /// Returns the best common ancestor of two commits; `None` if they have none.
    pub fn merge_base(&self, one: &str, other: &str) -> Result<Option<String>, ChangesError> {
        let found = self.run("merge-base", &[one, other])?;
        match found.status.code() {
            Some(0) => Ok(Some(text(&found.stdout))),
            Some(1) => Ok(None),
            _ => Err(found.error("merge-base")),
        }
    }

    /// Returns the branch from which others begin: that of the remote, else `main` or `master`.
    pub fn main_branch(&self) -> Result<Option<String>, ChangesError> {
        let found =
            self.run("rev-parse", &["--abbrev-ref", "--verify", "--quiet", "origin/HEAD"])?;
        let named = found.status.success().then(|| text(&found.stdout));
        let known = ["origin/main", "origin/master", "main", "master"].map(str::to_owned);
        for name in named.into_iter().chain(known) {
            if self.commit(&name)?.is_some() {
                return Ok(Some(name));
            }
        }
        Ok(None)
    }

    /// Returns a file as it was in a commit; `None` if the commit does not have it.
    pub fn file(&self, commit: &str, path: &Path) -> Result<Option<Vec<u8>>, ChangesError> {
        let mut object = OsString::from(format!("{commit}:"));
        object.push(path);
        let exists = self.run_with("cat-file", ["-e".into(), object.clone()])?;
        if !exists.status.success() {
            return Ok(None);
        }
        let read = self.run_with("cat-file", ["blob".into(), object])?;
        if !read.status.success() {
            return Err(read.error("cat-file"));
        }
        if read.stdout.len() as u64 > MAX_FILE {
            let message = format!("{} is larger than {MAX_FILE} bytes", path.display());
            return Err(ChangesError::Git { command: "cat-file", message });
        }
        Ok(Some(read.stdout))
    }

    /// Returns the paths of a commit.
    pub fn files(&self, commit: &str) -> Result<Vec<PathBuf>, ChangesError> {
        let listed = self.output("ls-tree", &["-r", "-z", "--name-only", "--full-tree", commit])?;
        Ok(paths(&listed).collect())
    }

    /// Returns what differs between a commit and the working tree, new files that are not ignored included, sorted by path.
    pub fn changed_since(&self, commit: &str) -> Result<Vec<Changed>, ChangesError> {
        let plain = ["--no-ext-diff", "--no-textconv", "--ignore-submodules=dirty"];
        let mut arguments = vec!["--name-status", "-z", "-M", "--no-color"];
        arguments.extend(plain);
        arguments.extend([commit, "--"]);
        let mut changed = statuses(&self.output("diff", &arguments)?);
        let others =
            self.output("ls-files", &["-z", "--others", "--exclude-standard", "--full-name"])?;
        let new = paths(&others);
        changed.extend(new.map(|path| Changed { path, earlier: None, how: How::Added }));
        changed.sort();
        Ok(changed)
    }

    /// Returns the last commit that changed a path; `None` if no commit did.
    pub fn last_change(&self, path: &Path) -> Result<Option<Commit>, ChangesError> {
        self.log(&["-1".into(), "HEAD".into(), "--".into(), path.into()]).map(|mut it| it.pop())
    }

    /// Returns the commits that one commit has and another has not, the newest first, each with its whole message as the subject.
    pub fn messages_since(&self, base: &str) -> Result<Vec<String>, ChangesError> {
        let range = format!("{base}..HEAD");
        let arguments =
            ["--format=%an <%ae>%n%cn <%ce>%n%B", "-z", "--max-count=200", &range, "--"];
        let log = self.output("log", &arguments)?;
        let messages = log.split(|byte| *byte == 0).filter(|it| !it.is_empty());
        Ok(messages.map(|it| String::from_utf8_lossy(it).into_owned()).collect())
    }

    /// Returns the commit that wrote a line of a file as it is in the working tree; `None` if no commit has it yet.
    pub fn line_written_by(&self, path: &Path, line: u64) -> Result<Option<Commit>, ChangesError> {
        let range = format!("{line},{line}");
        let mut arguments: Vec<OsString> =
            ["--porcelain", "--no-textconv", "-L", &range, "--"].map(OsString::from).into();
        arguments.push(path.into());
        let found = self.run_with("blame", arguments)?;
        if !found.status.success() {
            return Ok(None);
        }
        let blamed = String::from_utf8_lossy(&found.stdout).into_owned();
        let id = blamed.split(' ').next().unwrap_or_default();
        if id.is_empty() || id.bytes().all(|it| it == b'0') {
            return Ok(None);
        }
        self.log(&["-1".into(), id.into(), "--".into()]).map(|mut it| it.pop())
    }

    fn log(&self, arguments: &[OsString]) -> Result<Vec<Commit>, ChangesError> {
        let mut all: Vec<OsString> = vec!["--format=%h%x00%s".into(), "--abbrev=12".into()];
        all.extend_from_slice(arguments);
        let found = self.run_with("log", all)?;
        if !found.status.success() {
            // A repository without a commit.
            return Ok(Vec::new());
        }
        let lines = String::from_utf8_lossy(&found.stdout).into_owned();
        let commits = lines.lines().filter_map(|line| line.split_once('\0'));
        Ok(commits.map(|(id, it)| Commit { id: id.to_owned(), subject: it.to_owned() }).collect())
    }

    /// Returns settings that switch off the filters and drivers of the repository's configuration.
    fn commands_switched_off(&self) -> Result<Vec<OsString>, ChangesError> {
        let listed = self.output("config", &["--list", "--name-only", "-z"])?;
        let mut overrides = Vec::new();
        for name in listed.split(|byte| *byte == 0) {
            let lower = name.to_ascii_lowercase();
            let is_of =
                |section: &[u8], key: &[u8]| lower.starts_with(section) && lower.ends_with(key);
            let value: &[u8] = match () {
                () if is_of(b"filter.", b".required") => b"false",
                () if is_of(b"filter.", b".clean")
                    || is_of(b"filter.", b".smudge")
                    || is_of(b"filter.", b".process")
                    || is_of(b"diff.", b".command")
                    || is_of(b"diff.", b".textconv") =>
                {
                    b""
                }
                () => continue,
            };
            overrides.push(OsString::from("-c"));
            overrides.push(OsString::from_vec([name, b"=", value].concat()));
        }
        Ok(overrides)
    }

    fn output(&self, name: &'static str, arguments: &[&str]) -> Result<Vec<u8>, ChangesError> {
        let finished = self.run(name, arguments)?;
        if finished.status.success() { Ok(finished.stdout) } else { Err(finished.error(name)) }
    }

    fn run(&self, name: &'static str, arguments: &[&str]) -> Result<Finished, ChangesError> {
        self.run_with(name, arguments.iter().map(OsString::from))
    }

    fn run_with(
        &self,
        name: &'static str,
        arguments: impl IntoIterator<Item = OsString>,
    ) -> Result<Finished, ChangesError> {
        let mut command = self.command();
        command.arg(name).args(arguments);
        Git::run(command, name, Vec::new(), MAX_OUTPUT, Deadline::within(TIME))
    }

    fn command(&self) -> Command {
        let mut command = git_command(self.program.file(), self.program.path());
        command
            .env("HOME", &self.home)
            .env("XDG_CONFIG_HOME", &self.config)
            .current_dir(&self.root)
            .args(["--no-pager", "-c", "log.showSignature=false", "-c", "core.quotePath=false"])
            .args(&self.overrides);
        command
    }
}

fn text(output: &[u8]) -> String {
    String::from_utf8_lossy(output).trim().to_owned()
}

fn paths(output: &[u8]) -> impl Iterator<Item = PathBuf> {
    let names = output.split(|byte| *byte == 0).filter(|name| !name.is_empty());
    names.map(|name| PathBuf::from(std::ffi::OsStr::from_bytes(name)))
}

/// Parses the output of `diff --name-status -z`.
fn statuses(output: &[u8]) -> Vec<Changed> {
    let mut fields = output.split(|byte| *byte == 0).filter(|field| !field.is_empty());
    let mut changed = Vec::new();
    while let Some(status) = fields.next() {
        let mut path = || fields.next().map(|it| PathBuf::from(std::ffi::OsStr::from_bytes(it)));
        let Some(first) = path() else { break };
        changed.push(match status.first() {
            Some(b'A') => Changed { path: first, earlier: None, how: How::Added },
            Some(b'D') => Changed { path: first, earlier: None, how: How::Deleted },
            Some(b'R' | b'C') => {
                let Some(path) = path() else { break };
                Changed { path, earlier: Some(first), how: How::Moved }
            }
            _ => Changed { path: first, earlier: None, how: How::Changed },
        });
    }
    changed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_have_one_path_or_two() {
        let output = b"M\0a b\0R100\0old\0new\0D\0gone\0A\0here\0";
        let found = statuses(output);
        let shown: Vec<String> = found
            .iter()
            .map(|it| format!("{:?} {} {:?}", it.how, it.path.display(), it.earlier))
            .collect();
        assert_eq!(
            shown,
            ["Changed a b None", "Moved new Some(\"old\")", "Deleted gone None", "Added here None"]
        );
    }
}
