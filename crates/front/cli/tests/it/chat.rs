//! `convoke chat` in a real terminal, and without one.

use std::process::Command;
use std::time::{Duration, Instant};

use insta::assert_snapshot;
use sqlx::ConnectOptions as _;
use sqlx::sqlite::SqliteConnectOptions;

use crate::context::TestContext;

/// The time limit for a screen: machines that build at the same time are slow.
const TIMEOUT: Duration = Duration::from_mins(2);

/// The time without a change after which a screen counts as complete.
const SETTLED: Duration = Duration::from_secs(10);

/// A terminal of 80×24 with a shell in it.
pub struct Terminal {
    context: TestContext,
}

impl Terminal {
    /// Opens a terminal; `None` without tmux, which only CI requires.
    pub fn open_in(context: TestContext) -> Option<Self> {
        if Command::new("tmux").arg("-V").output().is_err() {
            assert!(std::env::var_os("CI").is_none(), "tmux is not installed");
            println!("skipped: tmux is not installed");
            return None;
        }
        let terminal = Self { context };
        terminal.tmux(&["-u", "new-session", "-d", "-x", "80", "-y", "24", "sh"]);
        Some(terminal)
    }

    /// Opens a terminal in which the sample is rehearsed.
    fn rehearsing() -> Option<Self> {
        let terminal = Self::open_in(TestContext::new())?;
        terminal.begin("chat --rehearse");
        Some(terminal)
    }

    /// Opens a terminal with a team whose agent is at work until it is released.
    fn with_busy_agent() -> Option<Self> {
        let team = "[[member]]\nname = \"kim\"\nhuman = true\n\n\
                    [[member]]\nname = \"ada\"\nagent = \"busy\"\n";
        let busy = "[agent.busy]\nkind = \"plain\"\npermissions = \"full\"\ncommand = \"/bin/sh\"\n\
                    args = [\"-c\", \"[ -e released ] || exec sleep 1000; echo I am released.\"]\n";
        let context =
            TestContext::new().file("convoke.toml", team).file("configuration/agents.toml", busy);
        let terminal = Self::open_in(context)?;
        terminal.begin("chat");
        Some(terminal)
    }

    fn release(&self) {
        std::fs::write(self.context.path().join("released"), "").expect("a file");
    }

    pub fn begin(&self, arguments: &str) {
        let program = env!("CARGO_BIN_EXE_convoke");
        let command = format!("echo $$ >process; exec {program} {arguments}");
        self.enter(&format!("clear; sh -c '{command}'; echo code $?"));
        self.wait_for("your turn");
    }

    /// Goes on with the last session.
    fn take_up(&self) {
        let program = env!("CARGO_BIN_EXE_convoke");
        self.enter(&format!("clear; {program} chat --session last; echo code $?"));
        self.wait_for("your turn");
    }

    /// Types a line and presses Enter.
    pub fn enter(&self, line: &str) {
        self.tmux(&["send-keys", "-l", line]);
        self.press("Enter");
    }

    /// Presses a key.
    pub fn press(&self, key: &str) {
        self.tmux(&["send-keys", key]);
    }

    pub fn resize(&self, width: &str, height: &str) {
        self.tmux(&["resize-window", "-x", width, "-y", height]);
    }

    /// Returns the content of the terminal, without durations.
    fn screen(&self) -> String {
        let screen = self.tmux(&["capture-pane", "-p"]);
        let words = screen.split_inclusive(' ').map(|word| match word.split_once('.') {
            Some((whole, tenths))
                if whole.parse::<u32>().is_ok() && tenths.trim_end().parse::<u32>().is_ok() =>
            {
                "0.0 ".to_owned()
            }
            _ => word.to_owned(),
        });
        words.collect()
    }

