//! Reads the files of a session.

use std::collections::HashSet;
use std::hash::BuildHasher as _;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use convoke_protocol::agent_event::RequestPurpose;
use convoke_protocol::id::Millis;
use convoke_protocol::window::{At, Place};
use convoke_source::lines::{Line, Lines, Position};
use convoke_source::{
    Entry, EntryKind, Facts, FoundSession, Kept, Report, SessionReader, Sink, SourceError,
};
use foldhash::fast::FixedState;
use memchr::memmem;
use serde::Deserialize;

use super::list;
use super::messages::{self, LinePlace, Messages};
use super::record::{Raw, Record, is_true, name, number, parsed, text};
use super::request_log::{self, FileLog, Hidden, Pending, WindowSource};
use super::seen::Seen;
use super::shapes::Shapes;
use super::tree::Tree;

/// The maximum number of lines and answers that are known when they are repeated.
const MAX_LINES: usize = 400_000;
const MAX_ANSWERS: usize = 200_000;
/// The maximum number of requests without a record that wait for the tokens of theirs.
const MAX_HIDDEN: usize = 256;

/// Marks of the records that have facts or requests.
const WITH_FIGURES: [&str; 8] = [
    "\"assistant\"",
    "\"api-request\"",
    "\"cost-state\"",
    "\"compact_boundary\"",
    "\"api_error\"",
    "\"queue-operation\"",
    "-title\"",
    "\"summary\"",
];
/// Kinds of records that tell nothing about the conversation.
const IGNORED: &[&str] = &[
    "agent-color",
    "agent-name",
    "agent-setting",
    "artifact-autoreact-ledger",
    "artifact-comment-monitor",
    "atis-latch",
    "attribution-snapshot",
    "bridge-session",
    "content-replacement",
    "continued-in",
    "data-flow-incomplete",
    "data-flow-records",
    "derived-from",
    "dev-mods",
    "ended-by-model",
    "file-history-delta",
    "file-history-snapshot",
    "frame-link",
    "history-suppression",
    "isolation-latch",
    "last-prompt",
    "memory-mode",
    "mode",
    "observer-ref",
    "permission-mode",
    "pr-link",
    "progress",
    "relocated",
    "repl-mode",
    "resume-head-vouch",
    "session-owner",
    "speculation-accept",
    "tag",
    "task-summary",
    "tools-used",
    "worktree-state",
];

/// A reader of a session.
pub(super) struct Reader {
    pub(super) kept: Kept,
    pub(super) files: Vec<SessionFile>,
    pub(super) report: Report,
    lines: Seen,
    pub(super) answers: Seen,
    pub(super) messages: Messages,
    pub(super) shapes: Shapes,
    pub(super) tree: Tree,
    facts: KnownFacts,
    next_key: u64,
    figures: [memmem::Finder<'static>; 8],
}

/// A file of a session.
pub(super) struct SessionFile {
    pub path: PathBuf,
    name: Arc<str>,
    position: Position,
    /// The sub-agent whose file it is.
    pub agent: Option<Arc<str>>,
    pub log: FileLog,
    is_unreadable: bool,
}

/// Where a record is, and of whom.
#[derive(Clone)]
pub(super) struct Spot {
    pub file: usize,
    pub line: LinePlace,
    pub place: Place,
    pub at: Option<Millis>,
    pub agent: Option<Arc<str>>,
}

impl Spot {
    /// Hands out what a record tells.
    pub fn tell(&self, sink: &mut dyn Sink, kind: EntryKind<'_>) -> ControlFlow<()> {
        let agent = self.agent.as_deref();
        sink.take(Entry { place: self.place.clone(), at: self.at, agent, kind })
    }
}

#[derive(Default)]
struct KnownFacts {
    version: Option<String>,
    cwd: Option<String>,
    branch: Option<String>,
    model: Option<String>,
    title: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct WrittenError<'l> {
    #[serde(borrow)]
    status: Raw<'l>,
    #[serde(borrow)]
    message: Raw<'l>,
    #[serde(borrow)]
    formatted: Raw<'l>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct CompactMetadata<'l> {
    #[serde(borrow)]
    duration_ms: Raw<'l>,
}

impl Reader {
    pub(super) fn new(session: &FoundSession, kept: Kept) -> Self {
        let others = session.files.iter().filter(|file| **file != session.path);
        let agents = others.filter(|file| list::agent_of(file).is_some());
        let files = std::iter::once(&session.path).chain(agents).map(|path| SessionFile::new(path));
        Self {
            kept,
            files: files.collect(),
            report: Report::default(),
            lines: Seen::new(MAX_LINES),
            answers: Seen::new(MAX_ANSWERS),
            messages: Messages::default(),
            shapes: Shapes::default(),
            tree: Tree::default(),
            facts: KnownFacts::default(),
            next_key: 0,
            figures: WITH_FIGURES.map(memmem::Finder::new),
        }
    }

