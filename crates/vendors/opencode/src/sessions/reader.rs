//! The reader of one session.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::path::PathBuf;

use convoke_protocol::agent_event::RequestPurpose;
use convoke_protocol::id::Millis;
use convoke_protocol::usage::Usage;
use convoke_protocol::window::{At, Grade, Place, Window};
use convoke_source::history::MAX_BYTES;
use convoke_source::record::{count, number_of, text, time};
use convoke_source::{
    EntryKind, Facts, FoundSession, Kept, Report, Request, SessionReader, Sink, SourceError,
};
use serde_json::Value;

use super::PROGRAM;
use super::conversation::{Conversation, Message, Sent};
use super::copy::Stamp;
use super::entries::{Entries, status};
use super::store::{MessageRow, SessionRow, Store};

const NEVER_STORED: &str = "the system text and the tools are in no file";
const NO_PROMPT: &str = "the prompt of the compaction is in no file";
const PLAN: &str = "the reminder of the plan mode is in no file";
const NOT_READ: &str = "a message could not be read or the conversation is too large";

/// Reads a session and those that it started.
pub struct Reader {
    id: String,
    /// The database, or the directory of files.
    place: PathBuf,
    kept: Kept,
    /// The state of the database when it was read.
    stamp: Option<Stamp>,
    told: Told,
    report: Report,
}

/// What was handed out.
#[derive(Default)]
struct Told {
    entries: HashSet<u64>,
    /// Requests, and whether their answers were complete.
    requests: HashMap<u64, bool>,
    facts: Option<(String, String, String)>,
}

impl Reader {
    /// Creates a reader, which opens the store whenever it is asked.
    pub fn new(session: &FoundSession, kept: Kept) -> Self {
        let storage = super::storage::session_at(&session.path).map(|(storage, _)| storage);
        Self {
            id: session.id.clone(),
            place: storage.unwrap_or_else(|| session.path.clone()),
            kept,
            stamp: None,
            told: Told::default(),
            report: Report::default(),
        }
    }
}

impl SessionReader for Reader {
    fn advance(&mut self, sink: &mut dyn Sink) -> Result<(), SourceError> {
        if !self.place.is_dir() {
            let stamp = Stamp::of(&self.place).map_err(SourceError::read(&self.place))?;
            if self.stamp.as_ref() == Some(&stamp) {
                return Ok(());
            }
            self.stamp = Some(stamp);
        }
        let store = Store::open(&self.place)?;
        let sessions = store.tree(&self.id)?;
        let Some(session) = sessions.first().filter(|session| session.id == self.id) else {
            let problem = format!("it has no session {}", self.id);
            return Err(SourceError::Format {
                program: PROGRAM,
                path: self.place.clone(),
                problem,
            });
        };
        // All rows are read again: what is not new is counted and told once.
        let unknown = std::mem::take(&mut self.report).unknown;
        self.report.unknown = unknown;
        let place = Place {
            file: self.place.to_string_lossy().into(),
            at: At::Row(format!("session/{}", session.id).into()),
        };
        let mut reading = Reading {
            root: &self.id,
            sessions: sessions.iter().map(|row| (row.id.as_str(), row)).collect(),
            conversations: HashMap::new(),
            bytes: 0,
            kept: self.kept.max_bytes(),
            told: &mut self.told,
            sink,
        };
        if reading.facts(session, &place, &mut self.report).is_break() {
            return Ok(());
        }
        store
            .messages(&sessions, &mut self.report, &mut |row, report| reading.message(&row, report))
    }

    fn report(&self) -> &Report {
        &self.report
    }
}

/// One pass over the rows of a tree of sessions.
struct Reading<'r> {
    root: &'r str,
    sessions: HashMap<&'r str, &'r SessionRow>,
    conversations: HashMap<String, Conversation>,
    /// The memory that the conversations take, in bytes.
    bytes: u64,
    kept: usize,
    told: &'r mut Told,
    sink: &'r mut dyn Sink,
}

impl Reading<'_> {
    fn facts(&mut self, row: &SessionRow, place: &Place, report: &mut Report) -> ControlFlow<()> {
        let facts = (row.title.clone(), row.directory.clone(), row.version.clone());
        if self.told.facts.as_ref() == Some(&facts) {
            return ControlFlow::Continue(());
        }
        self.told.facts = Some(facts);
        let facts = Facts {
            version: Some(&*row.version).filter(|text| !text.is_empty()),
            cwd: Some(&*row.directory).filter(|text| !text.is_empty()),
            title: Some(&*row.title).filter(|text| !text.is_empty()),
            ..Facts::default()
        };
        let mut entries = Entries {
            sink: &mut *self.sink,
            told: &mut self.told.entries,
            report,
            agent: None,
            at: Some(row.created_at),
        };
        entries.tell(place, EntryKind::Facts(facts))
    }

    fn message(&mut self, row: &MessageRow, report: &mut Report) -> ControlFlow<()> {
        let Some(session) = self.sessions.get(row.session_id.as_str()) else {
            return ControlFlow::Continue(());
        };
        let agent = Some(&*row.session_id).filter(|id| *id != self.root);
        let mut conversation = self.conversations.remove(&row.session_id).unwrap_or_default();
        self.bytes -= conversation.bytes();
        let message = Message::new(row, self.kept);
        let mut entries = Entries {
            sink: &mut *self.sink,
            told: &mut self.told.entries,
            report,
            agent,
            at: Some(row.created_at),
        };
        let mut flow = ControlFlow::Continue(());
        // Messages from before a session are copies: it was forked.
        if !message.is_user && row.created_at >= session.created_at {
            let requests = &mut self.told.requests;
            flow = tell_requests(row, &message, &conversation, requests, &mut entries);
        }
        if flow.is_continue() {
            flow = entries.message(row);
        }
        if flow.is_continue() && row.data["summary"] == true && row.data["finish"].is_string() {
            flow = tell_summary(row, &conversation, &mut entries);
        }
        if row.is_incomplete {
            conversation.miss();
        }
        conversation.push(message);
        if self.bytes + conversation.bytes() > MAX_BYTES as u64 {
            conversation = Conversation::default();
            conversation.miss();
        }
        self.bytes += conversation.bytes();
        self.conversations.insert(row.session_id.clone(), conversation);
        flow
    }
}

