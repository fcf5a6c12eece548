//! When something was said, as it was given, and as a point in time.

use std::fmt;

use serde::{Deserialize, Serialize, Serializer};
use serde_json::Number;

/// A point in time, in milliseconds since 1970.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Millis(pub i64);

impl Millis {
    /// Returns the milliseconds from an earlier time to this one; negative if it was later.
    pub const fn since(self, earlier: Self) -> i64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl fmt::Display for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// When something was said: milliseconds since 1970, or an ISO 8601 text, kept as it was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Timestamp {
    /// Milliseconds since 1970.
    Millis(Number),
    /// An ISO 8601 date and time.
    Text(String),
}

impl Timestamp {
    /// Returns the milliseconds since 1970, or none when the text is no date and time.
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

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Millis(millis) => millis.serialize(serializer),
            Self::Text(text) => text.serialize(serializer),
        }
    }
}

/// Reads `YYYY-MM-DD`, optionally with `THH:MM[:SS[.fff]]` and then `Z` or an offset; UTC without.
fn parse(text: &str) -> Option<i64> {
    let (date, time) = match text.split_once(['T', 't', ' ']) {
        Some((date, time)) => (date, time),
        None => (text, "00:00"),
    };
    let [year, month, day] = numbers(date, '-')?;
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let (clock, offset_minutes) = split_offset(time)?;
    let (clock, millis) = match clock.split_once('.') {
        Some((clock, fraction)) => (clock, fraction_millis(fraction)?),
        None => (clock, 0),
    };
    let [hour, minute, second] = match clock.matches(':').count() {
        1 => {
            let [hour, minute] = numbers(clock, ':')?;
            [hour, minute, 0]
        }
        _ => numbers(clock, ':')?,
    };
    if hour > 24 || minute > 59 || second > 60 {
        return None;
    }
    let minutes = (days_since_1970(year, month, day) * 24 + hour) * 60 + minute - offset_minutes;
    Some((minutes * 60 + second) * 1000 + millis)
}

/// Splits off `Z` or `±HH:MM`, in minutes.
fn split_offset(time: &str) -> Option<(&str, i64)> {
    if let Some(clock) = time.strip_suffix(['Z', 'z']) {
        return Some((clock, 0));
    }
    let Some(at) = time.rfind(['+', '-']) else {
        return Some((time, 0));
    };
    let [hours, minutes] = numbers(&time[at + 1..], ':')?;
    let offset = hours * 60 + minutes;
    Some((&time[..at], if time[at..].starts_with('-') { -offset } else { offset }))
}

/// Reads exactly `N` numbers of at most four digits.
fn numbers<const N: usize>(text: &str, separator: char) -> Option<[i64; N]> {
    let mut parts = text.split(separator);
    let mut numbers = [0; N];
    for number in &mut numbers {
        let part = parts.next()?;
        let digits = (1..=4).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_digit());
        *number = digits.then(|| part.parse().ok()).flatten()?;
    }
    parts.next().is_none().then_some(numbers)
}

fn fraction_millis(fraction: &str) -> Option<i64> {
    if fraction.is_empty() || !fraction.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let digits = fraction.bytes().chain([b'0'; 3]).take(3);
    Some(digits.fold(0, |millis, digit| millis * 10 + i64::from(digit - b'0')))
}

/// Counts days in the proleptic Gregorian calendar, in eras of 400 years that begin in March.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
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
