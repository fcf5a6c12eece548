//! The sessions of other programs, for the page.

use std::collections::{BTreeMap, HashMap};
use std::error::Error;
use std::fs;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::UNIX_EPOCH;

use convoke_open::prices::TABLE;
use convoke_open::summary::{self, Summary};
use convoke_open::usage::{self, By, Query};
use convoke_open::{Catalog, FindError, request};
use convoke_protocol::id::Millis;
use convoke_server::OtherSessions;
use convoke_server::other_sessions::{
    FileState, ListedOther, OtherFilter, OtherList, OtherName, OtherSession, PageEnds,
    PricedRequest, ReadError, TextName, UsageFigures, UsageRow,
};
use convoke_source::{FoundSession, Kept, SourceError};
use jiff::tz::TimeZone;

use super::transcript::{Transcript, WholeText};
use crate::other_programs::{HomeArgument, open_index, with_catalog};

/// The maximum number of summaries that are kept.
const MAX_KEPT: usize = 5_000;

/// The sessions of other programs in a home, and one that was named by its path.
#[derive(Default)]
pub(in crate::commands) struct Others {
    home: HomeArgument,
    /// A session that may be outside the home.
    named: Option<FoundSession>,
    kept: Mutex<KeptReadings>,
}

/// What was read and is used again while the files are the same.
#[derive(Default)]
struct KeptReadings {
    summaries: HashMap<OtherName, (FileState, Arc<Summary>)>,
    /// The last request: its parts are loaded one after the other.
    request: Option<(OtherName, u64, FileState, Arc<PricedRequest>)>,
    /// Where the session that a page shows was found.
    found: Option<(OtherName, FoundSession)>,
}

impl Others {
    pub(in crate::commands) fn new(home: HomeArgument, named: Option<FoundSession>) -> Self {
        Self { home, named, kept: Mutex::default() }
    }

    fn kept(&self) -> MutexGuard<'_, KeptReadings> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls a function with the catalog.
    fn with<T>(
        &self,
        work: impl FnOnce(&Catalog<'_>) -> Result<T, ReadError>,
    ) -> Result<T, ReadError> {
        let mut result = None;
        with_catalog(&self.home, |catalog| {
            result = Some(work(catalog));
            Ok(())
        })
        .map_err(|error| ReadError::Failed(format!("{error:#}")))?;
        result.unwrap_or_else(|| Err(ReadError::Failed("nothing was read".to_owned())))
    }

    fn find(&self, catalog: &Catalog<'_>, name: &OtherName) -> Result<FoundSession, ReadError> {
        let found = match &self.named {
            Some(named) if OtherName::of(named) == *name => {
                // Sub-agents may have got files since.
                let again = catalog.find(&named.path.to_string_lossy()).ok();
                again.filter(|it| it.id == named.id).unwrap_or_else(|| named.clone())
            }
            _ => catalog.find(&format!("{}:{}", name.program, name.id)).map_err(not_found)?,
        };
        self.kept().found = Some((name.clone(), found.clone()));
        Ok(found)
    }

    fn summary(
        &self,
        catalog: &Catalog<'_>,
        found: &FoundSession,
    ) -> Result<Arc<Summary>, SourceError> {
        let name = OtherName::of(found);
        let state = FileState { bytes: found.bytes, changed_at: found.changed_at };
        let kept = self.kept().summaries.get(&name).filter(|it| it.0 == state).cloned();
        if let Some((_, summary)) = kept {
            return Ok(summary);
        }
        let summary = Arc::new(summary::read(catalog, found)?);
        let mut kept = self.kept();
        if kept.summaries.len() >= MAX_KEPT {
            kept.summaries.clear();
        }
        kept.summaries.insert(name, (state, Arc::clone(&summary)));
        Ok(summary)
    }
}

impl OtherSessions for Others {
    fn programs(&self) -> Vec<&'static str> {
        convoke_vendors::sources().map(convoke_source::SessionSource::program).collect()
    }

    fn list(
        &self,
        filter: &OtherFilter,
        from: usize,
        limit: usize,
    ) -> Result<OtherList, ReadError> {
        self.with(|catalog| {
            let mut found = catalog.list();
            if let Some(named) = &self.named
                && !found.sessions.iter().any(|it| it.id == named.id)
            {
                found.sessions.insert(0, named.clone());
            }
            found.sessions.retain(|session| filter.has(session));
            let problems = found.problems.iter().map(one_line).collect();
            let total = found.sessions.len();
            let mut list = OtherList { sessions: Vec::new(), total, problems };
            for found in found.sessions.into_iter().skip(from).take(limit) {
                match self.summary(catalog, &found) {
                    Ok(summary) => list.sessions.push(ListedOther { found, summary }),
                    Err(problem) => list.problems.push(one_line(&problem)),
                }
            }
            Ok(list)
        })
    }

