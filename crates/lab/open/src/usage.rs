//! The tokens of all sessions, each response counted once.
//!
//! Forks and resumed sessions repeat responses of earlier ones: a response with the id of one that was counted before does
//! not count again. Sessions are counted in the order of their first request, so that a response belongs to the session in
//! which it was made.

use std::collections::{BTreeMap, HashSet};
use std::hash::BuildHasher as _;
use std::ops::ControlFlow;
use std::sync::Arc;

use convoke_protocol::id::Millis;
use convoke_protocol::usage::Usage;
use convoke_source::{Entry, EntryKind, FoundSession, Kept, Sink, SourceError, requests};
use foldhash::fast::FixedState;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::{Value, json};

use crate::catalog::{Catalog, Readers};
use crate::index::{Index, IndexError};
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
    pub session: Arc<str>,
    pub project: Option<Arc<str>>,
    pub model: Option<Arc<str>>,
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

/// Counts the tokens of sessions. With an index, only those are read that have changed.
pub fn count(
    catalog: &Catalog<'_>,
    sessions: &[FoundSession],
    index: Option<&mut Index>,
    query: &Query,
) -> Result<Table, IndexError> {
    let (counted, problems) = responses(catalog, sessions, index)?;
    let mut table = table(counted, query);
    table.problems = problems;
    table.sessions = sessions.len();
    Ok(table)
}

/// Returns the responses of sessions.
pub fn responses(
    catalog: &Catalog<'_>,
    sessions: &[FoundSession],
    index: Option<&mut Index>,
) -> Result<(Vec<Vec<Counted>>, Vec<SourceError>), IndexError> {
    let Catalog { readers, prices, .. } = catalog;
    if let Some(index) = index {
        return index.responses(readers, sessions, prices);
    }
    let mut problems = Vec::new();
    let read = parallel::map(sessions, |session| read(readers, session, prices));
    let counted = read.into_iter().map(|result| {
        result.unwrap_or_else(|(counted, problem)| {
            problems.push(problem);
            counted
        })
    });
    Ok((counted.collect(), problems))
}

/// Adds up the responses of sessions.
pub fn table(mut counted: Vec<Vec<Counted>>, query: &Query) -> Table {
    counted
        .sort_by_key(|session: &Vec<Counted>| session.first().and_then(|it| it.at.map(|at| at.0)));
    fold(counted.into_iter().flatten(), query)
}

/// Reads the responses of a session. If it cannot be read to its end, those before that are returned too.
pub(crate) fn read(
    readers: &Readers,
    session: &FoundSession,
    own: &OwnPrices,
) -> Result<Vec<Counted>, (Vec<Counted>, SourceError)> {
    let mut counter = Counter {
        session,
        name: session.id.as_str().into(),
        provider: readers.provider(session),
        own,
        counted: Vec::new(),
        cwd: session.cwd.as_deref().map(Arc::from),
        model: None,
        has_own_cwd: false,
    };
    let read = readers.open(session, Kept::Figures).and_then(|mut it| it.advance(&mut counter));
    match read {
        Ok(()) => Ok(counter.counted),
        Err(problem) => Err((counter.counted, problem)),
    }
}

struct Counter<'c> {
    session: &'c FoundSession,
    name: Arc<str>,
    provider: Option<&'static str>,
    own: &'c OwnPrices,
    counted: Vec<Counted>,
    cwd: Option<Arc<str>>,
    /// Whether the session itself has told its directory.
    has_own_cwd: bool,
    /// The model of the last request.
    model: Option<Arc<str>>,
}

impl Sink for Counter<'_> {
    fn take(&mut self, entry: Entry<'_>) -> ControlFlow<()> {
        match entry.kind {
            EntryKind::Facts(facts) if !self.has_own_cwd && facts.cwd.is_some() => {
                self.cwd = facts.cwd.map(Arc::from);
                self.has_own_cwd = true;
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
                if self.model.as_deref() != request.model {
                    self.model = request.model.map(Arc::from);
                }
                self.counted.push(Counted {
                    agent: self.session.program,
                    session: self.name.clone(),
                    project: self.cwd.clone(),
                    model: self.model.clone(),
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
    FixedState::with_seed(0).hash_one(text)
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
        By::Model => response.model.as_deref().map_or_else(unknown, str::to_owned),
        By::Project => response.project.as_deref().map_or_else(unknown, str::to_owned),
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
