//! Requests of an agent during a turn: its questions, and files and terminals of the client, which may need one.

use std::path::{Path, PathBuf};

use convoke_core::Diagnostic;
use convoke_protocol::agent_event::{AgentEvent, AgentEventKind};
use convoke_protocol::permission::{
    AnsweredBy, PermissionAnswer, PermissionQuestion, TouchedFiles,
};
use serde_json::{Value, json};

use super::{Session, Step, respond};
use crate::adapter::acp::client::{Change, FAILED, INVALID_PARAMS, Refusal};
use crate::adapter::acp::permit::Permit;
use crate::adapter::acp::request::{ClientRequest, CommandLine};
use crate::diagnostics;
use crate::process::{Decision, Input};
use crate::stream::acp::ToolCall;
use crate::stream::{EventReader as _, Sink};

/// The maximum number of open questions.
const OPEN_QUESTIONS: usize = 64;
/// JSON-RPC error codes: an unknown method, and a withdrawn request.
const UNKNOWN_METHOD: i64 = -32601;
const WITHDRAWN: i64 = -32800;

/// The subject of an open question.
#[derive(Debug)]
pub(super) enum QuestionSubject {
    /// A tool of the agent, with the client actions that its approval covers.
    Tool(Options, Vec<ApprovedAction>),
    Change(Change),
    Command(CommandLine),
}

#[derive(Debug)]
pub(super) struct Options {
    /// The tool call.
    call: String,
    allow: Option<String>,
    refuse: Option<String>,
}

/// An approved action, which the agent may request from the client without another question.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ApprovedAction {
    Change(PathBuf, String),
    Command(String),
}

/// The decision of a member's permissions about an action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PermissionDecision {
    Allowed,
    Refused(&'static str),
    /// Ask a person.
    Asks,
}

impl PermissionDecision {
    fn new(permit: Option<&Permit>, refuses: fn(&Permit) -> Option<&'static str>) -> Self {
        match permit.map(refuses) {
            None => Self::Asks,
            Some(None) => Self::Allowed,
            Some(Some(why)) => Self::Refused(why),
        }
    }
}

impl Session {
    pub(super) fn on_request(
        &mut self,
        id: &Value,
        method: &str,
        params: &Value,
        line: &str,
        sink: &mut Sink<'_>,
    ) -> Input {
        // A truncated message must not write part of a file or run part of a command.
        if self.reader.progress().is_line_cut() {
            self.reader.unknown(&format!("{method} over the limits"), line, sink);
            return refuse(id, &Refusal::new(INVALID_PARAMS, "the message is too large"));
        }
        if method == "session/request_permission" {
            return self.ask(id, params, line, sink);
        }
        match ClientRequest::parse(method, params) {
            Some(Ok(request)) if self.client.offers(&request) => {
                return self.serve(id, request, params, sink);
            }
            Some(Err(why)) if self.offers_files_or_terminals() => {
                return refuse(id, &Refusal::new(INVALID_PARAMS, why));
            }
            _ => {}
        }
        // Some agents call methods that were not advertised; they handle the error.
        self.reader.unknown(method, line, sink);
        let message = format!("`{method}` is not offered");
        respond(id, "error", &json!({ "code": UNKNOWN_METHOD, "message": message }))
    }

    fn ask(&mut self, id: &Value, params: &Value, line: &str, sink: &mut Sink<'_>) -> Input {
        let offered = params["options"].as_array().map_or(&[][..], Vec::as_slice);
        let of_kind = |kind: &str| {
            let option = offered.iter().find(|option| option["kind"] == kind);
            option.and_then(|option| option["optionId"].as_str()).map(str::to_owned)
        };
        // Never choose by position: with some agents, the first option is "always".
        let refuse = of_kind("reject_once").or_else(|| of_kind("reject_always"));
        let call = params["toolCall"]["toolCallId"].as_str().unwrap_or_default().to_owned();
        let options = Options { call, allow: of_kind("allow_once"), refuse };
        let is_ours = params["sessionId"].as_str() == self.id.as_deref();
        if self.is_cancelling
            || !is_ours
            || self.step != Step::Prompt
            || self.open.len() >= OPEN_QUESTIONS
        {
            if !self.is_cancelling {
                let name = "session/request_permission outside of the prompt";
                self.reader.unknown(name, line, sink);
            }
            return answer(id, options, Decision::Withdrawn);
        }
        let call = self.reader.call(&params["toolCall"], sink);
        if let Some(permit) = &self.settings.permit {
            if let Some(why) = permit.refusal(&call, &self.settings.cwd) {
                self.reader.refuse(&call, why, sink);
                return answer(id, options, Decision::Refused);
            }
            self.note_missing_option(&options, sink);
            return answer(id, options, Decision::Allowed);
        }
        let question = self.question(id, &call);
        let mut allowed = Vec::new();
        if self.offers_files_or_terminals() {
            allowed.extend(call.new_texts().map(|(path, text)| ApprovedAction::Change(path, text)));
            let command = question.is_command.then(|| question.summary.clone());
            allowed.extend(command.map(ApprovedAction::Command));
        }
        self.put(question, QuestionSubject::Tool(options, allowed), sink);
        Input::nothing()
    }

