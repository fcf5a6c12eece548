//! One turn over ACP: initialize, open a session, set mode and model, send the prompt, and answer questions.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use convoke_core::Diagnostic;
use serde_json::{Value, json};

use super::choice::{Choice, Found};
use super::client::{Change, Client, ClientSettings, FAILED, INVALID_PARAMS, Refusal};
use super::permit::Permit;
use super::request::{ClientRequest, CommandLine};
use crate::diagnostics;
use crate::event::{Event, EventKind};
use crate::permission::{AnsweredBy, PermissionAnswer, PermissionQuestion, TouchedFiles};
use crate::process::{Decision, Dialogue, HostAccess, Input};
use crate::stream::acp::{Acp, Call, Message, failure};
use crate::stream::{Reader, Sink};
use crate::turn::TurnResult;
use crate::verdict::{Ending, Failure, FailureReason};

/// The supported protocol version. If asked for a newer one, some agents respond in a draft of it.
const VERSION: u64 = 1;
/// The longest silence before the session is open. Programs take up to 5 seconds to start.
const START_TIMEOUT: Duration = Duration::from_mins(2);
/// The silence after which a loaded session has finished repeating its history. Some agents repeat it after
/// their response.
const REPLAY_SILENCE: Duration = Duration::from_millis(500);
/// The time limit for a program to exit after its turn. The slowest takes 2 seconds.
const EXIT_LIMIT: Duration = Duration::from_millis(2500);
/// The maximum number of open questions.
const OPEN_QUESTIONS: usize = 64;
/// JSON-RPC error codes: an unknown method, and a withdrawn request.
const UNKNOWN_METHOD: i64 = -32601;
const WITHDRAWN: i64 = -32800;

/// The settings of a turn over ACP.
#[derive(Debug, Default)]
pub struct SessionSettings {
    /// The text blocks of the prompt.
    pub prompt: Vec<String>,
    /// The working directory.
    pub cwd: PathBuf,
    /// The session to resume.
    pub resume: Option<String>,
    /// The mode chosen by the user.
    pub mode: Option<String>,
    /// The mode for the permissions, if the program's default does not match.
    pub fitting_mode: Option<&'static str>,
    /// The model, by name; `None` if the program's arguments set it.
    pub model: Option<String>,
    /// The model that the program's arguments set.
    pub started_model: Option<String>,
    /// The MCP servers of the session.
    pub servers: Vec<Value>,
    /// Extension fields of the request that opens the session.
    pub meta: Option<Value>,
    /// The permissions that answer questions; `None` to ask a person.
    pub permit: Option<Permit>,
    /// The client methods offered to the agent.
    pub client: ClientSettings,
    /// Whether the title of a call is the command that it runs.
    pub title_is_command: bool,
    /// The instructions for signing in.
    pub sign_in: Option<&'static str>,
}

/// The request that is waiting for its response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Initialize,
    Session,
    /// Waiting for the end of a repeated history.
    Repeating,
    Choose,
    Prompt,
}

/// A turn over ACP.
pub struct Session {
    reader: Acp,
    settings: SessionSettings,
    step: Step,
    /// The id of the waiting request.
    waiting: u64,
    /// The sign-in methods that the agent offers.
    ways_to_sign_in: Vec<String>,
    id: Option<String>,
    /// Whether the session repeats its history when it is opened.
    repeats_history: bool,
    /// The requests that set mode and model.
    choices: VecDeque<(&'static str, Value)>,
    /// The open questions, by request id as JSON.
    open: HashMap<String, Asked>,
    /// The actions that a person allowed and the agent has not taken yet.
    allowed: Vec<Allowed>,
    client: Client,
    is_cancelling: bool,
}

/// The subject of an open question.
#[derive(Debug)]
enum Asked {
    /// A tool of the agent, with the client actions that its approval covers.
    Tool(Options, Vec<Allowed>),
    Change(Change),
    Command(CommandLine),
}

#[derive(Debug)]
struct Options {
    /// The tool call.
    call: String,
    allow: Option<String>,
    refuse: Option<String>,
}

/// An approved action, which the agent may request from the client without another question.
#[derive(Debug, PartialEq, Eq)]
enum Allowed {
    Change(PathBuf, String),
    Command(String),
}

/// How a member's permissions decide about an action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ruling {
    Allowed,
    Refused(&'static str),
    /// Ask a person.
    Asks,
}

impl Ruling {
    fn new(permit: Option<&Permit>, refuses: fn(&Permit) -> Option<&'static str>) -> Self {
        match permit.map(refuses) {
            None => Self::Asks,
            Some(None) => Self::Allowed,
            Some(Some(why)) => Self::Refused(why),
        }
    }
}

impl Session {
    /// Creates a turn.
    pub fn new(reader: Acp, settings: SessionSettings) -> Self {
        Self {
            reader,
            client: Client::new(settings.client),
            settings,
            step: Step::Initialize,
            waiting: 0,
            ways_to_sign_in: Vec::new(),
            id: None,
            repeats_history: false,
            choices: VecDeque::new(),
            open: HashMap::new(),
            allowed: Vec::new(),
            is_cancelling: false,
        }
    }

