//! System texts and tools of requests, which the program's log names by a hash.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use convoke_protocol::content::ContentHash;
use convoke_protocol::window::{Place, Placed, Text};
use serde::Deserialize;

use super::canonical;
use super::record::{Raw, Record, list, parsed, text};

/// The maximum number of shapes whose texts are in memory, and of those whose size is known only.
const MAX_SHAPES: usize = 4_000;
const MAX_WITH_TEXTS: usize = 32;

/// The system texts and tools of requests.
#[derive(Debug, Default)]
pub(super) struct Shapes {
    known: HashMap<ContentHash, Arc<Shape>>,
    order: VecDeque<ContentHash>,
    with_texts: VecDeque<ContentHash>,
}

/// The system texts and tools of a request.
#[derive(Debug, Default, Clone)]
pub(super) struct Shape {
    pub system: Vec<Placed<Text>>,
    pub tools: Vec<String>,
    /// Whether they have the hash that the log says.
    pub is_proven: bool,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct WrittenShape<'l> {
    #[serde(borrow)]
    system: Raw<'l>,
    #[serde(borrow)]
    tools: Raw<'l>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Named<'l> {
    #[serde(borrow)]
    name: Raw<'l>,
    #[serde(borrow)]
    text: Raw<'l>,
    #[serde(borrow, rename = "type")]
    kind: Raw<'l>,
}

impl Shapes {
    /// Remembers the shape of a record.
    pub fn know(&mut self, record: &Record<'_>, place: &Place, max_kept: usize) -> Option<()> {
        let hash: ContentHash = text(record.shape_hash)?.parse().ok()?;
        if self.known.get(&hash).is_some_and(|known| known.is_proven) {
            return Some(());
        }
        let written: WrittenShape<'_> = parsed(record.shape)?;
        let placed = |text: &str| Placed { what: Text::new(text, max_kept), place: place.clone() };
        let whole = text(written.system).map(|text| placed(&text));
        let blocks = list(written.system).into_iter();
        let blocks = blocks.filter_map(|it| parsed::<Named<'_>>(Some(it)));
        let texts = blocks.filter_map(|it| text(it.text).map(|text| placed(&text)));
        let system = whole.into_iter().chain(texts).collect();
        let tools = list(written.tools).into_iter();
        let tools = tools.map(|it| parsed::<Named<'_>>(Some(it)).unwrap_or_default());
        let tools = tools.map(|it| text(it.name).or(text(it.kind)).unwrap_or_default().into());
        let is_proven = canonical::hash(record.shape?) == Some(hash);
        self.keep(hash, Shape { system, tools: tools.collect(), is_proven });
        Some(())
    }

    fn keep(&mut self, hash: ContentHash, shape: Shape) {
        if self.known.insert(hash, Arc::new(shape)).is_none() {
            self.order.push_back(hash);
        }
        self.with_texts.push_back(hash);
        if self.with_texts.len() > MAX_WITH_TEXTS
            && let Some(shape) =
                self.with_texts.pop_front().and_then(|hash| self.known.get_mut(&hash))
        {
            Arc::make_mut(shape).system.iter_mut().for_each(|text| text.what.text = None);
        }
        if self.order.len() > MAX_SHAPES
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
    }

    /// Returns a shape.
    pub fn find(&self, hash: &ContentHash) -> Option<Arc<Shape>> {
        self.known.get(hash).cloned()
    }
}
