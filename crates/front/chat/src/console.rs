//! The screen, the keys and the signals of a chat, and the programs that use them in between.

use std::ffi::OsString;
use std::future::pending;
use std::io::{self, Write as _};
use std::time::Duration;

use convoke_files::FileKind;
use convoke_files::limit::read_stream_text;
use crossterm::event::{Event, EventStream};
use futures_util::StreamExt as _;
use nix::sys::signal::{Signal as UnixSignal, kill};
use nix::unistd::Pid;
use tokio::process::Command;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::timeout;

use crate::model::{Chat, Input};
use crate::terminal::Screen;
use crate::view::render;

/// The time after which a suspend counts as failed. The clock does not advance while the process
/// is suspended.
const NOT_STOPPED: Duration = Duration::from_secs(2);

/// The screen, the keys and the signals of a chat.
pub(crate) struct Console {
    pub(crate) screen: Screen,
    /// `None` while another program reads the keys.
    pub(crate) keys: Option<EventStream>,
    pub(crate) signals: Signals,
    editor: String,
    search_path: OsString,
}

impl Console {
    /// Takes over the terminal.
    pub(crate) fn take(editor: String, search_path: OsString) -> io::Result<Self> {
        let screen = Screen::take()?;
        Ok(Self {
            screen,
            keys: Some(EventStream::new()),
            signals: Signals::listen()?,
            editor,
            search_path,
        })
    }

    /// Draws a frame, and rings the bell if a turn needs the person.
    pub(crate) fn draw(&mut self, chat: &mut Chat) -> io::Result<()> {
        self.screen.draw(|frame| render(chat, frame))?;
        if chat.takes_bell() {
            Screen::ring()?;
        }
        Ok(())
    }

    /// Stops the program until the shell continues it, with the terminal restored. Running turns continue until their
    /// output queues are full.
    pub(crate) async fn suspend(&mut self) -> Option<Input> {
        Screen::release();
        // Stops the whole process group, as the terminal does: a wrapper may have started this program.
        let stopped = kill(Pid::from_raw(0), UnixSignal::SIGTSTP);
        let continued = timeout(NOT_STOPPED, self.signals.continued.recv()).await;
        let size = self.screen.size().ok().map(Input::Resize);
        match (stopped, continued) {
            (Ok(()), Ok(_)) => size,
            _ => Some(Input::Remark("cannot suspend: no shell to resume the program".to_owned())),
        }
    }

    /// Opens a text in the person's editor and returns the saved text.
    pub(crate) async fn edit(&mut self, text: &str) -> Result<String, String> {
        // A reader of keys would consume those for the editor.
        self.keys = None;
        Screen::release();
        let edited = self.run_editor(text).await;
        // An interrupt for the editor is not one for the chat.
        if let Ok(interrupt) = signal(SignalKind::interrupt()) {
            self.signals.interrupt = interrupt;
        }
        self.keys = Some(EventStream::new());
        edited.map_err(|why| format!("{why}; the message is unchanged"))
    }

    async fn run_editor(&mut self, text: &str) -> Result<String, String> {
        let failed = |error: io::Error| error.to_string();
        let file = tempfile::Builder::new().prefix("convoke-message-").suffix(".md").tempfile();
        let mut file = file.map_err(failed)?;
        file.write_all(text.as_bytes()).map_err(failed)?;
        let (_, path) = file.into_parts();
        let command = format!("{} \"$1\"", self.editor);
        let mut editor = Command::new("/bin/sh");
        let editor = editor.args(["-c", &command, "sh"]).arg(&path);
        let editor = editor.env("PATH", &self.search_path).status();
        let status = editor.await.map_err(failed)?;
        if !status.success() {
            return Err(format!("the editor ended with {status}"));
        }
        let saved = std::fs::File::open(&path).map_err(failed)?;
        let saved = read_stream_text(saved, &path, FileKind::Input).map_err(failed)?;
        Ok(saved.trim_end_matches(['\n', '\r']).to_owned())
    }
}

/// Waits for an event of the terminal.
pub(crate) async fn next_key(keys: &mut Option<EventStream>) -> Option<io::Result<Event>> {
    match keys {
        Some(keys) => keys.next().await,
        None => pending().await,
    }
}

/// The signals that a chat handles.
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
    continued: Signal,
}

/// The meaning of a signal.
#[derive(Debug)]
pub(crate) enum ChatSignal {
    /// The person interrupted.
    Interrupt,
    /// The program is to end.
    Terminate,
    /// The program was stopped and has been continued.
    Continue,
}

impl Signals {
    fn listen() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
            continued: signal(SignalKind::from_raw(UnixSignal::SIGCONT as i32))?,
        })
    }

    /// Waits for a signal.
    pub(crate) async fn next(&mut self) -> ChatSignal {
        tokio::select! {
            Some(()) = self.interrupt.recv() => ChatSignal::Interrupt,
            Some(()) = self.terminate.recv() => ChatSignal::Terminate,
            Some(()) = self.hang_up.recv() => ChatSignal::Terminate,
            Some(()) = self.continued.recv() => ChatSignal::Continue,
            else => pending().await,
        }
    }
}
