//! Questions of Claude Code: `can_use_tool` on standard output, answered on standard input.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use convoke_files::{Disk, FileKind, Files as _};
use convoke_protocol::agent_event::{AgentEvent, AgentEventKind};
use convoke_protocol::permission::{
    AnsweredBy, PermissionAnswer, PermissionQuestion, TouchedFiles,
};
use serde::Deserialize;
use serde_json::{Value, json};

use convoke_agent::adapter::unified;
use convoke_agent::process::Decision;
use convoke_agent::stream::Sink;

/// The maximum size of the inputs of all open questions together.
const HELD: usize = 32 << 20;

/// The open questions, each with the tool input as JSON, which an approval must repeat.
#[derive(Debug, Default)]
pub struct Questions(HashMap<String, String>);

#[derive(Deserialize)]
struct Line {
    r#type: String,
    request_id: String,
    #[serde(default)]
    request: Request,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Request {
    subtype: String,
    tool_name: String,
    input: Value,
    description: Option<String>,
}

/// The role of a line in the dialogue.
#[derive(Debug, PartialEq, Eq)]
pub enum LineRole {
    /// A question, or the withdrawal of one.
    Question,
    /// A question that is too large to ask.
    TooLarge,
    /// Any other line.
    Other,
}

impl Questions {
    /// Reports a question or its withdrawal. An approval repeats the tool's input, so a question from a
    /// truncated line cannot be asked.
    pub fn read(&mut self, line: &[u8], is_cut: bool, sink: &mut Sink<'_>) -> LineRole {
        if !line.starts_with(br#"{"type":"control_"#) {
            return LineRole::Other;
        }
        let Ok(line) = serde_json::from_slice::<Line>(line) else {
            return LineRole::Other;
        };
        let id = line.request_id;
        match (line.r#type.as_str(), line.request.subtype.as_str()) {
            ("control_cancel_request", _) => {
                if self.0.remove(&id).is_some() {
                    let (answer, by) = (PermissionAnswer::Never, AnsweredBy::Withdrawn);
                    sink(AgentEvent::own(AgentEventKind::PermissionAnswered { id, answer, by }));
                }
                LineRole::Question
            }
            ("control_request", "can_use_tool") => {
                let question = question(&id, &line.request);
                let held: usize = self.0.values().map(String::len).sum();
                if is_cut || held + question.input.len() > HELD {
                    return LineRole::TooLarge;
                }
                self.0.insert(id, question.input.clone());
                let expires_at = 0;
                sink(AgentEvent::own(AgentEventKind::PermissionAsked { question, expires_at }));
                LineRole::Question
            }
            _ => LineRole::Other,
        }
    }

