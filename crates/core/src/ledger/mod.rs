//! The ledger: for every byte that is sent, where it came from; for every byte left out, which rule
//! cut it.
//!
//! Entries stand in the order of the text. The kept bytes of a target sum to the bytes of that text.

mod context;
mod stored;
mod table;

use std::borrow::Cow;
use std::fmt;

use serde::ser::SerializeStruct;
use serde::{Deserialize, Serialize, Serializer};

pub(crate) use context::ContextRow;
pub use table::{Style, Table};

/// The text that an entry belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Target {
    /// The prompt of an agent, or the body of a model request.
    Prompt,
    /// The system text that travels beside the prompt.
    System,
}

/// Where a piece of text came from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub enum Source<'a> {
    /// A message of the conversation, or an item of a thread.
    Message {
        /// Its id, when it has one.
        #[serde(skip_serializing_if = "Option::is_none")]
        id: Option<Cow<'a, str>>,
        /// Its position among the messages that were handed in.
        #[serde(skip_serializing_if = "Option::is_none")]
        index: Option<usize>,
    },
    /// A file, or some lines of it.
    File {
        /// The path as it was handed in.
        path: Cow<'a, str>,
        /// The first and last line, 1-based, when not the whole file is meant.
        #[serde(skip_serializing_if = "Option::is_none")]
        lines: Option<(u64, u64)>,
    },
    /// A setting, by its name.
    Setting {
        /// The setting's name.
        name: Cow<'a, str>,
    },
    /// Written by Convoke itself: a header, a separator, a mark.
    Convoke {
        /// What was written, for example `header`.
        what: Cow<'a, str>,
    },
}

impl Source<'_> {
    /// Returns the same source, borrowing nothing.
    pub fn into_owned(self) -> Source<'static> {
        match self {
            Self::Message { id, index } => Source::Message { id: id.map(owned), index },
            Self::File { path, lines } => Source::File { path: owned(path), lines },
            Self::Setting { name } => Source::Setting { name: owned(name) },
            Self::Convoke { what } => Source::Convoke { what: owned(what) },
        }
    }
}

/// What happened to a piece of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum State {
    /// All of it is there.
    Kept,
    /// Part of it is there.
    Cut,
    /// None of it is there.
    Dropped,
}

/// The rule that decided over a piece of text, with its arithmetic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rule<'a> {
    /// It fitted.
    Fits,
    /// It was written by Convoke around other text.
    Frame,
    /// It stands in the thread since an earlier turn, and is sent again as it was.
    FromThread,
    /// Older context goes first: with it the text would have needed more than there was.
    OldestFirst {
        /// The bytes that this message and all newer text need.
        needed: u64,
        /// The bytes that there were.
        available: u64,
    },
    /// The end of the text was cut.
    EndCut {
        /// The bytes that the whole would have needed.
        needed: u64,
        /// The bytes that there were.
        available: u64,
    },
    /// The middle of the text was cut.
    MiddleCut {
        /// The bytes that the whole would have needed.
        needed: u64,
        /// The bytes that there were.
        available: u64,
    },
    /// A rule in words.
    Other(Cow<'a, str>),
}

/// The words of [`Rule::FromThread`].
const FROM_THREAD: &str = "from the thread";

/// The words for it in ledgers that earlier versions wrote.
const FROM_THREAD_BEFORE: &str = "unchanged, from the thread";

impl Rule<'_> {
    fn into_owned(self) -> Rule<'static> {
        match self {
            Self::Fits => Rule::Fits,
            Self::Frame => Rule::Frame,
            Self::FromThread => Rule::FromThread,
            Self::OldestFirst { needed, available } => Rule::OldestFirst { needed, available },
            Self::EndCut { needed, available } => Rule::EndCut { needed, available },
            Self::MiddleCut { needed, available } => Rule::MiddleCut { needed, available },
            Self::Other(text) => Rule::Other(owned(text)),
        }
    }
}

