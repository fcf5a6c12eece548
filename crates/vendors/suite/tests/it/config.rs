//! Tests of the built-in agents, and of the user's own file.

use convoke_agent::config::{AgentKind, Catalog};
use convoke_vendors::programs;

const FILE: &str = r#"
    [agent.claude]
    model = "opus"

    [agent.reviewer]
    kind = "plain"
    command = "/opt/review"
    args = ["-x"]
"#;

#[test]
fn built_in_agents_need_no_file() {
    let catalog = Catalog::built_in(programs());
    let names: Vec<&str> = catalog.iter().map(|(name, _)| name).collect();
    assert_eq!(
        names,
        [
            "acp",
            "api",
            "claude",
            "claude-acp",
            "codex",
            "codex-acp",
            "copilot",
            "gemini",
            "gemini-acp",
            "kilo",
            "kimi",
            "opencode",
            "plain",
            "qwen",
            "stand-in"
        ]
    );
    assert_eq!(catalog.get("claude-acp").unwrap().program(), "claude-agent-acp");
    assert_eq!(catalog.get("codex").unwrap().program(), "codex");
}

#[test]
fn a_users_file_adds_and_changes_agents() {
    let mut catalog = Catalog::built_in(programs());
    catalog.add_user_file(FILE).unwrap();
    assert_eq!(catalog.get("claude").unwrap().model.as_deref(), Some("opus"));
    assert_eq!(catalog.get("claude").unwrap().kind.name(), "claude");
    assert_eq!(catalog.get("reviewer").unwrap().program(), "/opt/review");
}

#[test]
fn each_kind_uses_its_own_settings() {
    let all = [
        "model",
        "command",
        "args",
        "env",
        "cwd",
        "sandbox",
        "base-url",
        "wire",
        "developer-role",
        "key-env",
        "context-window",
        "tools",
        "workspace",
        "role-summary",
        "instructions",
        "instructions-file",
        "window",
        "max-bytes",
    ];
    let used = |kind: AgentKind| {
        let used: Vec<&str> = all.into_iter().filter(|it| kind.unused(it).is_none()).collect();
        used.strip_suffix(&all[13..]).unwrap().join(" ")
    };
    for cli in programs().clis {
        assert_eq!(used(AgentKind::Cli(*cli)), "model command args env cwd sandbox workspace");
    }
    assert_eq!(used(AgentKind::Acp), "model command args env cwd sandbox workspace");
    assert_eq!(used(AgentKind::Plain), "command args env cwd sandbox workspace");
    let of_models = "base-url wire developer-role key-env context-window tools";
    assert_eq!(used(AgentKind::Api), format!("model cwd {of_models}"));
    assert_eq!(used(AgentKind::StandIn), "");
}

#[test]
fn the_fix_names_what_was_probably_meant() {
    let cli = |name| AgentKind::Cli(programs().cli(name).unwrap());
    let fix = cli("claude").unused("base-url").unwrap().fix;
    assert!(fix.contains("ANTHROPIC_BASE_URL"), "{fix}");
    let fix = cli("gemini").unused("key-env").unwrap().fix;
    assert!(fix.contains("GEMINI_API_KEY"), "{fix}");
}

fn report(text: &str) -> String {
    Catalog::built_in(programs()).add_user_file(text).unwrap_err().report("agents.toml")
}

#[test]
fn every_error_has_its_line_and_its_fix() {
    for (text, words) in [
        (
            "[agent.claude]\nmodel = \"--debug\"\n",
            "agents.toml:2: `agent.claude.model` must be a name that does not begin with `-`",
        ),
        ("[agent.claude]\nbase-url = \"http://h\"\n", "ANTHROPIC_BASE_URL"),
        ("[agent.stand-in]\npermissions = \"read-only\"\n", "runs no program"),
        ("[agent.claude]\nreadable = [\"keys\"]\n", "begin with `/` or `~/`, not `keys`"),
        ("[agent.api]\ncommand = \"x\"\n", "runs no program"),
        ("[agent.gemini]\nprotocol = \"exec\"\n", "one protocol"),
        (
            "[agent.api]\ncontext-window = 0\n",
            "agents.toml:2: `agent.api.context-window` must be a number of tokens, 1 or more",
        ),
        (
            "[agent.max]\nkind = \"plain\"\ncomand = \"x\"\n",
            "agents.toml:3: `agent.max.comand` is not a setting; did you mean `command`?",
        ),
        ("[agent.max]\n", "agents.toml:1: `agent.max` is new and needs `kind`"),
        ("[agent.cluade]\nmodel = \"x\"\n", "did you mean `claude`?"),
        ("[agent.max]\nkind = \"openai\"\n", "write `kind = \"api\"`"),
        ("[claude]\nmodel = \"x\"\n", "write `[agent.claude]`"),
        ("[agents.claude]\nmodel = \"x\"\n", "write `[agent.…]`"),
        ("[[agent]]\nname = \"x\"\n", "write `[agent.NAME]`"),
        ("[agent.claude]\nsandbox = \"edit\"\n", "write `permissions`"),
        ("[agent.claude]\npermissions = \"workspace-write\"\n", "write `permissions = \"edit\"`"),
        ("[agent.claude]\nports = [99999]\n", "a list of port numbers"),
        ("[agent.claude]\nenv = { A = 1 }\n", "put the value in double quotes"),
        ("[agent.claude]\ncommand = \"npx claude\"\n", "a program alone"),
        ("[agent.claude\nmodel = \"x\"\n", "close the header with `]`"),
    ] {
        let report = report(text);
        assert!(report.starts_with("agents.toml:") && report.contains(words), "{text}{report}");
        assert_eq!(report.matches("= fix: ").count(), 1, "{report}");
    }
}

#[test]
fn all_errors_are_reported_and_nothing_is_changed() {
    let text = "[agent.claude]\nmodl = \"x\"\n\n[agent.max]\nwire = \"smoke\"\n";
    let mut catalog = Catalog::built_in(programs());
    let report = catalog.add_user_file(text).unwrap_err().report("a");
    for line in [2, 4, 5] {
        assert!(report.contains(&format!("a:{line}: ")), "{report}");
    }
    assert_eq!(catalog, Catalog::built_in(programs()));
}

#[test]
fn a_key_that_is_in_the_file_is_not_repeated() {
    let key = "sk-0123456789abcdefghijklmnop";
    for setting in [
        format!("key = \"{key}\""),
        format!("key-env = {key}"),
        format!("key-env = \"{key}\""),
        format!("context-window = \"{key}\""),
    ] {
        let report = report(&format!("[agent.api]\n{setting}\n"));
        let shown = convoke_redact::Redactor::default().redact(&report).into_owned();
        assert!(report.starts_with("agents.toml:2: ") && !shown.contains("0123"), "{report}");
    }
}
