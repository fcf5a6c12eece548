use super::{Config, ConfigError, Machine, Overrides, Wire, parse_override};
use crate::pack::Shape;
use crate::permissions::{ApprovalPolicy, SandboxMode, SandboxPolicy};
use crate::personality::Personality;
use crate::project_doc::Trust;
use convoke_files::MemoryTree;

fn machine() -> Machine {
    Machine {
        home: Some("/home/me".into()),
        codex_home: "/home/me/.codex".into(),
        cwd: "/r/sub".into(),
        shell: "bash".to_owned(),
        tmpdir: None,
        openai_base_url: None,
    }
}

fn tree(config: &str) -> MemoryTree {
    let mut tree = MemoryTree::default();
    tree.write("/home/me/.codex/config.toml", config);
    tree.create_directory("/r/.git");
    tree.create_directory("/r/sub");
    tree
}

fn load_with(config: &str, overrides: &Overrides) -> Result<Config, ConfigError> {
    Config::load(&tree(config), &machine(), Shape::Codex0_98, overrides)
}

fn load(config: &str) -> Config {
    load_with(config, &Overrides::default()).unwrap()
}

fn settings(given: &[&str]) -> Overrides {
    let settings = given.iter().map(|it| parse_override(it).unwrap());
    Overrides { settings: settings.collect(), ..Overrides::default() }
}

#[test]
fn an_empty_configuration_has_the_defaults_of_codex() {
    let config = load("");
    assert_eq!(config.model, "gpt-5.2-codex");
    assert_eq!(config.provider.name, "OpenAI");
    assert_eq!(config.approval_policy, ApprovalPolicy::OnRequest);
    assert_eq!(config.sandbox_policy, SandboxPolicy::ReadOnly);
    assert_eq!(config.personality, Some(Personality::Pragmatic));
    assert_eq!(config.project_doc_max_bytes, 32_768);
    assert_eq!(config.reasoning_summary, "auto");
    assert!(config.request_rule && config.remote_compaction && !config.child_agents_md);
}

#[test]
fn arguments_beat_profiles_and_profiles_beat_the_top_level() {
    let text = "model = \"top\"\npersonality = \"friendly\"\n[profiles.p]\nmodel = \"profile\"\n\
                [profiles.p.features]\npersonality = false\n";
    assert_eq!(load(text).model, "top");
    let mut overrides = settings(&["model=\"setting\""]);
    assert_eq!(load_with(text, &overrides).unwrap().model, "setting");
    overrides.profile = Some("p".to_owned());
    let config = load_with(text, &overrides).unwrap();
    assert_eq!(config.model, "profile");
    assert!(!config.model_overrides.personality);
    assert_eq!(config.personality, Some(Personality::Friendly));
    overrides.model = Some("argument".to_owned());
    assert_eq!(load_with(text, &overrides).unwrap().model, "argument");
}

#[test]
fn overrides_are_toml_or_else_plain_text() {
    let cases = [
        ("a=1", toml::Value::Integer(1)),
        ("a.b=true", toml::Value::Boolean(true)),
        ("a=\"x y\"", toml::Value::String("x y".to_owned())),
        ("a=plain words", toml::Value::String("plain words".to_owned())),
        ("a='half", toml::Value::String("half".to_owned())),
    ];
    for (text, expected) in cases {
        let (key, value) = parse_override(text).unwrap();
        assert_eq!(value, expected, "{key}");
    }
    let refused = parse_override("no value").unwrap_err();
    assert!(refused.to_string().contains("write key=value"));
}

#[test]
fn trust_decides_over_the_defaults() {
    let trusted = "[projects.\"/r\"]\ntrust_level = \"trusted\"\n";
    let config = load(trusted);
    assert_eq!(config.trust, Trust::Trusted);
    assert!(matches!(config.sandbox_policy, SandboxPolicy::WorkspaceWrite(_)));
    assert_eq!(config.approval_policy, ApprovalPolicy::OnRequest);

    let config = load("[projects.\"/r\"]\ntrust_level = \"untrusted\"\n");
    assert!(matches!(config.sandbox_policy, SandboxPolicy::WorkspaceWrite(_)));
    assert_eq!(config.approval_policy, ApprovalPolicy::UnlessTrusted);
}

#[test]
fn a_projects_own_configuration_counts_only_when_it_is_trusted() {
    let project = "model = \"theirs\"\nmodel_instructions_file = \"base.md\"\n";
    for (trust, model) in [("trusted", "theirs"), ("untrusted", "mine")] {
        let user = format!("model = \"mine\"\n[projects.\"/r\"]\ntrust_level = \"{trust}\"\n");
        let mut tree = tree(&user);
        tree.write("/r/.codex/config.toml", project);
        tree.write("/r/.codex/base.md", " theirs \n");
        let overrides = Overrides::default();
        let config = Config::load(&tree, &machine(), Shape::Codex0_98, &overrides).unwrap();
        assert_eq!(config.model, model);
        let base = config.model_overrides.base_instructions;
        assert_eq!(base.as_deref(), (trust == "trusted").then_some("theirs"));
        assert_eq!(config.rule_folders.len(), if trust == "trusted" { 2 } else { 1 });
    }
}

