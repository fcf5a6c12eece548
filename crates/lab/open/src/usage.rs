//! The tokens of all sessions, each response counted once.
//!
//! Forks and resumed sessions repeat responses of earlier ones: a response with the id of one that was counted before does
//! not count again. Sessions are counted in the order of their first request, so that a response belongs to the session in
//! which it was made.

use std::collections::{BTreeMap, HashSet};
use std::ops::ControlFlow;

use convoke_protocol::id::Millis;
use convoke_protocol::usage::Usage;
use convoke_source::{
    Entry, EntryKind, FoundSession, Kept, SessionSource, Sink, SourceError, requests,
};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::{Value, json};

use crate::catalog::Catalog;
use crate::parallel;
use crate::prices::{Charged, Cost, OwnPrices, TABLE, cost};

/// What the tokens are grouped by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum By {
    Day,
    Week,
    Month,
    Agent,
    Model,
    Project,
    Session,
}

impl By {
    /// Returns the name of the field in a row.
    pub const fn field(self) -> &'static str {
        match self {
            Self::Day => "day",
            Self::Week => "week",
            Self::Month => "month",
            Self::Agent => "agent",
            Self::Model => "model",
            Self::Project => "project",
            Self::Session => "session",
        }
    }
}

/// What is counted, and how.
#[derive(Debug, Clone)]
pub struct Query {
    pub by: Vec<By>,
    /// The first moment that counts.
    pub since: Option<Millis>,
    /// The first moment that does not count any more.
    pub until: Option<Millis>,
    /// The zone in which days begin.
    pub zone: TimeZone,
}

/// A response that a provider counted.
#[derive(Debug, Clone)]
pub struct Counted {
    pub agent: &'static str,
    pub session: String,
    pub project: Option<String>,
    pub model: Option<String>,
    /// The hash of the response's id.
    pub answer: Option<u64>,
    pub at: Option<Millis>,
    pub usage: Usage,
    pub cost: Option<f64>,
}

/// The tokens of one group.
#[derive(Debug, Clone, Default)]
pub struct Row {
    /// The values of the fields that it is grouped by.
    pub key: Vec<String>,
    pub requests: u64,
    pub usage: Usage,
    pub cost: Cost,
}

/// The counted tokens.
#[derive(Debug, Default)]
pub struct Table {
    pub rows: Vec<Row>,
    pub total: Row,
    /// The number of sessions that were read.
    pub sessions: usize,
    pub problems: Vec<SourceError>,
}

/// Counts the tokens of sessions.
pub fn count(
    catalog: &Catalog<'_>,
    sessions: &[FoundSession],
    own: &OwnPrices,
    query: &Query,
) -> Table {
    let (mut counted, problems) = read(&catalog.sources, sessions, own);
    counted
        .sort_by_key(|session: &Vec<Counted>| session.first().and_then(|it| it.at.map(|at| at.0)));
    let mut table = fold(counted.into_iter().flatten(), query);
    table.problems = problems;
    table.sessions = sessions.len();
    table
}

/// Reads the responses of sessions.
fn read(
    sources: &[&'static dyn SessionSource],
    sessions: &[FoundSession],
    own: &OwnPrices,
) -> (Vec<Vec<Counted>>, Vec<SourceError>) {
    let results = parallel::map(sessions, |session| {
        let source = sources.iter().find(|source| source.program() == session.program);
        let provider = source.and_then(|source| source.provider());
        let mut counter = Counter { session, provider, own, counted: Vec::new(), cwd: None };
        let read = source.map(|source| source.open(session, Kept::Figures)?.advance(&mut counter));
        (counter.counted, read.and_then(Result::err))
    });
    let (counted, problems): (Vec<_>, Vec<_>) = results.into_iter().unzip();
    (counted, problems.into_iter().flatten().collect())
}

struct Counter<'c> {
    session: &'c FoundSession,
    provider: Option<&'static str>,
    own: &'c OwnPrices,
    counted: Vec<Counted>,
    cwd: Option<String>,
}

impl Sink for Counter<'_> {
    fn take(&mut self, entry: Entry<'_>) -> ControlFlow<()> {
        match entry.kind {
            EntryKind::Facts(facts) if self.cwd.is_none() => {
                self.cwd = facts.cwd.map(str::to_owned);
            }
            EntryKind::Request(request) => {
                let Some(usage) = request.usage else { return ControlFlow::Continue(()) };
                let charged = Charged {
                    provider: self.provider,
                    model: request.model.unwrap_or_default(),
                    usage,
                    cache_write_hour: request.cache_write_hour,
                    tier: request.tier,
                    at: entry.at,
                };
                self.counted.push(Counted {
                    agent: self.session.program,
                    session: self.session.id.clone(),
                    project: self.cwd.clone().or_else(|| self.session.cwd.clone()),
                    model: request.model.map(str::to_owned),
                    answer: request.answer_id.map(hash),
                    at: entry.at,
                    usage,
                    cost: cost(&charged, self.own),
                });
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

fn hash(text: &str) -> u64 {
    use std::hash::{DefaultHasher, Hash as _, Hasher as _};
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

/// Adds up responses.
pub fn fold(counted: impl IntoIterator<Item = Counted>, query: &Query) -> Table {
    let mut seen = HashSet::new();
    let mut rows: BTreeMap<Vec<String>, Row> = BTreeMap::new();
    let mut total = Row::default();
    for response in counted {
        let is_repeated = response.answer.is_some_and(|id| !seen.insert((response.agent, id)));
        let is_early = query.since.is_some_and(|since| response.at.is_some_and(|at| at < since));
        let is_late = query.until.is_some_and(|until| response.at.is_some_and(|at| at >= until));
        if is_repeated || is_early || is_late {
            continue;
        }
        let key: Vec<String> = query.by.iter().map(|by| value(*by, &response, query)).collect();
        for row in
            [rows.entry(key.clone()).or_insert_with(|| Row { key, ..Row::default() }), &mut total]
        {
            row.requests += 1;
            row.usage = row.usage.and(response.usage);
            row.cost.add(response.cost);
        }
    }
    Table { rows: rows.into_values().collect(), total, sessions: 0, problems: Vec::new() }
}

fn value(by: By, response: &Counted, query: &Query) -> String {
    let unknown = || "unknown".to_owned();
    let formatted = |format| {
        let at = response.at.and_then(|at| Timestamp::from_millisecond(at.0).ok());
        at.map_or_else(unknown, |at| at.to_zoned(query.zone.clone()).strftime(format).to_string())
    };
    match by {
        By::Day => formatted("%Y-%m-%d"),
        By::Week => formatted("%G-W%V"),
        By::Month => formatted("%Y-%m"),
        By::Agent => response.agent.to_owned(),
        By::Model => response.model.clone().unwrap_or_else(unknown),
        By::Project => response.project.clone().unwrap_or_else(unknown),
        By::Session => format!("{}:{}", response.agent, response.session),
    }
}

impl Table {
    /// Returns the JSON form.
    pub fn to_json(&self, by: &[By]) -> Value {
        let rows: Vec<Value> = self.rows.iter().map(|row| row.to_json(by)).collect();
        json!({ "rows": rows, "total": self.total.to_json(&[]), "prices": TABLE })
    }
}

impl Row {
    fn to_json(&self, by: &[By]) -> Value {
        let mut value = json!({
            "requests": self.requests, "usage": requests::usage(self.usage),
            "cost": self.cost.to_json(),
        });
        for (by, key) in by.iter().zip(&self.key) {
            value[by.field()] = json!(key);
        }
        value
    }
}
