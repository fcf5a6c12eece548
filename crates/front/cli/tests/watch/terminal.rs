//! A terminal of tmux.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::person::Person;

const TIMEOUT: Duration = Duration::from_mins(1);

/// A terminal with a shell, in a directory and with an environment.
pub struct Terminal {
    directory: TempDir,
}

impl Terminal {
    /// Opens a terminal for a command; `None` without tmux, which only CI requires.
    pub fn open(command: &Command) -> Option<Self> {
        if Command::new("tmux").arg("-V").output().is_err() {
            assert!(std::env::var_os("CI").is_none(), "tmux is not installed");
            eprintln!("skipped: tmux is not installed");
            return None;
        }
        let terminal = Self { directory: TempDir::new().unwrap() };
        let cwd = command.get_current_dir().unwrap();
        let mut tmux = terminal.command();
        tmux.env_clear().current_dir(terminal.directory.path());
        tmux.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        tmux.env("LC_ALL", "C.UTF-8").env("PS1", "$ ").env("ENV", "");
        tmux.args(["-u", "new-session", "-d", "-x", "100", "-y", "30", "-c"]).arg(cwd).arg("sh");
        let output = tmux.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        terminal.wait_until("a prompt", |screen| !screen.trim().is_empty());
        Some(terminal)
    }

    fn command(&self) -> Command {
        let mut tmux = Command::new("tmux");
        tmux.args(["-S", "socket", "-f", "/dev/null"]).current_dir(self.directory.path());
        tmux
    }

    fn tmux(&self, arguments: &[&str]) -> String {
        let output = self.command().args(arguments).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    pub fn enter(&self, line: &str) {
        self.tmux(&["send-keys", "-l", line]);
        self.press("Enter");
    }

    /// Types a line into a program, which would take a quick Enter for a part of a paste.
    pub fn submit(&self, line: &str) {
        self.tmux(&["send-keys", "-l", line]);
        self.wait_for(line);
        std::thread::sleep(Duration::from_secs(1));
        self.press("Enter");
    }

    pub fn press(&self, key: &str) {
        self.tmux(&["send-keys", key]);
    }

    pub fn resize(&self, columns: &str, rows: &str) {
        self.tmux(&["resize-window", "-x", columns, "-y", rows]);
    }

    pub fn screen(&self) -> String {
        self.tmux(&["capture-pane", "-p"])
    }

    pub fn wait_for(&self, text: &str) -> String {
        self.wait_until(text, |screen| screen.contains(text))
    }

    pub fn wait_until(&self, what: &str, is_there: impl Fn(&str) -> bool) -> String {
        let began = Instant::now();
        loop {
            let screen = self.screen();
            if is_there(&screen) {
                return screen;
            }
            assert!(began.elapsed() < TIMEOUT, "never saw {what:?} on\n{screen}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Returns the settings of the terminal, and its modes as tmux knows them.
    pub fn state(&self, directory: &Path) -> String {
        let _ = std::fs::remove_file(directory.join("stty"));
        self.enter("stty -g >stty.new; mv stty.new stty");
        let began = Instant::now();
        while !directory.join("stty").exists() {
            assert!(began.elapsed() < TIMEOUT, "no shell on\n{}", self.screen());
            std::thread::sleep(Duration::from_millis(20));
        }
        let modes = "#{alternate_on} #{cursor_flag} #{mouse_any_flag} #{keypad_flag} #{keypad_cursor_flag} #{wrap_flag}";
        let modes = self.tmux(&["display-message", "-p", modes]);
        std::fs::read_to_string(directory.join("stty")).unwrap() + &modes
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.command().arg("kill-server").output();
    }
}

#[test]
fn keys_resizing_and_job_control_reach_the_program() {
    let script = "trap 'echo interrupted' INT; trap 'echo resized $(stty size)' WINCH\n\
                  trap 'send continued; echo continued' CONT\n\
                  stty -echo; echo ready; while [ ! -e end ]; do sleep 0.05; done\n\
                  stty echo; exit 6";
    let person = Person::new(script);
    let Some(terminal) = Terminal::open(&person.watching(&[])) else { return };
    let before = terminal.state(person.project.path());
    terminal.enter(&format!("{} watch -- claude", env!("CARGO_BIN_EXE_convoke")));
    terminal.wait_for("ready");
    terminal.press("C-c");
    terminal.wait_for("interrupted");
    terminal.resize("90", "25");
    terminal.wait_for("resized 25 90");
    terminal.press("C-z");
    terminal.wait_for("Stopped");
    terminal.enter("echo \"the shell is $((40 + 2))\"; fg; echo code: $?");
    terminal.wait_for("the shell is 42");
    terminal.wait_for("\ncontinued");
    std::fs::write(person.project.path().join("end"), "").unwrap();
    terminal.wait_for("code: 6");
    assert_eq!(person.take_calls().len(), 1, "the relay continues too");
    assert_eq!(terminal.state(person.project.path()), before);
}

#[test]
fn a_program_that_stops_itself_gives_the_shell_back() {
    let person = Person::new("echo ready; kill -STOP $$; send after; echo again; exit 8");
    let Some(terminal) = Terminal::open(&person.watching(&[])) else { return };
    terminal.enter(&format!("{} watch -- claude", env!("CARGO_BIN_EXE_convoke")));
    terminal.wait_for("Stopped");
    terminal.enter("fg; echo code: $?");
    terminal.wait_for("again");
    terminal.wait_for("code: 8");
    assert_eq!(person.take_calls().len(), 1);
}
