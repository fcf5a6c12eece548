//! `convoke rpc`.

use crate::context::TestContext;

/// Writes a call as JSON-RPC; a text that begins with `raw ` is a line by itself.
fn line(id: usize, call: &str) -> String {
    if let Some(raw) = call.strip_prefix("raw ") {
        return raw.to_owned();
    }
    let (method, params) = call.split_once(' ').unwrap_or((call, "[]"));
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"{method}\",\"params\":{params}}}")
}

/// Numbers calls and runs them; the time in snapshots is left out.
fn session(arguments: &[&str], calls: &[&str]) -> String {
    let lines: Vec<String> = calls.iter().enumerate().map(|(id, call)| line(id, call)).collect();
    let input = lines.join("\n");
    let arguments: Vec<&str> = std::iter::once("rpc").chain(arguments.iter().copied()).collect();
    let shown = TestContext::new().run_with_input(&arguments, input.as_bytes());
    let time = shown.find("\"timestamp\":").map(|at| at + "\"timestamp\":".len());
    match time {
        Some(at) => {
            let digits = shown[at..].chars().take_while(char::is_ascii_digit).count();
            format!("{}[TIME]{}", &shown[..at], &shown[at + digits..])
        }
        None => shown,
    }
}

#[test]
fn a_conversation_is_stored_and_exported() {
    insta::assert_snapshot!(session(
        &[],
        &[
            r#"configure [{"contextWindowSize":2,"maxBytes":4096}]"#,
            r#"setTeamTask ["Review"]"#,
            r#"addMessage [{"id":"mine","content":"Hi [NEXT: max]","speaker":{"roleId":"k","roleName":"K","type":"human"},"x":1}]"#,
            r#"addMessage [{"content":"Ho","speaker":{"roleId":"max","roleName":"Max","type":"ai"}}]"#,
            "getMessages",
            "getLatestMessage",
            "getTeamTask",
            r#"getContextForAgent ["sarah","codex",{"systemInstruction":"S","windowSizeOverride":null}]"#,
            r#"assemblePrompt ["codex",{"contextMessages":[{"from":"K","to":"all","content":"Hi"}],"currentMessage":"Ho","maxBytes":4096}]"#,
            r#"stripAllMarkers ["a [NEXT: b] c"]"#,
            r#"scan ["[FROM: a] b [NEXT: c!P1] [DROP: d] [TEAM_TASK: e]"]"#,
            "exportSnapshot",
            "clear",
            r#"importSnapshot [{"version":1,"messages":[{"id":"msg-7","content":"x","speaker":{"roleId":"r"}},{"id":"msg-7","content":"y","speaker":{"roleId":"r"}}],"teamTask":null,"timestamp":0}]"#,
            r#"addMessage [{"content":"next","speaker":{"roleId":"r"}}]"#,
        ],
    ));
}

#[test]
fn invalid_actions_are_refused_with_their_status() {
    insta::assert_snapshot!(session(
        &[],
        &[
            "raw nonsense",
            "raw [1]",
            "raw 5",
            r#"raw {"id":1,"method":"clear"}"#,
            r#"raw {"jsonrpc":"2.0","id":2}"#,
            r#"raw {"jsonrpc":"2.0","id":{},"method":"clear"}"#,
            r#"raw {"jsonrpc":"2.0","method":"nobodyWaits"}"#,
            "nothing",
            r#"clear {"a":1}"#,
            "addMessage [0]",
            "addMessage [{}]",
            r#"addMessage [{"content":"x"}]"#,
            r#"addMessage [{"content":"x","speaker":{"roleId":7}}]"#,
            "setTeamTask [5]",
            r#"getContextForAgent ["a","b",{"windowSizeOverride":-1}]"#,
            r#"getContextForAgent ["a","b",{"windowSizeOverride":1.5}]"#,
            r#"getContextForAgent ["a","b",{"inReplyTo":"msg-9"}]"#,
            r#"assemblePrompt ["codex",{"maxBytes":-1}]"#,
            r#"assemblePrompt ["codex",{"teamTask":"long","maxBytes":3}]"#,
            r#"configure [{"contextWindow":5}]"#,
            r#"configure [{"text":"raw"}]"#,
            r#"importSnapshot [{"version":"1","messages":[]}]"#,
            r#"importSnapshot [{"version":1,"messages":[{"id":"msg-9007199254740992","content":"x","speaker":{"roleId":"r"}}]}]"#,
            r#"importSnapshot [{"version":1,"messages":[{"id":5,"content":"x","speaker":{"roleId":"r"}}]}]"#,
            r#"addMessage [{"content":"x","speaker":{"roleId":"r"}}]"#,
            "configure [{}]",
        ],
    ));
}

#[test]
fn the_text_policy_of_the_command_is_the_default() {
    insta::assert_snapshot!(session(
        &["--text", "compat"],
        &[
            r#"stripAllMarkers ["a   b\n\n c"]"#,
            r#"configure [{"text":"preserve"}]"#,
            r#"stripAllMarkers ["a   b\n\n c"]"#
        ],
    ));
}

#[test]
fn an_unknown_agent_type_and_a_long_task_are_logged() {
    let long = "x".repeat(6000);
    insta::assert_snapshot!(session(
        &[],
        &[
            r#"assemblePrompt ["my-agent",{"currentMessage":"hi"}]"#,
            &format!(r#"setTeamTask ["{long}"]"#)
        ],
    ));
}

#[test]
fn a_prompt_of_misspelt_fields_is_refused() {
    for input in [r#"{"mesage":"Ho"}"#, "{}"] {
        let shown = session(&[], &[&format!("assemblePrompt [\"codex\",{input}]")]);
        assert!(shown.contains("`input` has none of the known fields: "), "{shown}");
    }
}
