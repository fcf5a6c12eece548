//! Formatting of times.

use convoke_protocol::id::Millis;

/// Formats a time as `2026-11-15 10:42:07 UTC`, or as milliseconds if it is out of range.
///
/// ```
/// use convoke_protocol::id::Millis;
/// assert_eq!(convoke_session::time_format::utc(Millis(1_794_739_327_000)), "2026-11-15 10:42:07 UTC");
/// ```
pub fn utc(at: Millis) -> String {
    match jiff::Timestamp::from_millisecond(at.0) {
        Ok(time) => time.strftime("%Y-%m-%d %H:%M:%S UTC").to_string(),
        Err(_) => format!("{at} ms since 1970"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leap_days_and_the_time_before_1970_are_right() {
        let cases = [
            (0, "1970-01-01 00:00:00 UTC"),
            (-1, "1969-12-31 23:59:59 UTC"),
            (951_827_696_789, "2000-02-29 12:34:56 UTC"),
            (4_107_542_400_000, "2100-03-01 00:00:00 UTC"),
            (i64::MAX, "9223372036854775807 ms since 1970"),
        ];
        for (at, expected) in cases {
            assert_eq!(utc(Millis(at)), expected);
        }
    }
}
