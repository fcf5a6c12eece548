//! The guardian: a process between Convoke and an agent that terminates the agent with everything it started.
//!
//! The guardian is the same binary in another mode, which [`run_if_asked`] enters. It is the subreaper of
//! everything that the agent leaves behind, including tool shells in other sessions. Over a socket, it receives
//! commands to interrupt, terminate or kill the agent, and reports the exit status. When the socket closes,
//! Convoke is gone, and the guardian kills everything and removes the turn's files. A report that Convoke does not
//! confirm counts for nothing, because a killed process accepts it as long as it is ending.
//!
//! Between guardian and agent is a keeper: a third process of the same binary, in its own session. It is a subreaper
//! too, and kills everything when the guardian is killed, even together with Convoke.
//!
//! The keeper starts the agent through one more step of the same binary, which creates a session, arranges to
//! be killed with the keeper, and then executes the agent.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::net::Shutdown;
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
use super::start_order::StartOrder;
use super::{Launch, platform};

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
/// The confirmation that the whole report was read: Convoke removes the turn's files.
pub(super) const RECEIVED: u8 = b'r';
/// The report that everything was killed because that time expired.
pub(super) const LEASE_OVER: &str = "lease-over";

/// The exit code of an agent that could not be started, and the start of its error output.
pub(crate) const CANNOT_START: u8 = 127;
pub(crate) const CANNOT_START_WORDS: &str = "cannot start the program";

/// The time limit for killing everything.
pub(super) const SWEEP_LIMIT: Duration = Duration::from_secs(20);

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
        let home = launch.private_home.as_deref().unwrap_or(Path::new(""));
        command.arg(GUARDIAN).arg(socket).arg(home);
        command.arg(&launch.program).args(&launch.args).process_group(0);
        command
    }
}

/// Runs the guardian if this process was started as one. Must be called first in `main`.
pub fn run_if_asked() -> Option<ExitCode> {
    let mut args = std::env::args_os().skip(1);
    let mode = args.next()?;
    if mode == GUARDIAN {
        let files = TurnFiles::from_args(&mut args)?;
        let program = args.next()?;
        Some(guard(&files, &program, args))
    } else if mode == KEEPER {
        let files = TurnFiles::from_args(&mut args)?;
        let program = args.next()?;
        Some(run_keeper(&files, &program, args))
    } else if mode == AGENT {
        let parent = args.next()?;
        let program = args.next()?;
        Some(become_agent(&parent, &program, args))
    } else {
        None
    }
}

/// The files of a turn, as Convoke names them: nothing is read from the turn's directory, which the agent can change.
#[derive(Debug)]
struct TurnFiles {
    /// The socket to connect to, in the turn's private directory.
    socket: PathBuf,
    /// The program's private home; empty if it has none.
    home: PathBuf,
    /// The lock file that the home has at the start of the turn. A later turn may take the path.
    home_lock: Option<File>,
}

impl TurnFiles {
    fn new(socket: PathBuf, home: PathBuf) -> Self {
        let mut files = Self { socket, home, home_lock: None };
        files.home_lock = files.home().and_then(private_dir::open_lock);
        files
    }

    fn from_args(args: &mut impl Iterator<Item = OsString>) -> Option<Self> {
        Some(Self::new(args.next()?.into(), args.next()?.into()))
    }

    /// Returns the turn's private directory.
    fn directory(&self) -> Option<&Path> {
        self.socket.parent().filter(|dir| private_dir::is_private_dir(dir))
    }

    /// Returns the private home. It is in the same temporary root as the turn's directory.
    fn home(&self) -> Option<&Path> {
        let root = self.directory()?.parent()?;
        let home = Some(&*self.home).filter(|home| private_dir::is_private_dir(home));
        home.filter(|home| home.parent() == Some(root))
    }

