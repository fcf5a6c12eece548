//! The terminal, in raw mode during a chat and restored afterwards, also after a panic.

#![expect(clippy::disallowed_methods, reason = "a full screen is drawn from printable text")]

use std::io::{self, Stdout, stdout};
use std::sync::atomic::{AtomicBool, Ordering};

use crossterm::event::{DisableBracketedPaste, EnableBracketedPaste};
use crossterm::style::Print;
use crossterm::terminal::{
    Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use crossterm::{cursor, execute};
use ratatui::backend::CrosstermBackend;
use ratatui::layout::Size;
use ratatui::{Frame, Terminal};

/// Whether a chat owns the terminal: it is restored only once, since restoring moves the cursor.
static IS_TAKEN: AtomicBool = AtomicBool::new(false);

/// The terminal owned by a chat. Restored on drop.
pub(crate) struct Screen {
    terminal: Terminal<CrosstermBackend<Stdout>>,
}

impl Screen {
    /// Enters the full-screen mode.
    pub(crate) fn take() -> io::Result<Self> {
        restore_on_panic();
        take_over().inspect_err(|_| restore())?;
        let terminal = Terminal::new(CrosstermBackend::new(stdout())).inspect_err(|_| restore())?;
        Ok(Self { terminal })
    }

    /// Returns the size.
    pub(crate) fn size(&self) -> io::Result<Size> {
        self.terminal.size()
    }

    /// Restores the terminal for another program. The next frame takes it over again.
    pub(crate) fn release() {
        restore();
    }

    /// Rings the bell.
    pub(crate) fn ring() -> io::Result<()> {
        execute!(stdout(), Print('\u{7}'))
    }

    /// Draws a frame.
    pub(crate) fn draw(&mut self, render: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        // Another program used the terminal, or a task panicked without ending the chat.
        if !IS_TAKEN.load(Ordering::Relaxed) {
            take_over()?;
            execute!(stdout(), Clear(ClearType::All))?;
            // `Terminal::clear` would ask for the position of the cursor, and the reader of keys gets the answer.
            self.terminal = Terminal::new(CrosstermBackend::new(stdout()))?;
        }
        self.terminal.draw(render)?;
        Ok(())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        restore();
    }
}

fn take_over() -> io::Result<()> {
    IS_TAKEN.store(true, Ordering::Relaxed);
    enable_raw_mode()?;
    execute!(stdout(), EnterAlternateScreen, EnableBracketedPaste)
}

/// Restores the terminal, if a chat owns it. Errors are ignored: there is no place to report them.
fn restore() {
    if IS_TAKEN.swap(false, Ordering::Relaxed) {
        // Otherwise an interrupt typed now would make the kernel discard pending output.
        let _ = disable_raw_mode();
        let _ = execute!(stdout(), DisableBracketedPaste, LeaveAlternateScreen, cursor::Show);
    }
}

/// Restores the terminal before a panic message is printed.
fn restore_on_panic() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        restore();
        before(panic);
    }));
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::time::{Duration, Instant};

    use super::*;

    /// Run in a terminal by the other test.
    #[test]
    #[ignore = "it takes the terminal over and panics"]
    fn a_panic_on_the_screen() {
        let mut screen = Screen::take().unwrap();
        screen.draw(|frame| frame.render_widget("the chat", frame.area())).unwrap();
        panic!("on purpose");
    }

    #[test]
    fn a_panic_restores_the_terminal_and_is_shown() {
        if Command::new("tmux").arg("-V").output().is_err() {
            assert!(std::env::var_os("CI").is_none(), "tmux is not installed");
            println!("skipped: tmux is not installed");
            return;
        }
        let socket = format!("convoke-chat-{}", std::process::id());
        let tmux = |arguments: &[&str]| {
            let mut command = Command::new("tmux");
            command.env_remove("TMUX").args(["-L", &socket, "-f", "/dev/null"]);
            let output = command.args(arguments).output().unwrap();
            String::from_utf8_lossy(&output.stdout).into_owned()
        };
        let this = std::env::current_exe().unwrap();
        let test = "terminal::tests::a_panic_on_the_screen";
        let command = format!(
            "{} --ignored --exact --nocapture {test}; stty -a | grep -ow -e '-*icanon'; exec sleep 1000",
            this.display()
        );
        tmux(&["new-session", "-d", "-x", "120", "-y", "50", &command]);
        let began = Instant::now();
        let mut seen = String::new();
        while !seen.contains("icanon") && began.elapsed() < Duration::from_mins(3) {
            seen = tmux(&["capture-pane", "-p"])
                + &tmux(&["display-message", "-p", "alternate=#{alternate_on}"]);
            std::thread::sleep(Duration::from_millis(50));
        }
        tmux(&["kill-server"]);
        assert!(seen.contains("on purpose"), "{seen}");
        assert!(seen.contains("alternate=0") && !seen.contains("-icanon"), "{seen}");
    }
}
