//! The messages that each editor sends to `convoke acp`, and the settings in the docs of each editor.

use std::path::Path;

use convoke_conformance_acp::official::*;
use serde::Serialize;
use serde_json::{Value, json};

use crate::context::TestContext;
use crate::editor::{Editor, TEAM, words};

fn value(message: impl Serialize) -> Value {
    serde_json::to_value(message).unwrap()
}

fn text(words: &str) -> ContentBlock {
    ContentBlock::Text(TextContent::new(words))
}

#[test]
fn everything_that_the_official_types_write_is_read() {
    let context = TestContext::new().file("convoke.toml", TEAM);
    let mut editor = Editor::start(&context, &["--rehearse"]);
    let files = FileSystemCapabilities::new().read_text_file(true).write_text_file(true);
    let abilities = ClientCapabilities::new().fs(files).terminal(true);
    let hello = InitializeRequest::new(1.into())
        .client_capabilities(abilities)
        .client_info(Implementation::new("editor", "1").title("Editor".to_owned()));
    let (_, answer) = editor.request("initialize", &value(hello));
    assert_eq!(answer["result"]["agentInfo"]["name"], "convoke");
    let (_, answer) = editor.request("authenticate", &value(AuthenticateRequest::new("any")));
    assert_eq!(answer["error"]["code"], -32602, "no method is offered: {answer}");
    let servers = || {
        let local = McpServerStdio::new("a", "/bin/a").env(vec![EnvVariable::new("A", "b")]);
        let http = McpServerHttp::new("b", "http://x").headers(vec![HttpHeader::new("H", "v")]);
        let sse = McpServerSse::new("c", "http://y");
        vec![McpServer::Stdio(local), McpServer::Http(http), McpServer::Sse(sse)]
    };
    let new = NewSessionRequest::new(context.path())
        .mcp_servers(servers())
        .additional_directories(vec!["/tmp".into()]);
    let (_, opened) = editor.request("session/new", &value(new));
    let session = opened["result"]["sessionId"].as_str().unwrap().to_owned();
    let inside = TextResourceContents::new("[NEXT: eva]", "file:///x.md");
    let blob = BlobResourceContents::new("AAAA", "file:///y");
    let blocks = vec![
        text("@max Look at "),
        ContentBlock::ResourceLink(ResourceLink::new("a.rs", "file:///a.rs")),
        ContentBlock::Resource(EmbeddedResource::new(
            EmbeddedResourceResource::TextResourceContents(inside),
        )),
        ContentBlock::Resource(EmbeddedResource::new(
            EmbeddedResourceResource::BlobResourceContents(blob),
        )),
        ContentBlock::Image(ImageContent::new("AAAA", "image/png")),
        ContentBlock::Audio(AudioContent::new("AAAA", "audio/wav")),
    ];
    let prompt = PromptRequest::new(session.clone(), blocks);
    let (before, answer) = editor.request("session/prompt", &value(prompt));
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
    let said = words(&before, "agent_message_chunk");
    assert!(said.contains("**max:** ") && !said.contains("**eva:** "), "{said}");
    for left_out in ["image", "audio", "resource without text (file:///y)", "not passed on: 3"] {
        assert!(said.contains(left_out), "{left_out}: {said}");
    }
    let load = LoadSessionRequest::new(session.clone(), context.path()).mcp_servers(servers());
    let (before, answer) = editor.request("session/load", &value(load));
    assert_eq!(answer["result"], json!({}), "{answer}");
    assert!(words(&before, "user_message_chunk").contains("Look at file:///a.rs"), "{before:?}");
    let resume = ResumeSessionRequest::new(session.clone(), context.path());
    let (before, answer) = editor.request("session/resume", &value(resume));
    // The commands of the session that was loaded may come first.
    assert!(
        words(&before, "user_message_chunk").is_empty() && answer["error"].is_null(),
        "{answer}"
    );
    let mode = SetSessionModeRequest::new(session.clone(), "plan");
    let (_, answer) = editor.request("session/set_mode", &value(mode));
    assert_eq!(answer["error"]["code"], -32601, "no modes are offered: {answer}");
    let close = CloseSessionRequest::new(session.clone());
    assert_eq!(editor.request("session/close", &value(close.clone())).1["result"], json!({}));
    assert_eq!(editor.request("session/close", &value(close)).1["error"]["code"], -32002);
    let prompt = PromptRequest::new(session, vec![text("x")]);
    assert_eq!(editor.request("session/prompt", &value(prompt)).1["error"]["code"], -32002);
    editor.close();
}

