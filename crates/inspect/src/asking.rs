//! Asking a program a question that it answers at once: run, bounded in time, and read.

use std::ffi::OsString;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(20);
/// No answer that is understood is longer.
const LONGEST: u64 = 64 * 1024;

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
    let mut child = Command::new(program)
        .args(arguments)
        .env_clear()
        .envs(environment)
        .current_dir(cwd)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .ok()?;
    let deadline = Instant::now() + PATIENCE;
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(5)),
            Ok(None) | Err(_) => {
                let _ = child.kill();
                let _ = child.wait();
                return None;
            }
        }
    };
    let mut said = Vec::new();
    let _ = child.stdout?.take(LONGEST).read_to_end(&mut said);
    let _ = child.stderr?.take(LONGEST).read_to_end(&mut said);
    Some(Answer { code: status.code(), said: String::from_utf8_lossy(&said).into_owned() })
}
