//! The relay between a client and a server on this machine, beside the same exchange without it.

use std::io;
use std::time::{Duration, Instant};

use convoke_relay::{Relay, RelayOptions, Upstream};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Builder;

use crate::table::{begin, row, throughput, time};

/// Requests for the first byte, and the bytes of one large answer.
const REQUESTS: usize = 400;
const STREAMED: usize = 1 << 30;

/// Measures the time to the first byte of an answer, and the speed of a large one.
pub(crate) fn run() {
    let Ok(runtime) = Builder::new_multi_thread().worker_threads(2).enable_all().build() else {
        return;
    };
    begin(
        "Relay: an answer over a kept connection",
        &["", "first byte, median", "first byte, 95 %", "1 GiB of events"],
    );
    for (name, is_relayed) in [("direct", false), ("relayed", true)] {
        let measured = runtime.block_on(measure(is_relayed));
        let Ok((mut times, nanos)) = measured else { return };
        times.sort_unstable();
        let shown = |at: usize| time(times[at].as_secs_f64() * 1e9);
        let median = shown(times.len() / 2);
        let late = shown(times.len() * 95 / 100);
        row(&[name, &median, &late, &throughput(STREAMED, nanos)]);
    }
}

async fn measure(is_relayed: bool) -> io::Result<(Vec<Duration>, f64)> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let port = listener.local_addr()?.port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream));
        }
    });
    let upstream =
        Upstream::parse(&format!("http://127.0.0.1:{port}")).map_err(io::Error::other)?;
    let (relay, mut exchanges) =
        Relay::start(RelayOptions::new(upstream)).await.map_err(io::Error::other)?;
    tokio::spawn(async move { while exchanges.recv().await.is_some() {} });
    let url = relay.base_url();
    let own = format!("http://127.0.0.1:{}", relay.port());
    let path = url.strip_prefix(&own).unwrap_or_default().to_owned();
    let (to, path) = if is_relayed { (relay.port(), path) } else { (port, String::new()) };
    let mut stream = TcpStream::connect(("127.0.0.1", to)).await?;
    stream.set_nodelay(true)?;
    let body = format!("{{\"model\":\"m\",\"stream\":true,\"input\":\"{}\"}}", "x".repeat(180_000));
    let mut times = Vec::new();
    let mut buffer = vec![0; 1 << 20];
    for _ in 0..REQUESTS {
        let head = head(to, &path, "/small/responses", body.len());
        let since = Instant::now();
        stream.write_all(head.as_bytes()).await?;
        stream.write_all(body.as_bytes()).await?;
        let mut read = stream.read(&mut buffer).await?;
        times.push(since.elapsed());
        while !buffer[..read].ends_with(b"!") {
            read = stream.read(&mut buffer).await?;
        }
    }
    let head = head(to, &path, "/large/responses", 2);
    let since = Instant::now();
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(b"{}").await?;
    let mut left = STREAMED;
    while left > 0 {
        let read = stream.read(&mut buffer).await?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        left = left.saturating_sub(read);
    }
    Ok((times, since.elapsed().as_secs_f64() * 1e9))
}

fn head(port: u16, path: &str, target: &str, length: usize) -> String {
    format!(
        "POST {path}{target} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Length: {length}\r\n\r\n"
    )
}

async fn serve(mut stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut buffer = vec![0; 1 << 20];
    let event = format!(
        "data: {{\"type\":\"response.output_text.delta\",\"delta\":\"{}\"}}\n\n",
        "word ".repeat(40)
    );
    let block = event.repeat((1 << 18) / event.len());
    loop {
        let mut head = Vec::new();
        let end = loop {
            let read = stream.read(&mut buffer).await?;
            if read == 0 {
                return Ok(());
            }
            head.extend_from_slice(&buffer[..read]);
            if let Some(at) = head.windows(4).position(|window| window == b"\r\n\r\n") {
                break at + 4;
            }
        };
        let text = String::from_utf8_lossy(&head[..end]).into_owned();
        let length = text.lines().find_map(|line| line.strip_prefix("Content-Length: "));
        let length: usize = length.and_then(|it| it.parse().ok()).unwrap_or(0);
        let mut left = (end + length).saturating_sub(head.len());
        while left > 0 {
            left = left.saturating_sub(stream.read(&mut buffer).await?);
        }
        let is_large = text.contains("/large/");
        let size = if is_large { STREAMED } else { 1 };
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: {size}\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).await?;
        if !is_large {
            stream.write_all(b"!").await?;
            continue;
        }
        let mut left = size;
        while left > 0 {
            let piece = &block.as_bytes()[..left.min(block.len())];
            stream.write_all(piece).await?;
            left -= piece.len();
        }
    }
}