    /// Reports a question for a person.
    fn put(&mut self, question: PermissionQuestion, asked: QuestionSubject, sink: &mut Sink<'_>) {
        self.open.insert(question.id.clone(), asked);
        sink(AgentEvent::own(AgentEventKind::PermissionAsked { question, expires_at: 0 }));
    }

    fn offers_files_or_terminals(&self) -> bool {
        self.settings.client.files || self.settings.client.terminal
    }

    /// Executes a client request of the agent, within its permissions.
    fn serve(
        &mut self,
        id: &Value,
        request: ClientRequest,
        params: &Value,
        sink: &mut Sink<'_>,
    ) -> Input {
        let is_ours = params["sessionId"].as_str() == self.id.as_deref();
        if !is_ours || self.step != Step::Prompt || self.is_cancelling {
            return refuse(id, &Refusal::new(FAILED, "no prompt of this session is running"));
        }
        let done = match request {
            ClientRequest::Read(path, range) => self.client.read(&path, range, sink),
            ClientRequest::Write { path, content } => match self.client.change(&path, content) {
                Ok(change) => return self.change(id, change, sink),
                Err(refusal) => Err(refusal),
            },
            ClientRequest::Create(line) => return self.command(id, line, sink),
            ClientRequest::Output(terminal) => self.client.output(&terminal),
            ClientRequest::Wait(terminal) => match self.client.wait(&terminal, id) {
                Ok(None) => return Input::nothing(),
                Ok(Some(status)) => Ok(status),
                Err(refusal) => Err(refusal),
            },
            ClientRequest::Kill(terminal) => self.client.kill(&terminal),
            ClientRequest::Release(terminal) => self.client.release(&terminal),
        };
        if let Err(refusal) = &done {
            self.deny(&refusal.message, sink);
        }
        respond_to(id, done)
    }

    /// Changes a file, or first asks a person.
    fn change(&mut self, id: &Value, change: Change, sink: &mut Sink<'_>) -> Input {
        let question = PermissionQuestion {
            id: id.to_string(),
            tool: "write_text_file".to_owned(),
            summary: format!("write {}", change.path.display()),
            input: json!({ "path": change.path }).to_string(),
            diff: Some(change.diff.clone()).filter(|diff| !diff.is_empty()),
            ..PermissionQuestion::default()
        };
        let allowed = ApprovedAction::Change(change.path.clone(), change.content.clone());
        let ruling =
            PermissionDecision::new(self.settings.permit.as_ref(), Permit::refuses_changes);
        self.decide(question, QuestionSubject::Change(change), &allowed, ruling, sink)
    }

    /// Starts a command, or first asks a person.
    fn command(&mut self, id: &Value, line: CommandLine, sink: &mut Sink<'_>) -> Input {
        let text = line.text();
        let question = PermissionQuestion {
            id: id.to_string(),
            tool: "terminal".to_owned(),
            summary: text.clone(),
            input: json!({ "command": text, "cwd": line.cwd }).to_string(),
            directory: line.cwd.clone().map(Box::new),
            is_command: true,
            ..PermissionQuestion::default()
        };
        let ruling =
            PermissionDecision::new(self.settings.permit.as_ref(), Permit::refuses_commands);
        self.decide(
            question,
            QuestionSubject::Command(line),
            &ApprovedAction::Command(text),
            ruling,
            sink,
        )
    }

    /// Decides by the member's permissions or an earlier approval, or asks a person.
    fn decide(
        &mut self,
        question: PermissionQuestion,
        asked: QuestionSubject,
        allowed: &ApprovedAction,
        ruling: PermissionDecision,
        sink: &mut Sink<'_>,
    ) -> Input {
        let id: Value = serde_json::from_str(&question.id).unwrap_or_default();
        if let PermissionDecision::Refused(why) = ruling {
            self.deny(&format!("{}: {why}", question.summary), sink);
            return refuse(&id, &Refusal::new(FAILED, format!("refused: {why}")));
        }
        let known = self.allowed.iter().position(|it| it == allowed);
        if ruling == PermissionDecision::Allowed || known.is_some() {
            known.map(|known| self.allowed.remove(known));
            return self.act(&id, asked, Decision::Allowed, sink);
        }
        if self.open.len() >= OPEN_QUESTIONS || self.open.contains_key(&question.id) {
            return refuse(&id, &Refusal::new(FAILED, "too many questions are open"));
        }
        self.put(question, asked, sink);
        Input::nothing()
    }

