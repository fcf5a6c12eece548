//! The record of one turn: stores its requests as they are sent, and their outcomes.

use std::collections::HashMap;
use std::sync::Arc;

use convoke_agent::TurnResult;
use convoke_agent::clock::now;
use convoke_agent::ending::correct_by_answer;
use convoke_agent::thread::{FirstDifference, ThreadStoreError};
use convoke_agent::turn::TurnSide;
use convoke_core::Diagnostic;
use convoke_core::figures::{hexadecimal, size};
use convoke_core::ledger::{Ledger, Rule, Source, Target};
use convoke_protocol::agent_event::{
    AgentEvent, AgentEventKind, OwnerShare, Received, RequestPurpose,
};
use convoke_protocol::id::AttemptRef;
use convoke_protocol::request::{
    RequestEnd, RequestMeta, RequestOutcome, RequestRecord, RequestTexts,
};
use convoke_protocol::usage::Usage;
use convoke_rehearsal::Recorded;
use convoke_vendor::MeasuredCli;
use convoke_wire::cache;
use convoke_wire::{
    AnswerEnd, AnswerFacts, Exchange, PartKind, ReceivedAnswer, RequestKind, RequestParts,
    SentRequest,
};
use sha2::{Digest as _, Sha256};

use super::Recording;
use super::ledger::{HandedOver, sorted};
use crate::capture::account::MCP_SERVER;
use crate::diagnostics;

/// The maximum number of requests and bytes of bodies that are stored for one turn.
const MAX_REQUESTS: u64 = 256;
const MAX_BYTES: u64 = 64 << 20;

/// The room for the requests of a record.
#[derive(Debug, Clone, Copy)]
pub(super) enum Room {
    /// That of one turn: requests beyond it are not stored.
    Turn,
    /// Bytes in the store, for any number of requests: new ones displace the texts of the oldest.
    Disk { max_bytes: u64 },
}

pub(super) struct TurnRecord {
    recording: Arc<Recording>,
    handed_over: Arc<HandedOver>,
    room: Room,
    attempt: Option<AttemptRef>,
    /// The last request of the thread, once it was read from the store.
    last: Option<Arc<RequestRecord>>,
    has_read_last: bool,
    /// The last request of each purpose, which the next one is compared with.
    compared: HashMap<&'static str, Option<Arc<RequestRecord>>>,
    /// The requests without an answer, by the server's number.
    open: HashMap<u64, OpenRequest>,
    stored: u64,
    stored_bytes: u64,
    unstored: u64,
    unstored_bytes: u64,
    /// The requests whose texts were displaced.
    dropped: u64,
    received: Received,
    shares: HashMap<String, u64>,
    /// The model of the last request of the conversation.
    model: Option<String>,
    /// The last request of the conversation that was answered, and why its model stopped.
    last_answer: Option<(u64, Option<AnswerEnd>)>,
    /// The tokens of all requests whose count is known.
    spent: Option<Usage>,
    failure: Option<ThreadStoreError>,
}

/// A request without an answer.
struct OpenRequest {
    bytes: u64,
    /// The model that it names.
    model: Option<String>,
    is_aside: bool,
    /// Its number in the store, and its bytes by owner; `None` if it was not stored.
    stored: Option<(u64, Vec<OwnerShare>)>,
}

/// A request that is ready to be stored.
struct Prepared {
    texts: RequestTexts,
    meta: RequestMeta,
    shares: Vec<OwnerShare>,
    broken: Option<Diagnostic>,
}

impl TurnRecord {
    pub(super) fn new(
        recording: Arc<Recording>,
        handed_over: HandedOver,
        attempt: Option<AttemptRef>,
        room: Room,
    ) -> Self {
        let received = Received {
            handed_over_bytes: handed_over.bytes,
            requests: 0,
            bytes: 0,
            tokens: None,
            uncounted: 0,
            shares: Vec::new(),
            refused: 0,
            refusal: None,
        };
        Self {
            recording,
            handed_over: Arc::new(handed_over),
            room,
            attempt,
            last: None,
            has_read_last: false,
            compared: HashMap::new(),
            open: HashMap::new(),
            stored: 0,
            stored_bytes: 0,
            unstored: 0,
            unstored_bytes: 0,
            dropped: 0,
            received,
            shares: HashMap::new(),
            model: None,
            last_answer: None,
            spent: None,
            failure: None,
        }
    }

