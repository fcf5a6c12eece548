//! The memory of a member whose own session goes on: what a turn continues, and what is new for it.
//!
//! A turn continues the state after the last turn that arrived as a whole. If the program's session may hold more, because
//! an attempt since then failed, was cancelled or was cut off, the program returns to that state first; nothing is guessed
//! about what such an attempt delivered. Without such a state the turn starts afresh with the whole prompt.

mod forget;

use std::collections::BTreeSet;
use std::path::Path;

use convoke_agent::turn::Continuity;
use convoke_core::Diagnostic;
use convoke_core::context::is_visible_to;
use convoke_core::figures::thousands;
use convoke_core::name::NameKey;
use convoke_protocol::content::ContentHash;
use convoke_protocol::id::{MessageNumber, SessionId};
use convoke_protocol::memory::{Branch, Continued, Known, MemberMemory, MemoryUse};
use convoke_protocol::message::Message;
use convoke_protocol::resume::ResumeHandle;
use serde::{Deserialize, Serialize};
use serde_json::json;

pub use self::forget::forget;
use crate::diagnostics;
use crate::prompt::PromptRecord;
use crate::store::{ContextReader, Store, StoreError, Window};

/// The part of a prompt's input that depends on what its member remembers.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PromptMemory {
    /// What the member's session was given before; `None` if the prompt is whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Known>,
    /// Messages that the member answers in later turns, which deliver them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub later: Vec<MessageNumber>,
}

/// The circumstances of a turn that decide whether it can continue a session.
#[derive(Clone, Copy)]
pub struct Circumstances<'a> {
    pub session: SessionId,
    pub continuity: Continuity,
    /// Returns whether the agent's program rests in a state of its session.
    pub holds: &'a dyn Fn(&ResumeHandle) -> bool,
    /// The working directory.
    pub cwd: &'a Path,
    /// The model that the member names.
    pub model: Option<&'a str>,
    /// The hash of the member's own texts.
    pub texts: ContentHash,
    /// The tokens of a window beyond which a turn starts afresh.
    pub limit: Option<u64>,
}

/// How a turn begins.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Recall {
    /// The session that the program continues.
    pub resume: Option<ResumeHandle>,
    /// The state that is continued, for the log.
    pub continues: Option<Continued>,
    /// What the session was given before.
    pub since: Option<Known>,
    /// The reason why a session is not continued although there is one.
    pub lost: Option<String>,
}

impl Recall {
    /// Decides how a turn begins.
    pub fn new(memory: Option<&MemberMemory>, now: &Circumstances<'_>) -> Self {
        let Some((memory, last)) = memory.and_then(|it| Some((it, it.last.as_ref()?))) else {
            return Self::default();
        };
        let handle = &last.session;
        let is_foreign = handle.owner.is_some_and(|owner| owner != now.session);
        let branch = if memory.is_ahead || is_foreign { Branch::New } else { Branch::Same };
        if let Some(reason) = obstacle(handle, &last.known, branch, now) {
            return Self { lost: Some(reason), ..Self::default() };
        }
        let continued = Continued {
            session: handle.session.clone(),
            turn: last.turn,
            attempt: last.attempt,
            branch,
        };
        Self {
            resume: (now.continuity != Continuity::Own).then(|| handle.clone()),
            continues: Some(continued),
            since: Some(last.known.clone()),
            lost: None,
        }
    }

    /// Returns the branch of the session in which the turn runs.
    pub fn branch(&self) -> Branch {
        self.continues.as_ref().map_or(Branch::Same, |continued| continued.branch)
    }
}

/// Returns the reason why a session cannot be continued.
fn obstacle(
    handle: &ResumeHandle,
    known: &Known,
    branch: Branch,
    now: &Circumstances<'_>,
) -> Option<String> {
    if now.continuity == Continuity::Own {
        return None;
    }
    let is_other = |model: &str| handle.model.as_deref().is_some_and(|before| before != model);
    match now.continuity {
        Continuity::None => {
            return Some("the sessions of its program cannot be continued".to_owned());
        }
        Continuity::Alive if branch == Branch::New || !(now.holds)(handle) => {
            let why = "its program has ended, and no other process finds the session as it was";
            return Some(why.to_owned());
        }
        _ => {}
    }
    if branch == Branch::New && (now.continuity < Continuity::Rewound || handle.mark.is_none()) {
        let why = "its session went on after the last turn that arrived, and cannot be taken back";
        return Some(why.to_owned());
    }
    if known.texts != now.texts {
        return Some("its own texts were changed, and a session keeps its first ones".to_owned());
    }
    if handle.cwd != now.cwd {
        return Some(format!("its session belongs to another directory, {}", handle.cwd.display()));
    }
    if let Some(model) = now.model.filter(|model| is_other(model)) {
        return Some(format!("its session belongs to another model than {model}"));
    }
    match (handle.window, now.limit) {
        (Some(window), Some(limit)) if window > limit => Some(format!(
            "its session had {} tokens, and `memory-limit` is {}",
            thousands(window),
            thousands(limit)
        )),
        _ => None,
    }
}

