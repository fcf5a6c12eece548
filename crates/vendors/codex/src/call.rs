//! Codex, over `app-server` or `exec --json`.
//!
//! `app-server` is the default: it takes a system text of any size on standard input, in all known versions,
//! while `exec` takes it from an argument or from the user's configuration. Both pass text through unchanged;
//! neither scans it for commands or files.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::PathBuf;
use std::task::{self, Poll};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use convoke_core::Diagnostic;
use convoke_files::{Disk, FileKind, Files as _};
use convoke_protocol::image::Image;
use convoke_protocol::verdict::{Failure, FailureReason, Verdict};
use serde_json::{Value, json};

use super::arguments::GivenArguments;
use super::question::{Questions, refusal};
use super::stream::app::{CodexApp, Message};
use super::stream::exec::CodexExec;
use super::thread::{ContinuedThread, Mark, ThreadState, mark};
use super::{SQLITE_DIRECTORY, provider};
use convoke_agent::adapter::{Context, OneShot, ProgramCall, start_failure};
use convoke_agent::config::Protocol;
use convoke_agent::diagnostics;
use convoke_agent::process::{Decision, Dialogue, Input, NextTurn};
use convoke_agent::stream::{EventReader, Sink, TurnPhase, reason_in_words};
use convoke_agent::team_tools::SERVER;
use convoke_agent::turn_input::{Permissions, Trust, TurnInput};

/// Settings that keep the program from connecting to anything but its model. Unknown settings are ignored.
const QUIET: &[&str] = &[
    "analytics.enabled=false",
    "check_for_update_on_startup=false",
    "features.remote_models=false",
    "features.plugins=false",
    "features.apps=false",
    "features.remote_plugin=false",
    // Snapshots are scripts that all running sessions read, so the sandbox does not let an agent write them.
    "features.shell_snapshot=false",
];

/// Prepares a call.
pub(super) fn call(context: &Context<'_>) -> Result<ProgramCall, Failure> {
    let given = GivenArguments::read(context)?;
    let mut args: Vec<OsString> = given.rest.iter().map(OsString::from).collect();
    let retries = provider::retry_limit(context, &args);
    let mut set = |setting: &str| args.extend(["-c", setting].map(OsString::from));
    for setting in QUIET {
        set(setting);
    }
    for setting in &retries.settings {
        set(setting);
    }
    if context.permissions() == Permissions::EditAndNetwork && !context.enforcer.is_kernel() {
        set("sandbox_workspace_write.network_access=true");
    }
    for setting in team_tools(context) {
        set(&setting);
    }
    match context.definition.protocol {
        Protocol::AppServer => Ok(app_server(context, given, args, retries.requests)),
        Protocol::Exec => exec(context, &given, args, retries.requests),
    }
}

/// Returns the settings that configure the team tools. The secret of the turn stays in the environment, which
/// the program passes on by name.
fn team_tools(context: &Context<'_>) -> Vec<String> {
    let Some(server) = &context.team_server else { return Vec::new() };
    // JSON strings and lists are valid TOML.
    let names = server.env.iter().map(|(name, _)| Value::from(*name)).collect::<Value>();
    let seconds = context.turn_input.limits.turn.as_secs();
    [
        format!("command={}", Value::from(server.command_text())),
        format!("args={}", json!(server.args)),
        format!("env_vars={names}"),
        format!("tool_timeout_sec={seconds}"),
        "default_tools_approval_mode=\"approve\"".to_owned(),
    ]
    .map(|setting| format!("mcp_servers.{SERVER}.{setting}"))
    .into()
}

/// What Codex logs.
const LOG: &str = "error,codex_core::responses_retry=warn,codex_api::sse=debug";

/// Makes Codex log what no event reports, the delay before a retry and items that it passes over, and keep its databases in a
/// separate directory, because it may not create files beside its configuration.
pub(super) fn environment(context: &Context<'_>) -> Vec<(OsString, OsString)> {
    let mut env = vec![("RUST_LOG", LOG.into())];
    let confined = context.enforcer.is_kernel() && context.permissions() < Permissions::Full;
    if let Some(home) = provider::home(context).filter(|_| confined) {
        env.push(("CODEX_SQLITE_HOME", home.join(SQLITE_DIRECTORY).into_os_string()));
    }
    let team = context.team_server.iter().flat_map(|server| server.env.clone());
    env.extend(team);
    let own = env.into_iter().filter(|(name, _)| context.variable(name).is_none());
    own.map(|(name, value)| (name.into(), value)).collect()
}