    /// Records a request to a rehearsal server, whose answer is known when it arrives.
    pub(super) async fn rehearsed(&mut self, request: Recorded, side: &TurnSide) {
        let RequestKind::ModelCall(call) = request.kind else { return };
        let number = request.number as u64;
        let sent = SentRequest {
            number,
            target: request.target,
            headers: Vec::new(),
            call,
            sent_bytes: request.body.len() as u64,
            sent_sha256: sha256(&request.body),
            body: Some(request.body),
            masked: Vec::new(),
        };
        self.sent(sent, side).await;
        let Recorded { usage, end, .. } = request;
        let facts = AnswerFacts { usage, end, ..AnswerFacts::default() };
        let answer =
            ReceivedAnswer { status: Some(request.status), facts, ..ReceivedAnswer::default() };
        self.answered(number, answer).await;
    }

    /// Records a step of an exchange.
    pub(super) async fn exchanged(&mut self, exchange: Exchange, side: &TurnSide) {
        match exchange {
            Exchange::Sent(request) => self.sent(request, side).await,
            Exchange::Answered { number, answer } => self.answered(number, answer).await,
        }
    }

    /// Records a request.
    async fn sent(&mut self, mut request: SentRequest, side: &TurnSide) {
        let (number, bytes) = (request.number, request.sent_bytes);
        let model = Some(request.call.model.clone()).filter(|model| !model.is_empty());
        let is_aside = request.call.aside;
        self.open.insert(number, OpenRequest { bytes, model, is_aside, stored: None });
        let body = request.body.take();
        let size = body.as_ref().map_or(u64::MAX, |body| body.len() as u64);
        let has_room = match self.room {
            Room::Turn => {
                self.stored < MAX_REQUESTS && size.saturating_add(self.stored_bytes) <= MAX_BYTES
            }
            Room::Disk { .. } => true,
        };
        let has_room = has_room && self.failure.is_none();
        let Some(body) = body.filter(|_| has_room) else {
            self.unstored += 1;
            self.unstored_bytes += bytes;
            return;
        };
        match self.store(request, &body).await {
            Ok((stored, prepared)) => {
                self.stored += 1;
                self.stored_bytes += body.len() as u64;
                if let Some(open) = self.open.get_mut(&number) {
                    open.stored = Some((stored, prepared.shares));
                }
                let RequestMeta { purpose, bytes, unchanged_bytes, .. } = prepared.meta;
                let kind =
                    AgentEventKind::Request { number: stored, purpose, bytes, unchanged_bytes };
                side.send(AgentEvent::own(kind)).await;
                if let Some(broken) = prepared.broken {
                    side.warn(broken).await;
                }
            }
            Err(error) => {
                self.unstored += 1;
                self.unstored_bytes += body.len() as u64;
                self.failure = Some(error);
            }
        }
    }

    async fn store(
        &mut self,
        request: SentRequest,
        body: &[u8],
    ) -> Result<(u64, Prepared), ThreadStoreError> {
        let recording = Arc::clone(&self.recording);
        let Recording { store, thread, .. } = &*recording;
        if !std::mem::replace(&mut self.has_read_last, true) {
            // An unreadable predecessor must not keep a request from being stored.
            self.last = store.last_request(thread).await.unwrap_or(None).map(Arc::new);
        }
        let body = String::from_utf8_lossy(body).into_owned();
        let purpose = purpose(&request, self.handed_over.vendor(), &body);
        let compared = self.before(purpose).await;
        let (recording, handed_over) = (Arc::clone(&self.recording), Arc::clone(&self.handed_over));
        let prepare =
            move || prepare(&recording, &handed_over, request, purpose, body, compared.as_deref());
        let joined = tokio::task::spawn_blocking(prepare).await;
        let prepared = joined.map_err(|error| ThreadStoreError::Failed(Box::new(error)))?;
        let prepared = prepared.map_err(|error| ThreadStoreError::Failed(Box::new(error)))?;
        let before = self.last.take();
        let mut record = RequestRecord {
            thread: thread.clone(),
            number: before.as_ref().map_or(0, |before| before.number) + 1,
            attempt: self.attempt,
            meta: prepared.meta.clone(),
            outcome: RequestOutcome::default(),
            texts: prepared.texts.clone(),
        };
        let before = before.as_deref().map(|before| &before.texts);
        record.number = store.add_request(&record, before).await?;
        let record = Arc::new(record);
        self.last = Some(Arc::clone(&record));
        let number = record.number;
        self.compared.insert(purpose.as_str(), Some(record));
        if let Room::Disk { max_bytes } = self.room {
            self.dropped += store.limit_texts(thread, max_bytes).await?;
        }
        Ok((number, prepared))
    }

