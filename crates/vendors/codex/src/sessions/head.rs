//! The first record of a session file: what the session is.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::json::{Raw, number, object, text};
use super::record::Record;

/// What a session file is, by its first record.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Head {
    pub id: String,
    /// The session that the file belongs to: another one if this is a sub-agent's.
    pub session: Option<String>,
    pub is_subagent: bool,
    /// The thread that started this sub-agent.
    pub parent: Option<String>,
    pub agent_path: Option<String>,
    /// The first record that is the sub-agent's own; those before are copies of its parent's.
    pub own_from: u64,
    pub forked_from: Option<String>,
    /// Whose records before which one come before this file's.
    pub base: Option<Base>,
    pub cwd: Option<String>,
    pub version: Option<String>,
    pub branch: Option<String>,
    pub instructions: Option<String>,
    /// Whether the lines are items without an envelope, as up to September 2025.
    pub is_bare: bool,
}

/// The history that a fork left in the file of the session it was forked from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Base {
    pub thread: String,
    pub end: u64,
}

#[derive(Deserialize)]
struct Meta<'r> {
    #[serde(borrow, default)]
    id: Raw<'r>,
    #[serde(borrow, default)]
    session_id: Raw<'r>,
    #[serde(borrow, default)]
    forked_from_id: Raw<'r>,
    #[serde(borrow, default)]
    parent_thread_id: Raw<'r>,
    #[serde(borrow, default)]
    cwd: Raw<'r>,
    #[serde(borrow, default)]
    cli_version: Raw<'r>,
    #[serde(borrow, default)]
    source: Raw<'r>,
    #[serde(borrow, default)]
    thread_source: Raw<'r>,
    #[serde(borrow, default)]
    agent_path: Raw<'r>,
    #[serde(borrow, default)]
    base_instructions: Raw<'r>,
    #[serde(borrow, default)]
    instructions: Raw<'r>,
    #[serde(borrow, default)]
    history_base: Raw<'r>,
    #[serde(borrow, default)]
    subagent_history_start_ordinal: Raw<'r>,
    #[serde(borrow, default)]
    git: Raw<'r>,
}

#[derive(Deserialize)]
struct Nested<'r> {
    #[serde(borrow, default)]
    text: Raw<'r>,
    #[serde(borrow, default)]
    branch: Raw<'r>,
    #[serde(borrow, default)]
    subagent: Raw<'r>,
    #[serde(borrow, default)]
    thread_spawn: Raw<'r>,
    #[serde(borrow, default)]
    parent_thread_id: Raw<'r>,
    #[serde(borrow, default)]
    agent_path: Raw<'r>,
    #[serde(borrow, default)]
    thread_id: Raw<'r>,
    #[serde(borrow, default)]
    end_ordinal_exclusive: Raw<'r>,
}

impl Head {
    /// Reads the first record; `None` if it is not one of a session of Codex.
    pub(super) fn read(line: &[u8]) -> Option<Self> {
        let record: Record<'_> = serde_json::from_slice(line).ok()?;
        match text(record.kind) {
            Some(kind) if kind == "session_meta" => Self::of_meta(record.payload?),
            Some(_) => None,
            None => {
                let is_bare = record.timestamp.is_some() && record.payload.is_none();
                let meta = serde_json::from_slice::<&RawValue>(line).ok().filter(|_| is_bare)?;
                // Files of other programs have ids and times as well; only these have no kind, and a UUID.
                let id = text(record.id).filter(|id| is_uuid(id))?;
                let read = Self::of_meta(meta)?;
                Some(Self { id: id.into_owned(), is_bare: true, instructions: None, ..read })
            }
        }
    }

    /// Reads the payload of a `session_meta` record.
    pub(super) fn of_meta(meta: &RawValue) -> Option<Self> {
        let meta: Meta<'_> = object(Some(meta))?;
        let owned = |field| text(field).map(std::borrow::Cow::into_owned);
        let nested = |field| object::<Nested<'_>>(field);
        let source = nested(meta.source).and_then(|it| it.subagent);
        let spawn = nested(source).and_then(|it| nested(it.thread_spawn));
        let parent = owned(meta.parent_thread_id)
            .or_else(|| spawn.as_ref().and_then(|it| owned(it.parent_thread_id)));
        let base = nested(meta.history_base).and_then(|it| {
            Some(Base { thread: owned(it.thread_id)?, end: number(it.end_ordinal_exclusive)? })
        });
        Some(Self {
            id: owned(meta.id).filter(|id| !id.is_empty())?,
            session: owned(meta.session_id),
            is_subagent: source.is_some()
                || text(meta.thread_source).is_some_and(|it| it == "subagent"),
            parent,
            agent_path: owned(meta.agent_path)
                .or_else(|| spawn.as_ref().and_then(|it| owned(it.agent_path))),
            own_from: number(meta.subagent_history_start_ordinal).unwrap_or(0),
            forked_from: owned(meta.forked_from_id),
            base,
            cwd: owned(meta.cwd),
            version: owned(meta.cli_version),
            branch: nested(meta.git).and_then(|it| owned(it.branch)),
            instructions: nested(meta.base_instructions)
                .and_then(|it| owned(it.text))
                .or_else(|| owned(meta.instructions)),
            is_bare: false,
        })
    }

    /// Returns the session that started this sub-agent, as far as this file tells.
    pub(super) fn root(&self) -> Option<&str> {
        let session = self.session.as_deref().filter(|session| *session != self.id);
        session.or(self.parent.as_deref()).filter(|_| self.is_subagent)
    }
}

/// Returns whether a text has the form of a UUID.
pub(super) fn is_uuid(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(index, byte)| match index {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}