    /// Applies the answer to a question.
    pub(super) fn act(
        &mut self,
        id: &Value,
        asked: QuestionSubject,
        decision: Decision,
        sink: &mut Sink<'_>,
    ) -> Input {
        let is_allowed = decision == Decision::Allowed;
        let done = match asked {
            QuestionSubject::Tool(options, allowed) => {
                if is_allowed {
                    self.allowed.extend(allowed);
                    self.note_missing_option(&options, sink);
                } else {
                    self.reader.end_refused(&options.call, sink);
                }
                return answer(id, options, decision);
            }
            QuestionSubject::Change(_) | QuestionSubject::Command(_) if !is_allowed => {
                Err(Refusal::new(FAILED, "refused by the user"))
            }
            QuestionSubject::Change(change) => self.client.write(&change, sink),
            QuestionSubject::Command(line) => self.client.create(&line, sink),
        };
        if let (true, Err(refusal)) = (is_allowed, &done) {
            self.deny(&refusal.message, sink);
        }
        respond_to(id, done)
    }

    /// Reports an allowed call that the agent offers no one-time option for. An approval never lasts longer
    /// than one call.
    fn note_missing_option(&mut self, options: &Options, sink: &mut Sink<'_>) {
        if options.allow.is_none() {
            self.reader.end_refused(&options.call, sink);
            self.deny("a call: the agent offers no option to allow it once", sink);
        }
    }

    /// Reports a refused action.
    fn deny(&mut self, what: &str, sink: &mut Sink<'_>) {
        let message = format!("refused {what}");
        self.reader.warn(Diagnostic::new(diagnostics::AGENT_TOOL_DENIED, message), sink);
    }

    fn question(&self, id: &Value, call: &ToolCall) -> PermissionQuestion {
        let is_titled = self.settings.title_is_command && call.kind.as_deref() == Some("execute");
        let titled = call.title.clone().filter(|_| is_titled);
        let command = call.command().or(titled);
        let paths = |is_meant: bool| {
            let paths = call.paths().filter(|_| is_meant).map(Path::to_owned);
            paths.collect::<Vec<PathBuf>>()
        };
        PermissionQuestion {
            files: Box::new(TouchedFiles {
                reads: paths(call.kind.as_deref() == Some("read")),
                changes: paths(call.changes_files()),
            }),
            id: id.to_string(),
            tool: call.tool().to_owned(),
            is_command: command.is_some(),
            summary: command.unwrap_or_else(|| call.summary()),
            input: call.input_text(),
            diff: call.diff(),
            ..PermissionQuestion::default()
        }
    }

    /// Closes a question that the agent withdrew.
    pub(super) fn withdraw(&mut self, id: &Value, sink: &mut Sink<'_>) -> Input {
        if self.open.remove(&id.to_string()).is_none() {
            return Input::nothing();
        }
        let (answer, by) = (PermissionAnswer::Never, AnsweredBy::Withdrawn);
        sink(AgentEvent::own(AgentEventKind::PermissionAnswered {
            id: id.to_string(),
            answer,
            by,
        }));
        respond(id, "error", &json!({ "code": WITHDRAWN, "message": "withdrawn" }))
    }
}

/// Returns the response to a question.
fn answer(id: &Value, options: Options, decision: Decision) -> Input {
    let option = match decision {
        Decision::Allowed => options.allow,
        Decision::Refused => options.refuse,
        Decision::Withdrawn => None,
    };
    let outcome = match option {
        Some(option) => json!({ "outcome": "selected", "optionId": option }),
        None => json!({ "outcome": "cancelled" }),
    };
    respond(id, "result", &json!({ "outcome": outcome }))
}

fn respond_to(id: &Value, done: Result<Value, Refusal>) -> Input {
    match done {
        Ok(result) => respond(id, "result", &result),
        Err(refusal) => refuse(id, &refusal),
    }
}

fn refuse(id: &Value, refusal: &Refusal) -> Input {
    let Refusal { code, message } = refusal;
    respond(id, "error", &json!({ "code": code, "message": message }))
}
