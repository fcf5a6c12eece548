//! The conversation of one agent of a session.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use convoke_protocol::content::ContentHash;
use convoke_protocol::id::Millis;
use convoke_protocol::window::{Part, Place, Placed, Role, Text, Window, WindowPart};
use convoke_source::history::{MAX_BYTES, MAX_PARTS};
use convoke_source::record::{count, list, text};
use convoke_wire::normal::Parts;
use serde_json::Value;

/// The beginning of the message that a summary becomes; what the program keeps of the conversation follows it.
const SUMMARIZED: &str = "Some of the conversation history has been summarized to free up context.";
const INSTRUCTIONS: &str = "You were originally given instructions from a user over one or more turns. Here were the user messages:";
const SUMMARY: &str = "Here is a summary of the prior context:";

/// What is sent as the result of a call that has none.
const INTERRUPTED: &str = "The execution of this tool, or a previous tool was interrupted.";

/// Why a window is not better known.
pub const NO_TOOL: &str =
    "a tool did not exist, and the list of tools that was sent as its result is in no file";
pub const NOTICE: &str = "where a notice of the program stands in the request is not known";
const IMAGES: &str = "where images stand in the request is not known";
pub const TRUNCATED: &str = "the program left out messages, and which is in no file";
pub const NOT_READ: &str = "an event could not be read or the conversation is too large";

/// The conversation of one agent, as its next request has it.
#[derive(Debug, Default)]
pub struct Agent {
    system: Option<Placed<Text>>,
    items: Vec<Item>,
    /// The place in the items at which a summary was asked for, and when.
    summarized_to: Option<(usize, Option<Millis>)>,
    /// The number of requests so far.
    pub requests: u64,
    /// The answer of the last request.
    pub answer_id: Option<String>,
    /// Whether a turn has begun that has no answer yet.
    pub is_waiting: bool,
    pub model: Option<String>,
    /// Whether the last answer came from the user's own provider.
    pub has_own_provider: bool,
    bytes: u64,
    parts: usize,
    missing: HashSet<&'static str>,
}

/// An event of a file.
#[derive(Debug, Clone, Copy)]
pub struct EventId {
    /// The number that stands for the event's own id.
    pub number: u64,
    pub line: u64,
}

/// A part of a conversation that came with one event.
#[derive(Debug)]
struct Item {
    event: EventId,
    kind: ItemKind,
}

#[derive(Debug)]
enum ItemKind {
    Parts(Vec<WindowPart>),
    /// A message that holds what persons wrote: one of the user, or a summary of several.
    User(Vec<WindowPart>, Vec<Box<str>>),
    /// The results of calls, in the order of the calls.
    Results(Vec<(Box<str>, Option<Vec<WindowPart>>)>),
}

impl Agent {
    /// Returns the conversation, and why it is not better known.
    ///
    /// Models of the user's own provider are given no images: the program does not know that they could see them.
    pub fn window(&self) -> (Window, Vec<&'static str>) {
        let mut parts = Vec::new();
        let interrupted = self.interrupted();
        let mut missing: Vec<&'static str> = self.missing.iter().copied().collect();
        for item in &self.items {
            match &item.kind {
                ItemKind::Parts(added) | ItemKind::User(added, _) => parts.extend_from_slice(added),
                ItemKind::Results(results) => {
                    for (_, result) in results {
                        parts.extend_from_slice(result.as_deref().unwrap_or(&interrupted));
                    }
                }
            }
        }
        let is_image = |part: &WindowPart| matches!(part.part.what, Part::Image(_));
        if self.has_own_provider {
            parts.retain(|part| !is_image(part));
        } else if parts.iter().any(is_image) {
            missing.push(IMAGES);
        }
        missing.sort_unstable();
        missing.dedup();
        (
            Window { system: self.system.iter().cloned().collect(), tools: Vec::new(), parts },
            missing,
        )
    }

    fn interrupted(&self) -> Vec<WindowPart> {
        let parts = self.items.iter().flat_map(Item::parts).last();
        let Some(last) = parts else { return Vec::new() };
        let mut parts = Parts::new(last.part.place.clone(), INTERRUPTED.len());
        parts.result(INTERRUPTED);
        parts.parts
    }

    /// Notes what is missing from now on, until the conversation begins again.
    pub fn miss(&mut self, what: &'static str) {
        self.missing.insert(what);
    }

    /// Notes that something is not missing any more.
    pub fn no_longer_misses(&mut self, what: &'static str) {
        self.missing.remove(what);
    }

    /// Replaces the system text.
    pub fn system(&mut self, system: Placed<Text>) {
        self.system = Some(system);
    }

