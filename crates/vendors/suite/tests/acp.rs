//! Replays recorded dialogues with real ACP agents and prints for each prompt `NAME VERDICT sha256(reply) usage`.
//!
//! The recordings are not part of the project: `CONVOKE_ACP` names their directory, or `CONVOKE_SHARED` the one
//! that holds `acp`. Each line is `{dir, msg}`: `->` was sent to the agent, `<-` came from it, `<!` is the end
//! of its output, `!!` a response that never came. Reply and verdict are compared with those that the recording
//! implies, and Convoke's answers to questions with those that the agent accepted.

#![allow(clippy::print_stdout, clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use convoke_agent::TurnResult;
use convoke_agent::adapter::acp::{Session, SessionSettings};
use convoke_agent::ending::{Ending, Exit, TerminationCause};
use convoke_agent::process::{Decision, Dialogue, Input};
use convoke_agent::stream::TurnPhase;
use convoke_agent::stream::acp::Acp;
use convoke_conformance_acp as acp;
use convoke_core::figures::hexadecimal;
use convoke_protocol::agent_event::{AgentEventKind, TextPart};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

fn main() -> ExitCode {
    let (mut passed, mut failed, mut skipped) = (0, 0, 0);
    for path in recordings() {
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let text = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let mut problems = opening_problems(&lines);
        let prompts = prompts(&lines);
        let is_judged =
            lines.iter().any(|line| is_opening(line) || is_sent(line, "session/prompt"));
        skipped += u32::from(!is_judged);
        // Convoke does not sign in.
        if !is_judged && !lines.iter().any(|line| is_sent(line, "authenticate")) {
            problems.push("it has no opening and no prompt".to_owned());
        }
        for (number, at) in prompts.into_iter().enumerate() {
            let replay = replay(&name, &lines, at);
            let word = replay.result.verdict.as_str();
            let usage = replay.result.usage.map_or("-".to_owned(), |usage| usage.to_string());
            println!("{name}#{} {word} {} {usage}", number + 1, hash(&replay.result.reply));
            let implied = Implied::of(&name, &lines, at);
            if word != implied.verdict {
                problems.push(format!(
                    "#{}: the verdict is {}, not {}",
                    number + 1,
                    replay.result.verdict,
                    implied.verdict
                ));
            }
            if replay.result.reply != implied.reply {
                problems.push(format!(
                    "#{}: the reply is {:?}, not {:?}",
                    number + 1,
                    replay.result.reply,
                    implied.reply
                ));
            }
            problems.extend(replay.problems.into_iter().map(|it| format!("#{}: {it}", number + 1)));
        }
        for problem in &problems {
            println!("  FAILED {name}: {problem}");
        }
        if problems.is_empty() { passed += 1 } else { failed += 1 }
    }
    println!("{passed} passed, {failed} failed, {skipped} skipped");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn recordings() -> Vec<PathBuf> {
    let folders = convoke_conformance::recorded("CONVOKE_ACP", &["acp"]);
    convoke_conformance::files(&folders, "jsonl")
}

fn hash(text: &str) -> String {
    hexadecimal(&Sha256::digest(text.as_bytes()))
}

fn is_sent(line: &Value, method: &str) -> bool {
    line["dir"] == "->" && line["msg"]["method"] == method
}

fn is_opening(line: &Value) -> bool {
    let methods = ["initialize", "session/new", "session/load", "session/resume"];
    methods.iter().any(|method| is_sent(line, method))
}

/// Returns the lines on which prompts were sent.
fn prompts(lines: &[Value]) -> Vec<usize> {
    (0..lines.len()).filter(|&at| is_sent(&lines[at], "session/prompt")).collect()
}

/// Returns the line of the response to a request.
fn response(lines: &[Value], at: usize) -> Option<usize> {
    let id = &lines[at]["msg"]["id"];
    (at..lines.len()).find(|&later| {
        let line = &lines[later];
        line["dir"] == "<-" && line["msg"]["id"] == *id && line["msg"]["method"].is_null()
    })
}

/// Returns where the turn of a prompt ends in the recording: at its response, or at the line that stands for
/// it.
fn end(lines: &[Value], at: usize) -> usize {
    let lost = (at..lines.len()).find(|&later| {
        let dir = lines[later]["dir"].as_str().unwrap();
        dir == "!!" || dir == "<!"
    });
    response(lines, at).or(lost).unwrap_or(lines.len())
}

/// The expectations of a recording, determined without the reader under test.
struct Implied {
    verdict: &'static str,
    reply: String,
}

impl Implied {
    fn of(name: &str, lines: &[Value], at: usize) -> Self {
        let (mut reply, mut message) = (String::new(), Value::Null);
        let mut seen = Vec::new();
        let (mut is_over, mut is_active) = (false, false);
        let session = &lines[at]["msg"]["params"]["sessionId"];
        let stop = end(lines, at);
        for line in &lines[at..stop] {
            let params = &line["msg"]["params"];
            if line["dir"] != "<-" || params["sessionId"] != *session {
                continue;
            }
            let update = &params["update"];
            let kind = update["sessionUpdate"].as_str().unwrap_or_default();
            let is_question = line["msg"]["method"] == "session/request_permission";
            // A call begins and ends once.
            let status =
                update["status"].as_str().filter(|it| ["completed", "failed"].contains(it));
            let described = if is_question { &params["toolCall"] } else { update };
            let step = (described["toolCallId"].clone(), status);
            let is_update = kind.starts_with("tool_call");
            let begins = is_update && !seen.iter().any(|(id, _)| *id == step.0);
            let ends = is_update && status.is_some() && !seen.contains(&step);
            let is_call = is_question || begins || ends;
            if is_question || is_update {
                seen.push(step);
            }
            is_active |= is_call;
            let id = &update["messageId"];
            let is_next = kind == "agent_message_chunk"
                && !id.is_null()
                && !message.is_null()
                && *id != message;
            is_over |= is_call || is_next;
            if let (true, Some(text)) =
                (kind == "agent_message_chunk", update["content"]["text"].as_str())
            {
                if !text.is_empty() && std::mem::take(&mut is_over) {
                    reply.clear();
                }
                is_active |= !text.is_empty();
                reply.push_str(text);
                if !id.is_null() {
                    message = id.clone();
                }
            }
        }
        let verdict = match lines.get(stop) {
            Some(line) if line["dir"] == "!!" => "timed-out",
            Some(line) if line["msg"]["result"]["stopReason"] == "cancelled" => "cancelled",
            Some(line) if line["msg"]["result"]["stopReason"] == "end_turn" => {
                let tells = convoke_vendors::programs().presets.iter().any(|it| {
                    it.name.starts_with(name.split('-').next().unwrap())
                        && ["copilot", "codex-acp"].contains(&it.name)
                });
                let is_counted = line["msg"]["result"]["usage"].is_object();
                if !is_active || (tells && !is_counted && !reply.is_empty()) {
                    "failed"
                } else {
                    "done"
                }
            }
            _ => "failed",
        };
        Self { verdict, reply }
    }
}

struct Replay {
    result: TurnResult,
    problems: Vec<String>,
}

fn settings(prompt: &Value) -> SessionSettings {
    let blocks = prompt.as_array().unwrap().iter();
    let texts = blocks.filter_map(|block| block["text"].as_str()).map(str::to_owned);
    SessionSettings { prompt: texts.collect(), cwd: "/lab/wd".into(), ..SessionSettings::default() }
}

/// Returns the written messages, each checked against the official types. `asked` is the request that a message
/// may answer.
fn written(input: &Input, asked: Option<&str>) -> Vec<Value> {
    let text = std::str::from_utf8(&input.bytes).unwrap();
    let messages = text.lines().map(|line| serde_json::from_str(line).unwrap());
    messages.inspect(|message| acp::check(message, asked)).collect()
}

fn feed(session: &mut Session, message: &Value, events: &mut Vec<Value>) -> Vec<Value> {
    let input = session.line(message.to_string().as_bytes(), &mut |event| {
        events.push(serde_json::to_value(&event).unwrap());
    });
    written(&input, message["method"].as_str())
}

/// Runs one prompt of a recording through the client.
fn replay(name: &str, lines: &[Value], at: usize) -> Replay {
    let sent = &lines[at]["msg"];
    let id = &sent["params"]["sessionId"];
    let tells = name.starts_with("copilot") || name.starts_with("codex");
    let reader = Acp::new(4 << 20).reporting_errors_as_text(tells);
    let mut session = Session::new(reader, settings(&sent["params"]["prompt"]));
    let (mut events, mut problems) = (Vec::new(), Vec::new());
    let first = written(&session.open(), None);
    let hello = json!({ "id": first[0]["id"], "result": { "protocolVersion": 1 } });
    let new = feed(&mut session, &hello, &mut events);
    let opened = json!({ "id": new[0]["id"], "result": { "sessionId": id } });
    let prompt = feed(&mut session, &opened, &mut events);
    let number = prompt[0]["id"].clone();
    // Convoke sends only text blocks.
    let texts = |message: &Value| -> Vec<Value> {
        let blocks = message["params"]["prompt"].as_array().unwrap().iter();
        blocks.filter(|block| block["type"] == "text").cloned().collect()
    };
    if texts(&prompt[0]) != texts(sent) {
        problems.push(format!("the prompt is {}", prompt[0]));
    }
    let stop = end(lines, at);
    let mut stopped = None;
    let mut asked = BTreeMap::new();
    for (place, line) in lines.iter().enumerate().take(stop + 1).skip(at + 1) {
        let mut message = line["msg"].clone();
        match line["dir"].as_str().unwrap() {
            "<-" => {
                if place == stop {
                    message["id"] = number.clone();
                }
                let said = feed(&mut session, &message, &mut events);
                if message["method"] == "session/request_permission" {
                    asked.insert(message["id"].to_string(), message["params"]["options"].clone());
                }
                let is_answered = said.iter().any(|it| it["id"] == message["id"]);
                let is_request = message["method"].is_string() && !message["id"].is_null();
                if is_request && !is_answered && !asked.contains_key(&message["id"].to_string()) {
                    problems.push(format!("{} is not answered", message["method"]));
                }
            }
            "->" if message["method"] == "session/cancel"
                && message["params"]["sessionId"] == *id =>
            {
                let ours = session.interrupt().map(|input| written(&input, None));
                stopped = Some(TerminationCause::Cancelled);
                if ours != Some(vec![message.clone()]) {
                    problems.push(format!("our cancel is {ours:?}, not {message}"));
                }
            }
            "->" if message["method"] == "session/cancel" => {}
            "->" if !message["result"]["outcome"].is_null() => {
                let question = message["id"].to_string();
                let Some(options) = asked.get(&question) else { continue };
                let chosen = &message["result"]["outcome"]["optionId"];
                let options = options.as_array().unwrap();
                let option = options.iter().find(|option| option["optionId"] == *chosen);
                let decision = match option.map(|option| option["kind"].as_str().unwrap()) {
                    Some(kind) if kind.starts_with("allow") => Decision::Allowed,
                    Some(_) => Decision::Refused,
                    None => Decision::Withdrawn,
                };
                let answer = session.answer(&question, decision, &mut |_| {});
                let ours = written(&answer, Some("session/request_permission"));
                let is_once =
                    option.is_none_or(|option| option["kind"].as_str().unwrap().ends_with("once"));
                if is_once && stopped.is_none() && ours != [message.clone()] {
                    problems.push(format!("our answer is {ours:?}, not {message}"));
                }
            }
            "!!" => stopped = Some(TerminationCause::TimedOut),
            _ => {}
        }
    }
    if response(lines, at).is_some() && session.reader().phase() != TurnPhase::Over {
        problems.push("the turn is not over".to_owned());
    }
    let ending = Ending { exit: Exit::Unknown, stop: stopped, stderr: "" };
    let result = session.finish(&ending, &mut |event| {
        if let AgentEventKind::Text { part: TextPart::Whole, .. } = event.kind {
            events.push(serde_json::to_value(&event).unwrap());
        }
    });
    problems.extend(event_problems(&events, &result));
    Replay { result, problems }
}

/// Checks what holds for the events of any turn: each text arrives whole, and each call starts once, first.
fn event_problems(events: &[Value], result: &TurnResult) -> Vec<String> {
    let mut problems = Vec::new();
    let of = |kind: &str, part: &str| -> String {
        let texts = events.iter().map(|event| &event["event"]);
        let texts = texts.filter(|event| event["kind"] == kind && event["part"] == part);
        texts.filter_map(|event| event["text"].as_str()).collect()
    };
    for kind in ["text", "thinking"] {
        if of(kind, "delta") != of(kind, "whole") {
            problems.push(format!("a {kind} did not arrive whole"));
        }
    }
    let mut started = Vec::new();
    for event in events.iter().map(|event| &event["event"]) {
        match event["kind"].as_str().unwrap() {
            "toolStarted" if started.contains(&&event["id"]) => {
                problems.push(format!("{} started twice", event["id"]));
            }
            "toolStarted" => started.push(&event["id"]),
            "toolFinished" if !started.contains(&&event["id"]) => {
                problems.push(format!("{} ended before it started", event["id"]));
            }
            _ => {}
        }
    }
    let noise = result.diagnostics.iter().filter(|it| it.code.name() == "agent.output-noise");
    problems.extend(noise.map(|it| it.message.clone()));
    problems
}

/// Feeds the recorded responses to `initialize` and to `session/new`, `load` and `resume` to the client.
fn opening_problems(lines: &[Value]) -> Vec<String> {
    let mut problems = Vec::new();
    for at in 0..lines.len() {
        let answered = response(lines, at).filter(|_| is_opening(&lines[at]));
        let Some(answered) = answered else { continue };
        let answered = &lines[answered]["msg"];
        let mut session = Session::new(Acp::new(100), settings(&json!([{ "text": "hi" }])));
        let mut events = Vec::new();
        let mut message = answered.clone();
        message["id"] = written(&session.open(), None)[0]["id"].clone();
        if !is_sent(&lines[at], "initialize") {
            let hello = json!({ "id": message["id"], "result": { "protocolVersion": 1 } });
            message["id"] = feed(&mut session, &hello, &mut events)[0]["id"].clone();
            // The client already knows the session that it loads.
            if message["result"].is_object() && message["result"]["sessionId"].is_null() {
                message["result"]["sessionId"] = lines[at]["msg"]["params"]["sessionId"].clone();
            }
        }
        let said = feed(&mut session, &message, &mut events);
        let is_ours = answered["result"]["protocolVersion"].as_u64().is_none_or(|it| it == 1);
        let continues = answered["error"].is_null() && is_ours;
        if continues != (said.len() == 1)
            || continues == (session.reader().phase() == TurnPhase::Over)
        {
            problems.push(format!("after {answered} it says {said:?}"));
        }
    }
    problems
}
