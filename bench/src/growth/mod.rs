//! How the time of each reader grows with hostile input, up to the reader's limit.
//!
//! Twice the input may cost at most 2.5 times the time; a reader that costs more fails the run. To add
//! one, add a [`Reader`] to a list of [`READERS`].

mod files;

use crate::measure::Stopwatch;
use crate::table::{self, number, ratio, time};

/// The most that twice the input may cost.
const MOST: f64 = 2.5;

/// Shorter times say more about the machine than about the reader.
const SHORTEST_NANOS: f64 = 2e6;

/// The sizes below the limit that are measured, as halvings of it.
const HALVINGS: u32 = 3;

const RUNS: usize = 3;

/// A reader and an input that is meant to slow it down.
pub struct Reader {
    /// What reads.
    pub name: &'static str,
    /// What the input consists of.
    pub input: &'static str,
    /// The largest input: bytes, or things of another kind.
    pub limit: usize,
    /// Makes an input of a size, and returns what reads it.
    pub prepare: fn(usize) -> Box<dyn FnMut()>,
}

/// The readers of each part of Convoke.
const READERS: [&[Reader]; 1] = [files::READERS];

/// Prints a table, and returns whether every reader is linear.
pub fn run() -> bool {
    table::begin(
        "Growth: twice the input, up to the limit",
        &["reader", "input", "size", "time", "growth"],
    );
    let readers = READERS.into_iter().flatten();
    // Not `all`, which would end the table with the first that is not.
    readers.filter(|reader| !is_linear(reader)).count() == 0
}

fn is_linear(reader: &Reader) -> bool {
    let mut before = None;
    let mut is_linear = true;
    for halvings in (0..=HALVINGS).rev() {
        let size = reader.limit >> halvings;
        let mut read = (reader.prepare)(size);
        let nanos = (0..RUNS).map(|_| {
            let watch = Stopwatch::start();
            read();
            watch.nanos()
        });
        let nanos = nanos.fold(f64::MAX, f64::min);
        let growth = before.map_or_else(|| "–".to_owned(), |before| ratio(nanos, before));
        table::row(&[reader.name, reader.input, &number(size), &time(nanos), &growth]);
        is_linear &= before.is_none_or(|before| nanos <= MOST * before.max(SHORTEST_NANOS));
        before = Some(nanos);
    }
    is_linear
}
