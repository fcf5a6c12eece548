//! The limits on a response, for both wires.

use convoke_thread::item::ResponseItem;

use super::strings::{StringKind, each_string};
use crate::client::CallError;

/// The maximum number of tool calls in a response.
pub(super) const MAX_CALLS: usize = 256;
/// The maximum number of items in a response, and of strings in all items together.
const MAX_ITEMS: usize = 1024;
const MAX_STRINGS: usize = 1 << 16;
/// The maximum length of an id or name.
const MAX_NAME_LENGTH: usize = 256;

/// The remaining room for the items of a response.
#[derive(Debug)]
pub(super) struct ResponseRoom {
    limit: usize,
    items: usize,
    calls: usize,
    strings: usize,
    messages: usize,
    reasoning: usize,
    others: usize,
}

impl ResponseRoom {
    /// Creates room for `limit` bytes of messages, of reasoning, and of everything else, each.
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            items: MAX_ITEMS,
            calls: MAX_CALLS,
            strings: MAX_STRINGS,
            messages: limit,
            reasoning: limit,
            others: limit,
        }
    }

    /// Returns the remaining bytes for messages.
    pub fn for_text(&self) -> usize {
        self.messages
    }

    /// Admits an item: cuts its texts to the remaining room, and returns the number of bytes cut. Fails for
    /// calls, ids and names, whose meaning a cut would change.
    pub fn admit(&mut self, item: &mut ResponseItem) -> Result<u64, CallError> {
        take(&mut self.items, 1).ok_or_else(|| too_many("items", MAX_ITEMS))?;
        if item.is_tool_call() {
            take(&mut self.calls, 1).ok_or_else(|| too_many("tool calls", MAX_CALLS))?;
        }
        let mut cut = 0;
        let mut failure = None;
        each_string(item, &mut |kind, text| {
            let admitted = match kind {
                StringKind::Message => Ok(cut_to(text, &mut self.messages)),
                StringKind::Reasoning => Ok(cut_to(text, &mut self.reasoning)),
                StringKind::Name => expect_short(text).map(|()| 0),
                StringKind::Other => {
                    let room = take(&mut self.others, text.len());
                    room.map(|()| 0).ok_or(CallError::Flood(self.limit as u64))
                }
            };
            let strings = take(&mut self.strings, 1);
            let strings = strings.ok_or_else(|| too_many("strings", MAX_STRINGS));
            match strings.and(admitted) {
                Ok(bytes) => cut += bytes,
                Err(error) => failure = failure.take().or(Some(error)),
            }
        });
        failure.map_or(Ok(cut), Err)
    }

    /// Admits more bytes of a call's arguments.
    pub fn admit_arguments(&mut self, bytes: usize) -> Result<(), CallError> {
        take(&mut self.others, bytes).ok_or(CallError::Flood(self.limit as u64))
    }
}

/// Rejects an id or a name over the limit.
pub(super) fn expect_short(name: &str) -> Result<(), CallError> {
    if name.len() <= MAX_NAME_LENGTH {
        return Ok(());
    }
    let bytes = name.len();
    Err(CallError::OverLimit(format!(
        "an id or name has {bytes} bytes; the limit is {MAX_NAME_LENGTH}"
    )))
}

/// Returns the name of a model, cut to its limit; `None` if empty.
pub(super) fn model(name: &str) -> Option<String> {
    let name = &name[..name.floor_char_boundary(MAX_NAME_LENGTH)];
    (!name.is_empty()).then(|| name.to_owned())
}

fn too_many(things: &str, most: usize) -> CallError {
    CallError::OverLimit(format!("it has more than {most} {things}"))
}

fn take(room: &mut usize, amount: usize) -> Option<()> {
    *room = room.checked_sub(amount)?;
    Some(())
}

fn cut_to(text: &mut String, room: &mut usize) -> u64 {
    let kept = text.floor_char_boundary(*room);
    let cut = (text.len() - kept) as u64;
    text.truncate(kept);
    // Nothing may follow a cut.
    *room = if cut > 0 { 0 } else { *room - kept };
    cut
}
