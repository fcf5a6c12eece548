//! Client methods of ACP: files below the working directory, and terminals.
//!
//! Off unless the member's settings ask for them. Only files that the sandbox shows to the agent are
//! accessible, and a command runs under the policy of the agent's own program.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::task::{Context, Poll};

use convoke_core::Diagnostic;
use convoke_core::variable::is_variable_name;
use convoke_files::beneath::{Beneath, BeneathFile, Outside};
use convoke_files::{FileKind, TooLarge};
use convoke_protocol::agent_event::{AgentEvent, AgentEventKind, FileChange};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::request::{ClientRequest, CommandLine, ReadRange};
use crate::adapter::unified;
use crate::diagnostics;
use crate::ending::Exit;
use crate::process::guardian::Guardian;
use crate::process::{HostAccess, Launch, OutputBounds, Terminal};
use crate::sandbox::Reach;
use crate::stream::Sink;
use crate::working_directory::WorkingDirectory;

/// The maximum number of commands that run at once.
const OPEN_TERMINALS: usize = 16;
/// The maximum number of terminals of a turn.
const MAX_TERMINALS: usize = 1 << 10;
/// The number of bytes kept from the end of an output, unless the agent asks for fewer.
const KEPT_OUTPUT: usize = 1 << 20;

/// JSON-RPC error codes: invalid parameters, a failure, and a missing file.
pub(super) const INVALID_PARAMS: i64 = -32602;
pub(super) const FAILED: i64 = -32603;
const NOT_FOUND: i64 = -32002;

/// The client methods offered to an agent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ClientSettings {
    /// Whether files can be read and written.
    pub files: bool,
    /// Whether commands can be run.
    pub terminal: bool,
    /// The output size at which a command is killed.
    pub output_bytes: u64,
    /// Whether a missing file reads as empty, because the agent's program treats the error as a failure.
    pub missing_is_empty: bool,
}

/// The client's side of a turn.
pub(super) struct Client {
    settings: ClientSettings,
    access: Option<Access>,
    terminals: BTreeMap<String, OpenTerminal>,
    ended: mpsc::Sender<String>,
    endings: mpsc::Receiver<String>,
    /// The ended terminals that were not handled yet.
    woken: Vec<String>,
    /// The number of the last event or terminal.
    number: usize,
    /// The number of commands that were killed because the turn ended.
    left: u64,
}

/// The member's directory, and how commands are started in it.
struct Access {
    root: Beneath,
    reach: Reach,
    launch: Launch,
    guardian: Guardian,
}

struct OpenTerminal {
    terminal: Terminal,
    /// The requests that wait for the terminal to end.
    waiting: Vec<Value>,
    is_released: bool,
    is_reported: bool,
}

/// The refusal of a request: a JSON-RPC code and a message for the agent.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub code: i64,
    pub message: String,
}

impl Refusal {
    pub fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    fn io(path: &Path, error: &io::Error) -> Self {
        let path = path.display();
        match TooLarge::from_error(error) {
            Some(too_large) => Self::new(FAILED, format!("`{path}` is {too_large}")),
            None => Self::new(FAILED, format!("`{path}`: {error}")),
        }
    }
}

/// A change to a file that was checked but not applied.
#[derive(Debug)]
pub(super) struct Change {
    pub path: PathBuf,
    pub content: String,
    /// The difference, for people.
    pub diff: String,
    is_new: bool,
}

impl Client {
    pub fn new(settings: ClientSettings) -> Self {
        let (ended, endings) = mpsc::channel(MAX_TERMINALS);
        Self {
            settings,
            access: None,
            terminals: BTreeMap::new(),
            ended,
            endings,
            woken: Vec::new(),
            number: 0,
            left: 0,
        }
    }

    pub fn equip(&mut self, access: HostAccess<'_>) -> io::Result<()> {
        if !self.settings.files && !self.settings.terminal {
            return Ok(());
        }
        let HostAccess { launch, guardian, reach } = access;
        self.access = Some(Access {
            root: launch.cwd.beneath()?,
            reach: reach.clone(),
            launch: launch.clone(),
            guardian: guardian.clone(),
        });
        Ok(())
    }

