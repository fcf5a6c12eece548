//! A directory of a test's own, and the command run in it.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use convoke_conformance::check_ledger;
use serde_json::Value;
use tempfile::TempDir;

use crate::mask;

/// A directory of a test's own.
pub struct TestContext {
    directory: TempDir,
    /// The command's own data, outside the project.
    home: TempDir,
    environment: Vec<(String, String)>,
}

impl TestContext {
    pub fn new() -> Self {
        Self::within(&std::env::temp_dir())
    }

    /// Creates a context whose paths are equally long everywhere, for output that is wrapped.
    pub fn of_fixed_length() -> Self {
        Self::within(Path::new("/tmp"))
    }

    fn within(parent: &Path) -> Self {
        let directory = TempDir::new_in(parent).expect("a temporary directory");
        let home = TempDir::new_in(parent).expect("a temporary directory");
        let variable = |name: &str, below: &str| {
            (name.to_owned(), home.path().join(below).display().to_string())
        };
        let environment =
            vec![variable("CONVOKE_DATA_DIR", "data"), variable("CONVOKE_CONFIG_DIR", "config")];
        Self { directory, home, environment }
    }

    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Writes a file.
    pub fn file(self, path: &str, content: impl AsRef<[u8]>) -> Self {
        let path = self.path().join(path);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
        std::fs::write(path, content).expect("a file");
        self
    }

    /// Returns the directory of the user's configuration and data.
    pub fn home(&self) -> &Path {
        self.home.path()
    }

    /// Writes a program, and puts it on the `PATH` beside the system's own.
    pub fn program(self, name: &str, script: &str) -> Self {
        let path = self.home().join("bin");
        self.program_in(&path, name, script)
    }

    /// Writes a program into the directory, for a test whose home lies there too.
    pub fn own_program(self, name: &str, script: &str) -> Self {
        let path = self.path().join("bin");
        self.program_in(&path, name, script)
    }

    fn program_in(self, path: &Path, name: &str, script: &str) -> Self {
        std::fs::create_dir_all(path).expect("a directory");
        std::fs::write(path.join(name), script).expect("a file");
        let permissions = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(path.join(name), permissions).expect("permissions");
        self.env("PATH", &format!("{}:/usr/bin:/bin", path.display()))
    }

    /// Sets an environment variable.
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Runs the command and describes how it went.
    pub fn run(&self, arguments: &[&str]) -> String {
        self.run_with_input(arguments, b"")
    }

    /// Runs the command with something to read and describes how it went.
    pub fn run_with_input(&self, arguments: &[&str], input: &[u8]) -> String {
        let output = self.output(arguments, input);
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("UTF-8");
        self.masked(&format!(
            "exit code: {}\n----- stdout -----\n{}\n----- stderr -----\n{}",
            output.status.code().expect("an exit code"),
            text(&output.stdout),
            text(&output.stderr)
        ))
    }

    /// Runs the command on a terminal, types an answer, and describes how it went; nothing without the
    /// program `script`, which only a machine of one's own may lack.
    pub fn on_a_terminal(&self, arguments: &[&str], answer: &str) -> Option<String> {
        let line = format!("{} {}", env!("CARGO_BIN_EXE_convoke"), arguments.join(" "));
        let child = Command::new("script")
            .args(["--quiet", "--return", "--command", &line, "/dev/null"])
            .current_dir(self.path())
            .env_clear()
            // Kernels differ in their Landlock.
            .env("CONVOKE_LANDLOCK_ABI", "6")
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let Ok(mut child) = child else {
            assert!(std::env::var_os("CI").is_none(), "script is not installed");
            println!("skipped: script is not installed");
            return None;
        };
        let mut stdin = child.stdin.take().expect("standard input");
        stdin.write_all(answer.as_bytes()).expect("it reads");
        let output = child.wait_with_output().expect("the command ends");
        drop(stdin);
        let text = String::from_utf8(output.stdout).expect("UTF-8");
        Some(self.masked(&format!("{text}\nexit code: {}", output.status.code().expect("a code"))))
    }

