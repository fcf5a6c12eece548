//! `convoke sessions show --cache`: the prefix that each request shares with the previous one, and the tokens that
//! the provider's cache served.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::Write as _;

use convoke_agent::thread::ThreadStore as _;
use convoke_core::ledger::Source;
use convoke_inspect::record::cache::{CacheStep, CacheVerdict, compare};
use convoke_open::prices::{Charged, OwnPrices, cost};
use convoke_protocol::agent_event::RequestPurpose;
use convoke_protocol::id::SessionId;
use convoke_protocol::request::{RequestMeta, RequestRecord, RequestTexts};
use convoke_protocol::usage::Usage;
use convoke_server::CacheRow;
use convoke_session::{AnyStore, Store as _};
use serde_json::{Value, json};

use super::sent::requests_by_member;
use super::write_json;
use crate::figures::{number, percent};
use crate::host_environment;
use crate::outcome::UsageError;
use crate::terminal::{Paint, printable, stdout};
use crate::user_settings::UserSettings;

/// A request of a session, compared with the one before it of the same member and purpose.
struct Row {
    member: String,
    record: RequestRecord<()>,
    step: Option<CacheStep>,
    /// The request before it.
    before: Option<TurnAndNumber>,
}

/// The turn of a request, and its number.
type TurnAndNumber = (u64, u64);

/// Shows how much of each request the provider's cache could serve, and how much it served.
pub(super) async fn show(
    store: &AnyStore,
    session: SessionId,
    turn: Option<u64>,
    is_json: bool,
) -> anyhow::Result<()> {
    let mut rows = rows(store, session).await?;
    if let Some(turn) = turn {
        rows.retain(|row| row.record.attempt.is_some_and(|attempt| attempt.turn.0 == turn));
    }
    if is_json {
        let requests: Vec<Value> = rows.iter().map(Row::json).collect();
        write_json(&json!({ "requests": requests }))?;
        return Ok(());
    }
    if rows.is_empty() {
        let why = "no request of this session is stored; `--record wire` records those of programs";
        return Err(UsageError(why.to_owned()).into());
    }
    let mut out = stdout();
    let paint = Paint::for_stream(&out);
    for row in &rows {
        writeln!(out, "{}", row.line())?;
        for line in row.remarks() {
            writeln!(out, "  {}", paint.faint(&line))?;
        }
    }
    out.flush()?;
    Ok(())
}

/// Returns the rows for the page: the same lines, remarks and figures.
pub(in crate::commands) async fn page_rows(
    store: &AnyStore,
    session: SessionId,
) -> anyhow::Result<Vec<CacheRow>> {
    let rows = rows(store, session).await?;
    let prices = UserSettings::read(&host_environment::of_process()?)?.prices;
    let row = |row: &Row| CacheRow {
        turn: row.record.attempt.map(|attempt| attempt.turn.0),
        number: row.record.number,
        before: row.before,
        lost_usd: row.lost(&prices),
        json: row.json(),
        line: row.line(),
        remarks: row.remarks(),
    };
    Ok(rows.iter().map(row).collect())
}

/// The request before another one of its purpose.
struct Earlier {
    meta: RequestMeta,
    texts: RequestTexts,
    place: Option<TurnAndNumber>,
}

async fn rows(store: &AnyStore, session: SessionId) -> anyhow::Result<Vec<Row>> {
    let mut rows = Vec::new();
    // The model server of a rehearsal has no cache.
    let is_rehearsal = store.session(session).await?.began.rehearsal.is_some();
    for (member, requests) in requests_by_member(store, session).await? {
        let mut before: HashMap<&str, Earlier> = HashMap::new();
        for record in requests {
            let texts = store.request_texts(&record.thread, record.number).await?;
            let purpose: &'static str = match record.meta.purpose {
                // A compaction is compared with the conversation that it summarizes.
                RequestPurpose::Compaction => RequestPurpose::Answer.as_str(),
                purpose => purpose.as_str(),
            };
            let earlier = before.get(purpose);
            let step = compare(earlier.map(|it| (&it.meta, &it.texts)), &record, &texts);
            let step = if is_rehearsal { step.map(CacheStep::without_provider) } else { step };
            let place = record.attempt.map(|attempt| (attempt.turn.0, record.number));
            let earlier = earlier.and_then(|it| it.place);
            before.insert(purpose, Earlier { meta: record.meta.clone(), texts, place });
            rows.push(Row { member: member.clone(), record, step, before: earlier });
        }
    }
    rows.sort_by_key(|row| (row.record.meta.at, row.record.number));
    Ok(rows)
}