    /// Returns the request that the next one of a purpose is compared with: a small request of the program itself may
    /// come between two of the conversation.
    async fn before(&mut self, purpose: RequestPurpose) -> Option<Arc<RequestRecord>> {
        // A compaction continues the conversation that it summarizes.
        let purpose = match purpose {
            RequestPurpose::Compaction => RequestPurpose::Answer,
            purpose => purpose,
        };
        if let Some(before) = self.compared.get(purpose.as_str()) {
            return before.clone();
        }
        if let Some(last) = self.last.as_ref().filter(|last| last.meta.purpose == purpose) {
            return Some(Arc::clone(last));
        }
        let found = self.stored_before(purpose).await.unwrap_or(None).map(Arc::new);
        self.compared.insert(purpose.as_str(), found.clone());
        found
    }

    async fn stored_before(
        &self,
        purpose: RequestPurpose,
    ) -> Result<Option<RequestRecord>, ThreadStoreError> {
        let Recording { store, thread, .. } = &*self.recording;
        let mut stored = store.requests(thread).await?.into_iter().rev();
        let Some(record) = stored.find(|it| it.meta.purpose == purpose) else { return Ok(None) };
        let texts = store.request_texts(thread, record.number).await?;
        let RequestRecord { thread, number, attempt, meta, outcome, texts: () } = record;
        Ok(Some(RequestRecord { thread, number, attempt, meta, outcome, texts }))
    }

    /// Records the answer to a request.
    async fn answered(&mut self, number: u64, answer: ReceivedAnswer) {
        let ReceivedAnswer { status, facts, first_byte, elapsed, failure } = answer;
        let Some(mut open) = self.open.remove(&number) else { return };
        let model = facts.model.or_else(|| open.model.take());
        let is_success = status.is_some_and(|status| (200..300).contains(&status));
        let is_last = self.last_answer.as_ref().is_none_or(|(last, _)| *last < number);
        if is_last && !open.is_aside {
            self.last_answer = Some((number, facts.end.filter(|_| is_success)));
        }
        let problem = failure.or(facts.error);
        let problem = problem.map(|it| self.recording.redactor.redact(&it).into_owned());
        let stored = open.stored.as_ref().map(|(number, _)| *number);
        if is_success {
            if !open.is_aside {
                self.model.clone_from(&model);
            }
            self.count(open, facts.usage);
        } else {
            self.received.refused += 1;
            self.received.refusal = match (status, &problem) {
                (Some(status), Some(problem)) => Some(format!("{status}: {problem}")),
                (Some(status), None) => Some(status.to_string()),
                (None, problem) => problem.clone(),
            };
        }
        let problem = problem.or_else(|| {
            status.filter(|_| !is_success).map(|status| format!("the server answered {status}"))
        });
        let Some(stored) = stored else { return };
        let mut outcome = RequestOutcome {
            end: Some(problem.as_ref().map_or(RequestEnd::Answered, |_| RequestEnd::Failed)),
            usage: facts.usage,
            model,
            status,
            cache_miss: facts.cache_miss,
            first_byte,
            elapsed: Some(elapsed).filter(|elapsed| !elapsed.is_zero()),
            ..RequestOutcome::default()
        };
        outcome.failed.extend(problem);
        let Recording { store, thread, .. } = &*self.recording;
        if let Err(error) = store.set_outcome(thread, stored, &outcome).await {
            self.failure = Some(error);
        }
    }

