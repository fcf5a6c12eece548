//! Gemini CLI over ACP, the one way in which it asks before it acts.
//!
//! ACP messages of the agent are converted to its other format and passed to that format's reader.

use std::collections::HashMap;
use std::path::Path;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::adapter::diff::unified;
use crate::event::{Event, EventKind};
use crate::permission::PermissionQuestion;
use crate::process::{Decision, Dialogue, Input};
use crate::stream::gemini::Gemini;
use crate::stream::{Reader, Sink};

const INITIALIZE: u64 = 0;
const SESSION: u64 = 1;
const PROMPT: u64 = 2;

/// A turn over ACP.
pub(in crate::adapter) struct Asking {
    reader: Gemini,
    prompt: String,
    cwd: String,
    model: Option<String>,
    resume: Option<String>,
    session: Option<String>,
    /// Updates that a resumed session repeats are not part of this turn.
    has_begun: bool,
    /// The options that allow and refuse, by the id of the question as JSON.
    open: HashMap<String, Options>,
}

#[derive(Debug, Default)]
struct Options {
    allow: Option<String>,
    refuse: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Line {
    id: Option<Value>,
    method: Option<String>,
    params: Value,
    result: Value,
    error: Option<Value>,
}

impl Asking {
    pub(in crate::adapter) fn new(
        reader: Gemini,
        prompt: String,
        cwd: &Path,
        model: Option<&str>,
        resume: Option<&str>,
    ) -> Self {
        Self {
            reader,
            prompt,
            cwd: cwd.display().to_string(),
            model: model.map(str::to_owned),
            resume: resume.map(str::to_owned),
            session: None,
            has_begun: false,
            open: HashMap::new(),
        }
    }

    /// Has the reader read an event of the other format.
    fn tell(&mut self, event: &Value, sink: &mut Sink<'_>) {
        self.reader.line(event.to_string().as_bytes(), sink);
    }

    fn fail(&mut self, error: &Value, sink: &mut Sink<'_>) -> Input {
        let message = error["message"].as_str().unwrap_or("it refused a request");
        let detail = error["data"]["details"].as_str().or_else(|| error["data"].as_str());
        let message = detail.map_or(message.to_owned(), |detail| format!("{message}: {detail}"));
        self.tell(
            &json!({ "type": "result", "status": "error", "error": { "message": message } }),
            sink,
        );
        Input::last(Vec::new())
    }

    fn answered(&mut self, id: u64, result: &Value, sink: &mut Sink<'_>) -> Input {
        match id {
            INITIALIZE => {
                let params = json!({ "cwd": self.cwd, "mcpServers": [] });
                match &self.resume {
                    Some(session) => {
                        self.session = Some(session.clone());
                        let params =
                            json!({ "sessionId": session, "cwd": self.cwd, "mcpServers": [] });
                        Input::more(request(SESSION, "session/load", &params))
                    }
                    None => Input::more(request(SESSION, "session/new", &params)),
                }
            }
            SESSION => {
                if let Some(session) = result["sessionId"].as_str() {
                    self.session = Some(session.to_owned());
                }
                self.has_begun = true;
                let init =
                    json!({ "type": "init", "session_id": self.session, "model": self.model });
                self.tell(&init, sink);
                let prompt = std::mem::take(&mut self.prompt);
                let text = json!([{ "type": "text", "text": prompt }]);
                let params = json!({ "sessionId": self.session, "prompt": text });
                Input::more(request(PROMPT, "session/prompt", &params))
            }
            PROMPT => {
                let count = &result["_meta"]["quota"]["token_count"];
                let (input, output) = (&count["input_tokens"], &count["output_tokens"]);
                let stats = json!({ "input_tokens": input, "output_tokens": output });
                let event = match result["stopReason"].as_str() {
                    Some("end_turn") if count.is_object() => {
                        json!({ "type": "result", "status": "success", "stats": stats })
                    }
                    Some("end_turn") => json!({ "type": "result", "status": "success" }),
                    other => {
                        let message = format!("it stopped: {}", other.unwrap_or("no reason"));
                        json!({ "type": "result", "status": "error", "error": { "message": message } })
                    }
                };
                self.tell(&event, sink);
                Input::last(Vec::new())
            }
            _ => Input::nothing(),
        }
    }

    fn update(&mut self, update: &Value, sink: &mut Sink<'_>) {
        let id = &update["toolCallId"];
        match update["sessionUpdate"].as_str() {
            Some("agent_message_chunk") => {
                let content = &update["content"]["text"];
                self.tell(
                    &json!({ "type": "message", "role": "assistant", "content": content, "delta": true }),
                    sink,
                );
            }
            Some("tool_call") => {
                let (name, title) = (&update["kind"], &update["title"]);
                let parameters = json!({ "title": title });
                self.tell(
                    &json!({ "type": "tool_use", "tool_name": name, "tool_id": id, "parameters": parameters }),
                    sink,
                );
            }
            Some("tool_call_update")
                if matches!(update["status"].as_str(), Some("completed" | "failed")) =>
            {
                let ok = update["status"] == "completed";
                let status = if ok { "success" } else { "error" };
                let contents = update["content"].as_array().map_or(&[][..], Vec::as_slice);
                let output: Vec<&str> =
                    contents.iter().filter_map(|it| it["content"]["text"].as_str()).collect();
                let output = output.join("\n");
                self.tell(
                    &json!({ "type": "tool_result", "tool_id": id, "status": status, "output": output }),
                    sink,
                );
            }
            _ => {}
        }
    }

