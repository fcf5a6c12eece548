//! Makes a history acceptable to the API: every call gets an output, and every output has a call.

use std::borrow::Cow;
use std::collections::HashSet;

use convoke_core::diagnostic::Diagnostic;
use convoke_core::ledger;

use super::{Entry, Origin, Section};
use crate::diagnostics;
use crate::item::{CustomToolCallOutput, ResponseItem};

const ABORTED: &str = "aborted";

/// An item of a request.
#[derive(Debug, Clone)]
pub struct SentItem<'a> {
    pub item: Cow<'a, ResponseItem>,
    pub origin: Cow<'a, Origin>,
    /// Whether the item was restored from an earlier turn.
    pub is_restored: bool,
}

impl SentItem<'_> {
    /// Returns the entries that cover the texts of the item.
    pub(crate) fn entries(&self) -> Vec<ledger::Entry<'static>> {
        self.origin.entries(&self.item)
    }
}

/// The pairing of calls and outputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Pairing<'a> {
    Function(&'a str),
    Custom(&'a str),
}

/// Returns the items to send, in one pass over the history.
pub fn normalize<'a>(entries: &'a [Entry], diagnostics: &mut Vec<Diagnostic>) -> Vec<SentItem<'a>> {
    let calls: HashSet<_> = entries.iter().filter_map(|it| expects(&it.item)).collect();
    let outputs: HashSet<_> = entries.iter().filter_map(|it| answers(&it.item)).collect();
    let mut sent = Vec::with_capacity(entries.len());
    for entry in entries {
        if matches!(entry.item, ResponseItem::GhostSnapshot(_)) {
            continue;
        }
        if let Some(pairing) = answers(&entry.item)
            && !calls.contains(&pairing)
        {
            let (Pairing::Function(id) | Pairing::Custom(id)) = pairing;
            let message = format!("the output of {id} has no call before it and is not sent");
            diagnostics.push(Diagnostic::new(diagnostics::OUTPUT_ORPHANED, message));
            continue;
        }
        sent.push(SentItem {
            item: Cow::Borrowed(&entry.item),
            origin: Cow::Borrowed(&entry.origin),
            is_restored: entry.is_restored,
        });
        if let Some(pairing) = expects(&entry.item)
            && !outputs.contains(&pairing)
        {
            let (Pairing::Function(id) | Pairing::Custom(id)) = pairing;
            let message = format!("the call {id} has no output; `{ABORTED}` is sent");
            diagnostics.push(Diagnostic::new(diagnostics::OUTPUT_MISSING, message));
            sent.push(SentItem {
                item: Cow::Owned(aborted(pairing)),
                origin: Cow::Owned(Origin::Section(Section::MissingOutput)),
                is_restored: false,
            });
        }
    }
    sent
}

/// Returns whether one item is a call and the other its output.
pub(super) fn are_partners(one: &ResponseItem, other: &ResponseItem) -> bool {
    let call_and_output = |call, output| {
        let expected = expects(call);
        expected.is_some() && expected == answers(output)
    };
    call_and_output(one, other) || call_and_output(other, one)
}

fn expects(item: &ResponseItem) -> Option<Pairing<'_>> {
    match item {
        ResponseItem::FunctionCall(call) => Some(Pairing::Function(&call.call_id)),
        ResponseItem::LocalShellCall(call) => call.call_id.as_deref().map(Pairing::Function),
        ResponseItem::CustomToolCall(call) => Some(Pairing::Custom(&call.call_id)),
        _ => None,
    }
}

fn answers(item: &ResponseItem) -> Option<Pairing<'_>> {
    match item {
        ResponseItem::FunctionCallOutput(output) => Some(Pairing::Function(&output.call_id)),
        ResponseItem::CustomToolCallOutput(output) => Some(Pairing::Custom(&output.call_id)),
        _ => None,
    }
}

fn aborted(pairing: Pairing<'_>) -> ResponseItem {
    match pairing {
        Pairing::Function(id) => ResponseItem::function_output(id, ABORTED),
        Pairing::Custom(id) => ResponseItem::CustomToolCallOutput(CustomToolCallOutput {
            call_id: id.to_owned(),
            output: ABORTED.to_owned(),
        }),
    }
}
