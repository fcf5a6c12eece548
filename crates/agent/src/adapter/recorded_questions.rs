//! Tests with recorded questions of the real CLIs: each is parsed, and each of our answers has the form of one that
//! the CLI accepted.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::Value;

use super::acp::{Session, SessionSettings};
use super::claude::question::Questions as ClaudeQuestions;
use super::codex::question::Questions as CodexQuestions;
use crate::event::EventKind;
use crate::permission::PermissionQuestion;
use crate::process::{Decision, Dialogue as _};
use crate::stream::acp::Acp;

/// Returns the recorded dialogues of a program by name; empty if the recordings are not available.
fn recorded(program: &str) -> BTreeMap<String, Vec<Value>> {
    let Some(shared) = std::env::var_os("CONVOKE_SHARED").map(PathBuf::from) else {
        assert!(std::env::var_os("CONVOKE_REQUIRE_SHARED").is_none(), "CONVOKE_SHARED is not set");
        return BTreeMap::new();
    };
    let entries = std::fs::read_dir(shared.join("approvals")).unwrap().flatten();
    let files = entries.map(|entry| entry.path()).filter(|path| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.starts_with(program)
    });
    files
        .map(|path| {
            let text = std::fs::read_to_string(&path).unwrap();
            let lines = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
            (path.file_stem().unwrap().to_str().unwrap().to_owned(), lines)
        })
        .collect()
}

/// Returns the names of all fields of an object, nested ones included.
fn form(value: &Value) -> Vec<String> {
    let Value::Object(object) = value else { return Vec::new() };
    let fields = object.iter().filter(|(name, _)| *name != "updatedInput" && *name != "content");
    fields
        .flat_map(|(name, value)| {
            let below = form(value).into_iter().map(move |it| format!("{name}.{it}"));
            std::iter::once(name.clone()).chain(below)
        })
        .collect()
}

#[test]
fn every_question_of_claude_is_asked_and_answered_in_a_form_that_it_takes() {
    let mut count = 0;
    let recorded = recorded("claude");
    let allowed: Vec<Vec<String>> = recorded
        .values()
        .flatten()
        .filter(|line| line["dir"] == "->" && line["msg"]["type"] == "control_response")
        .map(|line| form(&line["msg"]))
        .collect();
    for (name, lines) in &recorded {
        let mut questions = ClaudeQuestions::default();
        for message in lines.iter().filter(|line| line["dir"] == "<-").map(|line| &line["msg"]) {
            let mut found: Option<PermissionQuestion> = None;
            questions.read(message.to_string().as_bytes(), false, &mut |event| {
                if let EventKind::PermissionAsked { question, .. } = event.kind {
                    found = Some(question);
                }
            });
            let is_question = message["request"]["subtype"] == "can_use_tool";
            assert_eq!(found.is_some(), is_question, "{name}: {message}");
            let Some(question) = found else { continue };
            count += 1;
            assert!(!question.summary.is_empty() && !question.tool.is_empty(), "{name}");
            for decision in [Decision::Allowed, Decision::Refused] {
                questions.read(message.to_string().as_bytes(), false, &mut |_| {});
                let answer = questions.answer(&question.id, decision);
                let answer: Value = serde_json::from_slice(&answer).unwrap();
                assert!(allowed.contains(&form(&answer)), "{name}: {answer}");
            }
        }
    }
    assert!(count > 40 || recorded.is_empty(), "{count}");
}

#[test]
fn every_question_of_codex_is_asked_or_refused_in_a_form_that_it_takes() {
    let mut count = 0;
    let recorded = recorded("codex");
    let is_answer = |message: &Value| message["method"].is_null() && !message["result"].is_null();
    let taken: Vec<Vec<String>> = recorded
        .values()
        .flatten()
        .filter(|line| line["dir"] == "->" && is_answer(&line["msg"]))
        .map(|line| form(&line["msg"]["result"]))
        .collect();
    for (name, lines) in &recorded {
        let mut questions = CodexQuestions::default();
        for message in lines.iter().filter(|line| line["dir"] == "<-").map(|line| &line["msg"]) {
            let line = message.to_string();
            questions.notice(line.as_bytes(), &mut |_| {});
            let Some(method) = message["method"].as_str().filter(|_| !message["id"].is_null())
            else {
                continue;
            };
            let id = message["id"].to_string();
            let mut found: Option<PermissionQuestion> = None;
            let is_asked = questions.ask(&id, line.as_bytes(), &mut |event| {
                if let EventKind::PermissionAsked { question, .. } = event.kind {
                    found = Some(question);
                }
            });
            count += 1;
            let answers = if is_asked {
                let question = found.unwrap();
                assert!(!question.summary.is_empty(), "{name}: {line}");
                if method == "item/fileChange/requestApproval" {
                    assert!(question.diff.unwrap().contains("+++ "), "{name}: {line}");
                }
                vec![questions.answer(&id, Decision::Allowed)]
            } else {
                vec![super::codex::question::refusal(&id, method)]
            };
            for answer in answers {
                let answer: Value = serde_json::from_slice(&answer).unwrap();
                let is_known = taken.contains(&form(&answer["result"]));
                assert!(is_known || !answer["error"].is_null(), "{name}: {answer}");
            }
        }
    }
    assert!(count > 30 || recorded.is_empty(), "{count}");
}

