//! The readers of texts and streams: markers, team files, the output of agents, and the responses of models.

use std::hint::black_box;

use convoke_agent::ending::{Ending, Exit};
use convoke_agent::stream::EventReader;
use convoke_agent::stream::acp::Acp;
use convoke_agent::stream::lines::{Line, LineSplitter};
use convoke_core::marker::{TextPolicy, scan};
use convoke_model::wire::read_stream;
use convoke_team::{FileLocation, Team};
use convoke_thread::config::Wire;
use convoke_vendor_claude::stream::Claude;
use convoke_vendor_codex::stream::app::CodexApp;
use convoke_vendor_codex::stream::exec::CodexExec;
use convoke_vendor_gemini::stream::Gemini;
use convoke_wire::AnswerReader;

use super::{MIB, Reader, numbered, repeated};

/// The bytes of a turn's output, of which a reply keeps an eighth.
const OUTPUT: usize = 8 * MIB;
const REPLY: usize = MIB;
/// The longest message.
const MESSAGE: usize = 4 * MIB;

pub(super) const READERS: &[Reader] = &[
    markers("items with fences", |bytes| repeated("- ```\n  [NEXT: a]\n", bytes)),
    markers("nested items", |bytes| {
        marked(numbered(bytes / 34, |n| format!("{:w$}- x\n", "", w = n % 60)))
    }),
    markers("items in items in one line", |bytes| marked(repeated("- ", bytes))),
    markers("quotations in items", |bytes| repeated("- > [NEXT: a]\n", bytes)),
    markers("`<pre>`", |bytes| marked(repeated("<pre>\n", bytes))),
    markers("`<!--`", |bytes| marked(repeated("<!--", bytes))),
    markers("runs of backticks", |bytes| {
        marked(numbered(bytes / 40, |n| "`".repeat(n % 78) + " "))
    }),
    markers("`[NEXT:` in items", |bytes| repeated("1. [NEXT: a", bytes)),
    markers("tasks", |bytes| repeated("[TEAM_TASK] a\n", bytes)),
    team("members", |bytes| {
        numbered(bytes / 47, |n| format!("[[member]]\nname = \"m{n:07}\"\nagent = \"plain\"\n"))
    }),
    team("members of one name", |bytes| repeated("[[member]]\nname = \"a\"\n", bytes)),
    team("unknown keys", |bytes| numbered(bytes / 12, |n| format!("k{n:07}=1\n"))),
    team("`[`", |bytes| repeated("[", bytes)),
    team("`a.a.a…`", |bytes| format!("{}a = 1", repeated("a.", bytes - 8))),
    team("`a={`", |bytes| repeated("a={", bytes)),
    team("`=`", |bytes| repeated("=", bytes)),
    team("carriage returns", |bytes| repeated("a=1\r", bytes)),
    team("line breaks and an error", |bytes| format!("{}=", repeated("\n", bytes - 8))),
    events(
        "output of Claude Code",
        "deltas",
        |bytes| repeated(CLAUDE_DELTA, bytes),
        |text| output(text, &mut Claude::new(REPLY)),
    ),
    events(
        "output of Claude Code",
        "tool calls",
        |bytes| numbered(bytes / 137, claude_call),
        |text| output(text, &mut Claude::new(REPLY)),
    ),
    events(
        "output of Claude Code",
        "sub-agents",
        |bytes| numbered(bytes / 96, claude_task),
        |text| output(text, &mut Claude::new(REPLY)),
    ),
    events(
        "output of Codex",
        "items",
        |bytes| numbered(bytes / 92, codex_item),
        |text| output(text, &mut CodexExec::new(REPLY)),
    ),
    events(
        "output of Codex app-server",
        "deltas",
        |bytes| numbered(bytes / 112, app_delta),
        |text| {
            let mut reader = CodexApp::new(REPLY);
            reader.thread_is("t", None, &mut |_| {});
            output(text, &mut reader);
        },
    ),
    events(
        "output of Gemini CLI",
        "messages",
        |bytes| repeated(GEMINI, bytes),
        |text| output(text, &mut Gemini::new(REPLY)),
    ),
    events(
        "output of an ACP agent",
        "tool calls",
        |bytes| numbered(bytes / 140, acp_call),
        |text| output(text, &mut Acp::new(REPLY)),
    ),
    events(
        "output of any agent",
        "`[`",
        |bytes| repeated("[", bytes),
        |text| output(text, &mut Claude::new(REPLY)),
    ),
    responses("deltas", |bytes| numbered(bytes / 110, responses_delta)),
    responses("items", |bytes| numbered(bytes / 171, responses_item)),
    chat("deltas", |bytes| {
        repeated("data: {\"choices\":[{\"delta\":{\"content\":\"word \"}}]}\n\n", bytes)
    }),
    chat("calls", |bytes| numbered(bytes / 125, chat_call)),
    chat("`data:` without an end", |bytes| repeated("data: x\n", bytes)),
    facts("deltas", |bytes| numbered(bytes / 110, responses_delta)),
    facts("`usage` in every event", |bytes| {
        repeated("data: {\"usage\":{\"input_tokens\":1}}\n\n", bytes)
    }),
    facts("one event", |bytes| format!("data: {}\n\n", repeated("usage ", bytes - 8))),
    gemini_facts("events of Gemini", |bytes| repeated(GEMINI_EVENT, bytes)),
];

const GEMINI_EVENT: &str = "data: {\"candidates\": [{\"content\": {\"parts\": [{\"text\": \"word word word word word word \"}],\"role\": \"model\"},\"index\": 0}],\"usageMetadata\": {\"promptTokenCount\": 30,\"candidatesTokenCount\": 4,\"totalTokenCount\": 34},\"modelVersion\": \"m\"}\r\n\r\n";
const CLAUDE_DELTA: &str = "{\"type\":\"stream_event\",\"event\":{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"word \"}}}\n";
const GEMINI: &str =
    "{\"type\":\"message\",\"role\":\"assistant\",\"content\":\"word \",\"delta\":true}\n";