    /// Adds a message of the user.
    pub fn user(&mut self, event: EventId, data: &Value, place: &Place, max_kept: usize) {
        let mut parts = Parts::new(place.clone(), max_kept);
        let written = text(data, "content");
        parts.text(Role::User, data["transformedContent"].as_str().unwrap_or(written));
        for attached in list(&data["attachments"]) {
            if let Some(image) = asset(attached) {
                parts.push(Role::User, image);
            }
        }
        self.push(event, ItemKind::User(parts.parts, vec![written.into()]));
    }

    /// Adds a text that the program sends in the name of the user.
    pub fn notice(&mut self, event: EventId, notice: &str, place: &Place, max_kept: usize) {
        let mut parts = Parts::new(place.clone(), max_kept);
        parts.text(Role::User, notice);
        self.push(event, ItemKind::Parts(parts.parts));
    }

    /// Adds an answer, and the places of the results of its calls.
    pub fn assistant(&mut self, event: EventId, data: &Value, place: &Place, max_kept: usize) {
        let mut parts = Parts::new(place.clone(), max_kept);
        let reasoning = text(data, "reasoningText");
        if !reasoning.is_empty() {
            parts.thinking(reasoning);
        }
        parts.text(Role::Assistant, text(data, "content"));
        let mut results = Vec::new();
        for call in list(&data["toolRequests"]) {
            match &call["arguments"] {
                Value::String(input) if call["type"] != "custom" => {
                    parts.call_of_text(text(call, "name"), input);
                }
                Value::Null => parts.call_of_text(text(call, "name"), ""),
                input => parts.call(text(call, "name"), input),
            }
            results.push((text(call, "toolCallId").into(), None));
        }
        self.push(event, ItemKind::Parts(parts.parts));
        if !results.is_empty() {
            self.push(event, ItemKind::Results(results));
        }
    }

    /// Adds the result of a call.
    pub fn result(&mut self, data: &Value, place: &Place, max_kept: usize) {
        let mut parts = Parts::new(place.clone(), max_kept);
        let error = text(&data["error"], "message");
        match data["result"]["content"].as_str() {
            Some(content) => parts.result(content),
            None => parts.result(error),
        }
        if error.starts_with("Tool '") && error.ends_with("does not exist.") {
            self.miss(NO_TOOL);
        }
        for binary in list(&data["result"]["binaryResultsForLlm"]) {
            match (binary["data"].as_str(), asset(binary)) {
                (Some(data), _) => parts.image(Role::Tool, data),
                (_, Some(image)) => parts.push(Role::Tool, image),
                _ => {}
            }
        }
        let id = text(data, "toolCallId");
        let results = self.items.iter_mut().rev().filter_map(|item| match &mut item.kind {
            ItemKind::Results(results) => Some(results),
            _ => None,
        });
        // A result comes soon after its call.
        let place = results.take(MAX_OPEN).flatten().find(|(call, _)| **call == *id);
        if let Some((_, result)) = place {
            self.parts += parts.parts.len();
            self.bytes += parts.parts.iter().map(kept).sum::<u64>();
            *result = Some(parts.parts);
        }
    }

    /// Notes that a summary of what is there now was asked for.
    pub fn begin_summary(&mut self, at: Option<Millis>) {
        self.summarized_to = Some((self.items.len(), at));
    }

    /// Returns when the summary was asked for.
    pub fn summary_began_at(&self) -> Option<Millis> {
        self.summarized_to.and_then(|(_, at)| at)
    }

    /// Puts a summary in the place of what it was made of, and returns the number of parts that it replaced.
    pub fn summarize(
        &mut self,
        event: EventId,
        summary: &str,
        place: &Place,
        max_kept: usize,
    ) -> u64 {
        let to = self.summarized_to.take().map_or(self.items.len(), |(to, _)| to);
        let to = to.min(self.items.len());
        let removed: Vec<Item> = self.items.drain(..to).collect();
        let dropped = removed.iter().map(|item| item.parts().count() as u64).sum();
        let written = removed.into_iter().flat_map(|item| match item.kind {
            ItemKind::User(_, written) => written,
            _ => Vec::new(),
        });
        let written: Vec<Box<str>> = written.collect();
        let mut message = format!("{SUMMARIZED}\n\n{INSTRUCTIONS}\n");
        for written in &written {
            message.extend(["<user_message>\n", written, "\n</user_message>\n"]);
        }
        message.extend(["\n", SUMMARY, "\n<summary>\n", summary, "\n</summary>\n"]);
        let mut parts = Parts::new(place.clone(), max_kept);
        parts.text(Role::User, &message);
        self.items.insert(0, Item { event, kind: ItemKind::User(parts.parts, written) });
        self.missing.clear();
        self.measure();
        dropped
    }

    /// Removes all messages.
    pub fn clear(&mut self) {
        self.items.clear();
        self.missing.clear();
        self.summarized_to = None;
        self.measure();
    }

    /// Removes what came with these events.
    fn remove(&mut self, is_removed: impl Fn(EventId) -> bool) {
        self.items.retain(|item| !is_removed(item.event));
        self.summarized_to = None;
        self.measure();
    }

