//! A person with a program of their own, which is written here.

use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

use crate::KEY;
use crate::model_server::{Got, ModelServer};

/// A program that finds its address as Claude Code does, and sends a message for each `send`.
const PROGRAM: &str = r#"#!/bin/bash
[ "$1" = --version ] && { echo "2.1.325 (Claude Code)"; exit; }
url=$ANTHROPIC_BASE_URL
for word in "$@"; do
    [ "$before" = --settings ] && url=$(sed 's/.*"ANTHROPIC_BASE_URL":"\([^"]*\)".*/\1/' "$word")
    before=$word
done
url=${url#http://}; host=${url%%/*}
case $url in */*) path=/${url#*/} ;; *) path= ;; esac
send() {
    body="{\"model\":\"claude-x\",\"max_tokens\":9,\"messages\":[{\"role\":\"user\",\"content\":\"$1\"}]}"
    { exec 3<>"/dev/tcp/${host%:*}/${host#*:}"; } 2>/dev/null || return 1
    printf 'POST %s/v1/messages HTTP/1.1\r\nhost: %s\r\nuser-agent: %s\r\n' "$path" "$host" "${AGENT:-claude-cli/2}" >&3
    printf 'x-api-key: %s\r\ncontent-type: application/json\r\n' "$ANTHROPIC_API_KEY" >&3
    printf 'content-length: %s\r\n\r\n%s' "${#body}" "$body" >&3
    read -r line <&3 || return 1
    exec 3>&-
}
"#;

pub struct Person {
    pub home: TempDir,
    pub project: TempDir,
    pub temporary: TempDir,
    pub server: ModelServer,
    pub env: Vec<(&'static str, String)>,
}

impl Person {
    /// Returns a person whose `claude` is a script.
    pub fn new(script: &str) -> Self {
        let server = ModelServer::start(None);
        let env = server.environment("claude");
        // Programs sort what they send; the names of two people's directories sort alike.
        let new = |name: &str| TempDir::with_prefix(name).unwrap();
        let (home, project, temporary) = (new("home-"), new("project-"), new("temporary-"));
        let person = Self { home, project, temporary, server, env };
        let bin = person.home.path().join("bin");
        std::fs::create_dir(&bin).unwrap();
        std::fs::write(bin.join("claude"), format!("{PROGRAM}{script}\n")).unwrap();
        let executable = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(bin.join("claude"), executable).unwrap();
        person
    }

    pub fn command(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        command
            .args(arguments)
            .current_dir(self.project.path())
            .env_clear()
            .env("PATH", format!("{}/bin:/usr/bin:/bin", self.home.path().display()))
            .env("HOME", self.home.path())
            .env("TMPDIR", self.temporary.path())
            .env("CONVOKE_DATA_DIR", self.home.path().join("data"))
            .env("CONVOKE_CONFIG_DIR", self.home.path().join("config"))
            .envs(self.env.iter().map(|(name, value)| (name, value)));
        assert!(self.env.iter().any(|(_, value)| value == KEY));
        command
    }

    /// Returns the program under `convoke watch`, with no signal ignored: tests that run in the background ignore interrupts,
    /// and what is ignored stays ignored.
    pub fn watching(&self, options: &[&str]) -> Command {
        let convoke = ["--default-signal", env!("CARGO_BIN_EXE_convoke"), "watch"];
        let arguments = [&convoke, options, &["--", "claude"]].concat();
        self.command("/usr/bin/env", &arguments)
    }

    pub fn watch(&self, options: &[&str], input: &[u8]) -> Output {
        output(self.watching(options), input)
    }

    pub fn run_alone(&self, input: &[u8]) -> Output {
        let program = self.home.path().join("bin/claude");
        output(self.command(program.to_str().unwrap(), &[]), input)
    }

    /// Runs another command of Convoke.
    pub fn convoke(&self, arguments: &[&str]) -> String {
        let output = output(self.command(env!("CARGO_BIN_EXE_convoke"), arguments), b"");
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{arguments:?}: {error}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Returns the calls that arrived, and forgets them.
    pub fn take_calls(&self) -> Vec<Got> {
        std::mem::take(&mut *self.server.calls.lock().unwrap())
    }
}

/// Runs a command with an input.
pub fn output(mut command: Command, input: &[u8]) -> Output {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A program that ends early closes its input.
    let _ = child.stdin.take().unwrap().write_all(input);
    child.wait_with_output().unwrap()
}
