//! `convoke capture --live`: a program that is run by hand, with its own home and sign-in.

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::model_server::ModelServer;
use crate::sign_in::write;
use crate::user::User;
use crate::{KEY, files_below, has_no_credentials, masked, unpacked};

fn is_captured_on_its_way(cli: &str, agent: &str) {
    let Some(mut user) = User::new(cli, agent, "read-only") else { return };
    let server = ModelServer::start(None);
    user.uses(&server, agent);
    user.env.push(("GEMINI_CLI_TRUST_WORKSPACE", "true".to_owned()));
    let selected = json!({"security": {"auth": {"selectedType": "gemini-api-key"}}});
    write(user.home.path(), ".gemini/settings.json", &selected);
    let saved = user.home.path().join("saved");
    let to = saved.display().to_string();
    let mut arguments = vec!["capture", "--live", "--json", "--save", &to, "--", agent];
    arguments.extend(match agent {
        "codex" => ["exec", "Say hello."],
        _ => ["-p", "Say hello."],
    });
    let shown: Value = serde_json::from_str(&user.run(&arguments)).unwrap();
    let calls = server.calls.lock().unwrap().clone();
    assert!(!calls.is_empty(), "{cli}");
    assert_eq!(shown["agent"], agent);
    assert_eq!(shown["elsewhere"], Value::Null, "{cli}: other connections are not watched");
    assert_eq!(shown["requests"].as_array().unwrap().len(), calls.len(), "{cli}: {shown}");
    assert!(shown["account"]["yourBytes"].as_u64() > Some(0), "{cli}: {shown}");
    let mut files = Vec::new();
    files_below(&saved, &mut files);
    files.retain(|path| path.file_name().is_some_and(|name| name != "capture.json"));
    let bodies: Vec<Value> = files
        .iter()
        .map(|path| serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap())
        .collect();
    assert_eq!(bodies.len(), calls.len(), "{cli}");
    for got in &calls {
        let arrived = masked(agent, &unpacked(got));
        assert!(bodies.contains(&arrived), "{cli}: {arrived}");
        let credentials = got.headers.iter().filter(|(_, value)| value.contains(KEY)).count();
        assert_eq!(credentials, 1, "{cli}: {:?}", got.headers);
    }
    has_no_credentials(&saved, cli);
    let manifest: Value =
        serde_json::from_slice(&std::fs::read(saved.join("capture.json")).unwrap()).unwrap();
    let saved = manifest["requests"].as_array().unwrap();
    for got in &calls {
        let hash = Sha256::digest(&got.body);
        let hash = hash.iter().map(|it| format!("{it:02x}")).collect::<Vec<_>>().concat();
        let request = saved.iter().find(|it| it["sent"]["sha256"] == hash);
        let sent = &request.unwrap_or_else(|| panic!("{cli}: {manifest}"))["sent"];
        assert_eq!(sent["bytes"], got.body.len(), "{cli}");
        assert_eq!(
            sent["masked"].as_array().unwrap().is_empty(),
            agent == "gemini",
            "{cli}: {sent}"
        );
    }
}

/// The words of the hook become part of the prompt.
#[test]
fn the_hooks_of_a_project_are_run_only_where_the_user_trusts_it() {
    for cli in ["claude-2.1.197", "claude-2.1.325"] {
        let Some(mut user) = User::new(cli, "claude", "read-only") else { return };
        let hook = json!([{"hooks": [{"type": "command", "command": "echo the-hook-ran"}]}]);
        let settings = json!({"hooks": {"UserPromptSubmit": hook}});
        write(user.project.path(), ".claude/settings.json", &settings);
        for (options, runs) in [(&["--live"][..], false), (&["--live", "--trust"], true)] {
            let server = ModelServer::start(None);
            user.uses(&server, "claude");
            let shown =
                user.run(&[&["capture"], options, &["--", "claude", "-p", "Hello."]].concat());
            let calls = server.calls.lock().unwrap().clone();
            assert!(!calls.is_empty(), "{cli}: {shown}");
            let has_run = calls
                .iter()
                .any(|it| String::from_utf8_lossy(&unpacked(it)).contains("the-hook-ran"));
            assert_eq!(has_run, runs, "{cli} {options:?}");
            assert_eq!(shown.contains("capture.commands-withheld"), !runs, "{cli}: {shown}");
        }
        let helper = json!({"otelHeadersHelper": "echo the-hook-ran"});
        write(user.project.path(), ".claude/settings.json", &helper);
        let refused = user.command(&["capture", "--live", "--", "claude", "-p", "Hello."]).output();
        let refused = String::from_utf8(refused.unwrap().stderr).unwrap();
        assert!(refused.contains("claude would apply"), "{cli}: {refused}");
    }
}

/// A key in the command line is nowhere in a saved capture.
#[test]
fn a_key_on_the_command_line_is_not_saved_nor_shown() {
    let Some(mut user) = User::new("claude-2.1.325", "claude", "read-only") else { return };
    let server = ModelServer::start(None);
    user.uses(&server, "claude");
    let saved = user.home.path().join("saved");
    let (to, prompt) = (saved.display().to_string(), format!("The key is {KEY}."));
    let shown =
        user.run(&["capture", "--live", "--save", &to, "--", "claude", "-p", prompt.as_str()]);
    assert!(!server.calls.lock().unwrap().is_empty());
    assert!(!shown.contains(KEY), "{shown}");
    assert!(shown.contains("sent to the model's own endpoint"), "{shown}");
    assert!(!shown.contains("othing left this machine"), "{shown}");
    has_no_credentials(&saved, "claude");
    let manifest = std::fs::read_to_string(saved.join("capture.json")).unwrap();
    let yours: Value = serde_json::from_str(&manifest).unwrap();
    let texts = yours["yours"].as_array().unwrap().iter();
    let mut texts = texts.filter_map(|it| it["text"].as_str());
    assert!(texts.any(|text| text.starts_with("The key is [")), "{manifest}");
}

#[test]
fn claude_is_captured_on_its_way() {
    for cli in ["claude-2.1.197", "claude-2.1.325"] {
        is_captured_on_its_way(cli, "claude");
    }
}

#[test]
fn codex_is_captured_on_its_way() {
    for cli in ["codex-0.98.0", "codex-0.166.0"] {
        is_captured_on_its_way(cli, "codex");
    }
}

#[test]
fn gemini_is_captured_on_its_way() {
    is_captured_on_its_way("gemini-0.61.0", "gemini");
}