fn tell_summary(
    row: &MessageRow,
    conversation: &Conversation,
    entries: &mut Entries<'_>,
) -> ControlFlow<()> {
    let texts = row.parts.iter().filter(|part| part.data["type"] == "text");
    let summary: Vec<&str> = texts.map(|part| text(&part.data, "text")).collect();
    if summary.is_empty() || !entries.told.insert(number_of(&format!("summary {}", row.id))) {
        return ControlFlow::Continue(());
    }
    let (summary, dropped) = (summary.join("\n"), conversation.len());
    entries.tell(&row.place, EntryKind::Compacted { summary: &summary, dropped })
}

/// A request within an answer: older versions store several in one message.
struct Step {
    /// The number of steps before it that its window has.
    after: usize,
    usage: Option<Usage>,
    is_settled: bool,
}

/// Returns the requests of an answer.
fn steps(row: &MessageRow) -> Vec<Step> {
    let data = &row.data;
    let is_settled = data["time"]["completed"].is_number() || data["error"].is_object();
    let starts = row.parts.iter().filter(|part| part.data["type"] == "step-start").count();
    if starts == 0 {
        // A command that the person ran is stored as an answer, too; no model gave it.
        let tokens = usage(&data["tokens"]).filter(|usage| usage.input + usage.output > 0);
        let is_request = row.parts.is_empty() || data["error"].is_object() || tokens.is_some();
        return Vec::from_iter(is_request.then_some(Step { after: 0, usage: tokens, is_settled }));
    }
    let mut steps = Vec::new();
    let mut started = 0;
    let mut finished = 0;
    for part in &row.parts {
        match text(&part.data, "type") {
            "step-start" => started += 1,
            "step-finish" if started > finished => {
                // A step that began and has no end was tried again.
                steps.push(Step {
                    after: finished,
                    usage: usage(&part.data["tokens"]),
                    is_settled: true,
                });
                finished = started;
            }
            _ => {}
        }
    }
    if started > finished {
        steps.push(Step { after: finished, usage: None, is_settled });
    }
    steps
}

fn tell_requests(
    row: &MessageRow,
    message: &Message,
    conversation: &Conversation,
    told: &mut HashMap<u64, bool>,
    entries: &mut Entries<'_>,
) -> ControlFlow<()> {
    for (number, step) in steps(row).into_iter().enumerate() {
        let key = number_of(&format!("{} {number}", row.id));
        if told.insert(key, step.is_settled) == Some(true) {
            continue;
        }
        tell_request(row, message, conversation, (key, &step), entries)?;
    }
    ControlFlow::Continue(())
}

fn tell_request(
    row: &MessageRow,
    message: &Message,
    conversation: &Conversation,
    (key, step): (u64, &Step),
    entries: &mut Entries<'_>,
) -> ControlFlow<()> {
    let data = &row.data;
    let is_compaction = data["summary"] == true;
    let sent = Sent { at: row.created_at, model: &message.model };
    let mut parts = conversation.parts(sent);
    if step.after > 0 {
        parts.extend(message.steps(sent, step.after));
    }
    let is_planned =
        message.agent == "plan" || message.agent == "build" && conversation.has_agent("plan");
    let mut missing = vec![NEVER_STORED.to_owned()];
    for (holds, problem) in
        [(!is_compaction, NO_PROMPT), (!is_planned, PLAN), (conversation.is_complete(), NOT_READ)]
    {
        missing.extend((!holds).then(|| problem.to_owned()));
    }
    let purpose = if is_compaction { RequestPurpose::Compaction } else { RequestPurpose::Answer };
    let request = Request {
        key,
        answer_id: Some(&row.id),
        purpose,
        model: data["modelID"].as_str(),
        window: &Window { parts, ..Window::default() },
        grade: if missing.len() == 1 { Grade::Messages } else { Grade::Partial },
        missing,
        usage: step.usage,
        cache_write_hour: 0,
        tier: None,
        status: status(&data["error"]).or(step.usage.map(|_| 200)),
        is_settled: step.is_settled,
    };
    entries.at =
        time(&data["time"]["created"]).or(Some(row.created_at)).filter(|at| *at > Millis(0));
    entries.tell(&row.place, EntryKind::Request(&request))
}

/// Returns tokens: the file counts those of the cache beside the input, and the reasoning beside the output.
fn usage(tokens: &Value) -> Option<Usage> {
    let cache = &tokens["cache"];
    let (cached, cache_write) = (count(&cache["read"]), count(&cache["write"]));
    let reasoning = count(&tokens["reasoning"]);
    tokens.is_object().then(|| Usage {
        input: count(&tokens["input"]).saturating_add(cached).saturating_add(cache_write),
        cached,
        cache_write,
        output: count(&tokens["output"]).saturating_add(reasoning),
        reasoning,
    })
}