    /// Returns the line that answers a question. If a question ends with the turn, the program itself withdraws
    /// it.
    pub fn answer(&mut self, id: &str, decision: Decision) -> Vec<u8> {
        let Some(input) = self.0.remove(id) else {
            return Vec::new();
        };
        let response = match decision {
            Decision::Allowed => format!(r#"{{"behavior":"allow","updatedInput":{input}}}"#),
            Decision::Refused => {
                json!({ "behavior": "deny", "message": "The user did not allow this." }).to_string()
            }
            Decision::Withdrawn => return Vec::new(),
        };
        let id = json!(id);
        let response =
            format!(r#"{{"subtype":"success","request_id":{id},"response":{response}}}"#);
        format!("{{\"type\":\"control_response\",\"response\":{response}}}\n").into_bytes()
    }
}

/// Tools that do more than read, including those of MCP servers.
pub const ACTING: &[&str] = &["Bash", "Edit", "MultiEdit", "NotebookEdit", "Write"];
const MCP_TOOLS: &str = "mcp__";

/// Returns the rules in settings that would answer in place of a person. As `ask` rules, they take precedence
/// over `allow` rules.
pub fn silencing_rules(settings: &[String]) -> Vec<String> {
    let parsed = settings.iter().filter_map(|text| serde_json::from_str::<Value>(text).ok());
    let rules = parsed.flat_map(|settings| match &settings["permissions"]["allow"] {
        Value::Array(rules) => rules.clone(),
        _ => Vec::new(),
    });
    let acts = |rule: &String| {
        let tool = rule.split('(').next().unwrap_or_default().trim();
        ACTING.contains(&tool) || tool.starts_with(MCP_TOOLS)
    };
    rules.filter_map(|rule| rule.as_str().map(str::to_owned)).filter(acts).collect()
}

fn question(id: &str, request: &Request) -> PermissionQuestion {
    let Request { tool_name, input, description, .. } = request;
    let text = |name: &str| input[name].as_str();
    let path = text("file_path").or_else(|| text("notebook_path"));
    let command = text("command").filter(|_| tool_name == "Bash");
    let summary = match (command, path) {
        (Some(command), _) => command.to_owned(),
        (None, Some(path)) => format!("{tool_name} {path}"),
        (None, None) => format!("{tool_name} {}", description.as_deref().unwrap_or_default()),
    };
    let paths: Vec<PathBuf> = path.map(PathBuf::from).into_iter().collect();
    let files = match tool_name.as_str() {
        "Read" => TouchedFiles { reads: paths, changes: Vec::new() },
        _ => TouchedFiles { reads: Vec::new(), changes: paths },
    };
    PermissionQuestion {
        id: id.to_owned(),
        tool: tool_name.clone(),
        summary: summary.trim().to_owned(),
        input: input.to_string(),
        diff: path.and_then(|path| diff(tool_name, Path::new(path), input)),
        is_command: command.is_some(),
        files: Box::new(files),
        ..PermissionQuestion::default()
    }
}

/// Returns the change that a tool would make, which the program does not report.
fn diff(tool: &str, path: &Path, input: &Value) -> Option<String> {
    let text = |name: &str| input[name].as_str();
    match tool {
        "Edit" => Some(unified(path, text("old_string")?, text("new_string")?)),
        "Write" => {
            // A model can also name a pipe or a device, which must not be opened: that could block forever.
            let before = Disk.read_text(path, FileKind::Configuration).unwrap_or_default();
            Some(unified(path, &before, text("content")?))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(line: &str) -> (PermissionQuestion, Questions) {
        let mut questions = Questions::default();
        let mut found = None;
        let is_read = questions.read(line.as_bytes(), false, &mut |event| {
            if let AgentEventKind::PermissionAsked { question, .. } = event.kind {
                found = Some(question);
            }
        });
        assert_eq!(is_read, LineRole::Question);
        (found.unwrap(), questions)
    }

    const BASH: &str = r#"{"type":"control_request","request_id":"r1","request":{"subtype":"can_use_tool","tool_name":"Bash","input":{"command":"make x","description":"Build"},"description":"Build"}}"#;
    const EDIT: &str = r#"{"type":"control_request","request_id":"r2","request":{"subtype":"can_use_tool","tool_name":"Edit","input":{"file_path":"/p/a.txt","old_string":"one","new_string":"two"},"description":"a.txt"}}"#;

    #[test]
    fn a_command_is_shown_as_it_would_run() {
        let (question, mut questions) = asked(BASH);
        assert_eq!((question.tool.as_str(), question.summary.as_str()), ("Bash", "make x"));
        assert!(question.is_command && question.diff.is_none());
        let answer = questions.answer("r1", Decision::Allowed);
        let answer: Value = serde_json::from_slice(&answer).unwrap();
        assert_eq!(answer["response"]["request_id"], "r1");
        let response = &answer["response"]["response"];
        assert_eq!(response["behavior"], "allow");
        assert_eq!(response["updatedInput"]["command"], "make x");
        // Nothing that the program would write to a file of the project.
        assert!(response.get("updatedPermissions").is_none());
        assert!(questions.answer("r1", Decision::Allowed).is_empty(), "it was answered");
    }

    #[test]
    fn rules_that_would_answer_for_a_person_are_found() {
        let settings = [
            r#"{"permissions": {"allow": ["Bash(touch:*)", "Read(//etc/**)", "Write", 7, "mcp__x__y"]}}"#,
            "no settings",
            r#"{"permissions": {"allow": "Bash", "deny": ["Edit"]}}"#,
        ];
        let found = silencing_rules(&settings.map(str::to_owned));
        assert_eq!(found, ["Bash(touch:*)", "Write", "mcp__x__y"]);
    }

    #[test]
    fn an_edit_is_shown_as_its_difference() {
        let (question, mut questions) = asked(EDIT);
        assert_eq!(question.summary, "Edit /p/a.txt");
        assert!(question.diff.unwrap().contains("-one\n+two\n"));
        let answer: Value =
            serde_json::from_slice(&questions.answer("r2", Decision::Refused)).unwrap();
        assert_eq!(answer["response"]["response"]["behavior"], "deny");
    }

    #[test]
    fn a_pipe_that_would_be_written_is_not_opened() {
        let directory = tempfile::tempdir().unwrap();
        let pipe = directory.path().join("pipe");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let line = EDIT.replace("\"/p/a.txt\"", &json!(pipe).to_string());
        let line = line.replace("\"tool_name\":\"Edit\"", "\"tool_name\":\"Write\"");
        let line = line.replace("new_string", "content");
        let (question, _) = asked(&line);
        assert!(question.diff.unwrap().ends_with("+two\n"));
    }

    #[test]
    fn a_question_that_is_taken_back_is_open_no_more() {
        let (_, mut questions) = asked(BASH);
        let mut told = Vec::new();
        let line = br#"{"type":"control_cancel_request","request_id":"r1"}"#;
        let role = questions.read(line, false, &mut |event| told.push(event.into_owned()));
        assert_eq!(role, LineRole::Question);
        assert!(matches!(
            &told[..],
            [AgentEvent {
                kind: AgentEventKind::PermissionAnswered { by: AnsweredBy::Withdrawn, .. },
                ..
            }]
        ));
        assert!(questions.answer("r1", Decision::Allowed).is_empty());
    }

    #[test]
    fn a_question_that_was_cut_or_is_too_large_is_not_asked() {
        let line = |id: &str, bytes: usize| {
            let input = json!({ "content": "x".repeat(bytes) });
            let request = json!({ "subtype": "can_use_tool", "tool_name": "Bash", "input": input });
            format!(r#"{{"type":"control_request","request_id":"{id}","request":{request}}}"#)
        };
        let mut questions = Questions::default();
        let mut read = |line: &str, is_cut| questions.read(line.as_bytes(), is_cut, &mut |_| {});
        assert_eq!(read(&line("1", 10), true), LineRole::TooLarge);
        assert_eq!(read(&line("2", HELD - 100), false), LineRole::Question);
        assert_eq!(read(&line("3", 100), false), LineRole::TooLarge);
        questions.answer("2", Decision::Refused);
        let mut asked = |line: &str| questions.read(line.as_bytes(), false, &mut |_| {});
        assert_eq!(asked(&line("4", 100)), LineRole::Question);
    }
}
