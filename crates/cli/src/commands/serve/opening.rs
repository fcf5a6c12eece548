//! Opens the page in a browser.

use std::fs;
use std::io::Write as _;
use std::process::{Command, Stdio};

use anyhow::Context as _;
use tempfile::TempDir;

use crate::host_environment;
use crate::outcome::UsageError;

/// Opens an address in the user's browser. The address contains the token, and every user of the machine can read
/// argument lists, so the browser gets a private file that redirects to it. Dropping the result removes the file.
pub(super) fn open(url: &str) -> anyhow::Result<TempDir> {
    let directory = TempDir::with_prefix("convoke-").context("cannot write a temporary file")?;
    let path = directory.path().join("open.html");
    let mut options = fs::OpenOptions::new();
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.write(true).create_new(true).open(&path)?;
    // The address needs no escaping: we generate it.
    write!(
        file,
        "<!doctype html><meta charset=\"utf-8\"><meta name=\"referrer\" content=\"no-referrer\">\
         <meta http-equiv=\"refresh\" content=\"0; url={url}\"><a href=\"{url}\">Open the page</a>"
    )?;
    let program = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let found = host_environment::of_process()?.agent_program(program);
    let started = Command::new(found.unwrap_or_else(|| program.into()))
        .arg(&path)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    match started {
        Ok(mut child) => {
            // The process ends by itself when the browser has the file.
            std::thread::spawn(move || child.wait());
            Ok(directory)
        }
        Err(error) => {
            let problem =
                format!("--open: cannot run {program}: {error}; open the printed address");
            Err(UsageError(problem).into())
        }
    }
}
