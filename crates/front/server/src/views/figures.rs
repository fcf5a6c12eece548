//! Figures of requests: tokens in words and as bars, and the strip of facts that a view begins with.

use convoke_core::figures::thousands as number;
use convoke_protocol::usage::Usage;
use maud::{Markup, html};

use super::percent;

/// Returns a number of tokens with three digits: `12.3k`.
#[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
pub(crate) fn short_number(tokens: u64) -> String {
    let scaled = |by: f64, unit: &str| {
        let value = tokens as f64 / by;
        if value < 99.95 { format!("{value:.1}{unit}") } else { format!("{value:.0}{unit}") }
    };
    match tokens {
        0..1_000 => tokens.to_string(),
        1_000..999_500 => scaled(1e3, "k"),
        999_500..999_500_000 => scaled(1e6, "M"),
        _ => scaled(1e9, "G"),
    }
}

/// Returns the tokens of a request in words.
pub(crate) fn counted(usage: &Usage) -> String {
    let mut words = vec![format!("{} tokens in", number(usage.input))];
    if usage.cached > 0 {
        words.push(format!("{} of them from the cache", number(usage.cached)));
    }
    if usage.cache_write > 0 {
        words.push(format!("{} written to it", number(usage.cache_write)));
    }
    words.push(format!("{} out", number(usage.output)));
    if usage.reasoning > 0 {
        words.push(format!("{} of them reasoning", number(usage.reasoning)));
    }
    words.join(", ")
}

/// A kind of tokens: the class of its colour, its name, and how many there are.
pub(crate) type TokenKind = (&'static str, &'static str, u64);

/// Returns the tokens of a request by kind, in the order of bars.
pub(crate) const fn token_kinds(usage: &Usage) -> [TokenKind; 4] {
    let fresh = usage.input.saturating_sub(usage.cached).saturating_sub(usage.cache_write);
    [
        ("cached", "from the cache", usage.cached),
        ("written", "written to it", usage.cache_write),
        ("fresh", "other input", fresh),
        ("output", "output", usage.output),
    ]
}

/// Renders the tokens of a request as a bar, on the scale of the largest one.
#[expect(
    clippy::cast_precision_loss,
    reason = "a picture has fewer pixels than a float has digits"
)]
pub(crate) fn token_bar(usage: &Usage, most: u64) -> Markup {
    let mut at = 0.0;
    let rects = token_kinds(usage).map(|(class, _, tokens)| {
        let width = tokens as f64 / most.max(1) as f64 * 1000.0;
        let from = at;
        at += width;
        (class, from, width)
    });
    html! {
        svg.bar.tokens viewBox="0 0 1000 8" preserveAspectRatio="none" role="img" aria-label=(counted(usage)) {
            @for (class, from, width) in rects { @if width > 0.0 { rect.(class) x=(format!("{from:.2}")) y="0" width=(format!("{width:.2}")) height="8" {} } }
        }
    }
}

/// Renders the legend of bars of tokens.
pub(crate) fn token_legend() -> Markup {
    html! { ul.legend { @for (class, label, _) in token_kinds(&Usage::default()) { li { span.swatch.(class) {} " " (label) } } } }
}

/// Renders the strip of facts that a view begins with.
pub(crate) fn strip(facts: &[(&str, Markup)]) -> Markup {
    html! { dl.strip { @for (name, value) in facts { div { dt { (name) } dd { (value) } } } } }
}

/// Returns the facts of the tokens that a provider counted.
pub(crate) fn usage_facts(usage: Option<&Usage>) -> Vec<(&'static str, Markup)> {
    let Some(usage) = usage else { return vec![("Tokens", html! { "not counted" })] };
    let mut facts = vec![("Input", html! { span.figure { (number(usage.input)) } })];
    facts.push((
        "From the cache",
        html! { span.figure { (number(usage.cached)) } " " span.faint { (percent(usage.cached, usage.input)) } },
    ));
    if usage.cache_write > 0 {
        facts.push(("Written to it", html! { span.figure { (number(usage.cache_write)) } }));
    }
    facts.push(("Output", html! { span.figure { (number(usage.output)) } }));
    facts
}

/// What a cache could have served of a request, and what it did.
pub(crate) struct CacheUse {
    /// The tokens that begin as in the request before.
    pub reusable: u64,
    /// The tokens that the provider read from its cache.
    pub reused: u64,
    /// All tokens of the request.
    pub input: u64,
}

/// Renders two bars: what could have been reused, and what was.
pub(crate) fn cache_bars(found: &CacheUse) -> Markup {
    let CacheUse { reusable, reused, input } = *found;
    let whole = input.max(reusable).max(reused).max(1);
    html! {
        div.cache-bars {
            (cache_bar("could", "Could be reused", reusable, whole))
            (cache_bar("was", "Was reused", reused, whole))
        }
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a picture has fewer pixels than a float has digits"
)]
fn cache_bar(class: &str, name: &str, tokens: u64, whole: u64) -> Markup {
    let width = tokens as f64 / whole as f64 * 1000.0;
    html! {
        span.name { (name) }
        svg.bar.(class) viewBox="0 0 1000 10" preserveAspectRatio="none" role="img" aria-label=(format!("{name}: {} of {} tokens", number(tokens), number(whole))) {
            rect.rest x="0" y="0" width="1000" height="10" {}
            rect.(class) x="0" y="0" width=(format!("{width:.2}")) height="10" {}
        }
        span.figure { (number(tokens)) " " span.faint { (percent(tokens, whole)) } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_tokens_are_short() {
        let shown = [0, 999, 1_000, 12_345, 99_960, 999_499, 999_500, 1_234_567, 2_000_000_000];
        assert_eq!(
            shown.map(short_number),
            ["0", "999", "1.0k", "12.3k", "100k", "999k", "1.0M", "1.2M", "2.0G"]
        );
    }
}
