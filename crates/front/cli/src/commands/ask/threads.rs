//! Lists, checks and removes the threads of `convoke ask`.

use std::cmp::Reverse;
use std::io::Write as _;

use convoke_agent::clock::now;
use convoke_agent::thread::ThreadStore as _;
use convoke_core::name::shell_word;
use convoke_model::Log;
use convoke_protocol::agent_event::RequestPurpose;
use convoke_protocol::id::{Millis, ThreadId};
use convoke_protocol::request::RequestRecord;
use convoke_session::thread::{LoneThread, ThreadOwner};
use convoke_session::{AnyStore, Store as _};
use serde::Serialize;
use serde_json::{Value, json};

use super::{Arguments, Task};
use crate::figures::{age, count, one_line};
use crate::outcome::{Outcome, UsageError};
use crate::program;
use crate::terminal::{Paint, stdout, write_json};

/// The columns of a first question.
const QUESTION: usize = 48;

/// Finds a thread by its id, by `last`, or by the beginning of its id if it belongs to no session.
pub(super) async fn resolve(store: &AnyStore, name: ThreadId) -> anyhow::Result<ThreadId> {
    if store.thread_owner(&name).await?.is_some() {
        return Ok(name);
    }
    let mut threads: Vec<ThreadId> =
        store.lone_threads().await?.into_iter().map(|thread| thread.id).collect();
    if name.as_str() == "last" {
        let mut last = None;
        for thread in threads {
            let at = store.requests(&thread).await?.last().map(|it| it.meta.at);
            last = last.max(Some((at, thread)));
        }
        let none = || UsageError("--thread: no threads yet".to_owned());
        return Ok(last.map(|(_, thread)| thread).ok_or_else(none)?);
    }
    threads.retain(|thread| thread.as_str().starts_with(name.as_str()));
    match &threads[..] {
        [one] => Ok(one.clone()),
        [] => Err(UsageError(format!("--thread: no thread {name}")).into()),
        several => {
            let several: Vec<&str> = several.iter().map(ThreadId::as_str).collect();
            let several = several.join(", ");
            Err(UsageError(format!("--thread: {name} matches several threads: {several}")).into())
        }
    }
}

/// Rejects a thread that belongs to a session, does not exist, or has no completed turn.
pub(super) async fn expect_own(store: &AnyStore, task: &Task) -> anyhow::Result<()> {
    let (thread, command) = match task {
        Task::Ask(_, None) | Task::Show(..) | Task::List => return Ok(()),
        Task::Ask(_, Some(thread)) => (thread, "run --session ID --to MEMBER \"…\""),
        Task::Compact(thread) => (thread, "sessions compact ID MEMBER"),
        Task::Undo(thread) => (thread, "sessions compact ID MEMBER --undo"),
        Task::Forget(thread) => (thread, "sessions rm ID"),
    };
    let refused = |why: String| Err(UsageError(format!("--thread: {why}")).into());
    match store.thread_owner(thread).await? {
        None => refused(format!("no thread {thread}")),
        Some(ThreadOwner::Session(session)) => {
            let (program, id) = (program::name(), session.short());
            let member = thread.member_of(session);
            let member = member.map_or("MEMBER".to_owned(), |member| shell_word(&member));
            let command = command.replace("ID", &id).replace("MEMBER", &member);
            let whose = format!("{thread} belongs to session {id}");
            let store = program::store_option();
            refused(format!("{whose}; use `{program} {command}{store}`"))
        }
        Some(ThreadOwner::Nobody) if matches!(task, Task::Forget(_)) => Ok(()),
        Some(ThreadOwner::Nobody) => match Log::load(store, thread).await? {
            Some(_) => Ok(()),
            None => {
                refused(format!("{thread}: the thread has no completed turn; ask without --thread"))
            }
        },
    }
}

/// A thread in the list.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ThreadRow {
    thread: ThreadId,
    /// `None` if an earlier version wrote the thread and stored no requests.
    first_question: Option<String>,
    /// The requests that were sent.
    requests: u64,
    bytes: u64,
    /// The size in the store, in bytes.
    stored_bytes: u64,
    last_request_at: Option<Millis>,
}

/// Lists the threads that belong to no session, most recently used first.
pub(super) async fn list(store: &AnyStore, arguments: &Arguments) -> anyhow::Result<Outcome> {
    let mut threads = Vec::new();
    for thread in store.lone_threads().await? {
        threads.push(ThreadRow::read(store, thread).await?);
    }
    // Thread ids sort by creation time.
    threads.sort_by_cached_key(|it| Reverse((it.last_request_at, it.thread.clone())));
    if arguments.json {
        write_json(&json!({"version": 1, "threads": threads}))?;
        return Ok(Outcome::Done);
    }
    let mut out = stdout();
    let paint = Paint::for_stream(&out);
    if threads.is_empty() {
        writeln!(out, "No threads yet; `convoke ask` starts one.")?;
    }
    let now = now();
    for thread in &threads {
        writeln!(out, "{}", thread.line(now, paint))?;
    }
    Ok(Outcome::Done)
}

impl ThreadRow {
    async fn read(store: &AnyStore, thread: LoneThread) -> anyhow::Result<Self> {
        let LoneThread { id, bytes: stored_bytes } = thread;
        let requests = store.requests(&id).await?;
        let sent: Vec<u64> =
            requests.iter().map(RequestRecord::sent_bytes).filter(|bytes| *bytes > 0).collect();
        let first = requests.iter().find(|it| it.meta.purpose == RequestPurpose::Answer);
        let first_question = match first {
            Some(first) => question_in(&store.request_texts(&id, first.number).await?.body),
            None => None,
        };
        Ok(Self {
            thread: id,
            first_question,
            requests: sent.len() as u64,
            bytes: sent.iter().sum(),
            stored_bytes,
            last_request_at: requests.last().map(|it| it.meta.at),
        })
    }

    fn line(&self, now: Millis, paint: Paint) -> String {
        let (requests, bytes) = (count(self.requests, "request"), count(self.bytes, "byte"));
        format!(
            "{}  {:>10}  {}  {}",
            paint.strong(self.thread.as_str()),
            self.last_request_at.map_or_else(|| "-".to_owned(), |at| age(now.since(at))),
            paint.faint(&format!("{requests}, {bytes} sent")),
            self.first_question
                .as_deref()
                .map_or_else(|| "-".to_owned(), |text| one_line(text, QUESTION))
        )
    }
}

/// Returns the question at the end of a thread's first request, on either wire.
fn question_in(body: &str) -> Option<String> {
    let body: Value = serde_json::from_str(body).ok()?;
    let items = body.get("input").or_else(|| body.get("messages"))?.as_array()?;
    let asked = items.iter().rev().find(|item| item["role"] == "user")?;
    match &asked["content"] {
        Value::String(text) => Some(text.clone()),
        Value::Array(parts) => {
            let texts = parts.iter().filter_map(|part| part["text"].as_str());
            Some(texts.collect::<Vec<_>>().join("\n"))
        }
        _ => None,
    }
}

/// Removes a thread with its requests.
pub(super) async fn forget(
    store: &AnyStore,
    thread: &ThreadId,
    arguments: &Arguments,
) -> anyhow::Result<Outcome> {
    if !store.remove_lone_thread(thread).await? {
        return Err(UsageError(format!("--thread: no thread {thread}")).into());
    }
    if arguments.json {
        write_json(&json!({"version": 1, "removed": thread.as_str()}))?;
    } else {
        writeln!(stdout(), "removed thread {thread}")?;
    }
    Ok(Outcome::Done)
}
