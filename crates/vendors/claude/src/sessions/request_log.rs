//! The requests of one file: those that the program logged, those that only an answer tells of, and those that only a
//! summary tells of.

use std::collections::VecDeque;
use std::sync::Arc;

use convoke_protocol::agent_event::RequestPurpose;
use convoke_protocol::content::ContentHash;
use convoke_protocol::id::Millis;
use convoke_protocol::window::Place;
use serde_json::value::RawValue;

use super::canonical::MessageHash;
use super::messages::{LinePlace, Messages};
use super::record::{Message, Record, list, name, number, parsed, text};
use super::tool_result::Tasks;
use super::usage::{Counted, Totals};

/// The number of requests that can still change.
const MAX_PENDING: usize = 16;
/// The number of requests that a later one can begin with. The program names the one before.
const MAX_RECENT: usize = 8;
/// The maximum number of messages in a request.
const MAX_MESSAGES: usize = 100_000;
/// The maximum number of records that form one message.
const MAX_RUN: usize = 256;

/// What was read of a file.
#[derive(Debug, Default)]
pub(super) struct FileLog {
    run: Option<Run>,
    recent: VecDeque<(u64, Arc<[u32]>)>,
    pub pending: VecDeque<Pending>,
    pub hidden: Vec<Hidden>,
    pub totals: Totals,
    pub tasks: Tasks,
    /// The model of the last request.
    pub model: Option<Arc<str>>,
    /// The time at which the session got its first prompt. Earlier answers were copied from another session.
    pub first_prompt: Option<Millis>,
    pub has_conversation: bool,
    pub has_copies: bool,
    /// Whether the program logs its requests into this file.
    pub has_requests: bool,
    /// The record of the session from which a forked sub-agent goes on.
    pub forked_at: Option<u64>,
    /// The parts of the conversation since the last summary.
    pub parts: u64,
    pub last_at: Option<Millis>,
    /// The times of the first request and the last one.
    pub span: Option<(Millis, Millis)>,
}

/// Consecutive records that may form one message.
#[derive(Debug)]
struct Run {
    role: Box<str>,
    answer: Option<u64>,
    hash: MessageHash,
    places: Vec<LinePlace>,
}

/// A request that can still change.
#[derive(Debug)]
pub(super) struct Pending {
    pub key: u64,
    /// Its id in the log.
    pub id: Option<u64>,
    pub answer_id: Option<String>,
    pub agent: Option<Arc<str>>,
    pub place: Place,
    pub at: Option<Millis>,
    pub model: Option<Arc<str>>,
    pub purpose: RequestPurpose,
    pub source: WindowSource,
    pub counted: Option<Counted>,
    pub status: Option<u16>,
    pub is_settled: bool,
    /// Whether it was handed out as it is now.
    pub is_handed_out: bool,
}

/// A request that only a summary tells of.
#[derive(Debug)]
pub(super) struct Hidden {
    pub request: Pending,
    /// The time between the totals that tell its tokens.
    pub span: (Option<Millis>, Option<Millis>),
}

/// How the window of a request is found.
#[derive(Debug, Clone)]
pub(super) enum WindowSource {
    /// The log has the hashes of its messages.
    Log {
        messages: Arc<[u32]>,
        shape: Option<ContentHash>,
        /// Whether the log does not hold all that was sent.
        is_incomplete: bool,
    },
    /// The records up to this one, when the tree had this length.
    Tree { last: Option<u64>, length: usize },
    /// It is in no file.
    None,
}

impl FileLog {
    /// Notes a record of the conversation, which can be a message or a part of one.
    pub fn extend_run(
        &mut self,
        message: &Message<'_>,
        place: LinePlace,
        messages: &mut Messages,
    ) -> Option<()> {
        let run = self.run.take();
        let (role, content) = (message.role?, message.content?);
        let answer = text(message.id).map(|id| name(&id));
        let continues = |run: &Run| {
            let is_answer = answer.is_some() && run.answer == answer;
            *run.role == *role.get()
                && (&*run.role == "\"user\"" || is_answer)
                && run.places.len() < MAX_RUN
        };
        let mut run = run.filter(continues).unwrap_or_else(|| Run {
            role: role.get().into(),
            answer,
            hash: MessageHash::new(),
            places: Vec::new(),
        });
        run.hash.add(content)?;
        run.places.push(place);
        messages.know(run.hash.of_role(role), &run.places, true);
        if content.get().starts_with('"') {
            messages.know(text_hash(content, role), &[place], true);
        }
        self.run = Some(run);
        Some(())
    }

