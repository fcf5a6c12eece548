//! A page of another program's session: gathered in one reading, in memory that is bounded by the page.

use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow;
use std::time::Duration;

use convoke_diff::LineDiff;
use convoke_open::prices::{Charged, OwnPrices, cost};
use convoke_open::summary::{Summarizer, Summary};
use convoke_protocol::agent_event::FileChange;
use convoke_protocol::id::Millis;
use convoke_server::ChangedFile;
use convoke_server::other_sessions::{
    Excerpt, MAX_SHOWN, MAX_TOOL_SHOWN, PAGE, PageEnds, RequestRow, Step, StepKey, StepKind,
    TextName, TextPart, TodoLine, ToolOutput,
};
use convoke_source::{Entry, EntryKind, Request, Sink};

/// The maximum time of comparing the two texts of a change.
const COMPARING: Duration = Duration::from_millis(50);
/// The lines around a change that are shown.
const AROUND: usize = 3;

/// Gathers a page of a session.
pub(super) struct Transcript<'p> {
    ends: &'p PageEnds,
    summarizer: Summarizer<'p>,
    steps: BTreeMap<StepKey, Step>,
    earlier_steps: u64,
    numbering: Numbering,
    /// The steps of calls without a result.
    calls: HashMap<(Option<String>, String), StepKey>,
    requests: Vec<RequestRow>,
    /// The places of requests, which may be handed out again, by sub-agent and key.
    places: HashMap<(Option<String>, u64), usize>,
}

/// A page of requests.
pub(super) struct RequestPage {
    pub(super) rows: Vec<RequestRow>,
    pub(super) earlier: u64,
    pub(super) most_tokens: u64,
}

impl<'p> Transcript<'p> {
    pub(super) fn new(
        ends: &'p PageEnds,
        provider: Option<&'static str>,
        prices: &'p OwnPrices,
    ) -> Self {
        Self {
            ends,
            summarizer: Summarizer { summary: Summary::default(), provider, prices },
            steps: BTreeMap::new(),
            earlier_steps: 0,
            numbering: Numbering::default(),
            calls: HashMap::new(),
            requests: Vec::new(),
            places: HashMap::new(),
        }
    }

    /// Returns the figures of the session, the page of steps, and the number of steps before it.
    pub(super) fn into_parts(self) -> (Summary, Vec<Step>, u64, RequestPage) {
        let requests = request_page(self.requests, self.ends.requests);
        let steps = self.steps.into_values().collect();
        (self.summarizer.summary, steps, self.earlier_steps, requests)
    }

    fn push(&mut self, step: Step) {
        if self.ends.steps.as_ref().is_some_and(|end| step.key >= *end) {
            return;
        }
        self.steps.insert(step.key.clone(), step);
        if self.steps.len() > PAGE {
            self.steps.pop_first();
            self.earlier_steps += 1;
        }
    }

    fn returned(&mut self, agent: Option<&str>, id: &str, ok: bool, output: &str) {
        let Some(key) = self.calls.remove(&(agent.map(str::to_owned), id.to_owned())) else {
            return;
        };
        if let Some(Step { kind: StepKind::Tool { output: place, .. }, .. }) =
            self.steps.get_mut(&key)
        {
            *place = Some(ToolOutput { ok, text: Excerpt::new(output, MAX_TOOL_SHOWN) });
        }
    }

    fn request(&mut self, agent: Option<&str>, at: Option<Millis>, request: &Request<'_>) {
        let charged = request.usage.map(|usage| Charged {
            provider: self.summarizer.provider,
            model: request.model.unwrap_or_default(),
            usage,
            cache_write_hour: request.cache_write_hour,
            tier: request.tier,
            at,
        });
        let row = RequestRow {
            number: 0,
            at,
            agent: agent.map(str::to_owned),
            purpose: request.purpose,
            model: request.model.map(str::to_owned),
            usage: request.usage,
            cost: charged.and_then(|charged| cost(&charged, self.summarizer.prices)),
            grade: request.grade,
            status: request.status,
        };
        let key = (agent.map(str::to_owned), request.key);
        if let Some(&place) = self.places.get(&key) {
            self.requests[place] = row;
            return;
        }
        self.places.insert(key, self.requests.len());
        self.requests.push(row);
    }
}

impl Sink for Transcript<'_> {
    fn take(&mut self, entry: Entry<'_>) -> ControlFlow<()> {
        match &entry.kind {
            EntryKind::Request(request) => self.request(entry.agent, entry.at, request),
            EntryKind::Result { id, ok, output } => self.returned(entry.agent, id, *ok, output),
            kind if is_step(kind) => {
                let key = self.numbering.next(entry.agent, entry.at);
                if let EntryKind::Call { id, .. } = kind {
                    let call = (entry.agent.map(str::to_owned), (*id).to_owned());
                    self.calls.insert(call, key.clone());
                }
                if let Some(kind) = step(kind) {
                    self.push(Step { key, at: entry.at, place: entry.place.to_string(), kind });
                }
            }
            _ => {}
        }
        self.summarizer.take(entry)
    }
}