/// Replaces the ids of recorded requests with those of ours.
fn renumbered(message: &Value, sent: &BTreeMap<String, String>) -> Value {
    let mut message = message.clone();
    if message["method"].is_null() {
        let method = sent.get(&message["id"].to_string()).map_or("", String::as_str);
        message["id"] = match method {
            "initialize" => 1.into(),
            "session/new" | "session/load" => 2.into(),
            "session/prompt" => 3.into(),
            // A request that we never send.
            _ => 9_999.into(),
        };
    }
    message
}

#[test]
fn every_question_of_gemini_is_asked_and_answered_in_a_form_that_it_takes() {
    let mut count = 0;
    let mut recorded = recorded("gemini");
    recorded.retain(|name, _| name.contains(".acp_"));
    let taken: Vec<Vec<String>> = recorded
        .values()
        .flatten()
        .filter(|line| line["dir"] == "->" && !line["msg"]["result"]["outcome"].is_null())
        .map(|line| form(&line["msg"]["result"]))
        .collect();
    for (name, lines) in &recorded {
        let mut sent = BTreeMap::new();
        for message in lines.iter().filter(|line| line["dir"] == "->").map(|line| &line["msg"]) {
            if let Some(method) = message["method"].as_str() {
                sent.insert(message["id"].to_string(), method.to_owned());
            }
        }
        let settings = SessionSettings {
            prompt: vec!["Begin.".to_owned()],
            cwd: "/work".into(),
            title_is_command: true,
            ..SessionSettings::default()
        };
        let mut session = Session::new(Acp::new(1 << 20), settings);
        session.open();
        for message in lines.iter().filter(|line| line["dir"] == "<-").map(|line| &line["msg"]) {
            let is_question = message["method"] == "session/request_permission";
            for decision in [Decision::Allowed, Decision::Refused, Decision::Withdrawn] {
                let mut found: Option<PermissionQuestion> = None;
                let line = renumbered(message, &sent).to_string();
                session.line(line.as_bytes(), &mut |event| {
                    if let EventKind::PermissionAsked { question, .. } = event.kind {
                        found = Some(question);
                    }
                });
                assert_eq!(found.is_some(), is_question, "{name}: {message}");
                let Some(question) = found else { break };
                count += 1;
                let call = &message["params"]["toolCall"];
                assert!(!question.summary.is_empty() && !question.tool.is_empty(), "{name}");
                assert_eq!(question.is_command, call["kind"] == "execute", "{name}");
                let has_diff = call["content"].to_string().contains("\"type\":\"diff\"");
                assert_eq!(question.diff.is_some(), has_diff, "{name}: {message}");
                let answer = session.answer(&question.id, decision, &mut |_| {});
                let answer: Value = serde_json::from_slice(&answer.bytes).unwrap();
                assert_eq!(answer["id"], message["id"], "{name}");
                assert!(taken.contains(&form(&answer["result"])), "{name}: {answer}");
                let option = answer["result"]["outcome"]["optionId"].as_str();
                let kind = message["params"]["options"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .find(|it| it["optionId"].as_str() == option)
                    .and_then(|it| it["kind"].as_str());
                let expected = match decision {
                    Decision::Allowed => Some("allow_once"),
                    Decision::Refused => Some("reject_once"),
                    Decision::Withdrawn => None,
                };
                assert_eq!(kind, expected, "{name}: {answer}");
            }
        }
    }
    assert!(count > 20 || recorded.is_empty(), "{count}");
}