impl Row {
    fn json(&self) -> Value {
        let Self { member, record, step, .. } = self;
        let usage = record.outcome.usage;
        let difference = step.as_ref().and_then(|step| step.difference.as_ref());
        json!({
            "turn": record.attempt.map(|attempt| attempt.turn), "number": record.number,
            "member": member, "purpose": record.meta.purpose, "at": record.meta.at,
            "bytes": record.sent_bytes(),
            "unchangedBytes": step.as_ref().map_or(0, |step| step.unchanged_bytes),
            "unchangedTokens": step.as_ref().map_or(0, |step| step.unchanged_tokens),
            "countedTokens": usage.map(|usage| usage.input),
            "cachedTokens": usage.map(|usage| usage.cached),
            "verdict": step.as_ref().map(|step| step.verdict),
            "providersReason": record.outcome.cache_miss,
            "firstDifference": difference,
        })
    }

    /// Returns what it cost that tokens were read again which a cache could have served; `None` if no price is known, or nothing
    /// was lost.
    fn lost(&self, prices: &OwnPrices) -> Option<f64> {
        let step = self.step.as_ref()?;
        let outcome = &self.record.outcome;
        let usage = outcome.usage?;
        let reusable = step.unchanged_tokens.min(usage.input);
        let price = |usage: Usage| {
            let charged = Charged {
                provider: None,
                model: outcome.model.as_deref().unwrap_or_default(),
                usage,
                cache_write_hour: 0,
                tier: None,
                at: Some(self.record.meta.at),
            };
            cost(&charged, prices)
        };
        let served = Usage { cached: reusable, cache_write: 0, ..usage };
        let lost = price(usage)? - price(served)?;
        (reusable > usage.cached && lost > 0.0).then_some(lost)
    }

    fn line(&self) -> String {
        let Self { member, record, step, .. } = self;
        let bytes = record.sent_bytes();
        let unchanged = step.as_ref().map_or(0, |step| step.unchanged_bytes);
        let turn = record.attempt.map_or_else(String::new, |it| format!("turn {}, ", it.turn));
        let mut line = format!(
            "{turn}{member}, request {}: {} bytes, {} unchanged ({})",
            record.number,
            number(bytes),
            number(unchanged),
            percent(unchanged, bytes)
        );
        match record.outcome.usage {
            Some(usage) => {
                let (input, cached) = (number(usage.input), number(usage.cached));
                let _ = write!(line, "; {input} tokens, {cached} from the cache");
            }
            None if record.outcome.status.is_some_and(|status| status < 300) => {
                line += "; tokens unknown";
            }
            None => {}
        }
        line
    }

    fn remarks(&self) -> Vec<String> {
        let Some(step) = &self.step else { return vec!["its body cannot be read".to_owned()] };
        let mut remarks = Vec::new();
        let changed = match step.verdict {
            CacheVerdict::ChangedAndMissed => CacheVerdict::Changed,
            other => other,
        };
        let mut verdict = changed.as_str().to_owned();
        if let Some(difference) = &step.difference {
            let (place, words) = (&difference.place, difference.words);
            let whose = source(&difference.source);
            let _ = write!(verdict, " at {place}: {words} ({})", printable(&whose));
        }
        let missed = match step.verdict {
            CacheVerdict::Missed => ":",
            CacheVerdict::ChangedAndMissed => "; the provider also missed the part before it:",
            _ => "",
        };
        if !missed.is_empty() {
            let cached = self.record.outcome.usage.map_or(0, |usage| usage.cached);
            let _ = write!(
                verdict,
                "{missed} {} of {} tokens that could have been served came from the cache",
                number(cached),
                number(step.unchanged_tokens)
            );
        }
        remarks.push(verdict);
        if let Some(reason) = &self.record.outcome.cache_miss {
            remarks.push(format!("the provider says: {}", printable(reason)));
        }
        remarks
    }
}

/// Returns a source in words.
fn source(source: &Source<'_>) -> String {
    match source {
        Source::Message { id, .. } => id.as_deref().unwrap_or("a message").to_owned(),
        Source::File { path, .. } => path.to_string(),
        Source::Setting { name } => format!("`{name}`"),
        Source::Convoke { what } => format!("Convoke's {what}"),
        Source::Program { what } => format!("the program's own: {what}"),
        Source::Tool { .. } => "a tool's output".to_owned(),
        Source::History { .. } => "the history".to_owned(),
        Source::Model { .. } => "the model's answer".to_owned(),
        _ => "another source".to_owned(),
    }
}
