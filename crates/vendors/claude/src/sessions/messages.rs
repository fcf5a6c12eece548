//! Messages that the program's log names by their hashes, and where they stand.
//!
//! A message is a record of the log, or it is the content of consecutive records of the conversation. Only places are
//! kept; contents are read again when a window needs them and they have been forgotten.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use convoke_protocol::content::ContentHash;
use convoke_protocol::window::{At, Part, Place, Role, WindowPart};
use convoke_source::lines;
use convoke_wire::normal::Parts;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::record::{Message, Raw, Record, list, parsed, text, with_whole_characters};

/// The maximum number of messages whose places are known, and of these places.
const MAX_MESSAGES: usize = 50_000;
const MAX_PLACES: usize = 100_000;
/// The maximum size of the contents in memory, in bytes.
const MAX_CONTENTS: usize = 8 << 20;
/// The memory that a content takes beside its parts, in bytes: its entry and the blocks on the heap.
const CONTENT_BYTES: usize = 160;

/// A line of one of the session's files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct LinePlace {
    pub file: u32,
    pub line: u64,
    pub offset: u64,
}

/// The content of a record, as a part of windows.
#[derive(Debug)]
pub(super) struct Content {
    pub parts: Vec<WindowPart>,
    /// Whether the texts are as they were sent, without halves of characters that cannot be read.
    pub is_whole: bool,
}

/// Messages by their hashes.
#[derive(Debug, Default)]
pub(super) struct Messages {
    numbers: HashMap<ContentHash, u32>,
    next_number: u32,
    sources: HashMap<u32, Source>,
    places: usize,
    pub contents: Contents,
}

#[derive(Debug)]
struct Source {
    places: Box<[LinePlace]>,
    /// Whether the content has the hash that the log says.
    is_proven: bool,
}

/// Contents of records.
#[derive(Debug, Default)]
pub(super) struct Contents {
    loaded: HashMap<LinePlace, Arc<Content>>,
    bytes: usize,
    /// The file that was read last.
    file: Option<(u32, File)>,
}

impl Messages {
    /// Returns the number of a message, which may not be known yet.
    pub fn number(&mut self, hash: ContentHash) -> u32 {
        let next = &mut self.next_number;
        *self.numbers.entry(hash).or_insert_with(|| {
            *next = next.wrapping_add(1);
            *next
        })
    }

    /// Remembers where a message stands. What is proven is not replaced.
    pub fn know(&mut self, hash: ContentHash, places: &[LinePlace], is_proven: bool) {
        let number = self.number(hash);
        if self.sources.get(&number).is_none_or(|known| is_proven && !known.is_proven) {
            self.places += places.len();
            self.sources.insert(number, Source { places: places.into(), is_proven });
        }
    }

    /// Returns whether messages have to be forgotten.
    pub fn is_full(&self) -> bool {
        self.numbers.len() > MAX_MESSAGES || self.places > MAX_PLACES
    }

    /// Forgets all messages but these; also these, if they are too many themselves.
    pub fn forget_all_but(&mut self, live: &HashSet<u32>) {
        let live = |number: &u32| live.len() < MAX_MESSAGES / 2 && live.contains(number);
        self.numbers.retain(|_, number| live(number));
        self.sources.retain(|number, _| live(number));
        self.places = self.sources.values().map(|source| source.places.len()).sum();
        if self.places > MAX_PLACES / 2 {
            self.sources.clear();
            self.places = 0;
        }
    }

    /// Returns where a message stands, and whether its hash is proven.
    pub fn find(&self, number: u32) -> Option<(&[LinePlace], bool)> {
        self.sources.get(&number).map(|source| (&*source.places, source.is_proven))
    }
}

impl Contents {
    /// Keeps the content of a record.
    pub fn insert(&mut self, place: LinePlace, content: Content) -> Arc<Content> {
        let content = Arc::new(content);
        let parts = content.parts.iter().map(|part| kept_bytes(&part.part.what)).sum::<usize>();
        let bytes = parts + CONTENT_BYTES;
        if bytes > MAX_CONTENTS {
            return content;
        }
        if self.bytes + bytes > MAX_CONTENTS {
            self.loaded.clear();
            self.bytes = 0;
        }
        if self.loaded.insert(place, content.clone()).is_none() {
            self.bytes += bytes;
        }
        content
    }

    /// Returns the content of a record, which is read again if it has been forgotten.
    pub fn load(&mut self, place: LinePlace, path: &Path, max_kept: usize) -> Option<Arc<Content>> {
        if let Some(content) = self.loaded.get(&place) {
            return Some(content.clone());
        }
        if self.file.as_ref().is_none_or(|(file, _)| *file != place.file) {
            self.file = Some((place.file, lines::open_file(path).ok()?));
        }
        let (_, file) = self.file.as_ref()?;
        let line = lines::line_at(file, place.offset).ok()?;
        let record: Record<'_> = serde_json::from_slice(&line).ok()?;
        let at = Place { file: path.to_string_lossy().into(), at: At::Line(place.line) };
        let content = content(&record, at, max_kept);
        Some(self.insert(place, content))
    }
}

/// Returns the memory that a part takes.
fn kept_bytes(part: &Part) -> usize {
    let text = match part {
        Part::Text(text) | Part::Result(text) | Part::Thinking(text) | Part::Image(text) => {
            text.text.as_ref().map_or(0, |text| text.len())
        }
        Part::Call { name, input } => name.len() + input.len(),
    };
    text + size_of::<Part>() + size_of::<Place>() + size_of::<WindowPart>() + CONTENT_BYTES / 4
}

/// Returns the content of a record.
pub(super) fn content(record: &Record<'_>, place: Place, max_kept: usize) -> Content {
    let mut parts = Parts::new(place, max_kept);
    let mut is_whole = true;
    if let Some(message) = parsed::<Message<'_>>(record.message) {
        let role = match text(message.role).as_deref() {
            Some("assistant") => Role::Assistant,
            Some("system") => Role::System,
            _ => Role::User,
        };
        is_whole = add_content(&mut parts, role, message.content);
    } else {
        for text in rendered(record.rendered) {
            parts.text(Role::User, &text);
        }
    }
    Content { parts: parts.parts, is_whole }
}

fn add_content(parts: &mut Parts, role: Role, content: Raw<'_>) -> bool {
    let Some(raw) = content else { return true };
    if raw.get().starts_with('"') {
        if let Some(text) = text(content) {
            parts.text(role, &text);
        }
        return serde_json::from_str::<String>(raw.get()).is_ok();
    }
    let mut is_whole = true;
    for block in list(content) {
        let (block, is_block_whole) = block_value(block);
        is_whole &= is_block_whole;
        parts.anthropic_block(role, &block);
    }
    is_whole
}

/// Parses a block of a message, and returns whether all of its characters could be read.
pub(super) fn block_value(block: &RawValue) -> (Value, bool) {
    if let Ok(value) = serde_json::from_str(block.get()) {
        return (value, true);
    }
    let value = serde_json::from_str(&with_whole_characters(block.get()));
    (value.unwrap_or_default(), false)
}

/// Returns the texts of an attachment that the program says it sent.
fn rendered(raw: Raw<'_>) -> Vec<String> {
    #[derive(Deserialize)]
    struct Rendered<'l> {
        #[serde(borrow)]
        content: Raw<'l>,
    }
    let texts = list(raw).into_iter().filter_map(|it| parsed::<Rendered<'_>>(Some(it)));
    texts.filter_map(|it| text(it.content).map(std::borrow::Cow::into_owned)).collect()
}
