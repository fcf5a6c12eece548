//! Growth of readers: an input of twice the size costs at most 2.5 times as much, up to the reader's limit.
//!
//! A reader of untrusted input has a row for each kind of input that made it, or one like it, slow. To add one: a name, the
//! largest input that the reader takes, how an input of a given size is made, and how it is read. All times are processor
//! time, the least of several runs. In a process under Valgrind instructions are counted instead.

mod files;
mod search;
mod sessions;
mod streams;

use std::hint::black_box;

use convoke_redact::Redactor;

use crate::instructions;
use crate::measure::Stopwatch;
use crate::table::{self, number, ratio, throughput, time};

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;
/// Small inputs are read so often that a run reads this many bytes; the best of some runs counts.
const BYTES_A_RUN: usize = MIB;
const RUNS: usize = 9;
/// The number of times that a step that costs too much is measured again.
const RETRIES: usize = 3;
/// The duration in nanoseconds from which a measurement is not repeated within a run.
const SHORT: f64 = 1e6;
/// The factor by which twice the input may cost more.
const MAX_GROWTH: f64 = 2.5;
/// A reader that takes no longer than this many copies of its input is as fast as memory, whose caches decide a step.
const COPIES: f64 = 8.0;

/// A reader and one kind of input.
struct Reader {
    name: &'static str,
    input: &'static str,
    /// The size of the largest input.
    limit: usize,
    make: fn(usize) -> String,
    read: fn(&str),
}

const READERS: &[Reader] = &[
    redaction("`sk-` repeated", |bytes| repeated("sk-", bytes)),
    redaction("keys", |bytes| repeated("sk-a1B2c3D4e5F6g7H8i9J0k1 ", bytes)),
    redaction("beginnings of many keys", |bytes| repeated("sk-glpat-xoxb-pypi-eyJ.SG.", bytes)),
    redaction("titles of private keys", |bytes| repeated("-----BEGIN PRIVATE KEY-----", bytes)),
    redaction("titles on lines", |bytes| repeated("-----BEGIN PRIVATE KEY-----\nab\n", bytes)),
    redaction("addresses", |bytes| repeated("http://a:b@", bytes)),
    redaction("one known value repeated", |bytes| repeated("correct-horse-battery", bytes)),
    redaction("prose", |bytes| repeated("The key to it is a word, and not a secret. ", bytes)),
    Reader {
        name: "redaction, 16 bytes at a time",
        input: "`sk-` repeated",
        limit: 4 * MIB,
        make: |bytes| repeated("sk-", bytes),
        read: |text| {
            let mut stream = redactor().stream();
            for piece in text.as_bytes().chunks(16).filter_map(|piece| str::from_utf8(piece).ok()) {
                black_box(stream.push(piece));
            }
            black_box(stream.finish());
        },
    },
];

const fn redaction(input: &'static str, make: fn(usize) -> String) -> Reader {
    let read = |text: &str| {
        black_box(redactor().redact(text));
    };
    Reader { name: "redaction", input, limit: 4 * MIB, make, read }
}

/// Settings of glibc's allocator under which it returns no memory. By default it returns large blocks, and gets them anew
/// in every run: a jump at the size where that begins, which is no growth of a reader.
const KEEP_MEMORY: (&str, &str) = (
    "GLIBC_TUNABLES",
    "glibc.malloc.mmap_max=0:glibc.malloc.trim_threshold=8589934592:glibc.malloc.top_pad=67108864",
);

/// Prints the tables in a process whose allocator keeps its memory.
pub fn run() {
    if std::env::var_os(KEEP_MEMORY.0).is_some() {
        return print();
    }
    let again = std::env::current_exe().and_then(|program| {
        std::process::Command::new(program).arg("growth").env(KEEP_MEMORY.0, KEEP_MEMORY.1).status()
    });
    if let Err(error) = again {
        println!("growth was not measured: {error}");
    }
}

/// Prints the table of all readers with instructions instead of times.
pub fn count_instructions() {
    if let Err(error) = instructions::run_counted("growth", KEEP_MEMORY) {
        println!("instructions were not counted: {error}");
    }
}

