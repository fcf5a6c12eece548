//! Taking sessions out of a store and into one: export, import, fork.
//!
//! A whole session is JSON lines: a header, then messages, turns, attempts and the texts that they name.
//! What is read is checked before it is stored, because a file is anybody's text.

mod archive;
mod snapshot;

use std::collections::HashSet;
use std::io::{self, Write};

use convoke_core::marker::scan;
use convoke_core::{Diagnostic, NewMessage, SpeakerType};
use convoke_team::Team;

use self::archive::Archive;
pub use self::archive::ArchiveProblem;
use crate::id::{MemberName, MessageNumber, Millis, SessionId};
use crate::session::NewSession;
use crate::store::{Store, StoreError};

/// How often a session is read anew that another process changes meanwhile.
const ATTEMPTS: u32 = 20;

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
    /// It was changed while it was read, again and again.
    #[error("session {0} is changed by another process as fast as it is read; try again later")]
    Busy(SessionId),
    /// There is no such message to fork at.
    #[error("there is no message {0} to fork at")]
    NoMessage(MessageNumber),
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

/// Writes everything: the conversation, its turns, what was sent and what came back.
pub async fn export(
    store: &impl Store,
    session: SessionId,
    out: &mut (impl Write + Send),
) -> Result<(), TransferError> {
    for _ in 0..ATTEMPTS {
        let head = store.session(session).await?.head;
        let mut text = Vec::new();
        archive::write(store, session, &mut text).await?;
        if store.session(session).await?.head == head {
            return Ok(out.write_all(&text)?);
        }
    }
    Err(TransferError::Busy(session))
}

/// Reads what [`export`] or [`export_snapshot`] wrote into a new session.
///
/// A snapshot knows no team: it gets what `new` says. Everything else brings its own, and comes to the
/// directory that `new` says: a file must not choose where agents work.
pub async fn import(
    store: &impl Store,
    text: &str,
    new: NewSession,
) -> Result<Imported, TransferError> {
    if !archive::is_archive(text) {
        let (archive, diagnostics) = snapshot::read(text, new)?;
        let session = archive.session.id;
        archive.store(store).await?;
        return Ok(Imported { session, diagnostics });
    }
    let mut archive = Archive::read(text)?;
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

/// Says whether a file brings its own team: [`export`] writes it, [`export_snapshot`] does not.
pub fn brings_its_team(text: &str) -> bool {
    archive::is_archive(text)
}

/// Copies a session as it was after one of its messages, or as it is: the copy goes its own way.
///
/// As it is, what waits is copied too. After an earlier message nothing waits.
pub async fn fork(
    store: &impl Store,
    session: SessionId,
    after: Option<MessageNumber>,
    id: SessionId,
    at: Millis,
) -> Result<(), TransferError> {
    let mut archive = read_at_rest(store, session).await?;
    archive.session.id = id;
    archive.session.created_at = at;
    if let Some(after) = after {
        if after.0 == 0 || after > archive.state.last_message {
            return Err(TransferError::NoMessage(after));
        }
        if after < archive.state.last_message {
            archive.cut_after(after);
        }
    }
    archive.store(store).await
}

/// Reads a session that nobody changes meanwhile: its parts have to fit together.
async fn read_at_rest(store: &impl Store, session: SessionId) -> Result<Archive, TransferError> {
    for _ in 0..ATTEMPTS {
        let head = store.session(session).await?.head;
        let archive = Archive::of(store, session).await?;
        if store.session(session).await?.head == head {
            return Ok(archive);
        }
    }
    Err(TransferError::Busy(session))
}

impl Archive {
    /// Forgets what came after a message.
    fn cut_after(&mut self, last: MessageNumber) {
        self.messages.retain(|message| message.number <= last);
        self.turns.retain(|turn| {
            !turn.state.is_open()
                && turn.answers <= last
                && turn.reply.is_none_or(|reply| reply <= last)
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
}
