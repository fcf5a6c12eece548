//! The items of a history, by kind.

use std::borrow::Cow;
use std::collections::VecDeque;

use convoke_core::ledger::Source;
use convoke_protocol::window::Place;

use super::edits::Edit;

/// The kinds of items, in the order in which a handover has them: the most important first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Person,
    Summary,
    Exchange,
    Answer,
    Plan,
    Edit,
    Result,
    SubAgent,
}

impl Kind {
    pub(super) const ALL: [Self; 8] = [
        Self::Person,
        Self::Summary,
        Self::Exchange,
        Self::Answer,
        Self::Plan,
        Self::Edit,
        Self::Result,
        Self::SubAgent,
    ];

    /// Returns the heading of the section.
    pub(super) const fn title(self) -> &'static str {
        match self {
            Self::Person => "What the person wrote",
            Self::Summary => "Summary of what came before",
            Self::Exchange => "What the agent wrote last",
            Self::Answer => "What the person answered",
            Self::Plan => "Plans and to-do list",
            Self::Edit => "Edits, and the files today",
            Self::Result => "Last tool calls and their results",
            Self::SubAgent => "Results of sub-agents",
        }
    }

    /// Returns the name of the section in ledgers.
    pub(super) const fn section(self) -> &'static str {
        match self {
            Self::Person => "PERSON",
            Self::Summary => "SUMMARY",
            Self::Exchange => "EXCHANGES",
            Self::Answer => "ANSWERS",
            Self::Plan => "PLAN",
            Self::Edit => "EDITS",
            Self::Result => "RESULTS",
            Self::SubAgent => "SUB-AGENTS",
        }
    }

    /// Returns the words for one item, and for several.
    pub(super) const fn nouns(self) -> (&'static str, &'static str) {
        match self {
            Self::Person => ("message of the person", "messages of the person"),
            Self::Summary => ("summary", "summaries"),
            Self::Exchange => ("text of the agent", "texts of the agent"),
            Self::Answer => ("answer of the person", "answers of the person"),
            Self::Plan => ("plan", "plans"),
            Self::Edit => ("edit", "edits"),
            Self::Result => ("tool call", "tool calls"),
            Self::SubAgent => ("sub-agent", "sub-agents"),
        }
    }

    /// Returns the share of the room, in percent, that the kind has before others give up theirs.
    pub(super) const fn share(self) -> usize {
        match self {
            Self::Person => 40,
            Self::Summary => 12,
            Self::Exchange => 18,
            Self::Answer => 4,
            Self::Plan => 6,
            Self::Edit => 10,
            Self::Result => 7,
            Self::SubAgent => 3,
        }
    }

    /// Returns the maximum size of one item in a room of this size; `None` for those that are verbatim while they fit.
    pub(super) fn max_item(self, room: usize) -> Option<usize> {
        match self {
            Self::Person | Self::Summary | Self::Answer | Self::Plan => None,
            Self::Exchange => Some((room / 8).max(6_000)),
            Self::Edit | Self::SubAgent => Some((room / 20).max(3_000)),
            Self::Result => Some((room / 40).max(1_500)),
        }
    }

    /// Returns the source of an item for the ledger: who wrote it, and where that is recorded.
    pub(super) fn source(self, place: &Place) -> Source<'static> {
        let place = Some(Cow::Owned(place.to_string()));
        match self {
            Self::Person | Self::Answer | Self::Plan => Source::Message { id: place, index: None },
            Self::Summary | Self::Exchange | Self::SubAgent => {
                Source::Model { id: place, index: None }
            }
            Self::Edit | Self::Result => Source::Tool { call: place, index: None },
        }
    }
}

/// A thing that was said or done.
#[derive(Debug)]
pub(super) struct Item {
    pub(super) place: Place,
    /// The line before the text.
    pub(super) heading: String,
    pub(super) body: Body,
    /// The bytes that were cut because the text was too large to hold.
    pub(super) lost: u64,
}

/// The content of an item.
#[derive(Debug)]
pub(super) enum Body {
    Text(String),
    /// A tool call and what it returned; no output if the record has none.
    Call {
        name: String,
        input: String,
        output: Option<(bool, String)>,
    },
    Edit(Edit),
}

impl Item {
    /// Returns the bytes that the item holds in memory, roughly.
    pub(super) fn bytes(&self) -> usize {
        let body = match &self.body {
            Body::Text(text) => text.len(),
            Body::Call { name, input, output } => {
                name.len() + input.len() + output.as_ref().map_or(0, |(_, output)| output.len())
            }
            Body::Edit(Edit { path, texts, .. }) => {
                let texts = texts.as_ref();
                let before = texts.and_then(|(before, _)| before.as_ref()).map_or(0, String::len);
                path.len() + before + texts.map_or(0, |(_, after)| after.len())
            }
        };
        self.heading.len() + body
    }
}

/// A number of items and their size.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Count {
    pub(super) items: u64,
    pub(super) bytes: u64,
}

impl Count {
    pub(super) fn add(&mut self, bytes: u64) {
        self.items += 1;
        self.bytes += bytes;
    }
}

/// The items of one kind: the first of the person's, and as many of the newest as memory allows.
#[derive(Debug, Default)]
pub(super) struct Items {
    pub(super) list: VecDeque<Item>,
    bytes: usize,
    /// The number of items that are no longer in the list.
    gone: usize,
    /// Those that were forgotten for want of room.
    pub(super) forgotten: Count,
    /// Those that a summary took the place of.
    pub(super) replaced: Count,
}

/// The bytes that an item takes in memory besides its texts.
const OVERHEAD: usize = 160;

impl Items {
    /// Adds an item and returns its number. If the items take more than `max` bytes, the oldest are forgotten, but for the
    /// first `pinned`.
    pub(super) fn push(&mut self, item: Item, max: usize, pinned: usize) -> usize {
        self.bytes += item.bytes() + OVERHEAD;
        self.list.push_back(item);
        while self.bytes > max && self.list.len() > pinned + 1 {
            let Some(oldest) = self.list.remove(pinned) else { break };
            self.bytes -= oldest.bytes() + OVERHEAD;
            self.gone += 1;
            self.forgotten.add(oldest.bytes() as u64 + oldest.lost);
        }
        self.gone + self.list.len() - 1
    }

    /// Changes the item with a number, if it is still there. Only for kinds without pinned items.
    pub(super) fn change(&mut self, number: usize, change: impl FnOnce(&mut Item)) {
        let Some(item) = number.checked_sub(self.gone).and_then(|at| self.list.get_mut(at)) else {
            return;
        };
        let before = item.bytes();
        change(item);
        self.bytes = self.bytes + item.bytes() - before;
    }

    /// Removes all items, because a summary takes their place.
    pub(super) fn replace(&mut self) {
        self.gone += self.list.len();
        self.bytes = 0;
        for item in self.list.drain(..) {
            self.replaced.add(item.bytes() as u64 + item.lost);
        }
    }

    /// Returns the number of all items that there were.
    pub(super) fn total(&self) -> u64 {
        self.list.len() as u64 + self.forgotten.items + self.replaced.items
    }
}
