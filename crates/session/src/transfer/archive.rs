//! A whole session outside of a store.

use std::collections::{HashMap, HashSet};
use std::io::Write;

use convoke_core::{ConversationMessage, MessageId};
use convoke_team::Team;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::requests::{self, FileRequest};
use super::threads::{self, ArchivedThread, FileLine};
use super::{Checks, TransferError};
use crate::content::{Content, ContentHash};
use crate::id::{Head, MessageNumber, Millis, SessionId, TurnId};
use crate::progress::interrupt;
use crate::session::{NewSession, NumberedMessage, Rehearsal, Session, State};
use crate::store::{Commit, Store, StoreError};
use crate::turn::{Attempt, Turn, TurnState};

/// Says in the first line what the file is.
const FORMAT: &str = "convoke-session";
/// Version 2 added the threads of models, version 3 what they were sent.
const VERSION: u64 = 3;
/// How many rows are read at once.
const PAGE: usize = 512;
/// How often a session is read that changes while it is read.
const MOST_READINGS: usize = 10;

/// A whole session.
#[derive(Debug)]
pub(super) struct Archive {
    pub(super) session: NewSession,
    pub(super) state: State,
    pub(super) messages: Vec<NumberedMessage>,
    pub(super) turns: Vec<Turn>,
    pub(super) attempts: Vec<Attempt>,
    pub(super) contents: Vec<Content>,
    pub(super) threads: Vec<ArchivedThread>,
}

/// What is wrong with a file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ArchiveProblem {
    /// It is not JSON of the right form.
    #[error("{0}")]
    Json(String),
    /// It has another version.
    #[error("the file has version {0}, and this version of Convoke reads up to version {VERSION}")]
    Version(Value),
    /// Its parts do not fit together.
    #[error("{0}")]
    Broken(String),
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Header {
    format: String,
    version: u64,
    id: SessionId,
    created_at: Millis,
    name: Option<String>,
    directory: String,
    team: String,
    first_task: Option<String>,
    /// Absent in files of versions that did not know it.
    #[serde(default)]
    rehearsal: Option<Rehearsal>,
    state: State,
}

/// Tells whether a text begins like a whole session.
pub(super) fn is_archive(text: &str) -> bool {
    let first = text.lines().next().unwrap_or_default();
    let header: Value = serde_json::from_str(first).unwrap_or_default();
    header["format"] == FORMAT
}

fn line(out: &mut impl Write, value: &impl Serialize) -> Result<(), TransferError> {
    serde_json::to_writer(&mut *out, value).map_err(std::io::Error::from)?;
    out.write_all(b"\n")?;
    Ok(())
}

/// Returns the hashes of the texts that an attempt names.
pub(super) fn contents_of(attempt: &Attempt) -> impl Iterator<Item = ContentHash> {
    let ended = attempt.ended.as_ref();
    [
        Some(attempt.prompt),
        attempt.system,
        Some(attempt.input),
        Some(attempt.ledger),
        ended.and_then(|ended| ended.partial),
        ended.and_then(|ended| ended.events),
    ]
    .into_iter()
    .flatten()
    .map(|reference| reference.hash)
}

/// What a line of a file was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Added {
    Row,
    ThreadLine,
    Request,
}

/// The largest number that an id may carry: beyond it, other readers lose digits.
const MAX_MESSAGE_ID: u64 = (1 << 53) - 1;

impl Archive {
    /// Reads a session out of a store, as it is at one time.
    pub(super) async fn of(store: &impl Store, session: SessionId) -> Result<Self, StoreError> {
        for _ in 0..MOST_READINGS {
            let stored = store.session(session).await?;
            let head = stored.head;
            let archive = Self::gather(store, stored).await?;
            if store.session(session).await?.head == head {
                return Ok(archive);
            }
        }
        Err(StoreError::Conflict { session })
    }

    async fn gather(store: &impl Store, stored: Session) -> Result<Self, StoreError> {
        let session = stored.began.id;
        let mut archive = Self::begin(stored.began, stored.state);
        let mut seen = HashSet::new();
        loop {
            let after = archive.messages.last().map_or(MessageNumber(0), |last| last.number);
            let page = store.messages_after(session, after, PAGE).await?;
            if page.is_empty() {
                break;
            }
            archive.messages.extend(page);
        }
        loop {
            let after = archive.turns.last().map_or(TurnId(0), |last| last.id);
            let page = store.turns_after(session, after, PAGE).await?;
            if page.is_empty() {
                break;
            }
            for turn in &page {
                for mut attempt in store.attempts(session, turn.id).await? {
                    let (at, contents) = (stored.updated_at, &mut archive.contents);
                    let known = contents.len();
                    interrupt(store, session, &mut attempt, at, contents).await?;
                    seen.extend(contents[known..].iter().map(|content| content.reference().hash));
                    for hash in contents_of(&attempt).filter(|hash| seen.insert(*hash)) {
                        archive.contents.push(Content::new(store.content(hash).await?));
                    }
                    archive.attempts.push(attempt);
                }
            }
            archive.turns.extend(page);
        }
        archive.threads = threads::of(store, session).await?;
        Ok(archive)
    }

