//! A program that a person runs in their own terminal, while its requests are recorded.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use convoke_agent::launch::{OwnEnd, OwnProgram, own};
use convoke_agent::process::guardian::Guardian;
use convoke_agent::process::{PrivateDir, temp_root};
use convoke_agent::thread::ThreadStore;
use convoke_agent::turn::TurnSide;
use convoke_agent::turn_input::Trust;
use convoke_agent::{Agent, AgentTurn, TurnInput, TurnResult};
use convoke_core::Diagnostic;
use convoke_files::failpoint;
use convoke_protocol::id::ThreadId;
use convoke_protocol::verdict::{Failure, FailureReason, Verdict};
use convoke_redact::Redactor;
use convoke_relay::Relay;
use convoke_vendor::{MeasuredCli, UserHome};
use convoke_wire::Exchange;
use tokio::sync::mpsc::Receiver;
use tokio::sync::oneshot;

use super::ledger::HandedOver;
use super::relayed_program::{self, Reach, Redirect};
use super::turn_record::{Room, TurnRecord};
use super::{ProgramHome, Recording};
use crate::diagnostics;
use crate::host_environment::HostEnvironment;
use crate::installed::version_on_disk;

/// A program that is pointed to a relay, and has not started yet.
pub struct WatchedProgram {
    program: OwnProgram,
    vendor: &'static dyn MeasuredCli,
    version: Option<String>,
    /// The arguments that the person gave.
    arguments: Vec<String>,
    cwd: PathBuf,
    home: UserHome,
    redactor: Redactor,
    relay: Relay,
    exchanges: Receiver<Exchange>,
    /// The files that point it to the relay.
    private: PrivateDir,
}

/// The reason why a program cannot be watched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WatchError {
    /// No program was given.
    #[error("no program was given")]
    NoCommand,
    /// It is not installed.
    #[error("`{0}` was not found: install it, or give its path")]
    NotFound(String),
    /// Its endpoint cannot be set.
    #[error("the requests of `{program}` cannot be recorded: Convoke can watch {known}")]
    Unknown {
        program: String,
        /// The programs that can be watched.
        known: String,
    },
    /// An argument is not UTF-8.
    #[error("the argument `{0}` is not valid UTF-8")]
    NotText(String),
    /// Its endpoint cannot be relayed.
    #[error("the requests of {program} cannot be recorded: {reason}; start it without `watch`")]
    Endpoint { program: &'static str, reason: String },
    /// There is no private directory.
    #[error("cannot create a private directory")]
    Private(#[source] std::io::Error),
}

impl WatchedProgram {
    /// Finds the program of a command as a shell would, and points it to a relay to the endpoint that it would use.
    pub async fn prepare(
        command: &[OsString],
        host_environment: &HostEnvironment,
        guardian: Guardian,
    ) -> Result<Self, WatchError> {
        let (name, arguments) = command.split_first().ok_or(WatchError::NoCommand)?;
        let shown = |text: &OsStr| text.to_string_lossy().into_owned();
        let path = host_environment.program(name);
        let path = path.ok_or_else(|| WatchError::NotFound(shown(name)))?;
        let vendor = convoke_vendors::programs().cli_of(&path).and_then(convoke_vendors::measured);
        let vendor = vendor
            .ok_or_else(|| WatchError::Unknown { program: shown(name), known: known_programs() })?;
        let text = |word: &OsString| {
            word.to_str().map(str::to_owned).ok_or(WatchError::NotText(shown(word)))
        };
        let arguments = arguments.iter().map(text).collect::<Result<Vec<_>, _>>()?;
        let private = PrivateDir::create(&temp_root()).map_err(WatchError::Private)?;
        let env: Vec<_> = host_environment.environment.clone().into_iter().collect();
        let redactor = Redactor::for_env(&env);
        let program = relayed_program::Program {
            path: path.clone(),
            vendor,
            is_adapter: false,
            arguments: arguments.clone(),
            env,
            cwd: host_environment.cwd.clone(),
            // The program asks its user itself, and what it reads there decides where it sends its requests.
            trust: Trust::Trusted,
            reach: Reach::Anywhere,
            redirect: Redirect::Unseen,
            guardian,
        };
        let endpoint =
            |reason: String| WatchError::Endpoint { program: vendor.facts().command, reason };
        let relayed = program.relayed(private.path()).await.map_err(endpoint)?;
        relayed.check_key().map_err(|reason| endpoint(reason.to_owned()))?;
        let relayed_program::Relayed { relay, exchanges, pointed, .. } = relayed;
        let real = path.canonicalize().unwrap_or_else(|_| path.clone());
        Ok(Self {
            version: version_on_disk(&real, vendor),
            program: OwnProgram {
                name: name.clone(),
                path,
                args: pointed.arguments.into_iter().map(OsString::from).collect(),
                variables: pointed.env,
            },
            vendor,
            arguments,
            cwd: host_environment.cwd.clone(),
            home: host_environment.user_home(vendor),
            redactor: redactor.and_key(relay.secret()),
            relay,
            exchanges,
            private,
        })
    }

    /// Returns the command of the program, which is the name of its agent.
    pub fn agent(&self) -> &'static str {
        self.vendor.facts().command
    }

    /// Returns a redactor that knows the secrets of the environment and of the relay.
    pub fn redactor(&self) -> &Redactor {
        &self.redactor
    }

    /// Returns the command line as the person gave it, without secrets.
    pub fn command_line(&self) -> String {
        let name = self.program.name.to_string_lossy();
        let words = self.arguments.iter().map(String::as_str);
        let words = std::iter::once(&*name).chain(words).map(convoke_core::name::shell_word);
        self.redactor.redact(&words.collect::<Vec<_>>().join(" ")).into_owned()
    }

    /// Returns an agent whose one turn is the run of the program, and the end of that run.
    pub fn into_agent(
        self,
        store: Arc<dyn ThreadStore>,
        thread: ThreadId,
        max_disk: u64,
    ) -> (WatchingAgent, oneshot::Receiver<Watched>) {
        let (ended, end) = oneshot::channel();
        let run = WatchedRun { program: self, store, thread, max_disk, ended };
        (WatchingAgent(Mutex::new(Some(run))), end)
    }
}

