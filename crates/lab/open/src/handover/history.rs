//! What a session tells, collected in bounded memory.

use std::collections::HashMap;
use std::ops::ControlFlow;

use convoke_protocol::agent_event::{FileChange, TodoItem, TodoState};
use convoke_protocol::id::Millis;
use convoke_protocol::window::Place;
use convoke_redact::Redactor;
use convoke_source::{Entry, EntryKind, Facts, Sink};

use super::clean::held;
use super::earlier::{self, Earlier};
use super::edits::Edit;
use super::item::{Body, Count, Item, Items, Kind};
use super::{BYTES_PER_TOKEN, Tokens};

/// The minimum size of the items of one kind that are held, in bytes.
const MIN_HELD: usize = 256 << 10;
/// The maximum size of the items of one kind that are held, in bytes.
const MAX_HELD: usize = 4 << 20;
/// The maximum number of calls without a result, and of sub-agents, that are remembered by their ids.
const MAX_IDS: usize = 10_000;
/// The maximum number of characters of the input of a tool call.
const MAX_INPUT: usize = 400;
/// The heading of the to-do list.
const TODO: &str = "To-do list";

/// What a session tells, as far as a handover may need it: a [`Sink`] for its entries.
///
/// Memory is bounded whatever the length of the session: of each kind, the newest items are held, and of the person's
/// messages the first one too. The others are counted.
#[derive(Debug)]
pub struct History {
    /// The name of the session: `claude:3f2a`.
    pub(super) name: String,
    /// The names of the sessions that the first handover of this session was written from.
    pub(super) earlier: Option<String>,
    pub(super) model: Option<String>,
    pub(super) branch: Option<String>,
    pub(super) cwd: Option<String>,
    pub(super) began_at: Option<Millis>,
    kinds: [Items; Kind::ALL.len()],
    /// The agent's reasoning, which is never handed over.
    pub(super) reasoning: Count,
    /// What sub-agents said and did before their results.
    pub(super) sub_agent_steps: Count,
    /// The number of the person's messages.
    messages: u64,
    /// The author of the agent's texts, if there are several.
    author: Option<String>,
    /// The calls whose results are not known yet, by id.
    calls: HashMap<String, usize>,
    sub_agents: HashMap<String, usize>,
    /// The last to-do list.
    pub(super) todo: Option<Item>,
    max_held: usize,
    redactor: Redactor,
}

impl History {
    /// Creates an empty history for a handover with a budget.
    pub fn new(name: impl Into<String>, budget: Tokens, redactor: &Redactor) -> Self {
        let bytes = usize::try_from(budget.0.saturating_mul(BYTES_PER_TOKEN)).unwrap_or(MAX_HELD);
        Self {
            name: name.into(),
            earlier: None,
            model: None,
            branch: None,
            cwd: None,
            began_at: None,
            kinds: Default::default(),
            reasoning: Count::default(),
            sub_agent_steps: Count::default(),
            messages: 0,
            author: None,
            calls: HashMap::new(),
            sub_agents: HashMap::new(),
            todo: None,
            max_held: bytes.saturating_mul(2).clamp(MIN_HELD, MAX_HELD),
            redactor: redactor.clone(),
        }
    }

    /// Names the author of the texts that follow, for a conversation of several agents.
    pub fn set_author(&mut self, author: Option<&str>) {
        self.author = author.map(str::to_owned);
    }

    /// Returns the working directory, if the session tells it.
    pub fn directory(&self) -> Option<&str> {
        self.cwd.as_deref()
    }

    /// Returns whether nothing was said or done.
    pub fn is_empty(&self) -> bool {
        self.todo.is_none() && self.kinds.iter().all(|items| items.total() == 0)
    }

    pub(super) fn redactor(&self) -> &Redactor {
        &self.redactor
    }

    pub(super) fn items(&self, kind: Kind) -> &Items {
        &self.kinds[kind as usize]
    }

    fn items_mut(&mut self, kind: Kind) -> &mut Items {
        &mut self.kinds[kind as usize]
    }

    fn push(&mut self, kind: Kind, item: Item) -> usize {
        let (max, pinned) = (self.max_held, usize::from(kind == Kind::Person));
        self.items_mut(kind).push(item, max, pinned)
    }

