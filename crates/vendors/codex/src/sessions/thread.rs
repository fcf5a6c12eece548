//! One session file, record by record.

use std::borrow::Cow;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use convoke_core::Millis;
use convoke_protocol::agent_event::RequestPurpose;
use convoke_protocol::usage::Usage;
use convoke_protocol::window::{Grade, Place};
use convoke_source::{Entry, EntryKind, Facts, Kept, Report, Request, Sink};
use convoke_wire::normal::Parts;
use serde_json::value::RawValue;

use super::conversation::{Conversation, Family, NewItem};
use super::head::Head;
use super::item::{Item, Kind};
use super::json::{Raw, list, number, object, text};
use super::record::{Compacted, Metadata, Record, TokenCount, TurnContext, UsageRecord, usage};
use super::{events, person};

/// The largest number of records that are remembered, to know one that stands twice.
const MAX_REMEMBERED: usize = 2_000_000;
/// The largest number of calls whose results are awaited.
pub(super) const MAX_AWAITED: usize = 1_000;
/// The kinds of records that tell nothing about the conversation.
const WITHOUT_NEWS: &[&str] =
    &["world_state", "inter_agent_communication_metadata", "security_decision"];

/// Hands entries to a sink, if there is one.
pub(super) struct Out<'s> {
    sink: Option<&'s mut dyn Sink>,
    is_stopped: bool,
}

impl<'s> Out<'s> {
    /// Creates an output to a sink.
    pub(super) fn new(sink: &'s mut dyn Sink) -> Self {
        Self { sink: Some(sink), is_stopped: false }
    }

    /// Creates an output that nobody reads.
    pub(super) const fn muted() -> Self {
        Self { sink: None, is_stopped: false }
    }

    /// Returns whether nobody reads this.
    pub(super) const fn is_muted(&self) -> bool {
        self.sink.is_none()
    }

    /// Returns whether the sink wants no more.
    pub(super) const fn is_stopped(&self) -> bool {
        self.is_stopped
    }

    /// Hands an entry to the sink.
    pub(super) fn give(&mut self, at: &At, agent: Option<&str>, kind: EntryKind<'_>) {
        if let Some(sink) = self.sink.as_mut().filter(|_| !self.is_stopped) {
            let entry = Entry { place: at.place.clone(), at: at.time, agent, kind };
            self.is_stopped = sink.take(entry).is_break();
        }
    }
}

/// Where and when a record was written.
#[derive(Debug, Clone)]
pub(super) struct At {
    pub place: Place,
    pub time: Option<Millis>,
}

/// A response whose purpose the next record may tell.
#[derive(Debug)]
struct Pending {
    key: u64,
    end: usize,
    at: At,
    answer_id: Option<String>,
    usage: Option<Usage>,
    status: Option<u16>,
    purpose: RequestPurpose,
    /// Whether it was handed out, as what it seemed to be.
    is_given: bool,
}

/// What is known of a session file so far.
pub(super) struct Thread {
    pub head: Head,
    /// The name of the sub-agent, if it is one's.
    pub agent: Option<String>,
    pub conversation: Conversation,
    kept: Kept,
    model: Option<String>,
    has_head: bool,
    has_ordinals: bool,
    has_counts: bool,
    has_usage_records: bool,
    total: Option<Usage>,
    pending: Option<Pending>,
    next_key: u64,
    is_in_turn: bool,
    /// Whether the turn has an answer.
    pub is_turn_answered: bool,
    /// Whether a response began since the last one ended.
    has_begun: bool,
    /// Whether the last items are the summary of a compaction.
    is_summary: bool,
    /// The end of a request that was sent and not answered, in files whose program notes each one.
    attempt: Option<usize>,
    /// The unanswered request that was handed out last.
    given: Option<(u64, usize)>,
    /// Hashes of the records by their ordinal.
    remembered: Vec<u32>,
    /// Patches and questions of calls without a result.
    pub awaited: HashMap<String, events::Awaited>,
    /// The plan that the agent proposed last.
    pub plan: Option<String>,
    /// Sub-agents that were started.
    pub started: Vec<String>,
}

