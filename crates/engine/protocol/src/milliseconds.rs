//! Durations in JSON: whole milliseconds, in fields whose names end with `Ms`.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serializer};

/// Returns the whole milliseconds of a duration.
pub fn whole(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Writes a duration; for `#[serde(with)]`.
pub fn serialize<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(whole(*duration))
}

/// Reads a duration; for `#[serde(with)]`.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    u64::deserialize(deserializer).map(Duration::from_millis)
}

/// Durations that may be absent.
pub mod optional {
    use super::{Deserialize, Deserializer, Duration, Serializer};

    /// Writes a duration, or null; for `#[serde(with)]`.
    pub fn serialize<S: Serializer>(
        duration: &Option<Duration>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match duration {
            Some(duration) => super::serialize(duration, serializer),
            None => serializer.serialize_none(),
        }
    }

    /// Reads a duration, or null; for `#[serde(with)]`.
    pub fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Duration>, D::Error> {
        Ok(Option::<u64>::deserialize(deserializer)?.map(Duration::from_millis))
    }
}
