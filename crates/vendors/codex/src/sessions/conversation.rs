//! The conversation that the program would send next, item by item.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ops::Range;
use std::sync::Arc;

use convoke_core::Millis;
use convoke_protocol::content::ContentHash;
use convoke_protocol::window::{Part, Placed, Role, Text, Window, WindowPart};
use convoke_source::history::{History, MAX_PARTS};
use convoke_wire::normal::Parts;

use super::item::Kind;

/// The output that the program sends for a call that has none.
const NO_OUTPUT: &str = "aborted";
/// The size of the messages of a person that a compaction keeps, in bytes: 20,000 tokens, as the program estimates them.
const MAX_KEPT_MESSAGES: u64 = 80_000;

/// The conversation that the program would send next.
#[derive(Debug, Default)]
pub(super) struct Conversation {
    history: History,
    items: Vec<Entered>,
    /// The calls without an output, and their items.
    open: HashMap<Box<str>, usize>,
    /// The system text and the tools, where they are items. Its parts are those of the history while it is lent.
    window: Window,
    has_tools: bool,
    /// The model for which the tools were written as an item, and whether the present one has them so.
    family: Option<Family>,
    is_other_family: bool,
    /// The number of items that the last request and its answer had.
    answered: usize,
    /// The number of items when the last attempt failed.
    attempted: usize,
    /// The end of the request of that attempt.
    attempt_end: usize,
    /// The number of parts before the first item: the system text of another family's.
    first: usize,
    /// The number of items of the context before a summary, if the program rebuilds it when the session is resumed.
    rebuilt: usize,
    /// Why the conversation is not complete.
    pub incomplete: Option<&'static str>,
}

/// A model, and what tells its family.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Family {
    pub name: String,
    pub hash: Option<String>,
}

/// An item of the conversation.
#[derive(Debug)]
struct Entered {
    kind: Kind,
    /// Its first part.
    start: usize,
    call: Option<Box<str>>,
    at: Option<Millis>,
    /// Whether the program was interrupted while a tool ran, of which this is the result.
    is_aborted: bool,
    /// Whether the program adds it only to what it sends.
    is_added: bool,
    /// Whether it tells the model that it took over from another.
    is_switch: bool,
}

/// An item that is added.
pub(super) struct NewItem {
    pub kind: Kind,
    pub role_is_developer: bool,
    pub parts: Parts,
    pub tools: Vec<String>,
    pub call: Option<Box<str>>,
    pub at: Option<Millis>,
    pub is_aborted: bool,
    pub is_switch: bool,
}

impl Conversation {
    /// Adds an item.
    pub(super) fn push(&mut self, item: NewItem) {
        let NewItem { kind, parts, call, at, is_aborted, is_switch, .. } = item;
        if kind == Kind::Person {
            self.renew_context();
        }
        if kind == Kind::Tools {
            if !self.has_tools {
                self.window.system.clear();
            }
            self.has_tools = true;
            self.window.tools.extend(item.tools);
        }
        if kind == Kind::Output {
            let id = call.as_deref().unwrap_or_default();
            if self.open.remove(id).is_none() {
                self.remove_added_output(id);
            }
        }
        let is_system = self.has_tools && self.window.system.is_empty() && item.role_is_developer;
        let start = self.history.parts().len();
        if is_system && start == 0 {
            let texts = parts.parts.into_iter().filter_map(|part| match &part.part.what {
                Part::Text(text) => {
                    Some(Placed { what: text.clone(), place: part.part.place.clone() })
                }
                _ => None,
            });
            self.window.system = texts.collect();
        } else {
            let added = parts.parts.len();
            self.history.extend(parts.parts);
            if self.history.parts().len() != start + added || self.items.len() >= MAX_PARTS {
                self.forget();
                return;
            }
        }
        if kind == Kind::Call
            && let Some(id) = &call
        {
            self.open.insert(id.clone(), self.items.len());
        }
        self.items.push(Entered { kind, start, call, at, is_aborted, is_added: false, is_switch });
    }