    fn request(&mut self, step: Step, method: &str, params: &Value) -> Input {
        self.step = step;
        self.waiting += 1;
        write(&json!({ "jsonrpc": "2.0", "id": self.waiting, "method": method, "params": params }))
    }

    fn fail(&mut self, failure: Failure, sink: &mut Sink<'_>) -> Input {
        self.reader.fail(failure, sink);
        Input::last(Vec::new())
    }

    fn on_error(&mut self, error: &Value, sink: &mut Sink<'_>) -> Input {
        let mut failure = failure(error);
        match self.step {
            Step::Session if failure.reason == FailureReason::Auth => {}
            Step::Session if self.settings.resume.is_some() => {
                failure.reason = FailureReason::Session;
            }
            Step::Choose => failure.reason = FailureReason::Model,
            _ => {}
        }
        if failure.reason == FailureReason::Auth {
            let ways = self.ways_to_sign_in.join(", ");
            let own = self.settings.sign_in.map(|how| format!(". {how}"));
            let offered = (!ways.is_empty()).then(|| format!(". The agent offers: {ways}"));
            failure.message.extend(own.or(offered));
            if self.step != Step::Prompt {
                failure.reason = FailureReason::SignedOut;
            }
        }
        self.fail(failure, sink)
    }

    fn on_result(&mut self, result: &Value, sink: &mut Sink<'_>) -> Input {
        match self.step {
            Step::Initialize => self.initialized(result, sink),
            Step::Session => self.on_session(result, sink),
            Step::Choose => self.send_next(),
            Step::Prompt => {
                self.client.kill_all();
                self.reader.on_prompt_result(result, sink);
                Input::last(Vec::new())
            }
            Step::Repeating => Input::nothing(),
        }
    }

    fn initialized(&mut self, result: &Value, sink: &mut Sink<'_>) -> Input {
        let version = &result["protocolVersion"];
        if version.as_u64() != Some(VERSION) {
            let message = format!(
                "the agent uses version {version} of ACP, but Convoke supports version {VERSION}"
            );
            return self.fail(Failure::new(FailureReason::Other, message), sink);
        }
        let ways = result["authMethods"].as_array().map_or(&[][..], Vec::as_slice);
        self.ways_to_sign_in = ways
            .iter()
            .take(8)
            .filter_map(|way| {
                let name = way["name"].as_str().or_else(|| way["id"].as_str())?;
                let about = way["description"].as_str().filter(|about| !about.is_empty());
                Some(about.map_or(name.to_owned(), |about| format!("{name} ({about})")))
            })
            .collect();
        let abilities = &result["agentCapabilities"];
        let can_resume = !abilities["sessionCapabilities"]["resume"].is_null();
        let can_load = abilities["loadSession"] == true;
        let mut params = json!({ "cwd": self.settings.cwd, "mcpServers": self.settings.servers });
        if let Some(meta) = &self.settings.meta {
            params["_meta"] = meta.clone();
        }
        // An agent that supports neither starts a new session, which is reported when the ids are compared.
        self.id = self.settings.resume.clone().filter(|_| can_resume || can_load);
        let Some(session) = &self.id else {
            return self.request(Step::Session, "session/new", &params);
        };
        params["sessionId"] = json!(session);
        self.repeats_history = !can_resume;
        let method = if can_resume { "session/resume" } else { "session/load" };
        self.request(Step::Session, method, &params)
    }

    fn on_session(&mut self, result: &Value, sink: &mut Sink<'_>) -> Input {
        let is_new = self.id.is_none();
        if let Some(session) = result["sessionId"].as_str().filter(|_| is_new) {
            self.id = Some(session.to_owned());
        }
        let Some(session) = self.id.clone() else {
            let message = "the agent opened a session without an id";
            return self.fail(Failure::new(FailureReason::Incomplete, message), sink);
        };
        let model = self.settings.model.clone().or_else(|| self.settings.started_model.clone());
        self.reader.begin(&session, is_new, model.as_deref(), sink);
        if let Some(failure) = self.choose(result, sink) {
            return self.fail(failure, sink);
        }
        if self.repeats_history {
            self.step = Step::Repeating;
            return Input::nothing();
        }
        self.send_next()
    }

