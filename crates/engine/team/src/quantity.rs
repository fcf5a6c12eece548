//! Sizes and durations as people write them: `768 KiB`, `30m`.

use std::time::Duration;

/// Reads a number of bytes with an optional unit.
pub fn bytes(text: &str) -> Option<u64> {
    let (number, unit) = split(text)?;
    let factor: u64 = match unit.to_ascii_lowercase().as_str() {
        "" | "b" | "bytes" => 1,
        "kb" | "kilobyte" | "kilobytes" => 1000,
        "kib" | "k" => 1 << 10,
        "mb" | "megabyte" | "megabytes" => 1_000_000,
        "mib" | "m" => 1 << 20,
        "gb" | "gigabyte" | "gigabytes" => 1_000_000_000,
        "gib" | "g" => 1 << 30,
        _ => return None,
    };
    number.checked_mul(factor)
}

/// The longest accepted duration: thirty days.
const MAX_DURATION: Duration = Duration::from_hours(30 * 24);

/// Reads a number of seconds, minutes or hours, up to thirty days.
pub fn duration(text: &str) -> Option<Duration> {
    let (number, unit) = split(text)?;
    let factor: u64 = match unit.to_ascii_lowercase().as_str() {
        "s" | "sec" | "secs" | "second" | "seconds" => 1,
        "m" | "min" | "mins" | "minute" | "minutes" => 60,
        "h" | "hr" | "hrs" | "hour" | "hours" => 3600,
        _ => return None,
    };
    number.checked_mul(factor).map(Duration::from_secs).filter(|time| *time <= MAX_DURATION)
}

fn split(text: &str) -> Option<(u64, &str)> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '_').unwrap_or(text.len());
    let number = text[..digits].replace('_', "").parse().ok()?;
    Some((number, text[digits..].trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_with_their_units() {
        let cases = [
            ("768 KiB", Some(786_432)),
            ("5kib", Some(5120)),
            ("1 MB", Some(1_000_000)),
            ("1GiB", Some(1 << 30)),
            ("4_096", Some(4096)),
            ("4096 bytes", Some(4096)),
            ("1.5 KiB", None),
            ("-1", None),
            ("much", None),
            ("99999999999999999999", None),
        ];
        for (text, expected) in cases {
            assert_eq!(bytes(text), expected, "{text}");
        }
    }

    #[test]
    fn durations_need_a_unit() {
        let cases = [
            ("90s", Some(90)),
            ("30 m", Some(1800)),
            ("2h", Some(7200)),
            ("30", None),
            ("721h", None),
            ("18446744073709551615s", None),
        ];
        for (text, expected) in cases {
            assert_eq!(duration(text), expected.map(Duration::from_secs), "{text}");
        }
    }
}
