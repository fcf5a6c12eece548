//! The table of faults: how each CLI handles a failing model server, and the resulting verdict.

use std::time::{Duration, Instant};

use convoke_agent::TurnResult;
use convoke_protocol::agent_event::AgentEventKind;
use convoke_protocol::verdict::{FailureReason, Verdict};
use convoke_rehearsal::{Answer, End, Reply, Script};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::test_host::{Cli, TestHost, codes, reason};

/// The error statuses of a server, with the reason that the turn reports for each. The retry limit applies to
/// every request of a turn, and a wait of an hour is reported immediately.
pub async fn tells_errors_of_the_server_and_limits_requests(cli: Cli) {
    let hour = || Answer::error(429).with_header("retry-after", "3600");
    for (fault, answer, expected) in [
        ("404", Answer::error(404), &[FailureReason::Model][..]),
        ("500", Answer::error(500), &[FailureReason::Server]),
        ("429 for an hour", hour(), &[FailureReason::RateLimit]),
        // Gemini has no event for this: the stream just ends.
        (
            "failed response",
            Reply::default().say("half").end(End::Failed).into(),
            &[FailureReason::Server, FailureReason::Network],
        ),
    ] {
        let Some(test) = TestHost::new(cli, Script::default().with_default(answer)).await else {
            return;
        };
        let mut turn_input = test.turn_input("hello");
        turn_input.limits.retries = 3;
        let begun = Instant::now();
        let turn = test.run(turn_input).await;
        let requests = test.server.model_calls().len();
        println!(
            "{cli:?} {fault}: {} after {requests} requests, {:?}",
            turn.verdict,
            begun.elapsed()
        );
        // `exec` of the newer version repeats only the server's message, which names no status.
        let unnamed = cli == Cli::Codex166Exec && fault == "404";
        let told = reason(&turn).is_some_and(|reason| expected.contains(&reason));
        assert!(told || unnamed, "{cli:?} {fault}: {turn:?}");
        // Claude retries once without streaming.
        let most = if cli.kind() == "claude" && fault == "failed response" { 8 } else { 4 };
        assert!((1..=most).contains(&requests), "{cli:?} {fault}: {requests} requests");
        assert_eq!(test.processes(), [0; 0]);
    }
}

pub async fn tells_failures_apart(cli: Cli) {
    let cut = || Answer::from(Reply::default().say("half of an ans").end(End::Cut));
    for (what, answer, reasons) in [
        ("401", Answer::error(401), &[FailureReason::Auth][..]),
        ("403", Answer::error(403), &[FailureReason::Auth]),
        ("429", Answer::error(429), &[FailureReason::RateLimit]),
        ("500", Answer::error(500), &[FailureReason::Server]),
        ("cut", cut(), &[FailureReason::Network, FailureReason::Server, FailureReason::Other]),
    ] {
        let Some(test) = TestHost::new(cli, Script::default().with_default(answer)).await else {
            return;
        };
        let outcome = test.run(test.turn_input("hello")).await;
        let found = reason(&outcome);
        assert!(
            found.is_some_and(|found| reasons.contains(&found)),
            "{cli:?} {what}: {:?}",
            outcome.verdict
        );
        assert_eq!(test.processes(), [0; 0]);
    }
}

/// One version retries forever, and reports retries without a count.
pub async fn gives_up_where_there_is_no_network(cli: Cli) {
    let Some(test) = TestHost::new(cli, Script::default()).await else {
        return;
    };
    let turn_input = test.turn_input("hello");
    let TestHost { server, agent, home: _home, work: _work, .. } = test;
    server.shutdown().await;
    let outcome = agent.start(turn_input).result().await;
    // Only the program's message shows whether a connection was made.
    let expected = [FailureReason::Network, FailureReason::Unreachable];
    assert!(reason(&outcome).is_some_and(|reason| expected.contains(&reason)), "{outcome:?}");
}

/// A reply longer than the maximum line of output.
pub async fn understands_the_end_of_a_reply_of_50_megabytes(cli: Cli) {
    // Numbers, because one CLI stops a model that repeats itself.
    let mut lines = (0..).map(|number: u32| format!("line {number:>10}\n"));
    let reply = (0..50).fold(Reply::default(), |reply, _| {
        reply.say(lines.by_ref().take(1 << 16).collect::<String>())
    });
    let Some(test) = TestHost::new(cli, Script::new([reply.into()])).await else {
        return;
    };
    let mut turn = test.agent.start(test.turn_input("hello"));
    let mut told = 0;
    while let Some(event) = turn.next().await {
        if let AgentEventKind::Text { text, .. } = &event.kind {
            told += text.len();
        }
    }
    let turn = turn.result().await;
    let notes = codes(&turn);
    println!(
        "{cli:?} 50 MB: {} {} bytes, {told} in events, {notes:?}",
        turn.verdict,
        turn.reply.len()
    );
    assert_eq!(turn.verdict, Verdict::Done, "{:?}", turn.diagnostics);
    assert_eq!(turn.reply.len(), 4 << 20);
    assert!(notes.contains(&"agent.reply-truncated"), "{notes:?}");
    assert!(told <= 16 << 20, "{told} bytes of text in events");
    assert_eq!(test.processes(), [0; 0]);
}