impl Thread {
    /// Creates the state at the beginning of a file.
    pub(super) fn new(head: Head, agent: Option<String>, kept: Kept) -> Self {
        Self {
            head,
            agent,
            conversation: Conversation::default(),
            kept,
            model: None,
            has_head: false,
            has_ordinals: false,
            has_counts: false,
            has_usage_records: false,
            total: None,
            pending: None,
            next_key: 0,
            is_in_turn: false,
            is_turn_answered: false,
            has_begun: false,
            is_summary: false,
            attempt: None,
            given: None,
            remembered: Vec::new(),
            awaited: HashMap::new(),
            plan: None,
            started: Vec::new(),
        }
    }

    /// Makes what was read so far the history of what follows.
    pub(super) fn inherit(&mut self) {
        self.conversation.answer();
        self.pending = None;
        self.attempt = None;
        self.has_head = false;
        self.is_in_turn = false;
        self.remembered.clear();
        self.awaited.clear();
        self.started.clear();
    }

    /// Makes the copies of another session's records the history of what follows.
    pub(super) fn inherit_copies(&mut self) {
        let (has_head, remembered) = (self.has_head, std::mem::take(&mut self.remembered));
        self.inherit();
        (self.has_head, self.remembered) = (has_head, remembered);
        self.next_key = 0;
    }

    /// Gives an entry.
    pub(super) fn give(&self, at: &At, kind: EntryKind<'_>, out: &mut Out<'_>) {
        out.give(at, self.agent.as_deref(), kind);
    }

    /// Notes that a record could not be read, which may have been a part of the conversation.
    pub(super) fn lose(&mut self) {
        self.conversation.incomplete = Some("a record of the conversation cannot be read");
    }

    /// Reads a record that is not a repetition. `is_own` tells whether it is of this session, and no copy of another's.
    pub(super) fn read(
        &mut self,
        record: &Record<'_>,
        line: &[u8],
        at: &At,
        out: &mut Out<'_>,
        report: &mut Report,
    ) {
        let kind = text(record.kind);
        if self.head.is_bare {
            return self.bare(record, line, at, out, report);
        }
        let (Some(kind), Some(payload)) = (kind, record.payload) else {
            report.broken(at.place.clone(), &"it has no kind or no payload");
            return self.lose();
        };
        match &*kind {
            "session_meta" => self.session_meta(payload, at, out),
            "response_item" => self.item(payload, record.metadata, at, out, report),
            "compacted" => self.compacted(payload, at, out, report),
            "turn_context" => self.turn_context(payload, at, out),
            "token_usage_record" => self.usage_record(payload, at, out),
            "event_msg" => events::read(self, payload, at, out, report),
            kind if WITHOUT_NEWS.contains(&kind) => {}
            other => report.unknown(other),
        }
    }

    /// Returns whether a record stands twice: its ordinal is taken, by the same line.
    pub(super) fn is_repeated(&mut self, record: &Record<'_>, line: &[u8]) -> bool {
        let Some(ordinal) = number(record.ordinal) else { return false };
        self.has_ordinals = true;
        let Ok(index) = usize::try_from(ordinal) else { return false };
        let mut hasher = DefaultHasher::new();
        line.hash(&mut hasher);
        #[expect(clippy::cast_possible_truncation, reason = "a part of the hash")]
        let hash = hasher.finish() as u32;
        match self.remembered.get(index) {
            Some(known) => *known == hash,
            None if index == self.remembered.len() && index < MAX_REMEMBERED => {
                self.remembered.push(hash);
                false
            }
            None => false,
        }
    }

    fn bare(
        &mut self,
        record: &Record<'_>,
        line: &[u8],
        at: &At,
        out: &mut Out<'_>,
        report: &mut Report,
    ) {
        if !self.has_head {
            return self.facts(at, out);
        }
        match (text(record.kind), serde_json::from_slice::<&RawValue>(line)) {
            (Some(_), Ok(item)) => self.item(item, None, at, out, report),
            _ if record.mark.is_some() => {}
            _ => report.unknown("a record without a kind"),
        }
    }

    fn session_meta(&mut self, payload: &RawValue, at: &At, out: &mut Out<'_>) {
        // A sub-agent's file has its parent's as well.
        if !self.has_head {
            let is_same = |head: &Head| head.id == self.head.id || self.head.id.is_empty();
            if let Some(head) = Head::of_meta(payload).filter(is_same) {
                self.head = head;
            }
            self.facts(at, out);
        }
    }