    /// Counts a request that reached the model.
    fn count(&mut self, request: OpenRequest, usage: Option<Usage>) {
        self.received.requests += 1;
        self.received.bytes += request.bytes;
        match usage {
            Some(usage) => {
                *self.received.tokens.get_or_insert(0) += usage.input;
                self.spent = Some(self.spent.unwrap_or_default().and(usage));
            }
            None => self.received.uncounted += 1,
        }
        for share in request.stored.into_iter().flat_map(|(_, shares)| shares) {
            *self.shares.entry(share.owner).or_default() += share.bytes;
        }
    }

    /// Ends the record: reports the requests that the model received, and adds to the result of the turn what the program
    /// did not report: the model, the end of its last answer, the tokens of every request. Adds diagnostics of the requests
    /// that were not stored.
    pub(super) async fn finish(mut self, result: &mut TurnResult, side: &TurnSide) {
        // The turn ended before their answers.
        for request in std::mem::take(&mut self.open).into_values() {
            self.count(request, None);
        }
        result.model = result.model.take().or(self.model);
        if let Some((_, Some(end))) = &self.last_answer {
            correct_by_answer(&mut result.verdict, end);
        }
        if let Room::Turn = self.room {
            result.usage = spent(result.usage, self.spent, self.received.uncounted);
        }
        let shares = self.shares.drain();
        let shares = shares.map(|(owner, bytes)| OwnerShare { owner, bytes }).collect();
        self.received.shares = sorted(shares);
        if self.received.requests + self.received.refused > 0 {
            side.send(AgentEvent::own(AgentEventKind::Received(self.received))).await;
        }
        let mut found = Vec::new();
        if let Some(error) = &self.failure {
            let message = format!("requests of this turn were not stored: {error}");
            found.push(Diagnostic::new(diagnostics::RECORD_FAILED, message));
        } else if self.unstored > 0 {
            let message = match self.room {
                Room::Turn => format!(
                    "{} requests of this turn were not stored: a turn has room for {MAX_REQUESTS} requests and {} MiB",
                    self.unstored,
                    MAX_BYTES >> 20
                ),
                Room::Disk { .. } => {
                    format!("{} requests were not stored: they are too large", self.unstored)
                }
            };
            let limit = Diagnostic::new(diagnostics::RECORD_LIMIT, message);
            found.push(limit.with_count(self.unstored).with_bytes(self.unstored_bytes));
        }
        if let (Room::Disk { max_bytes }, 1..) = (self.room, self.dropped) {
            let message = format!(
                "the bodies of the {} oldest requests were dropped: together they take more than {}",
                self.dropped,
                size(max_bytes)
            );
            let dropped = Diagnostic::new(diagnostics::RECORD_DROPPED, message);
            found.push(dropped.with_count(self.dropped));
        }
        for diagnostic in &found {
            side.warn(diagnostic.clone()).await;
        }
        result.diagnostics.extend(found);
    }
}

/// Returns the tokens of a turn: those of its requests if all were counted, else the greater of what the program and the
/// record know.
fn spent(reported: Option<Usage>, recorded: Option<Usage>, uncounted: u64) -> Option<Usage> {
    let total = |usage: &Usage| usage.input.saturating_add(usage.output);
    match (reported, recorded) {
        (Some(reported), Some(recorded))
            if uncounted > 0 && total(&reported) > total(&recorded) =>
        {
            Some(reported)
        }
        (reported, recorded) => recorded.or(reported),
    }
}

/// Returns the SHA-256 of bytes, in hexadecimal.
fn sha256(bytes: &[u8]) -> String {
    hexadecimal(&Sha256::digest(bytes))
}

fn purpose(request: &SentRequest, vendor: &dyn MeasuredCli, body: &str) -> RequestPurpose {
    if request.call.aside {
        return RequestPurpose::Aside;
    }
    // A body that cannot be read asks for nothing that is known.
    let read = RequestParts::parse(request.call.wire, body.as_bytes()).ok();
    let parts = read.iter().flat_map(|it| it.parts.iter().rev());
    match parts.into_iter().find(|part| part.kind != PartKind::Tool) {
        Some(last) if vendor.asks_for_compaction(&last.text) => RequestPurpose::Compaction,
        _ => RequestPurpose::Answer,
    }
}

