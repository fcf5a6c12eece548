//! The real CLIs, at pinned versions, edit files in a turn: the changes are shown and undone, in the
//! project and in a workspace of their own. `scripts/install-clis` installs them; where they are missing a test
//! says that it is skipped, and fails if `CI` is `true`.

#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test fails by panicking, and reports that it is skipped"
)]

mod installed;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

use convoke_agent::endpoint::{self, ModelServer};
use convoke_rehearsal::{Answer, Script, start};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A CLI, its model, and a call of its shell.
struct Cli {
    label: &'static str,
    vendor: &'static str,
    model: &'static str,
    tool: &'static str,
    command_name: &'static str,
}

const COMMAND: &str =
    "printf 'made\\n' > made.txt; printf 'one\\n2\\nthree\\n' > note.txt; rm gone.txt";

impl Cli {
    const fn claude(label: &'static str) -> Self {
        let (tool, command_name) = ("Bash", "command");
        Self { label, vendor: "claude", model: "claude-sonnet-4-5", tool, command_name }
    }

    const fn codex(label: &'static str, model: &'static str) -> Self {
        Self { label, vendor: "codex", model, tool: "exec_command", command_name: "cmd" }
    }

    fn script(&self) -> Script {
        let mut input = json!({ self.command_name: COMMAND });
        match self.vendor {
            "codex" => input["yield_time_ms"] = 60_000.into(),
            _ => input["description"] = "edit".into(),
        }
        Script::new([Answer::call(self.tool, input), Answer::say("Done.")])
    }
}

/// A user with a CLI, whose model is a server of this test, and a project.
struct User {
    home: TempDir,
    project: TempDir,
    env: Vec<(OsString, OsString)>,
}

impl User {
    fn run(&self, arguments: &[&str]) -> String {
        let output = Command::new(env!("CARGO_BIN_EXE_convoke"))
            .args(arguments)
            .current_dir(self.project.path())
            .env_clear()
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .env("CONVOKE_DATA_DIR", self.home.path().join("data"))
            .env("CONVOKE_CONFIG_DIR", self.home.path().join("config"))
            .output()
            .unwrap();
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{arguments:?}: {text}{error}");
        text + &error
    }

    fn files(&self) -> [Option<String>; 3] {
        let read = |name: &str| std::fs::read_to_string(self.project.path().join(name)).ok();
        ["made.txt", "note.txt", "gone.txt"].map(read)
    }
}

async fn edits(cli: &Cli, workspace: &str) {
    let Some(directory) = installed::programs(cli.label) else { return };
    let server = start(cli.script()).await.unwrap();
    let (home, project) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let user_home = home.path().join("user");
    let (base_url, proxy_url) = (server.base_url(), server.proxy_url());
    let program = convoke_vendors::programs().cli(cli.vendor).unwrap();
    endpoint::configure(program, &base_url, &user_home).unwrap();
    let model_server = ModelServer { base_url: &base_url, proxy_url: &proxy_url };
    let env = endpoint::environment(program, model_server, &user_home).into_iter();
    let mut env: Vec<(OsString, OsString)> =
        env.map(|(name, value)| (name.into(), value)).collect();
    let path = format!("{}:{}", directory.display(), std::env::var("PATH").unwrap());
    env.push(("PATH".into(), path.into()));
    let write = |path: PathBuf, text: String| {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    let (agent, port) = (cli.vendor, server.port());
    let agents = format!("[agent.{agent}]\npermissions = \"edit\"\nports = [{port}]\n");
    write(home.path().join("config/agents.toml"), agents);
    let team = format!(
        "[[member]]\nname = \"max\"\nagent = \"{agent}\"\nmodel = \"{}\"\nworkspace = \"{workspace}\"\n",
        cli.model
    );
    write(project.path().join("convoke.toml"), team);
    write(project.path().join("note.txt"), "one\ntwo\nthree\n".to_owned());
    write(project.path().join("gone.txt"), "gone\n".to_owned());
    let user = User { home, project, env };
    let is_own = workspace == "own";
    tokio::task::spawn_blocking(move || shown_and_undone(&user, is_own)).await.unwrap();
}

fn shown_and_undone(user: &User, is_own: bool) {
    let before = user.files();
    let shown = user.run(&["run", "Edit the files."]);
    assert!(shown.contains("changed 3 files, +2 −2"), "{shown}");
    let text = |text: &str| Some(text.to_owned());
    let after = [text("made\n"), text("one\n2\nthree\n"), None];
    if is_own {
        assert_eq!(user.files(), before, "{shown}");
        user.run(&["changes", "apply", "max"]);
    }
    assert_eq!(user.files(), after, "{shown}");
    let changes: Value = serde_json::from_str(&user.run(&["changes", "--json"])).unwrap();
    let files = changes["turns"][0]["files"].as_array().unwrap();
    let files: Vec<String> =
        files.iter().map(|file| format!("{} {}", file["status"], file["path"])).collect();
    let expected =
        ["\"deleted\" \"gone.txt\"", "\"added\" \"made.txt\"", "\"modified\" \"note.txt\""];
    assert_eq!(files, expected);
    let diff = user.run(&["sessions", "show", "last", "--turn", "1", "--changes"]);
    assert!(diff.contains("-two\n+2\n"), "{diff}");
    user.run(&["undo", "--yes"]);
    assert_eq!(user.files(), before);
}

async fn edits_are_shown_and_undone(cli: Cli) {
    for workspace in ["shared", "own"] {
        edits(&cli, workspace).await;
    }
}

#[tokio::test]
async fn claude_2_1_197_edits() {
    edits_are_shown_and_undone(Cli::claude("claude-2.1.197")).await;
}

#[tokio::test]
async fn claude_2_1_325_edits() {
    edits_are_shown_and_undone(Cli::claude("claude-2.1.325")).await;
}

#[tokio::test]
async fn codex_0_98_edits() {
    edits_are_shown_and_undone(Cli::codex("codex-0.98.0", "gpt-5.2-codex")).await;
}

#[tokio::test]
async fn codex_0_166_edits() {
    edits_are_shown_and_undone(Cli::codex("codex-0.166.0", "gpt-5.5")).await;
}

#[tokio::test]
async fn gemini_edits() {
    let cli = Cli {
        label: "gemini-0.61.0",
        vendor: "gemini",
        model: "gemini-2.5-flash",
        tool: "run_shell_command",
        command_name: "command",
    };
    edits_are_shown_and_undone(cli).await;
}
