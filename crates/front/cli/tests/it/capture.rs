//! `convoke capture`, with a program that stands for an agent and sends what its test says.

use serde_json::{Value, json};

use crate::context::TestContext;

/// Sends `body.json` as Codex would, once for each word in `calls`, after it has tried other hosts.
const FAKE: &str = r#"#!/bin/bash
if [ "$1" = --version ]; then
    if [ -e "$0.version" ]; then (env; pwd) >"$0.version"; echo 0.98.7; fi
    exit
fi
url=${OPENAI_BASE_URL#http://}
host=${url%%/*}
login=${HTTPS_PROXY#http://}
login=$(printf %s "${login%@*}" | base64 -w0)
send() {
    exec 3<>"/dev/tcp/${host%:*}/${host#*:}"
    printf "$1 HTTP/1.1\r\nhost: $host\r\nproxy-authorization: Basic $login\r\nconnection: close\r\n" >&3
    printf "content-type: application/json\r\ncontent-length: $(wc -c <"$2")\r\n\r\n" >&3
    cat "$2" >&3
    cat <&3 >/dev/null
    exec 3>&-
}
for target in $(cat elsewhere 2>/dev/null); do send "CONNECT $target" /dev/null; done
if [ -e silent ]; then echo "I would rather not" >&2; exit 7; fi
if [ -e slow ]; then sleep 60; fi
send "POST /${url#*/}/responses" "${BODY:-body.json}"
"#;

fn body(prompt: &str, tools: &[&str]) -> String {
    let tools: Vec<Value> =
        tools.iter().map(|name| json!({"type": "function", "name": name})).collect();
    let text = |text: &str| json!([{"type": "input_text", "text": text}]);
    json!({
        "model": "gpt-x",
        "instructions": "You are a program.\nBe useful.\nBe brief.",
        "input": [
            {"type": "message", "role": "developer", "content": text("<permissions>read only</permissions>")},
            {"type": "message", "role": "user", "content": text("<files>\n# Rules of this project\nUse tabs, never spaces.\n</files>")},
            {"type": "message", "role": "user", "content": text(prompt)},
        ],
        "tools": tools,
        "stream": true,
    })
    .to_string()
}

fn context() -> TestContext {
    let context = TestContext::new()
        .file("AGENTS.md", "# Rules of this project\nUse tabs, never spaces.\n")
        .file("body.json", body("Explain this project to me.", &["shell", "apply_patch"]))
        .own_program("codex", FAKE);
    let home = context.path().join("home");
    std::fs::create_dir(&home).expect("a home");
    context.env("HOME", &home.to_string_lossy())
}

const COMMAND: [&str; 3] = ["--", "codex", "Explain this project to me."];

fn capture<'a>(options: &[&'a str]) -> Vec<&'a str> {
    [&["capture"], options, &COMMAND[..]].concat()
}

/// Writes its arguments and calls no model.
const CLAUDE: &str = "#!/bin/bash\necho \"$*\" >>\"$0.seen\"\nexit 1\n";