/// Removes secrets from a request, accounts for it, and compares it with the one before.
fn prepare(
    recording: &Recording,
    handed_over: &HandedOver,
    request: SentRequest,
    purpose: RequestPurpose,
    mut body: String,
    before: Option<&RequestRecord>,
) -> Result<Prepared, serde_json::Error> {
    let redacted = recording.redactor.redact_in_place(&mut body) > 0;
    let (call, wire) = (&request.call, request.call.wire);
    // A body that is not JSON has no parts, and is stored too.
    let (ledger, shares) =
        handed_over.account(call, &body).unwrap_or_else(|_| (unparsed(&body), Vec::new()));
    let comparison = before.filter(|before| before.meta.wire == Some(wire)).and_then(|before| {
        let earlier =
            cache::segments(wire, &before.meta.path, before.texts.body.as_bytes()).ok()?;
        let later = cache::segments(wire, &request.target, body.as_bytes()).ok()?;
        Some(cache::compare(&earlier, &later))
    });
    let broken = comparison.as_ref().and_then(|comparison| {
        let earlier = before.and_then(|it| it.texts.parse_ledger(&it.meta).ok());
        let first = FirstDifference::of(comparison, [earlier.as_ref(), Some(&ledger)])?;
        first.broken_prefix(comparison, |it| is_ours(it) && !handed_over.is_setting_of_user(it))
    });
    let is_repeated = before.is_some_and(|before| before.texts.body == body);
    let unchanged_bytes = match comparison {
        // The settings and the JSON around the texts are the same too.
        Some(_) if is_repeated => body.len() as u64,
        comparison => comparison.map_or(0, |it| it.unchanged_bytes),
    };
    let meta = RequestMeta {
        unchanged_bytes,
        redacted,
        wire: Some(wire),
        sent_sha256: Some(request.sent_sha256),
        masked: request.masked,
        headers: request.headers,
        ..RequestMeta::new(now(), request.target, purpose, request.sent_bytes)
    };
    let texts = RequestTexts::new(body, &ledger)?;
    Ok(Prepared { texts, meta, shares, broken })
}

fn unparsed(body: &str) -> Ledger<'static> {
    let mut ledger = Ledger::default();
    if !body.is_empty() {
        ledger.push(convoke_core::ledger::Entry {
            target: Target::Prompt,
            section: convoke_core::ledger::ENVELOPE.into(),
            source: Source::Program { what: "body".into() },
            range: 0..body.len() as u64,
            cut_bytes: 0,
            rule: Rule::Frame,
        });
    }
    ledger
}

