//! The guardian: a process between Convoke and an agent that terminates the agent with everything it started.
//!
//! The guardian is the same binary in another mode, which [`run_if_asked`] enters. It is the subreaper of
//! everything that the agent leaves behind, including tool shells in other sessions. Over a socket, it receives
//! commands to interrupt, terminate or kill the agent, and reports the exit status. When the socket closes,
//! Convoke is gone, and the guardian kills everything.
//!
//! Between guardian and agent is a keeper: a third process of the same binary, in its own session. It is a subreaper
//! too, and kills everything when the guardian is killed, even together with Convoke.
//!
//! The keeper starts the agent through one more step of the same binary, which creates a session, arranges to
//! be killed with the keeper, and then executes the agent.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::OpenOptions;
use std::io::{self, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, ExitStatus};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::signal::{SigSet, Signal, kill, killpg};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{self, Pid};

use super::private_dir::{self, Abandoned};
use super::{Launch, platform};
use crate::sandbox::{CONFINE, confine};

const GUARDIAN: &str = "__convoke-guardian";
pub(super) const KEEPER: &str = "__convoke-keeper";
const AGENT: &str = "__convoke-agent";

/// The command to interrupt the agent.
pub(super) const INTERRUPT: u8 = b'i';
/// The command to ask the agent to end.
pub(super) const TERMINATE: u8 = b't';
/// The command to kill everything.
pub(super) const KILL: u8 = b'k';
/// The command to kill everything after a time, which follows as four bytes of milliseconds, big-endian. A
/// later command replaces it.
pub(super) const ALLOW: u8 = b'a';
/// The report that everything was killed because that time expired.
pub(super) const LEASE_OVER: &str = "lease-over";

/// The exit code of an agent that could not be started, and the start of its error output.
pub(crate) const CANNOT_START: u8 = 127;
pub(crate) const CANNOT_START_WORDS: &str = "cannot start the program";

/// The time limit for killing everything.
const SWEEP_LIMIT: Duration = Duration::from_secs(20);

/// The program that contains the guardian.
#[derive(Debug, Clone)]
pub struct Guardian {
    program: PathBuf,
}

impl Guardian {
    /// Uses the running program, whose `main` must begin with [`run_if_asked`].
    pub fn this_program() -> io::Result<Self> {
        Ok(Self::from_program(platform::this_program()?))
    }

    /// Uses another program, whose `main` must begin with [`run_if_asked`].
    pub fn from_program(program: impl Into<PathBuf>) -> Self {
        Self { program: program.into() }
    }

    /// Returns a path of the program that other processes can start.
    pub(crate) fn program(&self) -> io::Result<PathBuf> {
        self.program.canonicalize()
    }

    /// Returns the command that starts the guardian; it connects to `socket` before anything else.
    pub(super) fn command(&self, socket: &Path, launch: &Launch) -> Command {
        let mut command = Command::new(&self.program);
        command.arg(GUARDIAN).arg(socket);
        if let Some(policy) = &launch.policy {
            command.arg(CONFINE).arg(policy);
        }
        command.arg(&launch.program).args(&launch.args).process_group(0);
        command
    }
}

/// Runs the guardian if this process was started as one. Must be called first in `main`.
pub fn run_if_asked() -> Option<ExitCode> {
    let mut args = std::env::args_os().skip(1);
    let mode = args.next()?;
    if mode == GUARDIAN {
        let socket = args.next()?;
        let program = args.next()?;
        Some(guard(Path::new(&socket), &program, args))
    } else if mode == KEEPER {
        let socket = args.next()?;
        let program = args.next()?;
        Some(run_keeper(Path::new(&socket), &program, args))
    } else if mode == AGENT {
        let parent = args.next()?;
        let program = args.next()?;
        Some(become_agent(&parent, &program, args))
    } else {
        None
    }
}

