//! The `git` program, started so that it records raw bytes and runs nothing else.
//!
//! The environment is empty but for `PATH` and the locale: no variable of the caller, no configuration of
//! the user or the system, no hook and no file system monitor reaches it. The repository is our own; `git` reads the working tree
//! of the user. The user's repository is read in `users_repository` alone.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use convoke_files::{Disk, Files as _};

use crate::error::ChangesError;
use crate::limits::Limits;

/// The bytes of an error message that are shown.
const MESSAGE_BYTES: u64 = 2_000;
/// The time limit of an undo or a merge.
const COMMAND_TIME: Duration = Duration::from_mins(10);
/// The time that storing a changed file adds to the limit of a recording. Some file systems need most of it.
const FILE_TIME: Duration = Duration::from_millis(2);
/// The time that all changed files add to it at most.
const MAX_FILES_TIME: Duration = Duration::from_secs(50);
/// The parts of the user's environment that recording reads.
#[derive(Debug, Clone)]
pub struct Host {
    /// The search path of programs.
    pub path: OsString,
    /// The home directory.
    pub home: PathBuf,
    /// The directory of user configuration, usually `~/.config`.
    pub config: PathBuf,
}

/// The settings of every command for the private repository.
const SETTINGS: [&str; 11] = [
    "core.autocrlf=false",
    "core.fileMode=true",
    "core.symlinks=true",
    "core.ignoreCase=false",
    "core.protectHFS=false",
    "core.protectNTFS=false",
    "core.bigFileThreshold=1m",
    "core.compression=1",
    "gc.auto=0",
    "maintenance.auto=false",
    "advice.addEmbeddedRepo=false",
];

/// Our repository and the working tree that a command reads.
#[derive(Debug, Clone)]
pub(crate) struct Git {
    search_path: OsString,
    /// The directories that agents write to.
    of_agents: Vec<PathBuf>,
    /// The program, once it was needed.
    program: OnceLock<Program>,
    /// The private repository.
    pub(crate) repository: PathBuf,
    /// The file of ignore patterns that lie outside a working tree.
    pub(crate) excludes: PathBuf,
}

/// Where the program is found.
#[derive(Debug, Clone)]
pub(crate) struct Program {
    /// The absolute path; empty if there is none.
    file: PathBuf,
    /// The search path of the program itself.
    path: OsString,
}

/// The result of a command.
pub(crate) struct Finished {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: Vec<u8>,
    pub(crate) message: String,
}

/// The timeout of a recording.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deadline {
    at: Instant,
    seconds: u64,
}

impl Deadline {
    pub(crate) fn after(limits: &Limits) -> Self {
        Self::within(limits.time)
    }

    /// Returns the deadline of an undo or a merge, for which a person waits.
    pub(crate) fn of_command() -> Self {
        Self::within(COMMAND_TIME)
    }

    pub(crate) fn within(time: Duration) -> Self {
        Self { at: Instant::now() + time, seconds: time.as_secs() }
    }

    /// Returns the deadline of a recording that stores so many files.
    pub(crate) fn with_files(self, files: usize) -> Self {
        let files = u32::try_from(files).unwrap_or(u32::MAX);
        let more = FILE_TIME.saturating_mul(files).min(MAX_FILES_TIME);
        Self { at: self.at + more, seconds: self.seconds + more.as_secs() }
    }

    /// Returns the time that is left.
    pub(crate) fn left(self) -> Duration {
        self.at.saturating_duration_since(Instant::now())
    }

    pub(crate) fn check(self) -> Result<(), ChangesError> {
        if Instant::now() < self.at { Ok(()) } else { Err(self.over()) }
    }

    /// Returns the error of a recording that is over its time.
    pub(crate) fn over(self) -> ChangesError {
        ChangesError::OverTime { seconds: self.seconds }
    }
}

impl Program {
    /// Finds the program. Relative entries of the search path do not count, nor do those in a directory that agents write
    /// to: an agent could plant a program there, which would run outside of its sandbox.
    pub(crate) fn find(search_path: &OsStr, of_agents: &[PathBuf]) -> Self {
        let real = |path: &Path| Disk.canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let own: Vec<PathBuf> = of_agents.iter().flat_map(|it| [real(it), it.clone()]).collect();
        let is_of_agents = |path: &Path| {
            let real = real(path);
            own.iter().any(|own| path.starts_with(own) || real.starts_with(own))
        };
        let entries = std::env::split_paths(search_path);
        let entries: Vec<PathBuf> =
            entries.filter(|entry| entry.is_absolute() && !is_of_agents(entry)).collect();
        let mut files = entries.iter().map(|entry| entry.join("git"));
        let file = files.find(|file| file.is_file() && !is_of_agents(file)).unwrap_or_default();
        Self { file, path: std::env::join_paths(entries).unwrap_or_default() }
    }

    pub(crate) fn file(&self) -> &Path {
        &self.file
    }

    /// Returns the search path of the program itself.
    pub(crate) fn path(&self) -> &OsStr {
        &self.path
    }
}

/// Returns a command of git with an environment of its own. It asks nobody, runs no hook and no monitor of files, and fetches
/// no object that is missing: git would fetch it by commands of the repository's configuration, which an agent may have
/// written. Git before 2.44 knows no setting for that, but has no protocol to fetch by.
pub fn git_command(program: &Path, search_path: &OsStr) -> Command {
    let mut command = Command::new(program);
    command
        .env_clear()
        .env("PATH", search_path)
        .env("LC_ALL", "C")
        .env("GIT_NO_LAZY_FETCH", "1")
        .env("GIT_ALLOW_PROTOCOL", "")
        .env("GIT_OPTIONAL_LOCKS", "0")
        .env("GIT_TERMINAL_PROMPT", "0")
        .args(["-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null"]);
    command
}