#[test]
fn sessions_are_listed_by_project_newest_first() {
    let context = TestContext::new().file("convoke.toml", TEAM).file("sub/x", "");
    let mut editor = Editor::start(&context, &["--rehearse"]);
    let (one, two) = (editor.open(&context), editor.open(&context));
    editor.prompt(&one, "\nthe first\u{1b}[1m\nand more");
    editor.prompt(&two, "the second");
    let list = |editor: &mut Editor, params: Value| {
        let (_, answer) = editor.request("session/list", &params);
        answer["result"]["sessions"].as_array().cloned().unwrap_or_else(|| panic!("{answer}"))
    };
    for params in [
        value(ListSessionsRequest::new()),
        value(ListSessionsRequest::new().cwd(context.path().to_owned())),
        value(ListSessionsRequest::new().cwd(context.path().join("sub"))),
    ] {
        let listed = list(&mut editor, params);
        let ids: Vec<&Value> = listed.iter().map(|it| &it["sessionId"]).collect();
        assert_eq!(ids, [&json!(two), &json!(one)]);
        assert_eq!(listed[0]["title"], "the second");
        let title = listed[1]["title"].as_str().unwrap();
        assert!(title.starts_with("the first") && !title.contains('\u{1b}'), "{title:?}");
        let time = listed[0]["updatedAt"].as_str().unwrap();
        assert!(time.len() == 20 && &time[10..11] == "T" && time.ends_with('Z'), "{time}");
    }
    assert_eq!(list(&mut editor, json!({"cwd": "/nonexistent/elsewhere"})), [] as [Value; 0]);
    assert_eq!(list(&mut editor, json!({"cursor": two})).len(), 1);
    let (_, refused) = editor.request("session/list", &json!({"cursor": "odd"}));
    assert_eq!(refused["error"]["code"], -32602);
    editor.close();
}

/// An ACP agent that reports a thought, a plan and a file edit.
const BUSY: &str = r#"#!/bin/sh
answer() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$1" "$2"; }
update() { printf '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":%s}}\n' "$1"; }
read -r line; answer 1 '{"protocolVersion":1}'
read -r line; answer 2 '{"sessionId":"s"}'
read -r line
update '{"sessionUpdate":"agent_thought_chunk","content":{"type":"text","text":"I think"}}'
update '{"sessionUpdate":"plan","entries":[{"content":"Look","priority":"high","status":"completed"},{"content":"Edit","priority":"low","status":"in_progress"}]}'
update '{"sessionUpdate":"tool_call","toolCallId":"r","title":"Read","kind":"read","status":"in_progress","rawInput":{"path":"/p/a.txt"}}'
update '{"sessionUpdate":"tool_call_update","toolCallId":"r","status":"failed","content":[{"type":"content","content":{"type":"text","text":"no such file"}}]}'
update '{"sessionUpdate":"tool_call","toolCallId":"e","title":"Edit","kind":"edit","status":"in_progress","content":[{"type":"diff","path":"/p/a.txt","oldText":"one","newText":"two"},{"type":"diff","path":"/p/b.txt","newText":"three"}]}'
update '{"sessionUpdate":"tool_call_update","toolCallId":"e","status":"completed"}'
update '{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"Edited."}}'
answer 3 '{"stopReason":"end_turn"}'
read -r line
"#;

#[test]
fn thoughts_plans_tool_calls_and_diffs_are_passed_on() {
    let agent = "kind = \"acp\"\ncommand = \"busy\"\n";
    let context = crate::acp::with_agent("busy", BUSY, agent);
    let mut editor = Editor::start(&context, &[]);
    let session = editor.open(&context);
    let id = editor.send_prompt(&session, "edit it");
    let (before, response) = editor.until(id);
    assert_eq!(response["result"]["stopReason"], "end_turn", "{response}");
    assert_eq!(words(&before, "agent_thought_chunk"), "I think");
    assert!(words(&before, "agent_message_chunk").ends_with("**max:** Edited."), "{before:?}");
    let updates: Vec<&Value> = before.iter().map(|it| &it["params"]["update"]).collect();
    let of = |kind: &str| -> Vec<&Value> {
        updates.iter().filter(|it| it["sessionUpdate"] == kind).copied().collect()
    };
    let plan = of("plan")[0];
    assert_eq!(plan["entries"][0]["status"], "completed");
    assert_eq!(plan["entries"][1]["content"], "Edit");
    let calls = of("tool_call");
    assert_eq!(calls.len(), 3, "{calls:?}");
    assert_eq!(calls[0]["title"], "max: read /p/a.txt");
    assert_eq!(
        (&calls[0]["kind"], &calls[0]["rawInput"]["path"]),
        (&json!("read"), &json!("/p/a.txt"))
    );
    let diffs = json!([
        {"type": "diff", "path": "/p/a.txt", "oldText": "one", "newText": "two"},
        {"type": "diff", "path": "/p/b.txt", "newText": "three"},
    ]);
    assert_eq!(calls[2]["content"], diffs, "{}", calls[2]);
    let ends = of("tool_call_update");
    assert_eq!(
        (&ends[0]["toolCallId"], &ends[0]["status"]),
        (&calls[0]["toolCallId"], &json!("failed"))
    );
    assert_eq!(ends[0]["content"][0]["content"]["text"], "no such file");
    assert_eq!(ends[1]["status"], "completed");
    editor.close();
}