    /// Returns the key of a new request.
    pub(super) fn key(&mut self) -> u64 {
        self.next_key += 1;
        self.next_key
    }

    /// Finds the files of sub-agents that were started since.
    fn find_agents(&mut self) {
        let mut found = Vec::new();
        list::files_below(&self.files[0].path.with_extension(""), 3, &mut found);
        found.retain(|path| list::agent_of(path).is_some());
        found.retain(|path| self.files.iter().all(|file| file.path != *path));
        self.files.extend(found.iter().map(|path| SessionFile::new(path)));
    }

    fn read_file(
        &mut self,
        file: usize,
        sink: &mut dyn Sink,
    ) -> Result<ControlFlow<()>, SourceError> {
        let path = self.files[file].path.clone();
        let mut lines =
            Lines::open_at(&path, self.files[file].position).map_err(SourceError::read(&path))?;
        loop {
            let offset = lines.position().offset;
            let line = lines.next().map_err(SourceError::read(&path))?;
            let flow = match line {
                Line::End { is_torn } => {
                    self.report.is_torn |= is_torn;
                    return Ok(ControlFlow::Continue(()));
                }
                Line::TooLarge { .. } => {
                    self.report.records += 1;
                    self.report.too_large += 1;
                    ControlFlow::Continue(())
                }
                Line::Complete { bytes: [], .. } => ControlFlow::Continue(()),
                Line::Complete { number, bytes } => {
                    self.take_line(file, number, offset, bytes, sink)
                }
            };
            self.files[file].position = lines.position();
            if flow.is_break() {
                return Ok(flow);
            }
        }
    }

    fn take_line(
        &mut self,
        file: usize,
        line: u64,
        offset: u64,
        bytes: &[u8],
        sink: &mut dyn Sink,
    ) -> ControlFlow<()> {
        self.report.records += 1;
        if !self.lines.is_new(FixedState::with_seed(file as u64).hash_one(bytes)) {
            self.report.repeated += 1;
            return ControlFlow::Continue(());
        }
        let is_wanted = |finder: &memmem::Finder<'_>| finder.find(bytes).is_some();
        if self.kept == Kept::Figures && !self.figures.iter().any(is_wanted) {
            return ControlFlow::Continue(());
        }
        let place = Place { file: self.files[file].name.clone(), at: At::Line(line) };
        let record: Record<'_> = match serde_json::from_slice(bytes) {
            Ok(record) => record,
            Err(error) => {
                self.report.broken(place, &error);
                return ControlFlow::Continue(());
            }
        };
        let agent = self.agent(file, &record);
        let line = LinePlace { file: u32::try_from(file).unwrap_or(u32::MAX), line, offset };
        let spot = Spot { file, line, place, at: record.at(), agent };
        let log = &mut self.files[file].log;
        log.last_at = log.last_at.max(spot.at);
        self.take_record(&record, &spot, sink)
    }

    /// Returns the sub-agent that a record is of. Old versions wrote sub-agents into the file of the session.
    fn agent(&self, file: usize, record: &Record<'_>) -> Option<Arc<str>> {
        let own = self.files[file].agent.clone();
        if own.is_some() || !is_true(record.is_sidechain) {
            return own;
        }
        if let Some(agent) = text(record.agent_id) {
            return Some((&*agent).into());
        }
        if self.kept == Kept::Figures {
            return Some("sidechain".into());
        }
        let of_parent = text(record.parent_uuid).and_then(|it| self.tree.agent(name(&it)));
        of_parent.or_else(|| Some((&*text(record.uuid)?).into()))
    }