    /// Removes the turn's directory, and its private home when Convoke is gone.
    fn remove(&self) {
        let Some(directory) = self.directory() else { return };
        let _ = std::fs::remove_dir_all(directory);
        if let (Some(home), Some(lock)) = (self.home(), &self.home_lock)
            && let Some(abandoned) = Abandoned::claim_when_released(home.to_owned(), lock)
        {
            abandoned.remove();
        }
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

fn guard(files: &TurnFiles, program: &OsStr, args: impl Iterator<Item = OsString>) -> ExitCode {
    // Terminal signals must not end the guardian.
    let stray = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP];
    let blocked = stray.into_iter().collect::<SigSet>().thread_block();
    let adopting = platform::adopt_orphans();
    let Some(mut convoke) = connect(files) else {
        return ExitCode::FAILURE;
    };
    let Ok(commands) = convoke.try_clone() else {
        return ExitCode::FAILURE;
    };
    let (sender, news) = mpsc::sync_channel(1);
    let commanded = sender.clone();
    thread::spawn(move || listen(commands, &commanded));
    let prepared = blocked.and(adopting).map_err(io::Error::from);
    let kept = prepared.and_then(|()| start_keeper(files, program, args));
    let KeptAgent { keeper, agent, connection } = match kept {
        Ok(kept) => kept,
        Err(error) => {
            drop(sender);
            // The agent may run already, if the keeper ended before it reported that.
            sweep(None, None, &mut None);
            // Convoke may still be writing the agent's order.
            let _ = close_pipes();
            report(&mut convoke, &format!("error {error}"), &news, files);
            return ExitCode::FAILURE;
        }
    };
    // The receiver may be gone if the agent was killed.
    if let Ok(reports) = connection.try_clone() {
        thread::spawn(move || sender.send(end_of_agent(reports)));
    }

    let mut exit = None;
    let cause = until_end(agent, &news, &mut exit);
    if cause == EndCause::ConvokeIsGone {
        // The keeper does the same if this process is killed meanwhile.
        sweep_beside(keeper, agent);
        files.remove();
    }
    let left = sweep(Some(agent), Some(keeper), &mut exit);
    if cause == EndCause::ConvokeIsGone {
        // Also what a process wrote that was missed before.
        files.remove();
        return ExitCode::SUCCESS;
    }
    if cause == EndCause::LeaseIsOver {
        send_line(&mut convoke, &format!("{LEASE_OVER} {agent}"));
    }
    match exit.map(|status| (status.code(), status.signal())) {
        Some((Some(code), _)) => send_line(&mut convoke, &format!("exit {code}")),
        Some((_, Some(signal))) => send_line(&mut convoke, &format!("signal {signal}")),
        _ => {}
    }
    report(&mut convoke, &format!("left {left}"), &news, files);
    drop(connection);
    ExitCode::SUCCESS
}

/// Why the agent and everything that it started are killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EndCause {
    /// The agent or its keeper has ended, or Convoke demands it.
    TurnIsOver,
    LeaseIsOver,
    ConvokeIsGone,
}

/// Carries out commands until everything is to be killed. Stores the agent's exit status in `exit`, if it is known.
fn until_end(
    agent: Pid,
    news: &mpsc::Receiver<GuardianEvent>,
    exit: &mut Option<ExitStatus>,
) -> EndCause {
    let mut until: Option<Instant> = None;
    loop {
        let next = match until {
            Some(until) => news.recv_timeout(until.saturating_duration_since(Instant::now())),
            None => news.recv().map_err(Into::into),
        };
        match next {
            Ok(GuardianEvent::Allowed(time)) => until = Some(Instant::now() + time),
            Ok(GuardianEvent::Ended(status)) => {
                *exit = status;
                return EndCause::TurnIsOver;
            }
            Ok(GuardianEvent::Command(INTERRUPT)) => drop(killpg(agent, Signal::SIGINT)),
            Ok(GuardianEvent::Command(TERMINATE)) => drop(killpg(agent, Signal::SIGTERM)),
            Err(RecvTimeoutError::Timeout) => return EndCause::LeaseIsOver,
            Ok(GuardianEvent::KeeperIsGone | GuardianEvent::Command(KILL)) => {
                return EndCause::TurnIsOver;
            }
            Ok(GuardianEvent::ConvokeIsGone) | Err(RecvTimeoutError::Disconnected) => {
                return EndCause::ConvokeIsGone;
            }
            Ok(GuardianEvent::Command(_)) => {}
        }
    }
}

