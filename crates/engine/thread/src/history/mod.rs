//! The history of a thread: items with their origins and truncations.

mod classify;
mod normalize;
mod origin;

use convoke_core::diagnostic::Diagnostic;
use convoke_core::ledger::{Rule, estimate_tokens};

use crate::diagnostics;
use crate::item::{FunctionOutput, ResponseItem};
use crate::model::TruncationPolicy;
use crate::truncate::{truncate_middle, truncate_parts};

pub use classify::UserMessages;
pub use normalize::{SentItem, normalize};
pub use origin::{Origin, Section};
pub(crate) use origin::{Piece, Sources};

/// An item of a history.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// The item as stored and sent.
    pub item: ResponseItem,
    pub origin: Origin,
    /// Whether the entry was restored from an earlier turn.
    pub is_restored: bool,
}

impl Entry {
    /// Creates an entry of this turn.
    pub fn new(item: ResponseItem, origin: Origin) -> Self {
        Self { item, origin, is_restored: false }
    }

    /// Creates an entry whose text has the source that its section implies.
    pub fn in_section(section: Section, item: ResponseItem) -> Self {
        Self::new(item, Origin::Section(section))
    }
}

impl From<ResponseItem> for Entry {
    /// Creates an entry from an item without a known origin.
    fn from(item: ResponseItem) -> Self {
        Self::new(item, Origin::Unknown)
    }
}

/// Describes an item that is never stored in a history.
pub(crate) fn never_kept(item: &ResponseItem) -> Option<String> {
    match item {
        ResponseItem::Other(kind) => Some(format!("an item of unknown kind `{kind}`")),
        ResponseItem::Message(message) if message.role == "system" => {
            Some("a system message".to_owned())
        }
        _ => None,
    }
}

/// The items of a thread, oldest first.
#[derive(Debug, Clone, Default)]
pub struct History {
    entries: Vec<Entry>,
}

impl History {
    /// Adds an item, with its output truncated by the policy. Items that are never sent are left out.
    pub fn record(
        &mut self,
        entry: Entry,
        policy: TruncationPolicy,
        diagnostics: &mut Vec<Diagnostic>,
    ) {
        if let Some(what) = never_kept(&entry.item) {
            let message = format!("{what} is not kept in the history");
            diagnostics.push(Diagnostic::new(diagnostics::ITEM_DROPPED, message));
            return;
        }
        let entry = cut_output(entry, policy.with_allowance(), diagnostics);
        self.entries.push(entry);
    }

    /// Returns the entries, oldest first.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Returns the items, oldest first.
    pub fn items(&self) -> impl DoubleEndedIterator<Item = &ResponseItem> {
        self.entries.iter().map(|entry| &entry.item)
    }

    /// Returns the number of items in a request with this history.
    pub fn len_sent(&self) -> usize {
        normalize(&self.entries, &mut Vec::new()).len()
    }

    /// Replaces all entries.
    pub fn replace(&mut self, entries: Vec<Entry>) {
        self.entries = entries;
    }

    /// Returns all entries.
    pub fn into_entries(self) -> Vec<Entry> {
        self.entries
    }

    /// Removes the oldest entry and, if it is a call or an output, its counterpart.
    pub fn drop_oldest(&mut self) {
        if self.entries.is_empty() {
            return;
        }
        let oldest = self.entries.remove(0).item;
        let partner =
            self.entries.iter().position(|entry| normalize::are_partners(&oldest, &entry.item));
        if let Some(partner) = partner {
            self.entries.remove(partner);
        }
    }

    /// Removes the last turns: everything from the `count`-th last message of the user on.
    pub fn roll_back(&mut self, count: usize, users: UserMessages) {
        let starts: Vec<_> = self
            .entries
            .iter()
            .enumerate()
            .filter(|(_, entry)| entry.is_turn_start(users))
            .map(|(index, _)| index)
            .collect();
        if count == 0 || starts.is_empty() {
            return;
        }
        let cut = starts[starts.len().saturating_sub(count)];
        self.entries.truncate(cut);
    }

