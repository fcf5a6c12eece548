//! The ledger: the source of every byte that is sent, and the rule behind every byte left out.
//!
//! Entries are in the order of the text and cover it without overlap: the ranges of a target follow one another
//! from its first byte to its last.

mod context;
mod rule;
mod source;
mod stored;
mod table;

use std::borrow::Cow;
use std::ops::Range;

use serde::ser::{SerializeSeq, SerializeStruct};
use serde::{Deserialize, Serialize, Serializer};

pub(crate) use context::ContextRow;
pub use rule::Rule;
pub use source::Source;
pub use table::{Style, Table};

/// The section of the bytes of a request that have no source of their own: the JSON around the texts, with
/// settings, names and ids of calls.
pub const ENVELOPE: &str = "envelope";

/// The text that an entry belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Target {
    /// The prompt of an agent, or the body of a model request.
    Prompt,
    /// The system text, if it is sent separately.
    System,
}

/// The state of a piece of text.
///
/// Exhaustive on purpose: a new kind must be handled everywhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum State {
    /// Sent whole.
    Kept,
    /// Sent in part.
    Cut,
    /// Not sent.
    Dropped,
}

/// One line of the ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The text that the entry belongs to.
    pub target: Target,
    /// The section of that text.
    pub section: Cow<'a, str>,
    pub source: Source<'a>,
    /// The byte range in that text. In a request, a range of the body: a JSON value, or the content of a JSON
    /// string without its quotes.
    pub range: Range<u64>,
    /// The bytes of the source that are not sent.
    pub cut_bytes: u64,
    /// The rule that was applied.
    pub rule: Rule<'a>,
}

impl Entry<'_> {
    /// Returns the number of bytes in the text.
    pub fn kept_bytes(&self) -> u64 {
        self.range.end - self.range.start
    }

    /// Returns the state, from the byte counts.
    pub fn state(&self) -> State {
        match (self.kept_bytes(), self.cut_bytes) {
            (_, 0) => State::Kept,
            (0, _) => State::Dropped,
            _ => State::Cut,
        }
    }

    /// Returns an entry that borrows nothing.
    pub fn into_owned(self) -> Entry<'static> {
        Entry {
            target: self.target,
            section: owned(self.section),
            source: self.source.into_owned(),
            range: self.range,
            cut_bytes: self.cut_bytes,
            rule: self.rule.into_owned(),
        }
    }
}

fn owned(text: Cow<'_, str>) -> Cow<'static, str> {
    Cow::Owned(text.into_owned())
}

/// Returns the estimated tokens of a text of this many bytes: a quarter, rounded up.
pub const fn estimate_tokens(bytes: u64) -> u64 {
    bytes.div_ceil(4)
}

/// The JSON form of an entry.
struct EntryJson<'e, 'a> {
    entry: &'e Entry<'a>,
    has_range: bool,
}

impl Serialize for EntryJson<'_, '_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { entry: it, has_range } = self;
        let mut entry = serializer.serialize_struct("Entry", 9)?;
        entry.serialize_field("target", &it.target)?;
        entry.serialize_field("section", &it.section)?;
        entry.serialize_field("source", &it.source)?;
        entry.serialize_field("state", &it.state())?;
        if *has_range {
            entry.serialize_field("range", &(it.range.start, it.range.end))?;
        }
        entry.serialize_field("keptBytes", &it.kept_bytes())?;
        entry.serialize_field("cutBytes", &it.cut_bytes)?;
        entry.serialize_field("tokensEstimate", &estimate_tokens(it.kept_bytes()))?;
        entry.serialize_field("rule", &it.rule.to_string())?;
        entry.end()
    }
}

impl Serialize for Entry<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        EntryJson { entry: self, has_range: true }.serialize(serializer)
    }
}

