//! The messages of a session, and what the program sends of them.

use std::collections::HashSet;
use std::sync::Arc;

use convoke_protocol::id::Millis;
use convoke_protocol::window::{Part, Placed, Role, Text, WindowPart};
use convoke_source::history::{MAX_BYTES, MAX_PARTS};
use convoke_source::record::{list, text, time};
use convoke_wire::normal::Parts;
use serde_json::{Map, Value};

use super::store::{MessageRow, PartRow};

/// Texts that the program sends in the place of something.
const COMPACTED: &str = "What did we do so far?";
const CLEARED: &str = "[Old tool result content cleared]";
const INTERRUPTED: &str = "[Tool execution was interrupted]";
const SUBTASK: &str = "The following tool was executed by the user";
const ATTACHED: &str = "Attached media from tool result:";

/// The messages of a session, in order.
#[derive(Debug, Default)]
pub struct Conversation {
    messages: Vec<Message>,
    bytes: u64,
    parts: usize,
    is_incomplete: bool,
}

/// A message.
#[derive(Debug)]
pub struct Message {
    id: String,
    pub is_user: bool,
    pub agent: String,
    /// The provider and the model.
    pub model: (String, String),
    is_summary: bool,
    is_finished: bool,
    is_left_out: bool,
    has_error: bool,
    parent: String,
    compaction: Option<Compaction>,
    pieces: Vec<Piece>,
    bytes: u64,
    parts: usize,
}

/// A request for a compaction.
#[derive(Debug)]
struct Compaction {
    /// The first message that stays as it is.
    tail: Option<String>,
}

/// A part of a message, in the forms in which it may be sent.
#[derive(Debug)]
enum Piece {
    Step,
    Plain(WindowPart),
    /// Reasoning; to another model it is sent as a text.
    Reasoning {
        thinking: WindowPart,
        text: Option<WindowPart>,
    },
    Tool(Box<Tool>),
}

#[derive(Debug)]
struct Tool {
    call: WindowPart,
    result: WindowPart,
    /// When the result was cleared, and what took its place.
    cleared: Option<(Millis, WindowPart)>,
    images: Vec<(WindowPart, WindowPart)>,
}

/// What a window is made for.
#[derive(Debug, Clone, Copy)]
pub struct Sent<'s> {
    pub at: Millis,
    pub model: &'s (String, String),
}

impl Conversation {
    /// Adds a message.
    pub fn push(&mut self, message: Message) {
        self.bytes += message.bytes;
        self.parts += message.parts;
        self.messages.push(message);
        if self.bytes > MAX_BYTES as u64 || self.parts > MAX_PARTS {
            *self = Self { is_incomplete: true, ..Self::default() };
        }
    }

    /// Notes that something could not be read.
    pub fn miss(&mut self) {
        self.is_incomplete = true;
    }

    /// Returns whether all messages are known.
    pub fn is_complete(&self) -> bool {
        !self.is_incomplete
    }

    /// Returns the memory that it takes, in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the messages that are sent: after a compaction, its summary and what follows the part that it is of.
    fn sent(&self) -> Vec<&Message> {
        let mut sent: Vec<&Message> = Vec::new();
        let mut summarized: HashSet<&str> = HashSet::new();
        let mut tail: Option<&str> = None;
        for message in self.messages.iter().rev() {
            sent.push(message);
            if let Some(first) = tail {
                if message.id == first {
                    break;
                }
                continue;
            }
            match &message.compaction {
                Some(it) if message.is_user && summarized.contains(&*message.id) => {
                    match &it.tail {
                        Some(first) if *first != message.id => tail = Some(first),
                        _ => break,
                    }
                }
                _ => {}
            }
            if !message.is_user && message.is_summary && message.is_finished && !message.has_error {
                summarized.insert(&message.parent);
            }
        }
        sent.reverse();
        reordered(sent)
    }

    /// Returns whether one of the messages that are sent is an answer of an agent.
    pub fn has_agent(&self, agent: &str) -> bool {
        self.sent().iter().any(|message| !message.is_user && message.agent == agent)
    }

    /// Returns the parts that are sent.
    pub fn parts(&self, to: Sent<'_>) -> Vec<WindowPart> {
        let mut parts = Vec::new();
        for message in self.sent() {
            message.add_to(&mut parts, to, message.pieces.len());
        }
        parts
    }

    /// Returns the number of parts that a summary would replace.
    pub fn len(&self) -> u64 {
        self.parts as u64
    }
}

/// Moves a summary before the messages that were kept, which are older.
fn reordered(sent: Vec<&Message>) -> Vec<&Message> {
    let tail_of = |it: &Message| it.compaction.as_ref().and_then(|it| it.tail.clone());
    let asked = sent.iter().rposition(|it| it.is_user && tail_of(it).is_some());
    let Some(asked) = asked else { return sent };
    let request = sent[asked];
    let first = tail_of(request);
    let summary = sent
        .iter()
        .enumerate()
        .skip(asked + 1)
        .find(|(_, it)| !it.is_user && it.is_summary && it.parent == request.id);
    let tail = sent.iter().position(|it| first.as_ref() == Some(&it.id));
    match (summary, tail) {
        (Some((summary, _)), Some(tail)) if tail < asked => {
            let moved = sent[asked..=summary].iter().chain(&sent[tail..asked]);
            moved.chain(&sent[summary + 1..]).copied().collect()
        }
        _ => sent,
    }
}