    /// Returns the estimated tokens of a request with these instructions.
    pub fn estimate_tokens(&self, instructions: &str) -> u64 {
        let items: u64 = self.items().map(estimate_item).sum();
        estimate_tokens(instructions.len() as u64) + items
    }

    /// Returns the estimated tokens that the server has not counted: outputs and developer messages at the end.
    pub fn estimate_uncounted(&self) -> u64 {
        let uncounted = |item: &&ResponseItem| match item {
            ResponseItem::FunctionCallOutput(_) | ResponseItem::CustomToolCallOutput(_) => true,
            ResponseItem::Message(message) => message.role == "developer",
            _ => false,
        };
        self.items().rev().take_while(uncounted).map(estimate_item).sum()
    }

    /// Returns the estimated tokens of reasoning before the last user message, which servers do not count.
    pub fn estimate_past_reasoning(&self) -> u64 {
        let is_user = |entry: &Entry| entry.item.role() == Some("user");
        let Some(last_user) = self.entries.iter().rposition(is_user) else {
            return 0;
        };
        let thoughts = self.entries[..last_user].iter().map(|entry| match &entry.item {
            ResponseItem::Reasoning(it) => it.encrypted_content.as_deref().map_or(0, hidden_bytes),
            _ => 0,
        });
        estimate_tokens(thoughts.sum())
    }
}

/// Returns the estimated size of encrypted text.
fn hidden_bytes(encrypted: &str) -> u64 {
    (encrypted.len() as u64 * 3 / 4).saturating_sub(650)
}

fn estimate_item(item: &ResponseItem) -> u64 {
    let bytes = match item {
        ResponseItem::GhostSnapshot(_) => 0,
        ResponseItem::Reasoning(it) if it.encrypted_content.is_some() => {
            it.encrypted_content.as_deref().map_or(0, hidden_bytes)
        }
        ResponseItem::Compaction(it) => hidden_bytes(&it.encrypted_content),
        other => other.to_json().len() as u64,
    };
    estimate_tokens(bytes)
}

fn cut_output(
    mut entry: Entry,
    policy: TruncationPolicy,
    diagnostics: &mut Vec<Diagnostic>,
) -> Entry {
    let (call_id, cut) = match &entry.item {
        ResponseItem::FunctionCallOutput(it) => match &it.output {
            FunctionOutput::Text(text) => {
                let cut = truncate_middle(text, policy);
                (&it.call_id, cut.map(|cut| (FunctionOutput::Text(cut.text), cut.pieces)))
            }
            FunctionOutput::Parts(parts) => {
                let cut = truncate_parts(parts, policy);
                (&it.call_id, cut.map(|(parts, pieces)| (FunctionOutput::Parts(parts), pieces)))
            }
        },
        ResponseItem::CustomToolCallOutput(it) => {
            let cut = truncate_middle(&it.output, policy);
            (&it.call_id, cut.map(|cut| (FunctionOutput::Text(cut.text), cut.pieces)))
        }
        _ => return entry,
    };
    let Some((output, pieces)) = cut else { return entry };
    let before = entry.item.text_bytes();
    let message = format!("the output of {call_id} had {before} bytes and its middle was cut");
    let truncated = Diagnostic::new(diagnostics::OUTPUT_TRUNCATED, message);
    let kept: u64 = pieces.iter().map(Piece::text_bytes).sum();
    diagnostics.push(truncated.with_bytes(before - kept));
    let rule = Rule::MiddleCut { needed: before, available: policy.max_bytes() };
    entry.origin = entry.origin.cut(&entry.item, &pieces, &rule);
    match (&mut entry.item, output) {
        (ResponseItem::FunctionCallOutput(it), output) => it.output = output,
        (ResponseItem::CustomToolCallOutput(it), FunctionOutput::Text(text)) => it.output = text,
        _ => {}
    }
    entry
}

#[cfg(test)]
mod tests;
