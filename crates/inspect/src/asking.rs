//! Asking a program a question that it answers at once: run, bounded in time, and read.

use std::ffi::OsString;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

const PATIENCE: Duration = Duration::from_secs(20);
/// No answer that is understood is longer.
const LONGEST: usize = 64 * 1024;

pub(crate) struct Answer {
    pub code: Option<i32>,
    /// What it wrote, to its standard output and then to its standard error.
    pub said: String,
}

/// Returns the answer; none if the program does not run, or takes too long.
pub(crate) fn ask(
    program: &Path,
    arguments: &[&str],
    environment: impl IntoIterator<Item = (OsString, OsString)>,
    cwd: &Path,
) -> Option<Answer> {
    ask_within(PATIENCE, program, arguments, environment, cwd)
}

fn ask_within(
    patience: Duration,
    program: &Path,
    arguments: &[&str],
    environment: impl IntoIterator<Item = (OsString, OsString)>,
    cwd: &Path,
) -> Option<Answer> {
    let mut child = Command::new(program)
        .args(arguments)
        .env_clear()
        .envs(environment)
        .current_dir(cwd)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // So that what it leaves behind can be ended with it.
        .process_group(0)
        .spawn()
        .ok()?;
    let deadline = Instant::now() + patience;
    let pipes = (child.stdout.take().map(listen), child.stderr.take().map(listen));
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(5)),
            Ok(None) | Err(_) => {
                end_group(&child);
                let _ = child.kill();
                let _ = child.wait();
                return None;
            }
        }
    };
    // A process that it has left holds the pipes open, and has nothing to answer.
    end_group(&child);
    let mut said = Vec::new();
    for pipe in [pipes.0?, pipes.1?] {
        said.append(&mut hear(&pipe, deadline));
    }
    Some(Answer { code: status.code(), said: String::from_utf8_lossy(&said).into_owned() })
}

fn end_group(child: &Child) {
    if let Ok(id) = i32::try_from(child.id()) {
        // An empty group is what is hoped for.
        let _ = killpg(Pid::from_raw(id), Signal::SIGKILL);
    }
}

/// Reads a pipe to its end in a thread of its own, which nobody has to wait for.
fn listen(mut pipe: impl Read + Send + 'static) -> Receiver<Vec<u8>> {
    let (sender, chunks) = channel();
    std::thread::spawn(move || {
        let mut buffer = vec![0; 8 * 1024];
        let mut kept = 0;
        while let Ok(count @ 1..) = pipe.read(&mut buffer) {
            // What is too long is read all the same, so that the program can end.
            let count = count.min(LONGEST - kept);
            kept += count;
            if count > 0 {
                // Nobody may be listening any more.
                let _ = sender.send(buffer[..count].to_vec());
            }
        }
    });
    chunks
}

/// Returns what came until the pipe's end or the deadline.
fn hear(pipe: &Receiver<Vec<u8>>, deadline: Instant) -> Vec<u8> {
    let mut heard = Vec::new();
    while let Ok(mut chunk) = pipe.recv_timeout(deadline.saturating_duration_since(Instant::now()))
    {
        heard.append(&mut chunk);
    }
    heard
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask_shell(patience: Duration, script: &str) -> Option<Answer> {
        let path = std::env::var_os("PATH").map(|path| ("PATH".into(), path));
        ask_within(patience, Path::new("/bin/sh"), &["-c", script], path, Path::new("/"))
    }

    #[test]
    fn a_process_that_is_left_behind_is_not_waited_for() {
        let begin = Instant::now();
        let answer = ask_shell(PATIENCE, "sleep 1000 & echo 1.2.3; echo oh >&2; exit 3").unwrap();
        assert_eq!((answer.code, answer.said.as_str()), (Some(3), "1.2.3\noh\n"));
        assert!(begin.elapsed() < PATIENCE);
    }

    #[test]
    fn a_process_that_has_left_the_group_holds_nobody_up_for_long() {
        let begin = Instant::now();
        let answer =
            ask_shell(Duration::from_secs(3), "setsid sleep 30 & sleep .5; echo 1").unwrap();
        assert_eq!(answer.said, "1\n");
        assert!(begin.elapsed() < Duration::from_secs(20));
    }

    #[test]
    fn a_program_that_never_answers_is_ended() {
        assert!(ask_shell(Duration::from_millis(300), "sleep 1000; echo late").is_none());
    }

    #[test]
    fn a_long_answer_is_cut_and_its_program_ends() {
        let answer = ask_shell(PATIENCE, "head -c 1000000 /dev/zero | tr '\\0' x").unwrap();
        assert_eq!((answer.code, answer.said.len()), (Some(0), LONGEST));
    }
}