    fn take_record(
        &mut self,
        record: &Record<'_>,
        spot: &Spot,
        sink: &mut dyn Sink,
    ) -> ControlFlow<()> {
        let Some(kind) = text(record.kind) else {
            self.report.unknown("no type");
            return ControlFlow::Continue(());
        };
        match &*kind {
            "user" | "assistant" | "attachment" | "system" => {
                self.files[spot.file].log.has_conversation = true;
                self.tell_facts(record, None, spot, sink)?;
                match &*kind {
                    "user" => self.user(record, spot, sink),
                    "assistant" => self.assistant(record, spot, sink),
                    "attachment" => self.attachment(record, spot, sink),
                    _ => self.system(record, spot, sink),
                }
            }
            "api-request" => self.request(record, spot, sink),
            "api-request-shape" if self.kept != Kept::Figures => {
                let max_kept = self.kept.max_bytes();
                if self.shapes.know(record, &spot.place, max_kept).is_none() {
                    self.report.broken(spot.place.clone(), &"it has no shape");
                }
                ControlFlow::Continue(())
            }
            "api-request-blob" if self.kept != Kept::Figures => {
                if self.blob(record, spot).is_none() {
                    self.report.broken(spot.place.clone(), &"it has no message");
                }
                ControlFlow::Continue(())
            }
            "cost-state" => {
                self.totals(record, spot);
                ControlFlow::Continue(())
            }
            "queue-operation" => {
                let log = &mut self.files[spot.file].log;
                if !log.has_conversation {
                    log.first_prompt = log.first_prompt.or(spot.at);
                }
                ControlFlow::Continue(())
            }
            "fork-context-ref" => {
                let last = text(record.parent_last_uuid).map(|it| name(&it));
                self.files[spot.file].log.forked_at = last;
                ControlFlow::Continue(())
            }
            "summary" | "custom-title" | "ai-title" => self.tell_facts(record, None, spot, sink),
            "api-request-shape" | "api-request-blob" => ControlFlow::Continue(()),
            kind if IGNORED.contains(&kind) => ControlFlow::Continue(()),
            unknown => {
                self.report.unknown(unknown);
                ControlFlow::Continue(())
            }
        }
    }

    /// Tells facts that have changed.
    pub(super) fn tell_facts(
        &mut self,
        record: &Record<'_>,
        model: Option<&str>,
        spot: &Spot,
        sink: &mut dyn Sink,
    ) -> ControlFlow<()> {
        if spot.agent.is_some() {
            return ControlFlow::Continue(());
        }
        let mut is_changed = false;
        let mut note = |known: &mut Option<String>, raw: Option<&str>| {
            let new =
                raw.filter(|new| !new.is_empty() && known.as_deref() != Some(*new))?.to_owned();
            is_changed = true;
            *known = Some(new);
            Some(())
        };
        let title = record.custom_title.or(record.ai_title).or(record.summary);
        let facts = &mut self.facts;
        let told = [
            note(&mut facts.version, text(record.version).as_deref()),
            note(&mut facts.cwd, text(record.cwd).as_deref()),
            note(&mut facts.branch, text(record.git_branch).as_deref()),
            note(&mut facts.model, model),
            note(&mut facts.title, text(title).as_deref()),
        ];
        if !is_changed {
            return ControlFlow::Continue(());
        }
        let [version, cwd, branch, model, title] = told;
        let facts = Facts {
            version: version.and(facts.version.as_deref()),
            cwd: cwd.and(facts.cwd.as_deref()),
            branch: branch.and(facts.branch.as_deref()),
            model: model.and(facts.model.as_deref()),
            title: title.and(facts.title.as_deref()),
        };
        spot.tell(sink, EntryKind::Facts(facts))
    }

    fn system(&mut self, record: &Record<'_>, spot: &Spot, sink: &mut dyn Sink) -> ControlFlow<()> {
        self.add_node(record, spot, None, [].into(), [].into());
        match text(record.subtype).as_deref() {
            Some("compact_boundary") => self.compaction(record, spot, sink),
            Some("api_error") => {
                let error: WrittenError<'_> = parsed(record.error).unwrap_or_default();
                let status = number(error.status).and_then(|it| u16::try_from(it).ok());
                self.failure(record, status, spot, sink)?;
                let message = text(error.formatted).or_else(|| text(error.message));
                let message = message.unwrap_or("the request failed".into());
                spot.tell(sink, EntryKind::Failed { status, message: &message })
            }
            _ => ControlFlow::Continue(()),
        }
    }