/// Numbers the steps of each agent, and orders them by time.
#[derive(Default)]
struct Numbering(HashMap<Option<String>, (u64, i64)>);

impl Numbering {
    fn next(&mut self, agent: Option<&str>, at: Option<Millis>) -> StepKey {
        let agent = agent.map(str::to_owned);
        let (number, last) = self.0.entry(agent.clone()).or_insert((0, i64::MIN));
        *number += 1;
        *last = at.map_or(*last, |at| at.0.max(*last));
        StepKey { at: *last, agent, number: *number }
    }
}

/// Returns whether an entry is a step of its own.
fn is_step(kind: &EntryKind<'_>) -> bool {
    !matches!(kind, EntryKind::Facts(_) | EntryKind::Result { .. } | EntryKind::Request(_))
}

/// Returns the step of an entry that is one.
fn step(kind: &EntryKind<'_>) -> Option<StepKind> {
    let excerpt = |text: &str| Excerpt::new(text, MAX_SHOWN);
    Some(match kind {
        EntryKind::Person { text } => StepKind::Person { text: excerpt(text) },
        EntryKind::PersonAnswered { question, answer } => {
            StepKind::Answer { question: excerpt(question), text: excerpt(answer) }
        }
        EntryKind::PlanApproved { plan } => StepKind::Plan { text: excerpt(plan) },
        EntryKind::Text { text } => StepKind::Reply { text: excerpt(text) },
        EntryKind::Thinking { text } => StepKind::Thinking { text: excerpt(text) },
        EntryKind::Call { name, input, .. } => StepKind::Tool {
            name: (*name).to_owned(),
            input: Excerpt::new(input, MAX_TOOL_SHOWN),
            output: None,
        },
        EntryKind::Changed(files) => {
            StepKind::Changed { files: files.iter().map(changed).collect() }
        }
        EntryKind::Todo(items) => {
            let line = |it: &convoke_protocol::agent_event::TodoItem<'_>| TodoLine {
                text: it.text.to_string(),
                state: it.state,
            };
            StepKind::Todo { items: items.iter().take(PAGE).map(line).collect() }
        }
        EntryKind::Compacted { summary, dropped } => {
            StepKind::Compacted { text: excerpt(summary), dropped: *dropped }
        }
        EntryKind::Failed { status, message } => {
            StepKind::Failed { status: *status, text: excerpt(message) }
        }
        EntryKind::Facts(_) | EntryKind::Result { .. } | EntryKind::Request(_) => return None,
    })
}

fn changed(file: &FileChange<'_>) -> ChangedFile {
    let (mut added, mut removed, mut text) = (None, None, String::new());
    if let Some(diff) = &file.diff {
        let before = diff.before.as_deref().unwrap_or_default();
        let compared = LineDiff::new(before, &diff.after, COMPARING);
        added = Some(compared.added() as u64);
        removed = Some(compared.removed() as u64);
        text = compared.unified(AROUND);
        text.truncate(text.floor_char_boundary(MAX_SHOWN));
    }
    ChangedFile {
        path: file.path.to_string(),
        status: file.change.to_string(),
        added,
        removed,
        bytes: file.diff.as_ref().map_or(0, |diff| diff.after.len() as u64),
        diff: text,
    }
}

/// Numbers requests in the order of sending, and returns the page that ends before a number.
fn request_page(mut rows: Vec<RequestRow>, end: Option<u64>) -> RequestPage {
    rows.sort_by_key(|row| row.at.map(|at| at.0));
    let tokens = |row: &RequestRow| row.usage.map(|it| it.input.saturating_add(it.output));
    let most_tokens = rows.iter().filter_map(tokens).max().unwrap_or(0);
    for (row, number) in rows.iter_mut().zip(1..) {
        row.number = number;
    }
    let end = end.and_then(|end| usize::try_from(end.saturating_sub(1)).ok());
    rows.truncate(end.unwrap_or(usize::MAX));
    let earlier = rows.len().saturating_sub(PAGE);
    RequestPage { rows: rows.split_off(earlier), earlier: earlier as u64, most_tokens }
}

/// Finds a text of a step, whole.
pub(super) struct WholeText<'n> {
    name: &'n TextName,
    numbering: Numbering,
    call: Option<String>,
    pub(super) found: Option<String>,
}

impl<'n> WholeText<'n> {
    pub(super) fn new(name: &'n TextName) -> Self {
        Self { name, numbering: Numbering::default(), call: None, found: None }
    }
}

