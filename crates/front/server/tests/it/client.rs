//! A client that sends exactly the bytes that a test wants.

use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// The time after which a test gives up.
pub const TIMEOUT: Duration = Duration::from_mins(1);

/// A response.
#[derive(Debug)]
pub struct Response {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Response {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Returns the values of a header.
    pub fn header(&self, name: &str) -> Vec<&str> {
        let lines = self.head.lines().skip(1).filter_map(|line| line.split_once(": "));
        lines
            .filter(|(found, _)| found.eq_ignore_ascii_case(name))
            .map(|(_, value)| value)
            .collect()
    }
}

/// Sends a request and returns its response.
pub async fn send(port: u16, request: &str) -> Response {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    // A refused body may not be read to its end.
    let _ = stream.write_all(request.as_bytes()).await;
    let mut bytes = Vec::new();
    let _ =
        tokio::time::timeout(TIMEOUT, stream.read_to_end(&mut bytes)).await.expect("a response");
    let text = String::from_utf8(bytes).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    Response { status, head: head.to_owned(), body: body.to_owned() }
}

/// A stream of server-sent events.
pub struct EventStream {
    stream: TcpStream,
    bytes: Vec<u8>,
    text: String,
}

/// An event.
#[derive(Debug, Clone)]
pub struct Event {
    pub name: String,
    pub id: Option<String>,
    pub data: Value,
}

impl EventStream {
    /// Opens a stream with the lines of a request.
    pub async fn open(port: u16, request: &str) -> Self {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut bytes = Vec::new();
        loop {
            if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
                let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
                assert!(head.starts_with("HTTP/1.1 200"), "{head}");
                bytes.drain(..end + 4);
                return Self { stream, bytes, text: String::new() };
            }
            read(&mut stream, &mut bytes).await;
        }
    }

    /// Returns the next event.
    pub async fn next(&mut self) -> Event {
        loop {
            while let Some(end) = self.text.find("\n\n") {
                let event: String = self.text.drain(..end + 2).collect();
                let field = |name: &str| {
                    event.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned)
                };
                if let Some(data) = field("data: ") {
                    let data = serde_json::from_str(&data).unwrap();
                    return Event { name: field("event: ").unwrap(), id: field("id: "), data };
                }
            }
            while !self.take_chunk() {
                read(&mut self.stream, &mut self.bytes).await;
            }
        }
    }

    /// Returns the next event with a name.
    pub async fn next_named(&mut self, name: &str) -> Event {
        loop {
            let event = self.next().await;
            if event.name == name {
                return event;
            }
        }
    }

    /// Moves a chunk of the transfer encoding to the text.
    fn take_chunk(&mut self) -> bool {
        let Some(line) = self.bytes.windows(2).position(|window| window == b"\r\n") else {
            return false;
        };
        let size = std::str::from_utf8(&self.bytes[..line]).unwrap();
        let size = usize::from_str_radix(size, 16).unwrap();
        if self.bytes.len() < line + 2 + size + 2 {
            return false;
        }
        self.text += std::str::from_utf8(&self.bytes[line + 2..line + 2 + size]).unwrap();
        self.bytes.drain(..line + 2 + size + 2);
        true
    }
}

async fn read(stream: &mut TcpStream, bytes: &mut Vec<u8>) {
    let read = tokio::time::timeout(TIMEOUT, stream.read_buf(bytes)).await.expect("an event");
    assert!(read.unwrap() > 0, "the stream ended: {}", String::from_utf8_lossy(bytes));
}