/// Returns the diagnostic about a session that is not continued.
pub(crate) fn lost(member: &str, reason: &str) -> Diagnostic {
    let message = format!("{member} starts afresh with the whole prompt: {reason}");
    Diagnostic::new(diagnostics::MEMORY_LOST, message)
}

impl PromptRecord {
    /// Returns the hash of the member's own texts, which a session gets once.
    pub fn texts(&self) -> ContentHash {
        let file = self.instruction_file.as_ref().map(|file| &file.text);
        let texts = (&self.role_summary, &self.instructions, &self.briefing, file);
        ContentHash::new(&json!(texts).to_string())
    }

    /// Returns what the member's session was given before the prompt.
    pub(crate) fn since(&self) -> Option<&Known> {
        self.memory.as_ref()?.since.as_ref()
    }

    /// Returns whether a message is context that the member's session lacks.
    pub(crate) fn is_new(&self, message: &Message) -> bool {
        let Some(memory) = &self.memory else { return true };
        let is_later = memory.later.contains(&message.number);
        let Some(since) = &memory.since else { return !is_later };
        let is_unknown = message.number > since.through || since.left.contains(&message.number);
        is_unknown && !is_later && message.from() != self.member
    }

    /// Returns the number of messages among which the context is looked for.
    pub(crate) fn search_limit(&self) -> usize {
        let window = self.options.window;
        let Some(memory) = self.memory.as_ref().filter(|_| window > 0) else { return window };
        let Some(since) = &memory.since else { return window.saturating_add(memory.later.len()) };
        let oldest = since.left.first().copied().unwrap_or(since.through.next());
        let count = self.as_of.0.saturating_sub(oldest.0).saturating_add(1);
        usize::try_from(count).unwrap_or(usize::MAX)
    }

    /// Returns how the attempt uses the memory, once its context is known; `None` without memory.
    pub(crate) async fn memory_use(
        &self,
        store: &impl Store,
        session: SessionId,
        continues: Option<Continued>,
    ) -> Result<Option<MemoryUse>, StoreError> {
        let Some(memory) = &self.memory else { return Ok(None) };
        let from = memory.since.as_ref().map_or(self.answers, |since| since.through);
        let count = usize::try_from(self.as_of.0.saturating_sub(from.0)).unwrap_or(usize::MAX);
        let mut left: BTreeSet<MessageNumber> = memory.later.iter().copied().collect();
        left.extend(memory.since.iter().flat_map(|since| &since.left));
        if count > 0 {
            let reader = self.reader();
            let recent = store.messages_after(session, from, count).await?;
            let recent = recent.iter().filter(|it| it.number <= self.as_of);
            let recent = recent.filter(|it| it.from() != self.member && reader.sees(it));
            left.extend(recent.map(|message| message.number));
        }
        for sent in self.context.iter().chain([&self.answers]) {
            left.remove(sent);
        }
        let known = Known {
            through: self.as_of,
            left: left.into_iter().collect(),
            task: self.task.as_deref().map(ContentHash::new),
            texts: self.texts(),
            workspaces: self.workspaces.as_deref().map(ContentHash::new),
        };
        Ok(Some(MemoryUse { continues, known }))
    }

    /// Returns the window of messages among which the context is looked for.
    pub(crate) fn search(&self) -> Window {
        let (answers, as_of) = (self.answers, self.as_of);
        Window { answers, as_of, limit: self.search_limit(), reader: self.reader() }
    }
}

impl ContextReader {
    fn sees(&self, message: &Message) -> bool {
        match self {
            Self::Everything => true,
            Self::Member(names) => is_visible_to(&message.message, names),
        }
    }
}

/// Returns the names of a member for comparisons.
pub(crate) fn keys(names: &[String]) -> Vec<NameKey> {
    names.iter().map(|name| NameKey::new(name)).collect()
}
