//! A server that sends fixed bytes on each connection, for what no well-behaved server does.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

/// A server with one response.
pub struct RawServer {
    pub address: SocketAddr,
    requests: Arc<Mutex<Vec<String>>>,
}

impl RawServer {
    /// Responds with a body and closes the connection. `@@AUTH@@` in the body stands for the received key.
    pub async fn start(status: &str, headers: &str, body: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let requests: Arc<Mutex<Vec<String>>> = Arc::default();
        let (seen, status, headers, body) =
            (Arc::clone(&requests), status.to_owned(), headers.to_owned(), body.to_owned());
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut request = Vec::new();
                let mut piece = [0; 4096];
                while !is_whole(&request) {
                    match stream.read(&mut piece).await {
                        Ok(0) | Err(_) => break,
                        Ok(count) => request.extend_from_slice(&piece[..count]),
                    }
                }
                let request = String::from_utf8_lossy(&request).into_owned();
                let key = request.lines().find_map(|line| line.strip_prefix("authorization: "));
                let body = body.replace("@@AUTH@@", key.unwrap_or_default());
                let answer =
                    format!("HTTP/1.1 {status}\r\nconnection: close\r\n{headers}\r\n{body}");
                seen.lock().unwrap().push(request);
                let _ = stream.write_all(answer.as_bytes()).await;
            }
        });
        Self { address, requests }
    }

    pub fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

/// Returns whether a request has the whole body that it announces.
fn is_whole(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    length.is_some_and(|length| length.parse::<usize>().unwrap() <= body.len())
}
