//! Answers of providers in the bytes of their wire formats, with every way in which one can end.

use convoke_rehearsal::Answer;
use serde_json::{Value, json};

use crate::test_host::Cli;

/// One answer of a provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderAnswer {
    /// What the model says.
    pub text: String,
    /// Whether it thinks first.
    pub thinks: bool,
    /// Whether it calls a tool at the end.
    pub calls_tool: bool,
    pub stop: Stop,
    /// The tokens of the request and of the answer.
    pub tokens: (u64, u64),
}

/// The end of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// The provider's word for it.
    Word(&'static str),
    /// A part of the message in which the model refuses (Responses).
    RefusalPart,
    /// The prompt was blocked, and there is no answer (Gemini).
    Blocked,
    /// The stream ends without a word.
    Missing,
}

impl ProviderAnswer {
    /// A whole answer.
    pub fn say(cli: Cli, text: &str) -> Self {
        let stop = Stop::Word(complete(cli));
        Self { text: text.to_owned(), thinks: false, calls_tool: false, stop, tokens: (30, 4) }
    }

    /// A tool call, after some words.
    pub fn call(cli: Cli, text: &str) -> Self {
        let word = if cli.kind() == "claude" { "tool_use" } else { complete(cli) };
        Self { calls_tool: true, stop: Stop::Word(word), ..Self::say(cli, text) }
    }

    pub fn stopping(self, stop: Stop) -> Self {
        Self { stop, ..self }
    }

    /// Returns the answer as the server of a CLI sends it.
    pub fn of(&self, cli: Cli) -> Answer {
        let events = match cli.kind() {
            "claude" => return claude(self),
            "gemini" => gemini(self, cli),
            _ => codex(self, cli),
        };
        Answer::events(written(&events))
    }
}

/// Returns the word for an answer that is complete.
pub fn complete(cli: Cli) -> &'static str {
    match cli.kind() {
        "claude" => "end_turn",
        "gemini" => "STOP",
        _ => "completed",
    }
}

/// Returns every end that a CLI's provider knows.
pub fn stops(cli: Cli) -> Vec<Stop> {
    let words: &[&'static str] = match cli.kind() {
        "claude" => &[
            "end_turn",
            "stop_sequence",
            "max_tokens",
            "refusal",
            "pause_turn",
            "model_context_window_exceeded",
        ],
        "gemini" => &["STOP", "MAX_TOKENS", "SAFETY", "RECITATION", "PROHIBITED_CONTENT", "OTHER"],
        _ => &["completed", "max_output_tokens", "content_filter"],
    };
    let others: &[Stop] = match cli.kind() {
        "claude" => &[],
        "gemini" => &[Stop::Blocked, Stop::Missing],
        _ => &[Stop::RefusalPart, Stop::Missing],
    };
    words.iter().map(|word| Stop::Word(word)).chain(others.iter().copied()).collect()
}

fn written(events: &[Value]) -> String {
    let lines: Vec<String> = events
        .iter()
        .map(|event| match event["type"].as_str() {
            Some(name) => format!("event: {name}\ndata: {event}\n\n"),
            None => format!("data: {event}\n\n"),
        })
        .collect();
    lines.concat()
}

