//! `convoke ask`: one question to one model.

mod arguments;
mod output;
mod shown_text;
mod threads;

use std::io::{ErrorKind, Write as _};
use std::sync::Arc;

use anyhow::Context as _;
use convoke_agent::config::ApiWire;
use convoke_agent::{Agent, TurnInput};
use convoke_core::Diagnostic;
use convoke_files::Disk;
use convoke_model::{
    CallLimits, Client, Endpoint, Host, Key, ModelAgent, Proxies, Settings, may_speak_chat,
    undo_compaction,
};
use convoke_protocol::agent_event::AgentEventKind;
use convoke_protocol::id::ThreadId;
use convoke_protocol::verdict::{Failure, FailureReason, Verdict};
use convoke_session::AnyStore;
use convoke_thread::config::{DEFAULT_MODEL, Wire};
use convoke_thread::pack::Pack;

pub use self::arguments::Arguments;
use self::arguments::ModelChoice;
use self::output::{AnswerReport, AskedThread, LiveOutput, Printer, Streams};
use crate::commands::sessions::sent::{Showing, show_thread};
use crate::conversation;
use crate::conversation::home::Home;
use crate::conversation::store::open_store;
use crate::conversation::trust::TrustedDirectories;
use crate::following::{EndedTurn, follow};
use crate::host_environment;
use crate::machine;
use crate::outcome::{Outcome, UsageError};
use crate::requests::RequestSelection;
use crate::terminal::stderr;
use crate::threads::RestoredItems;

/// Runs `convoke ask`.
pub fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    let task = Task::from_arguments(arguments)?;
    let runtime = conversation::runtime().context("cannot start")?;
    runtime.block_on(perform(arguments, task))
}

/// The action that the arguments choose.
enum Task {
    /// Ask, in an existing thread or in a new one.
    Ask(String, Option<ThreadId>),
    Compact(ThreadId),
    Undo(ThreadId),
    /// Remove a thread.
    Forget(ThreadId),
    /// Show one request, or all.
    Show(ThreadId, RequestSelection),
    /// List the threads.
    List,
}

impl Task {
    fn from_arguments(arguments: &Arguments) -> Result<Self, UsageError> {
        let thread = arguments.thread.clone();
        let named = || {
            let thread = arguments.thread.clone();
            thread.ok_or_else(|| UsageError("--thread is missing".to_owned()))
        };
        Ok(match arguments {
            Arguments { threads: true, .. } => Self::List,
            Arguments { request: Some(wanted), .. } => Self::Show(named()?, *wanted),
            Arguments { forget: true, .. } => Self::Forget(named()?),
            Arguments { undo_compaction: true, .. } => Self::Undo(named()?),
            Arguments { compact: true, .. } => Self::Compact(named()?),
            _ => Self::Ask(arguments.question()?, thread),
        })
    }
}

impl Task {
    /// Finds a thread by the beginning of its id, or by `last`.
    async fn resolved(self, store: &AnyStore) -> anyhow::Result<Self> {
        Ok(match self {
            Self::Ask(question, Some(thread)) => {
                Self::Ask(question, Some(threads::resolve(store, thread).await?))
            }
            Self::Compact(thread) => Self::Compact(threads::resolve(store, thread).await?),
            Self::Undo(thread) => Self::Undo(threads::resolve(store, thread).await?),
            Self::Forget(thread) => Self::Forget(threads::resolve(store, thread).await?),
            Self::Show(thread, wanted) => {
                Self::Show(threads::resolve(store, thread).await?, wanted)
            }
            Self::Ask(..) | Self::List => self,
        })
    }
}