impl Sink for WholeText<'_> {
    fn take(&mut self, entry: Entry<'_>) -> ControlFlow<()> {
        if entry.agent != self.name.agent.as_deref() {
            return ControlFlow::Continue(());
        }
        if let EntryKind::Result { id, output, .. } = &entry.kind
            && self.call.as_deref() == Some(id)
        {
            self.found = Some((*output).to_owned());
            return ControlFlow::Break(());
        }
        if !is_step(&entry.kind) {
            return ControlFlow::Continue(());
        }
        if self.numbering.next(entry.agent, entry.at).number != self.name.number {
            return ControlFlow::Continue(());
        }
        let text = match (&entry.kind, self.name.part) {
            (EntryKind::Call { id, .. }, TextPart::Output) => {
                self.call = Some((*id).to_owned());
                return ControlFlow::Continue(());
            }
            (EntryKind::Call { input, .. }, TextPart::Input) => input,
            (EntryKind::PersonAnswered { question, .. }, TextPart::Question) => question,
            (EntryKind::PersonAnswered { answer, .. }, TextPart::Text) => answer,
            (EntryKind::PlanApproved { plan }, TextPart::Text) => plan,
            (
                EntryKind::Person { text }
                | EntryKind::Text { text }
                | EntryKind::Thinking { text }
                | EntryKind::Compacted { summary: text, .. }
                | EntryKind::Failed { message: text, .. },
                TextPart::Text,
            ) => text,
            _ => return ControlFlow::Break(()),
        };
        self.found = Some((*text).to_owned());
        ControlFlow::Break(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use convoke_protocol::window::{At, Place};

    use super::*;

    fn feed(sink: &mut dyn Sink, agent: Option<&str>, at: Option<i64>, kind: EntryKind<'_>) {
        let place = Place { file: Arc::from("a.jsonl"), at: At::Line(1) };
        let _ = sink.take(Entry { place, at: at.map(Millis), agent, kind });
    }

    fn numbers(steps: &[Step]) -> Vec<(Option<&str>, u64)> {
        steps.iter().map(|step| (step.key.agent.as_deref(), step.key.number)).collect()
    }

    #[test]
    fn pages_follow_one_another_and_hold_what_their_calls_returned() {
        let prices = OwnPrices::new();
        let read = |ends: &PageEnds| {
            let mut transcript = Transcript::new(ends, None, &prices);
            for at in 0..250_i64 {
                let id = at.to_string();
                let call = EntryKind::Call { id: &id, name: "Bash", input: "{}" };
                feed(&mut transcript, None, Some(at), call);
            }
            for at in 0..250_i64 {
                let id = at.to_string();
                let result = EntryKind::Result { id: &id, ok: true, output: &id };
                feed(&mut transcript, None, Some(at), result);
            }
            transcript.into_parts()
        };
        let (_, last, earlier, _) = read(&PageEnds::default());
        assert_eq!((last.len(), earlier, last[0].key.number), (PAGE, 50, 51));
        let ends = PageEnds { steps: Some(last[0].key.clone()), requests: None };
        let (_, first, earlier, _) = read(&ends);
        assert_eq!((first.len(), earlier, first[49].key.number), (50, 0, 50));
        for step in last.iter().chain(&first) {
            let StepKind::Tool { output: Some(output), .. } = &step.kind else {
                panic!("{step:?}")
            };
            assert_eq!(output.text.text, (step.key.number - 1).to_string());
        }
    }

    #[test]
    fn steps_of_sub_agents_stand_where_they_were_made() {
        let (ends, prices) = (PageEnds::default(), OwnPrices::new());
        let mut transcript = Transcript::new(&ends, None, &prices);
        feed(&mut transcript, None, Some(1), EntryKind::Text { text: "a" });
        feed(&mut transcript, None, None, EntryKind::Text { text: "b" });
        feed(&mut transcript, None, Some(9), EntryKind::Text { text: "d" });
        feed(&mut transcript, Some("x"), Some(5), EntryKind::Text { text: "c" });
        let (_, steps, ..) = transcript.into_parts();
        assert_eq!(numbers(&steps), [(None, 1), (None, 2), (Some("x"), 1), (None, 3)]);
    }

    #[test]
    fn a_text_is_found_whole() {
        let long = "ä".repeat(MAX_SHOWN);
        let find = |part| {
            let name = TextName { agent: None, number: 2, part };
            let mut sink = WholeText::new(&name);
            feed(&mut sink, None, None, EntryKind::Text { text: "a" });
            feed(&mut sink, Some("x"), None, EntryKind::Text { text: "b" });
            feed(&mut sink, None, None, EntryKind::Call { id: "1", name: "Read", input: "{1}" });
            feed(&mut sink, None, None, EntryKind::Result { id: "1", ok: true, output: &long });
            sink.found
        };
        assert_eq!(find(TextPart::Output).as_deref(), Some(&*long));
        assert_eq!(find(TextPart::Input).as_deref(), Some("{1}"));
        assert_eq!(find(TextPart::Text), None);
    }
}