#[test]
fn a_worktree_is_trusted_with_its_main_repository() {
    let mut tree = tree("[projects.\"/main\"]\ntrust_level = \"trusted\"\n");
    tree.write("/main/.git/worktrees/r/commondir", "../..\n");
    tree.write("/r/.git", "gitdir: /main/.git/worktrees/r\n");
    let overrides = Overrides::default();
    let config = Config::load(&tree, &machine(), Shape::Codex0_98, &overrides).unwrap();
    assert_eq!(config.trust, Trust::Trusted);
}

#[test]
fn writable_roots_come_before_added_directories() {
    let text =
        "[sandbox_workspace_write]\nwritable_roots = [\"~/x\", \"rel\"]\nnetwork_access = true\n";
    let overrides = Overrides {
        sandbox_mode: Some(SandboxMode::WorkspaceWrite),
        add_dirs: vec!["../y".into()],
        ..Overrides::default()
    };
    let SandboxPolicy::WorkspaceWrite(details) =
        load_with(text, &overrides).unwrap().sandbox_policy
    else {
        panic!("another sandbox");
    };
    let roots: Vec<_> = details.writable_roots.iter().map(|it| it.display().to_string()).collect();
    assert_eq!(roots, ["/home/me/x", "/home/me/.codex/rel", "/r/y"]);
    assert!(details.network_access);
}

#[test]
fn providers_are_found_by_name() {
    let text = "model_provider = \"mine\"\n[model_providers.mine]\nname = \"AZURE\"\n\
                wire_api = \"chat\"\nstream_max_retries = 2\n";
    let provider = load(text).provider;
    assert!(provider.is_azure() && !provider.compacts());
    assert_eq!((provider.wire, provider.stream_max_retries), (Wire::Chat, 2));
    let error = load_with("model_provider = \"other\"", &Overrides::default()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the provider `other` is unknown: add [model_providers.other] or name another"
    );
}

#[test]
fn keys_without_effect_are_reported() {
    let config = load("experimental_instructions_file = \"x.md\"\ninstructions = \"y\"\n");
    let messages: Vec<_> = config.diagnostics.iter().map(|it| &*it.message).collect();
    assert_eq!(
        messages,
        [
            "`experimental_instructions_file` in config.toml has no effect: use `model_instructions_file`",
            "`instructions` in config.toml has no effect: use `developer_instructions`",
        ]
    );
}

#[test]
fn what_is_wrong_is_named() {
    let cases = [
        ("model = 5", "`model` is 5: use a text"),
        (
            "project_doc_max_bytes = -1",
            "`project_doc_max_bytes` is -1: use a whole number, 0 or more",
        ),
        (
            "sandbox_mode = \"open\"",
            "`sandbox_mode` is `open`: use read-only, workspace-write or danger-full-access",
        ),
        ("personality = \"sad\"", "`personality` is `sad`: use none, friendly or pragmatic"),
        (
            "model_reasoning_effort = \"hgih\"",
            "`model_reasoning_effort` is \"hgih\": use one of none, minimal, low, medium, high, xhigh",
        ),
        (
            "sandbox_mode = \"workspace-write\"\nsandbox_workspace_write.network_access = \"yes\"",
            "`sandbox_workspace_write.network_access` is \"yes\": use true or false",
        ),
        (
            "model_instructions_file = \"gone.md\"",
            "cannot read /home/me/.codex/gone.md, which `model_instructions_file` names",
        ),
        (
            "profile = \"p\"",
            "the profile `p` is not in config.toml: add [profiles.p] or name another",
        ),
    ];
    for (text, expected) in cases {
        let error = load_with(text, &Overrides::default()).unwrap_err().to_string();
        let problem = error.strip_prefix("/home/me/.codex/config.toml: ").unwrap_or(&error);
        assert_eq!(problem, expected);
    }
    let error = load_with("model = ", &Overrides::default()).unwrap_err().to_string();
    assert!(error.starts_with("/home/me/.codex/config.toml is not valid TOML"), "{error}");
}

#[test]
fn a_wrong_value_is_placed_where_it_was_set() {
    let trusted = "[projects.\"/r\"]\ntrust_level = \"trusted\"\n";
    let mut tree = tree(trusted);
    tree.write("/r/.codex/config.toml", "project_doc_max_bytes = true\n");
    let failed = Config::load(&tree, &machine(), Shape::Codex0_98, &Overrides::default());
    let expected =
        "/r/.codex/config.toml: `project_doc_max_bytes` is true: use a whole number, 0 or more";
    assert_eq!(failed.unwrap_err().to_string(), expected);

    let failed = load_with("", &settings(&["project_root_markers=1"])).unwrap_err();
    assert!(failed.to_string().ends_with("`project_root_markers` is 1: use a list of texts"));
    let failed = load_with("model = 1\n", &Overrides::default()).unwrap_err();
    assert_eq!(failed.to_string(), "/home/me/.codex/config.toml: `model` is 1: use a text");
    let failed = load_with("", &settings(&["model=1"])).unwrap_err();
    assert_eq!(failed.to_string(), "-c: `model` is 1: use a text");
}

