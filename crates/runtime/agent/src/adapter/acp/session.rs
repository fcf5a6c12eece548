//! One turn over ACP: initialize, open a session, set mode and model, send the prompt, and answer requests.

mod question;

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use convoke_core::Diagnostic;
use convoke_protocol::image::Image;
use convoke_protocol::verdict::{Failure, FailureReason, Verdict};
use serde_json::{Value, json};

use self::question::{ApprovedAction, QuestionSubject};
use super::choice::{Choice, ChoiceLookup};
use super::client::{Client, ClientSettings};
use super::inert;
use super::permit::Permit;
use crate::adapter::unseen_images;
use crate::diagnostics;
use crate::ending::Ending;
use crate::process::{Decision, Dialogue, HostAccess, Input, NextTurn};
use crate::stream::acp::{Acp, Message, failure};
use crate::stream::{EventReader, Sink};
use crate::turn::TurnResult;

/// The supported protocol version. If asked for a newer one, some agents respond in a draft of it.
const VERSION: u64 = 1;
/// The longest silence before the session is open. Programs take up to 5 seconds to start.
const START_TIMEOUT: Duration = Duration::from_mins(2);
/// The silence after which a loaded session has finished repeating its history. Some agents repeat it after
/// their response.
const REPLAY_SILENCE: Duration = Duration::from_millis(500);
/// The time limit for a program to exit after its turn. The slowest takes 2 seconds.
const EXIT_LIMIT: Duration = Duration::from_millis(2500);

/// The settings of a turn over ACP.
#[derive(Debug, Default)]
pub struct SessionSettings {
    /// The text blocks of the prompt.
    pub prompt: Vec<String>,
    /// The images before the prompt.
    pub images: Vec<Image>,
    /// The working directory.
    pub cwd: PathBuf,
    /// The session to resume.
    pub resume: Option<String>,
    /// Whether a new session is no substitute for it, because the prompt has only what is new.
    pub must_resume: bool,
    /// Whether the program stays for another turn.
    pub stays: bool,
    /// The text that follows every prompt.
    pub tail: Option<&'static str>,
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
    takes_images: bool,
    id: Option<String>,
    /// Whether the session repeats its history when it is opened.
    repeats_history: bool,
    /// The requests that set mode and model.
    choices: VecDeque<(&'static str, Value)>,
    /// The open questions, by request id as JSON.
    open: HashMap<String, QuestionSubject>,
    /// The actions that a person allowed and the agent has not taken yet.
    allowed: Vec<ApprovedAction>,
    client: Client,
    is_cancelling: bool,
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
            takes_images: false,
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
                if self.is_at_rest() { Input::nothing() } else { Input::last(Vec::new()) }
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
        self.takes_images = abilities["promptCapabilities"]["image"] == true;
        self.leave_unseen_images(sink);
        let can_resume = !abilities["sessionCapabilities"]["resume"].is_null();
        let can_load = abilities["loadSession"] == true;
        let mut params = json!({ "cwd": self.settings.cwd, "mcpServers": self.settings.servers });
        if let Some(meta) = &self.settings.meta {
            params["_meta"] = meta.clone();
        }
        if self.settings.must_resume && self.settings.resume.is_some() && !(can_resume || can_load)
        {
            let message = "the agent cannot continue an earlier session";
            return self.fail(Failure::new(FailureReason::Session, message), sink);
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
                ChoiceLookup::Current => continue,
                ChoiceLookup::Request(method, params) => {
                    self.choices.push_back((method, params));
                    continue;
                }
                ChoiceLookup::Missing(others) => {
                    let others = others.join(", ");
                    let word = choice.as_str();
                    (format!("the agent has no {word} `{name}`; it has {others}"), is_required)
                }
                ChoiceLookup::NoChoice => {
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

    /// Leaves the images out if the agent takes none.
    fn leave_unseen_images(&mut self, sink: &mut Sink<'_>) {
        if self.takes_images {
            return;
        }
        let images = std::mem::take(&mut self.settings.images);
        if let Some(unseen) = unseen_images(&images, "the agent takes no images") {
            self.reader.warn(unseen, sink);
        }
    }

    /// Sends the next request: a choice, else the prompt.
    fn send_next(&mut self) -> Input {
        let session = self.id.clone().unwrap_or_default();
        if let Some((method, mut params)) = self.choices.pop_front() {
            params["sessionId"] = session.into();
            return self.request(Step::Choose, method, &params);
        }
        let prompt = std::mem::take(&mut self.settings.prompt);
        let texts = prompt.iter().map(|text| json!({ "type": "text", "text": text }));
        let images = std::mem::take(&mut self.settings.images);
        let images = images.iter().map(|Image { media_type, data, .. }| {
            json!({ "type": "image", "mimeType": media_type, "data": data })
        });
        // Some programs scan the last block.
        let blocks: Value = images.chain(texts).collect();
        let params = json!({ "sessionId": session, "prompt": blocks });
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

    fn next_turn(&mut self, turn: NextTurn<'_>, sink: &mut Sink<'_>) -> Input {
        let session = self.id.clone().unwrap_or_default();
        let model = self.settings.model.clone().or_else(|| self.settings.started_model.clone());
        self.reader = self.reader.for_next_turn(turn.reply_bytes);
        self.reader.begin(&session, false, model.as_deref(), sink);
        let (blocks, _) = inert::blocks(turn.prompt, self.settings.tail);
        self.settings.prompt = blocks.into_iter().map(Cow::into_owned).collect();
        turn.images.clone_into(&mut self.settings.images);
        self.leave_unseen_images(sink);
        self.send_next()
    }

    fn is_at_rest(&self) -> bool {
        let is_done = self.reader.progress().closing == Some(Verdict::Done);
        self.settings.stays && !self.is_cancelling && is_done && self.open.is_empty()
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

    fn reader(&self) -> &dyn EventReader {
        &self.reader
    }

    fn reader_mut(&mut self) -> &mut dyn EventReader {
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

fn respond(id: &Value, field: &str, value: &Value) -> Input {
    write(&json!({ "jsonrpc": "2.0", "id": id, field: value }))
}

fn write(message: &Value) -> Input {
    Input::more(format!("{message}\n").into_bytes())
}