/// Sends the last line of a report. Removes the turn's files if Convoke ends without confirming it.
fn report(
    convoke: &mut UnixStream,
    line: &str,
    news: &mpsc::Receiver<GuardianEvent>,
    files: &TurnFiles,
) {
    send_line(convoke, line);
    let _ = convoke.shutdown(Shutdown::Write);
    loop {
        match news.recv() {
            Ok(GuardianEvent::Command(RECEIVED)) => return,
            Ok(GuardianEvent::ConvokeIsGone) | Err(_) => return files.remove(),
            Ok(_) => {}
        }
    }
}

/// Connects to the process that started this one. Removes the turn's files if that process is gone.
fn connect(files: &TurnFiles) -> Option<UnixStream> {
    let connected = platform::at_short_path(&files.socket, |path| UnixStream::connect(path));
    if connected.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused) {
        files.remove();
    }
    connected.ok()
}

fn send_line(convoke: &mut UnixStream, line: &str) {
    // If this fails, the other process is gone, which is noticed elsewhere.
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
    files: &TurnFiles,
    program: &OsStr,
    args: impl Iterator<Item = OsString>,
) -> io::Result<KeptAgent> {
    let socket = files.socket.with_file_name("keeper");
    let listener = platform::at_short_path(&socket, |path| UnixListener::bind(path))?;
    let child = Command::new(platform::this_program()?)
        .arg(KEEPER)
        .arg(&socket)
        .arg(&files.home)
        .arg(program)
        .args(args)
        .spawn()?;
    let keeper = pid_of(&child)?;
    let mut connection = first_connection(listener, keeper)?;
    // Prevents further connections.
    let _ = std::fs::remove_file(&socket);
    let agent = read_line(&mut connection)?
        .parse()
        .map_err(|_| io::Error::other("the agent did not start"))?;
    close_pipes()?;
    Ok(KeptAgent { keeper, agent: Pid::from_raw(agent), connection })
}

/// Waits until the keeper connects or ends, whichever comes first.
fn first_connection(listener: UnixListener, keeper: Pid) -> io::Result<UnixStream> {
    let (sender, first) = mpsc::sync_channel(2);
    let ended = sender.clone();
    // The thread that waits in vain ends with this process.
    thread::Builder::new().spawn(move || sender.send(listener.accept().map(|(it, _)| it)))?;
    thread::Builder::new().spawn(move || {
        platform::wait_unreaped(keeper);
        ended.send(Err(io::Error::other("the keeper process ended")))
    })?;
    first.recv().map_err(io::Error::other)?
}