    fn read(&self, name: &OtherName, ends: &PageEnds) -> Result<OtherSession, ReadError> {
        self.with(|catalog| {
            let found = self.find(catalog, name)?;
            // Before it is read: what is written meanwhile is read again, not missed.
            let state = state_of(&found);
            let mut transcript = Transcript::new(ends, catalog.provider(&found), &catalog.prices);
            let mut reader = catalog.open(&found, Kept::Shown).map_err(failed)?;
            reader.advance(&mut transcript).map_err(failed)?;
            let report = reader.report().to_string();
            let (summary, steps, earlier_steps, requests) = transcript.into_parts();
            Ok(OtherSession {
                found,
                summary,
                report,
                state,
                requests: requests.rows,
                earlier_requests: requests.earlier,
                most_tokens: requests.most_tokens,
                steps,
                earlier_steps,
            })
        })
    }

    fn request(&self, name: &OtherName, number: u64) -> Result<Arc<PricedRequest>, ReadError> {
        self.with(|catalog| {
            let found = self.find(catalog, name)?;
            let state = state_of(&found);
            if let Some((kept_name, kept_number, kept_state, request)) = &self.kept().request
                && (kept_name, *kept_number, *kept_state) == (name, number, state)
            {
                return Ok(Arc::clone(request));
            }
            let request = request::read(catalog, &found, number).map_err(failed)?;
            let request = request.ok_or_else(|| {
                ReadError::NotFound(format!("{} has no request {number}", name.short()))
            })?;
            let cost = request.cost(catalog.provider(&found), &catalog.prices);
            let request = Arc::new(PricedRequest { request, cost });
            self.kept().request = Some((name.clone(), number, state, Arc::clone(&request)));
            Ok(request)
        })
    }

    fn text(&self, name: &OtherName, text: &TextName) -> Result<String, ReadError> {
        self.with(|catalog| {
            let found = self.find(catalog, name)?;
            let mut whole = WholeText::new(text);
            let mut reader = catalog.open(&found, Kept::Said).map_err(failed)?;
            reader.advance(&mut whole).map_err(failed)?;
            let missing = || ReadError::NotFound(format!("{} has no such text", name.short()));
            whole.found.ok_or_else(missing)
        })
    }

    fn usage(&self, since: Option<Millis>) -> Result<UsageFigures, ReadError> {
        self.with(|catalog| {
            let found = catalog.list();
            let by = vec![By::Day, By::Agent, By::Model, By::Project];
            let query = Query { by, since, until: None, zone: TimeZone::system() };
            let mut index =
                open_index(&self.home).map_err(|error| ReadError::Failed(error.to_string()))?;
            let counted = usage::count(catalog, &found.sessions, index.as_mut(), &query);
            let counted = counted.or_else(|_| usage::count(catalog, &found.sessions, None, &query));
            let mut table = counted.map_err(|error| ReadError::Failed(error.to_string()))?;
            table.problems.extend(found.problems);
            Ok(UsageFigures {
                by_day: usage_rows(&table.rows, 0),
                by_program: usage_rows(&table.rows, 1),
                by_model: usage_rows(&table.rows, 2),
                by_project: usage_rows(&table.rows, 3),
                total: usage_row("", &table.total),
                sessions: table.sessions,
                problems: table.problems.iter().map(one_line).collect(),
                prices: TABLE.to_owned(),
            })
        })
    }

    fn state(&self, name: &OtherName) -> Result<FileState, ReadError> {
        let known = self.kept().found.clone().filter(|(known, _)| known == name);
        match known {
            Some((_, found)) => Ok(state_of(&found)),
            None => self.with(|catalog| Ok(state_of(&self.find(catalog, name)?))),
        }
    }
}

/// Adds up the rows that have the same value in a column.
fn usage_rows(rows: &[usage::Row], column: usize) -> Vec<UsageRow> {
    let mut sums: BTreeMap<&str, usage::Row> = BTreeMap::new();
    for row in rows {
        let Some(name) = row.key.get(column) else { continue };
        let sum = sums.entry(name).or_default();
        sum.requests += row.requests;
        sum.usage = sum.usage.and(row.usage);
        sum.cost.add_sum(row.cost);
    }
    sums.iter().map(|(name, row)| usage_row(name, row)).collect()
}

fn usage_row(name: &str, row: &usage::Row) -> UsageRow {
    UsageRow {
        name: name.to_owned(),
        requests: row.requests,
        usage: row.usage,
        cost_usd: row.cost.amount,
        unpriced: row.cost.unknown,
    }
}

/// Returns the state of the files of a session; one that is gone has no size.
fn state_of(found: &FoundSession) -> FileState {
    let mut state = FileState { bytes: 0, changed_at: Millis(0) };
    for file in &found.files {
        let Ok(metadata) = fs::metadata(file) else { continue };
        state.bytes = state.bytes.saturating_add(metadata.len());
        let changed = metadata.modified().ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok());
        let changed = changed.and_then(|it| i64::try_from(it.as_millis()).ok()).unwrap_or(0);
        state.changed_at = state.changed_at.max(Millis(changed));
    }
    state
}

fn not_found(error: FindError) -> ReadError {
    match error {
        FindError::Source(error) => failed(error),
        error => ReadError::NotFound(error.to_string()),
    }
}

#[expect(clippy::needless_pass_by_value, reason = "it maps errors")]
fn failed(error: SourceError) -> ReadError {
    ReadError::Failed(one_line(&error))
}

/// Returns an error and its reason as one line.
fn one_line(error: &SourceError) -> String {
    let reason = error.source().map_or_else(String::new, |reason| format!(": {reason}"));
    format!("{error}{reason}")
}
