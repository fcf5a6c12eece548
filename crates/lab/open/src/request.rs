//! One request of a session with its texts, and the ledger of its window.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use convoke_protocol::agent_event::RequestPurpose;
use convoke_protocol::id::Millis;
use convoke_protocol::usage::Usage;
use convoke_protocol::window::{Grade, Part, Place, Role, Window};
use convoke_source::{Entry, EntryKind, FoundSession, Kept, Sink, SourceError};
use serde_json::{Value, json};

use crate::catalog::Catalog;
use crate::prices::{Charged, OwnPrices, cost};

/// The bytes of a token, where no provider has counted: the figure of ledgers.
const BYTES_PER_TOKEN: u64 = 4;

/// One request of a session.
#[derive(Debug, Clone)]
pub struct SentRequest {
    /// The number in the session, from 1, in the order of sending.
    pub number: u64,
    /// The number of requests in the session.
    pub total: u64,
    pub place: Place,
    pub at: Option<Millis>,
    /// The sub-agent that sent it.
    pub agent: Option<String>,
    pub purpose: RequestPurpose,
    pub model: Option<String>,
    pub window: Window,
    pub grade: Grade,
    pub missing: Vec<String>,
    pub usage: Option<Usage>,
    /// Of the tokens written to the cache, those that it keeps for an hour.
    pub cache_write_hour: u64,
    /// The service tier that was charged, if the provider named one.
    pub tier: Option<String>,
    pub status: Option<u16>,
}

/// Reads one request of a session with all its texts; `None` if it has fewer. A session is read twice: first to find the
/// request, because those of sub-agents are in files of their own.
pub fn read(
    catalog: &Catalog<'_>,
    session: &FoundSession,
    number: u64,
) -> Result<Option<SentRequest>, SourceError> {
    let mut order = Order::default();
    catalog.open(session, Kept::Figures)?.advance(&mut order)?;
    let total = order.0.len() as u64;
    let Some(wanted) = order.nth(number) else { return Ok(None) };
    let mut found = None;
    let mut sink = |entry: Entry<'_>| {
        if let EntryKind::Request(request) = &entry.kind
            && wanted == (entry.agent.map(str::to_owned), request.key)
        {
            found = Some(SentRequest {
                number,
                total,
                place: entry.place,
                at: entry.at,
                agent: entry.agent.map(str::to_owned),
                purpose: request.purpose,
                model: request.model.map(str::to_owned),
                window: request.window.clone(),
                grade: request.grade,
                missing: request.missing.clone(),
                usage: request.usage,
                cache_write_hour: request.cache_write_hour,
                tier: request.tier.map(str::to_owned),
                status: request.status,
            });
        }
        ControlFlow::Continue(())
    };
    catalog.open(session, Kept::All)?.advance(&mut sink)?;
    Ok(found)
}

/// The order in which requests were sent.
#[derive(Default)]
struct Order(BTreeMap<(Option<String>, u64), (Option<i64>, usize)>);

impl Order {
    fn nth(self, number: u64) -> Option<(Option<String>, u64)> {
        let mut requests: Vec<_> = self.0.into_iter().collect();
        requests.sort_by_key(|(_, order)| *order);
        let index = usize::try_from(number.checked_sub(1)?).ok()?;
        requests.into_iter().nth(index).map(|(key, _)| key)
    }
}

impl Sink for Order {
    fn take(&mut self, entry: Entry<'_>) -> ControlFlow<()> {
        if let EntryKind::Request(request) = entry.kind {
            let arrival = self.0.len();
            let key = (entry.agent.map(str::to_owned), request.key);
            let at = entry.at.map(|at| at.0);
            self.0.entry(key).and_modify(|it| it.0 = at).or_insert((at, arrival));
        }
        ControlFlow::Continue(())
    }
}

/// An entry of the ledger of a window: one part of it and where it came from.
#[derive(Debug, Clone)]
pub struct LedgerEntry<'w> {
    /// The number of the message, from 0; `None` for a system text, a tool and the remainder.
    pub message: Option<usize>,
    /// The number of the part in its message.
    pub part: usize,
    pub section: &'static str,
    /// What distinguishes the part from others of its section.
    pub title: String,
    pub source: &'static str,
    pub place: Option<&'w Place>,
    pub how: &'static str,
    pub bytes: u64,
    /// The tokens, estimated from the bytes; those of the remainder are the provider's.
    pub tokens: u64,
}

