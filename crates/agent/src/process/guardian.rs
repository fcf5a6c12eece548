//! The guardian: a small process between Convoke and an agent, which outlives neither.
//!
//! It runs from the same binary, in a mode of its own that [`run_if_asked`] enters. It adopts whatever
//! the agent leaves behind, tool shells in sessions of their own included. Over a socket it is told to
//! interrupt or to end the agent, and says how the agent ended. When the socket breaks, Convoke is gone:
//! then everything ends at once.
//!
//! The agent itself is started through a second step of the same binary, which gives it a session of
//! its own and ties its life to the guardian's, and then becomes the agent.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::OpenOptions;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::signal::{SigSet, Signal, kill, killpg};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{self, Pid};

use super::platform;

const GUARDIAN: &str = "__convoke-guardian";
const AGENT: &str = "__convoke-agent";

/// Told to the guardian: send the agent an interrupt.
pub(super) const INTERRUPT: u8 = b'i';
/// Told to the guardian: end everything.
pub(super) const KILL: u8 = b'k';

/// The exit code of an agent that could not be started, and how its error output begins.
pub(crate) const CANNOT_START: u8 = 127;
pub(crate) const CANNOT_START_WORDS: &str = "cannot start the program";

/// How long ending everything may take before the guardian gives up.
const SWEEP_LIMIT: Duration = Duration::from_secs(20);

/// The program that has the guardian's mode.
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

    /// Returns the command that starts the guardian; it connects to `socket` before anything else.
    pub(super) fn command(&self, socket: &Path, program: &Path, args: &[OsString]) -> Command {
        let mut command = Command::new(&self.program);
        command.arg(GUARDIAN).arg(socket).arg(program).args(args).process_group(0);
        command
    }
}

/// Runs the guardian if this process was started as one. A binary's `main` calls this first of all.
pub fn run_if_asked() -> Option<ExitCode> {
    let mut args = std::env::args_os().skip(1);
    let mode = args.next()?;
    if mode == GUARDIAN {
        let socket = args.next()?;
        let program = args.next()?;
        Some(guard(Path::new(&socket), &program, args))
    } else if mode == AGENT {
        let parent = args.next()?;
        let program = args.next()?;
        Some(become_agent(&parent, &program, args))
    } else {
        None
    }
}

enum News {
    LastSituation(u8),
    ConvokeIsGone,
    /// The agent has ended; how, where it had to be reaped to find out.
    Ended(Option<ExitStatus>),
}

fn guard(socket: &Path, program: &OsStr, args: impl Iterator<Item = OsString>) -> ExitCode {
    // Signals sent to the guardian by hand or by a terminal must not loosen its hold.
    let stray = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP];
    let blocked = stray.into_iter().collect::<SigSet>().thread_block();
    let adopting = platform::adopt_orphans();
    let connected = platform::at_short_path(socket, |path| UnixStream::connect(path));
    let Ok(mut convoke) = connected else {
        return ExitCode::FAILURE;
    };
    if let Err(error) = blocked.and(adopting) {
        tell(&mut convoke, &format!("error {error}"));
        return ExitCode::FAILURE;
    }
    let agent = match start_agent(program, args) {
        Ok(agent) => agent,
        Err(error) => {
            tell(&mut convoke, &format!("error {error}"));
            return ExitCode::FAILURE;
        }
    };
    let (sender, news) = mpsc::channel();
    if let Ok(commands) = convoke.try_clone() {
        let sender = sender.clone();
        thread::spawn(move || listen(commands, &sender));
    }
    // Nobody takes this news when the agent is ended before it ends by itself.
    thread::spawn(move || sender.send(News::Ended(platform::wait_for_end(agent))));

    let mut exit = None;
    let gone = loop {
        match news.recv() {
            Ok(News::Ended(status)) => {
                exit = status;
                break false;
            }
            Ok(News::LastSituation(INTERRUPT)) => drop(killpg(agent, Signal::SIGINT)),
            Ok(News::LastSituation(KILL)) => break false,
            Ok(News::LastSituation(_)) => {}
            Ok(News::ConvokeIsGone) | Err(_) => break true,
        }
    };
    let left = sweep(agent, &mut exit);
    if gone {
        remove_private_dir(socket);
    }
    match exit.map(|status| (status.code(), status.signal())) {
        Some((Some(code), _)) => tell(&mut convoke, &format!("exit {code}")),
        Some((_, Some(signal))) => tell(&mut convoke, &format!("signal {signal}")),
        _ => {}
    }
    tell(&mut convoke, &format!("left {left}"));
    ExitCode::SUCCESS
}

