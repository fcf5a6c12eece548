//! The socket between the MCP server of a turn and Convoke.
//!
//! Each call is a separate connection: one line with the secret, the tool and its arguments, and one line with
//! the answer. Calls therefore do not wait for each other, and closing the connection withdraws a call.
//!
//! The socket is a local TCP port, because an agent's sandbox closes Unix sockets and opens single ports.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use uuid::Uuid;

use super::{TeamAnswer, TeamTools};

/// The maximum size of a call and of an answer.
pub const MAX_LINE_BYTES: u64 = 4 << 20;
/// The maximum number of simultaneous calls.
const OPEN_CALLS: usize = 32;
/// The time limit for sending a call, because other users of this machine can connect too.
const CALL_LIMIT: Duration = Duration::from_secs(10);

/// A call, as it goes over the socket.
#[derive(Debug, Serialize, Deserialize)]
struct Request {
    secret: String,
    tool: String,
    arguments: Map<String, Value>,
}

/// The socket of a running turn. Dropping it closes the socket.
#[derive(Debug)]
pub struct TeamSocket {
    address: SocketAddr,
    secret: String,
    accepting: JoinHandle<()>,
}

impl TeamSocket {
    /// Opens a socket and forwards its calls.
    pub fn open(tools: TeamTools) -> io::Result<Self> {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let listener = TcpListener::from_std(listener)?;
        // 244 random bits.
        let secret = format!("{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple());
        let accepting = tokio::spawn(accept(listener, secret.clone(), tools));
        Ok(Self { address, secret, accepting })
    }

    /// Returns the address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the secret of the turn.
    pub fn secret(&self) -> &str {
        &self.secret
    }
}

impl Drop for TeamSocket {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(listener: TcpListener, secret: String, tools: TeamTools) {
    let secret: Arc<str> = secret.into();
    let places = Arc::new(Semaphore::new(OPEN_CALLS));
    // Dropping this task drops every call.
    let mut calls = tokio::task::JoinSet::new();
    while let Ok(place) = places.clone().acquire_owned().await {
        let Ok((stream, _)) = listener.accept().await else { continue };
        while calls.try_join_next().is_some() {}
        let (secret, tools) = (secret.clone(), tools.clone());
        calls.spawn(async move {
            // A disconnected caller needs no answer.
            let _ = serve(stream, &secret, &tools).await;
            drop(place);
        });
    }
}

async fn serve(stream: tokio::net::TcpStream, secret: &str, tools: &TeamTools) -> io::Result<()> {
    let (input, mut output) = stream.into_split();
    let mut line = Vec::new();
    let mut input = tokio::io::BufReader::new(input.take(MAX_LINE_BYTES));
    tokio::time::timeout(CALL_LIMIT, input.read_until(b'\n', &mut line)).await??;
    let answer = match serde_json::from_slice::<Request>(&line) {
        Ok(call) if is_equal(&call.secret, secret) => {
            // A caller that closes its end withdraws the call.
            let mut rest = [0];
            tokio::select! {
                answer = tools.call(call.tool, call.arguments) => answer,
                _ = input.read(&mut rest) => return Ok(()),
            }
        }
        Ok(_) => TeamAnswer::error("wrong secret for this turn"),
        Err(_) => TeamAnswer::error("the call is invalid or too long"),
    };
    let mut line = serde_json::to_vec(&answer)?;
    line.push(b'\n');
    output.write_all(&line).await
}

/// Compares in constant time.
fn is_equal(given: &str, secret: &str) -> bool {
    let differences = given.bytes().zip(secret.bytes()).fold(0, |sum, (a, b)| sum | (a ^ b));
    given.len() == secret.len() && differences == 0
}

/// A call of a tool over a socket, which waits for its answer.
#[derive(Debug)]
pub struct PendingCall(TcpStream);

/// Withdraws a call from another thread.
#[derive(Debug)]
pub struct Withdrawal(TcpStream);

impl PendingCall {
    /// Sends a call.
    pub fn send(
        socket: &str,
        secret: &str,
        tool: &str,
        arguments: Map<String, Value>,
    ) -> io::Result<Self> {
        let request = Request { secret: secret.to_owned(), tool: tool.to_owned(), arguments };
        let mut line = serde_json::to_vec(&request)?;
        line.push(b'\n');
        if line.len() as u64 > MAX_LINE_BYTES {
            return Err(io::Error::other(format!("the call has more than {MAX_LINE_BYTES} bytes")));
        }
        let mut stream = TcpStream::connect(socket)?;
        stream.write_all(&line)?;
        Ok(Self(stream))
    }

