//! Readers on lines that no recording contains: odd, damaged and new ones.

#![allow(clippy::unwrap_used)]

use convoke_agent::TurnResult;
use convoke_agent::ending::{Ending, Exit};
use convoke_agent::stream::EventReader;
use convoke_agent::stream::lines::LineSplitter;
use convoke_agent::stream::plain::Plain;
use convoke_protocol::agent_event::{AgentEvent, AgentEventKind, TextPart};
use convoke_protocol::usage::Usage;
use convoke_protocol::verdict::{Failure, FailureReason, Verdict};
use convoke_vendor_claude::stream::Claude;
use convoke_vendor_codex::stream::app::{CodexApp, Message};
use convoke_vendor_codex::stream::exec::CodexExec;
use convoke_vendor_gemini::stream::Gemini;
use proptest::strategy::Strategy;

fn read(mut reader: impl EventReader, lines: &[&[u8]]) -> (Vec<AgentEvent<'static>>, TurnResult) {
    let mut events = Vec::new();
    let mut sink = |event: AgentEvent<'_>| events.push(event.into_owned());
    for line in lines {
        reader.line(line, &mut sink);
    }
    let ending = Ending { exit: Exit::Code(0), stop: None, stderr: "" };
    let account = reader.finish(&ending, &mut sink);
    (events, account)
}

/// Returns the session that a reader names after these lines.
fn session(mut reader: impl EventReader, lines: &[&[u8]]) -> Option<String> {
    for line in lines {
        reader.line(line, &mut |_| {});
    }
    let ending = Ending { exit: Exit::Code(0), stop: None, stderr: "" };
    reader.finish(&ending, &mut |_| {});
    reader.session().map(str::to_owned)
}

fn codes(account: &TurnResult) -> Vec<&str> {
    let codes = account.diagnostics.iter();
    codes.map(|diagnostic| diagnostic.code.name()).collect()
}

const CLAUDE_RESULT: &[u8] =
    br#"{"type":"result","subtype":"success","is_error":false,"result":"yes"}"#;

#[test]
fn what_a_sub_agent_says_is_an_event_and_never_the_reply() {
    let (events, account) = read(
        Claude::new(100),
        &[
            br#"{"type":"assistant","message":{"content":[{"type":"text","text":"[NEXT: evil]"}]},"parent_tool_use_id":"call_1"}"#,
        ],
    );
    assert_eq!(events[0].sub_agent.as_deref(), Some("call_1"));
    assert_eq!(account.reply, "");
}

#[test]
fn an_unknown_kind_is_kept_each_time_and_reported_once() {
    let new = br#"{"type":"telepathy","thought":1}"#;
    let (events, account) = read(Claude::new(100), &[new, new, CLAUDE_RESULT]);
    let kept = events.iter().filter(
        |event| matches!(&event.kind, AgentEventKind::Unknown { name, .. } if name == "telepathy"),
    );
    assert_eq!(kept.count(), 2);
    assert_eq!(codes(&account), ["agent.event-unknown"]);
    assert_eq!(account.diagnostics[0].message, "unknown event type `telepathy`");
    assert_eq!(account.verdict, Verdict::Done);
}

