//! Hands out requests with their windows.

use std::ops::ControlFlow;
use std::sync::Arc;

use convoke_protocol::agent_event::RequestPurpose;
use convoke_protocol::id::Millis;
use convoke_protocol::window::{Grade, Window};
use convoke_source::history::History;
use convoke_source::{Entry, EntryKind, Kept, Request, Sink};

use super::messages::LinePlace;
use super::reader::{Reader, Spot};
use super::request_log::{Hidden, Pending, WindowSource};

/// The time around the file of a request for a summary in which the summary was made.
const AROUND: i64 = 60_000;

/// A window and how well it is known.
struct Found {
    window: Window,
    grade: Grade,
    missing: Vec<String>,
}

/// What could not be found of the messages of a request.
#[derive(Default)]
struct Lost {
    unknown: u64,
    unproven: u64,
    unreadable: u64,
}

impl Pending {
    /// Creates a request that nothing is known of but where it is and how its window is found.
    pub(super) fn new(key: u64, spot: &Spot, source: WindowSource) -> Self {
        Self {
            key,
            id: None,
            answer_id: None,
            agent: spot.agent.clone(),
            place: spot.place.clone(),
            at: spot.at,
            model: None,
            purpose: RequestPurpose::Answer,
            source,
            counted: None,
            status: None,
            is_settled: false,
            is_handed_out: false,
        }
    }
}

impl Reader {
    /// Hands out the requests of a file that have changed.
    pub(super) fn hand_out_all(&mut self, file: usize, sink: &mut dyn Sink) -> ControlFlow<()> {
        self.hand_out_pending(file, sink)?;
        let mut hidden = std::mem::take(&mut self.files[file].log.hidden);
        let mut flow = ControlFlow::Continue(());
        for request in &mut hidden {
            if flow.is_continue() && !std::mem::replace(&mut request.request.is_handed_out, true) {
                flow = self.hand_out_hidden(request, sink);
            }
        }
        self.files[file].log.hidden = hidden;
        flow
    }

    /// Hands out the requests of a file that have changed, but for those that only a summary tells of.
    pub(super) fn hand_out_pending(&mut self, file: usize, sink: &mut dyn Sink) -> ControlFlow<()> {
        let mut pending = std::mem::take(&mut self.files[file].log.pending);
        let model = self.files[file].log.model.clone();
        let mut flow = ControlFlow::Continue(());
        for request in &mut pending {
            request.model = request.model.take().or_else(|| model.clone());
            // A failure without a log says nothing of the request before a model is known.
            let is_known = request.id.is_some() || request.model.is_some();
            if flow.is_continue()
                && is_known
                && !std::mem::replace(&mut request.is_handed_out, true)
            {
                flow = self.hand_out(request, sink);
            }
        }
        self.files[file].log.pending = pending;
        flow
    }

    /// Hands out a request that only a summary tells of.
    pub(super) fn hand_out_hidden(
        &mut self,
        hidden: &Hidden,
        sink: &mut dyn Sink,
    ) -> ControlFlow<()> {
        let spans =
            || self.files.iter().filter_map(|it| Some((it.agent.as_deref()?, it.log.span?)));
        // Some versions write the request for a summary into a file of its own.
        let is_own = |(agent, (first, last)): (&str, (Millis, Millis))| {
            let around = first.0.saturating_sub(AROUND)..=last.0.saturating_add(AROUND);
            agent.starts_with("acompact-")
                && hidden.request.at.is_some_and(|at| around.contains(&at.0))
        };
        if spans().any(is_own) {
            return ControlFlow::Continue(());
        }
        // The requests of a sub-agent that ran meanwhile are in the totals too.
        let (start, end) = hidden.span;
        let is_between = |(_, (first, last)): (&str, (Millis, Millis))| {
            start.is_none_or(|start| last >= start) && end.is_none_or(|end| first <= end)
        };
        let is_doubtful = hidden.request.counted.is_some() && spans().any(is_between);
        if is_doubtful {
            return self.hand_out_as(&hidden.request, None, sink);
        }
        self.hand_out(&hidden.request, sink)
    }

    fn hand_out(&mut self, request: &Pending, sink: &mut dyn Sink) -> ControlFlow<()> {
        self.hand_out_as(request, request.counted.as_ref(), sink)
    }