/// Returns the program's own sandbox mode: none inside ours, where it cannot start.
fn sandbox(context: &Context<'_>) -> &'static str {
    match context.permissions() {
        _ if context.enforcer.is_kernel() => "danger-full-access",
        Permissions::ReadOnly => "read-only",
        Permissions::Ask | Permissions::Edit | Permissions::EditAndNetwork => "workspace-write",
        Permissions::Full => "danger-full-access",
    }
}

fn exec(
    context: &Context<'_>,
    given: &GivenArguments,
    settings: Vec<OsString>,
    requests: u64,
) -> Result<ProgramCall, Failure> {
    let turn_input = context.turn_input;
    if turn_input.system.is_some() {
        return Err(start_failure(
            "`codex exec` takes a system text only as an argument; use the app-server protocol",
        ));
    }
    let mut args: Vec<OsString> = vec!["exec".into()];
    let sandbox = sandbox(context);
    if context.resume().is_some() {
        // All settings follow `resume`, because one version ignores those before it.
        args.push("resume".into());
        let mode = format!("sandbox_mode=\"{sandbox}\"");
        args.extend(["-c", &mode].map(OsString::from));
    } else {
        args.extend(["-s", sandbox].map(OsString::from));
    }
    args.extend(settings);
    let mut diagnostics: Vec<Diagnostic> =
        byte_order_mark(&turn_input.prompt).into_iter().collect();
    if context.permissions() > Permissions::ReadOnly || is_withheld(context) {
        args.extend(["-c", &trust_level(turn_input)].map(OsString::from));
        diagnostics.extend((turn_input.trust == Trust::Untrusted).then(unread_instructions));
    }
    args.extend(["--json", "--skip-git-repo-check"].map(OsString::from));
    if let Some(model) = context.model().or(given.model.as_deref()) {
        args.extend(["-m", model].map(OsString::from));
    }
    args.extend(images(context)?);
    args.extend(context.resume().map(OsString::from));
    args.push("-".into());
    let reader = CodexExec::new(turn_input.limits.reply_bytes).counting(requests);
    let dialogue = OneShot::new(reader, turn_input.prompt.as_str());
    Ok(ProgramCall { diagnostics, ..program_call(context, args, dialogue) })
}

/// Returns the arguments that name the images, which are written into the turn's private directory.
fn images(context: &Context<'_>) -> Result<Vec<OsString>, Failure> {
    let images = context.turn_input.images.iter().zip(1..);
    let options = images.map(|(image, number)| {
        let extension = image.media_type.rsplit('/').next().unwrap_or_default();
        let bytes = STANDARD.decode(&image.data).map_err(|error| {
            start_failure(format!("the image `{}` cannot be read: {error}", image.path))
        })?;
        let path = context.write_private(&format!("image-{number}.{extension}"), bytes)?;
        let mut option = OsString::from("--image=");
        option.push(path);
        Ok(option)
    });
    options.collect()
}

fn program_call(
    context: &Context<'_>,
    args: Vec<OsString>,
    dialogue: impl Dialogue + 'static,
) -> ProgramCall {
    ProgramCall {
        env: environment(context),
        counts_sessions: true,
        addresses: vec![provider::config_text(context)],
        ..ProgramCall::new(args, dialogue)
    }
}

/// Returns the setting for the directory's trust. Without it, newer versions with write permission mark the
/// directory as trusted in the user's configuration.
fn trust_level(turn_input: &TurnInput) -> String {
    let cwd = turn_input.cwd.canonicalize().unwrap_or_else(|_| turn_input.cwd.clone());
    // A JSON string is a valid TOML string.
    let cwd = Value::from(cwd.to_string_lossy());
    let level = match turn_input.trust {
        Trust::Trusted => "trusted",
        Trust::Untrusted => "untrusted",
    };
    format!("projects={{{cwd}={{trust_level=\"{level}\"}}}}")
}

/// Returns whether the arguments must mark the directory as untrusted, because the user's own configuration may
/// trust it. A directory that the configuration does not mention is untrusted anyway.
fn is_withheld(context: &Context<'_>) -> bool {
    context.turn_input.trust == Trust::Untrusted && provider::may_contain(context, "trust_level")
}

/// Returns the files with rules that allow commands: the user's own, and those of a trusted project. No setting
/// turns them off.
fn rule_files(context: &Context<'_>) -> Vec<PathBuf> {
    let is_trusted = context.turn_input.trust == Trust::Trusted;
    let projects = is_trusted.then(|| context.turn_input.cwd.join(".codex"));
    let directories = provider::home(context).into_iter().chain(projects);
    let directories = directories.map(|directory| directory.join("rules"));
    let is_there = |error: &io::Error| error.kind() != io::ErrorKind::NotFound;
    let files = directories.flat_map(|directory| match Disk.names(&directory) {
        Ok(names) => {
            let files = names.into_iter().map(|name| directory.join(name));
            files
                .filter(|path| path.extension().is_some_and(|it| it == "rules"))
                .collect::<Vec<_>>()
        }
        // The program may read what Convoke cannot.
        Err(error) if is_there(&error) => vec![directory],
        Err(_) => Vec::new(),
    });
    let allows = |path: &PathBuf| match Disk.read_text(path, FileKind::CommandRules) {
        // A rule without a decision allows.
        Ok(text) => text.split("prefix_rule").skip(1).any(|rule| {
            !rule.contains("decision") || rule.contains("\"allow\"") || rule.contains("'allow'")
        }),
        Err(error) => is_there(&error),
    };
    files.filter(allows).collect()
}

fn unread_instructions() -> Diagnostic {
    let message = "Codex runs with this directory as untrusted; versions that ask for trust do not read its \
                   AGENTS.md files";
    Diagnostic::new(diagnostics::AGENT_INSTRUCTIONS_UNREAD, message)
}

/// Returns a diagnostic if `exec` drops a byte order mark at the start of its input.
fn byte_order_mark(prompt: &str) -> Option<Diagnostic> {
    prompt.starts_with('\u{feff}').then(|| {
        let message = "`codex exec` drops the byte order mark at the start of the prompt";
        Diagnostic::new(diagnostics::AGENT_TEXT_NOT_INERT, message).with_bytes(3)
    })
}

/// The variable of the key, which `exec` reads and `app-server` does not.
const KEY: &str = "CODEX_API_KEY";
/// Keeps credentials in memory, so that the user's own are neither read nor written.
const KEY_IN_MEMORY: &str = "cli_auth_credentials_store=\"ephemeral\"";

fn app_server(
    context: &Context<'_>,
    given: GivenArguments,
    mut args: Vec<OsString>,
    requests: u64,
) -> ProgramCall {
    let turn_input = context.turn_input;
    let key = context.variable(KEY).and_then(OsStr::to_str).filter(|key| !key.is_empty());
    if key.is_some() {
        args.extend(["-c", KEY_IN_MEMORY].map(OsString::from));
    }
    let mut diagnostics = Vec::new();
    if is_withheld(context) {
        args.extend(["-c", &trust_level(turn_input)].map(OsString::from));
        diagnostics.push(unread_instructions());
    }
    args.push("app-server".into());
    if turn_input.system.is_some() && turn_input.resume.is_some() {
        let message = "a resumed codex session may keep its first system text";
        diagnostics.push(Diagnostic::new(diagnostics::AGENT_SYSTEM_KEPT, message));
    }
    // The program uses its working directory by default. If it is given explicitly, newer versions mark it as
    // trusted in the user's configuration, and from then on run what the project configures.
    let moved = turn_input.resume.as_ref().filter(|handle| handle.cwd != turn_input.cwd);
    let asks = context.permissions() == Permissions::Ask;
    if asks {
        diagnostics.extend(convoke_agent::adapter::program_rules("codex", &rule_files(context)));
    }
    let thread = json!({
        "cwd": moved.map(|_| &turn_input.cwd),
        "approvalPolicy": if asks { "untrusted" } else { "never" },
        "sandbox": sandbox(context),
        "developerInstructions": turn_input.system,
        "model": context.model().or(given.model.as_deref()),
    });
    let used = turn_input.resume.as_ref().and_then(|handle| handle.used).unwrap_or_default();
    let dialogue = Conversation {
        reader: CodexApp::new(turn_input.limits.reply_bytes).after(used).counting(requests),
        prompt: turn_input.prompt.clone(),
        images: turn_input.images.clone(),
        key: key.map(str::to_owned),
        schema: given.schema,
        thread,
        continued: context.resume().map(|session| ContinuedThread::new(context, session)),
        model: None,
        requests,
        stays: turn_input.memory.is_some() && turn_input.team_tools.is_none(),
        turns: 0,
        names: None,
        questions: asks.then(Questions::default),
    };
    ProgramCall { diagnostics, ..program_call(context, args, dialogue) }
}

/// The ids of our requests.
const INITIALIZE: u64 = 1;
const THREAD: u64 = 2;
const TURN: u64 = 3;
const INTERRUPT: u64 = 4;
const SIGN_IN: u64 = 5;
const ROLL_BACK: u64 = 6;

/// The fields of a response.
struct Answered {
    thread: Option<String>,
    model: Option<String>,
    turn: Option<String>,
    turns: Vec<String>,
}

struct Conversation {
    reader: CodexApp,
    prompt: String,
    images: Vec<Image>,
    /// The key to sign in with; `None` for the user's own sign-in.
    key: Option<String>,
    /// The schema of the reply.
    schema: Option<Value>,
    thread: Value,
    /// The thread to continue; `None` starts one.
    continued: Option<ContinuedThread>,
    /// The model of the thread.
    model: Option<String>,
    /// The number of requests per reported failure.
    requests: u64,
    /// Whether the program stays for another turn.
    stays: bool,
    /// The number of earlier turns of the thread.
    turns: usize,
    /// The thread and the turn, once they have started.
    names: Option<(String, Option<String>)>,
    /// The permission questions; `None` if the agent does not ask.
    questions: Option<Questions>,
}

impl Conversation {
    fn answered(&mut self, line: &[u8], id: u64, answer: Answered, sink: &mut Sink<'_>) -> Input {
        let Answered { thread, model, turn, turns } = answer;
        match id {
            INITIALIZE => {
                if let Some(questions) = &mut self.questions {
                    questions.greet(line);
                }
                self.reader.progress_mut().version = version(line);
                let initialized = message(&json!({ "method": "initialized" }));
                let next = match self.key.take() {
                    Some(key) => {
                        let params = json!({ "type": "apiKey", "apiKey": key });
                        request(SIGN_IN, "account/login/start", &params)
                    }
                    None => self.begin_thread(),
                };
                Input::more([initialized, next].concat())
            }
            SIGN_IN => Input::more(self.begin_thread()),
            THREAD => {
                let Some(thread) = thread else {
                    return self.give_up(FailureReason::Other, "codex did not start a thread");
                };
                self.model = model;
                self.on_thread(thread, &turns, sink)
            }
            ROLL_BACK => {
                let Some((thread, _)) = self.names.take() else { return Input::nothing() };
                self.start_turn(thread, sink)
            }
            TURN => {
                self.reader.progress_mut().mark = turn.as_deref().map(|id| mark(id, self.turns));
                if let Some((_, name)) = &mut self.names {
                    *name = turn;
                }
                Input::nothing()
            }
            _ => Input::nothing(),
        }
    }

    fn begin_thread(&mut self) -> Vec<u8> {
        let mut params = self.thread.clone();
        let Some(continued) = &self.continued else {
            return request(THREAD, "thread/start", &params);
        };
        params["threadId"] = json!(continued.session);
        match &continued.state {
            ThreadState::Branched(mark) => {
                if let Mark::Turn(turn) = mark {
                    params["lastTurnId"] = json!(turn);
                }
                request(THREAD, "thread/fork", &params)
            }
            ThreadState::Any | ThreadState::At(_) => request(THREAD, "thread/resume", &params),
        }
    }

    /// Starts the turn, once the thread is as it was after the turn that it continues.
    fn on_thread(&mut self, thread: String, turns: &[String], sink: &mut Sink<'_>) -> Input {
        let state = self.continued.as_ref().map(|it| &it.state);
        let surplus = match state {
            None | Some(ThreadState::Any) => Some(0),
            Some(ThreadState::At(mark) | ThreadState::Branched(mark)) => mark.surplus(turns),
        };
        let Some(surplus) = surplus else {
            let message = "the thread is not as it was: its last turn is missing";
            return self.give_up(FailureReason::Session, message);
        };
        self.turns = turns.len() - surplus;
        if surplus == 0 {
            return self.start_turn(thread, sink);
        }
        if let Some(ThreadState::At(mark @ Mark::Turn(_))) = state {
            // A version whose turns have ids does not roll back.
            let state = ThreadState::Branched(mark.clone());
            self.continued = Some(ContinuedThread { session: thread, state });
            return Input::more(self.begin_thread());
        }
        let params = json!({ "threadId": thread, "numTurns": surplus });
        self.names = Some((thread, None));
        Input::more(request(ROLL_BACK, "thread/rollback", &params))
    }

    fn start_turn(&mut self, thread: String, sink: &mut Sink<'_>) -> Input {
        self.reader.thread_is(&thread, self.model.clone(), sink);
        let prompt = std::mem::take(&mut self.prompt);
        let images = std::mem::take(&mut self.images);
        let images = images.iter();
        let images = images.map(|it| json!({ "type": "image", "url": it.data_url() }));
        let text = json!({ "type": "text", "text": prompt });
        let input: Value = images.chain([text]).collect();
        let mut params = json!({ "threadId": thread, "input": input });
        if let Some(schema) = self.schema.clone() {
            params["outputSchema"] = schema;
        }
        self.names = Some((thread, None));
        Input::more(request(TURN, "turn/start", &params))
    }

    fn give_up(&mut self, reason: FailureReason, message: &str) -> Input {
        self.reader.fail(Failure::new(reason, message));
        Input::last(Vec::new())
    }
}

impl Dialogue for Conversation {
    fn open(&mut self) -> Input {
        let client =
            json!({ "name": "convoke", "title": "Convoke", "version": env!("CARGO_PKG_VERSION") });
        let params = json!({ "clientInfo": client });
        Input::more(request(INITIALIZE, "initialize", &params))
    }

    fn line(&mut self, line: &[u8], sink: &mut Sink<'_>) -> Input {
        if let Some(questions) = &mut self.questions {
            questions.notice(line, sink);
        }
        let reply = match self.reader.message(line, sink) {
            Message::Answer { id, thread, model, turn, turns } => {
                self.answered(line, id, Answered { thread, model, turn, turns }, sink)
            }
            Message::Refusal { id: INTERRUPT, .. } | Message::Nothing => Input::nothing(),
            Message::Refusal { id: SIGN_IN, message } => {
                self.give_up(FailureReason::SignedOut, &message)
            }
            Message::Refusal { message, .. } => {
                let reason = reason_in_words(&message).unwrap_or(FailureReason::Other);
                self.give_up(reason, &message)
            }
            Message::Request { id, method } => {
                let is_cut = self.reader.progress().is_line_cut();
                let questions = self.questions.as_mut().filter(|_| !is_cut);
                let is_asked = questions.is_some_and(|it| it.ask(&id, line, sink));
                for note in self.questions.iter_mut().flat_map(|it| it.notes.drain(..)) {
                    self.reader.progress_mut().warn(note, sink);
                }
                if is_asked { Input::nothing() } else { Input::more(refusal(&id, &method)) }
            }
        };
        if self.reader.phase() == TurnPhase::Over && !self.is_at_rest() {
            return Input::last(Vec::new());
        }
        reply
    }

    fn next_turn(&mut self, turn: NextTurn<'_>, sink: &mut Sink<'_>) -> Input {
        let Some((thread, _)) = self.names.take() else {
            return self.give_up(FailureReason::Session, "codex has no thread to continue");
        };
        let version = self.reader.progress().version.clone();
        let reader = CodexApp::new(turn.reply_bytes).after(turn.used.unwrap_or_default());
        self.reader = reader.counting(self.requests);
        self.reader.progress_mut().version = version;
        turn.prompt.clone_into(&mut self.prompt);
        turn.images.clone_into(&mut self.images);
        self.turns += 1;
        self.start_turn(thread, sink)
    }

    fn is_at_rest(&self) -> bool {
        self.stays && self.reader.progress().closing == Some(Verdict::Done)
    }

    fn answer(&mut self, question: &str, answer: Decision, _sink: &mut Sink<'_>) -> Input {
        let questions = self.questions.as_mut();
        Input::more(questions.map_or_else(Vec::new, |it| it.answer(question, answer)))
    }

    fn poll_wake(&mut self, context: &mut task::Context<'_>) -> Poll<()> {
        self.questions.as_mut().map_or(Poll::Pending, |questions| questions.poll_due(context))
    }

    fn wake(&mut self, sink: &mut Sink<'_>) -> Input {
        if let Some(questions) = &mut self.questions {
            questions.put_due(sink);
        }
        Input::nothing()
    }

    fn interrupt(&mut self) -> Option<Input> {
        let (thread, turn) = self.names.as_ref()?;
        let params = json!({ "threadId": thread, "turnId": turn.as_ref()? });
        let waiting = self.questions.as_mut().map_or_else(Vec::new, Questions::cancel_waiting);
        let interrupt = request(INTERRUPT, "turn/interrupt", &params);
        Some(Input::more([waiting, interrupt].concat()))
    }

    fn reader(&self) -> &dyn EventReader {
        &self.reader
    }

    fn reader_mut(&mut self) -> &mut dyn EventReader {
        &mut self.reader
    }
}

/// Returns the version in the name of a server, `convoke/0.98.0 (…)`.
fn version(line: &[u8]) -> Option<String> {
    let line: Value = serde_json::from_slice(line).ok()?;
    let name = line["result"]["userAgent"].as_str()?;
    let (_, version) = name.split_once('/')?;
    version.split_whitespace().next().map(str::to_owned)
}

fn request(id: u64, method: &str, params: &Value) -> Vec<u8> {
    message(&json!({ "id": id, "method": method, "params": params }))
}

fn message(message: &Value) -> Vec<u8> {
    format!("{message}\n").into_bytes()
}
