//! What tokens cost: the prices that providers publish for their APIs.

use std::collections::BTreeMap;
use std::time::{Duration, UNIX_EPOCH};

use convoke_protocol::id::Millis;
use convoke_protocol::usage::Usage;
use genai_prices::{Calculator, ModelInfo, PriceRequest, ProviderInfo, UsageKey};
use serde::{Deserialize, Serialize};

/// The table of prices, and the month of its figures.
pub const TABLE: &str = "genai-prices 0.2.1, October 2026";

/// The prices that a user has set, by model.
pub type OwnPrices = BTreeMap<String, OwnPrice>;

/// The price that a user has set for a model, in dollars for a million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct OwnPrice {
    pub input: f64,
    pub output: f64,
    /// Tokens read from the cache; by default as any input.
    pub cache_read: Option<f64>,
    /// Tokens written to the cache; by default as any input.
    pub cache_write: Option<f64>,
}

/// The tokens of a request, as they are charged.
#[derive(Debug, Clone, Copy)]
pub struct Charged<'c> {
    pub provider: Option<&'c str>,
    pub model: &'c str,
    pub usage: Usage,
    /// Of the tokens written to the cache, those that it keeps for an hour.
    pub cache_write_hour: u64,
    pub tier: Option<&'c str>,
    pub at: Option<Millis>,
}

/// A sum of costs. What a model of unknown price used is not in it, and counted.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Cost {
    /// Dollars.
    pub amount: f64,
    /// The number of requests with a known price.
    pub known: u64,
    /// The number of requests whose price is unknown.
    pub unknown: u64,
}

/// A cost as JSON.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct CostJson {
    pub amount: f64,
    pub currency: &'static str,
    pub prices: &'static str,
    /// The number of requests whose price is unknown, and which are not in the amount.
    #[serde(skip_serializing_if = "is_zero")]
    pub unknown: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Cost {
    /// Adds the cost of a request, `None` if its price is unknown.
    pub fn add(&mut self, cost: Option<f64>) {
        match cost {
            Some(amount) => {
                self.amount += amount;
                self.known += 1;
            }
            None => self.unknown += 1,
        }
    }

    /// Adds another sum.
    pub fn add_sum(&mut self, other: Self) {
        self.amount += other.amount;
        self.known += other.known;
        self.unknown += other.unknown;
    }

    /// Returns the JSON form; `None` if no price is known.
    pub fn to_json(self) -> Option<CostJson> {
        let Self { amount, known, unknown } = self;
        (known > 0).then_some(CostJson { amount, currency: "USD", prices: TABLE, unknown })
    }
}

/// Returns what a request cost in dollars at API prices; `None` if the price is unknown.
pub fn cost(charged: &Charged<'_>, own: &OwnPrices) -> Option<f64> {
    let Usage { input, cached, cache_write, output, .. } = charged.usage;
    #[expect(clippy::cast_precision_loss)]
    let tokens = |number: u64| number as f64;
    if let Some(price) = own.get(charged.model) {
        let fresh = input.saturating_sub(cached).saturating_sub(cache_write);
        let read = price.cache_read.unwrap_or(price.input);
        let written = price.cache_write.unwrap_or(price.input);
        let sum = tokens(fresh) * price.input
            + tokens(cached) * read
            + tokens(cache_write) * written
            + tokens(output) * price.output;
        return Some(sum / 1e6);
    }
    let hour = charged.cache_write_hour.min(cache_write);
    let mut usage = genai_prices::Usage::from([
        (UsageKey::INPUT_TOKENS, tokens(input)),
        (UsageKey::OUTPUT_TOKENS, tokens(output)),
    ]);
    let parts = [
        (UsageKey::CACHE_READ_TOKENS, cached),
        (UsageKey::CACHE_WRITE_TOKENS, cache_write),
        (UsageKey::CACHE_WRITE_1H_TOKENS, hour),
    ];
    for (key, number) in parts.into_iter().filter(|(_, number)| *number > 0) {
        usage.insert(key, tokens(number));
    }
    let mut request = PriceRequest::new(charged.model, &usage);
    if let Some(provider) = charged.provider {
        request = request.with_provider_id(provider);
    }
    if let Some(at) = charged.at.and_then(|at| u64::try_from(at.0).ok()) {
        request = request.with_timestamp(UNIX_EPOCH + Duration::from_millis(at));
    }
    if let Some(tier) = charged.tier {
        request = request.with_price_context("service_tier", tier);
    }
    genai_prices::calculate(&request).ok().map(|price| price.total_price)
}

/// Returns the context window of a model in tokens, if the table has it.
pub fn context_window(model: &str) -> Option<u64> {
    let models = Calculator::bundled().providers().flat_map(ProviderInfo::models);
    models.filter(|it| it.id() == model).find_map(ModelInfo::context_window)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn charged(model: &str) -> Charged<'_> {
        let usage = Usage {
            input: 2_000_000,
            cached: 1_000_000,
            cache_write: 500_000,
            output: 100_000,
            reasoning: 0,
        };
        Charged { provider: None, model, usage, cache_write_hour: 0, tier: None, at: None }
    }

    #[test]
    fn the_parts_of_a_request_have_their_own_prices() {
        let request = Charged { provider: Some("anthropic"), ..charged("claude-sonnet-4-5") };
        let short = cost(&request, &OwnPrices::new()).unwrap();
        let hour = Charged { cache_write_hour: 500_000, ..request };
        let hour = cost(&hour, &OwnPrices::new()).unwrap();
        assert!(hour > short, "{hour} {short}");
    }

    #[test]
    fn an_unknown_model_has_no_cost() {
        assert_eq!(cost(&charged("no-such-model"), &OwnPrices::new()), None);
        let mut sum = Cost::default();
        sum.add(None);
        assert_eq!((sum.to_json(), sum.unknown), (None, 1));
    }

    #[test]
    fn the_users_own_price_counts() {
        let price = OwnPrice { input: 2.0, output: 10.0, cache_read: Some(0.2), cache_write: None };
        let own = OwnPrices::from([("local".to_owned(), price)]);
        let expected = 0.5 * 2.0 + 0.2 + 0.5 * 2.0 + 0.1 * 10.0;
        let found = cost(&charged("local"), &own).unwrap();
        assert!((found - expected).abs() < 1e-9, "{found}");
    }
}
