//! Tries every row of docs/permissions.md against the kernel, for a plain agent with each permission and through the
//! tools of the real CLIs. `table.txt` has what is open; `probe.py` makes the attempts.
//!
//! Everything is in a temporary directory: a home with a canary in every place that counts as a secret, a project,
//! and a directory outside of both. Nothing of the user who runs the tests is touched.

#![cfg(target_os = "linux")]
#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    clippy::panic,
    reason = "a test fails by panicking, and reports that it is skipped"
)]

#[path = "../installed/mod.rs"]
mod installed;
mod world;

use std::collections::BTreeMap;
use std::ffi::OsString;

use convoke_agent::endpoint::{self, ModelServer};
use convoke_rehearsal::{Answer, Script, start};
use serde_json::json;

use crate::world::{World, variables};

const LEVELS: [&str; 5] = ["read-only", "ask", "edit", "edit-and-network", "full"];
const TABLE: &str = include_str!("table.txt");

/// What differs for the CLIs: each reads and writes files of its own.
const OF_CLIS: &str = include_str!("clis.txt");

/// The expected result of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expected {
    Open,
    Closed,
    /// Open for root, who has more rights.
    OpenForRoot,
    /// It depends on the machine.
    Either,
}

impl Expected {
    fn parse(cell: &str) -> Self {
        match cell {
            "open" => Self::Open,
            "-" => Self::Closed,
            "root" => Self::OpenForRoot,
            "?" => Self::Either,
            other => panic!("`{other}` is no result"),
        }
    }

    fn is_met_by(self, is_open: bool) -> bool {
        match self {
            Self::Open => is_open,
            Self::Closed => !is_open,
            Self::OpenForRoot => is_open == nix::unistd::geteuid().is_root(),
            Self::Either => true,
        }
    }
}

/// Returns the expected results of a level, by the names of the attempts.
fn expected(level: &str, cli: Option<&str>) -> BTreeMap<String, Expected> {
    let column = LEVELS.iter().position(|it| *it == level).unwrap();
    let row = |line: &str| {
        let (name, cells) = line.split_once(" | ").unwrap();
        let cells: Vec<&str> = cells.split_whitespace().collect();
        assert_eq!(cells.len(), LEVELS.len(), "{line}");
        (name.trim().to_owned(), Expected::parse(cells[column]))
    };
    let lines = TABLE.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let mut table: BTreeMap<String, Expected> = lines.map(row).collect();
    for line in OF_CLIS.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (vendor, rest) = line.split_once(": ").unwrap();
        let (name, expected) = row(rest);
        assert!(table.contains_key(&name), "{line}");
        if cli == Some(vendor) {
            table.insert(name, expected);
        }
    }
    table
}

/// Compares the results of a run with the table; returns those that differ. With `CONVOKE_ESCAPES`, they are all written
/// to files of that directory, for whoever changes the attempts.
fn differences(
    world: &World,
    label: &str,
    level: &str,
    cli: Option<&str>,
    shown: &str,
) -> Vec<String> {
    let results = world.results();
    assert!(!results.is_empty(), "{level}: nothing was tried: {shown}");
    if let Some(directory) = std::env::var_os("CONVOKE_ESCAPES") {
        let name = format!("{level}-{label}");
        std::fs::write(std::path::Path::new(&directory).join(name), &results).unwrap();
    }
    let mut table = expected(level, cli);
    let mut wrong = Vec::new();
    for line in results.lines() {
        let mut cells = line.split('\t');
        let (name, result) = (cells.next().unwrap(), cells.next().unwrap());
        match table.remove(name) {
            Some(expected) if expected.is_met_by(result == "open") => {}
            Some(expected) => wrong.push(format!("{level}: {line} (expected: {expected:?})")),
            None => wrong.push(format!("{level}: {line} (not in the table)")),
        }
    }
    // A variable or a file that leads a CLI elsewhere is not given to it.
    let left: Vec<&String> = table.keys().filter(|name| !world.is_left_out(name)).collect();
    assert!(left.is_empty(), "{level}: not tried: {left:?}");
    wrong.extend(world.touched(level));
    wrong
}