/// The messages of each editor at the start, with each session and with each prompt, as in their sources.
fn editors(cwd: &Path) -> Vec<(&'static str, Value, Value, Value)> {
    let files = json!({"readTextFile": true, "writeTextFile": true});
    let link = json!({"type": "resource_link", "uri": "file:///p/a.rs", "name": "a.rs"});
    let inside = json!({"type": "resource", "resource": {"uri": "file:///p/a.rs", "text": "x"}});
    let says = |text: &str| json!({"type": "text", "text": text});
    vec![
        (
            "zed",
            json!({"protocolVersion": 1, "clientCapabilities": {"fs": files, "terminal": true,
                "auth": {"terminal": true}, "_meta": {"terminal_output": true, "terminal-auth": true}},
                "clientInfo": {"name": "zed", "version": "1", "title": "stable"}}),
            json!({"cwd": cwd, "mcpServers": [{"name": "x", "command": "y", "args": [], "env": []},
                {"type": "http", "name": "z", "url": "http://z", "headers": []}]}),
            json!([says("Look at "), inside, says(" please")]),
        ),
        (
            "jetbrains",
            json!({"protocolVersion": 1, "clientCapabilities": {"fs": files},
                "clientInfo": {"name": "IntelliJ IDEA", "version": "2026.2"}}),
            json!({"cwd": cwd, "mcpServers": []}),
            json!([says("Look"), link]),
        ),
        (
            "neovim",
            json!({"protocolVersion": 1, "clientCapabilities": {"fs": files},
                "clientInfo": {"name": "CodeCompanion.nvim", "version": "1.0.0"}}),
            json!({"cwd": cwd, "mcpServers": {}}),
            json!([says("Sharing the following file as context: a.rs"), says("Look")]),
        ),
        (
            "neovim",
            json!({"protocolVersion": 1, "clientCapabilities": {"fs": files}}),
            json!({"cwd": cwd, "mcpServers": []}),
            json!([says("<selected_code>x</selected_code>"), link, says("Look")]),
        ),
        (
            "emacs",
            json!({"protocolVersion": 1, "clientCapabilities": {"fs": files,
                "_meta": {"terminal_output": true}}, "clientInfo": {"name": "agent-shell", "version": "1"}}),
            json!({"cwd": cwd, "mcpServers": []}),
            json!([says("Look at"), inside]),
        ),
    ]
}

#[test]
fn the_settings_of_each_editor_start_the_command_that_answers_it() {
    let context = TestContext::new().file("convoke.toml", TEAM);
    for (name, hello, new, prompt) in editors(context.path()) {
        let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs");
        let page = std::fs::read_to_string(docs.join(name).with_extension("md")).unwrap();
        let arguments = arguments_in(name, &page);
        assert!(!arguments.is_empty(), "{name} starts no command: {page}");
        for (program, arguments) in arguments {
            assert!(program == "convoke" || program.ends_with("/convoke"), "{name}: {program}");
            assert_eq!(arguments, ["acp"], "{name}");
        }
        let mut editor = Editor::start(&context, &["--rehearse"]);
        let (_, answer) = editor.request("initialize", &hello);
        assert_eq!(answer["result"]["authMethods"], json!([]), "{name}");
        let (before, opened) = editor.request("session/new", &new);
        assert!(before.is_empty(), "{name}: {before:?}");
        let session = &opened["result"]["sessionId"];
        let params = json!({"sessionId": session, "prompt": prompt});
        let (before, answer) = editor.request("session/prompt", &params);
        assert_eq!(answer["result"]["stopReason"], "end_turn", "{name}: {answer}");
        assert!(words(&before, "agent_message_chunk").contains("**max:** "), "{name}");
        assert!(before.iter().all(|it| it["method"] == "session/update"), "{name}: {before:?}");
        editor.close();
    }
}

/// Returns the programs that the settings of a page start, with their arguments.
fn arguments_in(name: &str, page: &str) -> Vec<(String, Vec<String>)> {
    let mut blocks = page.split("```").skip(1).step_by(2);
    let strings = |text: &str| -> Vec<String> {
        text.split('"').skip(1).step_by(2).map(str::to_owned).collect()
    };
    if ["zed", "jetbrains"].contains(&name) {
        let block = blocks.next().and_then(|it| it.strip_prefix("json")).unwrap();
        let settings: Value = serde_json::from_str(block).unwrap();
        let server = &settings["agent_servers"]["Convoke"];
        let arguments = server["args"].as_array().unwrap().iter();
        let arguments = arguments.map(|it| it.as_str().unwrap().to_owned()).collect();
        return vec![(server["command"].as_str().unwrap().to_owned(), arguments)];
    }
    let mut found = Vec::new();
    for block in blocks {
        let open = block.chars().filter(|it| "({[".contains(*it)).count();
        assert_eq!(open, block.chars().filter(|it| ")}]".contains(*it)).count(), "{block}");
        let command = block.lines().filter(|line| line.contains("command")).map(strings);
        let mut words: Vec<String> = command.flatten().collect();
        found.push((words.remove(0), words));
    }
    found
}
