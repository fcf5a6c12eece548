//! A failpoint: ends the process at the n-th write, for crash tests.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Aborts the process at the n-th write; by default never.
#[derive(Debug, Clone, Default)]
pub struct Failpoint(Option<Arc<AtomicU64>>);

impl Failpoint {
    /// Aborts the process at the `nth` write, from 1.
    pub fn at(nth: u64) -> Self {
        Self(Some(Arc::new(AtomicU64::new(nth))))
    }

    /// Counts a write point.
    pub fn reach(&self) {
        if let Some(left) = &self.0
            && left.fetch_sub(1, Ordering::SeqCst) == 1
        {
            // No destructor runs and nothing is flushed, as with `kill -9`.
            std::process::abort();
        }
    }
}
