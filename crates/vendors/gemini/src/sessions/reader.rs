//! The reader of one session.

use std::collections::HashSet;
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use convoke_protocol::agent_event::RequestPurpose;
use convoke_protocol::usage::Usage;
use convoke_protocol::window::{At, Grade, Place, Window};
use convoke_source::lines::{Line, Lines, MAX_LINE, beginning};
use convoke_source::record::{Parsed, change_and_size, count, list, number_of, parse, text, time};
use convoke_source::{
    EntryKind, Facts, FoundSession, Kept, Report, Request, SessionReader, Sink, SourceError,
};
use serde_json::Value;

use super::conversation::{Conversation, message_text};
use super::entries::Entries;
use super::files::{agent_files, is_whole};

/// What no file of the program has.
const NEVER_STORED: &str =
    "the system text, the tools and the reasoning as it was sent are in no file";
const NO_CONTEXT: &str = "the message with the program's context is not in the file";
const NOT_READ: &str = "a message could not be read or the conversation is too large";
/// The maximum number of files of sub-agents.
const MAX_FILES: usize = 10_000;

/// Reads a session.
pub struct Reader {
    session: FoundSession,
    kept: Kept,
    chats: Vec<Chat>,
    report: Report,
    told: Told,
    has_told_facts: bool,
}

/// What was handed out.
#[derive(Default)]
struct Told {
    /// Messages, calls and results.
    entries: HashSet<u64>,
    /// Requests, by the message that answers them.
    requests: HashSet<u64>,
    /// Of these, those with the tokens.
    counted: HashSet<u64>,
}

/// A file of the session.
struct Chat {
    path: PathBuf,
    source: Source,
    /// The id of the sub-agent whose file it is.
    agent: Option<String>,
    /// Whether the lines are of this session: a file may have several.
    is_own: bool,
    conversation: Conversation,
}

enum Source {
    Lines(Lines),
    /// A file that is one JSON value, and its size and time when it was read.
    Whole(Option<(i64, u64)>),
}

impl Reader {
    /// Creates a reader, which opens the files when it is first asked.
    pub fn new(session: &FoundSession, kept: Kept) -> Self {
        Self {
            session: session.clone(),
            kept,
            chats: Vec::new(),
            report: Report::default(),
            told: Told::default(),
            has_told_facts: false,
        }
    }

    /// Opens the files that are not open yet: sub-agents may have been started meanwhile.
    fn open_files(&mut self) -> Result<(), SourceError> {
        let mut files = self.session.files.clone();
        files.extend(agent_files(&self.session.path.with_file_name(&self.session.id)));
        for path in files {
            if self.chats.len() >= MAX_FILES || self.chats.iter().any(|chat| chat.path == path) {
                continue;
            }
            match Chat::open(&path, &self.session) {
                Ok(chat) => self.chats.push(chat),
                Err(error) if self.chats.is_empty() => return Err(SourceError::read(&path)(error)),
                // The rest of the session can be read.
                Err(error) => {
                    self.report.notes.push(format!("{} cannot be read: {error}", path.display()));
                    self.session.files.retain(|file| *file != path);
                }
            }
        }
        Ok(())
    }
}

impl SessionReader for Reader {
    fn advance(&mut self, sink: &mut dyn Sink) -> Result<(), SourceError> {
        self.open_files()?;
        self.report.is_torn = false;
        if !std::mem::replace(&mut self.has_told_facts, true) {
            let place = Place { file: self.session.path.to_string_lossy().into(), at: At::Whole };
            let facts = Facts { cwd: self.session.cwd.as_deref(), ..Facts::default() };
            let mut entries =
                Entries { sink, told: &mut self.told.entries, agent: None, place, at: None };
            if entries.tell(EntryKind::Facts(facts)).is_break() {
                return Ok(());
            }
        }
        for chat in &mut self.chats {
            let mut reading = Reading {
                session_id: &self.session.id,
                kept: self.kept.max_bytes(),
                report: &mut self.report,
                told: &mut self.told,
                sink,
            };
            let flow = chat.read(&mut reading).map_err(SourceError::read(&chat.path))?;
            if flow.is_break() {
                break;
            }
        }
        Ok(())
    }

    fn report(&self) -> &Report {
        &self.report
    }
}

/// What the files of a session have in common while they are read.
struct Reading<'r> {
    session_id: &'r str,
    kept: usize,
    report: &'r mut Report,
    told: &'r mut Told,
    sink: &'r mut dyn Sink,
}

impl Chat {
    fn open(path: &Path, session: &FoundSession) -> io::Result<Self> {
        let source = if is_whole(path) {
            change_and_size(path)?;
            Source::Whole(None)
        } else {
            Source::Lines(Lines::open(path)?)
        };
        // A file of a sub-agent lies in a directory that is named after the session.
        let is_agents =
            path.parent().and_then(Path::file_name).is_some_and(|it| *it == *session.id);
        let agent =
            is_agents.then(|| path.file_stem().unwrap_or_default().to_string_lossy().into_owned());
        let conversation = Conversation::default();
        Ok(Self { path: path.to_owned(), source, is_own: is_agents, agent, conversation })
    }

