//! How long something takes: the best of many runs, because others share the machine.

use std::hint::black_box;
use std::time::{Duration, Instant};

use crate::allocations;

/// What something cost.
#[derive(Debug, Clone, Copy)]
pub struct Cost {
    /// Nanoseconds of the best run.
    pub nanos: f64,
    /// Allocations of one run.
    pub allocations: u64,
}

/// How long each measurement goes on.
const PATIENCE: Duration = Duration::from_millis(400);
const FEWEST_RUNS: u32 = 12;
/// A run is repeated until it takes this long, so that the clock's own cost does not matter.
const SHORTEST_RUN: Duration = Duration::from_micros(20);

/// Measures something, the release of its result included.
pub fn measure<T>(mut run: impl FnMut() -> T) -> Cost {
    let before = allocations::count();
    drop(black_box(run()));
    let allocations = allocations::count() - before;

    let mut batch = 1;
    while time(batch, &mut run) < SHORTEST_RUN {
        batch *= 2;
    }
    let begin = Instant::now();
    let mut best = Duration::MAX;
    let mut runs = 0;
    while runs < FEWEST_RUNS || begin.elapsed() < PATIENCE {
        best = best.min(time(batch, &mut run));
        runs += 1;
    }
    Cost { nanos: nanos(best) / f64::from(batch), allocations }
}

fn time<T>(batch: u32, run: &mut impl FnMut() -> T) -> Duration {
    let begin = Instant::now();
    for _ in 0..batch {
        drop(black_box(run()));
    }
    begin.elapsed()
}

/// Times what cannot be repeated often: by the time that this thread was running, where the system
/// tells it, because a long run is interrupted by whatever shares the machine.
pub struct Stopwatch {
    begin: Instant,
    ran_before: Option<u64>,
}

impl Stopwatch {
    pub fn start() -> Self {
        Self { ran_before: nanos_on_cpu(), begin: Instant::now() }
    }

    /// Returns the nanoseconds since the start.
    pub fn nanos(&self) -> f64 {
        let wall = self.begin.elapsed();
        let ran = nanos_on_cpu().zip(self.ran_before).map(|(now, before)| now - before);
        match ran {
            // The system counts in steps of some milliseconds.
            Some(ran) if wall > Duration::from_millis(100) => {
                nanos(Duration::from_nanos(ran).min(wall))
            }
            _ => nanos(wall),
        }
    }
}

/// Returns the nanoseconds that this thread was running, where the system tells it.
fn nanos_on_cpu() -> Option<u64> {
    #[expect(clippy::disallowed_methods, reason = "the kernel bounds it")]
    let status = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    status.split(' ').next()?.parse().ok()
}

/// Returns a duration in nanoseconds.
fn nanos(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e9
}

/// Measures copying a text into a fresh string of just its capacity.
pub fn measure_copy(text: &str) -> Cost {
    measure(|| {
        let mut copy = String::with_capacity(text.len());
        copy.push_str(black_box(text));
        copy
    })
}