#[derive(Debug)]
enum GuardianEvent {
    /// A command byte from Convoke.
    Command(u8),
    /// The time for which the agent may run, unless Convoke extends it.
    Allowed(Duration),
    ConvokeIsGone,
    /// The agent has ended; with its exit status, if it was reaped.
    Ended(Option<ExitStatus>),
    KeeperIsGone,
}

fn guard(socket: &Path, program: &OsStr, args: impl Iterator<Item = OsString>) -> ExitCode {
    // Terminal signals must not end the guardian.
    let stray = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP];
    let blocked = stray.into_iter().collect::<SigSet>().thread_block();
    let adopting = platform::adopt_orphans();
    let connected = platform::at_short_path(socket, |path| UnixStream::connect(path));
    let Ok(mut convoke) = connected else {
        return ExitCode::FAILURE;
    };
    if let Err(error) = blocked.and(adopting) {
        send_line(&mut convoke, &format!("error {error}"));
        return ExitCode::FAILURE;
    }
    let KeptAgent { keeper, agent, connection } = match start_keeper(socket, program, args) {
        Ok(kept) => kept,
        Err(error) => {
            send_line(&mut convoke, &format!("error {error}"));
            return ExitCode::FAILURE;
        }
    };
    let (sender, news) = mpsc::sync_channel(1);
    if let Ok(commands) = convoke.try_clone() {
        let sender = sender.clone();
        thread::spawn(move || listen(commands, &sender));
    }
    // The receiver may be gone if the agent was killed.
    if let Ok(reports) = connection.try_clone() {
        thread::spawn(move || sender.send(end_of_agent(reports)));
    }

    let mut exit = None;
    let mut keeper_is_gone = false;
    let mut is_lease_over = false;
    let mut until: Option<Instant> = None;
    loop {
        let next = match until {
            Some(until) => news.recv_timeout(until.saturating_duration_since(Instant::now())),
            None => news.recv().map_err(Into::into),
        };
        match next {
            Ok(GuardianEvent::Allowed(time)) => until = Some(Instant::now() + time),
            Ok(GuardianEvent::Ended(status)) => {
                exit = status;
                break;
            }
            Ok(GuardianEvent::KeeperIsGone) => {
                keeper_is_gone = true;
                break;
            }
            Ok(GuardianEvent::Command(INTERRUPT)) => drop(killpg(agent, Signal::SIGINT)),
            Ok(GuardianEvent::Command(TERMINATE)) => drop(killpg(agent, Signal::SIGTERM)),
            Err(RecvTimeoutError::Timeout) => {
                is_lease_over = true;
                break;
            }
            Ok(GuardianEvent::Command(KILL) | GuardianEvent::ConvokeIsGone)
            | Err(RecvTimeoutError::Disconnected) => break,
            Ok(GuardianEvent::Command(_)) => {}
        }
    }
    let left = sweep(agent, Some(keeper), &mut exit);
    if is_lease_over {
        send_line(&mut convoke, &format!("{LEASE_OVER} {agent}"));
    }
    match exit.map(|status| (status.code(), status.signal())) {
        Some((Some(code), _)) => send_line(&mut convoke, &format!("exit {code}")),
        Some((_, Some(signal))) => send_line(&mut convoke, &format!("signal {signal}")),
        _ => {}
    }
    // The keeper may have been killed together with Convoke, which may still be exiting and accept writes.
    let is_told = writeln!(convoke, "left {left}").is_ok();
    if !is_told || (keeper_is_gone && is_abandoned_soon(socket)) {
        remove_private_dir(socket);
    }
    drop(connection);
    ExitCode::SUCCESS
}

fn send_line(convoke: &mut UnixStream, line: &str) {
    // If this fails, Convoke is gone; the guardian ends in either case.
    let _ = writeln!(convoke, "{line}");
}

/// A keeper and its agent.
struct KeptAgent {
    keeper: Pid,
    agent: Pid,
    /// The connection to the keeper. The keeper sees that the guardian is gone when it closes.
    connection: UnixStream,
}