impl Message {
    /// Reads a message.
    pub fn new(row: &MessageRow, max_kept: usize) -> Self {
        let data = &row.data;
        let is_user = data["role"] == "user";
        let model = if is_user { &data["model"] } else { data };
        let mut pieces = Vec::new();
        let mut compaction = None;
        for part in &row.parts {
            if part.data["type"] == "compaction" {
                let tail = part.data["tail_start_id"].as_str().map(str::to_owned);
                compaction = Some(Compaction { tail });
            }
            if is_user {
                pieces.extend(user_piece(part, max_kept));
            } else {
                pieces.extend(assistant_piece(part, max_kept));
            }
        }
        let (bytes, parts) = measure(&pieces);
        let has_error = data["error"].is_object();
        let is_aborted = data["error"]["name"] == "MessageAbortedError";
        let has_content = row
            .parts
            .iter()
            .any(|part| !matches!(text(&part.data, "type"), "step-start" | "reasoning"));
        Self {
            id: row.id.clone(),
            is_user,
            agent: text(data, "agent").to_owned(),
            model: (text(model, "providerID").to_owned(), text(model, "modelID").to_owned()),
            is_summary: data["summary"] == true,
            is_finished: data["finish"].is_string(),
            // Of answers that failed, only those that a person interrupted are sent again.
            is_left_out: !is_user && has_error && !(is_aborted && has_content),
            has_error,
            parent: text(data, "parentID").to_owned(),
            compaction,
            pieces,
            bytes,
            parts,
        }
    }

    /// Returns the parts of the first steps of this message as a later request in it has them.
    pub fn steps(&self, to: Sent<'_>, steps: usize) -> Vec<WindowPart> {
        let mut parts = Vec::new();
        let starts = self.pieces.iter().enumerate().filter(|(_, it)| matches!(it, Piece::Step));
        let end = starts.map(|(at, _)| at).nth(steps).unwrap_or(self.pieces.len());
        self.add_to(&mut parts, to, end);
        parts
    }

    fn add_to(&self, parts: &mut Vec<WindowPart>, to: Sent<'_>, end: usize) {
        if self.is_left_out {
            return;
        }
        let mut media: Vec<WindowPart> = Vec::new();
        let pieces = &self.pieces[..end.min(self.pieces.len())];
        for step in pieces.split(|piece| matches!(piece, Piece::Step)) {
            let mut results = Vec::new();
            let first = parts.len();
            for piece in step {
                match piece {
                    Piece::Step => {}
                    Piece::Plain(part) => add_text(parts, first, part, to.model),
                    Piece::Reasoning { thinking, .. } if self.model == *to.model => {
                        parts.push(thinking.clone());
                    }
                    Piece::Reasoning { text, .. } => {
                        if let Some(text) = text {
                            add_text(parts, first, text, to.model);
                        }
                    }
                    Piece::Tool(tool) => {
                        parts.push(tool.call.clone());
                        tool.add_result(&mut results, &mut media, to);
                    }
                }
            }
            parts.extend(results);
        }
        parts.extend(media);
    }
}

/// Adds a text of a step that begins with this part. Where a format has one text for an answer, it is added to that.
fn add_text(
    parts: &mut Vec<WindowPart>,
    first: usize,
    part: &WindowPart,
    (provider, _): &(String, String),
) {
    let of_answer = |part: &WindowPart| match &part.part.what {
        Part::Text(text) if part.role == Role::Assistant => text.text.clone(),
        _ => None,
    };
    let has_one_text = !PROVIDERS_WITH_BLOCKS.contains(&&**provider);
    let earlier = parts[first..].iter().position(|it| of_answer(it).is_some());
    let earlier = earlier.filter(|_| has_one_text).map(|at| first + at);
    let joined = earlier.and_then(|at| {
        let text = format!("{}{}", of_answer(&parts[at])?, of_answer(part)?);
        Some((at, Part::Text(Text::new(&text, text.len()))))
    });
    match joined {
        Some((at, what)) => {
            let place = parts[at].part.place.clone();
            parts[at].part = Arc::new(Placed { what, place });
        }
        None => parts.push(part.clone()),
    }
}

impl Tool {
    fn add_result(&self, results: &mut Vec<WindowPart>, media: &mut Vec<WindowPart>, to: Sent<'_>) {
        if let Some((_, cleared)) = self.cleared.as_ref().filter(|(at, _)| *at <= to.at) {
            results.push(cleared.clone());
            return;
        }
        results.push(self.result.clone());
        for (as_result, as_message) in &self.images {
            if shows_media_in_results(to.model) {
                results.push(as_result.clone());
            } else {
                if media.is_empty() {
                    let place = as_message.part.place.clone();
                    let mut parts = Parts::new(place, ATTACHED.len());
                    parts.text(Role::User, ATTACHED);
                    media.append(&mut parts.parts);
                }
                media.push(as_message.clone());
            }
        }
    }
}