    /// Notes the model of the requests that follow. One of another family has a system text of its own before all items.
    pub(super) fn set_model(&mut self, model: &Family) {
        if !self.has_tools {
            return;
        }
        let family = self.family.get_or_insert_with(|| model.clone());
        let is_hash = model.hash.is_some() && model.hash == family.hash;
        let is_other = !is_hash && model.name != family.name;
        if std::mem::replace(&mut self.is_other_family, is_other) == is_other {
            return;
        }
        let first = std::mem::take(&mut self.first);
        let rest = self.history.parts().get(first..).unwrap_or_default().to_vec();
        let system = self.window.system.iter().map(|text| {
            let part = Placed { what: Part::Text(text.what.clone()), place: text.place.clone() };
            WindowPart { role: Role::Developer, part: Arc::new(part) }
        });
        let system: Vec<WindowPart> = if is_other { system.collect() } else { Vec::new() };
        self.first = system.len();
        let added = self.first;
        self.items.iter_mut().for_each(|item| item.start = item.start - first + added);
        self.history.truncate(0);
        self.history.extend(system.into_iter().chain(rest));
    }

    /// Forgets everything, because it is more than any window holds.
    fn forget(&mut self) {
        let kept = std::mem::take(&mut self.window);
        *self = Self { window: kept, has_tools: self.has_tools, ..Self::default() };
        self.incomplete = Some("the conversation is too large to be kept");
    }

    /// Removes everything.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Returns the number of items.
    pub(super) fn len(&self) -> usize {
        self.items.len()
    }

    /// Returns the number of parts.
    pub(super) fn parts(&self) -> &[WindowPart] {
        self.history.parts()
    }

    /// Returns whether the tools are items of the conversation.
    pub(super) const fn has_tools(&self) -> bool {
        self.has_tools && !self.is_other_family
    }

    /// Marks all items as those of the last request and its answer.
    pub(super) fn answer(&mut self) {
        self.answered = self.items.len();
    }

    /// Marks all items as those of an attempt that failed. The next one sends them too.
    pub(super) fn attempt(&mut self) {
        self.attempt_end = self.request_end();
        self.attempted = self.items.len();
    }

    /// Returns the end of the last attempt, if all of them failed.
    pub(super) fn failed_end(&self) -> usize {
        let later = self.items.get(self.attempted..).unwrap_or_default();
        let is_last = later.iter().all(|item| item.kind == Kind::Aborted);
        if is_last && self.attempted > self.answered {
            self.attempt_end
        } else {
            self.request_end()
        }
    }

    /// Returns the end of the last request: before what the model wrote since the one before.
    pub(super) fn request_end(&self) -> usize {
        let earlier = self.answered.max(self.attempted).min(self.items.len());
        let is_answer = |item: &&Entered| item.kind.is_of_model() || item.kind == Kind::Aborted;
        let answer = self.items[earlier..].iter().rev().take_while(is_answer).count();
        self.items.len() - answer
    }

    /// Returns whether there is something that the model has not answered and that makes the program ask it.
    pub(super) fn is_unanswered(&self) -> bool {
        let new = &self.items[self.answered.min(self.items.len())..];
        let asks = |item: &Entered| matches!(item.kind, Kind::Person | Kind::Agent | Kind::Output);
        new.iter().any(asks) && !new.iter().any(|item| item.is_aborted)
    }

    /// Returns whether the last item is of an answer of which the end is not noted.
    pub(super) fn has_begun_answer(&self) -> bool {
        self.items.len() > self.answered
            && self.items.last().is_some_and(|item| item.kind.is_of_model())
    }

    /// Returns whether the model wrote something since the last answer.
    pub(super) fn has_answer(&self) -> bool {
        let new = &self.items[self.answered.min(self.items.len())..];
        new.iter().any(|item| item.kind.is_of_model())
    }

    /// Returns the time of the last item before an end.
    pub(super) fn time(&self, end: usize) -> Option<Millis> {
        self.items[..end.min(self.items.len())].iter().rev().find_map(|item| item.at)
    }

    /// Lends the window of a request that has the items before an end.
    pub(super) fn lend<T>(
        &mut self,
        end: usize,
        base: Option<Placed<Text>>,
        used: impl FnOnce(&Window) -> T,
    ) -> T {
        if !self.has_tools {
            self.window.system = base.into_iter().collect();
        }
        let hidden = self.is_other_family.then(|| std::mem::take(&mut self.window.system));
        let end = self.add_outputs(end.min(self.items.len()));
        let parts = self.items.get(end).map_or(self.history.parts().len(), |item| item.start);
        let used = self.history.lend(parts, &mut self.window, used);
        self.window.system = hidden.unwrap_or_else(|| std::mem::take(&mut self.window.system));
        used
    }