impl Git {
    /// Names a repository. The program is looked for when it is needed, and not in the directories of agents.
    pub(crate) fn new(host: &Host, repository: PathBuf, store: &Path, of_agents: &[&Path]) -> Self {
        Self {
            search_path: host.path.clone(),
            of_agents: of_agents.iter().map(|it| (*it).to_owned()).collect(),
            program: OnceLock::new(),
            repository,
            excludes: store.join("excludes"),
        }
    }

    /// Returns a command with the private environment, for a working tree.
    pub(crate) fn command(&self, work_tree: &Path) -> Command {
        let find = || Program::find(&self.search_path, &self.of_agents);
        let Program { file, path } = self.program.get_or_init(find);
        let mut command = git_command(file, path);
        // An empty directory, so that no configuration of a home directory is found.
        let nowhere = self.repository.join("no-home");
        command
            .env("HOME", &nowhere)
            .env("XDG_CONFIG_HOME", &nowhere)
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_ATTR_NOSYSTEM", "1")
            .env("GIT_DIR", &self.repository)
            .env("GIT_WORK_TREE", work_tree)
            .current_dir(work_tree);
        for setting in SETTINGS {
            command.args(["-c", setting]);
        }
        command
    }

    /// Runs a command with an input, to its end or the deadline. The output is read up to `limit` bytes.
    pub(crate) fn run(
        mut command: Command,
        name: &'static str,
        input: Vec<u8>,
        limit: u64,
        deadline: Deadline,
    ) -> Result<Finished, ChangesError> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| not_started(name, &error))?;
        let (stdin, stdout, stderr) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take());
        thread::scope(|scope| {
            scope.spawn(move || {
                if let Some(mut stdin) = stdin {
                    // A program that ends early says why on its standard error.
                    let _ = stdin.write_all(&input);
                }
            });
            // Each reader holds a sender, and drops it at the end of its pipe.
            let (reading, closed) = sync_channel(0);
            let other = reading.clone();
            let output = scope.spawn(move || (read(stdout, limit), reading).0);
            let message = scope.spawn(move || (read(stderr, MESSAGE_BYTES), other).0);
            let status = wait(&mut child, name, &closed, deadline)?;
            let stdout = read_by(output, name)?;
            let message = String::from_utf8_lossy(&read_by(message, name)?).trim().to_owned();
            Ok(Finished { status, stdout, message })
        })
    }

    /// Runs a command that must succeed and returns its output.
    pub(crate) fn output(
        command: Command,
        name: &'static str,
        input: Vec<u8>,
        limit: u64,
        deadline: Deadline,
    ) -> Result<Vec<u8>, ChangesError> {
        let finished = Self::run(command, name, input, limit, deadline)?;
        if finished.status.success() { Ok(finished.stdout) } else { Err(finished.error(name)) }
    }
}

impl Finished {
    pub(crate) fn error(self, command: &'static str) -> ChangesError {
        let Self { status, message, .. } = self;
        let message = if message.is_empty() { status.to_string() } else { message };
        ChangesError::Git { command, message }
    }
}

fn not_started(command: &'static str, error: &io::Error) -> ChangesError {
    match error.kind() {
        io::ErrorKind::NotFound => ChangesError::NoGit,
        _ => ChangesError::Git { command, message: error.to_string() },
    }
}

/// Reads a pipe to its end and keeps the first `limit` bytes.
fn read(pipe: Option<impl Read>, limit: u64) -> io::Result<Vec<u8>> {
    let Some(mut pipe) = pipe else { return Ok(Vec::new()) };
    let mut bytes = Vec::new();
    #[expect(clippy::disallowed_methods, reason = "bounded by `take`")]
    pipe.by_ref().take(limit).read_to_end(&mut bytes)?;
    io::copy(&mut pipe, &mut io::sink())?;
    Ok(bytes)
}

/// Returns what a reader has read.
fn read_by(
    reader: ScopedJoinHandle<'_, io::Result<Vec<u8>>>,
    command: &'static str,
) -> Result<Vec<u8>, ChangesError> {
    let read = reader.join().map_err(|panic| ChangesError::panicked(&*panic))?;
    read.map_err(|error| ChangesError::Git { command, message: error.to_string() })
}

/// Waits for the end of a process, which closes its pipes; kills it at the deadline.
fn wait(
    child: &mut Child,
    command: &'static str,
    closed: &Receiver<()>,
    deadline: Deadline,
) -> Result<ExitStatus, ChangesError> {
    let failed = |error: io::Error| ChangesError::Git { command, message: error.to_string() };
    let is_over = closed.recv_timeout(deadline.left()) == Err(RecvTimeoutError::Timeout);
    if is_over {
        child.kill().map_err(failed)?;
    }
    let status = child.wait().map_err(failed)?;
    if is_over { Err(deadline.over()) } else { Ok(status) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn a_command_is_waited_for_and_killed_at_its_deadline() {
        let run = |script: &str, time: Duration| {
            Git::run(shell(script), "test", b"in".to_vec(), 99, Deadline::within(time))
        };
        let finished = run("cat; echo wrong >&2; exit 3", Duration::from_mins(1)).unwrap();
        assert_eq!(finished.status.code(), Some(3));
        assert_eq!((finished.stdout.as_slice(), finished.message.as_str()), (&b"in"[..], "wrong"));
        let over = run("exec sleep 600", Duration::ZERO);
        assert!(matches!(over, Err(ChangesError::OverTime { .. })));
    }

    #[test]
    fn a_reader_that_panics_is_an_error() {
        let read = thread::scope(|scope| read_by(scope.spawn(|| panic!("no luck")), "test"));
        assert_eq!(read.unwrap_err().to_string(), "the recording stopped at a bug: no luck");
    }
}