    fn ask(&mut self, id: &Value, params: &Value, sink: &mut Sink<'_>) {
        let options = params["options"].as_array().map_or(&[][..], Vec::as_slice);
        let of_kind = |kind: &str| {
            let option = options.iter().find(|option| option["kind"] == kind);
            option.and_then(|option| option["optionId"].as_str()).map(str::to_owned)
        };
        let open = Options { allow: of_kind("allow_once"), refuse: of_kind("reject_once") };
        self.open.insert(id.to_string(), open);
        let call = &params["toolCall"];
        let tool_call = json!({ "sessionUpdate": "tool_call", "toolCallId": call["toolCallId"], "kind": call["kind"], "title": call["title"] });
        self.update(&tool_call, sink);
        let contents = call["content"].as_array().map_or(&[][..], Vec::as_slice);
        let diffs = contents.iter().filter(|content| content["type"] == "diff");
        let diff: String = diffs
            .map(|content| {
                let text = |name: &str| content[name].as_str().unwrap_or_default();
                unified(Path::new(text("path")), text("oldText"), text("newText"))
            })
            .collect();
        let title = call["title"].as_str().unwrap_or_default();
        let question = PermissionQuestion {
            id: id.to_string(),
            tool: call["kind"].as_str().unwrap_or("tool").to_owned(),
            summary: title.to_owned(),
            input: json!({ "title": title, "locations": call["locations"] }).to_string(),
            diff: (!diff.is_empty()).then_some(diff),
            is_command: call["kind"] == "execute",
        };
        sink(Event::own(EventKind::PermissionAsked { question, expires_at: 0 }));
    }
}

impl Dialogue for Asking {
    fn open(&mut self) -> Input {
        let none =
            json!({ "fs": { "readTextFile": false, "writeTextFile": false }, "terminal": false });
        let client = json!({ "name": "convoke", "version": env!("CARGO_PKG_VERSION") });
        let params =
            json!({ "protocolVersion": 1, "clientCapabilities": none, "clientInfo": client });
        Input::more(request(INITIALIZE, "initialize", &params))
    }

    fn line(&mut self, line: &[u8], sink: &mut Sink<'_>) -> Input {
        let Ok(message) = serde_json::from_slice::<Line>(line) else {
            // It is counted as no event.
            self.reader.line(line, sink);
            return Input::nothing();
        };
        match (message.method.as_deref(), message.id, message.error) {
            (Some("session/request_permission"), Some(id), _) => {
                self.ask(&id, &message.params, sink);
                Input::nothing()
            }
            (Some("session/update"), None, _) => {
                if self.has_begun {
                    self.update(&message.params["update"], sink);
                }
                Input::nothing()
            }
            (Some(method), Some(id), _) => {
                let text = format!("`{method}` is not answered here");
                let error = json!({ "code": -32601, "message": text });
                let answer = json!({ "jsonrpc": "2.0", "id": id, "error": error });
                Input::more(format!("{answer}\n").into_bytes())
            }
            (None, Some(_), Some(error)) => self.fail(&error, sink),
            (None, Some(id), None) => {
                let id = id.as_u64().unwrap_or(u64::MAX);
                self.answered(id, &message.result, sink)
            }
            _ => Input::nothing(),
        }
    }

    fn answer(&mut self, question: &str, decision: Decision) -> Input {
        let Some(options) = self.open.remove(question) else {
            return Input::nothing();
        };
        let option = match decision {
            Decision::Allowed => options.allow,
            Decision::Refused => options.refuse,
            Decision::Withdrawn => None,
        };
        let outcome = match option {
            Some(option) => json!({ "outcome": "selected", "optionId": option }),
            None => json!({ "outcome": "cancelled" }),
        };
        let result = json!({ "outcome": outcome });
        let answer = format!("{{\"jsonrpc\":\"2.0\",\"id\":{question},\"result\":{result}}}\n");
        Input::more(answer.into_bytes())
    }

    fn interrupt(&mut self) -> Option<Input> {
        let params = json!({ "sessionId": self.session.as_ref()? });
        let cancel = json!({ "jsonrpc": "2.0", "method": "session/cancel", "params": params });
        Some(Input::more(format!("{cancel}\n").into_bytes()))
    }

    fn reader(&self) -> &dyn Reader {
        &self.reader
    }

    fn reader_mut(&mut self) -> &mut dyn Reader {
        &mut self.reader
    }
}

fn request(id: u64, method: &str, params: &Value) -> Vec<u8> {
    let request = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
    format!("{request}\n").into_bytes()
}