    /// Finds the configured mode and model among the offered ones.
    fn choose(&mut self, offered: &Value, sink: &mut Sink<'_>) -> Option<Failure> {
        let chosen = self.settings.mode.clone();
        let fitting = self.settings.fitting_mode.filter(|_| chosen.is_none()).map(str::to_owned);
        let wanted = [
            (Choice::Mode, chosen, true),
            (Choice::Mode, fitting, false),
            (Choice::Model, self.settings.model.clone(), true),
        ];
        for (choice, name, is_required) in wanted {
            let Some(name) = name else { continue };
            let (message, is_wrong) = match choice.find(&name, offered) {
                Found::Current => continue,
                Found::Request(method, params) => {
                    self.choices.push_back((method, params));
                    continue;
                }
                Found::Missing(others) => {
                    let others = others.join(", ");
                    let word = choice.as_str();
                    (format!("the agent has no {word} `{name}`; it has {others}"), is_required)
                }
                Found::NoChoice => {
                    let word = choice.as_str();
                    (format!("the agent offers no choice of {word} and uses its own"), false)
                }
            };
            if is_wrong {
                let reason = match choice {
                    Choice::Model => FailureReason::Model,
                    Choice::Mode => FailureReason::Usage,
                };
                return Some(Failure::new(reason, message));
            }
            self.reader.warn(Diagnostic::new(diagnostics::AGENT_NOTICE, message), sink);
        }
        None
    }

    /// Sends the next request: a choice, else the prompt.
    fn send_next(&mut self) -> Input {
        let session = self.id.clone().unwrap_or_default();
        if let Some((method, mut params)) = self.choices.pop_front() {
            params["sessionId"] = session.into();
            return self.request(Step::Choose, method, &params);
        }
        let prompt = std::mem::take(&mut self.settings.prompt);
        let blocks = prompt.iter().map(|text| json!({ "type": "text", "text": text }));
        let params = json!({ "sessionId": session, "prompt": blocks.collect::<Value>() });
        self.request(Step::Prompt, "session/prompt", &params)
    }

    fn on_notification(
        &mut self,
        method: &str,
        params: &Value,
        line: &str,
        sink: &mut Sink<'_>,
    ) -> Input {
        match method {
            "session/update" => {
                let is_ours = params["sessionId"].as_str() == self.id.as_deref();
                if self.step == Step::Prompt && is_ours {
                    self.reader.update(&params["update"], line, sink);
                } else if self.step == Step::Prompt {
                    self.reader.unknown("session/update of another session", line, sink);
                } else if !self.repeats_history && Acp::is_content(&params["update"]) {
                    // Not part of the reply, because the prompt was not sent yet.
                    self.reader.unknown("session/update before the prompt", line, sink);
                }
                Input::nothing()
            }
            "$/cancel_request" => self.withdraw(&params["requestId"], sink),
            // Names of extensions begin with an underscore.
            method if method.starts_with('_') => Input::nothing(),
            method => {
                self.reader.unknown(method, line, sink);
                Input::nothing()
            }
        }
    }

    fn on_request(
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
            allowed.extend(call.new_texts().map(|(path, text)| Allowed::Change(path, text)));
            let command = question.is_command.then(|| question.summary.clone());
            allowed.extend(command.map(Allowed::Command));
        }
        self.put(question, Asked::Tool(options, allowed), sink);
        Input::nothing()
    }

    /// Reports a question for a person.
    fn put(&mut self, question: PermissionQuestion, asked: Asked, sink: &mut Sink<'_>) {
        self.open.insert(question.id.clone(), asked);
        sink(Event::own(EventKind::PermissionAsked { question, expires_at: 0 }));
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
        let allowed = Allowed::Change(change.path.clone(), change.content.clone());
        let ruling = Ruling::new(self.settings.permit.as_ref(), Permit::refuses_changes);
        self.decide(question, Asked::Change(change), &allowed, ruling, sink)
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
        let ruling = Ruling::new(self.settings.permit.as_ref(), Permit::refuses_commands);
        self.decide(question, Asked::Command(line), &Allowed::Command(text), ruling, sink)
    }