#[test]
fn the_commands_of_a_project_are_run_only_where_the_user_trusts_it() {
    let hooks =
        r#"{"hooks": {"SessionStart": [{"hooks": [{"type": "command", "command": "x"}]}]}}"#;
    let context = TestContext::new()
        .file(".claude/settings.json", hooks)
        .file(".gemini/settings.json", "{}")
        .own_program("claude", CLAUDE)
        .own_program("gemini", CLAUDE);
    let home = context.path().join("home");
    std::fs::create_dir(&home).expect("a home");
    // Without a sandbox, so that the program can write beside itself what it saw.
    let context = context.env("HOME", &home.to_string_lossy()).env("CONVOKE_LANDLOCK_ABI", "0");
    let project = context.path().display().to_string();
    let ran = |options: &[&str], program: &str| {
        let seen = context.path().join(format!("bin/{program}.seen"));
        let _ = std::fs::remove_file(&seen);
        let arguments = [&["capture"], options, &["--", program, "hello"]].concat();
        let output = context.output(&arguments, b"");
        let said = String::from_utf8(output.stderr).expect("UTF-8");
        (std::fs::read_to_string(seen).unwrap_or_default(), said)
    };
    let withheld = "--strict-mcp-config --settings";
    let (arguments, _) = ran(&[], "claude");
    assert!(arguments.contains(withheld) && arguments.contains("offline.json"), "{arguments}");
    assert!(!ran(&["--trust"], "claude").0.contains(withheld));
    let (arguments, said) = ran(&[], "gemini");
    assert!(arguments.is_empty() && said.contains("would follow"), "{arguments} {said}");
    assert!(!ran(&["--trust"], "gemini").0.is_empty());
    let trusted = format!(r#"{{"projects": {{"{project}": {{"hasTrustDialogAccepted": true}}}}}}"#);
    std::fs::write(home.join(".claude.json"), trusted).expect("a file");
    assert!(!ran(&[], "claude").0.contains(withheld));
}

#[test]
fn each_part_is_shown_with_its_size_and_its_owner() {
    insta::assert_snapshot!(context().run(&capture(&[])));
}

#[test]
fn json_has_every_request_and_the_whole_account() {
    let context = context().file("elsewhere", "telemetry.example.com:443");
    let output = context.output(&capture(&["--json"]), b"");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let mut report: Value = serde_json::from_str(&text).expect("JSON");
    for request in report["requests"].as_array_mut().expect("requests") {
        request["headers"] = json!("[HEADERS]");
    }
    let text = serde_json::to_string_pretty(&report).expect("JSON");
    insta::assert_snapshot!(context.masked(&text));
}

#[test]
fn what_a_program_wants_from_elsewhere_is_refused_and_shown_and_can_be_denied() {
    let context =
        context().file("elsewhere", "a.example.com:443 b.example.com:443 a.example.com:443");
    insta::assert_snapshot!(context.run(&capture(&["--deny", "capture.elsewhere"])));
}

#[test]
fn two_saved_captures_are_compared_by_part() {
    let other = body("Explain this project to me.", &["shell", "web_search"]);
    let other = other.replace("Be brief.", "Be thorough.\\nBe kind.");
    let context = context().file("other.json", other);
    context.run(&capture(&["--save", "before"]));
    context.run(&capture(&["--save", "after", "--env", "BODY=other.json"]));
    let shown = [
        context.run(&["capture", "--diff", "before", "after"]),
        context.run(&["capture", "--diff", "before", "after", "--full"]),
        context.run(&["capture", "--diff", "before", "before"]),
        context.run(&["capture", "--diff", "before", "after", "--json"]),
    ];
    insta::assert_snapshot!(shown.join("\n\n"));
    let saved = std::fs::read(context.path().join("before/request-1.body")).expect("a body");
    let sent = std::fs::read(context.path().join("body.json")).expect("a body");
    assert_eq!(saved, sent);
    let mode = |path: &str| {
        use std::os::unix::fs::PermissionsExt;
        let metadata = context.path().join(path).metadata().expect("it was saved");
        metadata.permissions().mode() & 0o777
    };
    let modes = ["before", "before/capture.json", "before/request-1.body"].map(mode);
    assert_eq!(modes, [0o700, 0o600, 0o600]);
}

#[test]
fn the_version_is_asked_for_as_cut_off_as_the_run() {
    // Without a sandbox, so that the program can write beside itself what it saw.
    let context =
        context().env("HUNTER", "2").env("CONVOKE_LANDLOCK_ABI", "0").file("bin/codex.version", "");
    let output = context.output(&capture(&["--json"]), b"");
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(report["agentVersion"], "0.98.7");
    assert_eq!(report["requests"].as_array().expect("requests").len(), 1);
    let bin = context.path().join("bin/codex.version");
    let seen = std::fs::read_to_string(bin).expect("it was asked");
    assert!(seen.contains("\nHTTPS_PROXY=http://convoke:"), "{seen}");
    assert!(!seen.contains("HUNTER") && !seen.contains("/home\n"), "{seen}");
}

#[test]
fn a_program_that_fails_or_calls_no_model_is_reported() {
    let silent = context().file("silent", "").run(&capture(&[]));
    let slow = context().file("slow", "").run(&capture(&["--timeout", "1"]));
    let garbled = context().file("body.json", "{").run(&capture(&[]));
    insta::assert_snapshot!([silent, slow, garbled].join("\n\n"));
}

#[test]
fn bad_usage_is_named_and_explained() {
    let context = context()
        .own_program("tar", "#!/bin/sh\n")
        .file("bad.toml", "[[answer]]\nsya = \"a\"\n")
        .file("latin1", b"\xe9")
        .file("home/.codex/config.toml", "model =\n")
        .file("future/capture.json", r#"{"version": 2}"#)
        .file("odd/capture.json", "[]")
        .file("climbs/capture.json", climbing_manifest());
    let shown = [
        context.run(&["capture"]),
        context.run(&["capture", "--", "nosuch", "hello"]),
        context.run(&["capture", "--", "tar", "hello"]),
        context.run(&capture(&["--as", "cursor"])),
        context.run(&capture(&["--env", "NAME"])),
        context.run(&capture(&["--script", "bad.toml"])),
        context.run(&capture(&["--script", "none.toml"])),
        context.run(&capture(&["--stdin", "none"])),
        context.run(&capture(&["--stdin", "latin1"])),
        context.run(&capture(&["--home", "home"])),
        context.run(&capture(&["--timeout", "0"])),
        context.run(&["capture", "--diff", "none", "none"]),
        context.run(&["capture", "--diff", "future", "odd"]),
        context.run(&["capture", "--diff", "odd", "future"]),
        context.run(&["capture", "--diff", "climbs", "climbs"]),
    ];
    insta::assert_snapshot!(shown.join("\n\n"));
}

/// A saved capture whose body lies outside its directory.
fn climbing_manifest() -> String {
    json!({
        "version": 1, "agent": "codex", "path": "/x", "realPath": "/x", "agentVersion": null,
        "command": [], "cwd": "/", "home": "/", "ended": {"how": "timedOut"}, "yours": [],
        "requests": [{
            "number": 1, "afterMs": 0, "method": "POST", "target": "/", "headers": [],
            "what": {"kind": "probe"}, "answered": {"by": "default"}, "body": "../body.json",
        }],
    })
    .to_string()
}

#[test]
fn a_saved_capture_is_not_overwritten_unless_told_to() {
    let context = context();
    assert!(context.run(&capture(&["--save", "a"])).starts_with("exit code: 0"));
    let manifest = || std::fs::read(context.path().join("a/capture.json")).expect("it is there");
    let before = manifest();
    insta::assert_snapshot!(context.run(&capture(&["--save", "a"])), @r"
    exit code: 2
    ----- stdout -----

    ----- stderr -----
    convoke: --save: there is a capture in a already; name another directory, or pass --replace
    ");
    assert_eq!(manifest(), before);
    assert!(context.run(&capture(&["--save", "a", "--replace"])).starts_with("exit code: 0"));
}

#[test]
fn a_program_without_a_prompt_is_given_one_and_this_is_reported() {
    let context = context().file("body.json", body("Hello.", &["shell"]));
    let shown = context.run(&["capture", "--", "codex"]);
    assert!(shown.contains("your standard input 6"), "{shown}");
    assert!(shown.contains("capture.prompt-supplied: the command has no prompt"), "{shown}");
}

#[test]
fn a_file_that_the_program_cuts_is_reported_and_counted() {
    let text = "Use tabs, never spaces.\n".repeat(2000);
    let sent = serde_json::to_string(&text[..32 << 10]).expect("JSON");
    let sent = body("Explain this project to me.", &[])
        .replace("# Rules of this project\\nUse tabs, never spaces.\\n", sent.trim_matches('"'));
    let context = context().file("AGENTS.md", &text).file("body.json", sent);
    let shown = context.run(&capture(&[]));
    assert!(shown.contains("agents-md.truncated") && shown.contains("end cut"), "{shown}");
}

#[test]
fn nothing_is_written_into_the_project_or_the_home() {
    let context = context();
    let list = |path: &str| {
        let entries = std::fs::read_dir(context.path().join(path)).expect("a directory");
        let mut names: Vec<_> = entries.map(|entry| entry.expect("an entry").file_name()).collect();
        names.sort();
        names
    };
    let before = [list("."), list("home")];
    context.run(&capture(&[]));
    assert_eq!([list("."), list("home")], before);
}

/// Speaks ACP, and sends the text of its prompt to the model that it is pointed to.
const FAKE_ACP: &str = r#"#!/bin/bash
url=${COPILOT_PROVIDER_BASE_URL#http://}
host=${url%%/*}
answer() { echo '{"jsonrpc":"2.0","id":'"$id"',"result":'"$1"'}'; }
while read -r line; do
    id=$(printf %s "$line" | sed 's/.*"id":\([0-9]*\).*/\1/')
    case $line in
    *'"initialize"'*) answer '{"protocolVersion":1,"agentCapabilities":{}}' ;;
    *'"session/new"'*) answer '{"sessionId":"s1"}' ;;
    *'"session/prompt"'*)
        text=$(printf %s "$line" | sed 's/.*"text":"\([^"]*\)".*/\1/')
        printf %s '{"model":"m","stream":true,"messages":[{"role":"system","content":"You are a program."},{"role":"user","content":"'"$text"'"}]}' >"$TMPDIR/body"
        exec 3<>"/dev/tcp/${host%:*}/${host#*:}"
        printf "POST /${url#*/}/chat/completions HTTP/1.1\r\nhost: $host\r\nconnection: close\r\n" >&3
        printf "content-type: application/json\r\ncontent-length: $(wc -c <"$TMPDIR/body")\r\n\r\n" >&3
        cat "$TMPDIR/body" >&3
        cat <&3 >/dev/null
        exec 3>&-
        echo '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"Hello."}}}}'
        answer '{"stopReason":"end_turn","usage":{"inputTokens":9,"outputTokens":1,"totalTokens":10}}'
        ;;
    esac
done
"#;

#[test]
fn an_acp_agent_is_prompted_over_its_protocol() {
    let context = context().program("copilot", FAKE_ACP);
    for (options, words, given) in [
        (&["--json", "--"][..], &["copilot", "Explain this."][..], "Explain this."),
        (&["--json"], &["copilot"], "Hello."),
        (&["--json", "--as", "copilot", "--"], &["./bin/copilot", "Explain."], "Explain."),
    ] {
        let program = context.home().join("bin/copilot");
        let words = words.iter().map(|word| match *word {
            "./bin/copilot" => program.to_str().expect("a path"),
            word => word,
        });
        let arguments: Vec<&str> =
            std::iter::once("capture").chain(options.iter().copied()).chain(words).collect();
        let output = context.output(&arguments, b"");
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        let report: Value = serde_json::from_slice(&output.stdout).expect(&error);
        assert_eq!(
            (&report["agent"], &report["ended"]["how"]),
            (&json!("copilot"), &json!("done"))
        );
        assert_eq!(report["ended"]["output"], "Hello.");
        let entries = report["account"]["ledger"]["entries"].as_array().expect("entries");
        let yours = entries.iter().filter(|entry| entry["source"]["kind"] == "setting");
        let bytes: u64 = yours.map(|entry| entry["keptBytes"].as_u64().expect("bytes")).sum();
        assert_eq!(bytes, given.len() as u64, "{arguments:?} {report}");
    }
    let wrong = |arguments: &[&str]| {
        let output = context.output(&[&["capture"], arguments].concat(), b"");
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        String::from_utf8(output.stderr).expect("text")
    };
    assert!(wrong(&["kimi", "x"]).contains("npm install -g @moonshot-ai/kimi-code"));
    assert!(wrong(&["--home", "home", "--", "copilot", "x"]).contains("cannot be copied"));
    let live = context.output(&["capture", "--live", "--", "copilot", "x"], b"");
    assert_eq!(live.status.code(), Some(1));
    let why = String::from_utf8(live.stderr).expect("text");
    assert!(why.contains("copilot cannot be pointed to a relay"), "{why}");
}
