//! The history of a thread: what was recorded, where each item came from, and what was cut from it.

mod classify;
mod normalize;

use std::path::PathBuf;
use std::sync::Arc;

use convoke_core::diagnostic::Diagnostic;

use crate::diagnostics;
use crate::item::{FunctionOutput, ResponseItem};
use crate::model::TruncationPolicy;
use crate::truncate::{tokens, truncate_middle, truncate_parts};
use crate::user_instructions::Piece;

pub use classify::{is_turn_start, section_of, user_text};
pub use normalize::{Sent, normalize};

/// Where an item came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// The text about permissions.
    Permissions,
    /// The configured developer instructions.
    DeveloperInstructions,
    /// The collaboration mode.
    CollaborationMode,
    /// A personality.
    Personality,
    /// A change of the model.
    ModelSwitch,
    /// The user instructions, with the pieces that they are made of.
    UserInstructions(Arc<[Piece]>),
    /// The place of a turn.
    Environment,
    /// What the user sent.
    User,
    /// The text of a skill.
    Skill(PathBuf),
    /// What the model answered.
    Model,
    /// What a tool returned.
    Tool,
    /// The note that a turn was interrupted.
    TurnAborted,
    /// What asks for a summary.
    CompactionPrompt,
    /// A user message that compaction kept, and the bytes that it cut from it.
    Kept,
    /// The summary of a compaction.
    Summary,
    /// An earlier run of the thread, where it stood in this section.
    Restored(&'static str),
    /// A call that was never answered.
    Missing,
}

/// An item of a history.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// The item as it is kept, and sent.
    pub item: ResponseItem,
    /// Where it came from.
    pub origin: Origin,
    /// The bytes that were cut from it.
    pub cut: u64,
}

impl Entry {
    /// Creates an entry of which nothing was cut.
    pub fn new(item: ResponseItem, origin: Origin) -> Self {
        Self { item, origin, cut: 0 }
    }
}

/// Says what an item is that no history keeps.
pub(crate) fn never_kept(item: &ResponseItem) -> Option<String> {
    match item {
        ResponseItem::Other(kind) => Some(format!("an item of the unknown kind `{kind}`")),
        ResponseItem::Message(message) if message.role == "system" => {
            Some("a message of the system".to_owned())
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
    /// Adds an item, its output cut by the policy. Items that no model may see are left out.
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

    /// Returns how many items a request with this history carries.
    pub fn len_sent(&self) -> usize {
        normalize(&self.entries, &mut Vec::new()).len()
    }

    /// Replaces all entries.
    pub fn replace(&mut self, entries: Vec<Entry>) {
        self.entries = entries;
    }

    /// Takes all entries out.
    pub fn into_entries(self) -> Vec<Entry> {
        self.entries
    }

    /// Removes the oldest entry and, if that is a call or an output, its partner.
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

    /// Removes the last turns: everything from the `count`-th last real user message on.
    pub fn roll_back(&mut self, count: usize) {
        let starts: Vec<_> = self
            .entries
            .iter()
            .enumerate()
            .filter(|(_, entry)| is_turn_start(&entry.item))
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
        tokens(instructions.len() as u64) + items
    }

    /// Returns the estimated tokens that the server has not counted yet: outputs and developer
    /// messages at the end.
    pub fn estimate_uncounted(&self) -> u64 {
        let uncounted = |item: &&ResponseItem| match item {
            ResponseItem::FunctionCallOutput(_) | ResponseItem::CustomToolCallOutput(_) => true,
            ResponseItem::Message(message) => message.role == "developer",
            _ => false,
        };
        self.items().rev().take_while(uncounted).map(estimate_item).sum()
    }

    /// Returns the estimated tokens of thoughts before the last user message, which servers leave
    /// out of their count.
    pub fn estimate_past_reasoning(&self) -> u64 {
        let is_user = |entry: &Entry| entry.item.role() == Some("user");
        let Some(last_user) = self.entries.iter().rposition(is_user) else {
            return 0;
        };
        let thoughts = self.entries[..last_user].iter().map(|entry| match &entry.item {
            ResponseItem::Reasoning(it) => it.encrypted_content.as_deref().map_or(0, hidden_bytes),
            _ => 0,
        });
        tokens(thoughts.sum())
    }
}

/// Returns the estimated bytes of an encrypted text.
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
        other => serde_json::to_vec(other).map_or(0, |json| json.len() as u64),
    };
    tokens(bytes)
}

fn cut_output(
    mut entry: Entry,
    policy: TruncationPolicy,
    diagnostics: &mut Vec<Diagnostic>,
) -> Entry {
    let before = entry.item.text_bytes();
    let (call_id, changed) = match &mut entry.item {
        ResponseItem::FunctionCallOutput(it) => {
            let cut = match &it.output {
                FunctionOutput::Text(text) => {
                    truncate_middle(text, policy).map(FunctionOutput::Text)
                }
                FunctionOutput::Parts(parts) => {
                    truncate_parts(parts, policy).map(FunctionOutput::Parts)
                }
            };
            let changed = cut.is_some();
            it.output = cut.unwrap_or_else(|| std::mem::replace(&mut it.output, EMPTY));
            (&it.call_id, changed)
        }
        ResponseItem::CustomToolCallOutput(it) => {
            let cut = truncate_middle(&it.output, policy);
            let changed = cut.is_some();
            it.output = cut.unwrap_or_else(|| std::mem::take(&mut it.output));
            (&it.call_id, changed)
        }
        _ => return entry,
    };
    if changed {
        let message = format!("the output of {call_id} had {before} bytes and its middle was cut");
        let truncated = Diagnostic::new(diagnostics::OUTPUT_TRUNCATED, message);
        let lost = before.saturating_sub(entry.item.text_bytes());
        diagnostics.push(truncated.with_bytes(lost));
        entry.cut += lost;
    }
    entry
}

const EMPTY: FunctionOutput = FunctionOutput::Text(String::new());

#[cfg(test)]
mod tests;
