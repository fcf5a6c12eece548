//! The clock of stored times.

use convoke_files::clock::since_1970;
use convoke_protocol::id::Millis;

/// Returns the current time. All stored times come from this function.
pub fn now() -> Millis {
    Millis(i64::try_from(since_1970().as_millis()).unwrap_or(i64::MAX))
}
