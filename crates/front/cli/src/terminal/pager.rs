//! Long output on a terminal, through the user's pager.

use std::io::{self, Write as _};
use std::process::{Command, Stdio};

use super::filter::Filter;
use super::wrap::LineWrap;
use super::{stdout, width};
use crate::host_environment;

/// The pager where none is set, and the machine may have none.
const DEFAULT_PAGER: &str = "if command -v less >/dev/null; then less -R; else cat; fi";

/// Writes a text to standard output, through `PAGER` or `less` if the text does not fit the terminal.
pub fn page(text: &str) -> io::Result<()> {
    let mut out = stdout();
    let rows = out.is_terminal().then(|| terminal_size::terminal_size_of(&out)).flatten();
    let pager = std::env::var("PAGER").unwrap_or_else(|_| DEFAULT_PAGER.to_owned());
    let is_paged = !pager.trim().is_empty();
    let Some((_, rows)) = rows.filter(|_| is_paged) else {
        return out.write_all(text.as_bytes());
    };
    let mut wrap = LineWrap::new(width(&out));
    let mut shown = wrap.push(&Filter::default().shown(text.as_bytes()));
    wrap.release(&mut shown);
    if shown.lines().count() < usize::from(rows.0) {
        return out.write_all(text.as_bytes());
    }
    let mut command = Command::new("/bin/sh");
    command.args(["-c", &pager]).stdin(Stdio::piped());
    // An agent could have put a program of this name into the project.
    if let Ok(host_environment) = host_environment::of_process() {
        command.env("PATH", host_environment.search_path().to_variable());
    }
    if std::env::var_os("LESS").is_none() {
        command.env("LESS", "FRX");
    }
    let Ok(mut child) = command.spawn() else { return out.write_all(text.as_bytes()) };
    if let Some(mut stdin) = child.stdin.take() {
        // The user may quit the pager early, which closes the pipe.
        let _ = stdin.write_all(shown.as_bytes());
    }
    child.wait().map(drop)
}