/// Returns whether a source of a CLI's request is given by Convoke, or can be kept unchanged by the user.
fn is_ours(source: &Source<'_>) -> bool {
    match source {
        // The server decides which tools it has.
        Source::Setting { name } => !name.starts_with(MCP_SERVER),
        Source::Program { .. }
        | Source::Tool { .. }
        | Source::Model { .. }
        | Source::History { .. } => false,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use convoke_agent::thread::MemoryThreadStore;
    use convoke_agent::turn_input::Trust;
    use convoke_agent::{AgentTurn, TurnInput};
    use convoke_protocol::id::ThreadId;
    use convoke_protocol::verdict::{FailureReason, Verdict};
    use convoke_protocol::wire::Wire;
    use convoke_redact::Redactor;
    use convoke_wire::ModelCall;

    use super::*;
    use crate::record::ProgramHome;

    fn recording() -> Recording {
        Recording {
            vendor: convoke_vendors::cli("codex").unwrap(),
            version: None,
            store: Arc::new(MemoryThreadStore::default()),
            thread: ThreadId::generate(),
            redactor: Redactor::default(),
            home: ProgramHome::Private("/nonexistent".into()),
        }
    }

    fn request(number: u64, wire: Wire, body: String) -> SentRequest {
        SentRequest {
            number,
            target: "/v1/responses".to_owned(),
            headers: Vec::new(),
            call: ModelCall { wire, model: "gpt".to_owned(), streamed: true, aside: false },
            sent_bytes: body.len() as u64,
            sent_sha256: String::new(),
            body: Some(body.into()),
            masked: Vec::new(),
        }
    }

    /// Records requests with their answers. Returns the result of the turn, what the model received, and the record.
    async fn recorded(
        exchanges: Vec<(SentRequest, ReceivedAnswer)>,
    ) -> (TurnResult, Received, Recording) {
        let recording = recording();
        let mut turn_input = TurnInput::new("Hello", "/nonexistent");
        turn_input.trust = Trust::Trusted;
        let handed_over = HandedOver::new(&turn_input, recording.program());
        let shared = Arc::new(recording.clone());
        let mut record = TurnRecord::new(shared, handed_over, None, Room::Turn);
        let (mut turn, side) = AgentTurn::open(Redactor::default());
        for (request, answer) in exchanges {
            let number = request.number;
            record.exchanged(Exchange::Sent(request), &side).await;
            record.exchanged(Exchange::Answered { number, answer }, &side).await;
        }
        let mut result = TurnResult::new(Verdict::Done);
        record.finish(&mut result, &side).await;
        drop(side);
        let mut received = None;
        while let Some(event) = turn.next().await {
            if let AgentEventKind::Received(it) = event.kind {
                received = Some(it);
            }
        }
        (result, received.unwrap(), recording)
    }

    #[tokio::test]
    async fn the_tokens_of_an_answer_that_was_cut_are_unknown_and_the_model_is_that_of_the_request()
    {
        let body = |text: &str| format!(r#"{{"model":"gpt","input":"{text}"}}"#);
        let usage = Usage { input: 300, output: 5, ..Usage::default() };
        let counted = AnswerFacts { usage: Some(usage), ..AnswerFacts::default() };
        let whole = ReceivedAnswer { status: Some(200), facts: counted, ..Default::default() };
        let failure = Some("the answer broke off".to_owned());
        let cut = ReceivedAnswer { status: Some(200), failure, ..Default::default() };
        let (result, received, recording) = recorded(vec![
            (request(1, Wire::Responses, body("one")), whole),
            (request(2, Wire::Responses, body("two")), cut),
        ])
        .await;
        assert_eq!((received.requests, received.tokens, received.uncounted), (2, Some(300), 1));
        let shown = received.to_string();
        assert!(
            shown.contains("300 tokens; the provider's count for 1 request is unknown"),
            "{shown}"
        );
        assert_eq!(result.model.as_deref(), Some("gpt"));
        let stored = recording.store.requests(&recording.thread).await.unwrap();
        let stored: Vec<_> = stored.iter().map(|it| (it.outcome.usage, it.outcome.end)).collect();
        let (answered, failed) = (Some(RequestEnd::Answered), Some(RequestEnd::Failed));
        assert_eq!(stored, [(Some(usage), answered), (None, failed)]);
    }

    #[test]
    fn a_request_for_a_summary_of_claude_code_is_a_compaction() {
        let body = |last: &str| {
            serde_json::json!({
                "messages": [{"role": "user", "content": "Hello"}, {"role": "user", "content": last}],
                "tools": [{"name": "Read", "description": "Reads."}],
            })
            .to_string()
        };
        let purpose_of = |cli: &str, last: &str| {
            let request = request(1, Wire::Messages, String::new());
            purpose(&request, convoke_vendors::cli(cli).unwrap(), &body(last))
        };
        let asked =
            "Answer with text only.\n\nYour task is to create a detailed summary of the talk.";
        assert_eq!(purpose_of("claude", asked), RequestPurpose::Compaction);
        assert_eq!(purpose_of("claude", "Go on."), RequestPurpose::Answer);
        assert_eq!(purpose_of("codex", asked), RequestPurpose::Answer);
    }

    #[test]
    fn a_setting_of_the_programs_own_configuration_is_its_users() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join(".codex")).unwrap();
        let text = "developer_instructions = \"Be brief.\"\n";
        std::fs::write(directory.path().join(".codex/config.toml"), text).unwrap();
        let turn_input = TurnInput::new("Hello", directory.path());
        let handed_over = HandedOver::new(&turn_input, recording().program());
        assert!(handed_over.is_setting_of_user(&Source::setting("developer_instructions")));
        assert!(!handed_over.is_setting_of_user(&Source::setting("instructions")));
    }

    fn answered(word: &str, usage: Usage) -> ReceivedAnswer {
        let end = Some(AnswerEnd::from_word(word));
        let facts = AnswerFacts { usage: Some(usage), end, ..AnswerFacts::default() };
        ReceivedAnswer { status: Some(200), facts, ..Default::default() }
    }

    #[tokio::test]
    async fn the_end_and_the_tokens_of_a_turn_are_those_of_its_answers() {
        let usage = Usage { input: 30, output: 4, ..Usage::default() };
        let body = r#"{"model":"gpt"}"#.to_owned();
        let sent = |number| request(number, Wire::Gemini, body.clone());
        let (result, ..) = recorded(vec![
            (sent(1), answered("STOP", usage)),
            (sent(2), answered("SAFETY", usage)),
        ])
        .await;
        let Verdict::Failed(failure) = &result.verdict else { panic!("{:?}", result.verdict) };
        assert_eq!(failure.reason, FailureReason::Refused);
        assert_eq!(result.usage, Some(usage.and(usage)));

        let mut aside = sent(2);
        aside.call.aside = true;
        let (result, ..) =
            recorded(vec![(sent(1), answered("STOP", usage)), (aside, answered("SAFETY", usage))])
                .await;
        assert_eq!(result.verdict, Verdict::Done, "the end of a side request is not the turn's");
    }

    #[test]
    fn a_count_that_is_not_whole_replaces_no_greater_one() {
        let count = |input| Some(Usage { input, ..Usage::default() });
        assert_eq!(spent(count(30), count(20), 0), count(20));
        assert_eq!(spent(count(30), count(20), 1), count(30));
        assert_eq!(spent(count(10), count(20), 1), count(20));
        assert_eq!(spent(count(10), None, 0), count(10));
    }

    async fn fifty_megabytes_are_stored_whole(wire: Wire, before: &str, after: &str) {
        let body = [before, &"line \\n".repeat(7_142_858), after].concat();
        let answer = ReceivedAnswer { status: Some(200), ..Default::default() };
        let (result, _, recording) = recorded(vec![(request(1, wire, body.clone()), answer)]).await;
        assert_eq!(result.diagnostics, [], "{wire:?}");
        let texts = recording.store.request_texts(&recording.thread, 1).await.unwrap();
        assert!(texts.body == body, "{wire:?}");
        let meta = recording.store.requests(&recording.thread).await.unwrap().remove(0).meta;
        let ledger = texts.parse_ledger(&meta).unwrap();
        assert!(ledger.covers(Target::Prompt, body.len() as u64), "{wire:?}");
    }

    #[tokio::test]
    async fn a_request_of_fifty_megabytes_is_stored_whole() {
        fifty_megabytes_are_stored_whole(Wire::Responses, r#"{"model":"m","input":""#, r#""}"#)
            .await;
    }

    #[tokio::test]
    #[ignore = "takes minutes"]
    async fn a_request_of_fifty_megabytes_of_any_wire_is_stored_whole() {
        let (before, after) = (r#"{"messages":[{"role":"user","content":""#, r#""}]}"#);
        fifty_megabytes_are_stored_whole(Wire::Messages, before, after).await;
        fifty_megabytes_are_stored_whole(Wire::Chat, before, after).await;
        let before = r#"{"contents":[{"role":"user","parts":[{"text":""#;
        fifty_megabytes_are_stored_whole(Wire::Gemini, before, r#""}]}]}"#).await;
    }

    #[tokio::test]
    async fn a_request_that_is_too_large_is_counted_and_reported() {
        let mut large = request(1, Wire::Responses, String::new());
        (large.body, large.sent_bytes) = (None, 100 << 20);
        let answer = ReceivedAnswer { status: Some(200), ..Default::default() };
        let (result, received, _) = recorded(vec![(large, answer)]).await;
        assert_eq!((received.requests, received.bytes), (1, 100 << 20));
        assert_eq!(result.diagnostics[0].code, diagnostics::RECORD_LIMIT);
    }
}