    fn push_text(&mut self, kind: Kind, place: Place, heading: String, text: &str) -> usize {
        let (text, lost) = held(text, &self.redactor);
        self.push(kind, Item { place, heading, body: Body::Text(text), lost })
    }

    /// Adds a message of the person. The first one may be a handover itself: then what it hands over comes first.
    fn add_message(&mut self, place: Place, text: &str) {
        let earlier = if self.messages == 0 { earlier::read(text) } else { None };
        let Some(earlier) = earlier else {
            self.messages += 1;
            let heading = format!("Message {}", self.messages);
            self.push_text(Kind::Person, place, heading, text);
            return;
        };
        let Earlier { message, from, items, left_out } = earlier;
        self.earlier = Some(from.to_owned());
        for (kind, heading, text) in items {
            if let Some(number) = heading.strip_prefix("Message ") {
                let number: u64 = number.parse().unwrap_or_default();
                self.messages = self.messages.max(number);
            }
            if heading == TODO {
                let (text, lost) = held(&text, &self.redactor);
                let place = place.clone();
                self.todo = Some(Item { place, heading, body: Body::Text(text), lost });
                continue;
            }
            self.push_text(kind, place.clone(), heading, &text);
        }
        for (kind, items) in left_out {
            self.items_mut(kind).forgotten.items += items;
        }
        self.messages = self.messages.max(self.items(Kind::Person).total());
        if !message.is_empty() {
            self.messages += 1;
            let heading = format!("Message {}", self.messages);
            self.push_text(Kind::Person, place, heading, message);
        }
    }

    /// Returns the heading of what followed the person's last message.
    fn after_message(&self, what: &str) -> String {
        let author = self.author.as_deref().map_or_else(String::new, |it| format!(", by {it}"));
        match self.messages {
            0 => format!("Before the first message{author}{what}"),
            number => format!("After message {number}{author}{what}"),
        }
    }

    fn add_call(&mut self, place: Place, id: &str, name: &str, input: &str) {
        let input = held(input, &self.redactor).0;
        let input = self.redactor.redact(&input);
        let input = super::clean::one_line(&input, MAX_INPUT);
        let heading = self.after_message("");
        let body = Body::Call { name: name.to_owned(), input, output: None };
        let number = self.push(Kind::Result, Item { place, heading, body, lost: 0 });
        if self.calls.len() >= MAX_IDS {
            self.calls.clear();
        }
        self.calls.insert(id.to_owned(), number);
    }

    fn add_result(&mut self, id: &str, ok: bool, text: &str) {
        let Some(number) = self.calls.remove(id) else { return };
        let (text, lost) = held(text, &self.redactor);
        self.items_mut(Kind::Result).change(number, |item| {
            if let Body::Call { output, .. } = &mut item.body {
                *output = Some((ok, text));
            }
            item.lost += lost;
        });
    }

