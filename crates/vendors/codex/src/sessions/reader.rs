//! Reads a session from its files.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use convoke_protocol::window::{At as AtLine, Place};
use convoke_source::lines::{Line, Lines};
use convoke_source::{FoundSession, Kept, Report, SessionReader, Sink, SourceError};

use super::PROGRAM;
use super::head::{Base, Head};
use super::json::{number as ordinal, text};
use super::place;
use super::record::Record;
use super::thread::{At, Out, Thread};

/// The largest number of forks of forks.
const MAX_FORKS: usize = 64;
/// The largest number of sub-agents that are found while the session is read.
const MAX_AGENTS: usize = 10_000;

/// A reader of a session and its sub-agents.
pub(super) struct Reader {
    main: File,
    agents: Vec<Agent>,
    /// The files and names of the sub-agents.
    known: HashSet<PathBuf>,
    names: HashSet<String>,
    home: Option<PathBuf>,
    kept: Kept,
    report: Report,
}

/// A sub-agent's file. It is read from its beginning whenever it has grown: what it had said is not held in memory.
struct Agent {
    path: PathBuf,
    name: Option<String>,
    bytes: u64,
    /// The number of lines that were told.
    lines: u64,
}

/// A file that is being read.
struct File {
    lines: Lines,
    thread: Thread,
    name: Arc<str>,
    /// The file of the session from which the first records were copied, while they are the same.
    copied: Option<Box<Lines>>,
    number: u64,
    is_own: bool,
}

impl Reader {
    /// Opens a session.
    pub(super) fn open(session: &FoundSession, kept: Kept) -> Result<Self, SourceError> {
        let home = place::home_of(&session.path).map(Path::to_owned);
        let mut report = Report::default();
        let main = File::open(&session.path, None, home.as_deref(), kept, &mut report)?;
        let mut reader = Self {
            main,
            agents: Vec::new(),
            known: HashSet::from([session.path.clone()]),
            names: HashSet::new(),
            home,
            kept,
            report,
        };
        session.files.iter().for_each(|path| reader.add_agent(path.clone()));
        Ok(reader)
    }

    fn add_agent(&mut self, path: PathBuf) {
        if self.agents.len() < MAX_AGENTS && self.known.insert(path.clone()) {
            self.agents.push(Agent { path, name: None, bytes: 0, lines: 0 });
        }
    }

    /// Reads what a sub-agent's file has more than it had.
    fn advance_agent(&mut self, index: usize, out: &mut Out<'_>) -> Result<(), SourceError> {
        let Agent { path, name, bytes, lines } = &self.agents[index];
        let (path, mut name, lines) = (path.clone(), name.clone(), *lines);
        let size = path.metadata().map_err(SourceError::read(&path))?.len();
        if size == *bytes {
            return Ok(());
        }
        let mut report = Report::default();
        let mut file =
            File::open(&path, Some(String::new()), self.home.as_deref(), self.kept, &mut report)?;
        if name.is_none() {
            let head = &file.thread.head;
            let by_path = head.agent_path.clone().filter(|it| !self.names.contains(it));
            let own = by_path.unwrap_or_else(|| head.id.clone());
            self.names.insert(own.clone());
            name = Some(own);
        }
        file.thread.agent.clone_from(&name);
        file.advance(lines, out, if lines == 0 { &mut self.report } else { &mut report })?;
        self.report.is_torn |= report.is_torn;
        let started = std::mem::take(&mut file.thread.started);
        self.agents[index] = Agent { path, name, bytes: size, lines: file.number };
        self.find_started(started);
        Ok(())
    }

    /// Finds the files of sub-agents that were started.
    fn find_started(&mut self, started: Vec<String>) {
        let Some(home) = self.home.clone() else { return };
        let is_new = |id: &String| {
            !self.known.iter().any(|path| place::thread_of(path) == Some(id.as_str()))
        };
        let new: HashSet<String> = started.into_iter().filter(is_new).collect();
        if new.is_empty() {
            return;
        }
        place::files(&home, &mut |path| {
            let path = path.ok();
            let is_it = |path: &PathBuf| place::thread_of(path).is_some_and(|id| new.contains(id));
            path.filter(is_it).into_iter().for_each(|path| self.add_agent(path));
        });
    }
}

