//! Waits between retries.

use std::time::Duration;

use jiff::fmt::rfc2822::DateTimeParser;

/// The wait before the second attempt, without jitter. It doubles with each further attempt.
const FIRST_WAIT: Duration = Duration::from_millis(500);
/// The longest wait, unless the server asks for more.
const MAX_WAIT: Duration = Duration::from_secs(30);
/// The longest wait that a server can ask for. If it asks for more, the turn fails and the error names the
/// wait.
pub(super) const MAX_ASKED_WAIT: Duration = Duration::from_mins(5);

/// Returns the wait after a failed attempt.
///
/// Half of it is random, so that members that failed together do not retry together. A wait that the server
/// asked for is used, with some jitter added.
pub(super) fn wait(attempt: u32, asked: Option<Duration>) -> Duration {
    let chance = fastrand::f64();
    let doubled = FIRST_WAIT.saturating_mul(1 << attempt.saturating_sub(1).min(10));
    let own = doubled.min(MAX_WAIT).mul_f64(0.5 + chance / 2.0);
    match asked {
        Some(asked) => asked.saturating_add(FIRST_WAIT.mul_f64(chance / 5.0)).max(own),
        None => own,
    }
}

/// Parses `Retry-After`: seconds, or a date. `now` is the time since 1970.
pub(super) fn retry_after(value: &str, now: Duration) -> Option<Duration> {
    let value = value.trim();
    if let Ok(seconds) = value.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let date =
        DateTimeParser::new().relaxed_weekday(true).parse_timestamp(value).ok()?.as_duration();
    Some(Duration::try_from(date).unwrap_or_default().saturating_sub(now))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_within_bounds() {
        for attempt in 1..40 {
            let most = FIRST_WAIT.saturating_mul(1 << (attempt - 1).min(10)).min(MAX_WAIT);
            let wait = wait(attempt, None);
            assert!(wait >= most / 2 && wait <= most, "attempt {attempt}: {wait:?}");
        }
    }

    #[test]
    fn a_wait_that_the_server_asked_for_is_never_cut_short() {
        let asked = Duration::from_secs(7);
        let waited = wait(1, Some(asked));
        assert!(waited >= asked && waited < asked + Duration::from_millis(200));
        assert!(wait(1, Some(Duration::ZERO)) >= FIRST_WAIT / 2);
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let now = Duration::from_secs(784_111_777);
        for (value, seconds) in [
            ("3", Some(3.0)),
            (" 0.5 ", Some(0.5)),
            ("Sun, 06 Nov 1994 08:49:47 GMT", Some(10.0)),
            ("Sun, 06 Nov 1994 08:49:30 GMT", Some(0.0)),
            ("-1", None),
            ("Sunday, 06-Nov-94 08:49:47 GMT", None),
            ("Thu, 01 Jan 1900 00:00:00 GMT", Some(0.0)),
            ("soon", None),
            ("1e400", None),
        ] {
            let read = retry_after(value, now).map(|wait| wait.as_secs_f64());
            assert_eq!(read, seconds, "{value}");
        }
    }
}