/// Runs the keeper: starts the agent, and kills everything when the guardian is gone.
fn run_keeper(
    files: &TurnFiles,
    program: &OsStr,
    args: impl Iterator<Item = OsString>,
) -> ExitCode {
    let stray = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP];
    let prepared = stray.into_iter().collect::<SigSet>().thread_block();
    let prepared = prepared.and(platform::adopt_orphans()).and(unistd::setsid());
    let (Ok(_), Some(mut guardian)) = (prepared, connect(files)) else {
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
    sweep(Some(agent), None, &mut None);
    files.remove();
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
/// Processes that fork meanwhile are found in the next round, once all that were killed have ended. Only `wait` can tell
/// whether any is left: a list of processes can miss one that changes its parent. The keeper is killed last, because it kills the others if
/// this process is killed meanwhile.
fn sweep(agent: Option<Pid>, keeper: Option<Pid>, exit: &mut Option<ExitStatus>) -> usize {
    let begin = Instant::now();
    let mut ended = BTreeSet::new();
    // The agent is not reaped yet, so its process id cannot have been reused.
    let _ = agent.map(|agent| killpg(agent, Signal::SIGKILL));
    loop {
        match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::StillAlive) if begin.elapsed() < SWEEP_LIMIT => {
                let descendants = platform::descendants(unistd::getpid());
                let is_keeper_alone = descendants.iter().all(|pid| Some(*pid) == keeper);
                let mut dying = descendants;
                dying.retain(|pid| Some(*pid) != keeper || is_keeper_alone);
                let dying = platform::Ending::watch(dying);
                for &pid in dying.pids() {
                    let is_expected = [agent, keeper].contains(&Some(pid));
                    if kill(pid, Signal::SIGKILL).is_ok() && !is_expected {
                        ended.insert(pid);
                    }
                }
                dying.wait(SWEEP_LIMIT.saturating_sub(begin.elapsed()));
            }
            Ok(WaitStatus::Exited(pid, code)) if Some(pid) == agent => {
                *exit = Some(ExitStatus::from_raw(code << 8));
            }
            Ok(WaitStatus::Signaled(pid, signal, _)) if Some(pid) == agent => {
                *exit = Some(ExitStatus::from_raw(signal as i32));
            }
            Ok(WaitStatus::StillAlive) | Err(Errno::ECHILD) => return ended.len(),
            // A child ended; an error means that an unknown signal killed it.
            Ok(_) | Err(_) => {}
        }
    }
}

/// Kills all descendants of this process but the keeper. [`sweep`] finds one that is missed because it changes its parent
/// meanwhile.
fn sweep_beside(keeper: Pid, agent: Pid) {
    let begin = Instant::now();
    // The keeper does not reap the agent.
    let _ = killpg(agent, Signal::SIGKILL);
    while begin.elapsed() < SWEEP_LIMIT {
        let mut dying = platform::descendants(unistd::getpid());
        dying.retain(|pid| *pid != keeper);
        if dying.is_empty() {
            return;
        }
        let dying = platform::Ending::watch(dying);
        for &pid in dying.pids() {
            // The process may have ended already.
            let _ = kill(pid, Signal::SIGKILL);
        }
        dying.wait(SWEEP_LIMIT.saturating_sub(begin.elapsed()));
    }
}

/// The first file descriptor after standard input, output and error.
const AFTER_STANDARD: i32 = 3;