/// The ledger of one prompt or request.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ledger<'a> {
    /// The budget, if there is one.
    pub max_bytes: Option<u64>,
    /// The number of bytes at the start of a request that equal the previous request's, and that a provider can
    /// cache; `None` without a previous request.
    pub unchanged_bytes: Option<u64>,
    /// Whether the ledger is of version 1, whose entries have sizes but no ranges.
    is_version_1: bool,
    rows: Vec<Row<'a>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Row<'a> {
    One(Entry<'a>),
    /// The entries of a whole context, created on demand: a context of fifty thousand messages, most of them
    /// dropped, costs one row and the ends of the kept lines.
    Context(ContextRow<'a>),
}

impl<'a> Ledger<'a> {
    /// Creates an empty ledger for a budget.
    pub fn new(max_bytes: Option<u64>) -> Self {
        Self { max_bytes, ..Self::default() }
    }

    /// Adds the entry that comes next in the text.
    pub fn push(&mut self, entry: Entry<'a>) {
        self.rows.push(Row::One(entry));
    }

    /// Adds the entries of a context.
    pub(crate) fn push_context(&mut self, context: ContextRow<'a>) {
        self.rows.push(Row::Context(context));
    }

    /// Returns the entries in the order of the text.
    pub fn entries(&self) -> impl Iterator<Item = Entry<'a>> {
        self.rows.iter().flat_map(|row| {
            let (one, context) = match row {
                Row::One(entry) => (Some(entry.clone()), None),
                Row::Context(context) => (None, Some(context.entries())),
            };
            one.into_iter().chain(context.into_iter().flatten())
        })
    }

    /// Returns a ledger that borrows nothing.
    pub fn into_owned(self) -> Ledger<'static> {
        let rows = self.entries().map(|entry| Row::One(entry.into_owned())).collect();
        let Self { max_bytes, unchanged_bytes, is_version_1, .. } = self;
        Ledger { max_bytes, unchanged_bytes, is_version_1, rows }
    }

    /// Returns the size of everything that is sent, in bytes.
    pub fn used_bytes(&self) -> u64 {
        let kept = self.rows.iter().map(|row| match row {
            Row::One(entry) => entry.kept_bytes(),
            Row::Context(context) => context.kept_bytes(),
        });
        kept.sum()
    }

    /// Returns whether the entries of a target follow one another from the first byte of a text of this length
    /// to the last. For a ledger of version 1, only the sum is checked.
    pub fn covers(&self, target: Target, bytes: u64) -> bool {
        let entries = self.entries().filter(|entry| entry.target == target);
        cover(entries.map(|entry| entry.range), bytes)
    }
}

/// Returns whether ranges follow one another from the first byte to the last.
pub(crate) fn cover(ranges: impl IntoIterator<Item = Range<u64>>, bytes: u64) -> bool {
    let follows =
        |at: u64, range: Range<u64>| (range.start == at && range.end >= at).then_some(range.end);
    ranges.into_iter().try_fold(0, follows) == Some(bytes)
}

impl<'a> FromIterator<Entry<'a>> for Ledger<'a> {
    /// Collects the entries of a text without a budget.
    fn from_iter<I: IntoIterator<Item = Entry<'a>>>(entries: I) -> Self {
        let mut ledger = Self::new(None);
        entries.into_iter().for_each(|entry| ledger.push(entry));
        ledger
    }
}

impl Serialize for Ledger<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut ledger = serializer.serialize_struct("Ledger", 5)?;
        ledger.serialize_field("version", if self.is_version_1 { &1 } else { &2 })?;
        ledger.serialize_field("maxBytes", &self.max_bytes)?;
        ledger.serialize_field("usedBytes", &self.used_bytes())?;
        if let Some(unchanged) = self.unchanged_bytes {
            ledger.serialize_field("unchangedBytes", &unchanged)?;
        }
        ledger.serialize_field("entries", &EntryList(self))?;
        ledger.end()
    }
}

struct EntryList<'l, 'a>(&'l Ledger<'a>);

impl Serialize for EntryList<'_, '_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(None)?;
        for entry in self.0.entries() {
            list.serialize_element(&EntryJson { entry: &entry, has_range: !self.0.is_version_1 })?;
        }
        list.end()
    }
}