    fn read(&mut self, reading: &mut Reading<'_>) -> io::Result<ControlFlow<()>> {
        let lines = match &mut self.source {
            Source::Lines(lines) => lines,
            Source::Whole(_) => return self.read_whole(reading),
        };
        let mut folding = Folding {
            agent: self.agent.as_deref(),
            is_own: &mut self.is_own,
            is_whole: false,
            conversation: &mut self.conversation,
            reading,
        };
        loop {
            let (number, record) = match lines.next()? {
                Line::End { is_torn } => {
                    folding.reading.report.is_torn |= is_torn;
                    return Ok(ControlFlow::Continue(()));
                }
                Line::TooLarge { number } => (number, None),
                Line::Complete { bytes, .. } if bytes.iter().all(u8::is_ascii_whitespace) => {
                    continue;
                }
                Line::Complete { number, bytes } => {
                    (number, Some(serde_json::from_slice::<Value>(bytes)))
                }
            };
            let place = lines.place(number);
            folding.reading.report.records += 1;
            let flow = match record {
                None => {
                    folding.reading.report.too_large += 1;
                    folding.conversation.miss();
                    continue;
                }
                Some(Err(problem)) => {
                    folding.reading.report.broken(place, &problem);
                    folding.conversation.miss();
                    continue;
                }
                Some(Ok(record)) => folding.record(&record, &place),
            };
            if flow.is_break() {
                return Ok(flow);
            }
        }
    }

    /// Reads a file that is one JSON value, if it has changed.
    fn read_whole(&mut self, reading: &mut Reading<'_>) -> io::Result<ControlFlow<()>> {
        let (changed, size) = change_and_size(&self.path)?;
        let seen = Some((changed.0, size));
        let Source::Whole(known) = &mut self.source else { return Ok(ControlFlow::Continue(())) };
        if *known == seen {
            return Ok(ControlFlow::Continue(()));
        }
        *known = seen;
        let place = Place { file: self.path.to_string_lossy().into(), at: At::Whole };
        let bytes = beginning(&self.path, MAX_LINE as u64 + 1)?;
        let record = match parse(&bytes) {
            Parsed::Value(record) => record,
            Parsed::TooLarge => {
                reading.report.too_large += 1;
                return Ok(ControlFlow::Continue(()));
            }
            // The program may be writing it.
            Parsed::Broken(error) if error.is_eof() => {
                reading.report.is_torn = true;
                return Ok(ControlFlow::Continue(()));
            }
            Parsed::Broken(problem) => {
                reading.report.broken(place, &problem);
                return Ok(ControlFlow::Continue(()));
            }
        };
        reading.report.records += 1;
        self.is_own = self.agent.is_some() || text(&record, "sessionId") == reading.session_id;
        self.conversation.clear();
        let mut folding = Folding {
            agent: self.agent.as_deref(),
            is_own: &mut self.is_own,
            is_whole: true,
            conversation: &mut self.conversation,
            reading,
        };
        if !*folding.is_own {
            return Ok(ControlFlow::Continue(()));
        }
        let mut flow = folding.facts(&record, &place);
        for message in list(&record["messages"]) {
            if flow.is_continue() {
                flow = folding.message(message, &place);
            }
        }
        Ok(flow)
    }
}

/// Applies the records of a file to its conversation.
struct Folding<'f, 'r> {
    agent: Option<&'f str>,
    is_own: &'f mut bool,
    is_whole: bool,
    conversation: &'f mut Conversation,
    reading: &'f mut Reading<'r>,
}

impl Folding<'_, '_> {
    fn record(&mut self, record: &Value, place: &Place) -> ControlFlow<()> {
        if let Some(id) = record["$rewindTo"].as_str() {
            self.conversation.rewind(id);
        } else if record["id"].is_string() {
            return self.message(record, place);
        } else if record["$set"].is_object() {
            return self.set(&record["$set"], place);
        } else if record["sessionId"].is_string() && record["projectHash"].is_string() {
            self.enter(&record["sessionId"]);
            self.conversation.clear();
            self.facts(record, place)?;
            for message in list(&record["messages"]) {
                self.message(message, place)?;
            }
        } else {
            let kind = record.as_object().and_then(|fields| fields.keys().next());
            self.reading.report.unknown(kind.map_or("a record without a kind", String::as_str));
        }
        ControlFlow::Continue(())
    }

    /// Notes whose lines follow.
    fn enter(&mut self, session_id: &Value) {
        *self.is_own = self.agent.is_some() || *session_id == *self.reading.session_id;
    }