    fn add_edits(&mut self, place: &Place, changes: &[FileChange<'_>]) {
        for change in changes {
            let mut edit = Edit::of(change);
            let bytes = edit.bytes();
            let is_held = bytes <= super::clean::MAX_TEXT;
            if !is_held {
                edit.texts = None;
            }
            let lost = if is_held { 0 } else { bytes as u64 };
            let item =
                Item { place: place.clone(), heading: String::new(), body: Body::Edit(edit), lost };
            self.push(Kind::Edit, item);
        }
    }

    fn set_todo(&mut self, place: Place, todo: &[TodoItem<'_>]) {
        let line = |item: &TodoItem<'_>| {
            let mark = match item.state {
                TodoState::Completed => "done",
                TodoState::InProgress => "in progress",
                TodoState::Pending => "to do",
                TodoState::Cancelled => "abandoned",
            };
            format!("[{mark}] {}", item.text)
        };
        let text = todo.iter().map(line).collect::<Vec<_>>().join("\n");
        let (text, lost) = held(&text, &self.redactor);
        // The list is always whole, so only the last one counts.
        self.todo = Some(Item { place, heading: TODO.to_owned(), body: Body::Text(text), lost });
    }

    /// Replaces what the agent said and did by a summary of it.
    fn compact(&mut self, place: Place, summary: &str) {
        if summary.trim().is_empty() {
            return;
        }
        for kind in [Kind::Summary, Kind::Exchange, Kind::Result, Kind::SubAgent] {
            self.items_mut(kind).replace();
        }
        self.calls.clear();
        self.sub_agents.clear();
        let heading = match self.messages {
            0 => "Of what came before the first message".to_owned(),
            1 => "Up to message 1".to_owned(),
            number => format!("Up to message {number}"),
        };
        self.push_text(Kind::Summary, place, heading, summary);
    }

    /// Adds what a sub-agent did: its last text is its result.
    fn add_sub_agent(&mut self, agent: &str, place: Place, kind: &EntryKind<'_>) {
        let bytes = match kind {
            EntryKind::Text { text } => {
                let (text, lost) = held(text, &self.redactor);
                if let Some(number) = self.sub_agents.get(agent).copied() {
                    let steps = &mut self.sub_agent_steps;
                    self.kinds[Kind::SubAgent as usize].change(number, |item| {
                        steps.add(item.bytes() as u64);
                        *item = Item {
                            place,
                            heading: std::mem::take(&mut item.heading),
                            body: Body::Text(text),
                            lost,
                        };
                    });
                    return;
                }
                if self.sub_agents.len() >= MAX_IDS {
                    self.sub_agents.clear();
                }
                let heading = format!("Sub-agent {}", self.items(Kind::SubAgent).total() + 1);
                let item = Item { place, heading, body: Body::Text(text), lost };
                let number = self.push(Kind::SubAgent, item);
                self.sub_agents.insert(agent.to_owned(), number);
                return;
            }
            EntryKind::Changed(changes) => return self.add_edits(&place, changes),
            EntryKind::Person { text } => text.len(),
            EntryKind::Thinking { text } => {
                return self.reasoning.add(text.len() as u64);
            }
            EntryKind::Call { input, .. } => input.len(),
            // A call and its result are one step.
            _ => return,
        };
        self.sub_agent_steps.add(bytes as u64);
    }

    fn add_facts(&mut self, facts: &Facts<'_>) {
        let set = |to: &mut Option<String>, value: Option<&str>| {
            if let Some(value) = value {
                *to = Some(value.to_owned());
            }
        };
        if self.cwd.is_none() {
            set(&mut self.cwd, facts.cwd);
        }
        set(&mut self.model, facts.model);
        set(&mut self.branch, facts.branch);
    }
}

impl Sink for History {
    fn take(&mut self, entry: Entry<'_>) -> ControlFlow<()> {
        let Entry { place, at, agent, kind } = entry;
        self.began_at = self.began_at.or(at);
        if let Some(agent) = agent {
            self.add_sub_agent(agent, place, &kind);
            return ControlFlow::Continue(());
        }
        match kind {
            EntryKind::Facts(facts) => self.add_facts(&facts),
            EntryKind::Person { text } => self.add_message(place, text),
            EntryKind::PersonAnswered { question, answer } => {
                let heading = self.after_message("");
                let text = format!("Question: {question}\nAnswer: {answer}");
                self.push_text(Kind::Answer, place, heading, &text);
            }
            EntryKind::PlanApproved { plan } => {
                self.push_text(Kind::Plan, place, "Plan, approved by the person".into(), plan);
            }
            EntryKind::Text { text } => {
                let heading = self.after_message("");
                self.push_text(Kind::Exchange, place, heading, text);
            }
            EntryKind::Thinking { text } => self.reasoning.add(text.len() as u64),
            EntryKind::Call { id, name, input } => self.add_call(place, id, name, input),
            EntryKind::Result { id, ok, output } => self.add_result(id, ok, output),
            EntryKind::Changed(changes) => self.add_edits(&place, &changes),
            EntryKind::Todo(todo) => self.set_todo(place, &todo),
            EntryKind::Compacted { summary, .. } => self.compact(place, summary),
            EntryKind::Failed { message, .. } => {
                let heading = self.after_message(": a failure");
                self.push_text(Kind::Exchange, place, heading, message);
            }
            EntryKind::Request(request) => {
                if let Some(model) = request.model {
                    self.model = Some(model.to_owned());
                }
            }
        }
        ControlFlow::Continue(())
    }
}