/// Waits for the keeper to report that the agent has ended, or to end itself.
fn end_of_agent(mut connection: UnixStream) -> GuardianEvent {
    match read_line(&mut connection) {
        // A keeper that does not reap the agent reports the end without a status.
        Ok(line) if !line.is_empty() => {
            GuardianEvent::Ended(line.parse().ok().map(ExitStatus::from_raw))
        }
        _ => GuardianEvent::KeeperIsGone,
    }
}

/// Reads one line and nothing beyond it.
fn read_line(connection: &mut UnixStream) -> io::Result<String> {
    let mut line = String::new();
    let mut byte = [0];
    while connection.read(&mut byte)? == 1 && byte != *b"\n" {
        line.push(byte[0].into());
    }
    Ok(line)
}

fn start_keeper(
    socket: &Path,
    program: &OsStr,
    args: impl Iterator<Item = OsString>,
) -> io::Result<KeptAgent> {
    let socket = socket.with_file_name("keeper");
    let listener = platform::at_short_path(&socket, |path| UnixListener::bind(path))?;
    listener.set_nonblocking(true)?;
    let mut child = Command::new(platform::this_program()?)
        .arg(KEEPER)
        .arg(&socket)
        .arg(program)
        .args(args)
        .spawn()?;
    let keeper = pid_of(&child)?;
    let mut connection = loop {
        match listener.accept() {
            Ok((connection, _)) => break connection,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
        if child.try_wait()?.is_some() {
            return Err(io::Error::other("the keeper process ended"));
        }
        thread::sleep(Duration::from_millis(1));
    };
    // Prevents further connections.
    let _ = std::fs::remove_file(&socket);
    connection.set_nonblocking(false)?;
    let agent = read_line(&mut connection)?
        .parse()
        .map_err(|_| io::Error::other("the agent did not start"))?;
    close_pipes()?;
    Ok(KeptAgent { keeper, agent: Pid::from_raw(agent), connection })
}

/// Runs the keeper: starts the agent, and kills everything when the guardian is gone.
fn run_keeper(socket: &Path, program: &OsStr, args: impl Iterator<Item = OsString>) -> ExitCode {
    let stray = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP];
    let prepared = stray.into_iter().collect::<SigSet>().thread_block();
    let prepared = prepared.and(platform::adopt_orphans()).and(unistd::setsid());
    let connected = platform::at_short_path(socket, |path| UnixStream::connect(path));
    let (Ok(_), Ok(mut guardian)) = (prepared, connected) else {
        return ExitCode::FAILURE;
    };
    let Ok(agent) = start_agent(program, args) else {
        return ExitCode::FAILURE;
    };
    send_line(&mut guardian, &agent.to_string());
    if let Ok(mut reports) = guardian.try_clone() {
        // The guardian reaps the agent to learn its exit status.
        thread::spawn(move || {
            let status = platform::wait_for_end(agent).map(ExitStatusExt::into_raw);
            send_line(
                &mut reports,
                &status.map_or_else(|| "ended".to_owned(), |raw| raw.to_string()),
            );
        });
    }
    // Wait until the guardian kills this process or is gone.
    while let Ok(1..) = guardian.read(&mut [0]) {}
    sweep(agent, None, &mut None);
    remove_private_dir(socket);
    ExitCode::SUCCESS
}

fn start_agent(program: &OsStr, args: impl Iterator<Item = OsString>) -> io::Result<Pid> {
    let child = Command::new(platform::this_program()?)
        .arg(AGENT)
        .arg(std::process::id().to_string())
        .arg(program)
        .args(args)
        .spawn()?;
    close_pipes()?;
    pid_of(&child)
}

fn pid_of(child: &Child) -> io::Result<Pid> {
    i32::try_from(child.id()).map(Pid::from_raw).map_err(io::Error::other)
}