/// Prints the table of all readers, and that of imported requests.
fn print() {
    let [total, rate] = if instructions::directory().is_some() {
        ["instructions at the limit", "a byte"]
    } else {
        ["time at the limit", "throughput"]
    };
    table::begin(
        "Growth of readers: the worst step from n to 2n, from 64 KiB or an eighth of the limit on",
        &["reader", "input", "limit", total, rate, "2n / n", "within 2.5"],
    );
    for reader in READERS.iter().chain(files::READERS).chain(streams::READERS) {
        let smallest = (reader.limit / 8).min(64 * KIB);
        row([reader.name, reader.input], smallest, reader.limit, |size| cost(reader, size));
    }
    search::rows();
    sessions::rows();
    if instructions::directory().is_none() {
        sessions::requests();
    }
}

/// Reads an input once, for a program that counts instructions.
pub fn read_once(name: &str, input: &str, size: usize) {
    let mut readers = READERS.iter().chain(files::READERS).chain(streams::READERS);
    match readers.find(|reader| reader.name == name && reader.input == input) {
        Some(reader) => (reader.read)(&(reader.make)(size)),
        None => println!("there is no reader `{name}` with an input `{input}`"),
    }
}

/// Prints the row of a reader whose cost for an input of a size is known.
fn row(titles: [&str; 2], smallest: usize, limit: usize, cost: impl Fn(usize) -> f64) {
    let mut size = smallest;
    let mut before = cost(size);
    let mut worst: f64 = 0.0;
    let mut misses = Vec::new();
    while size < limit {
        size *= 2;
        let mut now = cost(size);
        // Whatever else the machine does only adds to a cost, so the least of a few counts.
        for _ in 0..RETRIES {
            if now <= MAX_GROWTH * before {
                break;
            }
            now = now.min(cost(size));
        }
        if now > MAX_GROWTH * before {
            misses.push((size, now));
        }
        worst = worst.max(now / before);
        before = now;
    }
    let (figures, verdict) = if instructions::directory().is_some() {
        let a_byte = format!("{:.1}", before / table::float(size));
        let verdict = if misses.is_empty() { "yes" } else { "NO" };
        ([table::millions(before), a_byte], verdict.to_owned())
    } else {
        ([time(before), throughput(size, before)], timed_verdict(&misses))
    };
    let [name, input] = titles.map(str::to_owned);
    let [cost, rate] = figures;
    table::row(&[name, input, number(size), cost, rate, ratio(worst, 1.0), verdict]);
}

/// Says whether all steps were within the limit, or else how many copies of their inputs they took.
fn timed_verdict(misses: &[(usize, f64)]) -> String {
    let copies = misses.iter().map(|&(size, time)| time / copy_cost(size)).fold(0.0, f64::max);
    match misses {
        [] => "yes".to_owned(),
        _ if copies <= COPIES => format!("{copies:.1} copies"),
        _ => "NO".to_owned(),
    }
}

fn cost(reader: &Reader, size: usize) -> f64 {
    let input = (reader.make)(size);
    if instructions::directory().is_some() {
        return least(1, || (reader.read)(&input));
    }
    // A slow reader needs no repetition.
    let once = least(1, || (reader.read)(&input));
    let batch = if once < SHORT { (BYTES_A_RUN / size).max(1) } else { 1 };
    least(RUNS, || (0..batch).for_each(|_| (reader.read)(&input))) / table::float(batch)
}

/// Returns the time to copy so many bytes.
fn copy_cost(size: usize) -> f64 {
    let text = "x".repeat(size);
    least(RUNS, || drop(black_box(text.clone())))
}

/// Returns the nanoseconds of the fastest of some runs, or the instructions of one where they are counted.
fn least(runs: usize, mut run: impl FnMut()) -> f64 {
    if let Some(directory) = instructions::directory() {
        // What is set up once is no part of the growth.
        run();
        return instructions::count(&directory, run);
    }
    let mut once = || {
        let watch = Stopwatch::start();
        run();
        watch.nanos()
    };
    (0..runs).map(|_| once()).fold(f64::MAX, f64::min)
}

fn redactor() -> Redactor {
    Redactor::default().and_key("correct-horse-battery")
}

fn repeated(text: &str, bytes: usize) -> String {
    text.repeat(bytes / text.len())
}

/// Joins so many texts, each made of its number.
fn numbered(count: usize, text: impl Fn(usize) -> String) -> String {
    let texts: Vec<_> = (0..count).map(text).collect();
    texts.concat()
}
