//! The one writer of standard output: responses, updates and questions to the editor.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io::Write as _;
use std::rc::Rc;

use convoke_protocol::permission::{PermissionAnswer, PermissionQuestion};
use convoke_session::Controls;
use serde_json::{Value, json};

use super::updates::{kind_of, safe};
use crate::terminal::stdout;

/// Writes messages to the editor. Clones share the connection.
#[derive(Clone, Default)]
pub(super) struct Output(Rc<State>);

#[derive(Default)]
struct State {
    is_gone: Cell<bool>,
    /// The number of the last request to the editor.
    asked: Cell<u64>,
    /// The open questions, by the number of their request.
    open: RefCell<HashMap<u64, (Controls, String)>>,
}

impl Output {
    /// Returns whether the editor has closed the pipe.
    pub(super) fn is_gone(&self) -> bool {
        self.0.is_gone.get()
    }

    pub(super) fn respond(&self, id: &Value, outcome: Result<Value, (i64, String)>) {
        self.write(&match outcome {
            Ok(result) => json!({ "jsonrpc": "2.0", "id": id, "result": result }),
            Err((code, message)) => {
                let error = json!({ "code": code, "message": message });
                json!({ "jsonrpc": "2.0", "id": id, "error": error })
            }
        });
    }

    /// Writes an update of a session.
    pub(super) fn update(&self, session: &str, update: &Value) {
        let params = json!({ "sessionId": session, "update": update });
        self.write(&json!({ "jsonrpc": "2.0", "method": "session/update", "params": params }));
    }

    /// Asks the person in the editor.
    pub(super) fn ask(
        &self,
        session: &str,
        member: &str,
        question: &PermissionQuestion,
        controls: Controls,
    ) {
        let number = self.0.asked.get() + 1;
        self.0.asked.set(number);
        self.0.open.borrow_mut().insert(number, (controls, question.id.clone()));
        let call = asked_call(member, question);
        let options = json!([
            { "optionId": "once", "name": "Allow once", "kind": "allow_once" },
            { "optionId": "session", "name": "Allow in this session", "kind": "allow_always" },
            { "optionId": "no", "name": "Refuse", "kind": "reject_once" },
            { "optionId": "never", "name": "Refuse in this session", "kind": "reject_always" },
        ]);
        let params = json!({ "sessionId": session, "toolCall": call, "options": options });
        let method = "session/request_permission";
        self.write(&json!({ "jsonrpc": "2.0", "id": number, "method": method, "params": params }));
    }

    /// Passes on the editor's answer to a question. Anything that is not an answer refuses this question only.
    pub(super) fn answered(&self, id: &Value, outcome: &Result<Value, Value>) {
        let Some(number) = id.as_u64() else { return };
        let Some((controls, question)) = self.0.open.borrow_mut().remove(&number) else { return };
        let chosen = outcome.as_ref().ok().map(|result| &result["outcome"]["optionId"]);
        let answer = match chosen.and_then(Value::as_str) {
            Some("once") => PermissionAnswer::Once,
            Some("session") => PermissionAnswer::Session,
            Some("never") => PermissionAnswer::Never,
            _ => PermissionAnswer::No,
        };
        controls.answer(&question, answer);
    }

    /// Withdraws a question that was answered elsewhere.
    pub(super) fn withdraw(&self, question: &str) {
        let mut open = self.0.open.borrow_mut();
        let number = open.iter().find(|(_, (_, id))| id == question).map(|(number, _)| *number);
        if let Some(number) = number {
            open.remove(&number);
            drop(open);
            let params = json!({ "requestId": number });
            self.write(
                &json!({ "jsonrpc": "2.0", "method": "$/cancel_request", "params": params }),
            );
        }
    }

    fn write(&self, message: &Value) {
        if self.is_gone() {
            return;
        }
        let mut out = stdout();
        let written = writeln!(out, "{message}").and_then(|()| out.flush());
        self.0.is_gone.set(written.is_err());
    }
}

/// Returns the tool call that an agent asks about.
pub(super) fn asked_call(member: &str, question: &PermissionQuestion) -> Value {
    let input: Value = serde_json::from_str(&question.input).unwrap_or_default();
    let summary = safe(&question.summary);
    let text = match &question.diff {
        Some(diff) => super::prompt::fenced("diff", diff),
        None => summary.clone(),
    };
    let mut call = json!({
        "toolCallId": question.id,
        "title": format!("{member}: {summary}"),
        "kind": kind_of(&question.tool),
        "status": "pending",
        "content": [{ "type": "content", "content": { "type": "text", "text": text } }],
    });
    if !input.is_null() {
        call["rawInput"] = input;
    }
    call
}