    fn facts(&mut self, at: &At, out: &mut Out<'_>) {
        self.has_head = true;
        let head = &self.head;
        let facts = Facts {
            version: head.version.as_deref(),
            cwd: head.cwd.as_deref(),
            branch: head.branch.as_deref(),
            ..Facts::default()
        };
        self.give(at, EntryKind::Facts(facts), out);
    }

    fn turn_context(&mut self, payload: &RawValue, at: &At, out: &mut Out<'_>) {
        self.settle(None, out);
        let Some(context) = object::<TurnContext<'_>>(Some(payload)) else { return };
        let model = text(context.model);
        if let Some(name) = &model {
            let hash = text(context.comp_hash).map(Cow::into_owned);
            self.conversation.set_model(&Family { name: name.clone().into_owned(), hash });
        }
        if model.is_some() && model.as_deref() != self.model.as_deref() {
            self.model = model.map(Cow::into_owned);
            let cwd = text(context.cwd);
            let facts =
                Facts { model: self.model.as_deref(), cwd: cwd.as_deref(), ..Facts::default() };
            self.give(at, EntryKind::Facts(facts), out);
        }
        // Before ordinals, the program wrote its settings at each attempt.
        if !self.has_ordinals && self.attempt.is_none() && self.conversation.is_unanswered() {
            self.attempt = Some(self.conversation.request_end());
        }
    }

