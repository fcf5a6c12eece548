//! The reason why a provider's cache served a request or not: what changed since the request before, and what the
//! provider says of it.

use convoke_agent::thread::FirstDifference;
use convoke_core::ledger::estimate_tokens;
use convoke_protocol::request::{RequestMeta, RequestRecord, RequestTexts};
use convoke_protocol::wire::Wire;
use convoke_wire::cache;
use serde::Serialize;

/// Providers cache no prefix of fewer tokens. As of November 2026 the least are 512 to 4,096, by model.
const LEAST_TOKENS: u64 = 1024;

/// A request beside the one before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheStep {
    /// The bytes, from the beginning in cache order, that both requests have.
    pub unchanged_bytes: u64,
    /// The same in tokens: in proportion to those that the provider counted, else estimated.
    pub unchanged_tokens: u64,
    /// The first difference; `None` if the request continues the one before, or is the first.
    pub difference: Option<FirstDifference>,
    /// The event.
    pub verdict: CacheVerdict,
}

impl CacheStep {
    /// Returns the comparison without a verdict about the provider, for a server that has no cache.
    #[must_use]
    pub fn without_provider(mut self) -> Self {
        self.verdict = match self.verdict {
            CacheVerdict::Missed => CacheVerdict::Unknown,
            CacheVerdict::ChangedAndMissed => CacheVerdict::Changed,
            other => other,
        };
        self
    }
}

/// The outcome for the cached prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum CacheVerdict {
    /// There is no request before it.
    First,
    /// The prefix changed.
    Changed,
    /// The prefix changed, and the provider missed the part before the change.
    ChangedAndMissed,
    /// The prefix is the same, and the provider took it from its cache.
    Served,
    /// The prefix is the same, and the provider missed.
    Missed,
    /// The prefix is the same, and too short to be cached, or the provider counted nothing.
    Unknown,
}

impl CacheVerdict {
    /// Returns the verdict in words.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::First => "the first request",
            Self::Changed => "the prefix changed",
            Self::ChangedAndMissed => {
                "the prefix changed, and the provider missed the part before it"
            }
            Self::Served => "the prefix is the same and came from the cache",
            Self::Missed => "the prefix is the same and the provider missed",
            Self::Unknown => "the prefix is the same",
        }
    }
}

/// Returns the wire format of a stored request.
fn wire(meta: &RequestMeta) -> Option<Wire> {
    let path = meta.path.split('?').next().unwrap_or_default();
    meta.wire.or_else(|| Wire::at(path))
}

/// Compares a request with the one before it; `None` if a body cannot be read.
pub fn compare(
    before: Option<(&RequestMeta, &RequestTexts)>,
    record: &RequestRecord<()>,
    texts: &RequestTexts,
) -> Option<CacheStep> {
    let wire = wire(&record.meta)?;
    let later = cache::segments(wire, &record.meta.path, texts.body.as_bytes()).ok()?;
    let Some((meta_before, before)) = before else {
        return Some(CacheStep {
            unchanged_bytes: 0,
            unchanged_tokens: 0,
            difference: None,
            verdict: CacheVerdict::First,
        });
    };
    let earlier = cache::segments(wire, &meta_before.path, before.body.as_bytes()).ok()?;
    let comparison = cache::compare(&earlier, &later);
    // The settings and the JSON around the texts of a repeated request are the same too.
    let is_repeated = before.body == texts.body;
    let unchanged_bytes =
        if is_repeated { texts.body.len() as u64 } else { comparison.unchanged_bytes };
    let usage = record.outcome.usage;
    let unchanged_tokens = match usage {
        Some(usage) if record.meta.bytes > 0 => {
            let share = u128::from(usage.input) * u128::from(unchanged_bytes);
            u64::try_from(share / u128::from(record.meta.bytes)).unwrap_or(u64::MAX)
        }
        _ => estimate_tokens(unchanged_bytes),
    };
    let ledgers = [before, texts].map(|texts| texts.parse_ledger(&record.meta).ok());
    let difference = FirstDifference::of(&comparison, ledgers.each_ref().map(Option::as_ref));
    // Providers cache in steps: half of the possible bytes is not a miss.
    let is_missed = usage
        .filter(|_| unchanged_tokens >= LEAST_TOKENS)
        .map(|usage| usage.cached < unchanged_tokens / 2);
    let verdict = match (&difference, is_missed) {
        (Some(_), Some(true)) => CacheVerdict::ChangedAndMissed,
        (Some(_), _) => CacheVerdict::Changed,
        (None, Some(true)) => CacheVerdict::Missed,
        (None, Some(false)) => CacheVerdict::Served,
        (None, None) => CacheVerdict::Unknown,
    };
    Some(CacheStep { unchanged_bytes, unchanged_tokens, difference, verdict })
}

