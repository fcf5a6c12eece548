//! The totals of a run: bytes, tokens and requests by member, and diagnostics.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::time::Duration;

use convoke_core::{Code, Diagnostic};
use convoke_protocol::agent_event::AgentEventKind;
use convoke_protocol::event::EventKind;
use convoke_protocol::id::{MemberName, TurnId};
use convoke_protocol::turn::TurnState;
use convoke_session::diagnostics::MARKER_UNRESOLVED;
use serde::Serialize;

use crate::figures::{count, number, percent};

/// The totals of a run.
#[derive(Debug, Default)]
pub(super) struct Totals {
    pub(super) members: Vec<MemberTotals>,
    pub(super) diagnostics: BTreeMap<Code, DiagnosticTotal>,
    pub(super) messages: u64,
    /// Whether the newest message calls no member.
    has_no_recipient: bool,
    /// The names in markers of messages that call no member.
    unknown_calls: u64,
    /// The bytes and estimated tokens sent to running turns.
    running: HashMap<TurnId, (u64, u64)>,
}

/// The totals of one member.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct MemberTotals {
    pub(super) member: MemberName,
    /// The number of attempts.
    pub(super) turns: u64,
    /// The number of turns with a reply.
    pub(super) done: u64,
    /// The bytes of prompts and system texts.
    pub(super) sent_bytes: u64,
    /// The same in tokens, estimated.
    pub(super) sent_tokens_estimate: u64,
    /// The tokens that the agent counted.
    pub(super) counted_tokens: Option<CountedTokens>,
    /// The requests to its model, if Convoke sent them.
    pub(super) requests: Option<Requests>,
    /// The cost that the agent reported.
    pub(super) cost_usd: Option<f64>,
    #[serde(rename = "elapsedMs", with = "convoke_protocol::milliseconds")]
    pub(super) elapsed: Duration,
}

impl MemberTotals {
    /// Returns the bytes of its requests, if Convoke sent them, else of its prompts.
    pub(super) fn bytes(&self) -> u64 {
        self.requests.map_or(self.sent_bytes, |requests| requests.bytes)
    }
}

/// Token counts of an agent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(super) struct CountedTokens {
    /// The number of counted turns.
    pub(super) turns: u64,
    pub(super) input: u64,
    /// The input tokens read from a cache.
    pub(super) cached: u64,
    pub(super) output: u64,
}

/// Requests to a model.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Requests {
    pub(super) count: u64,
    pub(super) bytes: u64,
    /// The length of the prefix shared with the previous request: the most that a cache can serve.
    pub(super) unchanged_bytes: u64,
}

impl Requests {
    /// Counts a request.
    pub(super) fn add(&mut self, bytes: u64, unchanged_bytes: u64) {
        self.count += 1;
        self.bytes += bytes;
        self.unchanged_bytes += unchanged_bytes;
    }
}

impl Requests {
    /// Returns the sum.
    pub(super) fn plus(self, other: Self) -> Self {
        Self {
            count: self.count + other.count,
            bytes: self.bytes + other.bytes,
            unchanged_bytes: self.unchanged_bytes + other.unchanged_bytes,
        }
    }
}

impl fmt::Display for Requests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { count: many, bytes, unchanged_bytes } = *self;
        let (requests, sent) = (count(many, "request"), number(bytes));
        let (unchanged, share) = (number(unchanged_bytes), percent(unchanged_bytes, bytes));
        write!(f, "{requests}, {sent} bytes, {unchanged} of them unchanged ({share})")
    }
}

/// The count of a diagnostic, and its first message.
#[derive(Debug)]
pub(super) struct DiagnosticTotal {
    pub(super) count: u64,
    pub(super) first: String,
}