    /// Returns the window of a request of the log. What the file does not hold is left out.
    pub fn logged(
        &mut self,
        record: &Record<'_>,
        id: Option<u64>,
        messages: &mut Messages,
    ) -> WindowSource {
        let mut is_incomplete = false;
        let mut sent = Vec::new();
        let keep = number(record.keep).and_then(|keep| usize::try_from(keep).ok()).unwrap_or(0);
        if keep > 0 {
            let base = text(record.base).map(|base| name(&base));
            let known = self.recent.iter().rev().find(|(id, _)| Some(*id) == base);
            match known.and_then(|(_, messages)| messages.get(..keep)) {
                Some(kept) => sent.extend_from_slice(kept),
                None => is_incomplete = true,
            }
        }
        for hash in list(record.tail) {
            match text(Some(hash)).and_then(|hash| hash.parse().ok()) {
                Some(hash) if sent.len() < MAX_MESSAGES => sent.push(messages.number(hash)),
                _ => is_incomplete = true,
            }
        }
        let sent: Arc<[u32]> = sent.into();
        if let Some(id) = id
            && !is_incomplete
        {
            self.recent.push_back((id, sent.clone()));
            if self.recent.len() > MAX_RECENT {
                self.recent.pop_front();
            }
        }
        let shape = text(record.shape_hash).and_then(|hash| hash.parse().ok());
        let is_incomplete = is_incomplete || record.cut.is_some();
        WindowSource::Log { messages: sent, shape, is_incomplete }
    }

    /// Adds a request, and returns one that can no longer change.
    pub fn push(&mut self, request: Pending) -> Option<Pending> {
        if let Some(at) = request.at {
            let (first, last) = self.span.unwrap_or((at, at));
            self.span = Some((first.min(at), last.max(at)));
        }
        self.pending.push_back(request);
        (self.pending.len() > MAX_PENDING).then(|| self.pending.pop_front()).flatten()
    }

    /// Returns the numbers of the messages that a later request can begin with.
    pub fn live(&self) -> impl Iterator<Item = u32> + '_ {
        let pending = self.pending.iter().filter_map(|it| match &it.source {
            WindowSource::Log { messages, .. } => Some(messages),
            _ => None,
        });
        self.recent
            .iter()
            .map(|(_, messages)| messages)
            .chain(pending)
            .flat_map(|it| it.iter().copied())
    }

    /// Notes the status of the last request that has no answer.
    pub fn fail(&mut self, status: Option<u16>) {
        let open = |it: &&mut Pending| it.answer_id.is_none() && it.status.is_none();
        if let Some(request) = self.pending.iter_mut().rev().take(1).find(open) {
            request.status = status;
            request.is_settled = true;
            request.is_handed_out = false;
        }
    }
}

/// Returns the hash of a message whose content is a text, as it is written.
fn text_hash(content: &RawValue, role: &RawValue) -> ContentHash {
    ContentHash::new(&format!(r#"{{"content":{},"role":{}}}"#, content.get(), role.get()))
}

/// Returns the purpose of a request by the part of the program that made it.
pub(super) fn purpose(source: &str) -> RequestPurpose {
    match source {
        source if source.contains("compact") => RequestPurpose::Compaction,
        source if source.contains("title") => RequestPurpose::Title,
        "sdk" => RequestPurpose::Answer,
        source if source.starts_with("repl_main_thread") || source.starts_with("agent:") => {
            RequestPurpose::Answer
        }
        _ => RequestPurpose::Aside,
    }
}

/// Returns the purpose of the requests in a sub-agent's file, by the name that the program gave it.
pub(super) fn purpose_of_agent(agent: &str) -> Option<RequestPurpose> {
    const PURPOSES: &[(&str, RequestPurpose)] = &[
        ("acompact-", RequestPurpose::Compaction),
        ("aprompt_suggestion-", RequestPurpose::Aside),
        ("aside_question-", RequestPurpose::Aside),
        ("asession_memory-", RequestPurpose::Aside),
    ];
    PURPOSES.iter().find(|(start, _)| agent.starts_with(start)).map(|(_, purpose)| *purpose)
}

/// Returns the model of a request's parameters.
pub(super) fn model(record: &Record<'_>) -> Option<Arc<str>> {
    let params: Message<'_> = parsed(record.params)?;
    text(params.model).map(|model| (&*model).into())
}