    /// Waits until the terminal shows a text, and returns its content.
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
            std::thread::sleep(Duration::from_millis(30));
        }
    }

    /// Waits until the terminal shows what a snapshot holds, or shows something else for good: a screen
    /// may be read in the middle of being drawn.
    fn settled(&self, snapshot: &str) -> String {
        let path =
            format!("{}/tests/it/snapshots/it__chat__{snapshot}.snap", env!("CARGO_MANIFEST_DIR"));
        let stored = std::fs::read_to_string(path).unwrap_or_default();
        let expected = stored.splitn(3, "---\n").nth(2).unwrap_or_default().trim_end();
        let mut screen = self.screen();
        let mut unchanged_since = Instant::now();
        while screen.trim_end() != expected && unchanged_since.elapsed() < SETTLED {
            std::thread::sleep(Duration::from_millis(30));
            let next = self.screen();
            if next != screen {
                screen = next;
                unchanged_since = Instant::now();
            }
        }
        screen
    }

    /// Checks that the terminal is restored: the shell's screen is back, and input is echoed.
    fn assert_given_back(&self) {
        self.wait_until("the shell's own screen", |_| {
            self.tmux(&["display-message", "-p", "#{alternate_on}#{cursor_flag}"]).trim() == "01"
        });
        self.enter("echo seen; stty -a | grep -o -w -e '-*icanon' -e '-*echo'");
        self.wait_for("seen\nicanon\necho");
    }

    fn tmux(&self, arguments: &[&str]) -> String {
        let path = |name: &str| self.context.path().join(name);
        let output = Command::new("tmux")
            // Not its whole path, which may be longer than a socket's can be.
            .args(["-S", "socket", "-f", "/dev/null"])
            .args(arguments)
            .current_dir(self.context.path())
            .env_remove("TMUX")
            .env_remove("NO_COLOR")
            .env("LC_ALL", "C.UTF-8")
            .env("PS1", "$ ")
            .env("HOME", self.context.path())
            .env("CONVOKE_DATA_DIR", path("data"))
            .env("CONVOKE_CONFIG_DIR", path("configuration"))
            .output()
            .expect("tmux runs");
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).expect("UTF-8")
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let mut tmux = Command::new("tmux");
        tmux.args(["-S", "socket", "kill-server"]).current_dir(self.context.path());
        let _ = tmux.output();
    }
}

/// Compares the content of a terminal with the snapshot of that name.
macro_rules! assert_screen {
    ($terminal:expr, $snapshot:literal) => {
        assert_snapshot!($snapshot, $terminal.settled($snapshot))
    };
}

#[test]
fn a_conversation_runs_in_a_terminal() {
    let Some(terminal) = Terminal::rehearsing() else { return };
    assert_screen!(terminal, "chat_begins");
    terminal.enter("Can we ship login.py tonight?");
    terminal.wait_for("running");
    terminal.wait_for("Ask me again when the tests can fail.");
    terminal.wait_for("your turn");
    assert_screen!(terminal, "chat_ends_with_a_reply");
    terminal.press("F2");
    terminal.wait_for("TEAM_TASK");
    assert_screen!(terminal, "chat_shows_the_ledger");
    terminal.press("Tab");
    terminal.wait_for("prompt of ada");
    terminal.press("Escape");
    terminal.wait_for("your turn");
    terminal.resize("60", "16");
    terminal.wait_until("a narrow screen", |screen| {
        screen.contains(&"─".repeat(40)) && !screen.contains(&"─".repeat(60))
    });
    assert_screen!(terminal, "chat_in_a_small_terminal");
    terminal.resize("80", "24");
    terminal.press("PPage");
    terminal.wait_for("Esc jumps to the end");
    terminal.enter("/quit");
    terminal.wait_for("code 0");
    terminal.assert_given_back();
}

#[test]
fn ctrl_c_cancels_the_turn_and_then_quits_and_the_session_can_be_resumed() {
    let Some(terminal) = Terminal::with_busy_agent() else { return };
    terminal.enter("Can we ship login.py tonight?");
    terminal.wait_for("● ada");
    terminal.press("C-c");
    terminal.wait_for("'s turn was cancelled");
    terminal.wait_for("/retry retries the turn");
    terminal.press("C-c");
    terminal.wait_for("code 0");
    terminal.assert_given_back();
    terminal.take_up();
    terminal.wait_for("Can we ship login.py tonight?");
    terminal.release();
    terminal.enter("/retry");
    terminal.wait_for("I am released.");
    terminal.enter("/quit");
    terminal.wait_for("code 0");
}

#[test]
fn a_signal_saves_and_restores_the_terminal() {
    let Some(terminal) = Terminal::with_busy_agent() else { return };
    terminal.enter("Can we ship login.py tonight?");
    terminal.wait_for("● ");
    terminal.enter("And who tests the tests?");
    terminal.wait_for("… And who tests the tests?");
    let process = std::fs::read_to_string(terminal.context.path().join("process"));
    let process = process.expect("the shell wrote it");
    let killed = Command::new("kill").args(["-TERM", process.trim()]).status();
    assert!(killed.expect("kill runs").success());
    terminal.wait_for("saved; ");
    terminal.wait_for("code 0");
    terminal.assert_given_back();
    terminal.release();
    terminal.take_up();
    terminal.wait_for("And who tests the tests?");
}

