use serde_json::json;

use super::*;
use crate::ending::Exit;

fn read(updates: &[Value], result: &Value) -> (TurnResult, Vec<String>) {
    let mut reader = Acp::new(1000);
    let mut events = Vec::new();
    let mut sink = |event: AgentEvent<'_>| {
        let event = serde_json::to_value(&event.kind).unwrap();
        let kind = event["kind"].as_str().unwrap_or_default().to_owned();
        events.push(match event["part"].as_str() {
            Some(part) => format!("{kind} {part} {}", event["text"]),
            None => format!("{kind} {}{}", event["id"], event["output"]),
        });
    };
    reader.begin("s", true, None, &mut sink);
    for update in updates {
        let line = json!({"method": "session/update", "params": {"update": update}});
        reader.line(line.to_string().as_bytes(), &mut sink);
    }
    let line = json!({"id": 3, "result": result});
    reader.line(line.to_string().as_bytes(), &mut sink);
    let ending = Ending { exit: Exit::Code(0), stop: None, stderr: "" };
    let result = reader.finish(&ending, &mut sink);
    (result, events)
}

fn say(text: &str) -> Value {
    json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}})
}

#[test]
fn a_call_is_reported_once_when_its_input_is_known() {
    let call = |more: Value| {
        let mut call = json!({"sessionUpdate": "tool_call_update", "toolCallId": "1"});
        call.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        call
    };
    let updates = [
        say("I look."),
        call(json!({"status": "pending", "rawInput": {}})),
        call(json!({"rawInput": {"path": "a"}})),
        call(
            json!({"status": "completed", "content": [{"type": "content", "content": {"text": "A"}}]}),
        ),
        call(json!({"status": "completed"})),
        say("Done."),
    ];
    let (result, events) = read(&updates, &json!({"stopReason": "end_turn"}));
    assert_eq!((result.verdict, result.reply.as_str()), (Verdict::Done, "Done."));
    assert_eq!(
        events[1..],
        [
            "text delta \"I look.\"",
            "text whole \"I look.\"",
            "toolStarted \"1\"null",
            "toolFinished \"1\"\"A\"",
            "text delta \"Done.\"",
            "text whole \"Done.\"",
        ]
    );
}

#[test]
fn a_turn_without_a_word_or_a_deed_has_failed() {
    let (result, _) = read(&[say("")], &json!({"stopReason": "end_turn"}));
    assert_eq!(result.verdict.as_str(), "failed");
}

#[test]
fn each_reason_to_stop_has_its_verdict() {
    for (reason, verdict) in [
        ("end_turn", "done"),
        ("cancelled", "cancelled"),
        ("max_tokens", "failed: output limit: the model stopped at its output limit"),
        ("refusal", "failed: refused: the model refused"),
        ("_new", "failed: the agent stopped: _new"),
    ] {
        let (result, _) = read(&[say("x")], &json!({"stopReason": reason}));
        assert_eq!(result.verdict.to_string(), verdict);
    }
}

#[test]
fn cached_tokens_are_counted_once_whether_they_are_part_of_the_input_or_not() {
    let counted = Usage { input: 1100, cached: 300, output: 7, ..Usage::default() };
    for input in [800, 1100] {
        let total = if input == 800 { 1107 } else { input + 7 };
        let counts = json!({"inputTokens": input, "cachedReadTokens": 300, "outputTokens": 7, "totalTokens": total});
        assert_eq!(usage(&counts), Some(counted), "{input}");
    }
    assert_eq!(usage(&json!(null)), None);
}

#[test]
fn unknown_updates_and_fields_of_other_types_are_tolerated_and_reported_once() {
    let updates = [
        json!({"sessionUpdate": "hologram", "x": 1}),
        json!({"sessionUpdate": "hologram"}),
        json!({"sessionUpdate": 7}),
        json!({"sessionUpdate": "plan", "entries": "none"}),
        json!({"sessionUpdate": "tool_call", "toolCallId": 5, "content": "x", "locations": {}}),
        json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "image", "data": ""}}),
        json!([]),
        say("ok"),
    ];
    let (result, _) = read(&updates, &json!({"stopReason": "end_turn", "usage": "many"}));
    assert_eq!((result.verdict, result.reply.as_str()), (Verdict::Done, "ok"));
    let holograms = result.diagnostics.iter().filter(|it| it.message.contains("hologram"));
    assert_eq!(holograms.count(), 1);
}

#[test]
fn an_error_is_explained_by_its_code_its_data_or_its_words() {
    for (error, reason, message) in [
        (json!({"code": -32000, "message": "no"}), FailureReason::Auth, "no"),
        (
            json!({"code": 429, "message": "{\"error\":{\"message\":\"slow\"}}"}),
            FailureReason::RateLimit,
            "slow",
        ),
        (
            json!({"code": -32603, "message": "x", "data": {"errorKind": "server_error"}}),
            FailureReason::Server,
            "x",
        ),
        (
            json!({"code": -32603, "message": "x", "data": "rate limit"}),
            FailureReason::RateLimit,
            "x: rate limit",
        ),
        (json!({"code": "odd"}), FailureReason::Other, "the agent refused a request"),
    ] {
        assert_eq!(failure(&error), Failure::new(reason, message));
    }
}

#[test]
fn the_input_of_a_call_may_stand_in_its_content_until_it_begins() {
    let text = |text: &str| json!([{"type": "content", "content": {"type": "text", "text": text}}]);
    let announced = json!({
        "sessionUpdate": "tool_call", "toolCallId": "1", "title": "Bash", "kind": "execute",
        "status": "pending", "content": text(r#"{"command":"touch made.txt"}"#),
    });
    let asked = json!({"toolCallId": "1", "title": "Bash", "content": text("May I run it?")});
    let mut reader = Acp::new(1000);
    reader.begin("s", true, None, &mut |_| {});
    reader.update(&announced, "", &mut |_| {});
    let call = reader.call(&asked, &mut |_| {});
    assert_eq!(call.command().as_deref(), Some("touch made.txt"));
    // The output of a call is not an input.
    let ended = json!({
        "sessionUpdate": "tool_call_update", "toolCallId": "2", "kind": "execute",
        "status": "completed", "content": text(r#"{"command":"rm -r /"}"#),
    });
    reader.update(&ended, "", &mut |_| {});
    let call = reader.call(&json!({"toolCallId": "2"}), &mut |_| {});
    assert_eq!(call.command(), None);
}

#[test]
fn what_is_known_of_calls_is_bounded_and_goes_when_they_end() {
    let mut reader = Acp::new(100);
    let mut steps = Vec::new();
    let mut tell = |reader: &mut Acp, id: usize, status: &str| {
        let update = serde_json::json!({
            "sessionUpdate": "tool_call", "toolCallId": id.to_string(), "status": status,
            "rawInput": { "text": "x".repeat(1 << 20) },
        });
        reader.update(&update, "", &mut |event| {
            steps.push(matches!(event.kind, AgentEventKind::ToolStarted { .. }));
        });
    };
    for id in 0..100 {
        tell(&mut reader, id, "in_progress");
    }
    assert!(reader.tools.held < 40 << 20, "{}", reader.tools.held);
    for id in 0..100 {
        tell(&mut reader, id, "completed");
        tell(&mut reader, id, "completed");
    }
    assert_eq!(reader.tools.held, 0);
    // Each call begins and ends once, even if nothing else of it is kept.
    assert_eq!((steps.iter().filter(|it| **it).count(), steps.len()), (100, 200));
}
