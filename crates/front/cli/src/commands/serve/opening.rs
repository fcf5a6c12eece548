//! Opens the page in a browser.

use std::fs;
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};

use anyhow::Context as _;
use tempfile::TempDir;

use crate::host_environment;
use crate::outcome::UsageError;

/// Opens an address in the user's browser. The address contains the token, and every user of the machine can read
/// argument lists, so the browser gets a private file that redirects to it. Dropping the result removes the file.
pub(in crate::commands) fn open(url: &str) -> anyhow::Result<TempDir> {
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
    // One in the project is not started: an agent could have put it there.
    let host_environment = host_environment::of_process()?;
    let not_run = |why: String| {
        UsageError(format!("--open: cannot run {program}: {why}; open the printed address"))
    };
    let found = host_environment.agent_program(program);
    let found = found.ok_or_else(|| not_run("it is not installed".to_owned()))?;
    let started = Command::new(found)
        .arg(&path)
        .env("PATH", host_environment.search_path().to_variable())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        // The keys of this terminal are not for the browser.
        .process_group(0)
        .spawn();
    match started {
        Ok(mut child) => {
            // The process ends by itself when the browser has the file.
            std::thread::spawn(move || child.wait());
            Ok(directory)
        }
        Err(error) => Err(not_run(error.to_string()).into()),
    }
}