fn claude_call(n: usize) -> String {
    format!(
        "{{\"type\":\"assistant\",\"message\":{{\"content\":[{{\"type\":\"tool_use\",\"id\":\"t{n:07}\",\"name\":\"Bash\",\"input\":{{\"command\":\"ls\"}}}}]}}}}\n"
    )
}

fn claude_task(n: usize) -> String {
    format!(
        "{{\"type\":\"system\",\"subtype\":\"task_started\",\"task_id\":\"t{n:07}\",\"tool_use_id\":\"u{n:07}\"}}\n"
    )
}

fn codex_item(n: usize) -> String {
    format!(
        "{{\"type\":\"item.completed\",\"item\":{{\"id\":\"i{n:07}\",\"type\":\"agent_message\",\"text\":\"word\"}}}}\n"
    )
}

fn app_delta(n: usize) -> String {
    format!(
        "{{\"method\":\"item/agentMessage/delta\",\"params\":{{\"threadId\":\"t\",\"turnId\":\"u\",\"itemId\":\"i{n:07}\",\"delta\":\"word \"}}}}\n"
    )
}

fn acp_call(n: usize) -> String {
    format!(
        "{{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":{{\"sessionId\":\"s\",\"update\":{{\"sessionUpdate\":\"tool_call\",\"toolCallId\":\"c{n:07}\",\"title\":\"ls\"}}}}}}\n"
    )
}

fn responses_delta(n: usize) -> String {
    format!(
        "data: {{\"type\":\"response.output_text.delta\",\"item_id\":\"i{:07}\",\"output_index\":0,\"delta\":\"word \"}}\n\n",
        n % 4
    )
}

fn responses_item(n: usize) -> String {
    format!(
        "data: {{\"type\":\"response.output_item.done\",\"item\":{{\"type\":\"function_call\",\"id\":\"i{n:07}\",\"call_id\":\"c{n:07}\",\"name\":\"search_text\",\"arguments\":\"{{}}\"}}}}\n\n"
    )
}

fn chat_call(n: usize) -> String {
    format!(
        "data: {{\"choices\":[{{\"delta\":{{\"tool_calls\":[{{\"index\":{n},\"id\":\"c{n:07}\",\"function\":{{\"name\":\"a\",\"arguments\":\"{{}}\"}}}}]}}}}]}}\n\n"
    )
}

/// Adds a marker: a text without one is not scanned.
fn marked(text: String) -> String {
    text + "\n[NEXT: a]\n"
}

const fn markers(input: &'static str, make: fn(usize) -> String) -> Reader {
    let read = |text: &str| {
        black_box(scan(text, TextPolicy::Preserve));
    };
    Reader { name: "markers", input, limit: MESSAGE, make, read }
}

const fn team(input: &'static str, make: fn(usize) -> String) -> Reader {
    let read = |text: &str| match Team::parse(text) {
        Ok(team) => {
            black_box(team.choices(|_| FileLocation::default(), |_| None));
        }
        Err(errors) => {
            black_box(errors.report("convoke.toml"));
        }
    };
    Reader { name: "team file", input, limit: MIB, make, read }
}

const fn events(
    name: &'static str,
    input: &'static str,
    make: fn(usize) -> String,
    read: fn(&str),
) -> Reader {
    Reader { name, input, limit: OUTPUT, make, read }
}

/// Reads the output of an agent in the pieces of a pipe.
fn output(text: &str, reader: &mut dyn EventReader) {
    let mut lines = LineSplitter::json(REPLY);
    for piece in text.as_bytes().chunks(64 << 10) {
        lines.push(piece, &mut |line: Line<'_>| {
            reader.line_lacks(line.left_out);
            reader.line(line.bytes, &mut |event| drop(black_box(event)));
        });
    }
    lines.finish(&mut |line: Line<'_>| reader.line(line.bytes, &mut |_| {}));
    let ending = Ending { exit: Exit::Code(0), stop: None, stderr: "" };
    black_box(reader.finish(&ending, &mut |_| {}));
}

const fn responses(input: &'static str, make: fn(usize) -> String) -> Reader {
    let read = |text: &str| {
        black_box(read_stream(Wire::Responses, text.as_bytes(), REPLY));
    };
    Reader { name: "a model's answer, Responses", input, limit: OUTPUT, make, read }
}

const fn chat(input: &'static str, make: fn(usize) -> String) -> Reader {
    let read = |text: &str| {
        black_box(read_stream(Wire::Chat, text.as_bytes(), REPLY));
    };
    Reader { name: "a model's answer, Chat", input, limit: OUTPUT, make, read }
}

/// The reader of an answer that passes a relay.
const fn facts(input: &'static str, make: fn(usize) -> String) -> Reader {
    let read = |text: &str| relayed(convoke_protocol::wire::Wire::Responses, text);
    Reader { name: "an answer that is relayed", input, limit: OUTPUT, make, read }
}

/// The same for an answer of Gemini, which counts tokens in every event.
const fn gemini_facts(input: &'static str, make: fn(usize) -> String) -> Reader {
    let read = |text: &str| relayed(convoke_protocol::wire::Wire::Gemini, text);
    Reader { name: "an answer that is relayed", input, limit: OUTPUT, make, read }
}

fn relayed(wire: convoke_protocol::wire::Wire, text: &str) {
    let mut reader = AnswerReader::new(wire, "text/event-stream");
    for piece in text.as_bytes().chunks(64 << 10) {
        reader.push(piece);
    }
    black_box(reader.finish());
}
