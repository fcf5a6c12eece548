//! Tokens that the provider counted, and those of requests that left no other trace.

use std::collections::BTreeMap;

use convoke_protocol::id::Millis;
use convoke_protocol::usage::Usage;
use serde::Deserialize;

use super::record::{Raw, number, parsed, text};

/// The maximum number of models whose tokens are counted.
const MAX_MODELS: usize = 64;

/// The tokens of an answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Counted {
    pub usage: Usage,
    /// Of the tokens written to the cache, those that it keeps for an hour.
    pub cache_write_hour: u64,
    pub tier: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct WrittenUsage<'l> {
    #[serde(borrow)]
    input_tokens: Raw<'l>,
    #[serde(borrow)]
    cache_creation_input_tokens: Raw<'l>,
    #[serde(borrow)]
    cache_read_input_tokens: Raw<'l>,
    #[serde(borrow)]
    output_tokens: Raw<'l>,
    #[serde(borrow)]
    output_tokens_details: Raw<'l>,
    #[serde(borrow)]
    cache_creation: Raw<'l>,
    #[serde(borrow)]
    service_tier: Raw<'l>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Details<'l> {
    #[serde(borrow)]
    thinking_tokens: Raw<'l>,
    #[serde(borrow)]
    ephemeral_1h_input_tokens: Raw<'l>,
}

/// Returns the tokens of an answer.
pub(super) fn counted(usage: Raw<'_>) -> Option<Counted> {
    let written: WrittenUsage<'_> = parsed(usage)?;
    let details = |raw| parsed::<Details<'_>>(raw).unwrap_or_default();
    let count = |raw| number(raw).unwrap_or_default();
    // A usage without any count is none.
    number(written.input_tokens).or_else(|| number(written.output_tokens))?;
    let cached = count(written.cache_read_input_tokens);
    let cache_write = count(written.cache_creation_input_tokens);
    let usage = Usage {
        input: count(written.input_tokens).saturating_add(cached).saturating_add(cache_write),
        cached,
        cache_write,
        output: count(written.output_tokens),
        reasoning: count(details(written.output_tokens_details).thinking_tokens),
    };
    let cache_write_hour = count(details(written.cache_creation).ephemeral_1h_input_tokens);
    let tier = text(written.service_tier).map(std::borrow::Cow::into_owned);
    Some(Counted { usage, cache_write_hour, tier })
}

/// The totals that the program writes now and then, and what explains their growth.
///
/// A request for a summary is in no record. Its tokens are the growth of the totals that no other request explains, if
/// nothing else can.
#[derive(Debug, Default)]
pub(super) struct Totals {
    last: Option<BTreeMap<String, Counted>>,
    /// The tokens of the requests since then, by model.
    explained: BTreeMap<String, Usage>,
    /// The requests without a record since then.
    hidden: Vec<u64>,
    /// Whether totals can have grown by requests that are not known here.
    is_doubtful: bool,
    /// The time of the last totals.
    start: Option<Millis>,
}

/// The tokens of a request without a record.
#[derive(Debug, Clone)]
pub(super) struct HiddenUsage {
    pub key: u64,
    pub model: String,
    pub counted: Counted,
    /// The time since which the totals have grown.
    pub start: Option<Millis>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct WrittenTotal<'l> {
    #[serde(borrow)]
    input_tokens: Raw<'l>,
    #[serde(borrow)]
    output_tokens: Raw<'l>,
    #[serde(borrow)]
    thinking_tokens: Raw<'l>,
    #[serde(borrow)]
    cache_read_input_tokens: Raw<'l>,
    #[serde(borrow)]
    cache_creation_input_tokens: Raw<'l>,
    #[serde(borrow, rename = "cacheCreationEphemeral1hInputTokens")]
    cache_creation_1h: Raw<'l>,
}

