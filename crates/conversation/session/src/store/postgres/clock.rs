//! The clock of the database. The machines that share a store may disagree about the time, and their messages and turns
//! are ordered by it.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use convoke_agent::clock::now;
use convoke_protocol::id::Millis;
use sqlx::PgConnection;

/// The clock of the database, as it was when a connection was opened or a lease was extended. Clones share it.
#[derive(Debug, Clone, Default)]
pub(super) struct DatabaseClock {
    /// The time by which the database is ahead of this machine, in milliseconds.
    ahead: Arc<AtomicI64>,
}

impl DatabaseClock {
    /// Compares the clock of this machine with the database's.
    pub(super) async fn compare(&self, connection: &mut PgConnection) -> sqlx::Result<()> {
        let asked = now();
        let (there,): (i64,) =
            sqlx::query_as("SELECT (EXTRACT(EPOCH FROM clock_timestamp()) * 1000)::BIGINT")
                .fetch_one(connection)
                .await?;
        self.set(asked, there);
        Ok(())
    }

    /// Notes the time of the database, in milliseconds, in an answer that came just now.
    pub(super) fn set(&self, asked: Millis, there: i64) {
        let here = i64::midpoint(asked.0, now().0);
        self.ahead.store(there.saturating_sub(here), Ordering::Relaxed);
    }

    /// Returns the time of the database.
    pub(super) fn now(&self) -> Millis {
        Millis(now().0.saturating_add(self.ahead.load(Ordering::Relaxed)))
    }
}
