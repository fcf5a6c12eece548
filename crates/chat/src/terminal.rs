//! The terminal: taken over for a chat, and given back as it was, whatever happens.

use std::io::{self, Stdout, stdout};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crossterm::event::{DisableBracketedPaste, EnableBracketedPaste};
use crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use crossterm::{cursor, execute};
use ratatui::backend::CrosstermBackend;
use ratatui::layout::Size;
use ratatui::{Frame, Terminal};

/// The terminal while a chat has it. Dropping it gives it back.
pub(crate) struct Screen {
    terminal: Terminal<CrosstermBackend<Stdout>>,
    /// A panic gave the terminal back, so that its message can be read.
    was_given_back: Arc<AtomicBool>,
}

impl Screen {
    /// Takes the terminal over.
    pub(crate) fn take() -> io::Result<Self> {
        let was_given_back = Arc::new(AtomicBool::new(false));
        give_back_on_panic(Arc::clone(&was_given_back));
        enter().inspect_err(|_| give_back())?;
        let terminal =
            Terminal::new(CrosstermBackend::new(stdout())).inspect_err(|_| give_back())?;
        Ok(Self { terminal, was_given_back })
    }

    /// Returns how large it is.
    pub(crate) fn size(&self) -> io::Result<Size> {
        self.terminal.size()
    }

    /// Draws a frame.
    pub(crate) fn draw(&mut self, render: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        // An agent's task may have panicked without ending the chat.
        if self.was_given_back.swap(false, Ordering::Relaxed) {
            enter()?;
            self.terminal.clear()?;
        }
        self.terminal.draw(render)?;
        Ok(())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
    }
}

fn enter() -> io::Result<()> {
    enable_raw_mode()?;
    execute!(stdout(), EnterAlternateScreen, EnableBracketedPaste)
}

/// Gives the terminal back. There is nobody left who could be told that it did not work.
fn give_back() {
    let _ = execute!(stdout(), DisableBracketedPaste, LeaveAlternateScreen, cursor::Show);
    let _ = disable_raw_mode();
}

/// Gives the terminal back before a panic says what happened.
fn give_back_on_panic(was_given_back: Arc<AtomicBool>) {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        give_back();
        was_given_back.store(true, Ordering::Relaxed);
        before(panic);
    }));
}
