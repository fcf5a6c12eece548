//! A rehearsed model, and a repository whose user knows it.

use std::time::Duration;

use convoke_rehearsal::{Answer, Rehearsal, Script, start};
use serde_json::Value;
use tokio::runtime::Runtime;

use crate::context::TestContext;

/// A model that answers from a script, in a separate thread.
pub struct Model {
    runtime: Runtime,
    server: Option<Rehearsal>,
}

impl Model {
    pub fn new(answers: impl IntoIterator<Item = Answer>) -> Self {
        let runtime = Runtime::new().expect("a runtime");
        let server = runtime.block_on(start(Script::new(answers))).expect("a server");
        Self { runtime, server: Some(server) }
    }

    pub fn server(&self) -> &Rehearsal {
        self.server.as_ref().expect("the server runs")
    }

    pub fn bodies(&self) -> Vec<String> {
        let calls = self.server().model_calls().into_iter();
        calls.map(|call| String::from_utf8(call.body.to_vec()).expect("UTF-8")).collect()
    }

    pub fn wait_for(&self, calls: usize) {
        let arrived = self.server().has_model_calls(calls, Duration::from_mins(2));
        assert!(self.runtime.block_on(arrived), "{calls} calls");
    }
}

/// A repository with instructions, and a home whose configuration knows the model.
pub fn repository(model: &Model) -> TestContext {
    let agents = format!(
        "[agent.api]\nbase-url = \"{}/v1\"\nmodel = \"m\"\nkey-env = \"THE_KEY\"\ncontext-window = 128000\n",
        model.server().base_url()
    );
    let context = TestContext::new();
    let home = context.path().join("home").display().to_string();
    let config = context.home().join("config");
    std::fs::create_dir_all(&config).expect("a directory");
    std::fs::write(config.join("agents.toml"), agents).expect("a file");
    context
        .file("AGENTS.md", "Answer in one word.\n")
        .file(".git/HEAD", "ref: refs/heads/main\n")
        .env("HOME", &home)
        .env("THE_KEY", "correct-horse-battery")
}

pub fn answer(context: &TestContext, arguments: &[&str]) -> Value {
    let output = context.output(&[&["ask", "--json"], arguments].concat(), b"");
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)))
}
