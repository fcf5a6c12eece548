//! Test fixtures: a machine, a repository and a small pack.

use convoke_core::ledger::Target;
use serde_json::{Value, json};

use crate::config::{Config, Machine, Overrides};
use crate::item::ResponseItem;
use crate::pack::{Pack, Shape};
use crate::thread::{ModelResponse, Setup, Step, Thread, TurnOverrides};
use crate::user_input::UserInput;
use convoke_files::MemoryTree;

/// The files, the machine and the pack of a test.
pub(crate) struct World {
    pub(crate) tree: MemoryTree,
    pub(crate) machine: Machine,
    pub(crate) pack: Pack,
}

const PACK_TEXTS: [(&str, &str); 20] = [
    ("permissions/sandbox/danger-full-access.md", "danger {network_access}\n"),
    ("permissions/sandbox/read-only.md", "read {network_access}\n"),
    ("permissions/sandbox/workspace-write.md", "write {network_access}\n"),
    ("permissions/approval/never.md", "never\n"),
    ("permissions/approval/unless-trusted.md", "unless-trusted\n"),
    ("permissions/approval/on-failure.md", "on-failure\n"),
    ("permissions/approval/on-request.md", "on-request\n"),
    ("permissions/approval/on-request-rule.md", "on-request with rules\n"),
    ("permissions/approved-prefixes.md", "approved: {prefixes}"),
    ("permissions/prefixes-truncated.md", "\n[more]"),
    ("wrappers/personality.md", "<personality_spec>{spec}</personality_spec>"),
    ("wrappers/model-switch.md", "<model_switch>{model_instructions}</model_switch>"),
    ("wrappers/turn-aborted.md", "<turn_aborted>\nstopped\n</turn_aborted>"),
    ("skills/intro.md", "intro"),
    ("skills/how-to-use.md", "how"),
    ("compact/prompt.md", "summarise\n"),
    ("compact/summary-prefix.md", "earlier:"),
    ("child-agents.md", "nested\n"),
    ("instructions/plain.md", "plain base"),
    ("instructions/template.md", "template [{{ personality }}]"),
];

/// Returns the files of the pack.
pub(crate) fn pack_files() -> MemoryTree {
    let mut tree = MemoryTree::default();
    tree.write("/pack/pack.toml", "name = \"test\"\nshape = \"codex@0.98\"\n");
    for (path, text) in PACK_TEXTS {
        tree.write(format!("/pack/{path}"), text);
    }
    tree.write("/pack/personalities/friendly.md", "warm");
    tree.write("/pack/personalities/pragmatic.md", "brief");
    let facts = |matches: Value, base: &str, messages: Value| {
        json!({
            "match": matches, "source": "built-in", "base_instructions": base,
            "model_messages": messages, "default_reasoning_level": "medium",
            "supports_reasoning_summaries": true, "support_verbosity": false,
            "default_verbosity": null, "apply_patch_tool_type": "freeform",
            "truncation_policy": {"mode": "bytes", "limit": 1000},
            "supports_parallel_tool_calls": true, "context_window": 100_000,
            "auto_compact_token_limit": null, "effective_context_window_percent": 95,
        })
    };
    let messages = json!({
        "instructions_template": "instructions/template.md", "personality_default": "",
        "personality_friendly": "personalities/friendly.md",
        "personality_pragmatic": "personalities/pragmatic.md",
    });
    let models = json!([
        facts(json!({"prefix": ["person"]}), "instructions/plain.md", messages),
        facts(json!({"any": true}), "instructions/plain.md", Value::Null),
    ]);
    tree.write("/pack/models.json", models.to_string());
    tree
}

impl World {
    /// Creates a repository at `/r` with a configuration.
    pub(crate) fn new(config: &str) -> Self {
        let mut tree = MemoryTree::default();
        tree.create_directory("/r/.git");
        tree.create_directory("/r/sub");
        tree.create_directory("/tmp");
        tree.write("/home/.codex/config.toml", config);
        Self {
            tree,
            machine: Machine {
                home: Some("/home".into()),
                codex_home: "/home/.codex".into(),
                cwd: "/r".into(),
                shell: "bash".to_owned(),
                tmpdir: None,
                openai_base_url: None,
            },
            pack: Pack::load(&pack_files(), "/pack".as_ref()).unwrap(),
        }
    }

    pub(crate) fn setup(&self) -> Setup<'_> {
        Setup { files: &self.tree, pack: &self.pack, machine: &self.machine, listed_models: &[] }
    }

    pub(crate) fn config(&self) -> Config {
        self.config_with(&Overrides::default())
    }

    pub(crate) fn config_with(&self, overrides: &Overrides) -> Config {
        let mut config =
            Config::load(&self.tree, &self.machine, Shape::Codex0_98, overrides).unwrap();
        // Only a server with that name compacts threads itself.
        if config.provider.name == "OpenAI" {
            "local".clone_into(&mut config.provider.name);
        }
        config
    }

    pub(crate) fn start(&self) -> Thread<'_> {
        Thread::start(self.setup(), self.config(), "t").unwrap()
    }
}

/// Starts a turn with a text.
pub(crate) fn say(thread: &mut Thread<'_>, text: &str) -> Step {
    say_with(thread, text, &TurnOverrides::default())
}

/// Starts a turn with a text and changed settings.
pub(crate) fn say_with(thread: &mut Thread<'_>, text: &str, overrides: &TurnOverrides) -> Step {
    let inputs = vec![UserInput::Text(text.to_owned())];
    thread.begin_turn(inputs, overrides).unwrap()
}

/// Answers with a text.
pub(crate) fn reply(thread: &mut Thread<'_>, text: &str, tokens: u64) -> Step {
    let part = json!({"type": "output_text", "text": text});
    let item = json!({"type": "message", "role": "assistant", "content": [part]});
    answer(thread, &[item], tokens)
}

/// Answers with items.
pub(crate) fn answer(thread: &mut Thread<'_>, items: &[Value], tokens: u64) -> Step {
    let items = items.iter().map(|it| ResponseItem::try_from(it.clone()).unwrap());
    let answer =
        ModelResponse { items: items.collect(), tokens: Some(tokens), ..ModelResponse::default() };
    thread.answer(answer).unwrap()
}

/// Returns the body of the request that a step sends.
pub(crate) fn body(step: &Step) -> Value {
    match step {
        Step::Send(request) => {
            assert!(request.ledger.covers(Target::Prompt, request.body.len() as u64));
            serde_json::from_str(&request.body).unwrap()
        }
        other => panic!("no request: {other:?}"),
    }
}

/// Returns the input of the request that a step sends, one line per item.
pub(crate) fn lines(step: &Step) -> Vec<String> {
    let body = body(step);
    let items = body["input"].as_array().unwrap().iter();
    let line = |item: &Value| {
        let what = item["role"].as_str().or(item["type"].as_str()).unwrap();
        let text = match &item["content"] {
            Value::Array(parts) => {
                let parts = parts.iter().map(|it| it["text"].as_str().unwrap_or("(image)"));
                parts.collect::<Vec<_>>().join(" | ")
            }
            _ => item["output"].as_str().or(item["call_id"].as_str()).unwrap_or("").to_owned(),
        };
        format!("{what}: {text}")
    };
    items.map(line).collect()
}
