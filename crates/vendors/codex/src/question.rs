//! Questions of Codex's `app-server`: requests of the server, each answered in its own form.

use std::collections::HashMap;
use std::path::PathBuf;
use std::task::{Context, Poll};

use convoke_core::Diagnostic;
use convoke_protocol::agent_event::{AgentEvent, AgentEventKind};
use convoke_protocol::permission::{
    AnsweredBy, PermissionAnswer, PermissionQuestion, TouchedFiles,
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::single::{DroppedQuestion, SingleQuestions};
use convoke_agent::diagnostics;
use convoke_agent::process::Decision;
use convoke_agent::stream::Sink;

/// The maximum number of patches whose changes are kept for later questions.
const CHANGES_KEPT: usize = 64;
/// The maximum size of those changes.
const CHANGED_BYTES: usize = 32 << 20;

/// The open questions, and the changes that later questions refer to.
#[derive(Debug, Default)]
pub struct Questions {
    /// The form of the answer, by the id of the request as JSON.
    open: HashMap<String, Form>,
    /// The changes of a patch, by the id of its item. The question itself does not contain them.
    changes: HashMap<String, Vec<Change>>,
    /// The questions that wait to be asked, if the server keeps only one.
    single: Option<SingleQuestions>,
    /// Diagnostics about dropped questions.
    pub notes: Vec<Diagnostic>,
}

#[derive(Debug, Clone, Copy)]
enum Form {
    /// A decision on a command or a patch.
    Decision,
    /// An action on a form of an MCP server.
    Action,
}

#[derive(Debug, Deserialize)]
struct Change {
    path: String,
    #[serde(default)]
    kind: Value,
    #[serde(default)]
    diff: String,
}

impl Change {
    fn paths(&self) -> impl Iterator<Item = PathBuf> {
        let moved = self.kind["move_path"].as_str();
        [Some(self.path.as_str()), moved].into_iter().flatten().map(PathBuf::from)
    }
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Line {
    method: String,
    params: Value,
    result: Value,
}

impl Questions {
    /// Reads the server's name from its first response.
    pub fn greet(&mut self, line: &[u8]) {
        let line: Line = serde_json::from_slice(line).unwrap_or_default();
        let keeps_one = line.result["userAgent"].as_str().is_some_and(SingleQuestions::are_of);
        self.single = keeps_one.then(SingleQuestions::default);
    }

    /// Records the changes of a patch, the end of a response, and withdrawn questions.
    pub fn notice(&mut self, line: &[u8], sink: &mut Sink<'_>) {
        let holds = |words: &[u8]| memchr::memmem::find(line, words).is_some();
        if let Some(single) = &mut self.single
            && holds(b"\"thread/tokenUsage/updated\"")
        {
            let line: Line = serde_json::from_slice(line).unwrap_or_default();
            let tokens = line.params["tokenUsage"]["total"]["totalTokens"].as_u64();
            single.count(thread(&line.params), tokens.unwrap_or_default());
        } else if holds(b"\"serverRequest/resolved\"") {
            let line: Line = serde_json::from_slice(line).unwrap_or_default();
            let id = line.params["requestId"].to_string();
            if self.open.remove(&id).is_some() {
                let (answer, by) = (PermissionAnswer::Never, AnsweredBy::Withdrawn);
                sink(AgentEvent::own(AgentEventKind::PermissionAnswered { id, answer, by }));
            }
        } else if holds(b"\"item/started\"") && holds(b"\"fileChange\"") {
            let kept = self.changes.values().flatten().map(|change| change.diff.len());
            if self.changes.len() >= CHANGES_KEPT
                || kept.sum::<usize>() + line.len() > CHANGED_BYTES
            {
                return;
            }
            let mut line: Line = serde_json::from_slice(line).unwrap_or_default();
            let mut item = line.params["item"].take();
            let changes = serde_json::from_value(item["changes"].take()).unwrap_or_default();
            self.changes.insert(item["id"].as_str().unwrap_or_default().to_owned(), changes);
        }
    }

    /// Reports a question. Returns whether a person can answer it.
    pub fn ask(&mut self, id: &str, line: &[u8], sink: &mut Sink<'_>) -> bool {
        let Line { method, params, .. } = serde_json::from_slice(line).unwrap_or_default();
        let (form, question) = match method.as_str() {
            "item/commandExecution/requestApproval" => (Form::Decision, command(id, &params)),
            "item/fileChange/requestApproval" => (Form::Decision, self.patch(id, &params)),
            "mcpServer/elicitation/request"
                if params["_meta"]["codex_approval_kind"] == "mcp_tool_call" =>
            {
                (Form::Action, mcp_tool(id, &params))
            }
            _ => return false,
        };
        if let (Some(single), Form::Decision) = (&mut self.single, form) {
            if let Some(dropped) = single.take(thread(&params), question) {
                self.drop_question(dropped, sink);
            }
        } else {
            sink(AgentEvent::own(AgentEventKind::PermissionAsked { question, expires_at: 0 }));
        }
        self.open.insert(id.to_owned(), form);
        true
    }

    /// Drops a question that another one replaced. It must not be answered, because the server would apply the
    /// answer to the other question.
    fn drop_question(&mut self, dropped: DroppedQuestion, sink: &mut Sink<'_>) {
        let DroppedQuestion { question, was_put } = dropped;
        let PermissionQuestion { id, summary, .. } = question;
        self.open.remove(&id);
        let message =
            format!("codex asked about another call at the same time and dropped: {summary}");
        self.notes.push(Diagnostic::new(diagnostics::PERMISSION_DROPPED, message));
        if was_put {
            let (answer, by) = (PermissionAnswer::Never, AnsweredBy::Withdrawn);
            sink(AgentEvent::own(AgentEventKind::PermissionAnswered { id, answer, by }));
        }
    }

    /// Waits until a question is due.
    pub fn poll_due(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.single.as_mut().map_or(Poll::Pending, |single| single.poll_due(context))
    }

    /// Asks the questions that are due.
    pub fn put_due(&mut self, sink: &mut Sink<'_>) {
        let due = self.single.iter_mut().flat_map(SingleQuestions::due);
        for question in due {
            sink(AgentEvent::own(AgentEventKind::PermissionAsked { question, expires_at: 0 }));
        }
    }

    /// Returns the lines that end the questions that were not asked. The program does not end while one is
    /// open.
    pub fn cancel_waiting(&mut self) -> Vec<u8> {
        let waiting = self.single.as_ref().map_or_else(Vec::new, SingleQuestions::waiting);
        waiting.iter().flat_map(|id| self.answer(id, Decision::Withdrawn)).collect()
    }

    /// Returns the line that answers a question.
    pub fn answer(&mut self, id: &str, decision: Decision) -> Vec<u8> {
        if let Some(single) = &mut self.single {
            single.answered(id);
        }
        let result = match (self.open.remove(id), decision) {
            (None, _) => return Vec::new(),
            (Some(Form::Decision), Decision::Allowed) => json!({ "decision": "accept" }),
            (Some(Form::Decision), Decision::Refused) => json!({ "decision": "decline" }),
            // One version does not end while a question is open.
            (Some(Form::Decision), Decision::Withdrawn) => json!({ "decision": "cancel" }),
            (Some(Form::Action), Decision::Allowed) => json!({ "action": "accept", "content": {} }),
            (Some(Form::Action), Decision::Refused) => json!({ "action": "decline" }),
            (Some(Form::Action), Decision::Withdrawn) => json!({ "action": "cancel" }),
        };
        format!("{{\"id\":{id},\"result\":{result}}}\n").into_bytes()
    }

    fn patch(&mut self, id: &str, params: &Value) -> PermissionQuestion {
        let item = params["itemId"].as_str().unwrap_or_default();
        let changes = self.changes.remove(item).unwrap_or_default();
        let paths: Vec<&str> = changes.iter().map(|change| change.path.as_str()).collect();
        let diff: String = changes.iter().map(shown).collect();
        let changed = changes.iter().flat_map(Change::paths).collect();
        let files = TouchedFiles { reads: Vec::new(), changes: changed };
        PermissionQuestion {
            id: id.to_owned(),
            tool: "apply_patch".to_owned(),
            summary: format!("change {}", paths.join(", ")),
            input: json!({ "diff": diff }).to_string(),
            diff: Some(diff),
            files: Box::new(files),
            ..PermissionQuestion::default()
        }
    }
}

/// Returns the line that refuses a request that no person can answer.
pub fn refusal(id: &str, method: &str) -> Vec<u8> {
    let result = match method {
        // The only way to refuse this request is to grant nothing.
        "item/permissions/requestApproval" => json!({ "permissions": {}, "scope": "turn" }),
        "mcpServer/elicitation/request" => json!({ "action": "decline" }),
        method if method.ends_with("requestApproval") => json!({ "decision": "decline" }),
        _ => {
            let message = format!("`{method}` is not answered here");
            let error = json!({ "code": -32601, "message": message });
            return format!("{{\"id\":{id},\"error\":{error}}}\n").into_bytes();
        }
    };
    format!("{{\"id\":{id},\"result\":{result}}}\n").into_bytes()
}

fn thread(params: &Value) -> &str {
    params["threadId"].as_str().unwrap_or_default()
}

fn command(id: &str, params: &Value) -> PermissionQuestion {
    let command = params["command"].as_str().unwrap_or_default();
    PermissionQuestion {
        id: id.to_owned(),
        tool: "shell".to_owned(),
        summary: without_shell(command),
        input: json!({ "command": command, "cwd": params["cwd"], "reason": params["reason"] })
            .to_string(),
        directory: params["cwd"].as_str().map(PathBuf::from).map(Box::new),
        is_command: true,
        ..PermissionQuestion::default()
    }
}

fn mcp_tool(id: &str, params: &Value) -> PermissionQuestion {
    let server = params["serverName"].as_str().unwrap_or_default();
    PermissionQuestion {
        id: id.to_owned(),
        tool: format!("mcp {server}"),
        summary: params["message"].as_str().unwrap_or_default().to_owned(),
        input: params["_meta"]["tool_params"].to_string(),
        ..PermissionQuestion::default()
    }
}

/// The name of a file that does not exist, in a diff.
const NO_FILE: &str = "/dev/null";

/// Returns a change as a unified diff. For a file that is added or deleted, the program reports only the
/// content.
fn shown(change: &Change) -> String {
    let Change { path, kind, diff } = change;
    let named = |from: &str, to: &str| format!("--- {from}\n+++ {to}\n");
    let (header, mark) = match kind["type"].as_str() {
        Some("add") => (named(NO_FILE, path), '+'),
        Some("delete") => (named(path, NO_FILE), '-'),
        _ => return named(path, path) + diff,
    };
    let count = diff.lines().count();
    let hunk = if mark == '+' { format!("-0,0 +1,{count}") } else { format!("-1,{count} +0,0") };
    let start = format!("{header}@@ {hunk} @@\n");
    diff.lines().fold(start, |text, line| format!("{text}{mark}{line}\n"))
}

/// Returns the command that a shell runs: `make x` for `/bin/bash -lc 'make x'`.
fn without_shell(command: &str) -> String {
    let Some((shell, script)) = command.split_once(" -lc ") else {
        return command.to_owned();
    };
    let quoted = script.strip_prefix('\'').and_then(|script| script.strip_suffix('\''));
    let is_shell = !shell.contains(char::is_whitespace) && shell.ends_with("sh");
    match quoted {
        // A quotation mark inside is written as '\''; anything else would be more than one word.
        Some(script) if is_shell && !script.replace("'\\''", "").contains('\'') => {
            script.replace("'\\''", "'")
        }
        None if is_shell && !script.contains(['"', '\'', ' ', '\\', '$', '`']) => script.to_owned(),
        _ => command.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_of_a_shell_is_shown_alone() {
        for (command, shown) in [
            ("/bin/bash -lc 'cargo test'", "cargo test"),
            ("/bin/bash -lc ls", "ls"),
            (r"/bin/zsh -lc 'echo '\''a'\'' b'", "echo 'a' b"),
            ("/bin/bash -lc 'a' 'b'", "/bin/bash -lc 'a' 'b'"),
            ("python -lc 'a'", "python -lc 'a'"),
            ("cargo test", "cargo test"),
        ] {
            assert_eq!(without_shell(command), shown, "{command}");
        }
    }

    #[test]
    fn a_patch_is_shown_with_the_changes_that_came_before_its_question() {
        let mut questions = Questions::default();
        let started = br#"{"method":"item/started","params":{"item":{"type":"fileChange","id":"c1","changes":[{"path":"/p/new","kind":{"type":"add"},"diff":"one\ntwo\n"}]}}}"#;
        questions.notice(started, &mut |_| {});
        let line =
            br#"{"method":"item/fileChange/requestApproval","id":0,"params":{"itemId":"c1"}}"#;
        let mut found = None;
        assert!(questions.ask("0", line, &mut |event| found = Some(event.into_owned())));
        let Some(AgentEventKind::PermissionAsked { question, .. }) = found.map(|event| event.kind)
        else {
            panic!("no question");
        };
        assert_eq!(question.summary, "change /p/new");
        let diff = "--- /dev/null\n+++ /p/new\n@@ -0,0 +1,2 @@\n+one\n+two\n";
        assert_eq!(question.diff.unwrap(), diff);
        let answer = String::from_utf8(questions.answer("0", Decision::Withdrawn)).unwrap();
        assert_eq!(answer, "{\"id\":0,\"result\":{\"decision\":\"cancel\"}}\n");
    }

    #[test]
    fn a_request_without_a_person_to_ask_is_refused_in_its_own_form() {
        let refused = |method: &str| String::from_utf8(refusal("7", method)).unwrap();
        let permissions = refused("item/permissions/requestApproval");
        assert!(permissions.contains("\"permissions\":{}"), "{permissions}");
        assert!(!permissions.contains("decision"), "{permissions}");
        assert!(refused("item/fileChange/requestApproval").contains("decline"));
        assert!(refused("mcpServer/elicitation/request").contains("\"action\":\"decline\""));
        assert!(refused("item/tool/requestUserInput").contains("-32601"));
    }
}