    fn entries(&mut self, place: &Place) -> Entries<'_> {
        Entries {
            sink: &mut *self.reading.sink,
            told: &mut self.reading.told.entries,
            agent: self.agent,
            place: place.clone(),
            at: None,
        }
    }

    fn facts(&mut self, record: &Value, place: &Place) -> ControlFlow<()> {
        let title = record["summary"].as_str();
        if title.is_none() || !*self.is_own || self.agent.is_some() {
            return ControlFlow::Continue(());
        }
        self.entries(place).tell(EntryKind::Facts(Facts { title, ..Facts::default() }))
    }

    /// Adds a message; an answer that was not seen before ends a request.
    fn message(&mut self, message: &Value, place: &Place) -> ControlFlow<()> {
        match text(message, "type") {
            "user" | "gemini" | "info" | "warning" | "error" => {}
            kind => {
                self.reading.report.unknown(kind);
                return ControlFlow::Continue(());
            }
        }
        self.conversation.put(message, place, self.reading.kept);
        if !*self.is_own {
            return ControlFlow::Continue(());
        }
        self.request(message, place)?;
        self.entries(place).message(message)
    }

    fn request(&mut self, message: &Value, place: &Place) -> ControlFlow<()> {
        let has_model = message["model"].is_string() || message["tokens"].is_object();
        if text(message, "type") != "gemini" || !(has_model || self.is_whole) {
            return ControlFlow::Continue(());
        }
        let key = number_of(text(message, "id"));
        let usage = usage(&message["tokens"]);
        let is_new = self.reading.told.requests.insert(key);
        let is_counted = usage.is_some() && self.reading.told.counted.insert(key);
        if !is_new && !is_counted {
            return ControlFlow::Continue(());
        }
        let parts = self.conversation.before(text(message, "id"));
        let mut missing = vec![NEVER_STORED.to_owned()];
        let mut grade = Grade::Messages;
        let has_context = self.agent.is_some() || self.conversation.has_context();
        for (holds, problem) in
            [(has_context, NO_CONTEXT), (self.conversation.is_complete(), NOT_READ)]
        {
            if !holds {
                grade = Grade::Partial;
                missing.push(problem.to_owned());
            }
        }
        let request = Request {
            key,
            answer_id: Some(text(message, "id")),
            purpose: RequestPurpose::Answer,
            model: message["model"].as_str(),
            window: &Window { parts, ..Window::default() },
            grade,
            missing,
            usage,
            cache_write_hour: 0,
            tier: None,
            status: usage.map(|_| 200),
            is_settled: usage.is_some(),
        };
        let mut entries = self.entries(place);
        entries.at = time(&message["timestamp"]);
        entries.tell(EntryKind::Request(&request))
    }

    fn set(&mut self, set: &Value, place: &Place) -> ControlFlow<()> {
        if set["sessionId"].is_string() {
            self.enter(&set["sessionId"]);
        }
        self.facts(set, place)?;
        let Some(messages) = set["messages"].as_array() else { return ControlFlow::Continue(()) };
        if *self.is_own {
            self.replaced(messages, place, time(&set["lastUpdated"]))?;
        }
        self.conversation.clear();
        for message in messages {
            self.message(message, place)?;
        }
        ControlFlow::Continue(())
    }

    /// Hands out what a new list of messages means: a summary, or a prompt that was taken back.
    fn replaced(
        &mut self,
        messages: &[Value],
        place: &Place,
        at: Option<convoke_protocol::id::Millis>,
    ) -> ControlFlow<()> {
        let ids: HashSet<&str> = messages.iter().map(|message| text(message, "id")).collect();
        let removed = self.conversation.ids().filter(|id| !ids.contains(id)).count();
        if removed == 0 {
            return ControlFlow::Continue(());
        }
        let is_new = |message: &Value, kind: &str| {
            text(message, "type") == kind && !self.conversation.contains(text(message, "id"))
        };
        // A summary is a message of the user, and the program's own answer to it follows.
        let summary = messages.windows(2).find(|pair| {
            is_new(&pair[0], "user") && is_new(&pair[1], "gemini") && !pair[1]["model"].is_string()
        });
        let summary = summary
            .map(|pair| (text(&pair[0], "id").to_owned(), message_text(&pair[0]["content"])));
        let is_taken_back = messages.len() + removed == self.conversation.len()
            && messages
                .iter()
                .map(|message| text(message, "id"))
                .eq(self.conversation.ids().take(messages.len()));
        if let Some((id, summary)) = summary.filter(|(_, summary)| !summary.is_empty()) {
            // It is not what the person wrote.
            self.reading.told.entries.insert(number_of(&id));
            let mut entries = self.entries(place);
            entries.at = at;
            return entries
                .tell(EntryKind::Compacted { summary: &summary, dropped: removed as u64 });
        }
        if is_taken_back {
            let message = "the request failed, and its prompt was taken back";
            let mut entries = self.entries(place);
            entries.at = at;
            return entries.tell(EntryKind::Failed { status: None, message });
        }
        ControlFlow::Continue(())
    }
}

/// Returns the tokens of an answer: the file counts the reasoning beside the output.
fn usage(tokens: &Value) -> Option<Usage> {
    tokens.is_object().then(|| Usage {
        input: count(&tokens["input"]),
        cached: count(&tokens["cached"]),
        cache_write: 0,
        output: count(&tokens["output"]).saturating_add(count(&tokens["thoughts"])),
        reasoning: count(&tokens["thoughts"]),
    })
}
