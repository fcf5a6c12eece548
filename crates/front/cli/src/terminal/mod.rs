//! Standard output and standard error, for everything that the command prints.
//!
//! A [`Screen`] is the only way to either. A pipe or a file gets the exact bytes, and colours only with
//! `--color always`. A terminal gets text and
//! nothing else: control sequences, direction overrides and invisible characters are shown
//! as marks. Colours are the one exception, and only [`Paint`] can make them.

mod filter;
mod pager;
mod paint;
mod progress;
mod settings;
mod wrap;

use std::borrow::Cow;
use std::io::{self, IsTerminal as _, Write};
use std::os::fd::{AsFd, BorrowedFd};

pub use filter::clear_line;
pub use pager::page;
pub use paint::{Paint, Tone, ledger_style};
pub use progress::ProgressLine;
pub use settings::{OutputSettings, is_quiet};

use filter::Filter;
use settings::ColorChoice;
use wrap::LineWrap;

/// Standard output or standard error.
#[derive(Debug)]
pub struct Screen {
    stream: Stream,
    is_terminal: bool,
    /// The filter in front of a terminal, and of a pipe or a file that gets colours; else `None`.
    filter: Option<Filter>,
    /// Breaks lines at the width of a terminal.
    wrap: Option<LineWrap>,
}

#[derive(Debug)]
enum Stream {
    Out(io::Stdout),
    Err(io::Stderr),
}

/// A failed write. The error of the operating system alone would not say which file it is about.
#[derive(Debug, thiserror::Error)]
#[error("cannot write to {stream}: {source}")]
pub struct OutputError {
    stream: &'static str,
    source: io::Error,
}

impl OutputError {
    fn named(stream: &'static str, source: io::Error) -> io::Error {
        io::Error::new(source.kind(), Self { stream, source })
    }
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
        let filter = if is_terminal {
            Some(Filter::default())
        } else if settings::color() == ColorChoice::Always {
            Some(Filter::exact())
        } else {
            None
        };
        let mut screen = Self { stream, is_terminal, filter, wrap: None };
        let size = is_terminal.then(|| terminal_size::terminal_size_of(&screen)).flatten();
        screen.wrap = size.map(|(width, _)| LineWrap::new(usize::from(width.0)));
        screen
    }

    /// Returns the stream without line wrapping, for texts that are shown verbatim.
    pub fn verbatim(mut self) -> Self {
        self.wrap = None;
        self
    }

    /// Returns whether the stream is a terminal.
    pub fn is_terminal(&self) -> bool {
        self.is_terminal
    }
}

impl Write for Screen {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let stream = self.stream.name();
        self.write_all_of(bytes).map_err(|error| OutputError::named(stream, error))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let stream = self.stream.name();
        self.flush_held().map_err(|error| OutputError::named(stream, error))
    }
}

impl Screen {
    fn write_all_of(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.filter {
            Some(filter) if !self.is_terminal => {
                self.stream.writer().write_all(&filter.painted(bytes))?;
            }
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
        Ok(())
    }

    fn flush_held(&mut self) -> io::Result<()> {
        if let Some(filter) = self.filter.as_mut().filter(|_| !self.is_terminal) {
            let held = filter.release();
            self.stream.writer().write_all(&held)?;
        }
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
        if self.wrap.is_some() || self.filter.is_some() {
            // There is nowhere to report the error.
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
    const fn name(&self) -> &'static str {
        match self {
            Self::Out(_) => "standard output",
            Self::Err(_) => "standard error",
        }
    }

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
    columns(stream).unwrap_or(DEFAULT_WIDTH).max(40)
}

/// Returns the columns of a stream, if they are known.
pub fn columns(stream: &Screen) -> Option<usize> {
    let terminal = stream.is_terminal().then(|| terminal_size::terminal_size_of(stream)).flatten();
    let terminal = terminal.map(|(width, _)| usize::from(width.0));
    terminal.or_else(|| std::env::var("COLUMNS").ok()?.parse().ok())
}

/// Returns the rows of a stream's terminal.
pub fn rows(stream: &Screen) -> Option<usize> {
    let terminal = stream.is_terminal().then(|| terminal_size::terminal_size_of(stream)).flatten();
    terminal.map(|(_, height)| usize::from(height.0))
}

/// Returns a text without control characters, on one line.
pub fn printable(text: &str) -> Cow<'_, str> {
    let is_control = |c: char| c.is_control() && c != '\t';
    if text.contains(is_control) {
        let shown = text.trim_end_matches('\n').replace('\n', " ");
        Cow::Owned(shown.replace(is_control, ""))
    } else {
        Cow::Borrowed(text)
    }
}

/// Returns a line with control, invisible and direction characters spelled out, for texts in which every character matters.
pub fn spelled_out(line: &str) -> Cow<'_, str> {
    let is_control = |c: char| convoke_chat::is_dangerous(c) && c != '\t';
    if !line.contains(is_control) {
        return Cow::Borrowed(line);
    }
    let shown =
        |c: char| if is_control(c) { c.escape_default().to_string() } else { c.to_string() };
    Cow::Owned(line.chars().map(shown).collect())
}

/// Returns a heading that fills a line of standard output.
pub fn heading(title: &str) -> String {
    let columns = width(&stdout()).min(100);
    let fill = "─".repeat(columns.saturating_sub(title.chars().count() + 1));
    format!("{title} {fill}")
}

/// Writes one JSON value and a line break.
pub fn write_json(value: &impl serde::Serialize) -> io::Result<()> {
    let mut out = stdout();
    serde_json::to_writer(&mut out, value)?;
    writeln!(out)
}

/// Returns the terminal output of some bytes.
#[cfg(test)]
pub fn on_terminal(bytes: &[u8]) -> String {
    Filter::default().shown(bytes)
}

#[cfg(test)]
mod tests {
    #[test]
    fn lines_become_one_line_and_their_words_stay_apart() {
        assert_eq!(super::printable("one\r\ntwo\u{1b}\nthree\n"), "one two three");
    }

    #[test]
    fn characters_that_could_hide_text_are_spelled_out() {
        assert_eq!(super::spelled_out("a\u{1b}[2K\tb\u{202e}c é"), "a\\u{1b}[2K\tb\\u{202e}c é");
    }
}
