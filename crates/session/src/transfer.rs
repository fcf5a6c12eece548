//! Taking sessions out of a store and into one: export, import, fork.
//!
//! A whole session is JSON lines: a header, then messages, turns, attempts and the texts that they name,
//! and the threads of models with every request.
//! What is read is checked before it is stored, because a file is anybody's text.

mod archive;
mod requests;
mod snapshot;
mod threads;

use std::collections::{HashMap, HashSet};
use std::io::{self, Write};

use convoke_core::marker::scan;
use convoke_core::{Diagnostic, NewMessage, SpeakerType};
use convoke_team::Team;

use self::archive::Archive;
pub use self::archive::ArchiveProblem;
pub use self::requests::{BadRequest, BroughtRequest, RequestCheck};
pub use self::threads::{BadThread, ThreadCheck};
use crate::content::ContentHash;
use crate::id::{MemberName, MessageNumber, Millis, SessionId, TurnId};
use crate::prompt::PromptInput;
use crate::session::NewSession;
use crate::store::{Store, StoreError};

/// A session could not be taken out or in.
#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// It could not be written.
    #[error("cannot write the session: {0}")]
    Io(#[from] io::Error),
    /// It is no session.
    #[error("line {line}: {problem}")]
    Invalid {
        /// The 1-based line.
        line: usize,
        /// What is wrong.
        problem: ArchiveProblem,
    },
    /// It is no snapshot either.
    #[error("{0}: {reason}", reason = .0.reason)]
    Snapshot(#[from] convoke_core::InvalidSnapshot),
    /// There is no such message to fork at.
    #[error("there is no message {0} to fork at")]
    NoMessage(MessageNumber),
}

/// Whoever knows what models write reads what a file brings of them, and may refuse it.
#[derive(Clone, Copy)]
pub struct Checks<'c> {
    /// Reads what a model remembers.
    pub thread: ThreadCheck<'c>,
    /// Reads what a model was sent.
    pub request: RequestCheck<'c>,
}

/// A session that was taken in.
#[derive(Debug)]
pub struct Imported {
    /// Its id: the one that it had, when nobody has that yet.
    pub session: SessionId,
    /// What a user should know.
    pub diagnostics: Vec<Diagnostic>,
}

/// Writes the conversation as a snapshot (002, version 1), as of a time.
pub async fn export_snapshot(
    store: &impl Store,
    session: SessionId,
    at: Millis,
    out: &mut (impl Write + Send),
) -> Result<(), TransferError> {
    snapshot::write(store, session, at, out).await
}

/// Writes everything: the conversation, its turns, what was sent, what came back, what models remember
/// and every request that they were sent.
pub async fn export(
    store: &impl Store,
    session: SessionId,
    out: &mut (impl Write + Send),
) -> Result<(), TransferError> {
    Archive::of(store, session).await?.write(out)
}

/// Reads what [`export`] or [`export_snapshot`] wrote into a new session.
///
/// A snapshot knows no team: it gets what `new` says. Everything else brings its own, and comes to the
/// directory that `new` says: a file must not choose where agents work. `checks` read the threads and
/// requests that it brings, and may refuse them.
pub async fn import(
    store: &impl Store,
    text: &str,
    new: NewSession,
    checks: Checks<'_>,
) -> Result<Imported, TransferError> {
    if !archive::is_archive(text) {
        let (archive, diagnostics) = snapshot::read(text, new)?;
        let session = archive.session.id;
        archive.store(store).await?;
        return Ok(Imported { session, diagnostics });
    }
    let mut archive = Archive::read(text, checks)?;
    archive.session.directory = new.directory;
    match store.session(archive.session.id).await {
        Ok(_) => archive.session.id = new.id,
        Err(StoreError::NoSession(_)) => {}
        Err(error) => return Err(error.into()),
    }
    let session = archive.session.id;
    archive.store(store).await?;
    Ok(Imported { session, diagnostics: Vec::new() })
}

/// Says what is wrong with a snapshot, whatever team it will get.
pub fn check_snapshot(text: &str, new: NewSession) -> Result<(), TransferError> {
    snapshot::read(text, new).map(drop)
}

/// Says whether a file brings its own team: [`export`] writes it, [`export_snapshot`] does not.
pub fn brings_its_team(text: &str) -> bool {
    archive::is_archive(text)
}

/// Copies a session as it was after one of its messages, or as it is: the copy goes its own way.
///
/// As it is, what waits is copied too. After an earlier message nothing waits. Models go on with a copy
/// of what they remembered then, and what they were sent in the turns of the copy; the diagnostics name those of which that is not known, and who begin
/// anew.
pub async fn fork(
    store: &impl Store,
    session: SessionId,
    after: Option<MessageNumber>,
    id: SessionId,
    at: Millis,
) -> Result<Vec<Diagnostic>, TransferError> {
    let mut archive = Archive::of(store, session).await?;
    archive.session.id = id;
    archive.session.created_at = at;
    let mut diagnostics = Vec::new();
    if let Some(after) = after {
        if after.0 == 0 || after > archive.state.last_message {
            return Err(TransferError::NoMessage(after));
        }
        if after < archive.state.last_message {
            archive.cut_after(after);
            diagnostics = threads::cut_after(&mut archive.threads, after, &archive.turns)?;
        }
    }
    archive.store(store).await?;
    Ok(diagnostics)
}

impl Archive {
    /// Forgets what came after a message.
    fn cut_after(&mut self, last: MessageNumber) {
        self.messages.retain(|message| message.number <= last);
        let saw_more = self.turns_that_saw_more(last);
        self.turns.retain(|turn| {
            let is_over = match turn.reply {
                Some(reply) => reply <= last,
                None => !saw_more.contains(&turn.id),
            };
            !turn.state.is_open() && turn.answers <= last && is_over
        });
        let turns: Vec<_> = self.turns.iter().map(|turn| turn.id).collect();
        self.attempts.retain(|attempt| turns.binary_search(&attempt.turn).is_ok());
        let used: HashSet<_> = self.attempts.iter().flat_map(archive::contents_of).collect();
        self.contents.retain(|content| used.contains(&content.reference().hash));
        let policy = Team::parse(&self.session.team).map(|team| team.context.text);
        let policy = policy.unwrap_or_default();
        let mut backwards = self.messages.iter().rev().map(|message| &message.message.said);
        let person = |said: &&NewMessage| said.speaker.kind == Some(SpeakerType::Human);
        let asker =
            backwards.clone().find(person).map(|said| MemberName::from(said.speaker.name()));
        let stated = backwards.find_map(|said| scan(&said.content, policy).task);
        self.state.task = stated.or_else(|| self.session.task.clone());
        self.state.asker = asker;
        self.state.last_message = last;
        self.state.last_turn = turns.last().copied().unwrap_or_default();
        self.state.last_finished = Some(last);
        self.state.in_a_row = 0;
    }

    /// Returns the turns for which a prompt was assembled when there were later messages.
    fn turns_that_saw_more(&self, last: MessageNumber) -> HashSet<TurnId> {
        let named = self.attempts.iter().map(|attempt| (attempt.input.hash, attempt.turn));
        let mut turns: HashMap<ContentHash, Vec<TurnId>> = HashMap::new();
        named.for_each(|(input, turn)| turns.entry(input).or_default().push(turn));
        let inputs = self.contents.iter().filter_map(|content| {
            let turns = turns.get(&content.reference().hash)?;
            let input: PromptInput = serde_json::from_str(content.text()).ok()?;
            (input.as_of > last).then_some(turns)
        });
        inputs.flatten().copied().collect()
    }
}