fn tell(convoke: &mut UnixStream, line: &str) {
    // Nobody listens any more when this fails, and the guardian ends in either case.
    let _ = writeln!(convoke, "{line}");
}

fn start_agent(program: &OsStr, args: impl Iterator<Item = OsString>) -> io::Result<Pid> {
    let child = Command::new(platform::this_program()?)
        .arg(AGENT)
        .arg(std::process::id().to_string())
        .arg(program)
        .args(args)
        .spawn()?;
    // The agent alone holds the pipes to Convoke; else their end would never be seen.
    let nothing = OpenOptions::new().read(true).write(true).open("/dev/null")?;
    unistd::dup2_stdin(&nothing)?;
    unistd::dup2_stdout(&nothing)?;
    unistd::dup2_stderr(&nothing)?;
    i32::try_from(child.id()).map(Pid::from_raw).map_err(io::Error::other)
}

/// Passes on what Convoke says, to the end of the connection.
fn listen(mut commands: UnixStream, sender: &mpsc::Sender<News>) {
    let mut byte = [0];
    while let Ok(1) = commands.read(&mut byte) {
        if sender.send(News::LastSituation(byte[0])).is_err() {
            return;
        }
    }
    let _ = sender.send(News::ConvokeIsGone);
}

/// Ends everything that descends from the guardian, reaps it, and returns how many there were beside the
/// agent. How the agent ended is left in `exit`.
///
/// What forks while it is being ended is found in the next round. Only the kernel knows at every moment
/// whether something is left: a list of processes can miss one that changes its parent.
fn sweep(agent: Pid, exit: &mut Option<ExitStatus>) -> usize {
    let begin = Instant::now();
    let mut ended = BTreeSet::new();
    // The agent is not reaped yet, so its number cannot have become another group's.
    let _ = killpg(agent, Signal::SIGKILL);
    loop {
        match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::StillAlive) if begin.elapsed() < SWEEP_LIMIT => {
                for pid in platform::descendants(unistd::getpid()) {
                    if kill(pid, Signal::SIGKILL).is_ok() && pid != agent {
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
            // One more is gone; a signal that has no name here ended it, when there is an error.
            Ok(_) | Err(_) => {}
        }
    }
}

/// Removes the turn's directory, which Convoke can no longer do.
fn remove_private_dir(socket: &Path) {
    if let Some(dir) = socket.parent().filter(|dir| super::private_dir::is_private_dir(dir)) {
        let _ = std::fs::remove_dir_all(dir);
    }
}

/// Becomes the agent: in a session of its own, and not for longer than the guardian lives.
fn become_agent(parent: &OsStr, program: &OsStr, args: impl Iterator<Item = OsString>) -> ExitCode {
    let prepared = unistd::setsid()
        .and_then(|_| platform::end_with_parent())
        .and_then(|()| SigSet::all().thread_unblock());
    let still_held = parent.to_str() == Some(unistd::getppid().to_string().as_str());
    if prepared.is_err() || !still_held {
        return ExitCode::FAILURE;
    }
    let error = Command::new(program).args(args).exec();
    let program = program.display();
    let _ = writeln!(io::stderr(), "{CANNOT_START_WORDS} `{program}`: {error}");
    ExitCode::from(CANNOT_START)
}