/// Returns the programs that can be watched, for a message.
fn known_programs() -> String {
    convoke_vendors::clis().map(|cli| cli.facts().command).collect::<Vec<_>>().join(", ")
}

/// The end of a watched program.
#[derive(Debug)]
pub struct Watched {
    /// Its end; the error is why it did not start.
    pub end: std::io::Result<OwnEnd>,
    /// What was not recorded or not forwarded, and why.
    pub notes: Vec<String>,
}

/// An agent whose one turn is the run of a program in its user's terminal.
pub struct WatchingAgent(Mutex<Option<WatchedRun>>);

struct WatchedRun {
    program: WatchedProgram,
    store: Arc<dyn ThreadStore>,
    thread: ThreadId,
    max_disk: u64,
    ended: oneshot::Sender<Watched>,
}

impl Agent for WatchingAgent {
    fn start(&self, turn_input: TurnInput) -> AgentTurn {
        let (turn, side) = AgentTurn::open(Redactor::default());
        let run = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        tokio::spawn(async move {
            let Some(run) = run else {
                let why = "it was watched in its own terminal, and takes no message here";
                let failure = Failure::new(FailureReason::Start, why);
                return side.finish(TurnResult::failed(failure)).await;
            };
            run.watch(&turn_input, side).await;
        });
        turn
    }
}

impl WatchedRun {
    /// Runs the program to its end. Its requests are recorded beside it, so that an error of the record neither ends it nor
    /// keeps it waiting.
    async fn watch(self, turn_input: &TurnInput, side: TurnSide) {
        let Self { program, store, thread, max_disk, ended } = self;
        let WatchedProgram { vendor, version, redactor, relay, mut exchanges, private, .. } =
            program;
        let recording = Recording {
            vendor,
            version,
            store,
            thread,
            redactor,
            home: ProgramHome::Users(program.home),
        };
        let handed_over =
            HandedOver::by_person(program.arguments, &program.cwd, recording.program());
        let room = Room::Disk { max_bytes: max_disk };
        let record = TurnRecord::new(Arc::new(recording), handed_over, turn_input.attempt, room);
        let recording = tokio::spawn(async move {
            let (mut record, side) = (record, side);
            while let Some(exchange) = exchanges.recv().await {
                failpoint::reach_task("watch");
                record.exchanged(exchange, &side).await;
            }
            (record, side)
        });
        let end = own(program.program).await;
        let mut notes = notes(&relay);
        relay.shutdown().await;
        drop(private);
        match recording.await {
            Ok((record, side)) => {
                let mut result = result(vendor.facts().command, &end, &notes);
                record.finish(&mut result, &side).await;
                notes.extend(result.diagnostics.iter().map(|it| it.message.clone()));
                // Without a receiver nobody asks for the end.
                let _ = ended.send(Watched { end, notes });
                side.finish(result).await;
            }
            Err(error) => {
                notes.push(format!("requests were forwarded and not recorded: {error}"));
                let _ = ended.send(Watched { end, notes });
            }
        }
    }
}

/// Returns what the relay did not forward or report.
fn notes(relay: &Relay) -> Vec<String> {
    let mut notes = Vec::new();
    if relay.has_ended() {
        notes.push("the relay ended before the program; later requests failed".to_owned());
    }
    notes.extend(relay.failure().map(|reason| format!("a request failed at the relay: {reason}")));
    let uncounted = relay.uncounted();
    if uncounted > 0 {
        let requests = if uncounted == 1 { "request" } else { "requests" };
        notes.push(format!(
            "{uncounted} {requests} of other programs, which inherited the address, were forwarded and not recorded"
        ));
    }
    notes
}

/// Returns the result of the turn.
fn result(agent: &str, end: &std::io::Result<OwnEnd>, notes: &[String]) -> TurnResult {
    let mut result = match end {
        Ok(OwnEnd::Exited(0)) => TurnResult::new(Verdict::Done),
        Ok(OwnEnd::Exited(code)) => {
            let why = format!("{agent} exited with code {code}");
            TurnResult::failed(Failure::new(FailureReason::Other, why))
        }
        Ok(OwnEnd::Killed(signal)) => {
            let why = format!("{agent} was ended by signal {signal}");
            TurnResult::failed(Failure::new(FailureReason::Other, why))
        }
        Err(error) => {
            let why = format!("{agent} did not start: {error}");
            TurnResult::failed(Failure::new(FailureReason::Start, why))
        }
    };
    result.reply = format!("({agent} ran in its own terminal; its requests are on record.)");
    let notes = notes.iter().cloned();
    result.diagnostics = notes.map(|it| Diagnostic::new(diagnostics::RELAY_FAILED, it)).collect();
    result
}
