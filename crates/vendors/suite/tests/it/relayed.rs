//! Tests of the endpoints of all CLIs, and of pointing them to a relay.

use std::ffi::OsString;
use std::path::Path;

use convoke_agent::launch::AskError;
use convoke_agent::relayed::{CliStart, NO_PROXY, PROXIES, RelayAddress};
use convoke_agent::turn_input::Trust;
use convoke_vendors::programs;

fn env(pairs: &[(&str, &str)]) -> Vec<(OsString, OsString)> {
    pairs.iter().map(|(name, value)| (name.into(), value.into())).collect()
}

fn at(base_url: &str) -> RelayAddress<'_> {
    RelayAddress { base_url, proxy: None }
}

struct Machine {
    home: tempfile::TempDir,
    project: tempfile::TempDir,
    version: &'static str,
}

impl Machine {
    fn new(files: &[(&str, &str)]) -> Self {
        let (home, project) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let machine = Self { home, project, version: "0.166.0" };
        for (path, text) in files {
            let path = machine.home.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        machine
    }

    fn with<T>(
        &self,
        vendor: &str,
        arguments: &[&str],
        variables: &[(&str, &str)],
        check: impl FnOnce(&CliStart<'_>) -> T,
    ) -> T {
        let mut all = env(variables);
        all.push(("HOME".into(), self.home.path().into()));
        let arguments: Vec<String> = arguments.iter().map(|it| (*it).to_owned()).collect();
        let (env, cwd) = (&all[..], self.project.path());
        let (is_adapter, trust) = (false, Trust::Untrusted);
        let version = Some(self.version).filter(|_| vendor == "codex");
        let vendor = programs().cli(vendor).unwrap();
        let etc = &self.home.path().join("etc");
        check(&CliStart {
            vendor,
            is_adapter,
            arguments: &arguments,
            env,
            cwd,
            trust,
            version,
            etc,
        })
    }

    fn base_url(
        &self,
        vendor: &str,
        arguments: &[&str],
        variables: &[(&str, &str)],
    ) -> Result<String, String> {
        self.with(vendor, arguments, variables, |started| {
            let found = started
                .vendor
                .relayed_endpoint(started, &mut || Ok(Some("Logged in using ChatGPT".to_owned())));
            found.map(|it| it.base_url).map_err(|error| error.to_string())
        })
    }
}

#[test]
fn each_way_of_signing_in_has_its_endpoint() {
    let bare = Machine::new(&[]);
    let ok = |url: &str| Ok(url.to_owned());
    let claude = |variables: &[(&str, &str)]| bare.base_url("claude", &[], variables);
    assert_eq!(claude(&[]), ok("https://api.anthropic.com"));
    assert_eq!(claude(&[("ANTHROPIC_BASE_URL", "https://gate/x")]), ok("https://gate/x"));
    assert_eq!(
        claude(&[("CLAUDE_CODE_USE_VERTEX", "1"), ("CLOUD_ML_REGION", "europe-west1")]),
        ok("https://europe-west1-aiplatform.googleapis.com/v1")
    );
    assert!(claude(&[("CLAUDE_CODE_USE_BEDROCK", "1")]).unwrap_err().contains("signs"));

    let codex = |arguments: &[&str], variables: &[(&str, &str)]| {
        bare.base_url("codex", arguments, variables)
    };
    assert_eq!(codex(&[], &[]), ok("https://chatgpt.com/backend-api/codex"));
    assert_eq!(codex(&[], &[("CODEX_API_KEY", "k")]), ok("https://api.openai.com/v1"));
    assert_eq!(codex(&["-c", "openai_base_url=\"https://g/v1\""], &[]), ok("https://g/v1"));
    let bedrock = codex(&["-c", "model_provider=amazon-bedrock"], &[]);
    assert!(bedrock.unwrap_err().contains("signs"));
    let mine = Machine::new(&[(
        ".codex/config.toml",
        "model_provider = \"mine\"\n[model_providers.mine]\nbase_url = \"https://mine/v1\"\n",
    )]);
    assert_eq!(mine.base_url("codex", &[], &[]), ok("https://mine/v1"));

    let gemini = |variables: &[(&str, &str)]| bare.base_url("gemini", &[], variables);
    let key = "https://generativelanguage.googleapis.com";
    assert_eq!(gemini(&[("GEMINI_API_KEY", "k")]), ok(key));
    assert_eq!(
        gemini(&[("GOOGLE_GENAI_USE_VERTEXAI", "true"), ("GOOGLE_API_KEY", "k")]),
        ok("https://aiplatform.googleapis.com")
    );
    assert!(gemini(&[]).is_err());
    let login = r#"{"security": {"auth": {"selectedType": "oauth-personal"}}} // mine"#;
    let login = Machine::new(&[(".gemini/settings.json", login)]);
    let code_assist = "https://cloudcode-pa.googleapis.com";
    assert_eq!(login.base_url("gemini", &[], &[("GEMINI_API_KEY", "k")]), ok(code_assist));
}

#[test]
fn claude_is_pointed_by_a_settings_file_that_keeps_the_users() {
    let machine = Machine::new(&[(
        ".claude/settings.json",
        r#"{"env": {"ANTHROPIC_BASE_URL": "https://gate.example"}}"#,
    )]);
    let given = r#"{"model": "opus", "env": {"A": "b"}}"#;
    let private = tempfile::tempdir().unwrap();
    let local = "http://127.0.0.1:1/s/gate.example";
    machine.with("claude", &["--settings", given, "-x"], &[("NO_PROXY", "h")], |started| {
        let endpoint = started.vendor.relayed_endpoint(started, &mut || Ok(None)).unwrap();
        // Settings take precedence over the environment, and a gateway is not the vendor's own endpoint.
        assert_eq!(endpoint.base_url, "https://gate.example");
        let pointed = endpoint.point(started, at(local), private.path()).unwrap();
        assert_eq!(pointed.arguments[..2], ["-x", "--settings"]);
        let text = std::fs::read_to_string(&pointed.arguments[2]).unwrap();
        let settings: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(
            settings,
            serde_json::json!({"model": "opus", "env": {"A": "b", "ANTHROPIC_BASE_URL": local}})
        );
        assert_eq!(pointed.env, env(&[("NO_PROXY", "h,127.0.0.1"), ("no_proxy", "127.0.0.1")]));
    });
    let bare = Machine::new(&[]);
    let private = tempfile::tempdir().unwrap();
    bare.with("claude", &[], &[], |started| {
        let endpoint = started.vendor.relayed_endpoint(started, &mut || Ok(None)).unwrap();
        let pointed = endpoint.point(started, at(local), private.path()).unwrap();
        let text = std::fs::read_to_string(&pointed.arguments[1]).unwrap();
        assert!(text.contains("_CLAUDE_CODE_ASSUME_FIRST_PARTY_BASE_URL"));
        assert_eq!(started.vendor.facts().own_user_agents, ["claude-cli/"]);
    });
}

#[test]
fn codex_is_pointed_by_a_setting_of_its_provider() {
    let mine = Machine::new(&[(
        ".codex/config.toml",
        "model_provider = \"mine\"\n[model_providers.mine]\nbase_url = \"https://mine/v1\"\n",
    )]);
    let none = Path::new("/nonexistent");
    mine.with("codex", &["-p", "x"], &[], |started| {
        let endpoint = started.vendor.relayed_endpoint(started, &mut || Ok(None)).unwrap();
        let pointed = endpoint.point(started, at("http://l"), none).unwrap();
        assert_eq!(
            pointed.arguments,
            [
                "-p",
                "x",
                "-c",
                "model_providers.mine.base_url=\"http://l\"",
                "-c",
                "model_providers.mine.supports_websockets=false"
            ]
        );
    });
    let bare = Machine::new(&[]);
    bare.with("codex", &[], &[("CODEX_API_KEY", "k")], |started| {
        let endpoint = started.vendor.relayed_endpoint(started, &mut || Ok(None)).unwrap();
        assert!(!endpoint.may_be_bound);
        let pointed = endpoint.point(started, at("http://l"), none).unwrap();
        assert_eq!(pointed.arguments, ["-c", "openai_base_url=\"http://l\""]);
        assert_eq!(pointed.env[0], ("OPENAI_BASE_URL".into(), "http://l".into()));
    });
}

#[test]
fn each_way_of_signing_in_has_its_hosts() {
    let bare = Machine::new(&[]);
    let hosts = |machine: &Machine, vendor, variables: &[(&str, &str)]| {
        machine.with(vendor, &[], variables, |started| {
            started
                .vendor
                .relayed_endpoint(started, &mut || Ok(Some("Logged in using ChatGPT".to_owned())))
                .unwrap()
                .sign_in_hosts
        })
    };
    let own = ["platform.claude.com", "api.anthropic.com"];
    let gate = ("ANTHROPIC_BASE_URL", "https://gate.example");
    assert_eq!(hosts(&bare, "claude", &[]), own);
    // An organisation's policy applies to keys too.
    assert_eq!(hosts(&bare, "claude", &[("ANTHROPIC_API_KEY", "k")]), own);
    assert_eq!(hosts(&bare, "claude", &[gate]), own);
    assert_eq!(hosts(&bare, "claude", &[gate, ("ANTHROPIC_AUTH_TOKEN", "k")]), [""; 0]);
    let google = ["oauth2.googleapis.com", "sts.googleapis.com", "iamcredentials.googleapis.com"];
    assert_eq!(hosts(&bare, "claude", &[("CLAUDE_CODE_USE_VERTEX", "1")]), google);
    assert_eq!(hosts(&bare, "codex", &[]), ["auth.openai.com", "chatgpt.com"]);
    assert_eq!(hosts(&bare, "codex", &[("CODEX_API_KEY", "k")]), [""; 0]);
    assert_eq!(hosts(&bare, "gemini", &[("GEMINI_API_KEY", "k")]), [""; 0]);
    assert_eq!(hosts(&bare, "gemini", &[("GOOGLE_GENAI_USE_GCA", "true")]), google);
    let provider = |auth: bool| {
        let text = format!(
            "model_provider = \"mine\"\n[model_providers.mine]\nbase_url = \"https://mine/v1\"\n\
             requires_openai_auth = {auth}\n"
        );
        hosts(&Machine::new(&[(".codex/config.toml", &text)]), "codex", &[])
    };
    assert_eq!(provider(true), ["auth.openai.com", "chatgpt.com"]);
    assert_eq!(provider(false), [""; 0]);
}

/// The relay itself uses the user's proxy.
#[test]
fn a_program_that_reaches_the_relay_alone_uses_it_as_its_proxy() {
    let machine = Machine::new(&[(
        ".claude/settings.json",
        r#"{"env": {"HTTPS_PROXY": "http://users.proxy:3128"}}"#,
    )]);
    let variables =
        [("https_proxy", "http://users.proxy:3128"), ("NO_PROXY", "*"), ("GEMINI_API_KEY", "k")];
    let relay = RelayAddress { base_url: "http://l", proxy: Some("http://convoke:s@127.0.0.1:9") };
    for vendor in ["claude", "codex", "gemini"] {
        let private = tempfile::tempdir().unwrap();
        machine.with(vendor, &[], &variables, |started| {
            let endpoint = started
                .vendor
                .relayed_endpoint(started, &mut || {
                    Ok(Some("Logged in using an API key".to_owned()))
                })
                .unwrap();
            let pointed = endpoint.point(started, relay, private.path()).unwrap();
            let value = |name: &str| {
                let mut found = pointed.env.iter().rev().filter(|(key, _)| key == name);
                found.next().and_then(|(_, value)| value.to_str()).unwrap()
            };
            for name in PROXIES {
                assert_eq!(value(name), "http://convoke:s@127.0.0.1:9", "{vendor:?}");
            }
            for name in NO_PROXY {
                assert_eq!(value(name), "127.0.0.1", "{vendor:?}");
            }
            if vendor == "claude" {
                let text = std::fs::read_to_string(&pointed.arguments[1]).unwrap();
                let settings: serde_json::Value = serde_json::from_str(&text).unwrap();
                assert_eq!(settings["env"]["HTTPS_PROXY"], "http://convoke:s@127.0.0.1:9");
                assert_eq!(settings["env"]["no_proxy"], "127.0.0.1");
            }
        });
    }
}

#[test]
fn codex_is_relayed_to_the_address_that_its_version_obeys() {
    let file = "openai_base_url = \"https://setting/v1\"\n";
    let mut machine = Machine::new(&[(".codex/config.toml", file)]);
    let variable = [("OPENAI_BASE_URL", "https://variable/v1"), ("CODEX_API_KEY", "k")];
    for (version, expected) in [
        ("0.98.0", Ok("https://variable/v1".to_owned())),
        ("0.166.0", Ok("https://setting/v1".to_owned())),
        ("1.0.0", Ok("https://setting/v1".to_owned())),
    ] {
        machine.version = version;
        assert_eq!(machine.base_url("codex", &[], &variable), expected, "{version}");
    }
    machine.version = "0.120.0";
    let unknown = machine.base_url("codex", &[], &variable).unwrap_err();
    assert!(unknown.contains("not known"), "{unknown}");
    let bare = Machine::new(&[]);
    let alone = bare.base_url("codex", &[], &variable);
    assert_eq!(alone, Ok("https://api.openai.com/v1".to_owned()));
}

/// An address that is not found would lead requests and keys to another server.
#[test]
fn a_file_that_cannot_be_read_as_the_program_does_decides_no_endpoint() {
    let gate = r#"{"env": {"ANTHROPIC_BASE_URL": "https://gate/x"}}"#;
    let marked = format!("\u{feff}{gate}");
    let machine = Machine::new(&[(".claude/settings.json", &*marked)]);
    assert_eq!(machine.base_url("claude", &[], &[]), Ok("https://gate/x".to_owned()));
    for (vendor, path, text) in [
        ("claude", ".claude/settings.json", r#"{"x": 1e999}"#),
        ("claude", "etc/claude-code/managed-settings.json", "{"),
        ("claude", "etc/claude-code/managed-settings.d/a.json", "{"),
        ("codex", ".codex/config.toml", "openai_base_url ="),
        ("codex", "etc/codex/managed_config.toml", "x"),
        ("gemini", ".gemini/settings.json", "{"),
    ] {
        let machine = Machine::new(&[(path, text)]);
        let refused = machine.base_url(vendor, &[], &[]).unwrap_err();
        assert!(refused.contains(path), "{refused}");
    }
}

#[test]
fn a_program_that_cannot_be_asked_is_no_program_without_a_sign_in() {
    let machine = Machine::new(&[]);
    let refused = machine.with("codex", &[], &[], |started| {
        let asked = started.vendor.relayed_endpoint(started, &mut || Err(AskError::TimedOut));
        asked.unwrap_err().to_string()
    });
    assert!(refused.contains("did not answer in time"), "{refused}");
}

#[test]
fn settings_of_the_machine_count_as_the_programs_count_them() {
    fn gateway(path: &str, text: &str) -> Machine {
        Machine::new(&[(path, text)])
    }
    let setting = "openai_base_url = \"https://gate/v1\"\n";
    let machine = gateway("etc/codex/config.toml", setting);
    let key = [("CODEX_API_KEY", "k")];
    assert_eq!(machine.base_url("codex", &[], &key), Ok("https://gate/v1".to_owned()));
    let managed = gateway("etc/codex/managed_config.toml", setting);
    let refused = managed.base_url("codex", &[], &key).unwrap_err();
    assert!(refused.contains("managed_config.toml sets `openai_base_url`"), "{refused}");

    let variables = r#"{"env": {"ANTHROPIC_BASE_URL": "https://gate"}}"#;
    for path in ["managed-settings.json", "managed-settings.d/10.json"] {
        let machine = gateway(&format!("etc/claude-code/{path}"), variables);
        let refused = machine.base_url("claude", &[], &[]).unwrap_err();
        assert!(refused.contains(path) && refused.contains("env.ANTHROPIC_BASE_URL"), "{refused}");
        let refused =
            programs().cli("claude").unwrap().check_managed(&machine.home.path().join("etc"));
        assert!(refused.unwrap_err().to_string().contains(path));
    }
    let selected = r#"{"security": {"auth": {"selectedType": "vertex-ai"}}}"#;
    let machine = gateway("etc/gemini-cli/settings.json", selected);
    let found = machine.base_url("gemini", &[], &[("GEMINI_API_KEY", "k")]);
    assert_eq!(found, Ok("https://aiplatform.googleapis.com".to_owned()));
}

#[test]
fn gemini_reads_one_env_file_below_its_environment() {
    let text = "GEMINI_API_KEY=k\nGOOGLE_GEMINI_BASE_URL=https://gate # mine\n";
    let machine = Machine::new(&[(".gemini/.env", text)]);
    let found = |variables: &[(&str, &str)]| machine.base_url("gemini", &[], variables);
    assert_eq!(found(&[]), Ok("https://gate".to_owned()));
    let own = [("GOOGLE_GEMINI_BASE_URL", "https://own")];
    assert_eq!(found(&own), Ok("https://own".to_owned()));
    // A file of the project is read in place of the user's, and withheld if the project is not trusted.
    std::fs::write(machine.project.path().join(".env"), "X=1\n").unwrap();
    assert!(found(&[]).is_err());
}

#[test]
fn bedrock_with_a_token_is_refused_for_the_right_reason() {
    let bare = Machine::new(&[]);
    let token = [("CLAUDE_CODE_USE_BEDROCK", "1"), ("AWS_BEARER_TOKEN_BEDROCK", "t")];
    let refused = bare.base_url("claude", &[], &token).unwrap_err();
    assert!(!refused.contains("signs"), "{refused}");
}