#[test]
fn features_are_switches_and_unknown_ones_are_reported() {
    let failed = load_with("[features]\nundo = \"yes\"\n", &Overrides::default()).unwrap_err();
    assert!(failed.to_string().ends_with("`features.undo` is \"yes\": use true or false"));
    let config = load("[features]\nchild_agent_md = true\nundo = true\nzzz = false\n");
    let messages: Vec<_> = config.diagnostics.iter().map(|it| &*it.message).collect();
    let unknown = "has no effect: Codex 0.98 has no such feature";
    let expected = [
        format!("`features.child_agent_md` {unknown}; did you mean `child_agents_md`?"),
        format!("`features.zzz` {unknown}"),
    ];
    assert_eq!(messages, expected);
}

#[test]
fn a_providers_values_have_their_types() {
    let text = "model_provider = \"x\"\n[model_providers.x]\nbase_url = 5\n";
    let failed = load_with(text, &Overrides::default()).unwrap_err();
    assert!(failed.to_string().ends_with("`model_providers.x.base_url` is 5: use a text"));
}

#[test]
fn a_profile_changes_only_the_keys_that_count_in_one() {
    let text = "profile = \"p\"\ndeveloper_instructions = \"top\"\n[profiles.p]\nmodel = \"m\"\n\
                developer_instructions = \"profile\"\ntool_output_token_limit = 3\n";
    let config = load(text);
    assert_eq!(config.model, "m");
    assert_eq!(config.developer_instructions.unwrap().text(), "top");
    assert_eq!(config.model_overrides.tool_output_token_limit, None);
}

#[test]
fn the_directory_is_cleaned_by_its_spelling() {
    for (given, expected) in [(".", "/r/sub"), ("./x/../y/", "/r/sub/y"), ("/r/./sub/", "/r/sub")] {
        let overrides = Overrides { cwd: Some(given.into()), ..Overrides::default() };
        let cwd = load_with("", &overrides).unwrap().cwd;
        assert_eq!(cwd.to_str(), Some(expected), "{given}");
    }
}

#[test]
fn an_added_directory_counts_once() {
    let overrides = Overrides {
        sandbox_mode: Some(SandboxMode::WorkspaceWrite),
        add_dirs: ["/a", "/b", "/a", "../sub/c", "~/d", "~"].map(Into::into).to_vec(),
        ..Overrides::default()
    };
    let text = "[sandbox_workspace_write]\nwritable_roots = [\"/b\"]\n";
    let SandboxPolicy::WorkspaceWrite(details) =
        load_with(text, &overrides).unwrap().sandbox_policy
    else {
        panic!("workspace-write was asked for");
    };
    assert_eq!(
        details.writable_roots,
        ["/b", "/a", "/r/sub/c", "/home/me/d", "/home/me"].map(std::path::PathBuf::from)
    );
}

#[test]
fn a_repository_is_trusted_through_a_link_to_it() {
    let mut tree = tree("[projects.\"/r\"]\ntrust_level = \"trusted\"\n");
    tree.link("/link", "/r");
    let overrides = Overrides { cwd: Some("/link".into()), ..Overrides::default() };
    let config = Config::load(&tree, &machine(), Shape::Codex0_98, &overrides).unwrap();
    assert_eq!(config.trust, Trust::Trusted);
}

#[test]
fn the_machines_files_count() {
    let mut tree = tree("model = \"users\"\n");
    tree.write("/etc/codex/config.toml", "model = \"machines\"\nmodel_verbosity = \"low\"\n");
    tree.write("/etc/codex/managed_config.toml", "approval_policy = \"never\"\n");
    let load = |tree: &MemoryTree, overrides: &Overrides| {
        Config::load(tree, &machine(), Shape::Codex0_98, overrides).unwrap()
    };
    let config = load(&tree, &settings(&["approval_policy=\"on-failure\""]));
    assert_eq!((&*config.model, config.verbosity.as_deref()), ("users", Some("low")));
    assert_eq!(config.approval_policy, ApprovalPolicy::Never);

    let required = "allowed_approval_policies = [\"untrusted\", \"on-request\"]\n\
                    allowed_sandbox_modes = [\"read-only\"]\n";
    tree.write("/etc/codex/requirements.toml", required);
    let wanted =
        Overrides { sandbox_mode: Some(SandboxMode::DangerFullAccess), ..Overrides::default() };
    let config = load(&tree, &wanted);
    assert_eq!(config.approval_policy, ApprovalPolicy::UnlessTrusted);
    assert_eq!(config.sandbox_policy, SandboxPolicy::ReadOnly);
}