#[test]
fn without_a_terminal_each_line_is_a_message_or_a_command() {
    let context = TestContext::new().env("CONVOKE_DATA_DIR", "data");
    let output = context.run_with_input(
        &["chat", "--rehearse", "--json"],
        b"Can we ship login.py tonight?\n\n/ledger lin\n/quit\nnever said\n",
    );
    let count = |kind: &str| output.matches(&format!("\"type\":\"{kind}\"")).count();
    assert_eq!(
        (count("message"), count("turn-ended"), count("stopped"), count("sheet")),
        (6, 5, 1, 1),
        "{output}"
    );
    assert!(!output.contains("never said"), "{output}");
}

#[test]
fn an_invalid_line_is_reported_and_the_next_one_is_sent() {
    let context = TestContext::new().env("CONVOKE_DATA_DIR", "data");
    let lines = b"/too lin\n/to nobody\n/retry\nhello\n";
    let output = context.run_with_input(&["chat", "--rehearse"], lines);
    assert!(output.contains("`/too lin`: unknown command /too; did you mean /to?"), "{output}");
    assert!(output.contains("`/retry`: nothing to retry"), "{output}");
    assert!(output.contains("3 lines not understood"), "{output}");
    assert!(output.contains("exit code: 2"), "{output}");
    assert!(context.run(&["sessions", "show", "last"]).contains("hello"));
    let output = context.run_with_input(&["chat", "--rehearse", "--json"], b"/too lin\nhello\n");
    assert!(output.contains("\"type\":\"misunderstood\""), "{output}");
    assert!(output.contains("\"rehearsal\":\"stand-in\""), "{output}");
}

#[test]
fn a_line_chat_without_messages_is_not_saved() {
    let context = TestContext::new().env("CONVOKE_DATA_DIR", "data");
    for (arguments, lines) in [
        (&["chat", "--rehearse"][..], &b""[..]),
        (&["chat", "--rehearse"], b"/nope\n/to nobody\n"),
        (&["chat", "--rehearse", "--json"], b"/help\n"),
        (&["chat", "--rehearse", "--to", "nobody"], b"hello\n"),
    ] {
        let output = context.run_with_input(arguments, lines);
        let sessions = context.run(&["sessions", "list"]);
        assert!(sessions.contains("No sessions yet"), "{output}\n{sessions}");
    }
}

#[test]
fn ctrl_c_twice_quits_while_a_turn_runs() {
    let Some(terminal) = Terminal::with_busy_agent() else { return };
    terminal.enter("Can we ship login.py tonight?");
    terminal.wait_for("● ada");
    terminal.wait_for("Ctrl-C cancels the turn, twice quits");
    terminal.press("C-c");
    terminal.press("C-c");
    terminal.wait_for("session saved");
    terminal.wait_for("code 0");
    terminal.assert_given_back();
}

/// Another program has the file of the sessions locked: the message waits for it, and the screen does not.
#[tokio::test]
async fn keys_are_drawn_while_a_message_waits_for_the_store() {
    let Some(terminal) = Terminal::with_busy_agent() else { return };
    terminal.enter("First");
    terminal.wait_for("● ada");
    let path = terminal.context.path().join("data/sessions.db");
    let mut lock = SqliteConnectOptions::new().filename(path).connect().await.unwrap();
    sqlx::raw_sql("BEGIN IMMEDIATE").execute(&mut lock).await.unwrap();
    terminal.enter("Second");
    terminal.tmux(&["send-keys", "-l", "typed meanwhile"]);
    let screen = terminal.wait_for("typed meanwhile");
    assert!(screen.contains("… Second"), "the store has not replied yet: {screen}");
    sqlx::raw_sql("ROLLBACK").execute(&mut lock).await.unwrap();
    terminal.release();
    terminal.press("C-c");
    let screen = terminal.wait_for("I am released.");
    assert!(screen.contains("Second") && screen.contains("typed meanwhile"), "{screen}");
}

#[test]
fn ctrl_z_gives_the_terminal_to_the_shell_and_fg_returns_to_the_chat() {
    let Some(terminal) = Terminal::open_in(TestContext::new()) else { return };
    terminal.enter("exec bash --norc --noprofile -i");
    terminal.enter(&format!("clear; {} chat --rehearse", env!("CARGO_BIN_EXE_convoke")));
    terminal.wait_for("your turn");
    terminal.tmux(&["send-keys", "-l", "half a mess"]);
    terminal.wait_for("half a mess");
    terminal.press("C-z");
    terminal.wait_for("Stopped");
    terminal.assert_given_back();
    terminal.enter("clear; fg");
    terminal.wait_for("your turn");
    terminal.wait_for("half a mess");
    terminal.tmux(&["send-keys", "-l", "age"]);
    terminal.wait_for("half a message");
    terminal.press("C-u");
    terminal.enter("/quit");
    terminal.wait_for("the session was not saved");
    terminal.assert_given_back();
}