fn claude(answer: &ProviderAnswer) -> Answer {
    let Stop::Word(stop) = answer.stop else { unreachable!("claude's provider has words") };
    let mut blocks = Vec::new();
    if answer.thinks {
        blocks.push((
            json!({"type": "thinking", "thinking": "", "signature": ""}),
            vec![
                json!({"type": "thinking_delta", "thinking": "Hm."}),
                json!({"type": "signature_delta", "signature": "c2ln"}),
            ],
        ));
    }
    if !answer.text.is_empty() {
        blocks.push((
            json!({"type": "text", "text": ""}),
            vec![json!({"type": "text_delta", "text": answer.text})],
        ));
    }
    if answer.calls_tool {
        let (name, input) = Cli::Claude325.shell_call("echo hi");
        blocks.push((
            json!({"type": "tool_use", "id": "toolu_1", "name": name, "input": {}}),
            vec![json!({"type": "input_json_delta", "partial_json": input.to_string()})],
        ));
    }
    let (input, output) = answer.tokens;
    let usage = json!({"input_tokens": input, "output_tokens": 1,
        "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0});
    let mut events = vec![
        json!({"type": "message_start", "message": {"id": "msg_1", "type": "message",
        "role": "assistant", "model": "claude-opus-4-8", "content": [], "stop_reason": null, "usage": usage}}),
    ];
    for (index, (block, deltas)) in blocks.into_iter().enumerate() {
        events.push(json!({"type": "content_block_start", "index": index, "content_block": block}));
        events.extend(
            deltas.into_iter().map(
                |delta| json!({"type": "content_block_delta", "index": index, "delta": delta}),
            ),
        );
        events.push(json!({"type": "content_block_stop", "index": index}));
    }
    events.push(json!({"type": "message_delta", "delta": {"stop_reason": stop},
        "usage": {"output_tokens": output}}));
    events.push(json!({"type": "message_stop"}));
    Answer::events(written(&events))
}

fn gemini(answer: &ProviderAnswer, cli: Cli) -> Vec<Value> {
    let (input, output) = answer.tokens;
    let usage = json!({"promptTokenCount": input, "candidatesTokenCount": output,
        "totalTokenCount": input + output});
    let chunk = |parts: Value, stop: Option<&str>| {
        let mut candidate = json!({"content": {"role": "model", "parts": parts}, "index": 0});
        if let Some(stop) = stop {
            candidate["finishReason"] = json!(stop);
        }
        json!({"candidates": [candidate], "usageMetadata": usage, "modelVersion": cli.model()})
    };
    if answer.stop == Stop::Blocked {
        let usage = json!({"promptTokenCount": input, "totalTokenCount": input});
        return vec![json!({"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": usage})];
    }
    let mut chunks = Vec::new();
    if answer.thinks {
        chunks.push(chunk(json!([{"text": "Hm.", "thought": true}]), None));
    }
    if !answer.text.is_empty() {
        chunks.push(chunk(json!([{"text": answer.text}]), None));
    }
    if answer.calls_tool {
        let (name, args) = cli.shell_call("echo hi");
        let call = json!({"id": "c1", "name": name, "args": args});
        chunks.push(chunk(json!([{"functionCall": call, "thoughtSignature": "cmVo"}]), None));
    }
    if let Stop::Word(word) = answer.stop {
        chunks.push(chunk(json!([{"text": ""}]), Some(word)));
    }
    chunks
}

fn codex(answer: &ProviderAnswer, cli: Cli) -> Vec<Value> {
    let mut items = Vec::new();
    if answer.thinks {
        items.push(json!({"type": "reasoning", "id": "rs_1",
            "summary": [{"type": "summary_text", "text": "Hm."}]}));
    }
    let part = match answer.stop {
        Stop::RefusalPart => Some(json!({"type": "refusal", "refusal": "I will not."})),
        _ if answer.text.is_empty() => None,
        _ => Some(json!({"type": "output_text", "text": answer.text})),
    };
    if let Some(part) = part {
        items.push(
            json!({"type": "message", "role": "assistant", "id": "msg_1", "content": [part]}),
        );
    }
    if answer.calls_tool {
        let (name, arguments) = cli.shell_call("echo hi");
        items.push(json!({"type": "function_call", "id": "fc_1", "call_id": "c1", "name": name,
            "arguments": arguments.to_string()}));
    }
    let mut events = vec![json!({"type": "response.created", "response": {"id": "resp_1"}})];
    for (index, item) in items.into_iter().enumerate() {
        let added = if item["type"] == "message" {
            let mut added = item.clone();
            added["content"] = json!([]);
            added
        } else {
            item.clone()
        };
        events.push(
            json!({"type": "response.output_item.added", "output_index": index, "item": added}),
        );
        if let Some(text) = item["content"][0]["text"].as_str() {
            events.push(json!({"type": "response.output_text.delta", "item_id": "msg_1",
                "output_index": index, "content_index": 0, "delta": text}));
        }
        events.push(
            json!({"type": "response.output_item.done", "output_index": index, "item": item}),
        );
    }
    let (input, output) = answer.tokens;
    let usage = json!({"input_tokens": input, "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": output, "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": input + output});
    let response = json!({"id": "resp_1", "usage": usage});
    match answer.stop {
        Stop::Missing => {}
        Stop::Word("completed") | Stop::RefusalPart | Stop::Blocked => {
            events.push(json!({"type": "response.completed", "response": response}));
        }
        Stop::Word(reason) => {
            let mut response = response;
            response["status"] = json!("incomplete");
            response["incomplete_details"] = json!({"reason": reason});
            events.push(json!({"type": "response.incomplete", "response": response}));
        }
    }
    events
}