impl fmt::Display for Rule<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Rule::Fits => f.write_str("fits"),
            Rule::Frame => f.write_str("frame"),
            Rule::FromThread => f.write_str(FROM_THREAD),
            Rule::OldestFirst { needed, available } => {
                write!(f, "oldest context first: {needed} bytes needed, {available} available")
            }
            Rule::EndCut { needed, available } => {
                write!(f, "end cut: {needed} bytes needed, {available} available")
            }
            Rule::MiddleCut { needed, available } => {
                write!(f, "middle cut: {needed} bytes needed, {available} available")
            }
            Rule::Other(text) => f.write_str(text),
        }
    }
}

/// One line of the ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The text that it belongs to.
    pub target: Target,
    /// The section of that text.
    pub section: Cow<'a, str>,
    /// Where it came from.
    pub source: Source<'a>,
    /// The bytes of it that are sent.
    pub kept_bytes: u64,
    /// The bytes of it that are not.
    pub cut_bytes: u64,
    /// What decided.
    pub rule: Rule<'a>,
}

impl Entry<'_> {
    /// Returns what happened, which the byte counts say.
    pub fn state(&self) -> State {
        match (self.kept_bytes, self.cut_bytes) {
            (_, 0) => State::Kept,
            (0, _) => State::Dropped,
            _ => State::Cut,
        }
    }
}

impl Entry<'_> {
    /// Returns the same entry, borrowing nothing.
    pub fn into_owned(self) -> Entry<'static> {
        Entry {
            target: self.target,
            section: owned(self.section),
            source: self.source.into_owned(),
            kept_bytes: self.kept_bytes,
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

impl Serialize for Entry<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut entry = serializer.serialize_struct("Entry", 8)?;
        entry.serialize_field("target", &self.target)?;
        entry.serialize_field("section", &self.section)?;
        entry.serialize_field("source", &self.source)?;
        entry.serialize_field("state", &self.state())?;
        entry.serialize_field("keptBytes", &self.kept_bytes)?;
        entry.serialize_field("cutBytes", &self.cut_bytes)?;
        entry.serialize_field("tokensEstimate", &estimate_tokens(self.kept_bytes))?;
        entry.serialize_field("rule", &self.rule.to_string())?;
        entry.end()
    }
}

/// The account of one prompt or request.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ledger<'a> {
    /// The budget, when there was one.
    pub max_bytes: Option<u64>,
    /// How many bytes of a request, from its beginning, are those of the request before it, when there
    /// was one: a provider can take these from its cache.
    pub unchanged_bytes: Option<u64>,
    rows: Vec<Row<'a>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Row<'a> {
    One(Entry<'a>),
    /// The entries of a whole context, made when they are asked for: a context of fifty thousand
    /// messages of which most were dropped costs one row.
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
        self.rows.iter().flat_map(|row| match row {
            Row::One(entry) => Either::One(std::iter::once(entry.clone())),
            Row::Context(context) => Either::Many(context.entries()),
        })
    }

    /// Returns the same ledger, borrowing nothing.
    pub fn into_owned(self) -> Ledger<'static> {
        let rows = self.entries().map(|entry| Row::One(entry.into_owned())).collect();
        Ledger { max_bytes: self.max_bytes, unchanged_bytes: self.unchanged_bytes, rows }
    }

    /// Returns the bytes of everything that is sent.
    pub fn used_bytes(&self) -> u64 {
        let kept = self.rows.iter().map(|row| match row {
            Row::One(entry) => entry.kept_bytes,
            Row::Context(context) => context.kept_bytes,
        });
        kept.sum()
    }
}

enum Either<A, B> {
    One(A),
    Many(B),
}

impl<T, A: Iterator<Item = T>, B: Iterator<Item = T>> Iterator for Either<A, B> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        match self {
            Self::One(iterator) => iterator.next(),
            Self::Many(iterator) => iterator.next(),
        }
    }
}

impl Serialize for Ledger<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut ledger = serializer.serialize_struct("Ledger", 5)?;
        ledger.serialize_field("version", &1)?;
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
        serializer.collect_seq(self.0.entries())
    }
}