impl Totals {
    /// Notes the tokens of an answer, which take the place of those that were noted for it before.
    pub fn explain(&mut self, model: &str, now: Usage, before: Usage) {
        if self.explained.len() >= MAX_MODELS && !self.explained.contains_key(model) {
            self.is_doubtful = true;
            return;
        }
        let total = self.explained.entry(model.to_owned()).or_default();
        *total = total.and(now).since(before);
    }

    /// Notes a request without a record.
    pub fn hide(&mut self, key: u64) {
        self.hidden.push(key);
        self.hidden.truncate(2);
    }

    /// Notes that other requests may be in the next totals.
    pub fn doubt(&mut self) {
        self.is_doubtful = true;
    }

    /// Takes new totals and returns the tokens of the one request that only they tell of.
    pub fn advance(
        &mut self,
        totals: Raw<'_>,
        is_copied: bool,
        model: Option<&str>,
        at: Option<Millis>,
    ) -> Option<HiddenUsage> {
        let totals: BTreeMap<String, WrittenTotal<'_>> = parsed(totals)?;
        let totals = totals.into_iter().take(MAX_MODELS);
        let totals: BTreeMap<_, _> =
            totals.map(|(model, total)| (model, total.counted())).collect();
        // The totals of a forked session begin with those of the other one.
        let is_doubtful = self.is_doubtful || (self.last.is_none() && is_copied);
        let before = self.last.take().unwrap_or_default();
        let hidden = match self.hidden[..] {
            [key] if !is_doubtful => self.unexplained(&before, &totals, model).map(|found| {
                HiddenUsage { key, model: found.0.to_owned(), counted: found.1, start: self.start }
            }),
            _ => None,
        };
        *self = Self { last: Some(totals), start: at, ..Self::default() };
        hidden
    }

    /// Returns the growth that no request explains, of the one model that has any, or of the session's model.
    fn unexplained<'t>(
        &self,
        before: &BTreeMap<String, Counted>,
        now: &'t BTreeMap<String, Counted>,
        model: Option<&str>,
    ) -> Option<(&'t str, Counted)> {
        let is_same = |one: &str, other: &str| one.starts_with(other) || other.starts_with(one);
        let mut found = Vec::new();
        for (name, total) in now {
            let earlier = before.get(name).cloned().unwrap_or_default();
            let of_model = self.explained.iter().filter(|(it, _)| is_same(it, name));
            let explained = of_model.fold(Usage::default(), |sum, (_, usage)| sum.and(*usage));
            let known = earlier.usage.and(explained);
            if !is_at_least(total.usage, known) {
                return None;
            }
            let usage = total.usage.since(known);
            if usage != Usage::default() {
                // How long the explained writes are kept is not counted here.
                let growth = total.cache_write_hour.saturating_sub(earlier.cache_write_hour);
                let cache_write_hour = growth.min(usage.cache_write);
                found.push((name.as_str(), Counted { usage, cache_write_hour, tier: None }));
            }
        }
        let of_session = |it: &(&str, Counted)| model.is_some_and(|model| is_same(model, it.0));
        match found.len() {
            1 => found.pop(),
            _ => found.into_iter().find(of_session),
        }
    }
}

fn is_at_least(total: Usage, known: Usage) -> bool {
    total.input >= known.input
        && total.cached >= known.cached
        && total.cache_write >= known.cache_write
        && total.output >= known.output
}

impl WrittenTotal<'_> {
    fn counted(&self) -> Counted {
        let count = |raw| number(raw).unwrap_or_default();
        let cached = count(self.cache_read_input_tokens);
        let cache_write = count(self.cache_creation_input_tokens);
        let usage = Usage {
            input: count(self.input_tokens).saturating_add(cached).saturating_add(cache_write),
            cached,
            cache_write,
            output: count(self.output_tokens),
            reasoning: count(self.thinking_tokens),
        };
        Counted { usage, cache_write_hour: count(self.cache_creation_1h), tier: None }
    }
}
