//! Simulation: thousands of random conversations, run by the real coordinator with a real store, and by a model
//! that only has the rules. Both must agree on every message, turn and stop.
//!
//! `CONVOKE_SIMULATION_SEEDS` sets the number of conversations.

#![expect(clippy::unwrap_used, reason = "the functions of a test")]

mod model;
mod script;
mod world;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use convoke_session::SqliteStore;
use convoke_session::store::failpoint::Failpoint;
use convoke_session::store::sqlite::Durability;

use self::world::World;

fn seeds() -> u64 {
    let set = std::env::var("CONVOKE_SIMULATION_SEEDS").ok();
    set.map_or(2000, |seeds| seeds.parse().unwrap())
}

/// Runs a check for every seed, on all available threads.
fn for_every_seed<F: Future<Output = ()>>(
    check: impl Fn(SqliteStore, u64) -> F + Send + Sync + 'static,
) {
    let check = Arc::new(check);
    let next = Arc::new(AtomicU64::new(0));
    let threads = std::thread::available_parallelism().unwrap().get().min(4);
    let workers: Vec<_> = (0..threads)
        .map(|_| {
            let (check, next) = (check.clone(), next.clone());
            std::thread::spawn(move || {
                let directory =
                    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
                let runtime =
                    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                runtime.block_on(async {
                    let (durability, failpoint) = (Durability::Process, Failpoint::default());
                    let store = SqliteStore::open_with(directory.path(), durability, failpoint);
                    let store = store.await.unwrap();
                    loop {
                        let seed = next.fetch_add(1, Ordering::Relaxed);
                        if seed >= seeds() {
                            break store.close().await;
                        }
                        check(store.clone(), seed).await;
                    }
                });
            })
        })
        .collect();
    for worker in workers {
        worker.join().unwrap();
    }
}

#[test]
fn one_after_another_everything_is_as_the_model_says() {
    let turns = Arc::new(AtomicU64::new(0));
    let counted = turns.clone();
    for_every_seed(move |store, seed| {
        let counted = counted.clone();
        async move {
            let world = World::new(seed, false);
            let (model, stops) = world.expected();
            let held = world.hold(&store).await;
            assert_eq!(held.stops, stops, "seed {seed}: why it stopped");
            assert_eq!(held.messages, model.messages, "seed {seed}: what was said");
            assert_eq!(held.turns, model.turns(), "seed {seed}: the turns");
            assert_eq!(held.task, model.task, "seed {seed}: the task");
            counted.fetch_add(model.taken, Ordering::Relaxed);
        }
    });
    println!("{} conversations, {} turns", seeds(), turns.load(Ordering::Relaxed));
}

#[test]
fn at_the_same_time_nothing_is_lost_or_doubled() {
    for_every_seed(|store, seed| async move {
        if seed.is_multiple_of(4) {
            World::new(seed, true).hold(&store).await.check();
        }
    });
}