/// Executes the agent in a new session, with a parent-death signal from the keeper, after this process has entered
/// the working directory and restricted itself. Restrictions apply to a process and its children and cannot be lifted; the
/// guardian and the keeper stay outside, to terminate what is inside. The agent gets only the
/// standard pipes: a sandbox does not restrict files that are already open, and Convoke may have inherited
/// some.
fn become_agent(parent: &OsStr, program: &OsStr, args: impl Iterator<Item = OsString>) -> ExitCode {
    let prepared = unistd::setsid()
        .and_then(|_| platform::end_with_parent())
        .and_then(|()| SigSet::all().thread_unblock());
    let still_held = parent.to_str() == Some(unistd::getppid().to_string().as_str());
    if prepared.is_err() || !still_held {
        return ExitCode::FAILURE;
    }
    close_fds::set_fds_cloexec(AFTER_STANDARD, &[]);
    let error = match StartOrder::from_stdin().and_then(StartOrder::carry_out) {
        Ok(env) => Command::new(program).args(args).envs(env).exec(),
        Err(error) => error,
    };
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

    /// A killed process releases its locks only when it has ended, which takes long on a loaded machine.
    #[test]
    fn the_private_home_of_a_killed_convoke_is_removed_with_the_turns_directory_when_convoke_has_ended()
     {
        let root = tempfile::tempdir().unwrap();
        let directory = |name: &str| private_directory(&root.path().join(name));
        for is_ending in [false, true] {
            let (turn, home) = (directory("convoke-turn00"), directory("convoke-home00"));
            let lock = locked(&home);
            let files = TurnFiles::new(turn.join("guardian"), home.clone());
            let ended = thread::spawn(move || {
                thread::sleep(Duration::from_secs(u64::from(is_ending)));
                drop(lock);
            });
            files.remove();
            ended.join().unwrap();
            assert!(!turn.exists() && !home.exists());
        }
    }

    #[test]
    fn a_private_home_whose_path_another_turn_has_taken_stays() {
        let root = tempfile::tempdir().unwrap();
        let directory = |name: &str| private_directory(&root.path().join(name));
        let (turn, home) = (directory("convoke-turn00"), directory("convoke-home00"));
        let lock = locked(&home);
        let files = TurnFiles::new(turn.join("guardian"), home.clone());
        std::fs::remove_dir_all(&home).unwrap();
        drop(lock);
        let _others = locked(&directory("convoke-home00"));
        files.remove();
        assert!(!turn.exists() && home.exists());
    }

    #[test]
    fn a_guardian_that_finds_convoke_gone_removes_the_turns_directory() {
        let root = tempfile::tempdir().unwrap();
        let turn = private_directory(&root.path().join("convoke-turn00"));
        let files = TurnFiles::new(turn.join("guardian"), PathBuf::new());
        drop(UnixListener::bind(&files.socket).unwrap());
        assert!(connect(&files).is_none() && !turn.exists());
    }

    fn locked(dir: &Path) -> File {
        std::fs::write(dir.join("lock"), private_dir::MARK).unwrap();
        let lock = private_dir::open_lock(dir).unwrap();
        lock.try_lock().unwrap();
        lock
    }

    fn private_directory(path: &Path) -> PathBuf {
        use std::os::unix::fs::DirBuilderExt as _;
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path).unwrap();
        path.to_owned()
    }

    /// The agent can write to the turn's directory.
    #[test]
    fn nothing_is_removed_that_an_agent_names_or_that_is_not_in_the_temporary_root() {
        let root = tempfile::tempdir().unwrap();
        let users = private_directory(&root.path().join("elsewhere/convoke-keep01"));
        std::fs::write(users.join("lock"), private_dir::MARK).unwrap();
        for home in [PathBuf::new(), users.clone()] {
            let turn = private_directory(&root.path().join("convoke-turn00"));
            std::os::unix::fs::symlink(&users, turn.join("home")).unwrap();
            TurnFiles::new(turn.join("guardian"), home).remove();
            assert!(users.join("lock").exists() && !turn.exists());
        }
    }

    #[test]
    fn processes_that_are_no_children_are_waited_for_until_they_end() {
        let mut shell = Command::new("sh")
            .args(["-c", "sleep 1000 & echo $!; wait"])
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = [0; 16];
        let count = shell.stdout.as_mut().unwrap().read(&mut line).unwrap();
        let grandchild: i32 = std::str::from_utf8(&line[..count]).unwrap().trim().parse().unwrap();
        let dying = platform::Ending::watch(vec![Pid::from_raw(grandchild)]);
        kill(dying.pids()[0], Signal::SIGKILL).unwrap();
        dying.wait(SWEEP_LIMIT);
        assert!(platform::descendants(pid_of(&shell).unwrap()).is_empty());
        let _ = shell.kill();
        shell.wait().unwrap();
    }

    #[test]
    fn a_keeper_that_ends_without_connecting_is_noticed() {
        let dir = tempfile::tempdir().unwrap();
        let listen = || UnixListener::bind(dir.path().join("keeper")).unwrap();
        let mut keeper = Command::new("true").spawn().unwrap();
        assert!(first_connection(listen(), pid_of(&keeper).unwrap()).is_err());
        // It is reaped elsewhere.
        assert!(keeper.wait().unwrap().success());
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