    /// Notes the request for a summary, which the program does not log.
    fn compaction(
        &mut self,
        record: &Record<'_>,
        spot: &Spot,
        sink: &mut dyn Sink,
    ) -> ControlFlow<()> {
        let written: CompactMetadata<'_> = parsed(record.compact_metadata).unwrap_or_default();
        let duration = number(written.duration_ms).and_then(|it| i64::try_from(it).ok());
        let at = spot.at.map(|at| Millis(at.0.saturating_sub(duration.unwrap_or_default())));
        let key = self.key();
        let log = &mut self.files[spot.file].log;
        if spot.at < log.first_prompt {
            // It was made by the session that this one is a fork of.
            return ControlFlow::Continue(());
        }
        log.totals.hide(key);
        let request = Pending {
            key,
            id: None,
            answer_id: None,
            agent: spot.agent.clone(),
            place: spot.place.clone(),
            at,
            model: log.model.clone(),
            purpose: RequestPurpose::Compaction,
            source: WindowSource::None,
            counted: None,
            status: Some(200),
            is_settled: true,
            is_handed_out: false,
        };
        log.hidden.push(Hidden { request, span: (None, None) });
        if log.hidden.len() > MAX_HIDDEN {
            let oldest = log.hidden.remove(0);
            return self.hand_out_hidden(&oldest, sink);
        }
        ControlFlow::Continue(())
    }

    fn totals(&mut self, record: &Record<'_>, spot: &Spot) {
        let log = &mut self.files[spot.file].log;
        let model = log.model.clone();
        let Some(found) =
            log.totals.advance(record.model_usage, log.has_copies, model.as_deref(), log.last_at)
        else {
            return;
        };
        let end = log.last_at;
        if let Some(request) = log.hidden.iter_mut().find(|it| it.request.key == found.key) {
            request.request.counted = Some(found.counted);
            request.request.model.get_or_insert_with(|| (&*found.model).into());
            request.request.is_handed_out = false;
            request.span = (found.start, end);
        }
    }

    /// Keeps a message of the log.
    fn blob(&mut self, record: &Record<'_>, spot: &Spot) -> Option<()> {
        let hash = text(record.hash)?.parse().ok()?;
        let hashes = super::canonical::message_hashes(record.message?)?;
        self.messages.know(hash, &[spot.line], hashes.contains(&hash));
        let content = messages::content(record, spot.place.clone(), self.kept.max_bytes());
        self.messages.contents.insert(spot.line, content);
        Some(())
    }

    /// Forgets messages that no later request can have, if there are too many.
    pub(super) fn forget_messages(&mut self) {
        if self.messages.is_full() {
            let live: HashSet<u32> = self.files.iter().flat_map(|file| file.log.live()).collect();
            self.messages.forget_all_but(&live);
        }
    }
}

impl SessionFile {
    fn new(path: &Path) -> Self {
        let agent = list::agent_of(path).map(Into::into);
        let name = path.to_string_lossy().into();
        let path = path.to_owned();
        let log = FileLog::default();
        Self { path, name, position: Position::default(), agent, log, is_unreadable: false }
    }
}

impl SessionReader for Reader {
    fn advance(&mut self, sink: &mut dyn Sink) -> Result<(), SourceError> {
        self.report.is_torn = false;
        if self.files[0].position != Position::default() {
            self.find_agents();
        }
        for file in 0..self.files.len() {
            match self.read_file(file, sink) {
                Ok(flow) if flow.is_break() => return Ok(()),
                Ok(_) => {}
                Err(error) if file == 0 => return Err(error),
                Err(error) => {
                    if !std::mem::replace(&mut self.files[file].is_unreadable, true) {
                        self.report.notes.push(error.to_string());
                    }
                }
            }
        }
        for file in 0..self.files.len() {
            if self.hand_out_all(file, sink).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn report(&self) -> &Report {
        &self.report
    }
}

/// Returns the purpose of a request.
pub(super) fn purpose(agent: Option<&str>, source: Raw<'_>) -> RequestPurpose {
    let of_agent = agent.and_then(request_log::purpose_of_agent);
    let of_source = || text(source).map(|source| request_log::purpose(&source));
    of_agent.or_else(of_source).unwrap_or(RequestPurpose::Answer)
}