/// Closes the pipes to Convoke, so that only the agent holds them and their end is seen.
fn close_pipes() -> io::Result<()> {
    let nothing = OpenOptions::new().read(true).write(true).open("/dev/null")?;
    unistd::dup2_stdin(&nothing)?;
    unistd::dup2_stdout(&nothing)?;
    unistd::dup2_stderr(&nothing)?;
    Ok(())
}

/// Forwards Convoke's commands until the connection closes.
fn listen(mut commands: UnixStream, sender: &mpsc::SyncSender<GuardianEvent>) {
    let mut byte = [0];
    while let Ok(1) = commands.read(&mut byte) {
        let mut time = [0; 4];
        let next = match byte[0] {
            ALLOW if commands.read_exact(&mut time).is_ok() => {
                GuardianEvent::Allowed(Duration::from_millis(u32::from_be_bytes(time).into()))
            }
            command => GuardianEvent::Command(command),
        };
        if sender.send(next).is_err() {
            return;
        }
    }
    let _ = sender.send(GuardianEvent::ConvokeIsGone);
}

/// Kills and reaps all descendants of this process, and returns the number of unexpected ones. Stores the
/// agent's exit status in `exit`.
///
/// Processes that fork meanwhile are found in the next round. Only `wait` can tell whether any is left: a list
/// of processes can miss one that changes its parent. The keeper is killed last, because it kills the others if
/// this process is killed meanwhile.
fn sweep(agent: Pid, keeper: Option<Pid>, exit: &mut Option<ExitStatus>) -> usize {
    let begin = Instant::now();
    let mut ended = BTreeSet::new();
    // The agent is not reaped yet, so its process id cannot have been reused.
    let _ = killpg(agent, Signal::SIGKILL);
    loop {
        match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::StillAlive) if begin.elapsed() < SWEEP_LIMIT => {
                let descendants = platform::descendants(unistd::getpid());
                let is_keeper_alone = descendants.iter().all(|pid| Some(*pid) == keeper);
                for pid in descendants {
                    if Some(pid) == keeper && !is_keeper_alone {
                        continue;
                    }
                    let is_expected = pid == agent || Some(pid) == keeper;
                    if kill(pid, Signal::SIGKILL).is_ok() && !is_expected {
                        ended.insert(pid);
                    }
                }
                thread::sleep(Duration::from_millis(1));
            }
            Ok(WaitStatus::Exited(pid, code)) if pid == agent => {
                *exit = Some(ExitStatus::from_raw(code << 8));
            }
            Ok(WaitStatus::Signaled(pid, signal, _)) if pid == agent => {
                *exit = Some(ExitStatus::from_raw(signal as i32));
            }
            Ok(WaitStatus::StillAlive) | Err(Errno::ECHILD) => return ended.len(),
            // A child ended; an error means that an unknown signal killed it.
            Ok(_) | Err(_) => {}
        }
    }
}

/// Removes the turn's directory and the private home that it names, if Convoke is gone.
fn remove_private_dir(socket: &Path) {
    let Some(dir) = socket.parent().filter(|dir| private_dir::is_private_dir(dir)) else { return };
    let home = dir.join(private_dir::HOME).read_link().ok();
    let _ = std::fs::remove_dir_all(dir);
    if let Some(home) = home.filter(|home| private_dir::is_private_dir(home)) {
        // Convoke may still be exiting.
        if let Some(abandoned) = abandoned_within(HOME_TIMEOUT, &home) {
            abandoned.remove();
        }
    }
}

const HOME_TIMEOUT: Duration = Duration::from_millis(200);

/// Returns whether Convoke releases the turn's directory soon without removing it.
fn is_abandoned_soon(socket: &Path) -> bool {
    const ABANDON_TIMEOUT: Duration = Duration::from_secs(2);
    socket.parent().is_some_and(|dir| abandoned_within(ABANDON_TIMEOUT, dir).is_some())
}

