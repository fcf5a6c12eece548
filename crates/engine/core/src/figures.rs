//! Numbers formatted for people.

use std::fmt::Write as _;
use std::time::Duration;

/// Returns a number with a comma between thousands.
///
/// ```
/// assert_eq!(convoke_core::figures::thousands(1_234_567), "1,234,567");
/// ```
pub fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Returns bytes as hexadecimal digits.
///
/// ```
/// assert_eq!(convoke_core::figures::hexadecimal(&[0, 255]), "00ff");
/// ```
pub fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Returns an amount in US dollars: cents, or as many digits as a smaller amount needs.
///
/// ```
/// use convoke_core::figures::dollars;
/// assert_eq!([dollars(0.0), dollars(0.0123), dollars(12.345)], ["$0.00", "$0.0123", "$12.35"]);
/// ```
pub fn dollars(amount: f64) -> String {
    match amount {
        ..=0.0 => "$0.00".to_owned(),
        ..0.0001 => "<$0.0001".to_owned(),
        ..0.1 => format!("${amount:.4}"),
        _ => format!("${amount:.2}"),
    }
}

/// Returns a number of bytes with a unit: `1,042 B`, `184 KB`, `2.1 MB`.
pub fn size(bytes: u64) -> String {
    let tenths = bytes.saturating_add(50_000) / 100_000;
    match bytes {
        0..10_000 => format!("{} B", thousands(bytes)),
        10_000..1_000_000 => format!("{} KB", (bytes + 500) / 1000),
        _ => format!("{}.{} MB", thousands(tenths / 10), tenths % 10),
    }
}

/// Returns a count with its noun: `1 turn`, `2 turns`.
pub fn count(many: u64, what: &str) -> String {
    let plural = if many == 1 { "" } else { "s" };
    format!("{} {what}{plural}", thousands(many))
}

/// Returns a duration: `1.2 s`, `2 min 05 s`.
pub fn seconds(time: Duration) -> String {
    match time.as_secs() {
        whole @ 60.. => format!("{} min {:02} s", whole / 60, whole % 60),
        _ => format!("{:.1} s", time.as_secs_f64()),
    }
}

/// Returns a share in percent with one decimal. Only an empty share is `0.0 %`, and only the whole is
/// `100.0 %`.
pub fn percent(part: u64, whole: u64) -> String {
    match scaled(part, whole, 1000) {
        0 if part > 0 => "<0.1 %".to_owned(),
        1000 if part < whole => ">99.9 %".to_owned(),
        tenths => format!("{}.{} %", tenths / 10, tenths % 10),
    }
}

/// Returns a share in percent: from 10 % without a decimal, else as [`percent`].
pub fn rounded_percent(part: u64, whole: u64) -> String {
    match scaled(part, whole, 100) {
        100 if part < whole => ">99 %".to_owned(),
        percent @ 10.. => format!("{percent} %"),
        _ => percent(part, whole),
    }
}

/// Returns the share in units of `1/scale`, rounded; 0 if the total is 0.
fn scaled(part: u64, whole: u64, scale: u128) -> u128 {
    (u128::from(part) * scale + u128::from(whole / 2)).checked_div(whole.into()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_apart() {
        assert_eq!(
            [0, 999, 1000, 76938, 1_234_567].map(thousands),
            ["0", "999", "1,000", "76,938", "1,234,567"]
        );
    }

    #[test]
    fn amounts_and_percentages_never_round_to_nothing() {
        assert_eq!(
            [(1, 3), (0, 0), (5, 5), (1, 9999), (9998, 9999), (u64::MAX, u64::MAX)]
                .map(|(part, whole)| percent(part, whole)),
            ["33.3 %", "0.0 %", "100.0 %", "<0.1 %", ">99.9 %", "100.0 %"]
        );
        assert_eq!(
            [0.0, 0.000_01, 0.0123, 0.5, 12.345].map(dollars),
            ["$0.00", "<$0.0001", "$0.0123", "$0.50", "$12.35"]
        );
    }

    #[test]
    fn sizes_and_percentages_are_short() {
        assert_eq!(
            [1_042, 9_999, 184_312, 999_499, 2_149_999].map(size),
            ["1,042 B", "9,999 B", "184 KB", "999 KB", "2.1 MB"]
        );
        assert_eq!(
            [(61, 100), (6, 1000), (95, 1000), (1, 1), (9_999, 10_000), (1, 9_999), (0, 0)]
                .map(|(part, whole)| rounded_percent(part, whole)),
            ["61 %", "0.6 %", "10 %", "100 %", ">99 %", "<0.1 %", "0.0 %"]
        );
    }
}