    /// Begins an archive of which only the first line is known.
    pub(super) fn begin(session: NewSession, state: State) -> Self {
        Self {
            session,
            state,
            messages: Vec::new(),
            turns: Vec::new(),
            attempts: Vec::new(),
            contents: Vec::new(),
            threads: Vec::new(),
        }
    }

    /// Writes the lines of a file: each text stands before the first attempt that names it.
    pub(super) fn write(&self, out: &mut impl Write) -> Result<(), TransferError> {
        let NewSession { id, created_at, name, directory, team, task, rehearsal } =
            self.session.clone();
        let header = Header {
            format: FORMAT.to_owned(),
            version: VERSION,
            id,
            created_at,
            name,
            directory,
            team,
            first_task: task,
            rehearsal,
            state: self.state.clone(),
        };
        line(out, &header)?;
        for NumberedMessage { number, answers, message } in &self.messages {
            line(out, &json!({"message": message, "number": number, "answers": answers}))?;
        }
        let mut texts: HashMap<ContentHash, &str> = HashMap::new();
        texts.extend(self.contents.iter().map(|text| (text.reference().hash, text.text())));
        let mut attempts = self.attempts.iter().peekable();
        for turn in &self.turns {
            line(out, &json!({"turn": turn}))?;
            while let Some(attempt) = attempts.next_if(|attempt| attempt.turn == turn.id) {
                for hash in contents_of(attempt) {
                    if let Some(text) = texts.remove(&hash) {
                        line(out, &json!({"content": text}))?;
                    }
                }
                line(out, &json!({"attempt": attempt}))?;
            }
        }
        for thread in &self.threads {
            for thread_line in thread.file_lines() {
                line(out, &json!({"threadLine": thread_line}))?;
            }
            for request in requests::file_lines(thread) {
                line(out, &json!({"request": request}))?;
            }
        }
        Ok(())
    }

    /// Reads the lines of a file, and checks that they make one session.
    pub(super) fn read(text: &str, checks: Checks<'_>) -> Result<Self, TransferError> {
        let mut lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
        let invalid = |index: usize, problem| TransferError::Invalid { line: index + 1, problem };
        let (first, header) = lines.next().unwrap_or_default();
        let header: Value =
            serde_json::from_str(header).map_err(|error| invalid(first, json_problem(&error)))?;
        if !header["version"].as_u64().is_some_and(|found| (1..=VERSION).contains(&found)) {
            return Err(invalid(first, ArchiveProblem::Version(header["version"].clone())));
        }
        let header: Header =
            serde_json::from_value(header).map_err(|error| invalid(first, json_problem(&error)))?;
        if let Err(error) = Team::parse(&header.team) {
            let problem = format!("the field `team` is no team file: {error}");
            return Err(invalid(first, ArchiveProblem::Broken(problem)));
        }
        let session = NewSession {
            id: header.id,
            created_at: header.created_at,
            name: header.name,
            directory: header.directory,
            team: header.team,
            task: header.first_task,
            rehearsal: header.rehearsal,
        };
        let mut archive = Self::begin(session, header.state);
        let mut last = first;
        let mut ids = HashSet::new();
        let (mut thread_places, mut request_places) = (Vec::new(), Vec::new());
        for (index, line) in lines {
            let added = archive.add(line, &mut ids).map_err(|problem| invalid(index, problem))?;
            match added {
                Added::Row => {}
                Added::ThreadLine => thread_places.push(index),
                Added::Request => request_places.push(index),
            }
            last = index;
        }
        archive.check().map_err(|problem| invalid(last, problem))?;
        let Self { threads, turns, state, .. } = &archive;
        threads::check(threads, state.last_message, &thread_places, checks.thread)
            .and_then(|()| requests::check(threads, turns, &request_places, checks.request))
            .map_err(|(index, problem)| invalid(index, problem))?;
        Ok(archive)
    }

