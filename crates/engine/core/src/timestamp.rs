//! Timestamps of messages.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Number;

/// A point in time, in milliseconds since 1970.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Millis(pub i64);

impl Millis {
    /// Returns the milliseconds since an earlier time; negative if that time is later.
    pub const fn since(self, earlier: Self) -> i64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl fmt::Display for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The time of a message, as given: milliseconds since 1970, or an ISO 8601 text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum Timestamp {
    /// Milliseconds since 1970.
    Millis(Number),
    /// An ISO 8601 date and time.
    Text(String),
}

impl Timestamp {
    /// Returns the milliseconds since 1970; `None` if the text is not a valid time.
    ///
    /// ```
    /// use convoke_core::{Millis, Timestamp};
    /// let timestamp = Timestamp::Text("2026-11-15T08:53:00.250+01:00".to_owned());
    /// assert_eq!(timestamp.millis(), Some(Millis(1_794_729_180_250)));
    /// ```
    pub fn millis(&self) -> Option<Millis> {
        match self {
            #[expect(clippy::cast_possible_truncation, reason = "a float saturates")]
            Self::Millis(millis) => {
                let whole = millis.as_i64().or_else(|| millis.as_f64().map(|millis| millis as i64));
                whole.map(Millis)
            }
            Self::Text(text) => parse(text).map(Millis),
        }
    }
}

/// Parses `YYYY-MM-DD`, optionally with `THH:MM[:SS[.fff]]` and then `Z` or an offset. Without an offset, the
/// time is UTC.
fn parse(text: &str) -> Option<i64> {
    let at = text.parse::<jiff::Timestamp>().or_else(|_| {
        let local: jiff::civil::DateTime = text.parse()?;
        jiff::tz::Offset::UTC.to_timestamp(local)
    });
    Some(at.ok()?.as_millisecond())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_and_times_are_read() {
        let cases = [
            ("1970-01-01", Some(0)),
            ("1970-01-01T00:00Z", Some(0)),
            ("2000-02-29T12:34:56.789Z", Some(951_827_696_789)),
            ("2000-02-29T14:34:56.7894+02:00", Some(951_827_696_789)),
            ("1969-12-31 23:59:59", Some(-1000)),
            ("2026-13-01", None),
            ("yesterday", None),
            ("2026-01-01T", None),
            ("2026-01-01T10:00:00.Z", None),
            ("2026-01-01T1:é", None),
            ("", None),
        ];
        for (text, millis) in cases {
            assert_eq!(parse(text), millis, "{text}");
        }
    }
}