impl SentRequest {
    /// Returns what it cost in dollars at API prices; `None` if it was not counted or its price is unknown.
    pub fn cost(&self, provider: Option<&str>, own: &OwnPrices) -> Option<f64> {
        let charged = Charged {
            provider,
            model: self.model.as_deref().unwrap_or_default(),
            usage: self.usage?,
            cache_write_hour: self.cache_write_hour,
            tier: self.tier.as_deref(),
            at: self.at,
        };
        cost(&charged, own)
    }

    /// Returns the ledger of the window: an entry for each part, and the remainder to the provider's count.
    pub fn ledger(&self) -> Vec<LedgerEntry<'_>> {
        let how = if self.grade == Grade::Exact { "logged" } else { "matched" };
        let entry = |section, title, source, bytes| LedgerEntry {
            message: None,
            part: 0,
            section,
            title,
            source,
            place: None,
            how,
            bytes,
            tokens: u64::div_ceil(bytes, BYTES_PER_TOKEN),
        };
        let mut entries = Vec::new();
        for (index, text) in self.window.system.iter().enumerate() {
            let title = format!("system text {}", index + 1);
            let system = entry("system", title, "program", text.what.bytes);
            entries.push(LedgerEntry { part: index, place: Some(&text.place), ..system });
        }
        for (message, (role, parts)) in self.window.messages().enumerate() {
            for (index, part) in parts.iter().enumerate() {
                let (source, title) = described(role, &part.part.what);
                let found = entry(role.as_str(), title, source, part.part.what.bytes());
                let (message, place) = (Some(message), Some(&part.part.place));
                entries.push(LedgerEntry { message, part: index, place, ..found });
            }
        }
        if let Some(usage) = self.usage {
            let known: u64 = entries.iter().map(|entry| entry.tokens).sum();
            let tokens = usage.input.saturating_sub(known);
            let title = if self.window.tools.is_empty() && self.grade != Grade::Exact {
                "not in the files: system text and tools"
            } else {
                "tools and their descriptions"
            };
            let remainder = entry("remainder", title.to_owned(), "program", 0);
            entries.push(LedgerEntry { tokens, how: "remainder", ..remainder });
        }
        entries
    }

    /// Returns the ledger as JSON.
    pub fn ledger_json(&self) -> Value {
        let entries = self.ledger().into_iter().map(|entry| {
            let mut source = json!({ "kind": entry.source, "how": entry.how });
            if let Some(place) = entry.place {
                source["at"] = json!(place);
            }
            let mut value = json!({
                "section": entry.section, "title": entry.title, "source": source, "state": "kept",
                "keptBytes": entry.bytes, "tokensEstimate": entry.tokens,
            });
            if let Some(message) = entry.message {
                value["range"] = json!({
                    "message": message, "part": entry.part, "from": 0, "to": entry.bytes,
                });
            }
            value
        });
        json!({ "version": 2, "grade": self.grade, "entries": entries.collect::<Vec<_>>() })
    }
}

fn described(role: Role, part: &Part) -> (&'static str, String) {
    let begun = |text: &Option<Box<str>>| {
        let text = text.as_deref().unwrap_or_default();
        let line = text.lines().map(str::trim).find(|line| !line.is_empty());
        line.unwrap_or_default().chars().take(80).collect::<String>()
    };
    match part {
        Part::Text(text) if role == Role::Assistant => ("model", begun(&text.text)),
        Part::Text(text) if role == Role::User => ("message", begun(&text.text)),
        Part::Text(text) => ("program", begun(&text.text)),
        Part::Call { name, .. } => ("model", format!("calls {name}")),
        Part::Result(text) => ("tool", begun(&text.text)),
        Part::Thinking(_) => ("model", "reasoning".to_owned()),
        Part::Image(_) => ("message", "image".to_owned()),
    }
}