    /// Returns the capabilities for the agent.
    pub fn capabilities(&self) -> Value {
        let ClientSettings { files, terminal, .. } = self.settings;
        json!({ "fs": { "readTextFile": files, "writeTextFile": files }, "terminal": terminal })
    }

    pub fn offers(&self, request: &ClientRequest) -> bool {
        match request {
            ClientRequest::Read(..) | ClientRequest::Write { .. } => self.settings.files,
            _ => self.settings.terminal,
        }
    }

    fn access(&self) -> Result<&Access, Refusal> {
        self.access.as_ref().ok_or_else(|| Refusal::new(FAILED, "the program has not started"))
    }

    fn next_id(&mut self, kind: &str) -> String {
        self.number += 1;
        format!("client-{kind}-{}", self.number)
    }

    /// Reads a file.
    pub fn read(
        &mut self,
        path: &Path,
        range: ReadRange,
        sink: &mut Sink<'_>,
    ) -> Result<Value, Refusal> {
        let id = self.next_id("read");
        started(&id, "read_text_file", &json!({ "path": path }), sink);
        let text = self.access().and_then(|access| access.read(path));
        let text = match text {
            Ok(None) if self.settings.missing_is_empty => Ok(String::new()),
            Ok(None) => {
                let message = format!("`{}` does not exist", path.display());
                Err(Refusal::new(NOT_FOUND, message))
            }
            Ok(Some(text)) => Ok(range.select(text)),
            Err(refusal) => Err(refusal),
        };
        let output = match &text {
            Ok(text) => format!("{} bytes", text.len()),
            Err(refusal) => refusal.message.clone(),
        };
        finished(&id, text.is_ok(), &output, sink);
        text.map(|content| json!({ "content": content }))
    }

    /// Checks a change to a file without applying it.
    pub fn change(&self, path: &Path, content: String) -> Result<Change, Refusal> {
        let access = self.access()?;
        let file = access.find(path)?;
        let real = file.path();
        let in_git = real.strip_prefix(access.root.path()).is_ok_and(|below| {
            below.components().any(|part| part.as_os_str().eq_ignore_ascii_case(".git"))
        });
        if in_git || !access.reach.lets_change(&real) {
            let message =
                format!("`{}` was not changed, because it can name commands", path.display());
            return Err(Refusal::new(FAILED, message));
        }
        let kind = FileKind::ClientFile;
        convoke_files::limit::check(&real, kind, content.len() as u64)
            .map_err(|too_large| Refusal::io(path, &too_large.into()))?;
        let before = file.read(kind).map_err(|error| Refusal::io(path, &error))?;
        let is_new = before.is_none();
        let before = before.unwrap_or_default();
        let diff = unified(path, &String::from_utf8_lossy(&before), &content);
        Ok(Change { path: path.to_owned(), content, diff, is_new })
    }

    /// Applies a change.
    pub fn write(&mut self, change: &Change, sink: &mut Sink<'_>) -> Result<Value, Refusal> {
        let Change { path, content, diff, is_new } = change;
        let id = self.next_id("write");
        started(&id, "write_text_file", &json!({ "path": path }), sink);
        let written = self.access().and_then(|access| {
            // Looked up again, because a person may have taken time to answer.
            let file = access.find(path)?;
            file.write(content.as_bytes()).map_err(|error| Refusal::io(path, &error))
        });
        let output = written.as_ref().map_or_else(|refusal| &refusal.message, |()| diff);
        finished(&id, written.is_ok(), output, sink);
        if written.is_ok() {
            let path = path.to_string_lossy();
            let change = Cow::Borrowed(if *is_new { "add" } else { "update" });
            // The finished call reports the difference.
            let changes = vec![FileChange { path, change, diff: None }];
            sink(AgentEvent::own(AgentEventKind::FileChange { changes }));
        }
        written.map(|()| json!({}))
    }