    /// Adds an output behind each call before an end that has none. Returns the end behind them.
    fn add_outputs(&mut self, mut end: usize) -> usize {
        let mut open: Vec<usize> = self.open.values().copied().filter(|call| *call < end).collect();
        open.sort_unstable_by(|one, other| other.cmp(one));
        for call in open {
            let Some(id) = self.items[call].call.clone() else { continue };
            self.open.remove(&id);
            self.insert_output(call + 1, id);
            end += 1;
        }
        end
    }

    fn insert_output(&mut self, index: usize, id: Box<str>) {
        let start = self.items.get(index).map_or(self.history.parts().len(), |item| item.start);
        let Some(before) = start.checked_sub(1).and_then(|it| self.history.parts().get(it)) else {
            return;
        };
        let mut parts = Parts::new(before.part.place.clone(), NO_OUTPUT.len());
        parts.result(NO_OUTPUT);
        let rest = self.history.parts()[start..].to_vec();
        self.history.truncate(start);
        self.history.extend(parts.parts.into_iter().chain(rest));
        self.items[index..].iter_mut().for_each(|item| item.start += 1);
        self.open.values_mut().filter(|call| **call >= index).for_each(|call| *call += 1);
        let at = self.items[index - 1].at;
        let added = Entered {
            kind: Kind::Output,
            start,
            call: Some(id),
            at,
            is_aborted: false,
            is_added: true,
            is_switch: false,
        };
        self.items.insert(index, added);
        self.answered += usize::from(self.answered >= index);
        self.attempted += usize::from(self.attempted >= index);
        self.attempt_end += usize::from(self.attempt_end >= index);
    }

    /// Removes the output that was added for a call, because its own came after all.
    fn remove_added_output(&mut self, id: &str) {
        let is_it = |item: &Entered| item.is_added && item.call.as_deref() == Some(id);
        let Some(index) = self.items.iter().position(is_it) else { return };
        let start = self.items[index].start;
        let rest = self.history.parts().get(start + 1..).unwrap_or_default().to_vec();
        self.history.truncate(start);
        self.history.extend(rest);
        self.items.remove(index);
        self.items[index..].iter_mut().for_each(|item| item.start -= 1);
        self.open.values_mut().filter(|call| **call > index).for_each(|call| *call -= 1);
        self.answered -= usize::from(self.answered > index);
        self.attempted -= usize::from(self.attempted > index);
        self.attempt_end -= usize::from(self.attempt_end > index);
    }

    /// Keeps what older versions keep at a compaction: the context, what the person wrote, and the summary.
    pub(super) fn compact(&mut self, summary: Parts, at: Option<Millis>) {
        let context = self.last_context(self.items.len());
        let is_later = |index: usize| index >= context.end && self.is_context(index);
        let mut is_exact = !context.is_empty() && !(0..self.items.len()).any(is_later);
        let persons = (0..self.items.len()).filter(|it| self.items[*it].kind == Kind::Person);
        let mut kept: Vec<(Kind, Option<Millis>, Vec<WindowPart>)> = Vec::new();
        let mut bytes = 0;
        for index in context.filter(|index| !self.is_switch(*index)).chain(persons) {
            let (item, parts) = (&self.items[index], self.parts_of(index).to_vec());
            if item.kind == Kind::Person {
                bytes += parts.iter().map(|part| part.part.what.bytes()).sum::<u64>();
                is_exact &= parts.len() == 1 && matches!(parts[0].part.what, Part::Text(_));
            }
            kept.push((item.kind, item.at, parts));
        }
        is_exact &= bytes <= MAX_KEPT_MESSAGES;
        kept.push((Kind::Summary, at, summary.parts));
        let incomplete = self.incomplete;
        self.clear();
        self.incomplete = incomplete;
        if !is_exact {
            self.incomplete = Some("the compaction cut messages, and no file tells how");
        }
        self.rebuilt = kept.iter().take_while(|it| it.0 == Kind::Context).count();
        for (kind, at, parts) in kept {
            self.push_kept(kind, at, parts);
        }
    }

    fn push_kept(&mut self, kind: Kind, at: Option<Millis>, parts: Vec<WindowPart>) {
        let start = self.history.parts().len();
        self.history.extend(parts);
        self.items.push(Entered {
            kind,
            start,
            call: None,
            at,
            is_aborted: false,
            is_added: false,
            is_switch: false,
        });
    }