async fn perform(arguments: &Arguments, task: Task) -> anyhow::Result<Outcome> {
    let host_environment = host_environment::of_process()?;
    let home = Home::new(&host_environment);
    let store = open_store(&host_environment).await?;
    let task = task.resolved(&store).await?;
    threads::expect_own(&store, &task).await?;
    let (question, thread) = match task {
        Task::List => return threads::list(&store, arguments).await,
        Task::Show(thread, wanted) => {
            let showing = Showing { json: arguments.json, explain: arguments.explain };
            show_thread(&store, &thread, wanted, showing).await?;
            return Ok(Outcome::Done);
        }
        Task::Forget(thread) => return threads::forget(&store, &thread, arguments).await,
        Task::Undo(thread) => {
            let undone = undo_compaction(&store, &thread).await?;
            output::write_undone(&thread, &RestoredItems::from(undone), arguments)?;
            return Ok(Outcome::Done);
        }
        Task::Compact(thread) => (None, Some(thread)),
        Task::Ask(question, thread) => (Some(question), thread),
    };
    let mut remarks = Vec::new();
    let mut asked = arguments.settings(&home, &mut remarks)?;
    if asked.model.is_none() {
        asked.model = Some(listed_model(&asked).await?);
    }
    let mut turn = Turn { question, thread, begun: None, home, remarks };
    let (followed, mut requests) = turn.take(arguments, &asked, &store).await?;
    let failure = match &followed.ended.verdict {
        Verdict::Failed(failure) if asked.is_wire_open => Some(failure),
        _ => None,
    };
    if failure.is_some_and(may_speak_chat) {
        // The refused request was sent and stays on record, in the same thread.
        turn.begun = followed.thread.as_deref().and_then(ThreadId::parse);
        asked.api.wire = ApiWire::Chat;
        let note = "the server does not support the Responses API; --wire chat skips this attempt";
        writeln!(stderr(), "{note}")?;
        let (followed, more) = turn.take(arguments, &asked, &store).await?;
        requests.extend(more);
        return conclude(followed, &requests, arguments, &store).await;
    }
    conclude(followed, &requests, arguments, &store).await
}

/// A question or a compaction to send.
struct Turn {
    /// `None` for a compaction.
    question: Option<String>,
    thread: Option<ThreadId>,
    /// The thread that was created by an attempt in another wire format.
    begun: Option<ThreadId>,
    home: Home,
    remarks: Vec<Diagnostic>,
}

impl Turn {
    /// Sends it and streams the answer. Returns the result and the numbers of its requests.
    async fn take(
        &self,
        arguments: &Arguments,
        asked: &ModelChoice,
        store: &AnyStore,
    ) -> anyhow::Result<(EndedTurn, Vec<u64>)> {
        let agent = agent(arguments, asked, self, store.clone())?;
        let (thread, home) = (self.thread.as_ref(), &self.home);
        let turn = match &self.question {
            Some(question) => agent.start(turn_input(question.clone(), thread, home)?),
            None => agent.start_compaction(turn_input(String::new(), thread, home)?),
        };
        let watched = match arguments {
            Arguments { json: true, .. } => LiveOutput::Nothing,
            Arguments { compact: true, .. } => LiveOutput::Notes,
            _ => LiveOutput::Answer,
        };
        let mut printer = Printer::new(Streams::of_process(), watched, agent.redactor());
        let mut requests = Vec::new();
        let mut followed = follow(turn, |event| {
            if let AgentEventKind::Request { number, .. } = event.kind {
                requests.push(number);
            }
            printer.event(event)
        })
        .await;
        followed.ended.diagnostics.splice(..0, self.remarks.iter().cloned());
        followed.shown = followed.shown.and_then(|()| printer.finish());
        Ok((followed, requests))
    }
}

/// Asks the server for its models, and takes the first.
async fn listed_model(asked: &ModelChoice) -> anyhow::Result<String> {
    let usage = |error: String| UsageError(error);
    let env: Vec<_> = std::env::vars_os().collect();
    let base_url = asked.api.base_url.as_deref().unwrap_or_default();
    let endpoint =
        Endpoint::new(base_url, Wire::Responses).map_err(|error| usage(error.to_string()))?;
    let key = asked.api.key_env.as_deref().map(|name| Key::from_env(name, &env)).transpose();
    let key = key.map_err(|error| usage(error.to_string()))?;
    let client = Client::new(endpoint, key, &Proxies::from_env(&env), CallLimits::default())
        .map_err(|error| usage(error.to_string()))?;
    let (model, why) = match client.first_model().await {
        Some(model) => (model, "the first that the server lists"),
        None => (DEFAULT_MODEL.to_owned(), "because the server lists none"),
    };
    writeln!(stderr(), "model {model}, {why}; --model selects another")?;
    Ok(model)
}

