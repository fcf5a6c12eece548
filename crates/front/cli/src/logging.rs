//! Logging to standard error, at the level of `CONVOKE_LOG` (error, warn, info, debug or trace).

use crate::terminal::stderr;
use tracing_subscriber::filter::LevelFilter;

/// Starts logging, at `default` without `CONVOKE_LOG`.
pub fn start(default: LevelFilter) {
    let asked = std::env::var("CONVOKE_LOG").ok().and_then(|level| level.parse().ok());
    tracing_subscriber::fmt()
        .with_writer(stderr)
        .with_ansi(false)
        .without_time()
        .with_target(false)
        .with_max_level(asked.unwrap_or(default))
        .init();
}
