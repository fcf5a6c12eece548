//! The page under load: the time to the first content, many viewers of one session, and memory.

mod client;
mod stage;

use std::time::Instant;

use convoke_protocol::id::SessionId;
use tokio::task::JoinSet;

use self::client::{Client, Timing, Viewer};
use self::stage::Stage;
use crate::table::{self, number, time};

/// The sessions in the list.
const SESSIONS: u64 = 1_000;
/// The messages of the long session; every second one is the reply of a turn.
const MESSAGES: u64 = 100_000;
/// The viewers of one session.
const VIEWERS: usize = 200;
/// The messages that people send while they watch; each has a reply.
const SAID: usize = 50;
/// The runs of a view, of which the median and the longest are printed.
const RUNS: usize = 31;
/// The pages that are read one after the other.
const PAGES: u64 = 500;

/// Prints the tables of the page.
pub fn run() {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let Ok(runtime) = runtime else { return };
    runtime.block_on(async {
        let stage = Stage::new(SESSIONS, MESSAGES).await;
        first_content(&stage).await;
        pages(&stage).await;
        viewers(&stage).await;
    });
}

async fn first_content(stage: &Stage) {
    let title = format!(
        "First content: {} sessions, one of them with {} messages",
        number(usize::try_from(SESSIONS).unwrap_or(0) + 1),
        number(usize::try_from(MESSAGES).unwrap_or(0))
    );
    table::begin(&title, &["view", "bytes", "first byte", "all bytes", "longest"]);
    let long = stage.long;
    let (middle, last_turn) = (MESSAGES / 2, MESSAGES / 2 - 1);
    for (view, path) in [
        ("sessions", "/api/sessions".to_owned()),
        ("sessions, the last page", format!("/api/sessions?from={}", SESSIONS - 50)),
        ("search in all messages", "/api/sessions?q=word7".to_owned()),
        ("the long conversation", format!("/api/sessions/{long}")),
        ("around its middle", format!("/api/sessions/{long}?message={middle}")),
        ("its turns", format!("/api/sessions/{long}/turns")),
        ("one of its turns", format!("/api/sessions/{long}/turns/{last_turn}")),
    ] {
        let mut timings = Vec::new();
        for _ in 0..RUNS {
            timings.push(Client::new(stage).get(&path).await);
        }
        let bytes = timings.iter().map(|timing| timing.bytes).max().unwrap_or(0);
        let median = |of: fn(&Timing) -> f64| {
            let mut all: Vec<f64> = timings.iter().map(of).collect();
            all.sort_by(f64::total_cmp);
            all[all.len() / 2]
        };
        let longest = timings.iter().map(|timing| timing.whole).fold(0.0, f64::max);
        table::row(&[
            view.to_owned(),
            number(bytes),
            time(median(|timing| timing.first_byte)),
            time(median(|timing| timing.whole)),
            time(longest),
        ]);
    }
}

/// Reads pages of the long session, one after the other.
async fn pages(stage: &Stage) {
    let title = format!("{PAGES} pages of the long session");
    table::begin(&title, &["messages", "time", "resident before", "resident after"]);
    let before = resident();
    let begin = Instant::now();
    let client = Client::new(stage);
    let mut messages = 0;
    for page in 0..PAGES {
        let path =
            format!("/api/sessions/{}/messages?before={}", stage.long, MESSAGES - page * 100);
        client.get(&path).await;
        messages += 100;
    }
    let nanos = begin.elapsed().as_secs_f64() * 1e9;
    table::row(&[number(messages), time(nanos), mebibytes(before), mebibytes(resident())]);
}

async fn viewers(stage: &Stage) {
    let session = stage.create().await;
    let columns = [
        "viewers",
        "messages",
        "until all have it",
        "longest",
        "resident before",
        "with viewers",
        "after all messages",
    ];
    table::begin("Viewers of one session, from a message to the last viewer that has it", &columns);
    for count in [1, VIEWERS] {
        watch(stage, session, count).await;
    }
}

async fn watch(stage: &Stage, session: SessionId, count: usize) {
    let before = resident();
    let client = Client::new(stage);
    let mut viewers = Vec::new();
    for _ in 0..count {
        viewers.push(client.view(session).await);
    }
    let connected = resident();
    let mut took = Vec::new();
    for _ in 0..SAID {
        let begin = Instant::now();
        client.say(session).await;
        // The message and its reply.
        let mut waiting = JoinSet::new();
        for mut viewer in std::mem::take(&mut viewers) {
            waiting.spawn(async move {
                viewer.messages(2).await;
                viewer
            });
        }
        let back: Vec<Viewer> = waiting.join_all().await;
        viewers = back;
        took.push(begin.elapsed().as_secs_f64() * 1e9);
    }
    took.sort_by(f64::total_cmp);
    table::row(&[
        count.to_string(),
        (2 * SAID).to_string(),
        time(took[took.len() / 2]),
        time(took.last().copied().unwrap_or(0.0)),
        mebibytes(before),
        mebibytes(connected),
        mebibytes(resident()),
    ]);
}

/// Returns the resident memory of the process, server and clients, in bytes.
#[expect(clippy::disallowed_methods, reason = "the kernel bounds what it says of a process")]
fn resident() -> usize {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    pages.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok()).unwrap_or(0) * 4096
}

fn mebibytes(bytes: usize) -> String {
    format!("{:.1} MiB", table::float(bytes) / f64::from(1 << 20))
}
