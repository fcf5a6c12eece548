//! A machine: a separate home and directory, and the command there.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

/// The most time that anything takes on a busy machine.
const TIMEOUT: Duration = Duration::from_mins(3);

pub struct Machine {
    directory: TempDir,
    home: TempDir,
    store: String,
    environment: Vec<(String, String)>,
}

/// A node on a machine. Killed on drop.
pub struct Node {
    child: std::cell::RefCell<Child>,
    output: PathBuf,
}

impl Machine {
    pub fn new(store: &str) -> Self {
        let directory = TempDir::new().unwrap();
        let home = TempDir::new().unwrap();
        Self { directory, home, store: store.to_owned(), environment: Vec::new() }
    }

    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    pub fn file(self, name: &str, content: &str) -> Self {
        std::fs::write(self.path().join(name), content).unwrap();
        self
    }

    /// Adds a file in the home of the user.
    pub fn home_file(self, name: &str, content: &str) -> Self {
        let path = self.home.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
        self
    }

    /// Returns a path in the home of the user.
    pub fn in_home(&self, name: &str) -> String {
        self.home.path().join(name).display().to_string()
    }

    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Adds an agent `worker` that runs a script of the shell. It can write to `$LOG`.
    pub fn agent(self, script: &str) -> Self {
        self.agent_of_kind("plain", "full", script)
    }

    /// Adds an agent `worker` of a kind.
    pub fn agent_of_kind(self, kind: &str, permissions: &str, script: &str) -> Self {
        let program = self.home.path().join("worker");
        let log = self.home.path().join("log");
        let script = format!("#!/bin/sh\nLOG={}\n{script}\n", log.display());
        std::fs::write(&program, script).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        std::fs::create_dir_all(self.home.path().join("config")).unwrap();
        let agents = format!(
            "[agent.worker]\nkind = \"{kind}\"\ncommand = \"{}\"\npermissions = \"{permissions}\"\n",
            program.display()
        );
        std::fs::write(self.home.path().join("config/agents.toml"), agents).unwrap();
        self
    }

    /// Returns the option that has this machine use its own directory for that of another.
    pub fn map_from(&self, other: &Self) -> String {
        format!("{}={}", other.path().display(), self.path().display())
    }

    /// Returns the text that the agent has written to `$LOG`.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.home.path().join("log")).unwrap_or_default()
    }

    fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_convoke"));
        command
            .current_dir(self.path())
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("HOME", self.home.path())
            .env("CONVOKE_DATA_DIR", self.home.path().join("data"))
            .env("CONVOKE_CONFIG_DIR", self.home.path().join("config"))
            .env("CONVOKE_STORE", &self.store)
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null());
        command
    }

    /// Runs the command and returns its output.
    pub fn run(&self, arguments: &[&str]) -> String {
        self.run_with(arguments, &[])
    }

    pub fn run_with(&self, arguments: &[&str], variables: &[(&str, Option<&str>)]) -> String {
        let mut command = self.command();
        for (name, value) in variables {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        let output = command.args(arguments).output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        String::from_utf8(text).unwrap()
    }

    /// Starts the command, whose input and output a test has.
    pub fn start(&self, arguments: &[&str]) -> Running {
        let mut command = self.command();
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let input = child.stdin.take();
        let output = child.stdout.take().unwrap();
        let lines = Arc::new(Mutex::new(Vec::new()));
        let read = Arc::clone(&lines);
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                read.lock().unwrap().push(line);
            }
        });
        Running { child, input, lines }
    }

    /// Starts a node.
    pub fn node(&self, arguments: &[&str]) -> Node {
        static NUMBER: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let output = self.home.path().join(format!("node-{number}"));
        let file = std::fs::File::create(&output).unwrap();
        let mut command = self.command();
        command.arg("node").args(arguments);
        command.stdout(file.try_clone().unwrap()).stderr(file);
        Node { child: command.spawn().unwrap().into(), output }
    }

    /// Checks that every process that was started on this machine has ended.
    pub fn assert_no_process_is_left(&self) {
        let home = self.home.path().display().to_string();
        wait_until("every process has ended", || processes_with(&home).is_empty());
    }
}

/// A command that a test talks to. Killed on drop.
pub struct Running {
    child: Child,
    /// The standard input, until it is closed.
    pub input: Option<ChildStdin>,
    lines: Arc<Mutex<Vec<String>>>,
}

impl Running {
    /// Waits for a line with a text, and returns it.
    pub fn wait_for(&self, text: &str) -> String {
        let mut found = None;
        wait_until(text, || {
            found = self.lines().into_iter().find(|line| line.contains(text));
            found.is_some()
        });
        found.unwrap()
    }

    pub fn lines(&self) -> Vec<String> {
        self.lines.lock().unwrap().clone()
    }

    pub fn write(&mut self, line: &str) {
        writeln!(self.input.as_mut().unwrap(), "{line}").unwrap();
    }

    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id().try_into().unwrap()), signal).unwrap();
    }

    /// Waits for the end, and returns the exit code.
    pub fn end(&mut self) -> Option<i32> {
        let mut status = None;
        wait_until("the command has ended", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        status.and_then(|status| status.code())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // One that has ended needs no end.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the processes that a text is in the environment of.
fn processes_with(text: &str) -> Vec<String> {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let has_text = |process: &std::fs::DirEntry| {
        let environment = std::fs::read(process.path().join("environ")).unwrap_or_default();
        environment.windows(text.len()).any(|part| part == text.as_bytes())
    };
    processes.filter(has_text).map(|process| process.path().display().to_string()).collect()
}

impl Node {
    pub fn output(&self) -> String {
        std::fs::read_to_string(&self.output).unwrap_or_default()
    }

    pub fn pid(&self) -> u32 {
        self.child.borrow().id()
    }

    pub fn wait_for(&self, text: &str) {
        wait_until(text, || self.output().contains(text));
    }

    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.pid().try_into().unwrap());
        // A node that has ended needs no signal.
        let _ = kill(pid, signal);
    }

    /// Ends the node as an administrator does, and returns its exit code.
    pub fn end(&self) -> Option<i32> {
        self.signal(Signal::SIGTERM);
        let mut status = None;
        wait_until("the node has ended", || {
            status = self.child.borrow_mut().try_wait().unwrap();
            status.is_some()
        });
        status.and_then(|status| status.code())
    }

    /// Kills the node.
    pub fn kill(&self) {
        self.signal(Signal::SIGKILL);
        self.child.borrow_mut().wait().unwrap();
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if self.child.get_mut().try_wait().is_ok_and(|status| status.is_none()) {
            self.kill();
        }
    }
}

pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < TIMEOUT, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}
