//! Work in the background that goes on after a panic.

use std::time::Duration;

use tokio::task::JoinSet;

/// The time before work that panicked begins again.
const PAUSE: Duration = Duration::from_secs(1);

/// Does work until it ends by itself. A panic is reported as an error, and the work begins again. Dropping the future ends
/// the work.
pub(crate) async fn kept_running<W>(name: &str, begin: impl Fn() -> W)
where
    W: Future<Output = ()> + Send + 'static,
{
    let mut tasks = JoinSet::new();
    loop {
        tasks.spawn(begin());
        match tasks.join_next().await {
            Some(Err(error)) => tracing::error!("{name} failed and begins again: {error}"),
            Some(Ok(())) | None => return,
        }
        tokio::time::sleep(PAUSE).await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn work_that_panics_begins_again() {
        let begun = Arc::new(AtomicUsize::new(0));
        kept_running("a test", || {
            let begun = begun.clone();
            async move {
                assert!(begun.fetch_add(1, Ordering::SeqCst) > 1, "the first two panic");
            }
        })
        .await;
        assert_eq!(begun.load(Ordering::SeqCst), 3);
    }
}