impl SessionReader for Reader {
    fn advance(&mut self, sink: &mut dyn Sink) -> Result<(), SourceError> {
        let mut out = Out::new(sink);
        self.report.is_torn = false;
        self.main.advance(0, &mut out, &mut self.report)?;
        self.find_started(self.main.thread.started.clone());
        let mut index = 0;
        while index < self.agents.len() && !out.is_stopped() {
            // The rest is shown, whatever is wrong with this file.
            if let Err(error) = self.advance_agent(index, &mut out) {
                let note = error.to_string();
                if !self.report.notes.contains(&note) {
                    self.report.notes.push(note);
                }
            }
            index += 1;
        }
        Ok(())
    }

    fn report(&self) -> &Report {
        &self.report
    }
}

impl File {
    fn open(
        path: &Path,
        agent: Option<String>,
        home: Option<&Path>,
        kept: Kept,
        report: &mut Report,
    ) -> Result<Self, SourceError> {
        let named = || Some(Head { id: place::thread_of(path)?.to_owned(), ..Head::default() });
        let Some(head) = place::head(path)?.or_else(named) else {
            let problem = "its first record is not that of a session".to_owned();
            return Err(SourceError::Format { program: PROGRAM, path: path.to_owned(), problem });
        };
        let lines = Lines::open(path).map_err(SourceError::read(path))?;
        let name = lines.place(0).file;
        let copied = copied_from(&head, home, path);
        let is_own = head.own_from == 0 && copied.is_none();
        let base = head.base.clone();
        let mut thread = Thread::new(head, agent, kept);
        if let Some(base) = base {
            replay(&mut thread, &base, home, report);
        }
        Ok(Self { lines, thread, name, copied, number: 0, is_own })
    }

    /// Reads what was added. The first lines were told before.
    fn advance(
        &mut self,
        told: u64,
        out: &mut Out<'_>,
        report: &mut Report,
    ) -> Result<(), SourceError> {
        let path = self.lines.path().to_owned();
        while !out.is_stopped() {
            let line = match self.lines.next() {
                Ok(line) => line,
                Err(error) if self.number == 0 => return Err(SourceError::read(&path)(error)),
                // What was read is shown.
                Err(error) => {
                    let note = SourceError::read(&path)(error).to_string();
                    if !report.notes.contains(&note) {
                        report.notes.push(note);
                    }
                    break;
                }
            };
            let mut muted = Out::muted();
            let (number, bytes) = match line {
                Line::Complete { number, bytes } => (number, bytes),
                Line::TooLarge { number } => {
                    self.number = number;
                    report.too_large += 1;
                    self.thread.lose();
                    continue;
                }
                Line::End { is_torn } => {
                    report.is_torn |= is_torn;
                    break;
                }
            };
            self.number = number;
            let place = Place { file: self.name.clone(), at: AtLine::Line(number) };
            if bytes.is_empty() {
                continue;
            }
            report.records += 1;
            let record: Record<'_> = match serde_json::from_slice(bytes) {
                Ok(record) => record,
                Err(error) => {
                    report.broken(place, &error);
                    self.thread.lose();
                    continue;
                }
            };
            if self.thread.is_repeated(&record, bytes) {
                report.repeated += 1;
                continue;
            }
            let at = At { place, time: record.at() };
            let is_head = text(record.kind).is_some_and(|kind| kind == "session_meta");
            if !self.is_own && !is_copy(&mut self.copied, &self.thread, &record, number) {
                self.is_own = true;
                self.thread.inherit_copies();
            }
            let is_told = number > told && (self.is_own || is_head);
            let out = if is_told { &mut *out } else { &mut muted };
            self.thread.read(&record, bytes, &at, out, report);
        }
        let place = Place { file: self.name.clone(), at: AtLine::Line(self.number) };
        self.thread.pause(&At { place, time: None }, out);
        Ok(())
    }
}