    fn add(&mut self, line: &str, ids: &mut HashSet<MessageId>) -> Result<Added, ArchiveProblem> {
        let mut value: Value = serde_json::from_str(line).map_err(|error| json_problem(&error))?;
        let broken = |what: String| Err(ArchiveProblem::Broken(what));
        if let Some(message) = value.get_mut("message").map(Value::take) {
            let message = ConversationMessage::from_json(message)
                .map_err(|error| ArchiveProblem::Broken(error.to_string()))?;
            let number = MessageNumber(value["number"].as_u64().unwrap_or_default());
            if number.0 != self.messages.len() as u64 + 1 {
                return broken(format!("message {number} is out of order"));
            }
            let answers = value["answers"].as_u64().map(MessageNumber);
            if answers.is_some_and(|answers| answers.0 == 0 || answers >= number) {
                return broken(format!("message {number} answers one that comes later"));
            }
            if !ids.insert(message.id.clone()) {
                let id = &message.id;
                return broken(format!("message {number} has the `id` of an earlier one: {id}"));
            }
            self.messages.push(NumberedMessage { number, answers, message });
        } else if let Some(turn) = value.get_mut("turn").map(Value::take) {
            let turn: Turn = serde_json::from_value(turn).map_err(|error| json_problem(&error))?;
            if self.turns.last().is_some_and(|last| last.id >= turn.id) || turn.id.0 == 0 {
                return broken(format!("turn {} is out of order", turn.id));
            }
            self.turns.push(turn);
        } else if let Some(attempt) = value.get_mut("attempt").map(Value::take) {
            let attempt: Attempt =
                serde_json::from_value(attempt).map_err(|error| json_problem(&error))?;
            if self.turns.last().is_none_or(|turn| turn.id != attempt.turn) {
                return broken(format!("an attempt of turn {} does not follow it", attempt.turn));
            }
            let before = self.attempts.last().filter(|before| before.turn == attempt.turn);
            if attempt.number != before.map_or(0, |before| before.number) + 1 {
                let (turn, number) = (attempt.turn, attempt.number);
                return broken(format!("attempt {number} of turn {turn} is out of order"));
            }
            self.attempts.push(attempt);
        } else if let Some(Value::String(text)) = value.get_mut("content").map(Value::take) {
            self.contents.push(Content::new(text));
        } else if let Some(line) = value.get_mut("threadLine").map(Value::take) {
            let line: FileLine =
                serde_json::from_value(line).map_err(|error| json_problem(&error))?;
            threads::add(&mut self.threads, line)?;
            return Ok(Added::ThreadLine);
        } else if let Some(request) = value.get_mut("request").map(Value::take) {
            let request: FileRequest =
                serde_json::from_value(request).map_err(|error| json_problem(&error))?;
            requests::add(&mut self.threads, request)?;
            return Ok(Added::Request);
        } else {
            let what =
                "the line is no message, turn, attempt, content, line of a thread or request";
            return broken(what.to_owned());
        }
        Ok(Added::Row)
    }

    /// Checks what no line shows alone.
    fn check(&mut self) -> Result<(), ArchiveProblem> {
        let broken = |what: String| Err(ArchiveProblem::Broken(what));
        let count = self.messages.len() as u64;
        if self.state.last_message.0 != count {
            return broken(format!(
                "there are {count} messages, and {} are announced",
                self.state.last_message
            ));
        }
        let known: HashSet<ContentHash> =
            self.contents.iter().map(|content| content.reference().hash).collect();
        for attempt in &self.attempts {
            if let Some(missing) = contents_of(attempt).find(|hash| !known.contains(hash)) {
                return broken(format!("the text {missing} of turn {} is missing", attempt.turn));
            }
        }
        let mut begun: HashMap<TurnId, u32> = HashMap::new();
        for attempt in &self.attempts {
            begun.insert(attempt.turn, attempt.number);
        }
        for turn in &self.turns {
            let attempts = begun.get(&turn.id).copied().unwrap_or(0);
            if turn.attempts != attempts {
                return broken(format!(
                    "turn {} was begun {} times as its `attempts` says, and {attempts} are there",
                    turn.id, turn.attempts
                ));
            }
            let places = [Some(turn.answers), turn.reply];
            if places.into_iter().flatten().any(|place| place.0 == 0 || place.0 > count) {
                return broken(format!("turn {} is about a message that is missing", turn.id));
            }
        }
        let last_turn = self.turns.last().map_or(TurnId(0), |turn| turn.id);
        if last_turn != self.state.last_turn {
            let announced = self.state.last_turn;
            return broken(format!("the last turn is {last_turn}, not {announced} as it says"));
        }
        let ids = self.messages.iter().filter_map(|message| message.message.id.digits());
        let largest = ids.map(|digits| digits.parse().unwrap_or(u64::MAX)).max().unwrap_or(0);
        let next = self.state.next_message_id.max(largest.saturating_add(1));
        if next > MAX_MESSAGE_ID {
            return broken(format!("the ids of messages go beyond msg-{MAX_MESSAGE_ID}"));
        }
        self.state.next_message_id = next;
        Ok(())
    }

    /// Stores the session in one commit; what cannot be stored leaves nothing behind.
    pub(super) async fn store(self, store: &impl Store) -> Result<(), TransferError> {
        let id = self.session.id;
        let threads = self.threads.into_iter().map(|thread| thread.into_rows(id));
        let (threads, requests): (Vec<_>, Vec<_>) = threads.unzip();
        let commit = Commit {
            on: Head::default(),
            at: self.session.created_at,
            contents: self.contents,
            messages: self.messages,
            turns: self.turns.into_iter().map(at_rest).collect(),
            attempts: self.attempts,
            progress: Vec::new(),
            threads,
            requests: requests.into_iter().flatten().collect(),
            state: self.state,
        };
        store.create(self.session).await?;
        if let Err(error) = store.commit(id, commit).await {
            store.remove(id).await?;
            return Err(error.into());
        }
        Ok(())
    }
}

/// Nobody works on a turn of a session that is just being stored.
fn at_rest(mut turn: Turn) -> Turn {
    if turn.state == TurnState::Running {
        turn.state = TurnState::Queued;
    }
    turn
}

fn json_problem(error: &serde_json::Error) -> ArchiveProblem {
    ArchiveProblem::Json(error.to_string())
}