    /// Reads an item of the conversation.
    fn item(
        &mut self,
        payload: &RawValue,
        metadata: Raw<'_>,
        at: &At,
        out: &mut Out<'_>,
        report: &mut Report,
    ) {
        self.settle(None, out);
        let Some(item) = object::<Item<'_>>(Some(payload)) else {
            report.broken(at.place.clone(), &"it is not an item of a conversation");
            return self.lose();
        };
        let kind = item.kind();
        self.fail_before(kind, at, out);
        let is_summary = object::<Metadata>(metadata).is_some_and(|it| it.compaction_output);
        self.is_summary |= is_summary;
        self.has_begun |= kind.is_of_model();
        if !is_summary {
            events::tell_item(self, &item, kind, at, out);
        }
        self.push(&item, kind, payload, at);
    }

    fn push(&mut self, item: &Item<'_>, kind: Kind, whole: &RawValue, at: &At) {
        if kind == Kind::Hidden {
            return;
        }
        let mut parts = Parts::new(at.place.clone(), self.kept.max_bytes());
        item.add_to(&mut parts, whole);
        let is_aborted = kind == Kind::Output && person::is_abort_result(&item.result().0);
        self.conversation.push(NewItem {
            kind,
            role_is_developer: item.is_of_developer(),
            parts,
            tools: if kind == Kind::Tools { item.tool_names() } else { Vec::new() },
            call: item.call_id().map(|id| (*id).into()),
            at: at.time,
            is_aborted,
            is_switch: item.texts().iter().any(|it| it.starts_with("<model_switch>")),
        });
    }

    /// Hands out a request that has no answer, because the next turn begins, or one whose program notes no tokens.
    fn fail_before(&mut self, next: Kind, at: &At, out: &mut Out<'_>) {
        let is_next_turn = matches!(next, Kind::Person | Kind::Context);
        if let Some(end) = self.attempt.filter(|_| is_next_turn) {
            self.begin_pending(Some(end), None, None, at, out);
            self.settle(None, out);
            self.give(
                at,
                EntryKind::Failed { status: None, message: "the request has no answer" },
                out,
            );
        } else if !next.is_of_model() && next != Kind::Aborted && self.is_without_counts() {
            self.begin_pending(None, None, None, at, out);
            self.settle(None, out);
        }
    }

    /// Returns whether the model wrote something of which no tokens are noted.
    fn is_without_counts(&self) -> bool {
        let counts = self.has_ordinals || self.has_counts || self.has_usage_records;
        !counts && self.conversation.has_begun_answer()
    }

    fn usage_record(&mut self, payload: &RawValue, at: &At, out: &mut Out<'_>) {
        self.settle(None, out);
        self.has_usage_records = true;
        let Some(record) = object::<UsageRecord<'_>>(Some(payload)) else { return };
        let thread = text(record.thread_id);
        if thread.is_some_and(|thread| thread != self.head.id) {
            // A copy of another session's.
            return self.conversation.answer();
        }
        let id = text(record.response_id).map(Cow::into_owned);
        self.begin_pending(None, id, usage(record.usage), at, out);
    }

    /// Reads token counts, which older versions write instead of a record for each response.
    pub(super) fn token_count(&mut self, info: Raw<'_>, at: &At, out: &mut Out<'_>) {
        self.has_counts = true;
        self.has_begun = true;
        let count = object::<TokenCount<'_>>(info).unwrap_or_default();
        let total = usage(count.total_token_usage);
        let is_same = total.is_none() || std::mem::replace(&mut self.total, total) == total;
        if self.has_ordinals && is_same && self.conversation.has_answer() {
            // The stream broke; the next attempt sends what came.
            self.conversation.attempt();
        }
        if self.has_usage_records || is_same {
            return;
        }
        self.settle(None, out);
        self.begin_pending(self.attempt, None, usage(count.last_token_usage), at, out);
    }

    fn begin_pending(
        &mut self,
        end: Option<usize>,
        answer_id: Option<String>,
        usage: Option<Usage>,
        at: &At,
        out: &Out<'_>,
    ) {
        let end = end.unwrap_or_else(|| self.conversation.request_end());
        let is_summary = std::mem::take(&mut self.is_summary);
        self.conversation.answer();
        self.attempt = None;
        self.has_begun = false;
        self.is_turn_answered = true;
        if out.is_muted() {
            self.next_key += 1;
            return;
        }
        let purpose = if is_summary { RequestPurpose::Compaction } else { RequestPurpose::Answer };
        self.pending = Some(Pending {
            key: self.next_key,
            end,
            at: At { place: at.place.clone(), time: self.conversation.time(end).or(at.time) },
            answer_id,
            usage,
            status: usage.map(|_| 200),
            purpose,
            is_given: false,
        });
        self.next_key += 1;
    }

    /// Hands out the last response, whose purpose is now known.
    pub(super) fn settle(&mut self, purpose: Option<RequestPurpose>, out: &mut Out<'_>) {
        let Some(mut pending) = self.pending.take() else { return };
        let is_new = purpose.is_some_and(|purpose| purpose != pending.purpose);
        pending.purpose = purpose.unwrap_or(pending.purpose);
        if is_new || !pending.is_given {
            self.hand_out(&pending, true, out);
        }
    }

    /// Hands out the request that a turn ended with, if there was one without an answer.
    pub(super) fn end_turn(
        &mut self,
        status: Option<u16>,
        has_failed: bool,
        at: &At,
        out: &mut Out<'_>,
    ) {
        self.settle(None, out);
        let purpose = if self.conversation.is_unanswered() {
            RequestPurpose::Answer
        } else {
            // A turn begins with a compaction if the window is too full.
            RequestPurpose::Compaction
        };
        let was_sent = match purpose {
            RequestPurpose::Answer => true,
            _ => self.is_in_turn && !self.is_turn_answered && self.has_begun,
        };
        if has_failed && was_sent {
            let end = self.attempt.unwrap_or_else(|| self.conversation.failed_end());
            self.begin_pending(Some(end), None, None, at, out);
            if let Some(pending) = &mut self.pending {
                pending.status = status;
            }
            self.settle(Some(purpose), out);
        }
        self.conversation.answer();
        self.attempt = None;
        self.is_in_turn = false;
        self.has_begun = false;
        self.is_summary = false;
    }

    /// Notes the beginning of a turn.
    pub(super) fn begin_turn(&mut self, out: &mut Out<'_>) {
        self.settle(None, out);
        self.is_in_turn = true;
        self.is_turn_answered = false;
        self.has_begun = false;
    }

    /// Notes that the program asked the model, or failed to.
    pub(super) const fn note_begun(&mut self) {
        self.has_begun = true;
    }

    /// Removes the last turns.
    pub(super) fn roll_back(&mut self, turns: u64, out: &mut Out<'_>) {
        self.settle(None, out);
        self.conversation.roll_back(turns, self.has_ordinals);
    }

    fn compacted(&mut self, payload: &RawValue, at: &At, out: &mut Out<'_>, report: &mut Report) {
        let Some(record) = object::<Compacted<'_>>(Some(payload)) else {
            report.broken(at.place.clone(), &"it is not a compaction");
            return self.lose();
        };
        let answer = text(record.compaction_response_id);
        let last = self.pending.as_ref().and_then(|it| it.answer_id.as_deref());
        let is_it = answer.is_none() || answer.as_deref() == last;
        self.settle(is_it.then_some(RequestPurpose::Compaction), out);
        let message = text(record.message).unwrap_or_default();
        let earlier = self.conversation.parts().to_vec();
        if record.replacement_history.is_some() {
            self.conversation.clear();
            for item in list(record.replacement_history) {
                match object::<Item<'_>>(Some(item)) {
                    Some(read) => self.push(&read, read.kind(), item, at),
                    None => self.lose(),
                }
            }
        } else {
            let mut summary = Parts::new(at.place.clone(), self.kept.max_bytes());
            summary.text(convoke_protocol::window::Role::User, &message);
            self.conversation.compact(summary, at.time);
        }
        self.conversation.answer();
        let dropped = self.conversation.dropped_since(&earlier);
        let summary = person::summary(&message);
        self.give(at, EntryKind::Compacted { summary, dropped }, out);
    }

    /// Hands out what may still change, at the end of what is there.
    pub(super) fn pause(&mut self, at: &At, out: &mut Out<'_>) {
        if let Some(mut pending) = self.pending.take() {
            if !pending.is_given {
                self.hand_out(&pending, true, out);
                pending.is_given = true;
            }
            self.pending = Some(pending);
            return;
        }
        let is_sent = self.attempt.is_some() || self.is_in_turn;
        let end = self.attempt.unwrap_or_else(|| self.conversation.request_end());
        let is_under_way = is_sent && self.conversation.is_unanswered();
        let given = (self.next_key, self.conversation.len());
        if (is_under_way || self.is_without_counts()) && self.given != Some(given) {
            self.given = Some(given);
            let time = self.conversation.time(end).or(at.time);
            let pending = Pending {
                key: self.next_key,
                end,
                at: At { place: at.place.clone(), time },
                answer_id: None,
                usage: None,
                status: None,
                purpose: RequestPurpose::Answer,
                is_given: false,
            };
            self.hand_out(&pending, false, out);
        }
    }

    fn hand_out(&mut self, pending: &Pending, is_settled: bool, out: &mut Out<'_>) {
        if out.is_muted() {
            return;
        }
        let mut missing = Vec::new();
        let mut grade = Grade::Exact;
        let mut lower = |to: Grade, why: &str| {
            grade = grade.min(to);
            missing.push(why.to_owned());
        };
        if pending.purpose == RequestPurpose::Compaction {
            lower(Grade::Partial, "the prompt of the compaction is in no file");
        }
        if let Some(why) = self.conversation.incomplete {
            lower(Grade::Partial, why);
        }
        if self.is_without_counts() || (self.head.is_bare && pending.usage.is_none()) {
            lower(Grade::Partial, "the file tells no requests; each answer stands for one");
        }
        let mut base = None;
        if !self.conversation.has_tools() {
            if self.has_ordinals {
                lower(Grade::Messages, "the system text and the tools are in no file");
            } else {
                lower(Grade::Messages, "the tools are in no file");
                base = self.head.instructions.as_deref();
            }
        }
        let system = base.map(|base| {
            Parts::new(pending.at.place.clone(), self.kept.max_bytes()).placed_text(base)
        });
        let (model, agent) = (self.model.as_deref(), self.agent.as_deref());
        self.conversation.lend(pending.end, system, |window| {
            let request = Request {
                key: pending.key,
                answer_id: pending.answer_id.as_deref(),
                purpose: pending.purpose,
                model,
                window,
                grade,
                missing,
                usage: pending.usage,
                cache_write_hour: 0,
                tier: None,
                status: pending.status,
                is_settled,
            };
            out.give(&pending.at, agent, EntryKind::Request(&request));
        });
    }
}
