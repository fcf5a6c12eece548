//! The real CLIs, at pinned versions, ask each other through the team tools: `convoke mcp` is started by each of them,
//! inside its sandbox, and reaches the conversation. `scripts/install-clis` installs them; where they are missing a
//! test says that it is skipped, and fails if `CI` is `true`.

#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test fails by panicking, and reports that it is skipped"
)]

mod installed;

use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::Command;

use convoke_agent::config::Catalog;
use convoke_agent::endpoint::{self, ModelServer};
use convoke_rehearsal::{Answer, Rehearsal, Reply, Script, start};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A CLI as an agent.
#[derive(Clone, Copy)]
struct Cli {
    label: &'static str,
    /// The name of the agent that is built in.
    agent: &'static str,
    program: &'static str,
    model: Option<&'static str>,
    /// The beginning of the names that its model gives to the team tools.
    prefix: &'static str,
}

const CLAUDE: [Cli; 2] = [claude("claude-2.1.197"), claude("claude-2.1.325")];
const CODEX: [Cli; 2] = [codex("codex-0.98.0", "gpt-5.2-codex"), codex("codex-0.166.0", "gpt-5.5")];
const GEMINI: Cli = Cli {
    label: "gemini-0.61.0",
    agent: "gemini",
    program: "gemini",
    model: Some("gemini-2.5-flash"),
    prefix: "mcp_team_",
};
const CLAUDE_ACP: Cli = Cli {
    label: "claude-agent-acp-0.99.1",
    agent: "claude-acp",
    program: "claude-agent-acp",
    model: None,
    prefix: "mcp__team__",
};
const GEMINI_ACP: Cli = Cli { agent: "gemini-acp", ..GEMINI };
const COPILOT: Cli = Cli {
    label: "copilot-1.0.102",
    agent: "copilot",
    program: "copilot",
    model: None,
    prefix: "team-",
};

const fn claude(label: &'static str) -> Cli {
    let (agent, model) = ("claude", Some("claude-sonnet-4-5"));
    Cli { label, agent, program: agent, model, prefix: "mcp__team__" }
}

const fn codex(label: &'static str, model: &'static str) -> Cli {
    Cli { label, agent: "codex", program: "codex", model: Some(model), prefix: "mcp__team__" }
}

/// Returns the search path, with the Node.js that newer CLIs need.
fn path() -> OsString {
    let node = installed::cache().join("node-22.23.3/node_modules/node/bin");
    let path = std::env::var_os("PATH").unwrap();
    std::env::join_paths(std::iter::once(node).chain(std::env::split_paths(&path))).unwrap()
}

impl Cli {
    /// Returns its program, unless it is to be skipped.
    fn program(self) -> Option<PathBuf> {
        Some(installed::programs(self.label)?.join(self.program))
    }

    /// Returns a call of a team tool.
    fn call(self, tool: &str, arguments: Value) -> Answer {
        Answer::call(format!("{}{tool}", self.prefix), arguments)
    }
}

/// A user, whose agents have model servers of this test, and a project.
struct User {
    home: TempDir,
    project: TempDir,
    agents: String,
    team: String,
    servers: Vec<Rehearsal>,
}

impl User {
    fn new(settings: &str) -> Self {
        let (home, project) = (TempDir::new().unwrap(), TempDir::new().unwrap());
        Self {
            home,
            project,
            agents: String::new(),
            team: settings.to_owned(),
            servers: Vec::new(),
        }
    }

    /// Adds a member, whose model answers from a script. Returns whether its program is there.
    async fn add(&mut self, member: &str, cli: Cli, script: Script) -> bool {
        let Some(program) = cli.program() else { return false };
        let server = start(script).await.unwrap();
        let home = self.home.path().join(member);
        let (base_url, proxy_url) = (server.base_url(), server.proxy_url());
        let catalog = Catalog::built_in(convoke_vendors::programs());
        let definition = catalog.get(cli.agent).unwrap();
        endpoint::configure_agent(definition, &base_url, &home).unwrap();
        let model_server = ModelServer { base_url: &base_url, proxy_url: &proxy_url };
        let env = endpoint::agent_environment(definition, model_server, &home).unwrap().into_iter();
        let env: Vec<String> =
            env.map(|(name, value)| format!("{name} = {:?}", value.to_str().unwrap())).collect();
        // Agents of the same kind have models of their own.
        let (name, kind) = match definition.preset {
            Some(preset) => (preset.name, String::new()),
            None => (member, format!("kind = \"{}\"\n", cli.agent)),
        };
        let _ = writeln!(
            self.agents,
            "[agent.{name}]\n{kind}command = {:?}\nports = [{}]\nenv = {{ {} }}",
            program.display().to_string(),
            server.port(),
            env.join(", ")
        );
        let model = cli.model.map_or(String::new(), |model| format!("model = \"{model}\"\n"));
        let _ = writeln!(self.team, "[[member]]\nname = \"{member}\"\nagent = \"{name}\"\n{model}");
        self.servers.push(server);
        true
    }