/// Waits until a directory is abandoned; `None` if it is removed or stays in use.
fn abandoned_within(timeout: Duration, dir: &Path) -> Option<Abandoned> {
    let begin = Instant::now();
    while dir.exists() && begin.elapsed() < timeout {
        if let Some(abandoned) = Abandoned::claim(dir.to_owned()) {
            return Some(abandoned);
        }
        thread::sleep(Duration::from_millis(10));
    }
    None
}

/// The first file descriptor after standard input, output and error.
const AFTER_STANDARD: i32 = 3;

/// Executes the agent in a new session, with a parent-death signal from the keeper. The agent gets only the
/// standard pipes: a sandbox does not restrict files that are already open, and Convoke may have inherited
/// some.
fn become_agent(
    parent: &OsStr,
    program: &OsStr,
    mut args: impl Iterator<Item = OsString>,
) -> ExitCode {
    let prepared = unistd::setsid()
        .and_then(|_| platform::end_with_parent())
        .and_then(|()| SigSet::all().thread_unblock());
    let still_held = parent.to_str() == Some(unistd::getppid().to_string().as_str());
    if prepared.is_err() || !still_held {
        return ExitCode::FAILURE;
    }
    close_fds::set_fds_cloexec(AFTER_STANDARD, &[]);
    // The path of a program contains a slash.
    if program == CONFINE {
        let (Some(policy), Some(program)) = (args.next(), args.next()) else {
            return ExitCode::FAILURE;
        };
        let error = confine(&policy, &program, args);
        return cannot_start(&program, &error);
    }
    let error = Command::new(program).args(args).exec();
    cannot_start(program, &error)
}

/// Reports to Convoke why the agent did not start.
fn cannot_start(program: &OsStr, error: &io::Error) -> ExitCode {
    let program = program.display();
    #[expect(
        clippy::disallowed_methods,
        reason = "a child process, whose stderr is a pipe to Convoke"
    )]
    let mut stderr = io::stderr();
    let _ = writeln!(stderr, "{CANNOT_START_WORDS} `{program}`: {error}");
    ExitCode::from(CANNOT_START)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_private_home_of_a_killed_convoke_is_removed_with_the_turns_directory() {
        let root = tempfile::tempdir().unwrap();
        for is_held in [false, true] {
            let (turn, home) = (root.path().join("convoke-turn"), root.path().join("convoke-home"));
            std::fs::create_dir(&turn).unwrap();
            std::fs::create_dir(&home).unwrap();
            let lock = std::fs::File::create(home.join("lock")).unwrap();
            if is_held {
                lock.try_lock().unwrap();
            }
            std::os::unix::fs::symlink(&home, turn.join(private_dir::HOME)).unwrap();
            remove_private_dir(&turn.join("guardian"));
            assert!(!turn.exists());
            // A home that is in use belongs to another turn.
            assert_eq!(home.exists(), is_held);
        }
        let foreign = tempfile::tempdir().unwrap();
        let turn = root.path().join("convoke-turn");
        std::fs::create_dir(&turn).unwrap();
        std::os::unix::fs::symlink(foreign.path(), turn.join(private_dir::HOME)).unwrap();
        remove_private_dir(&turn.join("guardian"));
        assert!(foreign.path().exists() && !turn.exists());
    }

    /// A turn must not wait for the keeper after its agent has ended.
    #[test]
    fn the_end_of_an_agent_is_not_the_end_of_its_keeper() {
        let reported = |line: &str| {
            let (mut keeper, guardian) = UnixStream::pair().unwrap();
            keeper.write_all(line.as_bytes()).unwrap();
            drop(keeper);
            end_of_agent(guardian)
        };
        assert!(matches!(reported("ended\n"), GuardianEvent::Ended(None)));
        assert!(matches!(reported("0\n"), GuardianEvent::Ended(Some(status)) if status.success()));
        assert!(matches!(reported(""), GuardianEvent::KeeperIsGone));
    }
}