    /// Runs the command on a terminal of a width and returns what it shows at the end; nothing without the
    /// program `script`, which only a machine of one's own may lack.
    pub fn on_a_terminal_of(&self, columns: usize, arguments: &[&str]) -> Option<String> {
        let words: Vec<String> = arguments.iter().map(|word| format!("'{word}'")).collect();
        let programs = Path::new(env!("CARGO_BIN_EXE_convoke")).parent().expect("a directory");
        let line = format!("stty rows 50 cols {columns}; exec convoke {}", words.join(" "));
        let output = Command::new("script")
            .args(["--quiet", "--return", "--command", &line, "/dev/null"])
            .current_dir(self.path())
            .env_clear()
            .env("CONVOKE_LANDLOCK_ABI", "6")
            .env("SHELL", "/bin/sh")
            // The usual one waits for a key.
            .env("PAGER", "cat")
            .env("HOME", self.home())
            .env("PATH", format!("{}:/usr/bin:/bin", programs.display()))
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .output();
        let Ok(output) = output else {
            assert!(std::env::var_os("CI").is_none(), "script is not installed");
            println!("skipped: script is not installed");
            return None;
        };
        let text = String::from_utf8(output.stdout).expect("UTF-8").replace("\r\n", "\n");
        // A live line is drawn over and over.
        let at_last = |line: &str| line.rsplit("\r\u{1b}[2K").next().unwrap_or_default().to_owned();
        Some(text.lines().map(at_last).collect::<Vec<_>>().join("\n"))
    }

    /// Masks values that differ from run to run.
    pub fn masked(&self, text: &str) -> String {
        let text = text
            .replace(&*self.path().to_string_lossy(), "[DIRECTORY]")
            .replace(&*self.home().to_string_lossy(), "[HOME]")
            .replace(env!("CARGO_BIN_EXE_convoke"), "convoke");
        mask::ages(&mask::times(&mask::session_ids(&text)))
    }

    /// Returns the command, ready to run here.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_convoke"));
        command
            .args(arguments)
            .current_dir(self.path())
            .env_clear()
            // Kernels differ in their Landlock.
            .env("CONVOKE_LANDLOCK_ABI", "6")
            .envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Runs the command and returns its output. Every ledger in it must be as the schema says.
    pub fn output(&self, arguments: &[&str], input: &[u8]) -> Output {
        let mut child = self
            .command(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the command starts");
        let mut stdin = child.stdin.take().expect("standard input");
        let input = input.to_vec();
        // A command that fails early closes its input: that is not this test's failure.
        let feeder = std::thread::spawn(move || drop(stdin.write_all(&input)));
        let output = child.wait_with_output().expect("the command ends");
        feeder.join().expect("the input is written");
        check_ledgers(&output.stdout);
        output
    }
}

/// Validates the ledgers of an output that is JSON, or lines of JSON. Returns their number.
pub fn check_ledgers(output: &[u8]) -> usize {
    let whole = serde_json::from_slice(output).map(|value| vec![value]);
    let values: Vec<Value> = whole.unwrap_or_else(|_| {
        let lines = output.split(|byte| *byte == b'\n');
        lines.filter_map(|line| serde_json::from_slice(line).ok()).collect()
    });
    values.iter().map(check_ledgers_of).sum()
}

fn check_ledgers_of(value: &Value) -> usize {
    match value {
        Value::Array(values) => values.iter().map(check_ledgers_of).sum(),
        // A stored text is named by its hash.
        Value::Object(fields) => fields
            .iter()
            .map(|(name, value)| match value.get("entries") {
                Some(_) if name == "ledger" => {
                    assert_eq!(check_ledger(value), Ok(()));
                    1
                }
                _ => check_ledgers_of(value),
            })
            .sum(),
        _ => 0,
    }
}