    fn push(&mut self, event: EventId, kind: ItemKind) {
        let item = Item { event, kind };
        self.parts += 1 + item.parts().count();
        self.bytes += item.bytes();
        self.items.push(item);
    }

    fn measure(&mut self) {
        let parts = self.items.iter().flat_map(Item::parts).count();
        self.bytes = self.items.iter().map(Item::bytes).sum();
        self.parts = self.items.len() + parts;
    }
}

impl Item {
    fn bytes(&self) -> u64 {
        let written = match &self.kind {
            ItemKind::User(_, written) => written.iter().map(|text| text.len() as u64).sum(),
            _ => 0,
        };
        self.parts().map(kept).sum::<u64>() + written
    }

    fn parts(&self) -> Box<dyn Iterator<Item = &WindowPart> + '_> {
        match &self.kind {
            ItemKind::Parts(parts) | ItemKind::User(parts, _) => Box::new(parts.iter()),
            ItemKind::Results(results) => {
                Box::new(results.iter().filter_map(|(_, result)| result.as_ref()).flatten())
            }
        }
    }
}

fn kept(part: &WindowPart) -> u64 {
    let text = match &part.part.what {
        Part::Text(it) | Part::Result(it) | Part::Thinking(it) | Part::Image(it) => {
            it.text.as_ref().map_or(0, |text| text.len())
        }
        Part::Call { name, input } => name.len() + input.len(),
    };
    (text + size_of::<Part>()) as u64
}

/// Returns an image or a document that is stored elsewhere in the file, under the hash of its bytes.
fn asset(attached: &Value) -> Option<Part> {
    let hash = text(attached, "assetId").strip_prefix("sha256:")?.parse::<ContentHash>().ok()?;
    Some(Part::Image(Text { hash, bytes: count(&attached["byteLength"]), text: None }))
}

/// The agents of a session, by id.
#[derive(Debug, Default)]
pub struct Agents {
    agents: HashMap<Option<Arc<str>>, Agent>,
    rewinds: u32,
}

/// The maximum number of answers whose calls may still have no result.
const MAX_OPEN: usize = 1000;
/// The maximum number of rewinds of a session.
const MAX_REWINDS: u32 = 10_000;
/// The maximum number of agents whose conversations are kept.
const MAX_AGENTS: usize = 1000;

impl Agents {
    /// Returns an agent; `None` if there are too many.
    pub fn get(&mut self, id: Option<&str>) -> Option<&mut Agent> {
        let is_known =
            self.agents.len() < MAX_AGENTS || self.agents.contains_key(&id.map(Arc::from));
        is_known.then(|| self.agents.entry(id.map(Arc::from)).or_default())
    }

    /// Returns the ids of the agents whose turn has no answer yet.
    pub fn waiting(&self) -> Vec<Option<Arc<str>>> {
        let waiting = self.agents.iter().filter(|(_, agent)| agent.is_waiting);
        waiting.map(|(id, _)| id.clone()).collect()
    }

    /// Forgets the conversation of an agent that has become too large for all of them together.
    pub fn limit(&mut self, id: Option<&str>) {
        let bytes: u64 = self.agents.values().map(|agent| agent.bytes).sum();
        let parts: usize = self.agents.values().map(|agent| agent.parts).sum();
        let is_too_large = bytes > MAX_BYTES as u64 || parts > MAX_PARTS;
        if let Some(agent) = self.agents.get_mut(&id.map(Arc::from)).filter(|_| is_too_large) {
            agent.clear();
            agent.miss(NOT_READ);
        }
    }

    /// Notes for all agents that something could not be read.
    pub fn miss(&mut self, what: &'static str) {
        self.agents.values_mut().for_each(|agent| agent.miss(what));
    }

    /// Counts a rewind, which looks at all events; after too many, windows are not known.
    fn may_rewind(&mut self) -> bool {
        self.rewinds += 1;
        if self.rewinds > MAX_REWINDS {
            self.rewinds = MAX_REWINDS;
            self.miss(TRUNCATED);
            return false;
        }
        true
    }

    /// Removes what came with some events.
    pub fn remove(&mut self, numbers: &HashSet<u64>) {
        if !self.may_rewind() {
            return;
        }
        self.agents.values_mut().for_each(|agent| agent.remove(|it| numbers.contains(&it.number)));
    }

    /// Removes what came with an event and all later ones.
    pub fn remove_from(&mut self, number: u64) {
        if !self.may_rewind() {
            return;
        }
        let events = self.agents.values().flat_map(|agent| agent.items.iter().map(|it| it.event));
        let first = events.filter(|event| event.number == number).map(|event| event.line).min();
        match first {
            Some(first) => {
                self.agents.values_mut().for_each(|agent| agent.remove(|it| it.line >= first));
            }
            None => self.miss(TRUNCATED),
        }
    }
}
