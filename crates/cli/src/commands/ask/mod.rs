//! `convoke ask`: one question to one model.

mod arguments;
mod output;
mod shown;
mod threads;

use std::io::ErrorKind;
use std::sync::Arc;

use anyhow::Context as _;
use convoke_agent::event::EventKind;
use convoke_agent::id::ThreadId;
use convoke_agent::turn_input::Trust;
use convoke_agent::verdict::{Failure, FailureReason};
use convoke_agent::{Agent, TurnInput, Verdict};
use convoke_core::Diagnostic;
use convoke_files::Disk;
use convoke_model::{Host, ModelAgent, Settings, root_of, undo_compaction};
use convoke_session::SqliteStore;
use convoke_thread::pack::Pack;

pub use self::arguments::Arguments;
use self::output::{Account, AskedThread, Printer, Streams, Watched};
use crate::commands::sessions::sent::{Showing, show_thread};
use crate::conversation::home::Home;
use crate::conversation::trust::TrustedDirectories;
use crate::following::{Followed, follow};
use crate::host_environment;
use crate::machine;
use crate::outcome::{Outcome, UsageError};
use crate::requests::Wanted;
use crate::threads::BroughtBack;

/// Runs `convoke ask`.
pub fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    let task = Task::of(arguments)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start")?;
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
    Show(ThreadId, Wanted),
    /// List the threads.
    List,
}

impl Task {
    fn of(arguments: &Arguments) -> Result<Self, UsageError> {
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

async fn perform(arguments: &Arguments, task: Task) -> anyhow::Result<Outcome> {
    let home = Home::of(&host_environment::of_process()?);
    let store = SqliteStore::open(&home.data).await.context("cannot open the store")?;
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
            output::write_undone(&thread, &BroughtBack::from(undone), arguments)?;
            return Ok(Outcome::Done);
        }
        Task::Compact(thread) => (None, Some(thread)),
        Task::Ask(question, thread) => (Some(question), thread),
    };
    let mut remarks = Vec::new();
    let agent = agent(arguments, &home, store.clone(), &mut remarks)?;
    let turn = match question {
        Some(question) => agent.start(turn_input(question, thread.as_ref(), &home)?),
        None => agent.start_compaction(turn_input(String::new(), thread.as_ref(), &home)?),
    };
    let watched = match arguments {
        Arguments { json: true, .. } => Watched::Nothing,
        Arguments { compact: true, .. } => Watched::Notes,
        _ => Watched::Answer,
    };
    let mut printer = Printer::new(Streams::of_process(), watched, agent.redactor());
    let mut requests = Vec::new();
    let mut followed = follow(turn, |event| {
        if let EventKind::Request { number, .. } = event.kind {
            requests.push(number);
        }
        printer.event(event)
    })
    .await;
    followed.ended.diagnostics.splice(..0, remarks);
    followed.shown = followed.shown.and_then(|()| printer.finish());
    conclude(followed, &requests, arguments, &store).await
}

/// Writes the report of an ended turn and returns the outcome of the command.
async fn conclude(
    followed: Followed,
    requests: &[u64],
    arguments: &Arguments,
    store: &SqliteStore,
) -> anyhow::Result<Outcome> {
    let Followed { ended, thread, shown } = followed;
    let thread = match &ended.resume {
        Some(resume) => Some(AskedThread::GoesOn(resume.session.clone())),
        None => thread.filter(|_| !requests.is_empty()).map(AskedThread::OnlySent),
    };
    let is_shown = arguments.json || arguments.explain;
    let requests = if is_shown { requests } else { &[] };
    let account = Account::read(&ended, thread, requests, store).await?;
    output::write(&account, arguments)?;
    let is_unread = matches!(&shown, Err(error) if error.kind() == ErrorKind::BrokenPipe);
    match ended.verdict {
        Verdict::Cancelled if is_unread => {
            anyhow::bail!("the output was closed; the turn was cancelled")
        }
        Verdict::Done => {
            shown?;
            Ok(arguments.deny.outcome(ended.diagnostics.iter().map(|diagnostic| diagnostic.code)))
        }
        Verdict::Failed(Failure { reason: FailureReason::Usage, message }) => {
            Err(UsageError(message).into())
        }
        Verdict::Failed(failure) if !arguments.json => Err(failure.into()),
        Verdict::Cancelled if !arguments.json => {
            shown?;
            anyhow::bail!("cancelled")
        }
        Verdict::TimedOut if !arguments.json => anyhow::bail!("the turn timed out"),
        Verdict::Failed(_) | Verdict::Cancelled | Verdict::TimedOut => Ok(Outcome::Failed),
    }
}

fn agent(
    arguments: &Arguments,
    home: &Home,
    store: SqliteStore,
    remarks: &mut Vec<Diagnostic>,
) -> anyhow::Result<ModelAgent> {
    let (api, model) = arguments.settings(home, remarks)?;
    let env: Vec<_> = std::env::vars_os().collect();
    if let Some(name) = &api.key_env {
        convoke_model::Key::from_env(name, &env).map_err(|error| UsageError(error.to_string()))?;
    }
    let pack = match &arguments.pack {
        Some(folder) => Pack::load(&Disk, folder)
            .map_err(|error| UsageError(format!("--pack: {:#}", anyhow::Error::from(error))))?,
        None => convoke_packs::convoke()?,
    };
    let host = Host {
        env,
        machine: machine::of_process(home.configuration.clone(), None)?,
        pack: Arc::new(pack),
        store: Arc::new(store),
    };
    Ok(ModelAgent::new(Settings { api, model, thread: None }, host))
}

fn turn_input(
    question: String,
    thread: Option<&ThreadId>,
    home: &Home,
) -> anyhow::Result<TurnInput> {
    let cwd = std::env::current_dir().context("cannot determine the working directory")?;
    let mut turn_input = TurnInput::new(question, cwd.clone());
    // Instruction files are read from the repository's root down, so trust in either directory counts.
    let trusted = TrustedDirectories::load(home)?;
    if trusted.contains(&cwd) || trusted.contains(&root_of(&cwd, machine::home().as_deref())) {
        turn_input.trust = Trust::Trusted;
    }
    turn_input.resume = thread.map(|thread| convoke_agent::turn_input::ResumeHandle {
        session: thread.as_str().to_owned(),
        cwd,
        model: None,
        used: None,
    });
    Ok(turn_input)
}