    /// Decides by the member's permissions or an earlier approval, or asks a person.
    fn decide(
        &mut self,
        question: PermissionQuestion,
        asked: Asked,
        allowed: &Allowed,
        ruling: Ruling,
        sink: &mut Sink<'_>,
    ) -> Input {
        let id: Value = serde_json::from_str(&question.id).unwrap_or_default();
        if let Ruling::Refused(why) = ruling {
            self.deny(&format!("{}: {why}", question.summary), sink);
            return refuse(&id, &Refusal::new(FAILED, format!("refused: {why}")));
        }
        let known = self.allowed.iter().position(|it| it == allowed);
        if ruling == Ruling::Allowed || known.is_some() {
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
    fn act(&mut self, id: &Value, asked: Asked, decision: Decision, sink: &mut Sink<'_>) -> Input {
        let is_allowed = decision == Decision::Allowed;
        let done = match asked {
            Asked::Tool(options, allowed) => {
                if is_allowed {
                    self.allowed.extend(allowed);
                    self.note_missing_option(&options, sink);
                } else {
                    self.reader.end_refused(&options.call, sink);
                }
                return answer(id, options, decision);
            }
            Asked::Change(_) | Asked::Command(_) if !is_allowed => {
                Err(Refusal::new(FAILED, "refused by the user"))
            }
            Asked::Change(change) => self.client.write(&change, sink),
            Asked::Command(line) => self.client.create(&line, sink),
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

    fn question(&self, id: &Value, call: &Call) -> PermissionQuestion {
        let is_titled = self.settings.title_is_command && call.kind.as_deref() == Some("execute");
        let titled = call.title().filter(|_| is_titled).map(str::to_owned);
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
    fn withdraw(&mut self, id: &Value, sink: &mut Sink<'_>) -> Input {
        if self.open.remove(&id.to_string()).is_none() {
            return Input::nothing();
        }
        let (answer, by) = (PermissionAnswer::Never, AnsweredBy::Withdrawn);
        sink(Event::own(EventKind::PermissionAnswered { id: id.to_string(), answer, by }));
        respond(id, "error", &json!({ "code": WITHDRAWN, "message": "withdrawn" }))
    }
}

impl Dialogue for Session {
    fn open(&mut self) -> Input {
        let client = json!({ "name": "convoke", "version": env!("CARGO_PKG_VERSION") });
        let params = json!({
            "protocolVersion": VERSION,
            "clientCapabilities": self.client.capabilities(),
            "clientInfo": client,
        });
        self.request(Step::Initialize, "initialize", &params)
    }

    fn line(&mut self, line: &[u8], sink: &mut Sink<'_>) -> Input {
        let line = self.reader.text_of(line).into_owned();
        match Message::parse(&line) {
            Some(Message::Request { id, method, params }) => {
                self.on_request(&id, &method, &params, &line, sink)
            }
            Some(Message::Notification { method, params }) => {
                self.on_notification(&method, &params, &line, sink)
            }
            Some(Message::Response { id, outcome }) if id == self.waiting => match outcome {
                Ok(result) => self.on_result(&result, sink),
                Err(error) => self.on_error(&error, sink),
            },
            Some(Message::Response { .. }) => Input::nothing(),
            None => {
                self.reader.noise(&line);
                Input::nothing()
            }
        }
    }

    fn reader(&self) -> &dyn Reader {
        &self.reader
    }

    fn reader_mut(&mut self) -> &mut dyn Reader {
        &mut self.reader
    }

    fn equip(&mut self, access: HostAccess<'_>) -> io::Result<()> {
        self.client.equip(access)
    }

    fn answer(&mut self, question: &str, decision: Decision, sink: &mut Sink<'_>) -> Input {
        let Some(asked) = self.open.remove(question) else { return Input::nothing() };
        let id = serde_json::from_str(question).unwrap_or_default();
        self.act(&id, asked, decision, sink)
    }

    fn poll_wake(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.client.poll_ended(context)
    }

    fn wake(&mut self, sink: &mut Sink<'_>) -> Input {
        let responses = self.client.ended(sink).into_iter();
        let responses = responses.flat_map(|(id, status)| respond(&id, "result", &status).bytes);
        Input::more(responses.collect())
    }

    fn end_commands(&mut self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        self.client.end_all()
    }

    fn finish(&mut self, ending: &Ending<'_>, sink: &mut Sink<'_>) -> TurnResult {
        if let Some(note) = self.client.finish(sink) {
            self.reader.warn(note, sink);
        }
        self.reader.finish(ending, sink)
    }

    fn interrupt(&mut self) -> Option<Input> {
        self.is_cancelling = true;
        self.client.kill_all();
        let session = self.id.as_ref().filter(|_| self.step == Step::Prompt)?;
        let params = json!({ "sessionId": session });
        Some(write(&json!({ "jsonrpc": "2.0", "method": "session/cancel", "params": params })))
    }

    fn silence_limit(&self) -> Option<Duration> {
        match self.step {
            Step::Initialize | Step::Session | Step::Choose => Some(START_TIMEOUT),
            Step::Repeating => Some(REPLAY_SILENCE),
            Step::Prompt => None,
        }
    }

    fn exit_limit(&self) -> Option<Duration> {
        Some(EXIT_LIMIT)
    }

    fn on_silence(&mut self) -> Option<Input> {
        (self.step == Step::Repeating).then(|| self.send_next())
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

fn respond(id: &Value, field: &str, value: &Value) -> Input {
    write(&json!({ "jsonrpc": "2.0", "id": id, field: value }))
}

fn write(message: &Value) -> Input {
    Input::more(format!("{message}\n").into_bytes())
}