/// Returns whether a record is a copy of another session's.
fn is_copy(
    copied: &mut Option<Box<Lines>>,
    thread: &Thread,
    record: &Record<'_>,
    number: u64,
) -> bool {
    let Some(lines) = copied else {
        return position(record, number) < thread.head.own_from;
    };
    let is_meta = text(record.kind).is_some_and(|kind| kind == "session_meta");
    if number == 1 {
        return true;
    }
    let is_same = loop {
        let Ok(Line::Complete { bytes, .. }) = lines.next() else { break false };
        let Ok(original) = serde_json::from_slice::<Record<'_>>(bytes) else { break false };
        let is_other_meta = text(original.kind).is_some_and(|kind| kind == "session_meta");
        if is_other_meta && !is_meta {
            continue;
        }
        let payload = |record: &Record<'_>| record.payload.map(|it| it.get().to_owned());
        break payload(record) == payload(&original);
    };
    if !is_same {
        *copied = None;
    }
    is_same
}

/// Returns the number of a record, from 0.
fn position(record: &Record<'_>, number: u64) -> u64 {
    ordinal(record.ordinal).unwrap_or(number - 1)
}

/// Opens the file of the session that an older version copied into this one.
fn copied_from(head: &Head, home: Option<&Path>, path: &Path) -> Option<Box<Lines>> {
    let is_copy = head.base.is_none() && head.own_from == 0 && !head.is_subagent;
    let parent = head.forked_from.as_deref().filter(|_| is_copy)?;
    let file = place::find(home?, parent).filter(|file| file != path)?;
    Lines::open(&file).ok().map(Box::new)
}

/// Reads the history that a fork left in the files of the sessions before it.
fn replay(thread: &mut Thread, base: &Base, home: Option<&Path>, report: &mut Report) {
    let mut chain: Vec<(PathBuf, u64)> = Vec::new();
    let mut next = Some(base.clone());
    while let Some(base) = next.take() {
        let file = home.and_then(|home| place::find(home, &base.thread));
        let is_new = |file: &PathBuf| {
            chain.len() < MAX_FORKS && !chain.iter().any(|(known, _)| known == file)
        };
        let Some(file) = file.filter(is_new) else {
            thread.conversation.incomplete =
                Some("the session that it was forked from is not here");
            report.notes.push(format!("{}, from which it was forked, is not here", base.thread));
            break;
        };
        next = place::head(&file).ok().flatten().and_then(|head| head.base);
        chain.push((file, base.end));
    }
    let own = thread.head.clone();
    for (file, end) in chain.into_iter().rev() {
        let Ok(mut lines) = Lines::open(&file) else {
            thread.lose();
            continue;
        };
        thread.head = place::head(&file).ok().flatten().unwrap_or_default();
        let name = lines.place(0).file;
        let mut seen = 0;
        loop {
            match lines.next() {
                Ok(Line::Complete { number, bytes }) => {
                    let Ok(record) = serde_json::from_slice::<Record<'_>>(bytes) else {
                        thread.lose();
                        continue;
                    };
                    if position(&record, number) >= end {
                        break;
                    }
                    seen = position(&record, number) + 1;
                    if thread.is_repeated(&record, bytes) {
                        continue;
                    }
                    let place = Place { file: name.clone(), at: AtLine::Line(number) };
                    let at = At { place, time: record.at() };
                    thread.read(&record, bytes, &at, &mut Out::muted(), &mut Report::default());
                }
                Ok(Line::TooLarge { .. }) => thread.lose(),
                Ok(Line::End { .. }) => {
                    if seen < end {
                        thread.lose();
                    }
                    break;
                }
                Err(_) => {
                    thread.lose();
                    break;
                }
            }
        }
        thread.inherit();
    }
    thread.head = own;
}
