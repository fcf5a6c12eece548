//! Clients of a page, over plain connections.

#![expect(clippy::unwrap_used, reason = "a benchmark that cannot go on ends")]

use std::time::Instant;

use convoke_protocol::id::SessionId;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::stage::Stage;

/// A client that knows the token.
pub struct Client {
    port: u16,
    token: String,
}

/// The times of a response, in nanoseconds.
pub struct Timing {
    pub first_byte: f64,
    pub whole: f64,
    pub bytes: usize,
}

impl Client {
    pub fn new(stage: &Stage) -> Self {
        Self { port: stage.port, token: stage.token.clone() }
    }

    async fn send(&self, method: &str, path: &str, headers: &str, body: &str) -> TcpStream {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).await.unwrap();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nAuthorization: Bearer {}\r\n\
             Accept: text/html\r\n{headers}Content-Length: {}\r\n\r\n{body}",
            self.port,
            self.token,
            body.len()
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        stream
    }

    /// Reads a view as the page does, over a new connection.
    pub async fn get(&self, path: &str) -> Timing {
        let begin = Instant::now();
        let nanos = || begin.elapsed().as_secs_f64() * 1e9;
        let mut stream = self.send("GET", path, "Connection: close\r\n", "").await;
        let mut bytes = vec![0; 1];
        stream.read_exact(&mut bytes).await.unwrap();
        let first_byte = nanos();
        stream.read_to_end(&mut bytes).await.unwrap();
        assert!(bytes.starts_with(b"HTTP/1.1 200"), "{path}");
        Timing { first_byte, whole: nanos(), bytes: bytes.len() }
    }

    /// Sends a message to the session's agent.
    pub async fn say(&self, session: SessionId) {
        let body = json!({"person": "kim", "text": "What of the parser?", "to": ["max"]});
        let headers = "Connection: close\r\nContent-Type: application/json\r\n";
        let path = format!("/api/sessions/{session}/say");
        let mut stream = self.send("POST", &path, headers, &body.to_string()).await;
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).await.unwrap();
        assert!(bytes.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&bytes));
    }

    /// Follows a session.
    pub async fn view(&self, session: SessionId) -> Viewer {
        let stream = self.send("GET", &format!("/api/sessions/{session}/stream"), "", "").await;
        let mut viewer = Viewer { stream, text: Vec::new() };
        viewer.events(b"event: standing").await;
        viewer
    }
}

/// A viewer of a session.
pub struct Viewer {
    stream: TcpStream,
    text: Vec<u8>,
}

impl Viewer {
    /// Waits until so many messages have come.
    pub async fn messages(&mut self, count: usize) {
        for _ in 0..count {
            self.events(b"event: message").await;
        }
    }

    /// Waits for an event, and forgets what came up to it.
    async fn events(&mut self, name: &[u8]) {
        loop {
            if let Some(at) = self.text.windows(name.len()).position(|part| part == name) {
                self.text.drain(..at + name.len());
                return;
            }
            let keep = self.text.len().saturating_sub(name.len());
            self.text.drain(..keep);
            assert!(self.stream.read_buf(&mut self.text).await.unwrap() > 0, "the stream ended");
        }
    }
}