    /// Starts a command.
    pub fn create(&mut self, line: &CommandLine, sink: &mut Sink<'_>) -> Result<Value, Refusal> {
        let running = self.terminals.values().filter(|it| it.terminal.exit().is_none()).count();
        if running >= OPEN_TERMINALS || self.terminals.len() >= MAX_TERMINALS {
            let message = format!("{running} commands are already running; end one of them");
            return Err(Refusal::new(FAILED, message));
        }
        let access = self.access()?;
        let mut launch = access.launch.clone();
        launch.cwd = access.directory(line.cwd.as_deref())?;
        (launch.program, launch.args) = line.program();
        if let Some((name, _)) = line.env.iter().find(|(name, _)| !is_variable_name(name)) {
            let message = format!("`{name}` is not a valid variable name");
            return Err(Refusal::new(INVALID_PARAMS, message));
        }
        if let Some(policy) = &mut launch.policy {
            // Not in the environment of the processes that confine the command, which it could affect.
            policy.env.clone_from(&line.env);
        } else {
            let env = line.env.iter().map(|(name, value)| (name.into(), value.into()));
            launch.env.extend(env);
        }
        let kept = line.kept.map_or(KEPT_OUTPUT, |asked| asked.min(KEPT_OUTPUT));
        let bounds = OutputBounds { kept, most: self.settings.output_bytes };
        let guardian = access.guardian.clone();
        let id = self.next_id("terminal");
        started(&id, "terminal", &json!({ "command": line.text() }), sink);
        let (ended, ended_id) = (self.ended.clone(), id.clone());
        let tell = move || {
            // The turn may be over.
            let _ = ended.try_send(ended_id);
        };
        let terminal = Terminal::start(launch, guardian, bounds, tell)
            .map_err(|error| Refusal::new(FAILED, format!("cannot start a command: {error}")))?;
        let open =
            OpenTerminal { terminal, waiting: Vec::new(), is_released: false, is_reported: false };
        self.terminals.insert(id.clone(), open);
        Ok(json!({ "terminalId": id }))
    }

    fn terminal(&mut self, id: &str) -> Result<&mut OpenTerminal, Refusal> {
        let open = self.terminals.get_mut(id).filter(|open| !open.is_released);
        open.ok_or_else(|| Refusal::new(INVALID_PARAMS, format!("unknown terminal `{id}`")))
    }

    /// Returns the output of a terminal.
    pub fn output(&mut self, id: &str) -> Result<Value, Refusal> {
        let terminal = &self.terminal(id)?.terminal;
        let (output, truncated) = terminal.output();
        let mut result = json!({ "output": output, "truncated": truncated });
        if let Some(exit) = terminal.exit() {
            result["exitStatus"] = exit_status(exit);
        }
        Ok(result)
    }

    /// Waits for a terminal to end; `None` if it is still running.
    pub fn wait(&mut self, id: &str, request: &Value) -> Result<Option<Value>, Refusal> {
        let open = self.terminal(id)?;
        let exit = open.terminal.exit().map(exit_status);
        if exit.is_none() {
            open.waiting.push(request.clone());
        }
        Ok(exit)
    }

    /// Kills the command of a terminal.
    pub fn kill(&mut self, id: &str) -> Result<Value, Refusal> {
        self.terminal(id)?.terminal.kill();
        Ok(json!({}))
    }

    /// Kills the command of a terminal, and removes the terminal once the command has ended.
    pub fn release(&mut self, id: &str) -> Result<Value, Refusal> {
        let open = self.terminal(id)?;
        open.terminal.kill();
        open.is_released = true;
        if open.is_reported {
            self.terminals.remove(id);
        }
        Ok(json!({}))
    }

    pub fn poll_ended(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.endings.poll_recv(context).map(|ended| self.woken.extend(ended))
    }

    /// Reports the terminals that have ended, and returns the requests that waited for them, with responses.
    pub fn ended(&mut self, sink: &mut Sink<'_>) -> Vec<(Value, Value)> {
        let mut responses = Vec::new();
        for id in std::mem::take(&mut self.woken) {
            let Some(open) = self.terminals.get_mut(&id) else { continue };
            let status = exit_status(open.terminal.exit().unwrap_or(Exit::Unknown));
            responses.extend(open.waiting.drain(..).map(|request| (request, status.clone())));
            open.report(&id, sink);
            if open.is_released {
                self.terminals.remove(&id);
            }
        }
        responses
    }