impl Totals {
    /// Records an event.
    pub(super) fn note(&mut self, event: &EventKind) {
        match event {
            EventKind::Message(message) => {
                self.messages += 1;
                self.has_no_recipient = message.message.addressees().is_empty();
            }
            EventKind::TurnStarted { turn, member, prompt, system, tokens_estimate, .. } => {
                let bytes = prompt.bytes + system.map_or(0, |system| system.bytes);
                self.running.insert(*turn, (bytes, *tokens_estimate));
                let totals = self.member(member);
                totals.turns += 1;
                totals.sent_bytes += bytes;
                totals.sent_tokens_estimate += tokens_estimate;
            }
            EventKind::TurnEnded { turn, member, state, result, elapsed, .. } => {
                let (bytes, tokens) = self.running.remove(turn).unwrap_or_default();
                let totals = self.member(member);
                if !result.verdict.is_sent() {
                    totals.sent_bytes -= bytes;
                    totals.sent_tokens_estimate -= tokens;
                }
                totals.done += u64::from(*state == TurnState::Done);
                totals.elapsed += *elapsed;
                if let Some(usage) = result.usage {
                    let counted = totals.counted_tokens.get_or_insert_default();
                    counted.turns += 1;
                    counted.input = counted.input.saturating_add(usage.input);
                    counted.cached = counted.cached.saturating_add(usage.cached);
                    counted.output = counted.output.saturating_add(usage.output);
                }
                if let Some(cost) = result.cost_usd {
                    *totals.cost_usd.get_or_insert(0.0) += cost;
                }
            }
            EventKind::Diagnostic { diagnostic, .. } => self.remark(diagnostic),
            EventKind::Agent { event, member, .. } => match &event.kind {
                AgentEventKind::Warning(diagnostic) => self.remark(diagnostic),
                AgentEventKind::Request { bytes, unchanged_bytes, .. } => {
                    let requests = self.member(member).requests.get_or_insert_default();
                    requests.add(*bytes, *unchanged_bytes);
                }
                _ => {}
            },
            _ => {}
        }
    }

    fn remark(&mut self, diagnostic: &Diagnostic) {
        // The diagnostics of a message come right after it.
        if diagnostic.code == MARKER_UNRESOLVED
            && matches!(diagnostic.section.as_deref(), None | Some("NEXT"))
            && self.has_no_recipient
        {
            self.unknown_calls += 1;
        }
        let first = || DiagnosticTotal { count: 0, first: diagnostic.message.clone() };
        self.diagnostics.entry(diagnostic.code.clone()).or_insert_with(first).count += 1;
    }

    /// Returns the code of every diagnostic, duplicates included.
    pub(super) fn given(&self) -> impl Iterator<Item = Code> {
        self.diagnostics
            .iter()
            .flat_map(|(code, totals)| (0..totals.count).map(move |_| code.clone()))
    }

    /// Returns the number of attempts of all members.
    pub(super) fn turns(&self) -> u64 {
        self.members.iter().map(|member| member.turns).sum()
    }

    /// Returns whether messages were sent but none called a member.
    pub(super) fn has_reached_no_member(&self) -> bool {
        (self.turns() == 0 && self.messages > 0) || self.unknown_calls > 0
    }

    fn member(&mut self, member: &MemberName) -> &mut MemberTotals {
        let index = self.members.iter().position(|totals| totals.member == *member);
        let index = index.unwrap_or_else(|| {
            self.members.push(MemberTotals {
                member: member.clone(),
                turns: 0,
                done: 0,
                sent_bytes: 0,
                sent_tokens_estimate: 0,
                counted_tokens: None,
                requests: None,
                cost_usd: None,
                elapsed: Duration::ZERO,
            });
            self.members.len() - 1
        });
        &mut self.members[index]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_whose_recipients_are_unknown_reaches_no_member() {
        let mut totals = Totals { has_no_recipient: true, ..Totals::default() };
        totals.remark(&Diagnostic::new(MARKER_UNRESOLVED, "no member has the name `x`"));
        assert!(totals.has_reached_no_member());
    }
}
