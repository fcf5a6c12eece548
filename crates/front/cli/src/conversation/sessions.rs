//! Looks up sessions by id or `last`.

use std::collections::HashMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use convoke_inspect::HostEnvironment;
use convoke_protocol::id::{MemberName, SessionId};
use convoke_protocol::session::Summary;
use convoke_protocol::turn::TurnState;
use convoke_session::Store;
use convoke_session::rows::each_turn;

use super::home::Home;
use super::sample;
pub use super::store::open_store;
use crate::host_environment;
use crate::outcome::UsageError;
use crate::program;
use crate::terminal::stderr;

/// The directory in which the command runs, and the sessions that belong to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkingDirectory {
    cwd: PathBuf,
    home: PathBuf,
}

impl WorkingDirectory {
    /// Finds the real path of the working directory.
    pub fn find(host_environment: &HostEnvironment) -> Self {
        let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
        Self { cwd: real(&host_environment.cwd), home: real(&host_environment.home) }
    }

    /// Returns whether a session belongs here: its team works in this directory, or in one above it.
    pub fn has(&self, session: &Summary) -> bool {
        self.cwd.starts_with(&session.directory)
    }

    /// Returns whether another program's session in a directory belongs here: in this directory, above it, or below it
    /// unless this is the home.
    pub fn is_near(&self, directory: &str) -> bool {
        let directory = Path::new(directory);
        self.cwd.starts_with(directory)
            || self.cwd != self.home
                && self.cwd.parent().is_some()
                && directory.starts_with(&self.cwd)
    }

    /// Formats a directory for people: `.` for the working directory, `~` for the user's home.
    pub fn shown(&self, directory: &Path) -> String {
        if directory == self.cwd {
            return ".".to_owned();
        }
        self.named(directory)
    }

    /// Formats a directory, relative to `~` if it is below the user's home.
    pub fn named(&self, directory: &Path) -> String {
        match directory.strip_prefix(&self.home) {
            Ok(below) if self.home.parent().is_some() => {
                Path::new("~").join(below).display().to_string()
            }
            _ => directory.display().to_string(),
        }
    }
}

/// The maximum number of sessions that an error names.
const SHOWN: usize = 5;

/// Finds a session by the beginning of its short id or of its whole id. `last` is the most recently changed session of this
/// directory, or of any other if this one has none; then its directory is printed.
pub async fn find(store: &impl Store, written: &str) -> anyhow::Result<SessionId> {
    let sessions = store.sessions().await?;
    if written == "last" {
        let here = WorkingDirectory::find(&host_environment::of_process()?);
        if let Some(last) = sessions.iter().find(|session| here.has(session)) {
            return Ok(last.id);
        }
        if let Some(last) = sessions.first() {
            let directory = here.shown(Path::new(&last.directory));
            writeln!(stderr(), "the last session belongs to another directory: {directory}")?;
            return Ok(last.id);
        }
        let store = program::store_option();
        let why = format!(
            "there are no sessions of Convoke yet; `convoke run` starts one, and `convoke sessions list --all{store}` lists those of other programs"
        );
        return Err(UsageError(why).into());
    }
    let ids = sessions.iter().map(|session| session.id);
    one_of(ids, written, "convoke sessions list --all")
}

/// Finds a session that is to be continued, as [`find`] does; `last` is never one of another project.
pub async fn find_to_continue(
    store: &impl Store,
    written: &str,
    home: &Home,
) -> anyhow::Result<SessionId> {
    // Those of the sample work in a directory of Convoke's own, wherever they are started.
    let sample = sample::directory(home).canonicalize().ok();
    let is_of_sample = |session: &Summary| sample.as_deref() == Some(Path::new(&session.directory));
    let last = store.sessions().await?.into_iter().next();
    if written == "last" && last.as_ref().is_some_and(is_of_sample) {
        return find(store, written).await;
    }
    find_to_change(store, written).await
}

/// Finds a session whose files are to be changed, as [`find`] does; `last` is never one of another directory.
pub async fn find_to_change(store: &impl Store, written: &str) -> anyhow::Result<SessionId> {
    let here = WorkingDirectory::find(&host_environment::of_process()?);
    if written != "last" {
        return find(store, written).await;
    }
    let sessions = store.sessions().await?;
    if let Some(last) = sessions.iter().find(|session| here.has(session)) {
        return Ok(last.id);
    }
    let store = program::store_option();
    let listed = format!("pass an id from `convoke sessions list --all{store}`");
    let advice = sessions.first().map_or(listed.clone(), |last| {
        let (id, directory) = (last.id, here.shown(Path::new(&last.directory)));
        format!("the last session, {id}, belongs to {directory}; {listed}")
    });
    Err(UsageError(format!("no session belongs to this directory; {advice}")).into())
}

/// Returns the one session that the beginning of an id means; `listed_by` is the command that lists
/// them all.
pub fn one_of(
    sessions: impl Iterator<Item = SessionId>,
    written: &str,
    listed_by: &str,
) -> anyhow::Result<SessionId> {
    let sessions: Vec<SessionId> = sessions.collect();
    let all = |is_meant: fn(&SessionId, &str) -> bool| -> Vec<SessionId> {
        sessions.iter().copied().filter(|session| is_meant(session, written)).collect()
    };
    // What the lists print comes first: every id begins with a time, and so do many short ones.
    let mut found = all(SessionId::is_begun_by);
    if found.is_empty() {
        found = all(SessionId::is_abbreviated_by);
    }
    match found.as_slice() {
        [only] => Ok(*only),
        [_, ..] => {
            let ids: Vec<String> =
                found.iter().take(SHOWN).map(|id| id.short_among(&sessions)).collect();
            let more = if found.len() > SHOWN { ", …" } else { "" };
            Err(UsageError(format!(
                "`{written}` matches {} sessions ({}{more}); give more of the id",
                found.len(),
                ids.join(", ")
            ))
            .into())
        }
        [] => {
            let listed_by = format!("{listed_by}{}", program::store_option());
            let written = written.to_owned();
            Err(UnknownSession { written, listed_by }.into())
        }
    }
}

/// No session has an id like this: bad usage.
#[derive(Debug, thiserror::Error)]
#[error("no session `{written}`; `{listed_by}` lists the sessions")]
pub struct UnknownSession {
    written: String,
    listed_by: String,
}

/// Counts the turns that each member has done.
pub async fn turns_done(
    store: &impl Store,
    session: SessionId,
) -> anyhow::Result<HashMap<MemberName, usize>> {
    let mut done = HashMap::new();
    each_turn(store, session, |turn| {
        if turn.state == TurnState::Done {
            *done.entry(turn.member).or_insert(0) += 1;
        }
        anyhow::Ok(())
    })
    .await?;
    Ok(done)
}
