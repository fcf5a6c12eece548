//! Fields of records whose form is not certain: what is missing or has another type is empty.

use std::io;
use std::path::Path;
use std::time::UNIX_EPOCH;

use convoke_core::Timestamp;
use convoke_protocol::id::Millis;
use memchr::memchr3_iter;
use serde_json::Value;

use crate::lines::MAX_LINE;

/// The maximum number of values in a record, counted by the marks before them.
const MAX_VALUES: usize = 400_000;

/// Returns a field that is a text; of anything else, an empty one.
pub fn text<'v>(value: &'v Value, name: &str) -> &'v str {
    value[name].as_str().unwrap_or_default()
}

/// Returns a count; of anything else, 0.
pub fn count(value: &Value) -> u64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a float saturates"
    )]
    let rounded = || value.as_f64().map(|count| count as u64);
    value.as_u64().or_else(rounded).unwrap_or_default()
}

/// Returns the elements of a list; of anything else, none.
pub fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// Returns a time: milliseconds since 1970, or an ISO 8601 text.
pub fn time(value: &Value) -> Option<Millis> {
    match value {
        Value::Number(millis) => Timestamp::Millis(millis.clone()).millis(),
        Value::String(text) => Timestamp::Text(text.clone()).millis(),
        _ => None,
    }
}

/// Returns a number that stands for a text: two texts with one number are as good as impossible by chance.
pub fn number_of(text: &str) -> u64 {
    let start = 0xcbf2_9ce4_8422_2325_u64;
    text.bytes()
        .fold(start, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

/// Returns the time of a file's last change and its size in bytes.
pub fn change_and_size(path: &Path) -> io::Result<(Millis, u64)> {
    let metadata = path.symlink_metadata()?;
    let since = metadata.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default();
    let millis = i64::try_from(since.as_millis()).unwrap_or(i64::MAX);
    Ok((Millis(millis), metadata.len()))
}

/// A record that was parsed within limits.
#[derive(Debug)]
pub enum Parsed {
    Value(Value),
    /// It is too long, or has too many values.
    TooLarge,
    Broken(serde_json::Error),
}

/// Parses a record that is no line of a file, with the limits of one.
pub fn parse(bytes: &[u8]) -> Parsed {
    let values = || memchr3_iter(b',', b'[', b'{', bytes).nth(MAX_VALUES);
    if bytes.len() > MAX_LINE || values().is_some() {
        return Parsed::TooLarge;
    }
    match serde_json::from_slice(bytes) {
        Ok(value) => Parsed::Value(value),
        Err(error) => Parsed::Broken(error),
    }
}
