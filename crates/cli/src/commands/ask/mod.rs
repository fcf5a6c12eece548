//! `convoke ask`: one question to one model.

mod arguments;
mod output;

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context as _;
use convoke_agent::delivery::Trust;
use convoke_agent::verdict::{Failure, Reason};
use convoke_agent::{Agent, Delivery, Outcome as TurnOutcome, Turn, Verdict};
use convoke_model::member::Observer;
use convoke_model::{
    Host, Log, ModelAgent, Sent, Settings, ThreadId, ThreadStore, root_of, undo_compaction,
};
use convoke_session::SqliteStore;
use convoke_thread::files::Disk;
use convoke_thread::pack::Pack;

pub use self::arguments::Arguments;
use self::output::{Account, Printer, SentRequest};
use crate::commands::sessions::sent::{Showing, show_thread};
use crate::conversation::home::Home;
use crate::conversation::trust::TrustedDirectories;
use crate::machine;
use crate::outcome::{Outcome, UsageError};
use crate::requests::Wanted;
use crate::surroundings;
use crate::threads::{BroughtBack, StoredThreads};

/// Asks, and shows the answer as it comes.
pub fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    let task = match arguments {
        Arguments { request: Some(wanted), .. } => Task::Show(*wanted),
        Arguments { undo_compaction: true, .. } => Task::Undo,
        Arguments { compact: true, .. } => Task::Compact,
        _ => Task::Ask(arguments.question()?),
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start")?;
    runtime.block_on(perform(arguments, task))
}

enum Task {
    Ask(String),
    Compact,
    Undo,
    /// Show one request, or all.
    Show(Wanted),
}

async fn perform(arguments: &Arguments, task: Task) -> anyhow::Result<Outcome> {
    let home = Home::of(&surroundings::of_process()?);
    let store = SqliteStore::open(&home.data).await.context("cannot open the store of threads")?;
    if let (Task::Show(wanted), Some(thread)) = (&task, &arguments.thread) {
        let showing = Showing { json: arguments.json, explain: arguments.explain };
        show_thread(&store, thread, *wanted, showing).await?;
        return Ok(Outcome::Done);
    }
    let store: Arc<dyn ThreadStore> = Arc::new(StoredThreads(store));
    if let Some(thread) = &arguments.thread {
        let found = Log::load(&*store, thread).await?;
        found.ok_or_else(|| UsageError(format!("--thread: there is no thread {thread}")))?;
    }
    let requests: Arc<Mutex<Vec<SentRequest>>> = Arc::default();
    let (turn, redactor) = match (task, &arguments.thread) {
        (Task::Undo, Some(thread)) => {
            let undone = undo_compaction(&*store, thread).await?;
            output::write_undone(thread, &BroughtBack::from(undone), arguments)?;
            return Ok(Outcome::Done);
        }
        (Task::Undo, None) | (Task::Show(_), _) => {
            return Err(UsageError("--thread is missing".to_owned()).into());
        }
        (Task::Compact, thread) => {
            let agent = agent(arguments, &home, store, observer(&requests))?;
            let delivery = delivery(String::new(), thread.as_ref(), &home)?;
            (agent.start_compaction(delivery), agent.redactor())
        }
        (Task::Ask(question), thread) => {
            let agent = agent(arguments, &home, store, observer(&requests))?;
            (agent.start(delivery(question, thread.as_ref(), &home)?), agent.redactor())
        }
    };
    let ended = follow(turn, Printer::new(arguments, redactor)).await?;
    let requests = std::mem::take(&mut *requests.lock().unwrap_or_else(PoisonError::into_inner));
    let account = Account { ended: &ended, requests: &requests };
    output::write(&account, arguments)?;
    match ended.verdict {
        Verdict::Done => {
            Ok(arguments.deny.outcome(ended.diagnostics.iter().map(|diagnostic| diagnostic.code)))
        }
        Verdict::Failed(Failure { reason: Reason::Usage, message }) => {
            Err(UsageError(message).into())
        }
        Verdict::Failed(failure) if !arguments.json => Err(failure.into()),
        Verdict::Cancelled if !arguments.json => anyhow::bail!("cancelled"),
        Verdict::TimedOut if !arguments.json => anyhow::bail!("the answer took too long"),
        Verdict::Failed(_) | Verdict::Cancelled | Verdict::TimedOut => Ok(Outcome::Failed),
    }
}

fn agent(
    arguments: &Arguments,
    home: &Home,
    store: Arc<dyn ThreadStore>,
    observer: Observer,
) -> anyhow::Result<ModelAgent> {
    let (api, model) = arguments.settings(home)?;
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
        store,
        observer: Some(observer),
    };
    Ok(ModelAgent::new(Settings { api, model, thread: None }, host))
}

fn delivery(question: String, thread: Option<&ThreadId>, home: &Home) -> anyhow::Result<Delivery> {
    let cwd = std::env::current_dir().context("the working directory is gone")?;
    let mut delivery = Delivery::new(question, cwd.clone());
    // The documents of a repository are read from its root on, so either may be the one that is trusted.
    let trusted = TrustedDirectories::load(home)?;
    let is_trusted = |directory: &Path| trusted.trust_of(directory) == Trust::Trusted;
    if is_trusted(&cwd) || is_trusted(root_of(&cwd)) {
        delivery.trust = Trust::Trusted;
    }
    delivery.resume = thread.map(|thread| convoke_agent::delivery::ResumeHandle {
        session: thread.as_str().to_owned(),
        cwd,
        model: None,
        used: None,
    });
    Ok(delivery)
}

fn observer(requests: &Arc<Mutex<Vec<SentRequest>>>) -> Observer {
    let requests = Arc::clone(requests);
    Arc::new(move |sent: &Sent<'_>| {
        let mut requests = requests.lock().unwrap_or_else(PoisonError::into_inner);
        requests.push(SentRequest::from(sent));
    })
}

/// Follows a turn to its end; an interrupt cancels it.
async fn follow(mut turn: Turn, mut printer: Printer) -> anyhow::Result<TurnOutcome> {
    let canceller = turn.canceller();
    let on_interrupt = canceller.clone();
    let interrupt = tokio::spawn(async move {
        // Without the signal nothing can be cancelled, and the turn goes on.
        if tokio::signal::ctrl_c().await.is_ok() {
            on_interrupt.cancel();
        }
    });
    let mut shown = Ok(());
    while let Some(event) = turn.next().await {
        shown = printer.event(&event);
        if shown.is_err() {
            // A reader that went away wants no more; the turn still gets to its end.
            canceller.cancel();
            break;
        }
    }
    let ended = turn.outcome().await;
    interrupt.abort();
    shown?;
    printer.finish()?;
    Ok(ended)
}
