//! Standard output and standard error, for everything that the command prints.
//!
//! A [`Screen`] is the only way to either. A pipe or a file gets the exact bytes. A terminal gets text and
//! nothing else: whatever is written, control sequences, direction overrides and invisible characters are shown
//! as marks. Colours are the one exception, and only [`Paint`] can make them.

mod filter;
mod paint;
mod settings;
mod wrap;

use std::borrow::Cow;
use std::io::{self, IsTerminal as _, Write};
use std::os::fd::{AsFd, BorrowedFd};

pub use filter::clear_line;
pub use paint::{Paint, Tone};
pub use settings::{OutputSettings, is_quiet};

use filter::Filter;
use wrap::LineWrap;

/// Standard output or standard error.
#[derive(Debug)]
pub struct Screen {
    stream: Stream,
    /// The filter in front of a terminal; `None` for a pipe or a file.
    filter: Option<Filter>,
    /// Breaks lines at the width of a terminal.
    wrap: Option<LineWrap>,
}

#[derive(Debug)]
enum Stream {
    Out(io::Stdout),
    Err(io::Stderr),
}

/// Returns standard output.
#[expect(clippy::disallowed_methods, reason = "this is the one place that opens it")]
pub fn stdout() -> Screen {
    let stream = io::stdout();
    Screen::new(stream.is_terminal(), Stream::Out(stream))
}

/// Returns standard error.
#[expect(clippy::disallowed_methods, reason = "this is the one place that opens it")]
pub fn stderr() -> Screen {
    let stream = io::stderr();
    Screen::new(stream.is_terminal(), Stream::Err(stream))
}

impl Screen {
    fn new(is_terminal: bool, stream: Stream) -> Self {
        let mut screen = Self { stream, filter: is_terminal.then(Filter::default), wrap: None };
        let size = is_terminal.then(|| terminal_size::terminal_size_of(&screen)).flatten();
        screen.wrap = size.map(|(width, _)| LineWrap::new(usize::from(width.0)));
        screen
    }

    /// Returns the stream for texts that are shown as they are: the terminal breaks their lines.
    pub fn verbatim(mut self) -> Self {
        self.wrap = None;
        self
    }

    /// Returns whether it is a terminal.
    pub fn is_terminal(&self) -> bool {
        self.filter.is_some()
    }
}

impl Write for Screen {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.filter {
            Some(filter) => {
                let shown = filter.shown(bytes);
                let shown = match &mut self.wrap {
                    Some(wrap) => wrap.push(&shown),
                    None => shown,
                };
                self.stream.writer().write_all(shown.as_bytes())?;
            }
            None => self.stream.writer().write_all(bytes)?,
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if let Some(wrap) = &mut self.wrap {
            let mut held = String::new();
            wrap.release(&mut held);
            self.stream.writer().write_all(held.as_bytes())?;
        }
        self.stream.writer().flush()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        if self.wrap.is_some() {
            // There is no place to report it.
            let _ = self.flush();
        }
    }
}

impl AsFd for Screen {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.stream {
            Stream::Out(stream) => stream.as_fd(),
            Stream::Err(stream) => stream.as_fd(),
        }
    }
}

impl Stream {
    fn writer(&mut self) -> &mut dyn Write {
        match self {
            Self::Out(stream) => stream,
            Self::Err(stream) => stream,
        }
    }
}

/// The columns of a pipe or a file.
const DEFAULT_WIDTH: usize = 100;

/// Returns the columns of a stream: those of its terminal, else of `COLUMNS`, never fewer than 40.
pub fn width(stream: &Screen) -> usize {
    let terminal = stream.is_terminal().then(|| terminal_size::terminal_size_of(stream)).flatten();
    let terminal = terminal.map(|(width, _)| usize::from(width.0));
    let told = || std::env::var("COLUMNS").ok()?.parse().ok();
    terminal.or_else(told).unwrap_or(DEFAULT_WIDTH).max(40)
}

/// Returns a text without control characters, on one line.
pub fn printable(text: &str) -> Cow<'_, str> {
    let is_control = |c: char| c.is_control() && c != '\t';
    if text.contains(is_control) {
        Cow::Owned(text.replace(is_control, ""))
    } else {
        Cow::Borrowed(text)
    }
}

/// Returns the terminal output of some bytes.
#[cfg(test)]
pub fn on_terminal(bytes: &[u8]) -> String {
    Filter::default().shown(bytes)
}
