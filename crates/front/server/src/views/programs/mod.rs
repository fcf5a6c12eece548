//! Sessions of other programs: the list, a session, and one request with its ledger.

pub mod list;
pub(crate) mod request;
pub mod session;

use convoke_protocol::usage::Usage;
use convoke_protocol::window::Grade;
use maud::{Markup, html};

use super::number;

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
fn counted(usage: &Usage) -> String {
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

/// Renders a grade.
fn grade(grade: Grade) -> Markup {
    html! { span.badge.grade.(grade.as_str()) title=(meaning(grade)) { (grade.as_str()) } }
}

/// Returns what a grade means.
const fn meaning(grade: Grade) -> &'static str {
    match grade {
        Grade::Exact => "equal to what was sent",
        Grade::Messages => {
            "the conversation is as it was sent; the system text or the tools are not in the files"
        }
        Grade::Partial => "something of the conversation is missing",
    }
}

/// Renders the choice of a pane, for screens that have room for one.
fn panes(names: &[(&str, &str)]) -> Markup {
    html! {
        div.pane-choice role="group" aria-label="Panes" { @for (at, (pane, label)) in names.iter().enumerate() {
            button type="button" data-pane=(pane) aria-pressed=(if at == 0 { "true" } else { "false" }) { (label) }
        } }
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