#[cfg(test)]
mod tests {
    use convoke_core::ledger::{Entry, Ledger, Rule, Source, Target};
    use convoke_protocol::agent_event::RequestPurpose;
    use convoke_protocol::id::ThreadId;
    use convoke_protocol::request::RequestOutcome;
    use convoke_protocol::usage::Usage;
    use serde_json::{Value, json};

    use super::*;

    fn texts(body: &Value, source: Source<'static>) -> RequestTexts {
        let body = body.to_string();
        let mut ledger = Ledger::default();
        let range = 0..body.len() as u64;
        let (target, rule) = (Target::Prompt, Rule::Fits);
        ledger.push(Entry { target, section: "x".into(), source, range, cut_bytes: 0, rule });
        RequestTexts::new(body, &ledger).unwrap()
    }

    fn step(earlier: &Value, later: &Value, source: Source<'static>, cached: u64) -> CacheStep {
        let (before, texts) = (texts(earlier, source.clone()), texts(later, source));
        let usage = Some(Usage { input: 20_000, cached, ..Usage::default() });
        let record = RequestRecord {
            thread: ThreadId::generate(),
            number: 2,
            attempt: None,
            meta: RequestMeta::new(
                convoke_protocol::id::Millis(0),
                "/responses",
                RequestPurpose::Answer,
                texts.body.len() as u64,
            ),
            outcome: RequestOutcome { usage, ..RequestOutcome::default() },
            texts: (),
        };
        compare(Some((&record.meta, &before)), &record, &texts).unwrap()
    }

    fn body(instructions: &str, input: &[&str]) -> Value {
        let items = input.iter().map(|text| json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}));
        json!({"model": "m", "instructions": instructions, "input": items.collect::<Vec<_>>()})
    }

    #[test]
    fn a_changed_prefix_and_a_missed_one_are_distinguished() {
        let long = "Be careful. ".repeat(400);
        let (one, two) = (body(&long, &["hi"]), body(&long, &["hi", "more"]));
        let program = || Source::Program { what: "p".into() };
        let served = step(&one, &two, program(), 19_000);
        assert_eq!((served.verdict, served.difference), (CacheVerdict::Served, None));
        let missed = step(&one, &two, program(), 0);
        assert_eq!((missed.verdict, &missed.difference), (CacheVerdict::Missed, &None));
        assert_eq!(missed.clone().without_provider().verdict, CacheVerdict::Unknown);
        assert!(missed.unchanged_tokens > 15_000 && missed.unchanged_bytes >= long.len() as u64);
        let repeated = step(&one, &one, program(), 0);
        assert_eq!(repeated.unchanged_bytes, one.to_string().len() as u64);
        let end_changed = step(&two, &body(&long, &["hi", "other"]), program(), 0);
        assert_eq!(end_changed.verdict, CacheVerdict::ChangedAndMissed);
        assert_eq!(end_changed.without_provider().verdict, CacheVerdict::Changed);
        let edited = step(&one, &body("Be brief.", &["hi"]), Source::file("/p/AGENTS.md"), 0);
        assert_eq!(edited.verdict, CacheVerdict::Changed);
        let difference = edited.difference.unwrap();
        assert_eq!((difference.cause, &*difference.place), ("file-edited", "instructions"));
        assert_eq!(difference.source, Source::file("/p/AGENTS.md"));
        let dated = step(
            &body("Today is 2026-11-15.", &["hi"]),
            &body("Today is 2026-11-16.", &["hi"]),
            program(),
            0,
        );
        assert_eq!(dated.difference.unwrap().cause, "date-changed");
        let compacted = step(&two, &body(&long, &["a summary"]), program(), 0);
        assert_eq!(compacted.difference.unwrap().cause, "history-shortened");
    }
}