/// The providers whose formats have several texts in one answer. Others are spoken to in the form of chat completions.
const PROVIDERS_WITH_BLOCKS: &[&str] = &[
    "amazon-bedrock",
    "anthropic",
    "azure",
    "google",
    "google-vertex",
    "google-vertex-anthropic",
    "openai",
    "opencode",
    "xai",
];

/// Returns whether a provider takes images in results; to others they are sent in a message of the user.
fn shows_media_in_results((provider, model): &(String, String)) -> bool {
    match &**provider {
        "anthropic" | "openai" | "xai" | "google-vertex-anthropic" => true,
        "google" => model.contains("gemini-3"),
        "amazon-bedrock" => model.contains("anthropic.") || model.contains("nova"),
        _ => false,
    }
}

fn user_piece(part: &PartRow, max_kept: usize) -> Vec<Piece> {
    let data = &part.data;
    let mut parts = Parts::new(part.place.clone(), max_kept);
    match text(data, "type") {
        "text" if data["ignored"] != true => parts.text(Role::User, text(data, "text")),
        "file" if !matches!(text(data, "mime"), "text/plain" | "application/x-directory") => {
            parts.image_url(Role::User, text(data, "url"));
        }
        "compaction" => parts.text(Role::User, COMPACTED),
        "subtask" => parts.text(Role::User, SUBTASK),
        _ => {}
    }
    parts.parts.into_iter().map(Piece::Plain).collect()
}

fn assistant_piece(part: &PartRow, max_kept: usize) -> Option<Piece> {
    let data = &part.data;
    let one = |add: &dyn Fn(&mut Parts)| {
        let mut parts = Parts::new(part.place.clone(), max_kept);
        add(&mut parts);
        parts.parts.pop()
    };
    let written = text(data, "text");
    match text(data, "type") {
        "step-start" => Some(Piece::Step),
        "text" => one(&|parts| parts.text(Role::Assistant, written)).map(Piece::Plain),
        "reasoning" => Some(Piece::Reasoning {
            thinking: one(&|parts| parts.thinking(written))?,
            text: one(&|parts| parts.text(Role::Assistant, written))
                .filter(|_| !written.trim().is_empty()),
        }),
        "tool" => {
            let state = &data["state"];
            let result = result_text(state);
            let input = match &state["input"] {
                Value::Null => Value::Object(Map::new()),
                input => input.clone(),
            };
            let cleared =
                time(&state["time"]["compacted"]).filter(|_| state["status"] == "completed");
            let images = list(&state["attachments"]).filter_map(|file| {
                let (mime, url) = (text(file, "mime"), text(file, "url"));
                let is_media = mime.starts_with("image/") || mime == "application/pdf";
                let images = one(&|parts| parts.image_url(Role::Tool, url)).zip(one(&|parts| {
                    parts.image_url(Role::User, url);
                }));
                images.filter(|_| is_media)
            });
            Some(Piece::Tool(Box::new(Tool {
                call: one(&|parts| parts.call(text(data, "tool"), &input))?,
                result: one(&|parts| parts.result(result))?,
                cleared: cleared.zip(one(&|parts| parts.result(CLEARED))),
                images: images.collect(),
            })))
        }
        _ => None,
    }
}

/// Returns what is sent as the result of a call.
pub fn result_text(state: &Value) -> &str {
    match text(state, "status") {
        "completed" => text(state, "output"),
        "error" => {
            let output = state["metadata"]["output"].as_str();
            let output = output.filter(|_| state["metadata"]["interrupted"] == true);
            output.unwrap_or_else(|| text(state, "error"))
        }
        _ => INTERRUPTED,
    }
}

/// Returns the memory and the number of the parts of pieces.
fn measure(pieces: &[Piece]) -> (u64, usize) {
    let size = |part: &WindowPart| {
        let kept = |text: &Text| text.text.as_ref().map_or(0, |text| text.len());
        let text = match &part.part.what {
            Part::Text(it) | Part::Result(it) | Part::Thinking(it) | Part::Image(it) => kept(it),
            Part::Call { name, input } => name.len() + input.len(),
        };
        (text + size_of::<Piece>() + size_of::<Part>()) as u64
    };
    pieces.iter().fold((200, 1), |(bytes, parts), piece| match piece {
        Piece::Step => (bytes, parts + 1),
        Piece::Plain(part) => (bytes + size(part), parts + 1),
        Piece::Reasoning { thinking, text } => {
            (bytes + size(thinking) + text.as_ref().map_or(0, size), parts + 2)
        }
        Piece::Tool(tool) => {
            (bytes + size(&tool.call) + size(&tool.result), parts + 2 + 2 * tool.images.len())
        }
    })
}
