//! What a list shows of a session.

use std::ops::ControlFlow;

use convoke_protocol::id::Millis;
use convoke_protocol::usage::Usage;
use convoke_source::{Entry, EntryKind, FoundSession, Kept, Sink, SourceError, requests};
use serde_json::{Value, json};

use crate::catalog::Catalog;
use crate::prices::{Charged, Cost, OwnPrices, cost};

/// The maximum number of characters of a title.
const MAX_TITLE: usize = 200;

/// What a list shows of a session, gathered from its entries.
#[derive(Debug, Clone, Default)]
pub struct Summary {
    /// The first message of the person.
    pub title: Option<String>,
    /// The title that the program or a person gave the session.
    pub given_title: Option<String>,
    /// The model of the last request.
    pub model: Option<String>,
    pub version: Option<String>,
    pub cwd: Option<String>,
    pub branch: Option<String>,
    pub began_at: Option<Millis>,
    pub ended_at: Option<Millis>,
    /// The number of the person's messages.
    pub messages: u64,
    pub requests: u64,
    /// The tokens that the provider counted; `None` if it counted none.
    pub usage: Option<Usage>,
    pub cost: Cost,
    pub compactions: u64,
}

/// Gathers a summary.
pub struct Summarizer<'p> {
    pub summary: Summary,
    /// The provider of the program's models, if it has one.
    pub provider: Option<&'static str>,
    pub prices: &'p OwnPrices,
}

/// Reads the summary of a session.
pub fn read(catalog: &Catalog<'_>, session: &FoundSession) -> Result<Summary, SourceError> {
    let (provider, prices) = (catalog.provider(session), &catalog.prices);
    let mut summarizer = Summarizer { summary: Summary::default(), provider, prices };
    catalog.open(session, Kept::Said)?.advance(&mut summarizer)?;
    Ok(summarizer.summary)
}

impl Sink for Summarizer<'_> {
    fn take(&mut self, entry: Entry<'_>) -> ControlFlow<()> {
        let summary = &mut self.summary;
        if let Some(at) = entry.at {
            summary.began_at = Some(summary.began_at.map_or(at, |began| began.min(at)));
            summary.ended_at = Some(summary.ended_at.map_or(at, |ended| ended.max(at)));
        }
        match entry.kind {
            EntryKind::Facts(facts) if entry.agent.is_none() => {
                let set = |to: &mut Option<String>, value: Option<&str>| {
                    if let Some(value) = value {
                        *to = Some(value.to_owned());
                    }
                };
                set(&mut summary.version, facts.version);
                if summary.cwd.is_none() {
                    set(&mut summary.cwd, facts.cwd);
                }
                set(&mut summary.branch, facts.branch);
                set(&mut summary.given_title, facts.title);
                set(&mut summary.model, facts.model);
            }
            EntryKind::Person { text } if entry.agent.is_none() => {
                summary.messages += 1;
                if summary.title.is_none() {
                    summary.title = title(text);
                }
            }
            EntryKind::Compacted { .. } => summary.compactions += 1,
            EntryKind::Request(request) => {
                summary.requests += 1;
                if entry.agent.is_none() {
                    summary.model =
                        request.model.map(str::to_owned).or_else(|| summary.model.take());
                }
                let Some(usage) = request.usage else { return ControlFlow::Continue(()) };
                summary.usage = Some(summary.usage.unwrap_or_default().and(usage));
                let charged = Charged {
                    provider: self.provider,
                    model: request.model.unwrap_or_default(),
                    usage,
                    cache_write_hour: request.cache_write_hour,
                    tier: request.tier,
                    at: entry.at,
                };
                summary.cost.add(cost(&charged, self.prices));
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

impl Summary {
    /// Returns the JSON form, with the facts of the found session.
    pub fn to_json(&self, found: &FoundSession) -> Value {
        json!({
            "agent": found.program,
            "id": found.id,
            "path": found.path.to_string_lossy(),
            "cwd": self.cwd.as_ref().or(found.cwd.as_ref()),
            "title": self.title.as_ref().or(self.given_title.as_ref()),
            "model": self.model,
            "version": self.version,
            "branch": self.branch,
            "createdAt": self.began_at,
            "updatedAt": self.ended_at.unwrap_or(found.changed_at),
            "messages": self.messages,
            "requests": self.requests,
            "usage": self.usage.map(requests::usage),
            "cost": self.cost.to_json(),
            "compactions": self.compactions,
        })
    }
}

/// Returns the title that a message gives: its first line with words, in one line and bounded.
pub fn title(message: &str) -> Option<String> {
    let line = message.lines().map(str::trim).find(|line| !line.is_empty())?;
    let words = line.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut title: String = words.chars().filter(|c| !c.is_control()).take(MAX_TITLE).collect();
    if words.chars().count() > MAX_TITLE {
        title.push('…');
    }
    Some(title)
}
