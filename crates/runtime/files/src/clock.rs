//! The time now. Nothing else reads the clock of the machine.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Returns the time since the beginning of 1970; zero if the clock is set to an earlier time.
#[expect(clippy::disallowed_methods, reason = "the one place that reads the clock")]
pub fn since_1970() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}