    /// Adds a member that is a model without a program.
    async fn add_model(&mut self, member: &str, wire: &str, script: Script) {
        let server = start(script).await.unwrap();
        let base_url = server.base_url();
        let _ = writeln!(
            self.agents,
            "[agent.{member}]\nkind = \"api\"\nbase-url = \"{base_url}/v1\"\nmodel = \"m\"\nwire = \"{wire}\"",
        );
        let _ = writeln!(self.team, "[[member]]\nname = \"{member}\"\nagent = \"{member}\"");
        self.servers.push(server);
    }

    /// Runs a conversation and returns its messages.
    async fn run(&self, task: &'static str) -> Vec<Value> {
        let text = self.shown(&["run", "--json", task]).await;
        // A program that stays alive while it has an MCP server is ended, and its turn is done all the same.
        assert!(!text.contains("agent.exit-disagrees"), "{text}");
        let events = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        events.filter(|event| event["type"] == "message").collect()
    }

    /// Returns the output of a command.
    async fn shown(&self, arguments: &[&str]) -> String {
        let write = |path: PathBuf, text: &str| {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write(self.home.path().join("config/agents.toml"), &self.agents);
        write(self.project.path().join("convoke.toml"), &self.team);
        let mut command = Command::new(env!("CARGO_BIN_EXE_convoke"));
        command
            .args(arguments)
            .current_dir(self.project.path())
            .env_clear()
            .env("PATH", path())
            .env("HOME", self.home.path().join("user"))
            .env("CONVOKE_DATA_DIR", self.home.path().join("data"))
            .env("CONVOKE_CONFIG_DIR", self.home.path().join("config"));
        let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{text}{error}");
        text
    }

    /// Returns the bodies of the turn requests that reached a member's model.
    fn bodies(&self, member: usize) -> Vec<String> {
        let calls = self.servers[member].model_calls();
        let turns = calls.iter().filter(|call| call.is_turn());
        turns.map(|call| String::from_utf8_lossy(&call.body).into_owned()).collect()
    }
}

fn said(messages: &[Value]) -> Vec<(&str, &str)> {
    let said =
        messages.iter().map(|it| (it["from"].as_str().unwrap(), it["text"].as_str().unwrap()));
    said.collect()
}

/// Lets one CLI ask another, and compares the texts that each model received.
async fn asks(asker: Cli, asked: Cli) {
    let mut user = User::new("team-tools = true\n");
    let ask = asker.call("ask", json!({ "to": "sarah", "text": "Is the login page safe?" }));
    let is_there = user.add("max", asker, Script::new([ask, Answer::say("Sarah says so.")])).await
        && user.add("sarah", asked, Script::new([Answer::say("As safe as a house.")])).await;
    if !is_there {
        return;
    }
    let messages = user.run("Look at the login page.").await;
    let asked = ("max", "Is the login page safe?");
    let answered = ("sarah", "As safe as a house.");
    let all = [asked, answered, ("max", "Sarah says so.")];
    assert_eq!(said(&messages)[1..], all, "the last request of max: {:?}", user.bodies(0).last());
    assert_eq!(messages[1]["to"], json!(["sarah"]));
    let of_asker = user.bodies(0);
    assert!(!of_asker[0].contains("As safe as a house."));
    assert!(of_asker[1].contains("As safe as a house."), "the answer is no tool result");
    assert!(user.bodies(1)[0].contains("Is the login page safe?"));
}

#[tokio::test]
async fn claude_asks_codex_and_gets_the_answer() {
    for (claude, codex) in CLAUDE.into_iter().zip(CODEX) {
        asks(claude, codex).await;
    }
}

#[tokio::test]
async fn codex_asks_claude_and_gets_the_answer() {
    asks(CODEX[0], CLAUDE[1]).await;
}

#[tokio::test]
async fn gemini_asks_codex_and_gets_the_answer() {
    asks(GEMINI, CODEX[0]).await;
}

#[tokio::test]
async fn an_acp_agent_asks_codex_and_gets_the_answer() {
    asks(CLAUDE_ACP, CODEX[0]).await;
}

#[tokio::test]
async fn gemini_asks_codex_over_acp_and_gets_the_answer() {
    asks(GEMINI_ACP, CODEX[0]).await;
}

#[tokio::test]
async fn copilot_asks_codex_and_gets_the_answer() {
    asks(COPILOT, CODEX[0]).await;
}

#[tokio::test]
async fn a_model_asks_two_models_at_once_and_gets_their_answers() {
    for wire in ["chat", "responses"] {
        let both = Reply::default()
            .call("ask", json!({ "to": "sarah", "text": "First question?" }))
            .call("say", json!({ "to": "user", "text": "I am asking." }))
            .call("ask", json!({ "to": "kim", "text": "Second question?" }))
            .call("ask", json!({ "to": "nobody", "text": "Third question?" }))
            .call("task", json!({}));
        let mut user = User::new("task = \"Look at it\"\nteam-tools = true\n");
        let script = Script::new([Answer::from(both), Answer::say("Both have answered.")]);
        user.add_model("max", wire, script).await;
        user.add_model("sarah", wire, Script::new([Answer::say("First answer.")])).await;
        user.add_model("kim", wire, Script::new([Answer::say("Second answer.")])).await;
        let messages = user.run("Ask both.").await;
        let said = said(&messages);
        assert_eq!(said.last().unwrap(), &("max", "Both have answered."), "{said:?}");
        assert_eq!(said.len(), 7, "{said:?}");
        let bodies = user.bodies(0);
        for tool in ["say", "ask", "read_context", "task", "changes"] {
            assert!(bodies[0].contains(&format!("\"name\":\"{tool}\"")), "{tool}: {}", bodies[0]);
        }
        for answer in
            ["First answer.", "Second answer.", "no agent has the name `nobody`", "Look at it"]
        {
            assert!(bodies[1].contains(answer), "{answer}: {}", bodies[1]);
        }
        assert!(user.bodies(1)[0].contains("First question?"));
        let calls = messages.iter().filter(|it| it["text"] == "First question?");
        assert_eq!(calls.map(|it| it["to"].clone()).collect::<Vec<_>>(), [json!(["sarah"])]);
    }
}

#[tokio::test]
async fn two_calls_of_one_reply_are_both_answered() {
    let claude = CLAUDE[1];
    let tool = |name: &str| format!("{}{name}", claude.prefix);
    let both = Reply::default()
        .call(tool("ask"), json!({ "to": "sarah", "text": "First question?" }))
        .call(tool("ask"), json!({ "to": "kim", "text": "Second question?" }));
    let mut user = User::new("team-tools = true\n");
    let script = Script::new([Answer::from(both), Answer::say("Both have answered.")]);
    let is_there = user.add("max", claude, script).await
        && user.add("sarah", CODEX[0], Script::new([Answer::say("First answer.")])).await
        && user.add("kim", CODEX[0], Script::new([Answer::say("Second answer.")])).await;
    if !is_there {
        return;
    }
    let messages = user.run("Ask both.").await;
    let said = said(&messages);
    assert_eq!(said.len(), 6, "{said:?}");
    assert_eq!(said[5], ("max", "Both have answered."));
    let bodies = user.bodies(0);
    let last = bodies.last().unwrap();
    assert!(last.contains("First answer.") && last.contains("Second answer."), "{last}");
}

#[tokio::test]
async fn a_message_sent_during_a_turn_is_answered_after_it() {
    let claude = CLAUDE[1];
    let say = || claude.call("say", json!({ "to": "sarah", "text": "Please look at it." }));
    let mut user = User::new("team-tools = true\n");
    // Said twice, sent once.
    let script = Script::new([say(), say(), Answer::say("I am done.")]);
    let is_there = user.add("max", claude, script).await
        && user.add("sarah", CODEX[0], Script::new([Answer::say("I did.")])).await;
    if !is_there {
        return;
    }
    let messages = user.run("Have it looked at.").await;
    let expected = [("max", "Please look at it."), ("max", "I am done."), ("sarah", "I did.")];
    assert_eq!(said(&messages)[1..], expected);
}

#[tokio::test]
async fn a_question_is_shown_where_it_is_asked() {
    let ask = CLAUDE[1].call("ask", json!({ "to": "sarah", "text": "Is the login page safe?" }));
    let mut user = User::new("team-tools = true\n");
    let script = Script::new([ask, Answer::say("Sarah says so.")]);
    let is_there = user.add("max", CLAUDE[1], script).await
        && user.add("sarah", CODEX[0], Script::new([Answer::say("As safe as a house.")])).await;
    if !is_there {
        return;
    }
    let shown = user.shown(&["run", "Look at the login page."]).await;
    let texts =
        ["max → sarah\n  Is the login page safe?", "  As safe as a house.", "  Sarah says so."];
    let places: Vec<Option<usize>> = texts.iter().map(|text| shown.find(text)).collect();
    assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{places:?} in {shown}");
}
