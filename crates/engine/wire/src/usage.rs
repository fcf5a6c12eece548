//! Reads the token counts of providers.

use convoke_protocol::usage::Usage;
use serde_json::Value;

/// The maximum of a count; a larger one is an error of the server.
const MAX_TOKENS: u64 = 1 << 40;

fn count(value: &Value) -> Option<u64> {
    value.as_u64().map(|count| count.min(MAX_TOKENS))
}

/// Reads the counts of OpenAI, in the names of either of its wires.
pub fn of_openai(usage: &Value) -> Option<Usage> {
    let number = |keys: [&str; 2]| keys.iter().find_map(|key| count(usage.get(*key)?));
    let part = |details: [&str; 2], key: &str| {
        let found = details.iter().find_map(|name| count(usage.get(*name)?.get(key)?));
        found.unwrap_or(0)
    };
    let input_details = ["input_tokens_details", "prompt_tokens_details"];
    Some(Usage {
        input: number(["input_tokens", "prompt_tokens"])?,
        cached: part(input_details, "cached_tokens"),
        cache_write: part(input_details, "cache_write_tokens"),
        output: number(["output_tokens", "completion_tokens"]).unwrap_or(0),
        reasoning: part(["output_tokens_details", "completion_tokens_details"], "reasoning_tokens"),
    })
}

/// Reads the counts of Anthropic over `earlier` ones of the same answer: an event repeats only those
/// that have changed.
pub fn of_anthropic(usage: &Value, earlier: Option<Usage>) -> Option<Usage> {
    let number = |key: &str| count(&usage[key]);
    let (read, written) = ("cache_read_input_tokens", "cache_creation_input_tokens");
    let found = [number("input_tokens"), number(read), number(written), number("output_tokens")];
    if found.iter().all(Option::is_none) {
        return earlier;
    }
    let before = earlier.unwrap_or_default();
    let [rest, cached, cache_write, output] = found;
    let cached = cached.unwrap_or(before.cached);
    let cache_write = cache_write.unwrap_or(before.cache_write);
    let rest = rest.unwrap_or(before.input.saturating_sub(before.cached + before.cache_write));
    Some(Usage {
        input: rest + cached + cache_write,
        cached,
        cache_write,
        output: output.unwrap_or(before.output),
        reasoning: before.reasoning,
    })
}

/// Returns whether counts of Anthropic leave nothing of earlier ones.
pub(crate) fn counts_all_of_anthropic(usage: &Value) -> bool {
    let keys =
        ["input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens", "output_tokens"];
    keys.iter().all(|key| count(&usage[key]).is_some())
}

/// Reads the counts of Gemini.
pub fn of_gemini(usage: &Value) -> Option<Usage> {
    let number = |key: &str| count(&usage[key]);
    let reasoning = number("thoughtsTokenCount").unwrap_or(0);
    Some(Usage {
        input: number("promptTokenCount")?,
        cached: number("cachedContentTokenCount").unwrap_or(0),
        cache_write: 0,
        output: number("candidatesTokenCount").unwrap_or(0) + reasoning,
        reasoning,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn counts_are_bounded() {
        let most = u64::MAX;
        let counted = [
            of_openai(&json!({"input_tokens": most, "output_tokens": most})),
            of_anthropic(&json!({"input_tokens": most, "output_tokens": most}), None),
            of_gemini(&json!({"promptTokenCount": most, "candidatesTokenCount": most})),
        ];
        for counted in counted {
            let counted = counted.unwrap();
            assert_eq!((counted.input, counted.output), (MAX_TOKENS, MAX_TOKENS));
        }
    }
}