/// Runs the attempts as a plain agent.
fn a_plain_agent(level: &str) {
    let Some(world) = World::new(None) else { return };
    let agent = format!(
        "[agent.probe]\nkind = \"plain\"\ncommand = \"/usr/bin/python3\"\nargs = [{:?}, {:?}]\n\
         permissions = \"{level}\"\nwritable = [{:?}]\n",
        world.path("outside/probe.py"),
        world.path("outside/probe.json"),
        world.path("results"),
    );
    world.configure(&agent, "agent = \"probe\"\n");
    let shown = world.run();
    let wrong = differences(&world, "plain", level, None, &shown);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_plain_agent_that_may_read() {
    a_plain_agent("read-only");
}

#[test]
fn a_plain_agent_that_should_ask_may_read() {
    a_plain_agent("ask");
}

#[test]
fn a_plain_agent_that_may_edit() {
    a_plain_agent("edit");
}

#[test]
fn a_plain_agent_that_may_edit_and_use_the_network() {
    a_plain_agent("edit-and-network");
}

#[test]
fn a_plain_agent_with_full_permissions() {
    a_plain_agent("full");
}

/// The agent's own settings do not move the user's secrets.
#[test]
fn an_agent_with_another_home_reads_no_secret_of_the_user() {
    // A home that contains hidden paths cannot be listed, and with `.` the working directory is one.
    let unlisted = "read-only: list the working directory\t-\tEACCES (expected: Open)";
    // A home inside of a secret that the user's environment names does not open it.
    let inside = "named/GNUPGHOME/home";
    for (home, differs) in [("elsewhere", &[][..]), (inside, &[][..]), (".", &[unlisted][..])] {
        let Some(world) = World::new(None) else { return };
        let elsewhere = world.path(home);
        std::fs::create_dir_all(&elsewhere).unwrap();
        let home = if home == "." { home } else { &elsewhere };
        // The agent's own values of the variables hide more, and nothing less.
        let moved: Vec<String> =
            variables().iter().map(|name| format!("{name} = \"/dev/null\"")).collect();
        let agent = format!(
            "[agent.probe]\nkind = \"plain\"\ncommand = \"/usr/bin/python3\"\nargs = [{:?}, {:?}]\n\
             permissions = \"read-only\"\nwritable = [{:?}]\nenv = {{ HOME = {home:?}, {} }}\n",
            world.path("outside/probe.py"),
            world.path("outside/probe.json"),
            world.path("results"),
            moved.join(", "),
        );
        world.configure(&agent, "agent = \"probe\"\n");
        let shown = world.run();
        let wrong = differences(&world, "home", "read-only", None, &shown);
        assert_eq!(wrong, differs, "{home}");
    }
}

/// A CLI, its model, and the tool that runs a command.
struct Cli {
    label: &'static str,
    vendor: &'static str,
    model: &'static str,
    tool: &'static str,
    command: &'static str,
}

impl Cli {
    const fn claude(label: &'static str) -> Self {
        let (tool, command) = ("Bash", "command");
        Self { label, vendor: "claude", model: "claude-sonnet-4-5", tool, command }
    }

    const fn codex(label: &'static str, model: &'static str) -> Self {
        Self { label, vendor: "codex", model, tool: "exec_command", command: "cmd" }
    }

    /// Lets its model run the attempts as a command.
    fn script(&self, command: &str) -> Script {
        let mut input = json!({ self.command: command });
        match self.vendor {
            "codex" => input["yield_time_ms"] = 60_000.into(),
            "claude" => input["timeout"] = 600_000.into(),
            _ => input["description"] = "try".into(),
        }
        Script::new([Answer::call(self.tool, input), Answer::say("Done.")])
    }
}

async fn the_tools_of(cli: Cli) {
    let mut wrong = Vec::new();
    for level in ["read-only", "edit"] {
        let Some(programs) = installed::programs(cli.label) else { return };
        let Some(mut world) = World::new(Some(cli.vendor)) else { return };
        let command = format!(
            "python3 {} {}",
            world.path("outside/probe.py"),
            world.path("outside/probe.json")
        );
        let server = start(cli.script(&command)).await.unwrap();
        let (base_url, proxy_url) = (server.base_url(), server.proxy_url());
        let home = world.home();
        let program = convoke_vendors::programs().cli(cli.vendor).unwrap();
        endpoint::configure(program, &base_url, &home).unwrap();
        let model_server = ModelServer { base_url: &base_url, proxy_url: &proxy_url };
        let env = endpoint::environment(program, model_server, &home);
        world.env = env.into_iter().map(|(name, value)| (OsString::from(name), value)).collect();
        let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
        world.env.push(("PATH".into(), path.into()));
        let (vendor, port) = (cli.vendor, server.port());
        let agents = format!(
            "[agent.{vendor}]\npermissions = \"{level}\"\nports = [{port}]\nwritable = [{:?}]\n",
            world.path("results"),
        );
        world.configure(&agents, &format!("agent = \"{vendor}\"\nmodel = \"{}\"\n", cli.model));
        let run = tokio::task::spawn_blocking(move || (world.run(), world));
        let (shown, world) = run.await.unwrap();
        wrong.extend(differences(&world, cli.label, level, Some(cli.vendor), &shown));
    }
    assert!(wrong.is_empty(), "{}:\n{}", cli.label, wrong.join("\n"));
}

#[tokio::test]
async fn the_tools_of_claude_2_1_197() {
    the_tools_of(Cli::claude("claude-2.1.197")).await;
}

#[tokio::test]
async fn the_tools_of_claude_2_1_325() {
    the_tools_of(Cli::claude("claude-2.1.325")).await;
}

#[tokio::test]
async fn the_tools_of_codex_0_98() {
    the_tools_of(Cli::codex("codex-0.98.0", "gpt-5.2-codex")).await;
}

#[tokio::test]
async fn the_tools_of_codex_0_166() {
    the_tools_of(Cli::codex("codex-0.166.0", "gpt-5.5")).await;
}

#[tokio::test]
async fn the_tools_of_gemini() {
    the_tools_of(Cli {
        label: "gemini-0.61.0",
        vendor: "gemini",
        model: "gemini-2.5-flash",
        tool: "run_shell_command",
        command: "command",
    })
    .await;
}
