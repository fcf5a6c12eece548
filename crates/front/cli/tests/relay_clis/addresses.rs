//! Requests go to the address that the program itself would have used, wherever it is set, and to no other.

use serde_json::json;

use crate::KEY;
use crate::model_server::ModelServer;
use crate::sign_in::write;
use crate::user::User;

/// 0.98 obeys the variable and 0.166 the setting; each ignores the other.
#[test]
fn a_version_of_codex_is_relayed_to_the_address_that_it_obeys() {
    for (cli, obeys_setting) in [("codex-0.98.0", false), ("codex-0.166.0", true)] {
        let Some(mut user) = User::new(cli, "codex", "read-only") else { return };
        let (set, in_variable) = (ModelServer::start(None), ModelServer::start(None));
        user.uses(&set, "codex");
        user.env = in_variable.environment("codex");
        let shown = user.run(&["run", "--record", "wire", "Say hello."]);
        assert!(shown.contains("Behind the relay."), "{cli}: {shown}");
        let (right, other) = if obeys_setting { (set, in_variable) } else { (in_variable, set) };
        assert!(!right.calls.lock().unwrap().is_empty(), "{cli}");
        assert!(other.calls.lock().unwrap().is_empty(), "{cli}");
    }
}

#[test]
fn gemini_is_relayed_to_the_address_in_its_env_file() {
    for is_users in [true, false] {
        let Some(mut user) = User::new("gemini-0.61.0", "gemini", "read-only") else { return };
        let server = ModelServer::start(None);
        let selected = json!({"security": {"auth": {"selectedType": "gemini-api-key"}}});
        write(user.home.path(), ".gemini/settings.json", &selected);
        let variables =
            format!("GEMINI_API_KEY={KEY}\nGOOGLE_GEMINI_BASE_URL='{}'\n", server.url());
        let owner = if is_users { user.home.path() } else { user.project.path() };
        std::fs::create_dir_all(owner.join(".gemini")).unwrap();
        std::fs::write(owner.join(".gemini/.env"), variables).unwrap();
        user.env = vec![("GEMINI_CLI_TRUST_WORKSPACE", "true".to_owned())];
        // Variables of a project count if the user trusts it.
        let trust: &[&str] = if is_users { &[] } else { &["--trust"] };
        let command = ["--", "gemini", "-p", "Say hello."];
        user.run(&[&["capture", "--live"], trust, &command].concat());
        assert!(!server.calls.lock().unwrap().is_empty(), "users: {is_users}");
    }
}

/// 2.1.325 reads the local settings of the repository's root in its sub directories; 2.1.197 does not.
#[test]
fn claude_is_relayed_to_the_address_in_the_local_settings_of_the_root() {
    for (cli, is_read) in [("claude-2.1.325", true), ("claude-2.1.197", false)] {
        let Some(mut user) = User::new(cli, "claude", "read-only") else { return };
        let (of_root, of_user) = (ModelServer::start(None), ModelServer::start(None));
        user.uses(&of_user, "claude");
        let project = user.project.path();
        std::fs::create_dir(project.join(".git")).unwrap();
        std::fs::create_dir(project.join("sub")).unwrap();
        let settings = json!({"env": {"ANTHROPIC_BASE_URL": of_root.url()}});
        write(project, ".claude/settings.local.json", &settings);
        let mut command = user.command(&["capture", "--live", "--", "claude", "-p", "Say hello."]);
        let output = command.current_dir(project.join("sub")).output().unwrap();
        assert!(output.status.success(), "{cli}: {output:?}");
        let (right, other) = if is_read { (of_root, of_user) } else { (of_user, of_root) };
        assert!(!right.calls.lock().unwrap().is_empty(), "{cli}");
        assert!(other.calls.lock().unwrap().is_empty(), "{cli}");
    }
}

/// No file of a project and no argument leads a program that is not meant to reach a model to one.
#[test]
fn a_capture_reaches_no_address_of_settings_or_arguments() {
    for cli in ["claude-2.1.197", "claude-2.1.325"] {
        let Some(mut user) = User::new(cli, "claude", "read-only") else { return };
        let server = ModelServer::start(None);
        user.env = Vec::new();
        let variables =
            json!({"ANTHROPIC_BASE_URL": server.url(), "NO_PROXY": "*", "no_proxy": "*"});
        let settings = json!({"env": variables, "apiKeyHelper": "touch ran; echo key"});
        write(user.project.path(), ".claude/settings.json", &settings);
        let given = settings.to_string();
        for arguments in [
            &["capture", "--", "claude", "hi"][..],
            &["capture", "--", "claude", "--settings", &given, "hi"],
            &["request", "--agent", "claude", "hi"],
            &["request", "--agent", "claude", "hi", "--", "--settings", &given],
        ] {
            user.run(arguments);
            assert!(server.calls.lock().unwrap().is_empty(), "{cli}: {arguments:?}");
            // The command of a project is not run, unless the user typed it.
            let has_typed = arguments.contains(&"--settings");
            assert!(has_typed || !user.project.path().join("ran").exists(), "{cli}: {arguments:?}");
        }
    }
    if let Some(user) = User::new("claude-agent-acp-0.99.1", "claude-acp", "read-only") {
        let server = ModelServer::start(None);
        let settings = json!({"env": {"ANTHROPIC_BASE_URL": server.url()}});
        write(user.project.path(), ".claude/settings.json", &settings);
        user.run(&["capture", "--", "claude-acp", "hi"]);
        assert!(server.calls.lock().unwrap().is_empty());
    }
    for cli in ["codex-0.98.0", "codex-0.166.0"] {
        let Some(user) = User::new(cli, "codex", "read-only") else { return };
        let server = ModelServer::start(None);
        let setting = format!("openai_base_url=\"{}/v1\"", server.url());
        let provider = format!(
            "model_providers={{x={{name=\"x\",base_url=\"{}/v1\",wire_api=\"responses\"}}}}",
            server.url()
        );
        for settings in [&["-c", &setting][..], &["-c", &provider, "-c", "model_provider=\"x\""]] {
            user.run(&[&["request", "--agent", "codex", "hi", "--"], settings].concat());
            user.run(&[&["capture", "--", "codex"], settings, &["hi"]].concat());
            assert!(server.calls.lock().unwrap().is_empty(), "{cli}: {settings:?}");
        }
    }
}
