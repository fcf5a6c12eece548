//! The same work on many sessions, with as many threads as there are cores.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Applies a function to every item. The results are in the order of the items.
pub fn map<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let run = || {
        let mut results = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(index) else { return results };
            results.push((index, work(item)));
        }
    };
    let threads = thread::available_parallelism().map_or(1, usize::from).min(items.len());
    let mut results = thread::scope(|scope| {
        let workers: Vec<_> = (1..threads).map(|_| scope.spawn(run)).collect();
        let mut results = run();
        for worker in workers {
            match worker.join() {
                Ok(more) => results.extend(more),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        results
    });
    results.sort_unstable_by_key(|(index, _)| *index);
    results.into_iter().map(|(_, result)| result).collect()
}
