//! The threads of a session's models, outside of a store: what they remember and what they were sent.

use convoke_core::Diagnostic;
use serde::{Deserialize, Serialize};

use super::archive::ArchiveProblem;
use super::requests;
use crate::diagnostics;
use crate::id::{MessageNumber, SessionId};
use crate::request::SentRequest;
use crate::store::{Store, StoreError};
use crate::thread::{Addition, ThreadLine};
use crate::turn::Turn;

/// What a model remembers of a session.
#[derive(Debug)]
pub(super) struct ArchivedThread {
    /// The end of its name; the beginning is the session's id and a hyphen.
    pub(super) name: String,
    pub(super) lines: Vec<ThreadLine>,
    /// What it was sent.
    pub(super) requests: Vec<SentRequest>,
}

/// What is wrong with the lines of a thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadThread {
    /// The line, from 0.
    pub line: usize,
    /// What is wrong with it.
    pub reason: String,
}

/// Reads the lines of a thread: a session does not know what they mean, and its user does.
pub type ThreadCheck<'c> = &'c (dyn Fn(&[&str]) -> Result<(), BadThread> + Sync);

/// A line of a thread as a line of a file.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct FileLine {
    thread: String,
    as_of: Option<MessageNumber>,
    line: String,
}

/// The most bytes of a name: far more than a member's name takes.
const MOST_NAME_BYTES: usize = 900;

pub(super) async fn of(
    store: &impl Store,
    session: SessionId,
) -> Result<Vec<ArchivedThread>, StoreError> {
    let mut threads = Vec::new();
    for whole in store.threads(session).await? {
        let lines = store.thread(&whole).await?;
        let requests = store.sent_requests(&whole).await?;
        // A thread of another name is nobody's to go on with. It is kept under its whole name.
        let end = whole.strip_prefix(&format!("{session}-")).unwrap_or(&whole);
        threads.push(ArchivedThread { name: end.to_owned(), lines, requests });
    }
    Ok(threads)
}

impl ArchivedThread {
    /// Returns its lines as those of a file.
    pub(super) fn file_lines(&self) -> impl Iterator<Item = FileLine> {
        self.lines.iter().map(|line| FileLine {
            thread: self.name.clone(),
            as_of: line.as_of,
            line: line.text.clone(),
        })
    }

    /// Makes it the thread of a session that has none of that name.
    pub(super) fn into_rows(self, session: SessionId) -> (Addition, Vec<SentRequest>) {
        let Self { name, lines, mut requests } = self;
        let thread = format!("{session}-{name}");
        for request in &mut requests {
            request.row.thread.clone_from(&thread);
        }
        (Addition { thread, known: 0, lines }, requests)
    }

    /// Forgets what it learned after a message. False when nobody knows what that is.
    fn cut_after(&mut self, last: MessageNumber) -> bool {
        let later = |line: &ThreadLine| line.as_of.is_some_and(|as_of| as_of > last);
        let kept = self.lines.iter().position(later).unwrap_or(self.lines.len());
        self.lines.truncate(kept);
        // No line tells of more than those after it: the last one stands for all of them.
        self.lines.last().is_none_or(|line| line.as_of.is_some())
    }
}

/// Forgets what threads learned after a message, and what was sent in turns that are not there any more.
/// A thread of which nobody knows what it learned then is begun anew.
pub(super) fn cut_after(
    threads: &mut Vec<ArchivedThread>,
    last: MessageNumber,
    turns: &[Turn],
) -> Result<Vec<Diagnostic>, StoreError> {
    let mut diagnostics = Vec::new();
    for thread in threads.iter_mut() {
        requests::cut(&mut thread.requests, turns)?;
        if thread.cut_after(last) {
            continue;
        }
        thread.lines.clear();
        let message = format!(
            "the thread `{}` begins anew in the copy: an earlier version stored it, and did not note \
             what belongs to message {last}",
            thread.name
        );
        diagnostics.push(Diagnostic::new(diagnostics::THREAD_FORGOTTEN, message));
    }
    threads.retain(|thread| !thread.lines.is_empty() || !thread.requests.is_empty());
    Ok(diagnostics)
}

/// Takes a line of a file to the thread that it belongs to.
pub(super) fn add(threads: &mut Vec<ArchivedThread>, line: FileLine) -> Result<(), ArchiveProblem> {
    let FileLine { thread: name, as_of, line: text } = line;
    let thread = named(threads, &name)?;
    if thread.lines.last().is_some_and(|before| before.as_of > as_of) {
        let what = format!("a line of the thread `{name}` is out of order");
        return Err(ArchiveProblem::Broken(what));
    }
    thread.lines.push(ThreadLine { as_of, text });
    Ok(())
}

/// Returns the thread that a line of a file belongs to: the last one, or a new one.
pub(super) fn named<'t>(
    threads: &'t mut Vec<ArchivedThread>,
    name: &str,
) -> Result<&'t mut ArchivedThread, ArchiveProblem> {
    let broken = |what: String| Err(ArchiveProblem::Broken(what));
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    if !(1..=MOST_NAME_BYTES).contains(&name.len()) || !name.bytes().all(fits) {
        return broken(format!("`{name}` is no name of a member's thread"));
    }
    let index = match threads.iter().position(|thread| thread.name == name) {
        Some(index) if index + 1 < threads.len() => {
            return broken(format!("the lines of the thread `{name}` do not stand together"));
        }
        Some(index) => index,
        None => {
            let (lines, requests) = (Vec::new(), Vec::new());
            threads.push(ArchivedThread { name: name.to_owned(), lines, requests });
            threads.len() - 1
        }
    };
    Ok(&mut threads[index])
}

/// Checks what the threads say; `places` has the place in the file of each of their lines.
pub(super) fn check(
    threads: &[ArchivedThread],
    last_message: MessageNumber,
    places: &[usize],
    read: ThreadCheck<'_>,
) -> Result<(), (usize, ArchiveProblem)> {
    let mut first = 0;
    for thread in threads {
        let place = |line: usize| places.get(first + line).copied().unwrap_or_default();
        let wrong = |line: usize, what: String| {
            let what = format!("the thread `{}`: {what}", thread.name);
            Err((place(line), ArchiveProblem::Broken(what)))
        };
        let later = |line: &ThreadLine| line.as_of.is_some_and(|as_of| as_of > last_message);
        if let Some(line) = thread.lines.iter().position(later) {
            return wrong(line, "it tells of a message that is missing".to_owned());
        }
        // A thread whose first turn failed was sent something and remembers nothing.
        if thread.lines.is_empty() && !thread.requests.is_empty() {
            continue;
        }
        let texts: Vec<&str> = thread.lines.iter().map(|line| &*line.text).collect();
        if let Err(bad) = read(&texts) {
            return wrong(bad.line, bad.reason);
        }
        first += thread.lines.len();
    }
    Ok(())
}
