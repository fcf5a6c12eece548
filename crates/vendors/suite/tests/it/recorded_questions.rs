//! Tests with recorded questions of the real CLIs. Each question is parsed, and each answer has a form that the
//! CLI accepted.

use std::collections::{BTreeMap, BTreeSet};

use convoke_protocol::agent_event::AgentEventKind;
use convoke_protocol::permission::PermissionQuestion;
use serde_json::Value;

use convoke_agent::adapter::acp::{Session, SessionSettings};
use convoke_agent::process::{Decision, Dialogue as _};
use convoke_agent::stream::acp::Acp;
use convoke_vendor_claude::question::Questions as ClaudeQuestions;
use convoke_vendor_codex::question::Questions as CodexQuestions;
use convoke_vendor_codex::question::refusal;

/// Returns the recorded dialogues of a program by name; empty if the recordings are not available.
fn recorded(program: &str) -> BTreeMap<String, Vec<Value>> {
    let folders = convoke_conformance::recorded("CONVOKE_APPROVALS", &["approvals"]);
    let files = convoke_conformance::files(&folders, "jsonl").into_iter().filter(|path| {
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
                if let AgentEventKind::PermissionAsked { question, .. } = event.kind {
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
                if let AgentEventKind::PermissionAsked { question, .. } = event.kind {
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
                vec![refusal(&id, method)]
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

/// A replayed dialogue, with answers at the recorded points.
#[derive(Debug, Default, PartialEq, Eq)]
struct ReplayedDialogue {
    asked: usize,
    /// The maximum number of questions that were open at once.
    max_open: usize,
    withdrawn: usize,
    /// The number of answers to questions that were not open, which the program does not get.
    late: usize,
    open: BTreeSet<String>,
}

impl ReplayedDialogue {
    fn note(&mut self, event: &AgentEventKind) {
        match event {
            AgentEventKind::PermissionAsked { question, .. } => {
                self.asked += 1;
                self.open.insert(question.id.clone());
                self.max_open = self.max_open.max(self.open.len());
            }
            AgentEventKind::PermissionAnswered { id, .. } => {
                self.withdrawn += 1;
                self.open.remove(id);
            }
            _ => {}
        }
    }

    /// Records an answer and the line that is sent to the program.
    fn answer(&mut self, id: &str, told: &[u8]) {
        let was_open = self.open.remove(id);
        assert_eq!(!told.is_empty(), was_open, "{id}");
        self.late += usize::from(!was_open);
    }

    /// Returns the numbers of questions asked, open at once, withdrawn, answered late and left open.
    fn numbers(&self) -> [usize; 5] {
        [self.asked, self.max_open, self.withdrawn, self.late, self.open.len()]
    }
}

/// The dialogues in which questions overlapped, or were not answered exactly once.
const COURSES: &[(&str, [usize; 5])] = &[
    ("claude325.bash_answer_after_interrupt", [1, 1, 1, 1, 0]),
    ("claude325.bash_answer_twice", [1, 1, 0, 1, 0]),
    ("claude325.bash_no_answer_60s", [1, 1, 0, 0, 1]),
    ("claude325.bash_no_answer_then_eof", [1, 1, 0, 0, 1]),
    ("claude325.bash_no_answer_then_interrupt", [1, 1, 1, 0, 0]),
    ("claude325.dont_ask_mode", [0; 5]),
    ("claude325.no_prompt_tool", [0; 5]),
    ("claude325.parallel_three_reads_at_once", [3, 3, 0, 0, 0]),
    ("claude325.prompts_none", [0; 5]),
    ("claude325.settings_allow_rule_not_asked", [0; 5]),
    ("claude325.settings_deny_rule_not_asked", [0; 5]),
    ("claude325.sub_background_question_no_answer_eof", [1, 1, 0, 0, 1]),
    ("claude325.sub_background_question_then_interrupt", [1, 1, 1, 0, 0]),
    ("claude325.two_sub_agents_ask_at_once", [2, 2, 0, 0, 0]),
    ("codex166.cmd_no_answer_30s", [1, 1, 0, 0, 1]),
    ("codex166.cmd_no_answer_eof", [1, 1, 0, 0, 1]),
    ("codex166.cmd_no_answer_interrupt", [1, 1, 1, 0, 0]),
    ("codex166.cmd_on_failure_read_only", [0; 5]),
    ("codex166.cmd_on_request_no_escalation_not_asked", [0; 5]),
    ("codex166.cmd_on_request_read_only_sandbox", [0; 5]),
    ("codex166.network_curl_on_request", [0; 5]),
    // Requests that need more than a yes or a no are refused without a person.
    ("codex166.permissions_decline_word", [0, 0, 0, 1, 0]),
    ("codex166.permissions_granted", [0, 0, 0, 1, 0]),
    ("codex166.permissions_refused", [0, 0, 0, 1, 0]),
    ("codex166.request_user_input_default_mode", [0, 0, 0, 1, 0]),
    ("codex166.two_at_once", [2, 2, 0, 0, 0]),
    ("codex98.cmd_no_answer_eof", [1, 1, 0, 0, 1]),
    ("codex98.cmd_no_answer_interrupt", [1, 1, 0, 0, 1]),
    ("codex98.cmd_on_failure_read_only", [0; 5]),
    ("codex98.cmd_on_request_no_escalation_not_asked", [0; 5]),
    ("codex98.cmd_on_request_read_only_sandbox", [0; 5]),
    ("codex98.mcp_tool_untrusted", [0; 5]),
    ("codex98.safe_command_not_asked", [0; 5]),
    ("codex98.two_at_once", [2, 2, 0, 0, 0]),
];

/// Compares a dialogue with the table. A dialogue that is not in the table asks one question after another.
fn check_course(name: &str, course: &ReplayedDialogue) {
    let special = COURSES.iter().find(|(it, _)| *it == name).map(|(_, numbers)| *numbers);
    let numbers = special.unwrap_or([course.asked.max(1), 1, 0, 0, 0]);
    assert_eq!(course.numbers(), numbers, "{name}: {course:?}");
}

/// Simultaneous questions, answers after an interrupt, second answers, sub-agents, and inputs changed by a
/// person: Convoke allows only what was asked, and does not answer a question that is not open.
#[test]
fn every_recorded_dialogue_of_claude_takes_its_course() {
    for (name, lines) in &recorded("claude") {
        let (mut questions, mut course) = (ClaudeQuestions::default(), ReplayedDialogue::default());
        let mut inputs = BTreeMap::new();
        for line in lines {
            let message = &line["msg"];
            if line["dir"] == "<-" {
                let request = &message["request"];
                inputs.insert(message["request_id"].to_string(), request["input"].clone());
                let text = message.to_string();
                questions.read(text.as_bytes(), false, &mut |event| course.note(&event.kind));
            } else if line["dir"] == "->" && message["type"] == "control_response" {
                let id = &message["response"]["request_id"];
                let told = questions.answer(id.as_str().unwrap(), Decision::Allowed);
                course.answer(id.as_str().unwrap(), &told);
                if let Ok(told) = serde_json::from_slice::<Value>(&told) {
                    let told = &told["response"]["response"];
                    assert_eq!(told["updatedInput"], inputs[&id.to_string()], "{name}");
                    assert_eq!(told["updatedPermissions"], Value::Null, "{name}");
                }
            }
        }
        check_course(name, &course);
    }
}

/// The same, with forms of MCP servers and requests that need more than a yes or a no.
#[test]
fn every_recorded_dialogue_of_codex_takes_its_course() {
    let mut forms = 0;
    for (name, lines) in &recorded("codex") {
        let (mut questions, mut course) = (CodexQuestions::default(), ReplayedDialogue::default());
        for line in lines {
            let message = &line["msg"];
            let (id, text) = (message["id"].to_string(), message.to_string());
            let is_call = !message["method"].is_null();
            if line["dir"] == "<-" {
                questions.notice(text.as_bytes(), &mut |event| course.note(&event.kind));
                if is_call && !message["id"].is_null() {
                    questions.ask(&id, text.as_bytes(), &mut |event| course.note(&event.kind));
                }
                forms += usize::from(message["method"] == "mcpServer/elicitation/request");
            } else if line["dir"] == "->"
                && !is_call
                && (!message["result"].is_null() || !message["error"].is_null())
            {
                let told = questions.answer(&id, Decision::Allowed);
                course.answer(&id, &told);
                let told: Value = serde_json::from_slice(&told).unwrap_or_default();
                let decision = &told["result"]["decision"];
                // Allowed once, with nothing that the program would write into its rules.
                assert!(decision.is_null() || decision == "accept", "{name}: {told}");
                assert_eq!(told["result"]["_meta"], Value::Null, "{name}");
            }
        }
        check_course(name, &course);
    }
    assert!(forms >= 3 || recorded("codex").is_empty(), "{forms}");
}

/// Replaces the ids of recorded requests with those of Convoke's requests.
fn renumbered(message: &Value, sent: &BTreeMap<String, String>) -> Value {
    let mut message = message.clone();
    if message["method"].is_null() {
        let method = sent.get(&message["id"].to_string()).map_or("", String::as_str);
        message["id"] = match method {
            "initialize" => 1.into(),
            "session/new" | "session/load" => 2.into(),
            "session/prompt" => 3.into(),
            // A request that Convoke never sends.
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
                    if let AgentEventKind::PermissionAsked { question, .. } = event.kind {
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
