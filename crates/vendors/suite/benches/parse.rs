//! The speed of parsing streams, compared with only splitting the same bytes into lines.
//!
//! `cargo bench -p convoke-agent --bench parse`. Each format is a synthetic turn in the proportions of a real
//! one: many small deltas, some whole messages, some tool output of several KiB.

#![allow(missing_docs, clippy::print_stdout, clippy::cast_precision_loss)]

use std::hint::black_box;
use std::time::Instant;

use convoke_agent::stream::EventReader;
use convoke_agent::stream::lines::LineSplitter;
use convoke_agent::stream::plain::Plain;
use convoke_protocol::agent_event::AgentEvent;
use convoke_vendor_claude::stream::Claude;
use convoke_vendor_codex::stream::app::CodexApp;
use convoke_vendor_codex::stream::exec::CodexExec;
use convoke_vendor_gemini::stream::Gemini;
use serde_json::{Value, json};

/// The size of each stream, large enough not to fit into the caches.
const BYTES: usize = 64 << 20;
const CHUNK: usize = 64 << 10;
const ROUNDS: usize = 5;
const LIMIT: usize = 4 << 20;

fn main() {
    println!("format          stream    read MB/s   lines only MB/s   events/s");
    measure("claude", &stream(&claude_turn()), || Box::new(Claude::new(LIMIT)));
    measure("codex exec", &stream(&codex_turn()), || Box::new(CodexExec::new(LIMIT)));
    measure("codex app", &stream(&app_turn()), || Box::new(CodexApp::new(LIMIT)));
    measure("gemini", &stream(&gemini_turn()), || Box::new(Gemini::new(LIMIT)));
    measure("plain", &plain_text(), || Box::new(Plain::new(LIMIT)));
}

fn measure(name: &str, bytes: &[u8], reader: impl Fn() -> Box<dyn EventReader>) {
    let (mut best_read, mut best_lines, mut events) = (f64::MAX, f64::MAX, 0_u64);
    for _ in 0..ROUNDS {
        events = 0;
        let begin = Instant::now();
        let mut reader = reader();
        let mut lines = LineSplitter::json(64 << 20);
        let mut sink = |event: AgentEvent<'_>| {
            black_box(&event);
            events += 1;
        };
        for chunk in bytes.chunks(CHUNK) {
            lines.push(chunk, |line| reader.line(line.bytes, &mut sink));
        }
        best_read = best_read.min(begin.elapsed().as_secs_f64());

        let begin = Instant::now();
        let mut lines = LineSplitter::json(64 << 20);
        for chunk in bytes.chunks(CHUNK) {
            lines.push(chunk, |line| {
                black_box(line);
            });
        }
        best_lines = best_lines.min(begin.elapsed().as_secs_f64());
    }
    let megabytes = bytes.len() as f64 / 1e6;
    println!(
        "{name:<12} {megabytes:>6.0} MB {:>12.0} {:>17.0} {:>10.0}",
        megabytes / best_read,
        megabytes / best_lines,
        events as f64 / best_read
    );
}

/// Repeats a turn until the stream is long enough.
fn stream(turn: &[Value]) -> Vec<u8> {
    let lines: Vec<String> = turn.iter().map(Value::to_string).collect();
    let turn = lines.join("\n") + "\n";
    turn.repeat(BYTES / turn.len() + 1).into_bytes()
}

fn prose(words: usize) -> String {
    "The parser reads \"one\" line at a time,\nand keeps nothing: 一行一行地读。 "
        .repeat(words / 12 + 1)
}

fn source_code(lines: usize) -> String {
    "    let answer = reader.line(&line, &mut sink)?; // four\n".repeat(lines)
}

const ID: &str = "5b3fbbad-5477-4d2f-9809-19db7123ab70";

fn claude_turn() -> Vec<Value> {
    let delta = |text: &str| {
        json!({"type": "stream_event", "event": {"type": "content_block_delta", "index": 0,
            "delta": {"type": "text_delta", "text": text}}, "session_id": ID, "parent_tool_use_id": null, "uuid": ID})
    };
    let message = |block: Value| {
        json!({"type": "assistant", "message": {"id": "msg_1", "type": "message", "role": "assistant", "model": "m",
            "content": [block], "stop_reason": null, "usage": {"input_tokens": 11, "output_tokens": 1}},
            "parent_tool_use_id": null, "session_id": ID, "uuid": ID})
    };
    let mut turn = vec![
        json!({"type": "system", "subtype": "status", "status": "requesting", "session_id": ID}),
    ];
    turn.extend((0..40).map(|_| delta("some words of an answer ")));
    turn.push(message(json!({"type": "text", "text": prose(300)})));
    turn.push(message(
        json!({"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "cargo test"}}),
    ));
    let output = source_code(200);
    turn.push(json!({"type": "user", "message": {"role": "user", "content": [{"tool_use_id": "t1",
        "type": "tool_result", "content": output, "is_error": false}]}, "parent_tool_use_id": null,
        "session_id": ID, "tool_use_result": {"stdout": output, "stderr": ""}}));
    turn
}

fn codex_turn() -> Vec<Value> {
    let command = |status: &str, output: &str| {
        json!({"id": "item_1", "type": "command_execution", "command": "bash -lc 'cargo test'",
            "aggregated_output": output, "exit_code": null, "status": status})
    };
    vec![
        json!({"type": "turn.started"}),
        json!({"type": "item.completed", "item": {"id": "item_0", "type": "reasoning", "text": prose(100)}}),
        json!({"type": "item.started", "item": command("in_progress", "")}),
        json!({"type": "item.completed", "item": command("completed", &source_code(200))}),
        json!({"type": "item.completed", "item": {"id": "item_2", "type": "agent_message", "text": prose(300)}}),
    ]
}

fn app_turn() -> Vec<Value> {
    let delta = json!({"method": "item/agentMessage/delta",
        "params": {"threadId": ID, "turnId": ID, "itemId": "msg_1", "delta": "some words of an answer "}});
    let mut turn = vec![delta; 40];
    turn.push(json!({"method": "item/completed", "params": {"threadId": ID, "turnId": ID,
        "item": {"type": "commandExecution", "id": "c1", "command": "cargo test", "cwd": "/w", "status": "completed",
        "commandActions": [], "aggregatedOutput": source_code(200), "exitCode": 0}}}));
    turn.push(json!({"method": "item/completed", "params": {"threadId": ID, "turnId": ID,
        "item": {"type": "agentMessage", "id": "msg_1", "text": prose(300)}}}));
    turn
}

fn gemini_turn() -> Vec<Value> {
    let time = "2026-11-15T06:45:37.675Z";
    let mut turn =
        vec![json!({"type": "message", "timestamp": time, "role": "user", "content": prose(2000)})];
    let chunk = json!({"type": "message", "timestamp": time, "role": "assistant",
        "content": "some words of an answer, as many as a chunk has ", "delta": true});
    turn.extend(vec![chunk; 40]);
    turn.push(json!({"type": "tool_use", "timestamp": time, "tool_name": "run_shell_command", "tool_id": "t1",
        "parameters": {"command": "cargo test"}}));
    turn.push(
        json!({"type": "tool_result", "timestamp": time, "tool_id": "t1", "status": "success",
        "output": source_code(200)}),
    );
    turn
}

fn plain_text() -> Vec<u8> {
    let text = source_code(100) + &prose(100) + "\n";
    text.repeat(BYTES / text.len() + 1).into_bytes()
}
