//! Formatting of numbers, times and percentages.

use std::time::Duration;

pub use convoke_core::figures::{dollars, thousands as number};

/// Formats a count with its noun: `1 turn`, `2 turns`.
pub fn count(many: u64, what: &str) -> String {
    let plural = if many == 1 { "" } else { "s" };
    format!("{} {what}{plural}", number(many))
}

/// Formats a duration: `1.2 s`, `2 min 05 s`.
pub fn seconds(time: Duration) -> String {
    match time.as_secs() {
        whole @ 60.. => format!("{} min {:02} s", whole / 60, whole % 60),
        _ => format!("{:.1} s", time.as_secs_f64()),
    }
}

/// Formats a difference with its sign: `+1,204`.
pub fn signed(before: u64, after: u64) -> String {
    if after >= before {
        format!("+{}", number(after - before))
    } else {
        format!("-{}", number(before - after))
    }
}

/// Formats a share in percent with one decimal. Only nothing is `0%`, and only everything is `100%`.
pub fn percent(part: u64, whole: u64) -> String {
    let (wide, half) = (u128::from(part) * 1000, u128::from(whole / 2));
    let tenths = (wide + half).checked_div(whole.into()).unwrap_or(0);
    match tenths {
        0 if part > 0 => "<0.1 %".to_owned(),
        1000 if part < whole => ">99.9 %".to_owned(),
        tenths => format!("{}.{} %", tenths / 10, tenths % 10),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_easy_to_read() {
        assert_eq!(
            [(1, 3), (0, 0), (5, 5), (1, 9999), (9998, 9999), (u64::MAX, u64::MAX)]
                .map(|(part, whole)| percent(part, whole)),
            ["33.3 %", "0.0 %", "100.0 %", "<0.1 %", ">99.9 %", "100.0 %"]
        );
        assert_eq!(
            [0.0, 0.000_01, 0.0123, 0.5, 12.345].map(dollars),
            ["$0.00", "<$0.0001", "$0.0123", "$0.50", "$12.35"]
        );
        assert_eq!([signed(5, 2000), signed(2000, 5), signed(1, 1)], ["+1,995", "-1,995", "+0"]);
    }
}