#[test]
fn a_message_is_written_in_the_editor_of_the_environment() {
    let editor = "#!/bin/sh\necho editing >/dev/tty\nread -r typed </dev/tty\n{ cat \"$1\"; echo; echo \"$typed\"; } >new\n\
                  cat new >\"$1\"; test \"$typed\" != fail\n";
    let context = TestContext::new().program("pen", editor);
    let pen = context.home().join("bin/pen").display().to_string();
    let Some(terminal) = Terminal::open_in(context) else { return };
    terminal.enter(&format!("export VISUAL={pen}"));
    terminal.begin("chat --rehearse");
    terminal.tmux(&["send-keys", "-l", "first line"]);
    terminal.wait_for("❯ first line");
    terminal.press("C-g");
    terminal.wait_until("the editor", |screen| screen.matches("editing").count() == 1);
    terminal.enter("typed in the editor");
    terminal.wait_for("❯ first line\n  typed in the editor");
    // Once clears the line.
    terminal.press("C-c");
    terminal.wait_for("Ctrl-C again");
    terminal.enter("/edit");
    terminal.wait_until("the editor again", |screen| screen.matches("editing").count() == 2);
    terminal.enter("fail");
    terminal.wait_for("the message is unchanged");
    terminal.press("C-c");
    terminal.press("C-c");
    terminal.wait_for("code 0");
}

#[test]
fn the_bell_rings_when_the_turns_are_over() {
    for (bell, rings) in [("on", "1"), ("off", "0")] {
        let Some(terminal) = Terminal::open_in(TestContext::new()) else { return };
        terminal.tmux(&["set-option", "-g", "monitor-bell", "on"]);
        terminal.tmux(&["set-option", "-g", "bell-action", "any"]);
        // A bell in the window that is looked at is not remembered.
        terminal.tmux(&["new-window", "-d", "sh"]);
        terminal.begin(&format!("chat --rehearse --bell {bell}"));
        terminal.tmux(&["select-window", "-t", ":1"]);
        terminal.tmux(&["send-keys", "-t", ":0", "-l", "Can we ship login.py tonight?"]);
        terminal.tmux(&["send-keys", "-t", ":0", "Enter"]);
        let flag = || terminal.tmux(&["display-message", "-p", "-t", ":0", "#{window_bell_flag}"]);
        let shown = || terminal.tmux(&["capture-pane", "-p", "-t", ":0"]);
        let began = Instant::now();
        let has_answered = || shown().contains("Ask me again when the tests can fail.");
        while !(has_answered() && shown().contains("your turn")) && began.elapsed() < TIMEOUT {
            std::thread::sleep(Duration::from_millis(30));
        }
        while rings == "1" && flag().trim() != rings && began.elapsed() < TIMEOUT {
            std::thread::sleep(Duration::from_millis(30));
        }
        assert_eq!(flag().trim(), rings, "--bell {bell}");
    }
}

#[test]
fn earlier_messages_are_read_from_the_store_on_scrolling_up() {
    let context = TestContext::new();
    let lines: Vec<String> =
        (1..=260).map(|number| format!("[NEXT: nobody] remark {number}\n")).collect();
    let Some(terminal) = Terminal::open_in(context) else { return };
    std::fs::write(terminal.context.path().join("lines"), lines.concat()).expect("a file");
    let program = env!("CARGO_BIN_EXE_convoke");
    terminal.enter(&format!("{program} chat --rehearse <lines >/dev/null 2>&1; echo sto''red"));
    // The shell may print its prompt late, so the text need not begin a line.
    terminal.wait_for("stored");
    terminal.take_up();
    terminal.wait_for("remark 260");
    for _ in 0..80 {
        terminal.press("PPage");
    }
    let screen = terminal.wait_until("the first message", |screen| screen.contains("remark 1\n"));
    assert!(!screen.contains("earlier messages"), "{screen}");
    terminal.press("Escape");
    terminal.wait_for("remark 260");
    terminal.enter("/quit");
    terminal.wait_for("code 0");
}