/// A program of the same platform that exits right after a long reply, like `gemini`. It loses what does not
/// fit into the pipe, unless its writes block.
pub async fn writes_its_output_whole_before_it_exits(cli: Cli) {
    let Some(test) = TestHost::new(cli, Script::default()).await else {
        return;
    };
    let script = test.home.path().join("exits-at-once.js");
    let text = r#"const say = (event) => process.stdout.write(JSON.stringify(event) + "\n");
say({type: "init", session_id: "1", model: "m"});
for (let line = 0; line < 16; line++) {
  say({type: "message", role: "assistant", content: "x".repeat(1 << 19), delta: true});
}
say({type: "message", role: "assistant", content: ` ${process.env.NODE_OPTIONS}`, delta: true});
say({type: "result", status: "success"});
process.exit(0);
"#;
    std::fs::write(&script, text).unwrap();
    let test = test.with_command("node", &[&script.display().to_string()]);
    let mut turn_input = test.turn_input("hello");
    turn_input.limits.reply_bytes = 16 << 20;
    let turn = test.run(turn_input).await;
    assert_eq!(turn.verdict, Verdict::Done, "{:?}", turn.diagnostics);
    assert_eq!(turn.reply.trim_start_matches('x'), " undefined");
    assert_eq!(turn.reply.len(), (8 << 20) + " undefined".len());
}

/// The response of a raw server.
#[derive(Debug, Clone, Copy)]
enum Raw {
    /// Bytes that are not events.
    Garbage,
    /// A reply without an end.
    Endless,
}

pub async fn ends_when_the_server_answers_garbage(cli: Cli) {
    let Some(turn) = raw_turn(cli, Raw::Garbage).await else { return };
    println!("{cli:?} garbage: {}", turn.verdict);
    assert_eq!(turn.verdict.as_str(), "failed", "{turn:?}");
}

pub async fn ends_a_reply_without_an_end_at_its_limits(cli: Cli) {
    let Some(turn) = raw_turn(cli, Raw::Endless).await else { return };
    println!("{cli:?} endless: {} {} bytes", turn.verdict, turn.reply.len());
    assert!(matches!(turn.verdict.as_str(), "failed" | "timed-out"), "{turn:?}");
    assert!(turn.reply.len() <= 4 << 20);
}

/// Runs a turn against a server that answers every request in the same way.
async fn raw_turn(cli: Cli, raw: Raw) -> Option<TurnResult> {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let test = TestHost::at(cli, &address).await?;
    let server = tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(answer(stream, raw, cli.kind()));
        }
    });
    let mut turn_input = test.turn_input("hello");
    turn_input.limits.turn = Duration::from_secs(20);
    turn_input.limits.retries = 1;
    let turn = test.run(turn_input).await;
    server.abort();
    assert_eq!(test.processes(), [0; 0]);
    Some(turn)
}

async fn answer(mut stream: TcpStream, raw: Raw, kind: &str) -> std::io::Result<()> {
    read_request(&mut stream).await?;
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
    stream.write_all(head.as_bytes()).await?;
    match raw {
        Raw::Garbage => {
            stream.write_all(&[b"\xff\0{]data: {\"\n\n<html>".as_slice(); 99].concat()).await
        }
        Raw::Endless => {
            let (start, _) = endless(kind, 0);
            stream.write_all(start.as_bytes()).await?;
            for number in 0.. {
                stream.write_all(endless(kind, number).1.as_bytes()).await?;
            }
            Ok(())
        }
    }
}

/// Reads a request to the end of its body.
async fn read_request(stream: &mut TcpStream) -> std::io::Result<()> {
    let mut request = Vec::new();
    loop {
        if stream.read_buf(&mut request).await? == 0 {
            return Ok(());
        }
        let Some(head) = request.windows(4).position(|four| four == b"\r\n\r\n") else { continue };
        let text = String::from_utf8_lossy(&request[..head]).to_ascii_lowercase();
        let length = text.split("content-length:").nth(1).and_then(|rest| rest.lines().next());
        let length: usize = length.and_then(|length| length.trim().parse().ok()).unwrap_or(0);
        if request.len() >= head + 4 + length {
            return Ok(());
        }
    }
}

/// Returns the beginning of a streamed reply, and its piece of this number.
fn endless(kind: &str, number: u64) -> (String, String) {
    let ticks: Vec<String> = (0..100).map(|tick| (number * 100 + tick).to_string()).collect();
    let text = ticks.join(" tick ");
    let event = |name: &str, data: serde_json::Value| format!("event: {name}\ndata: {data}\n\n");
    match kind {
        "claude" => (
            event(
                "message_start",
                json!({"type": "message_start", "message": {"id": "m", "type": "message", "role": "assistant",
                    "model": "m", "content": [], "usage": {"input_tokens": 1, "output_tokens": 1}}}),
            ) + &event(
                "content_block_start",
                json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
            ),
            event(
                "content_block_delta",
                json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}),
            ),
        ),
        "gemini" => (
            String::new(),
            format!(
                "data: {}\n\n",
                json!({"candidates": [{"content": {"role": "model", "parts": [{"text": text}]}}]})
            ),
        ),
        _ => (
            event("response.created", json!({"type": "response.created", "response": {"id": "r"}}))
                + &event(
                    "response.output_item.added",
                    json!({"type": "response.output_item.added", "output_index": 0, "item":
                        {"type": "message", "id": "i", "role": "assistant", "content": []}}),
                ),
            event(
                "response.output_text.delta",
                json!({"type": "response.output_text.delta", "item_id": "i", "output_index": 0,
                    "content_index": 0, "delta": text}),
            ),
        ),
    }
}