    /// Kills every command, because the turn ends.
    pub fn kill_all(&mut self) {
        for open in self.terminals.values_mut().filter(|open| open.terminal.exit().is_none()) {
            self.left += u64::from(!std::mem::replace(&mut open.is_released, true));
            open.terminal.kill();
        }
    }

    /// Kills every command, and waits until all have ended.
    pub fn end_all(&mut self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        self.kill_all();
        let ends: Vec<_> = self.terminals.values_mut().map(|open| open.terminal.end()).collect();
        Box::pin(async move {
            for end in ends {
                end.await;
            }
        })
    }

    /// Reports the remaining ended terminals, and returns a diagnostic if commands were left running.
    pub fn finish(&mut self, sink: &mut Sink<'_>) -> Option<Diagnostic> {
        for (id, open) in &mut self.terminals {
            open.report(id, sink);
        }
        let left = std::mem::take(&mut self.left);
        let message = format!("terminated commands that the agent left running: {left}");
        let note = Diagnostic::new(diagnostics::AGENT_PROCESSES_LEFT, message).with_count(left);
        (left > 0).then_some(note)
    }
}

impl OpenTerminal {
    /// Reports the end of a terminal, once.
    fn report(&mut self, id: &str, sink: &mut Sink<'_>) {
        if !std::mem::replace(&mut self.is_reported, true) {
            let is_success = self.terminal.exit() == Some(Exit::Code(0));
            finished(id, is_success, &self.terminal.output().0, sink);
        }
    }
}

impl Access {
    /// Returns a file that the agent may read, by path.
    fn find(&self, path: &Path) -> Result<BeneathFile<'_>, Refusal> {
        let given = path.display();
        let file = self.root.file(path).map_err(|Outside| {
            Refusal::new(INVALID_PARAMS, format!("`{given}` is not below the working directory"))
        })?;
        if !self.reach.shows(&file.path()) {
            return Err(Refusal::new(FAILED, format!("`{given}` holds the user's secrets")));
        }
        Ok(file)
    }

    fn read(&self, path: &Path) -> Result<Option<String>, Refusal> {
        let bytes = self.find(path)?.read(FileKind::ClientFile);
        let bytes = bytes.map_err(|error| Refusal::io(path, &error))?;
        let not_text = |_| Refusal::new(FAILED, format!("`{}` is not text", path.display()));
        bytes.map(|bytes| String::from_utf8(bytes).map_err(not_text)).transpose()
    }

    /// Returns the directory in which a command runs.
    fn directory(&self, given: Option<&Path>) -> Result<WorkingDirectory, Refusal> {
        let Some(given) = given else { return Ok(self.launch.cwd.clone()) };
        let real = self.root.path().join(given).canonicalize();
        let real = real.map_err(|error| Refusal::io(given, &error))?;
        if !real.starts_with(self.root.path()) {
            let message = format!("`{}` is not below the working directory", given.display());
            return Err(Refusal::new(INVALID_PARAMS, message));
        }
        WorkingDirectory::open(&real).map_err(|error| Refusal::io(given, &error))
    }
}

fn exit_status(exit: Exit) -> Value {
    match exit {
        Exit::Code(code) => json!({ "exitCode": code }),
        Exit::Signal(number) => {
            let name = Signal::try_from(number).map(|signal| signal.as_str().to_owned());
            json!({ "signal": name.unwrap_or_else(|_| number.to_string()) })
        }
        Exit::Dismissed | Exit::Resting | Exit::Unknown => json!({}),
    }
}

fn started(id: &str, name: &str, input: &Value, sink: &mut Sink<'_>) {
    let (id, name) = (Cow::Borrowed(id), Cow::Borrowed(name));
    sink(AgentEvent::own(AgentEventKind::ToolStarted {
        id,
        name,
        input: Cow::Owned(input.to_string()),
    }));
}

fn finished(id: &str, ok: bool, output: &str, sink: &mut Sink<'_>) {
    let (id, output) = (Cow::Borrowed(id), Cow::Borrowed(output));
    sink(AgentEvent::own(AgentEventKind::ToolFinished { id, ok, output }));
}