    fn hand_out_as(
        &mut self,
        request: &Pending,
        counted: Option<&super::usage::Counted>,
        sink: &mut dyn Sink,
    ) -> ControlFlow<()> {
        let Found { window, grade, missing } = self.window(&request.source);
        let told = Request {
            key: request.key,
            answer_id: request.answer_id.as_deref(),
            purpose: request.purpose,
            model: request.model.as_deref(),
            window: &window,
            grade,
            missing,
            usage: counted.map(|it| it.usage),
            cache_write_hour: counted.map_or(0, |it| it.cache_write_hour),
            tier: counted.and_then(|it| it.tier.as_deref()),
            status: request.status,
            is_settled: request.is_settled,
        };
        sink.take(Entry {
            place: request.place.clone(),
            at: request.at,
            agent: request.agent.as_deref(),
            kind: EntryKind::Request(&told),
        })
    }

    fn window(&mut self, source: &WindowSource) -> Found {
        let partial = |missing: &str| Found {
            window: Window::default(),
            grade: Grade::Partial,
            missing: vec![missing.to_owned()],
        };
        match source {
            _ if self.kept == Kept::Figures => partial("windows were not asked for"),
            WindowSource::None => partial("the request for the summary is not in the file"),
            WindowSource::Tree { last, length } => self.tree_window(*last, *length),
            WindowSource::Log { messages, shape, is_incomplete } => {
                let shape = shape.and_then(|hash| self.shapes.find(&hash)).unwrap_or_default();
                let mut found = self.log_window(messages, *is_incomplete);
                if !shape.is_proven {
                    found.grade = found.grade.min(Grade::Messages);
                    found.missing.push("the system text and tools are not in the file".to_owned());
                }
                found.window.system.clone_from(&shape.system);
                found.window.tools.clone_from(&shape.tools);
                found
            }
        }
    }

    fn log_window(&mut self, messages: &Arc<[u32]>, is_incomplete: bool) -> Found {
        let mut history = History::default();
        let mut lost = Lost::default();
        for &message in &**messages {
            let Some((places, is_proven)) = self.messages.find(message) else {
                lost.unknown += 1;
                continue;
            };
            lost.unproven += u64::from(!is_proven);
            let places: Vec<LinePlace> = places.to_vec();
            self.add_contents(&places, &mut history, &mut lost);
        }
        let mut missing = lost.reasons();
        if is_incomplete {
            missing.push("the program's log does not hold all of the request".to_owned());
        }
        if history.is_too_large() {
            missing.push("it is too large to be shown".to_owned());
        }
        let grade = if missing.is_empty() { Grade::Exact } else { Grade::Partial };
        let window = Window { parts: history.parts().to_vec(), ..Window::default() };
        Found { window, grade, missing }
    }

    /// Returns the window of a request that the program did not log. The program adds reminders to the messages, of which
    /// the file has no record, so the best grade is partial.
    fn tree_window(&mut self, last: Option<u64>, length: usize) -> Found {
        let places = self.tree.conversation(last, length);
        let (mut history, mut lost) = (History::default(), Lost::default());
        self.add_contents(&places, &mut history, &mut lost);
        let mut missing = vec![
            "the system text and tools are not in the file".to_owned(),
            "reminders that the program added to messages are not in the file".to_owned(),
        ];
        if history.is_too_large() || self.tree.has_forgotten {
            missing.push("it is too large to be shown".to_owned());
        }
        let window = Window { parts: history.parts().to_vec(), ..Window::default() };
        Found { window, grade: Grade::Partial, missing }
    }

    fn add_contents(&mut self, places: &[LinePlace], history: &mut History, lost: &mut Lost) {
        for place in places {
            let file = self.files.get(place.file as usize);
            let max_kept = self.kept.max_bytes();
            let content =
                file.and_then(|file| self.messages.contents.load(*place, &file.path, max_kept));
            match content {
                Some(content) => {
                    lost.unreadable += u64::from(!content.is_whole);
                    history.extend(content.parts.iter().cloned());
                }
                None => lost.unknown += 1,
            }
        }
    }
}

impl Lost {
    fn reasons(&self) -> Vec<String> {
        let reasons = [
            (self.unknown, "not in the file"),
            (self.unproven, "not as their hashes say"),
            (self.unreadable, "with characters that cannot be read"),
        ];
        let found = reasons.into_iter().filter(|(count, _)| *count > 0);
        found.map(|(count, why)| format!("messages {why}: {count}")).collect()
    }
}
