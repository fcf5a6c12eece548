//! Measures time: the best of many runs, because others share the machine.

use std::hint::black_box;
use std::time::{Duration, Instant};

use crate::allocations;

/// A measured cost.
#[derive(Debug, Clone, Copy)]
pub struct Cost {
    /// Nanoseconds of the best run.
    pub nanos: f64,
    /// Allocations of one run.
    pub allocations: u64,
}

/// The duration of each measurement.
const DURATION: Duration = Duration::from_millis(400);
const MIN_RUNS: u32 = 12;
/// A run is repeated until it takes this long, so that the clock's own cost does not matter.
const MIN_RUN_TIME: Duration = Duration::from_micros(20);

/// Measures something, the release of its result included.
pub fn measure<T>(mut run: impl FnMut() -> T) -> Cost {
    let before = allocations::count();
    drop(black_box(run()));
    let allocations = allocations::count() - before;

    let mut batch = 1;
    while time(batch, &mut run) < MIN_RUN_TIME {
        batch *= 2;
    }
    let begin = Instant::now();
    let mut best = Duration::MAX;
    let mut runs = 0;
    while runs < MIN_RUNS || begin.elapsed() < DURATION {
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

/// Times what cannot be repeated often, by the processor time of the process in all its threads: a long
/// run is interrupted by whatever shares the machine.
pub struct Stopwatch {
    begin: Duration,
}

impl Stopwatch {
    pub fn start() -> Self {
        Self { begin: processor_time() }
    }

    /// Returns the nanoseconds of processor time since the start.
    pub fn nanos(&self) -> f64 {
        nanos(processor_time().saturating_sub(self.begin))
    }
}

/// Returns the processor time that the process has used.
#[expect(unsafe_code, reason = "the clock is a system call")]
fn processor_time() -> Duration {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes to `now` and nothing else.
    let status = unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut now) };
    assert_eq!(status, 0, "the clock of the process can be read");
    let part = |value: i64| u64::try_from(value).unwrap_or_default();
    Duration::from_secs(part(now.tv_sec)) + Duration::from_nanos(part(now.tv_nsec))
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