    /// Puts the newest context before a summary that an older version rebuilds when the session is resumed.
    fn renew_context(&mut self) {
        if self.rebuilt == 0 {
            return;
        }
        let context = self.last_context(self.items.len());
        let is_whole = context.len() >= self.rebuilt && context.end == self.items.len();
        if context.start < self.rebuilt || !is_whole {
            return;
        }
        let new: Vec<_> = context.filter(|index| !self.is_switch(*index)).collect();
        let new: Vec<_> = new
            .into_iter()
            .map(|index| (self.items[index].at, self.parts_of(index).to_vec()))
            .collect();
        let first = self.items.get(self.rebuilt).map_or(0, |item| item.start);
        let rest = self.history.parts()[first..].to_vec();
        let items = self.items.split_off(self.rebuilt);
        let before = self.items.len();
        self.items.clear();
        self.history.truncate(0);
        self.rebuilt = new.len();
        for (at, parts) in new {
            self.push_kept(Kind::Context, at, parts);
        }
        let (moved, start) = (self.items.len(), self.history.parts().len());
        self.history.extend(rest);
        self.items.extend(items.into_iter().map(|item| {
            let item_start = item.start - first + start;
            Entered { start: item_start, ..item }
        }));
        self.answered = self.answered - before.min(self.answered) + moved;
        self.attempted = 0;
        self.open.values_mut().for_each(|call| *call = *call - before + moved);
    }

    /// Returns the items of the last context before an end that describes the whole environment.
    fn last_context(&self, end: usize) -> Range<usize> {
        let starts_with = |index: usize, start: &str| {
            self.parts_of(index).iter().any(|part| match &part.part.what {
                Part::Text(text) => text.text.as_deref().is_some_and(|it| it.starts_with(start)),
                _ => false,
            })
        };
        let last = (0..end).rev().find(|it| starts_with(*it, "<environment_context>"));
        let Some(last) = last else { return 0..0 };
        let start = (0..last).rev().take_while(|it| self.is_context(*it)).count();
        let more = (last + 1..end).take_while(|it| self.is_context(*it)).count();
        last - start..last + 1 + more
    }

    fn is_context(&self, index: usize) -> bool {
        self.items[index].kind == Kind::Context
    }

    /// Returns whether an item tells the model that it took over from another, which is no part of the context.
    fn is_switch(&self, index: usize) -> bool {
        self.items[index].is_switch
    }

    fn parts_of(&self, index: usize) -> &[WindowPart] {
        let parts = self.history.parts();
        let end = self.items.get(index + 1).map_or(parts.len(), |item| item.start);
        &parts[self.items[index].start..end]
    }

    /// Removes the last turns, and what the program wrote before them if it does that.
    pub(super) fn roll_back(&mut self, turns: u64, removes_context: bool) {
        let is_turn = |item: &Entered| matches!(item.kind, Kind::Person | Kind::Agent);
        let turns = usize::try_from(turns).unwrap_or(usize::MAX);
        let starts: Vec<usize> =
            (0..self.items.len()).filter(|index| is_turn(&self.items[*index])).collect();
        let Some(first) = starts.first().copied().filter(|_| turns > 0) else { return };
        let mut end = starts.len().checked_sub(turns).map_or(first, |index| starts[index]);
        while removes_context
            && end > first
            && matches!(self.items[end - 1].kind, Kind::Context | Kind::Aborted)
        {
            end -= 1;
        }
        let parts = self.items[end].start;
        self.history.truncate(parts);
        self.items.truncate(end);
        self.open.retain(|_, call| *call < end);
        self.answered = self.items.len();
        self.attempted = 0;
    }

    /// Returns the number of parts that another conversation no longer has.
    pub(super) fn dropped_since(&self, earlier: &[WindowPart]) -> u64 {
        let mut kept: HashMap<(Role, ContentHash), u64> = HashMap::new();
        for part in self.parts() {
            *kept.entry(key(part)).or_default() += 1;
        }
        let mut dropped = 0;
        for part in earlier {
            match kept.entry(key(part)) {
                Entry::Occupied(mut left) if *left.get() > 0 => *left.get_mut() -= 1,
                _ => dropped += 1,
            }
        }
        dropped
    }
}

/// Returns what two equal parts have in common.
fn key(part: &WindowPart) -> (Role, ContentHash) {
    let key = match &part.part.what {
        Part::Text(it) | Part::Result(it) | Part::Thinking(it) | Part::Image(it) => it.hash,
        Part::Call { name, input } => ContentHash::new(&format!("{name} {input}")),
    };
    (part.role, key)
}
