//! A user with a CLI, in a home of their own.

use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;

use super::installed::programs;
use crate::model_server::ModelServer;

/// The version of Node.js that the adapters need.
const NODE: &str = "node-22.23.3";

pub struct User {
    pub home: TempDir,
    pub project: TempDir,
    pub temporary: TempDir,
    pub path: String,
    pub env: Vec<(&'static str, String)>,
}

impl User {
    /// Returns a user with one member, an agent with these permissions.
    pub fn new(cli: &str, agent: &str, permissions: &str) -> Option<Self> {
        let directory = programs(cli)?;
        let node = if agent.ends_with("-acp") { programs(NODE)? } else { PathBuf::new() };
        let others = std::env::var("PATH").unwrap();
        let path = format!("{}:{}:{others}", directory.display(), node.display());
        let user = Self {
            home: TempDir::new().unwrap(),
            project: TempDir::new().unwrap(),
            temporary: TempDir::new().unwrap(),
            path,
            env: Vec::new(),
        };
        let mut team = format!("[[member]]\nname = \"max\"\nagent = \"{agent}\"\n");
        if agent.starts_with("codex") {
            // Its usual model has other tools.
            team += "model = \"gpt-5.5\"\n";
        }
        std::fs::write(user.project.path().join("convoke.toml"), team).unwrap();
        let agents = format!("[agent.{agent}]\npermissions = \"{permissions}\"\n");
        std::fs::create_dir(user.home.path().join("config")).unwrap();
        std::fs::write(user.home.path().join("config/agents.toml"), agents).unwrap();
        Some(user)
    }

    /// Adds settings at the top of the team file.
    pub fn adds_settings(&self, settings: &str) {
        let path = self.project.path().join("convoke.toml");
        let team = std::fs::read_to_string(&path).unwrap();
        std::fs::write(path, format!("{settings}{team}")).unwrap();
    }

    /// Leads the user's agent to a server, in the ways that its versions obey.
    pub fn uses(&mut self, server: &ModelServer, agent: &str) {
        self.env = server.environment(agent);
        if agent == "codex" {
            let setting = format!("openai_base_url = \"{}/v1\"\n", server.url());
            std::fs::create_dir_all(self.home.path().join(".codex")).unwrap();
            std::fs::write(self.home.path().join(".codex/config.toml"), setting).unwrap();
        }
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_convoke"));
        command
            .args(arguments)
            .current_dir(self.project.path())
            .env_clear()
            .env("PATH", &self.path)
            .env("HOME", self.home.path())
            .env("TMPDIR", self.temporary.path())
            .env("CONVOKE_DATA_DIR", self.home.path().join("data"))
            .env("CONVOKE_CONFIG_DIR", self.home.path().join("config"))
            // Nothing that is meant for this machine goes to a proxy.
            .env("HTTP_PROXY", "http://127.0.0.1:1")
            .envs(self.env.iter().map(|(name, value)| (name, value)));
        command
    }

    pub fn run(&self, arguments: &[&str]) -> String {
        let output = self.command(arguments).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{arguments:?}: {text}{error}");
        text
    }
}