#[test]
fn noise_and_torn_lines_cost_nothing_but_a_diagnostic() {
    let lines: &[&[u8]] = &[b"npm notice a new version", br#"{"type":"assis"#, b"", CLAUDE_RESULT];
    let (_, account) = read(Claude::new(100), lines);
    assert_eq!(account.reply, "yes");
    assert_eq!(codes(&account), ["agent.output-noise"]);
    assert_eq!(account.diagnostics[0].count, Some(2));
}

#[test]
fn bytes_that_are_not_utf_8_are_replaced_and_the_event_is_read() {
    let line =
        b"{\"type\":\"result\",\"subtype\":\"success\",\"is_error\":false,\"result\":\"a\xffb\"}";
    let (_, account) = read(Claude::new(100), &[line]);
    assert_eq!(account.reply, "a\u{fffd}b");
    assert_eq!(codes(&account), ["agent.output-damaged"]);
}

#[test]
fn a_field_of_a_new_type_does_not_cost_the_event() {
    let line = br#"{"type":"result","subtype":"success","is_error":false,"result":"yes","usage":[1],"errors":"x","permission_denials":{"a":1},"stop_reason":{"why":"x"}}"#;
    let (_, account) = read(Claude::new(100), &[line]);
    assert_eq!((account.reply.as_str(), account.usage), ("yes", None));
}

#[test]
fn cached_tokens_count_as_input() {
    let line = br#"{"type":"result","subtype":"success","is_error":false,"result":"","usage":{"input_tokens":1,"cache_creation_input_tokens":20,"cache_read_input_tokens":300,"output_tokens":4}}"#;
    let (_, account) = read(Claude::new(100), &[line]);
    let usage = Usage { input: 321, cached: 300, cache_write: 20, output: 4, reasoning: 0 };
    assert_eq!(account.usage, Some(usage));
}

#[test]
fn the_reply_of_codex_is_its_last_message() {
    let (_, account) = read(
        CodexExec::new(100),
        &[
            br#"{"type":"item.completed","item":{"type":"agent_message","text":"I will look."}}"#,
            br#"{"type":"item.completed","item":{"type":"agent_message","text":"Four."}}"#,
            br#"{"type":"turn.completed","usage":{"input_tokens":1}}"#,
        ],
    );
    assert_eq!(account.reply, "Four.");
}

#[test]
fn the_reply_of_gemini_is_what_follows_its_last_tool() {
    let (events, account) = read(
        Gemini::new(100),
        &[
            br#"{"type":"message","role":"user","content":"the whole prompt"}"#,
            br#"{"type":"message","role":"assistant","content":"I will ","delta":true}"#,
            br#"{"type":"message","role":"assistant","content":"look.","delta":true}"#,
            br#"{"type":"tool_use","tool_name":"write_file","tool_id":"1","parameters":{"file_path":"a.rs"}}"#,
            br#"{"type":"tool_result","tool_id":"1","status":"success"}"#,
            br#"{"type":"message","role":"assistant","content":"Four.","delta":true}"#,
            br#"{"type":"result","status":"success"}"#,
        ],
    );
    assert_eq!(account.reply, "Four.");
    let wholes = events.iter().filter_map(|event| match &event.kind {
        AgentEventKind::Text { text, part: TextPart::Whole } => Some(text.as_ref()),
        AgentEventKind::FileChange { changes } => Some(changes[0].path.as_ref()),
        _ => None,
    });
    assert_eq!(wholes.collect::<Vec<_>>(), ["I will look.", "a.rs", "Four."]);
}

#[test]
fn a_plain_command_replies_with_what_it_writes() {
    let (_, account) = read(Plain::new(100), &[b"  one", b"", b"two\r"]);
    assert_eq!(account.reply, "  one\n\ntwo");
    assert_eq!(account.verdict, Verdict::Done);
}

#[test]
fn an_app_server_turn_is_read_with_its_deltas_tools_and_tokens() {
    let before = Usage { input: 20, output: 3, ..Usage::default() };
    let mut app = CodexApp::new(1000).after(before);
    app.thread_is("t1", None, &mut |_| {});
    let lines: &[&[u8]] = &[
        br#"{"method":"item/agentMessage/delta","params":{"threadId":"t1","delta":"Fo"}}"#,
        br#"{"method":"item/completed","params":{"threadId":"t2","item":{"type":"agentMessage","id":"9","text":"from a sub-agent"}}}"#,
        br#"{"method":"item/started","params":{"threadId":"t1","item":{"type":"commandExecution","id":"1","command":"ls","status":"inProgress"}}}"#,
        br#"{"method":"item/completed","params":{"threadId":"t1","item":{"type":"commandExecution","id":"1","command":"ls","aggregatedOutput":"a","exitCode":2,"status":"failed"}}}"#,
        br#"{"method":"item/completed","params":{"threadId":"t1","item":{"type":"fileChange","id":"2","changes":[{"path":"a","kind":{"type":"add"},"diff":""}],"status":"completed"}}}"#,
        br#"{"method":"item/completed","params":{"threadId":"t1","item":{"type":"agentMessage","id":"3","text":"Four."}}}"#,
        br#"{"method":"thread/tokenUsage/updated","params":{"threadId":"t1","tokenUsage":{"total":{"inputTokens":30,"outputTokens":5},"last":{"inputTokens":10,"outputTokens":2}}}}"#,
        br#"{"method":"thread/tokenUsage/updated","params":{"threadId":"t1","tokenUsage":{"total":{"inputTokens":41,"outputTokens":9},"last":{"inputTokens":11,"outputTokens":4}}}}"#,
        br#"{"method":"turn/completed","params":{"threadId":"t1","turn":{"id":"u","status":"completed"}}}"#,
    ];
    let (events, account) = read(app, lines);
    assert_eq!(account.reply, "Four.");
    assert_eq!(account.verdict, Verdict::Done);
    // The count covers the whole thread, and this is the last one.
    assert_eq!(account.usage.map(|u| (u.input, u.output)), Some((41, 9)));
    let told = events.iter().filter_map(|event| match &event.kind {
        AgentEventKind::Usage(usage) => Some((usage.input, usage.output)),
        _ => None,
    });
    assert_eq!(told.collect::<Vec<_>>(), [(10, 2), (21, 6)]);
    let finished = events.iter().find_map(|event| match &event.kind {
        AgentEventKind::ToolFinished { ok, output, .. } => Some((*ok, output.as_ref())),
        _ => None,
    });
    assert_eq!(finished, Some((false, "a")));
}

#[test]
fn what_an_app_server_asks_is_distinguished() {
    let mut app = CodexApp::new(1000);
    let mut ask = |line: &str| app.message(line.as_bytes(), &mut |_| {});
    assert_eq!(
        ask(r#"{"id":2,"result":{"thread":{"id":"t1"},"model":"m"}}"#),
        Message::Answer {
            id: 2,
            thread: Some("t1".into()),
            model: Some("m".into()),
            turn: None,
            turns: Vec::new(),
        }
    );
    assert_eq!(
        ask(r#"{"id":3,"error":{"code":-1,"message":"no"}}"#),
        Message::Refusal { id: 3, message: "no".into() }
    );
    assert_eq!(
        ask(r#"{"id":"a","method":"item/fileChange/requestApproval","params":{}}"#),
        Message::Request { id: "\"a\"".into(), method: "item/fileChange/requestApproval".into() }
    );
}

#[test]
fn a_turn_that_ends_early_replies_with_what_was_streamed() {
    let claude = |text: &str| {
        format!(
            r#"{{"type":"stream_event","event":{{"type":"content_block_delta","delta":{{"type":"text_delta","text":"{text}"}}}}}}"#
        )
    };
    let start = r#"{"type":"stream_event","event":{"type":"message_start"}}"#;
    let (broken, half, more) = (claude("broken off"), claude("I beg"), claude("in"));
    let lines = [start, &broken, start, &half, &more].map(str::as_bytes);
    assert_eq!(read(Claude::new(100), &lines).1.reply, "I begin");
    let app = br#"{"method":"item/agentMessage/delta","params":{"delta":"I begin"}}"#;
    assert_eq!(read(CodexApp::new(100), &[app]).1.reply, "I begin");
}

#[test]
fn events_have_one_json_form() {
    let event = AgentEvent {
        sub_agent: Some("call_1".into()),
        kind: AgentEventKind::ToolFinished { id: "t".into(), ok: false, output: "no".into() },
    };
    assert_eq!(
        serde_json::to_value(&event).unwrap(),
        serde_json::json!({"subAgent": "call_1", "event": {"kind": "toolFinished", "id": "t", "ok": false, "output": "no"}})
    );
    let verdict = Verdict::Failed(Failure::new(FailureReason::RateLimit, "slow down"));
    let event = AgentEvent::own(AgentEventKind::Finished { verdict });
    assert_eq!(
        serde_json::to_value(&event).unwrap(),
        serde_json::json!({"event": {"kind": "finished",
            "verdict": {"verdict": "failed", "reason": "rate-limit", "message": "slow down"}}})
    );
}

#[test]
fn a_failed_app_server_turn_says_why() {
    let line = br#"{"method":"turn/completed","params":{"turn":{"status":"failed","error":{"message":"no","codexErrorInfo":{"responseTooManyFailedAttempts":{"httpStatusCode":429}}}}}}"#;
    let (_, account) = read(CodexApp::new(100), &[line]);
    let Verdict::Failed(failure) = account.verdict else { unreachable!("it failed") };
    assert_eq!(failure.reason, FailureReason::RateLimit);
}

#[test]
fn half_a_character_in_an_event_does_not_cost_the_event() {
    let lines: &[&[u8]] = &[
        br#"{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"1","content":"cut \ud83d"}]}}"#,
        br#"{"type":"result","subtype":"success","is_error":false,"result":"a\ud83d \ud83d\udc4b"}"#,
    ];
    let (events, account) = read(Claude::new(100), lines);
    assert!(
        matches!(&events[0].kind, AgentEventKind::ToolFinished { output, .. } if output == "cut \u{fffd}")
    );
    assert_eq!((account.verdict.as_str(), account.reply.as_str()), ("done", "a\u{fffd} \u{1f44b}"));
    assert_eq!(codes(&account), ["agent.output-damaged"]);
    assert_eq!(account.diagnostics[0].count, Some(2));
}

#[test]
fn retries_that_are_not_counted_are_counted_here() {
    let attempts = |events: &[AgentEvent<'static>]| {
        let retries = events.iter().filter_map(|event| match event.kind {
            AgentEventKind::Retry { attempt, .. } => Some(attempt),
            _ => None,
        });
        retries.collect::<Vec<_>>()
    };
    let exec = br#"{"type":"error","message":"Reconnecting..."}"#;
    let (events, _) = read(CodexExec::new(100), &[exec, exec, exec]);
    assert_eq!(attempts(&events), [1, 2, 3]);
    let app = br#"{"method":"error","params":{"willRetry":true,"error":{"message":"the stream broke off"}}}"#;
    let tool = br#"{"method":"item/completed","params":{"item":{"type":"commandExecution","id":"1","exitCode":0,"status":"completed"}}}"#;
    let said = br#"{"method":"item/completed","params":{"item":{"type":"agentMessage","id":"2","text":"half"}}}"#;
    // The tool call counts as progress; a partial answer that is started over does not.
    let (events, _) = read(CodexApp::new(100), &[app, said, app, tool, app]);
    assert_eq!(attempts(&events), [1, 2, 1]);
    let claude = br#"{"type":"system","subtype":"api_retry","error":"server_error"}"#;
    let (events, _) = read(Claude::new(100), &[claude, claude]);
    assert_eq!(attempts(&events), [1, 2]);
}

#[test]
fn a_change_of_files_that_was_not_made_is_a_tool_that_failed() {
    for status in ["failed", "declined", "in_progress"] {
        let line = format!(
            r#"{{"type":"item.completed","item":{{"id":"1","type":"file_change","changes":[{{"path":"a.rs","kind":"add"}}],"status":"{status}"}}}}"#
        );
        let (events, _) = read(CodexExec::new(100), &[line.as_bytes()]);
        let expected = format!("the change of a.rs is {status}");
        assert!(
            matches!(&events[0].kind, AgentEventKind::ToolFinished { ok: false, output, .. } if *output == expected),
            "{events:?}"
        );
    }
    let made = br#"{"type":"item.completed","item":{"id":"1","type":"file_change","changes":[{"path":"a.rs","kind":"add"}],"status":"completed"}}"#;
    let (events, _) = read(CodexExec::new(100), &[made]);
    assert!(matches!(&events[0].kind, AgentEventKind::FileChange { .. }));
    assert!(matches!(&events[1].kind, AgentEventKind::ToolFinished { ok: true, .. }));
}

#[test]
fn an_error_that_ends_a_turn_of_codex_is_reported_once() {
    let error = br#"{"type":"error","message":"{\"error\": {\"message\": \"no such thing\"}}"}"#;
    let failed = br#"{"type":"turn.failed","error":{"message":"{\"error\": {\"message\": \"no such thing\"}}"}}"#;
    let (_, account) = read(CodexExec::new(100), &[error, failed]);
    assert_eq!(account.verdict.to_string(), "failed: no such thing");
    assert_eq!(codes(&account), [""; 0]);
    // Without a closing event, the error is the only explanation of the end.
    let (_, account) = read(CodexExec::new(100), &[error]);
    assert_eq!(account.verdict.to_string(), "failed: no such thing");
    // If the turn continues, the error was a notice.
    let done = br#"{"type":"turn.completed"}"#;
    let said = br#"{"type":"item.completed","item":{"type":"agent_message","text":"Four."}}"#;
    let (_, account) = read(CodexExec::new(100), &[error, said, done]);
    assert_eq!((account.verdict.as_str(), codes(&account)), ("done", vec!["agent.notice"]));
}

#[test]
fn a_warning_that_comes_again_is_in_the_account_once() {
    let notice =
        br#"{"type":"item.completed","item":{"type":"error","message":"a key is ignored"}}"#;
    let (events, account) = read(CodexExec::new(100), &[notice, notice]);
    assert_eq!(events.len(), 2);
    assert_eq!(account.diagnostics.len(), 1);
    assert_eq!(account.diagnostics[0].count, Some(2));
}

#[test]
fn a_failure_always_has_words() {
    let silent: [(Box<dyn EventReader>, &[u8], &str); 4] = [
        (
            Box::new(Claude::new(100)),
            br#"{"type":"result","subtype":"error_max_turns","is_error":true}"#,
            "failed: budget reached: claude ended the turn as `error_max_turns`",
        ),
        (
            Box::new(Claude::new(100)),
            br#"{"type":"result","subtype":"success","is_error":"true","result":""}"#,
            "failed: claude gave no reason",
        ),
        (
            Box::new(CodexExec::new(100)),
            br#"{"type":"turn.failed","error":null}"#,
            "failed: codex gave no reason",
        ),
        (
            Box::new(Gemini::new(100)),
            br#"{"type":"result","status":"error","error":{}}"#,
            "failed: gemini gave no reason",
        ),
    ];
    for (mut reader, line, expected) in silent {
        reader.line(line, &mut |_| {});
        let ending = Ending { exit: Exit::Code(0), stop: None, stderr: "" };
        assert_eq!(reader.finish(&ending, &mut |_| {}).verdict.to_string(), expected);
    }
}

#[test]
fn an_error_that_claude_wrote_explains_an_end_without_a_result() {
    let error = br#"{"type":"assistant","error":"rate_limit","message":{"model":"<synthetic>","content":[{"type":"text","text":"Slow down."}]}}"#;
    let (_, account) = read(Claude::new(100), &[error]);
    assert_eq!(account.verdict.to_string(), "failed: rate limit: Slow down.");
    assert_eq!(account.reply, "");
    // An error that the program recovered from explains nothing.
    let said = br#"{"type":"assistant","message":{"content":[{"type":"text","text":"Four."}]}}"#;
    let (_, account) = read(Claude::new(100), &[error, said]);
    assert!(account.verdict.to_string().contains("before the turn was complete"), "{account:?}");
}

#[test]
fn an_empty_result_of_claude_does_not_erase_what_was_said() {
    let said = br#"{"type":"assistant","message":{"content":[{"type":"text","text":"Four."}]}}"#;
    let tool = br#"{"type":"assistant","message":{"content":[null,{"type":"tool_use","id":"1","name":"Bash","input":{}}]}}"#;
    for result in ["\"\"", "null"] {
        let result = format!(
            r#"{{"type":"result","subtype":"success","is_error":false,"result":{result}}}"#
        );
        let (_, account) = read(Claude::new(100), &[said, result.as_bytes()]);
        assert_eq!(account.reply, "Four.");
        // Text before a tool call is not the reply, and none came after it.
        let (_, account) = read(Claude::new(100), &[said, tool, result.as_bytes()]);
        assert_eq!(account.reply, "");
    }
}

#[test]
fn the_list_that_claude_writes_for_json_is_read_as_its_events() {
    let list = br#"[{"type":"system","subtype":"init","session_id":"s1","model":"m"},1,{"type":"result","subtype":"success","is_error":false,"result":"yes"}]"#;
    let (_, account) = read(Claude::new(100), &[list]);
    assert_eq!((account.verdict, account.reply.as_str()), (Verdict::Done, "yes"));
    assert_eq!(session(Claude::new(100), &[list]).as_deref(), Some("s1"));
}

#[test]
fn the_json_of_gemini_is_read_on_one_line_or_on_many_with_noise_around_it() {
    let pretty = "{\n  \"session_id\": \"s1\",\n  \"response\": \"yes\",\n  \"stats\": {\"models\": {\"m\": {\"tokens\": {\"prompt\": 9, \"candidates\": 2, \"thoughts\": 3}}}}\n}";
    let compact = pretty.replace('\n', "");
    let usage = Usage { input: 9, output: 5, reasoning: 3, ..Usage::default() };
    for text in [pretty, &compact, &pretty.replace('\n', "\r\n"), &format!("hello\n{pretty}\nbye")]
    {
        let lines: Vec<&[u8]> = text.split('\n').map(str::as_bytes).collect();
        let (_, account) = read(Gemini::new(100), &lines);
        assert_eq!((account.verdict, account.reply.as_str()), (Verdict::Done, "yes"), "{text}");
        assert_eq!(account.usage, Some(usage));
        assert_eq!(session(Gemini::new(100), &lines).as_deref(), Some("s1"));
    }
    let (_, account) = read(Gemini::new(100), &[br#"{"response":"yes"}"#]);
    assert_eq!((account.reply.as_str(), account.usage), ("yes", None));
    let failed = br#"{"session_id":"s1","error":{"type":"Error","message":"no","code":1}}"#;
    assert_eq!(read(Gemini::new(100), &[failed]).1.verdict.to_string(), "failed: no");
}

#[test]
fn an_error_that_gemini_writes_as_json_to_its_error_output_explains_the_end() {
    let stderr = "Ripgrep is not available.\n{\n  \"session_id\": \"s\",\n  \"error\": {\n    \"type\": \"Error\",\n    \"message\": \"[API Error: {\\\"error\\\":{\\\"code\\\":429,\\\"message\\\":\\\"slow down\\\"}}]\"\n  }\n}\n";
    let ending = Ending { exit: Exit::Code(173), stop: None, stderr };
    let account = Gemini::new(100).finish(&ending, &mut |_| {});
    assert_eq!(account.verdict.to_string(), "failed: rate limit: slow down");
}

#[test]
fn what_gemini_thought_counts_as_output() {
    let line = br#"{"type":"result","status":"success","stats":{"total_tokens":"40","input_tokens":11,"output_tokens":5}}"#;
    let usage = Usage { input: 11, output: 29, reasoning: 24, ..Usage::default() };
    assert_eq!(read(Gemini::new(100), &[line]).1.usage, Some(usage));
}

proptest::proptest! {
    /// Any bytes that a program writes are read without a panic, and with the same result in any chunks.
    #[test]
    fn any_bytes_are_read_the_same_in_any_chunks(
        lines in proptest::collection::vec(line(), 0..12),
        chunk in 1_usize..64,
    ) {
        let bytes = lines.concat();
        let readers: [fn() -> Box<dyn EventReader>; 5] = [
            || Box::new(Claude::new(64)),
            || Box::new(CodexExec::new(64)),
            || Box::new(CodexApp::new(64)),
            || Box::new(Gemini::new(64)),
            || Box::new(Plain::new(64)),
        ];
        for reader in readers {
            let whole = read_chunks(reader(), &bytes, bytes.len().max(1));
            proptest::prop_assert!(whole.reply.len() <= 64);
            proptest::prop_assert_eq!(read_chunks(reader(), &bytes, chunk), whole);
        }
    }
}

fn read_chunks(mut reader: Box<dyn EventReader>, bytes: &[u8], chunk: usize) -> TurnResult {
    let mut lines = LineSplitter::json(512);
    for chunk in bytes.chunks(chunk) {
        lines.push(chunk, |line| reader.line(line.bytes, &mut |_| {}));
    }
    lines.finish(|line| reader.line(line.bytes, &mut |_| {}));
    let ending = Ending { exit: Exit::Code(0), stop: None, stderr: "" };
    reader.finish(&ending, &mut |_| {})
}

/// Lines that are events, almost events, and anything at all.
fn line() -> impl Strategy<Value = Vec<u8>> {
    let kind = proptest::sample::select(vec![
        "assistant",
        "user",
        "result",
        "system",
        "stream_event",
        "item.completed",
        "item.started",
        "turn.completed",
        "turn.failed",
        "error",
        "message",
        "tool_use",
        "tool_result",
        "init",
    ]);
    let field = proptest::sample::select(vec![
        "message",
        "item",
        "content",
        "text",
        "role",
        "delta",
        "result",
        "usage",
        "error",
        "params",
        "subtype",
        "status",
        "stats",
        "event",
        "parent_tool_use_id",
        "id",
        "method",
    ]);
    let value = proptest::sample::select(vec![
        "null",
        "true",
        "-1",
        "1.5",
        "\"success\"",
        "\"\\ud83d\"",
        "\"你好\"",
        "[]",
        "{}",
        "[1,\"a\"]",
        "{\"type\":\"agent_message\",\"text\":\"hi\"}",
        "{\"content\":[{\"type\":\"text\",\"text\":\"x\"}]}",
    ]);
    let fields = proptest::collection::btree_map(field, value, 0..5);
    let event = (kind, fields).prop_map(|(kind, fields)| {
        let fields = fields.iter().map(|(name, value)| format!(",\"{name}\":{value}"));
        format!("{{\"type\":\"{kind}\"{}}}\n", fields.collect::<Vec<_>>().concat()).into_bytes()
    });
    let noise = proptest::collection::vec(proptest::num::u8::ANY, 0..80);
    let torn = (event.clone(), 0_usize..80).prop_map(|(mut event, end)| {
        event.truncate(end);
        event
    });
    proptest::prop_oneof![3 => event, 1 => noise, 1 => torn]
}