    /// Returns a handle that withdraws the call.
    pub fn withdrawal(&self) -> io::Result<Withdrawal> {
        self.0.try_clone().map(Withdrawal)
    }

    /// Waits for the answer.
    pub fn answer(self) -> io::Result<TeamAnswer> {
        let mut answer = Vec::new();
        BufReader::new(self.0.take(MAX_LINE_BYTES)).read_until(b'\n', &mut answer)?;
        Ok(serde_json::from_slice(&answer)?)
    }
}

impl Withdrawal {
    /// Withdraws the call: the asked member stops, and waiting for its answer ends with an error.
    pub fn withdraw(self) {
        // A call that has been answered cannot be withdrawn.
        let _ = self.0.shutdown(Shutdown::Both);
    }
}

#[cfg(test)]
mod tests {
    use convoke_protocol::id::{AttemptRef, SessionId, TurnId};
    use tokio::sync::mpsc;

    use super::*;

    fn tools() -> (TeamTools, mpsc::Receiver<super::super::TeamCall>) {
        let (sender, calls) = mpsc::channel(8);
        let caller = AttemptRef { session: SessionId::generate(), turn: TurnId(3), attempt: 1 };
        (TeamTools::new(caller, sender), calls)
    }

    async fn called(address: String, secret: String, tool: &'static str) -> io::Result<TeamAnswer> {
        let call = move || PendingCall::send(&address, &secret, tool, Map::new())?.answer();
        tokio::task::spawn_blocking(call).await.unwrap()
    }

    #[tokio::test]
    async fn the_secret_decides_whose_call_it_is_and_calls_do_not_wait_for_each_other() {
        let (tools, mut calls) = tools();
        let socket = TeamSocket::open(tools).unwrap();
        let (path, secret) = (socket.address().to_string(), socket.secret().to_owned());
        for wrong in ["", "x", &secret[1..], &format!("{secret}x")] {
            let refused = called(path.clone(), wrong.to_owned(), "ask").await.unwrap();
            assert!(refused.is_error, "{refused:?}");
        }
        assert!(calls.try_recv().is_err(), "a call with a wrong secret was passed on");
        let one = tokio::spawn(called(path.clone(), secret.clone(), "one"));
        let first = calls.recv().await.unwrap();
        let two = tokio::spawn(called(path.clone(), secret.clone(), "two"));
        let second = calls.recv().await.unwrap();
        assert_eq!((&*first.tool, &*second.tool, first.caller.turn), ("one", "two", TurnId(3)));
        second.reply.send(TeamAnswer::new("2")).unwrap();
        assert_eq!(two.await.unwrap().unwrap(), TeamAnswer::new("2"));
        first.reply.send(TeamAnswer::error("1")).unwrap();
        assert_eq!(one.await.unwrap().unwrap(), TeamAnswer::error("1"));
    }

    #[tokio::test]
    async fn a_call_that_its_caller_gives_up_is_withdrawn() {
        let (tools, mut calls) = tools();
        let socket = TeamSocket::open(tools).unwrap();
        let path = socket.address().to_string();
        for withdraws in [false, true] {
            let sent = PendingCall::send(&path, socket.secret(), "ask", Map::new()).unwrap();
            let withdrawal = sent.withdrawal().unwrap();
            let mut call = calls.recv().await.unwrap();
            if withdraws {
                let answer = tokio::task::spawn_blocking(|| sent.answer());
                withdrawal.withdraw();
                assert!(answer.await.unwrap().is_err());
            } else {
                drop((sent, withdrawal));
            }
            call.reply.closed().await;
        }
    }

    #[tokio::test]
    async fn noise_is_answered_and_a_closed_socket_is_an_error() {
        let (tools, _calls) = tools();
        let socket = TeamSocket::open(tools).unwrap();
        let path = socket.address().to_string();
        let mut stream = TcpStream::connect(&path).unwrap();
        let answered = tokio::task::spawn_blocking(move || {
            stream.write_all(b"noise\n").unwrap();
            let mut answer = String::new();
            BufReader::new(stream).read_line(&mut answer).unwrap();
            answer
        });
        assert!(answered.await.unwrap().contains("\"isError\":true"));
        drop(socket);
        let gone = called(path, String::new(), "ask").await;
        assert!(gone.is_err() || gone.is_ok_and(|answer| answer.is_error));
    }
}
