//! The cost of a call: `cargo bench -p convoke-model`.
//!
//! Three figures: the time from the start of a turn to its request on the wire, with a thread of 1 MiB (in
//! memory, and in the session store, which commits each request before it is sent); the memory for a stream of
//! 100 MiB; and the cost of storing every request of a growing thread.

#![allow(clippy::print_stdout, clippy::unwrap_used, missing_docs)]

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::time::{Duration, Instant};

use convoke_agent::config::Api;
use convoke_agent::thread::{MemoryThreadStore, ThreadStore};
use convoke_agent::{Agent, TurnInput};
use convoke_conformance_store::request;
use convoke_model::{CallEvent, CallLimits, Client, Endpoint, Host, ModelAgent, Proxies, Settings};
use convoke_protocol::id::ThreadId;
use convoke_protocol::request::RequestTexts;
use convoke_rehearsal::{Script, start};
use convoke_session::SqliteStore;
use convoke_thread::config::{Machine, Wire};

const STREAM_BYTES: usize = 100 << 20;
const THREAD_BYTES: usize = 1 << 20;
const ROUNDS: usize = 20;

fn main() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(memory_of_a_long_stream());
    runtime.block_on(time_to_the_wire("memory", Arc::new(MemoryThreadStore::default())));
    let folder = tempfile::tempdir().unwrap();
    let store = runtime.block_on(SqliteStore::open(folder.path())).unwrap();
    runtime.block_on(time_to_the_wire("SQLite", Arc::new(store)));
    runtime.block_on(cost_of_keeping_requests());
}

/// Stores the requests of a thread that grows to 1 MiB, in the session store.
async fn cost_of_keeping_requests() {
    const TURNS: usize = 200;
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path()).await.unwrap();
    let mut items = String::new();
    let (mut sent, mut added, mut read) = (0, Vec::new(), Vec::new());
    let thread = ThreadId::generate();
    let mut before: Option<RequestTexts> = None;
    for turn in 0..TURNS {
        items.push_str(&prose(turn as u64, THREAD_BYTES / TURNS));
        let body = format!("{{\"input\":[{items}],\"tools\":[]}}");
        let ledger = format!("{{\"section\":\"user\",\"keptBytes\":{turn}}}\n").repeat(turn);
        sent += body.len();
        let record = request(&thread, turn as u64 + 1, None, RequestTexts { body, ledger });
        let begun = Instant::now();
        let number = store.add_request(&record, before.as_ref()).await.unwrap();
        added.push(begun.elapsed());
        let begun = Instant::now();
        assert_eq!(store.request_texts(&thread, number).await.unwrap(), record.texts);
        read.push(begun.elapsed());
        before = Some(record.texts);
    }
    store.close().await;
    let file = std::fs::metadata(folder.path().join("sessions.db")).unwrap().len();
    added.sort();
    read.sort();
    println!(
        "kept: {TURNS} requests, {sent} bytes in all, take {file} bytes; the last has {}",
        before.map_or(0, |it| it.body.len())
    );
    println!(
        "kept: adding one takes {:?}, reading one back {:?} (medians), at the most {:?} and {:?}",
        added[TURNS / 2],
        read[TURNS / 2],
        added[TURNS - 1],
        read[TURNS - 1]
    );
}

/// Returns a text that compresses about as well as prose.
fn prose(seed: u64, bytes: usize) -> String {
    let mut state = seed.wrapping_add(1);
    let mut text = String::with_capacity(bytes + 16);
    while text.len() < bytes {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let length = 2 + (state >> 61) as usize;
        for index in 0..length {
            text.push(char::from(b'a' + ((state >> (8 + 6 * index)) % 24) as u8));
        }
        text.push(' ');
    }
    text
}

/// Reads a stream of many small events, whose text is kept up to the default limit.
async fn memory_of_a_long_stream() {
    let address = serve_endlessly();
    let endpoint = Endpoint::new(&format!("http://{address}"), Wire::Chat).unwrap();
    let client = Client::new(endpoint, None, &Proxies::default(), CallLimits::default()).unwrap();
    let before = peak_kib();
    let begun = Instant::now();
    let mut call = client.call("/chat/completions", "{}", &[]);
    let mut bytes = 0;
    while let Some(event) = call.next().await {
        match event {
            CallEvent::Text(text) => bytes += text.len(),
            CallEvent::Answered(answer) => println!(
                "stream: {} MiB of text read in {:.1} s, {} MiB of it left out",
                bytes >> 20,
                begun.elapsed().as_secs_f64(),
                answer.cut_bytes >> 20
            ),
            other => println!("stream: {other:?}"),
        }
    }
    println!("stream: peak memory {} KiB before, {} KiB after", before, peak_kib());
}

/// Starts a server that streams the text and ends.
fn serve_endlessly() -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let _ = stream.read(&mut [0; 4096]).unwrap();
        let head =
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
        stream.write_all(head.as_bytes()).unwrap();
        let text = "x".repeat(1 << 10);
        let event = format!("data: {{\"choices\":[{{\"delta\":{{\"content\":\"{text}\"}}}}]}}\n\n");
        for _ in 0..STREAM_BYTES / text.len() {
            stream.write_all(event.as_bytes()).unwrap();
        }
        let end =
            "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
        stream.write_all(end.as_bytes()).unwrap();
    });
    address
}

fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    number.unwrap_or(0)
}

/// Runs turns on a thread of 1 MiB, each from the store to the wire.
async fn time_to_the_wire(name: &str, store: Arc<dyn ThreadStore>) {
    let server = start(Script::default()).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let host = Host {
        env: Vec::new(),
        machine: Machine {
            home: Some(folder.path().to_owned()),
            codex_home: folder.path().to_owned(),
            cwd: folder.path().to_owned(),
            shell: "bash".to_owned(),
            tmpdir: None,
            openai_base_url: None,
        },
        private: Vec::new(),
        programs: convoke_agent::Programs::default(),
        pack: Arc::new(convoke_packs::convoke().unwrap()),
        store,
    };
    let settings = Settings {
        api: Api {
            base_url: Some(format!("{}/v1", server.base_url())),
            // No compaction in this benchmark.
            context_window: Some(100_000_000),
            ..Api::default()
        },
        model: Some("m".to_owned()),
        thread: None,
    };
    let agent = ModelAgent::new(settings, host);
    let mut resume = None;
    // Many messages, as a long conversation has.
    for _ in 0..64 {
        let text = "A line of text, as people write it. ".repeat(THREAD_BYTES / 64 / 36);
        let mut turn_input = TurnInput::new(text, folder.path());
        turn_input.resume = resume.take();
        resume = agent.start(turn_input).result().await.resume;
    }
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        let calls = server.model_calls().len();
        let mut turn_input = TurnInput::new("And now?", folder.path());
        turn_input.resume.clone_from(&resume);
        let begun = Instant::now();
        let turn = agent.start(turn_input);
        server.has_model_calls(calls + 1, Duration::from_mins(1)).await;
        times.push(begun.elapsed());
        turn.result().await;
    }
    times.sort();
    let bytes = server.model_calls().last().map_or(0, |call| call.body.len());
    println!(
        "wire, thread in {name}: a request of {bytes} bytes left {:?} after the start (median of {ROUNDS}; {:?} to {:?})",
        times[ROUNDS / 2],
        times[0],
        times[ROUNDS - 1]
    );
}