/// Writes the report of an ended turn and returns the outcome of the command.
async fn conclude(
    followed: EndedTurn,
    requests: &[u64],
    arguments: &Arguments,
    store: &AnyStore,
) -> anyhow::Result<Outcome> {
    let EndedTurn { ended, thread, shown } = followed;
    // A request is stored before its connection is refused.
    let is_refused = matches!(&ended.verdict, Verdict::Failed(failure) if failure.reason == FailureReason::Unreachable);
    let thread = match &ended.resume {
        Some(resume) => Some(AskedThread::Continuable(resume.session.clone())),
        None => thread.filter(|_| is_refused || !requests.is_empty()).map(AskedThread::OnlySent),
    };
    let is_shown = arguments.json || arguments.explain;
    let requests = if is_shown { requests } else { &[] };
    let report = AnswerReport::read(&ended, thread, requests, store).await?;
    output::write(&report, arguments)?;
    let is_unread = matches!(&shown, Err(error) if error.kind() == ErrorKind::BrokenPipe);
    match ended.verdict {
        Verdict::Cancelled | Verdict::Withdrawn if is_unread => {
            anyhow::bail!("the output was closed; the turn was cancelled")
        }
        Verdict::Done => {
            shown?;
            Ok(arguments
                .deny
                .outcome(ended.diagnostics.iter().map(|diagnostic| diagnostic.code.clone())))
        }
        Verdict::Failed(Failure { reason: FailureReason::Usage, message }) => {
            Err(UsageError(message).into())
        }
        Verdict::Failed(failure) if !arguments.json => Err(failure.into()),
        Verdict::Cancelled | Verdict::Withdrawn if !arguments.json => {
            shown?;
            anyhow::bail!("cancelled")
        }
        Verdict::TimedOut if !arguments.json => anyhow::bail!("the turn timed out"),
        Verdict::Failed(_) | Verdict::Cancelled | Verdict::Withdrawn | Verdict::TimedOut => {
            Ok(Outcome::Failed)
        }
    }
}

fn agent(
    arguments: &Arguments,
    asked: &ModelChoice,
    turn: &Turn,
    store: AnyStore,
) -> anyhow::Result<ModelAgent> {
    let (api, model) = (asked.api.clone(), asked.model.clone());
    let env: Vec<_> = std::env::vars_os().collect();
    if let Some(name) = &api.key_env {
        Key::from_env(name, &env).map_err(|error| UsageError(error.to_string()))?;
    }
    let pack = match &arguments.pack {
        Some(folder) => Pack::load(&Disk, folder)
            .map_err(|error| UsageError(format!("--pack: {:#}", anyhow::Error::from(error))))?,
        None => convoke_packs::convoke()?,
    };
    let host = Host {
        env,
        machine: machine::of_process(turn.home.configuration.clone(), None)?,
        pack: Arc::new(pack),
        store: Arc::new(store),
        private: vec![turn.home.data.clone(), turn.home.configuration.clone()],
        programs: convoke_vendors::programs(),
    };
    Ok(ModelAgent::new(Settings { api, model, thread: turn.begun.clone() }, host))
}

fn turn_input(
    question: String,
    thread: Option<&ThreadId>,
    home: &Home,
) -> anyhow::Result<TurnInput> {
    let cwd = std::env::current_dir().context("cannot determine the working directory")?;
    let mut turn_input = TurnInput::new(question, cwd.clone());
    let trusted = TrustedDirectories::load(home)?;
    turn_input.trust = trusted.trust_here(&cwd, machine::home().as_deref());
    turn_input.resume =
        thread.map(|thread| convoke_protocol::resume::ResumeHandle::new(thread.as_str(), cwd));
    Ok(turn_input)
}
