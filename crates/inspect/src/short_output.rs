//! Runs a program and reads its short output, with a time limit.

use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use convoke_agent::launch::ConfinedEnvironment;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

/// The time limit, long enough for a busy machine.
const TIME_LIMIT: Duration = Duration::from_mins(1);
/// The polling interval.
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// The maximum size of the output.
const MAX_OUTPUT_BYTES: usize = 64 * 1024;

pub(crate) struct ShortOutput {
    pub code: Option<i32>,
    /// The standard output followed by the standard error.
    pub output: String,
}

/// Returns the output; `None` if the program does not run or exceeds the time limit.
pub(crate) fn short_output(
    program: &Path,
    arguments: &[&str],
    environment: &ConfinedEnvironment,
    cwd: &Path,
) -> Option<ShortOutput> {
    output_within(TIME_LIMIT, program, arguments, environment, cwd)
}

fn output_within(
    time_limit: Duration,
    program: &Path,
    arguments: &[&str],
    environment: &ConfinedEnvironment,
    cwd: &Path,
) -> Option<ShortOutput> {
    let mut child = Command::new(program)
        .args(arguments)
        .env_clear()
        .envs(environment.variables())
        .current_dir(cwd)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // So that its children can be killed with it.
        .process_group(0)
        .spawn()
        .ok()?;
    let deadline = Instant::now() + time_limit;
    let mut output = child.stdout.take().and_then(Output::new)?;
    let mut errors = child.stderr.take().and_then(Output::new)?;
    let status = loop {
        output.drain();
        errors.drain();
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if Instant::now() < deadline => std::thread::sleep(POLL_INTERVAL),
            Ok(None) | Err(_) => {
                end_group(&child);
                let _ = child.kill();
                let _ = child.wait();
                return None;
            }
        }
    };
    end_group(&child);
    // Its output is in the pipes by now. Do not wait for their end: a remaining child may hold them open.
    output.drain();
    errors.drain();
    output.bytes.append(&mut errors.bytes);
    let output = String::from_utf8_lossy(&output.bytes).into_owned();
    Some(ShortOutput { code: status.code(), output })
}

fn end_group(child: &Child) {
    if let Ok(id) = i32::try_from(child.id()) {
        // The group is usually empty.
        let _ = killpg(Pid::from_raw(id), Signal::SIGKILL);
    }
}

/// A non-blocking pipe and its output so far.
struct Output<P> {
    pipe: P,
    bytes: Vec<u8>,
}

impl<P: Read + AsFd> Output<P> {
    fn new(pipe: P) -> Option<Self> {
        let flags = OFlag::from_bits_retain(fcntl(&pipe, FcntlArg::F_GETFL).ok()?);
        fcntl(&pipe, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK)).ok()?;
        Some(Self { pipe, bytes: Vec::new() })
    }

    /// Empties the pipe, also beyond the limit, so that the program can end; bounded in time.
    fn drain(&mut self) {
        let mut buffer = [0; 8 * 1024];
        let mut read = 0;
        while read < 2 * MAX_OUTPUT_BYTES {
            match self.pipe.read(&mut buffer) {
                Ok(count @ 1..) => {
                    read += count;
                    let kept = count.min(MAX_OUTPUT_BYTES - self.bytes.len());
                    self.bytes.extend_from_slice(&buffer[..kept]);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // The end, or no data yet.
                Ok(0) | Err(_) => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use convoke_agent::launch::Project;
    use convoke_agent::turn_input::Trust;

    use super::*;

    fn ask_shell(time_limit: Duration, script: &str) -> Option<ShortOutput> {
        let path = std::env::var_os("PATH").map(|path| ("PATH".into(), path));
        let root = Path::new("/");
        let project = Project { cwd: root, home: None, trust: Trust::Trusted };
        let path = ConfinedEnvironment::new(path.into_iter().collect(), project, None).unwrap();
        output_within(time_limit, Path::new("/bin/sh"), &["-c", script], &path, root)
    }

    #[test]
    fn a_process_that_is_left_behind_is_not_waited_for() {
        let answer = ask_shell(TIME_LIMIT, "sleep 1000 & echo 1.2.3; echo oh >&2; exit 3").unwrap();
        assert_eq!((answer.code, answer.output.as_str()), (Some(3), "1.2.3\noh\n"));
    }

    #[test]
    fn a_process_that_has_left_the_group_delays_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let pid = directory.path().join("pid");
        // It holds the pipes open, out of the group's reach, before its parent ends.
        let script = format!(
            "setsid sh -c 'echo $$ >{0}; exec sleep 1000' & while ! [ -s {0} ]; do sleep .01; done; echo 1",
            pid.display()
        );
        let begin = Instant::now();
        let answer = ask_shell(TIME_LIMIT * 10, &script).unwrap();
        assert_eq!(answer.output, "1\n");
        assert!(begin.elapsed() < TIME_LIMIT * 5, "the pipes were waited for");
        let left = std::fs::read_to_string(pid).unwrap().trim().parse().unwrap();
        nix::sys::signal::kill(Pid::from_raw(left), Signal::SIGKILL).unwrap();
    }

    #[test]
    fn a_program_that_never_answers_is_ended() {
        assert!(ask_shell(Duration::from_millis(300), "sleep 1000; echo late").is_none());
    }

    #[test]
    fn a_long_answer_is_cut_and_its_program_ends() {
        let answer = ask_shell(TIME_LIMIT, "head -c 1000000 /dev/zero | tr '\\0' x").unwrap();
        assert_eq!((answer.code, answer.output.len()), (Some(0), MAX_OUTPUT_BYTES));
    }
}
