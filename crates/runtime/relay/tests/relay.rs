//! A relay between a program and a model server, both written here on bare sockets: neither shares code with
//! the relay or the rehearsal server.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use convoke_relay::{Relay, RelayOptions, Upstream};
use convoke_wire::{Exchange, ReceivedAnswer, SentRequest};
use sha2::{Digest as _, Sha256};
use tokio::io::{
    AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader,
};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

const KEY: &str = "sk-ant-api03-relay-test-key-0123456789abcdef";

/// A request as a server read it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Got {
    /// The request line and the header lines.
    head: Vec<String>,
    body: Vec<u8>,
}

/// Reads one message; `None` at the end of the connection.
async fn read_message(stream: &mut (impl tokio::io::AsyncBufRead + Unpin)) -> Option<Got> {
    let mut head = Vec::new();
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).await.ok()? == 0 {
            return None;
        }
        match line.trim_end_matches("\r\n") {
            "" => break,
            line => head.push(line.to_owned()),
        }
    }
    let field = |name: &str| {
        let lines = head.iter().filter_map(|line| line.split_once(": "));
        let mut found = lines.filter(|(key, _)| key.eq_ignore_ascii_case(name));
        found.next().map(|(_, value)| value.to_owned())
    };
    let mut body = Vec::new();
    if let Some(length) = field("content-length") {
        body.resize(length.parse().unwrap(), 0);
        stream.read_exact(&mut body).await.ok()?;
    } else if field("transfer-encoding").is_some() {
        while let Some(chunk) = read_chunk(stream).await? {
            body.extend(chunk);
        }
    }
    Some(Got { head, body })
}

/// Reads a chunk: `Some(None)` is the last one, `None` the end of the connection.
async fn read_chunk(
    stream: &mut (impl tokio::io::AsyncBufRead + Unpin),
) -> Option<Option<Vec<u8>>> {
    let mut size = String::new();
    if stream.read_line(&mut size).await.ok()? == 0 {
        return None;
    }
    let size = usize::from_str_radix(size.trim(), 16).unwrap();
    let mut chunk = vec![0; size + 2];
    stream.read_exact(&mut chunk).await.ok()?;
    chunk.truncate(size);
    Some((size > 0).then_some(chunk))
}

/// The behaviour of a server after it has read a request.
enum Reply {
    Bytes(Vec<u8>),
    /// The pieces come when the test sends them; the connection closes when it stops.
    Pieces(mpsc::UnboundedReceiver<Vec<u8>>),
    /// Nothing is answered; the end of the connection is told.
    Silence(mpsc::UnboundedSender<()>),
}

/// A model server: tells the requests that it got, and answers in turn.
struct ModelServer {
    port: u16,
    got: mpsc::UnboundedReceiver<Got>,
    replies: mpsc::UnboundedSender<Reply>,
}

impl ModelServer {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (server, told, replies) = Self::channels(port);
        tokio::spawn(async move {
            let replies = Arc::new(tokio::sync::Mutex::new(replies));
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, told.clone(), Arc::clone(&replies)));
            }
        });
        server
    }

    fn channels(port: u16) -> (Self, mpsc::UnboundedSender<Got>, mpsc::UnboundedReceiver<Reply>) {
        let (told, got) = mpsc::unbounded_channel();
        let (replies, taken) = mpsc::unbounded_channel();
        (Self { port, got, replies }, told, taken)
    }

    fn reply(&self, reply: Reply) {
        self.replies.send(reply).ok().unwrap();
    }

    fn upstream(&self) -> Upstream {
        Upstream::parse(&format!("http://127.0.0.1:{}", self.port)).unwrap()
    }
}

async fn serve(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    told: mpsc::UnboundedSender<Got>,
    replies: Arc<tokio::sync::Mutex<mpsc::UnboundedReceiver<Reply>>>,
) {
    let mut stream = BufReader::new(stream);
    while let Some(got) = read_message(&mut stream).await {
        told.send(got).unwrap();
        let Some(reply) = replies.lock().await.recv().await else { return };
        match reply {
            Reply::Bytes(bytes) => stream.write_all(&bytes).await.unwrap(),
            Reply::Pieces(mut pieces) => {
                while let Some(piece) = pieces.recv().await {
                    stream.write_all(&piece).await.unwrap();
                    stream.flush().await.unwrap();
                }
                return;
            }
            Reply::Silence(ended) => {
                assert_eq!(stream.read(&mut [0; 16]).await.unwrap_or(0), 0);
                ended.send(()).unwrap();
                return;
            }
        }
        stream.flush().await.unwrap();
    }
}

/// A relay, and the path that a program below it uses.
struct Place {
    relay: Relay,
    exchanges: mpsc::Receiver<Exchange>,
    path: String,
}

impl Place {
    async fn new(options: RelayOptions) -> Self {
        let (relay, exchanges) = Relay::start(options).await.unwrap();
        let url = relay.base_url();
        let path = url.strip_prefix(&format!("http://127.0.0.1:{}", relay.port())).unwrap();
        Self { path: path.to_owned(), relay, exchanges }
    }

    async fn connect(&self) -> BufReader<TcpStream> {
        BufReader::new(TcpStream::connect(("127.0.0.1", self.relay.port())).await.unwrap())
    }

    fn head(&self, method: &str, target: &str, headers: &[&str]) -> String {
        let host = format!("Host: 127.0.0.1:{}", self.relay.port());
        let lines = [&[&*host], headers].concat().join("\r\n");
        format!("{method} {}{target} HTTP/1.1\r\n{lines}\r\n\r\n", self.path)
    }

    async fn ask(&self, target: &str, headers: &[&str], body: &[u8]) -> Got {
        let mut stream = self.connect().await;
        let length = format!("Content-Length: {}", body.len());
        let headers = [headers, &[&*length]].concat();
        stream.write_all(self.head("POST", target, &headers).as_bytes()).await.unwrap();
        stream.write_all(body).await.unwrap();
        read_message(&mut stream).await.unwrap()
    }

    async fn exchange(&mut self) -> (SentRequest, ReceivedAnswer) {
        let Exchange::Sent(sent) = self.exchanges.recv().await.unwrap() else {
            panic!("no request")
        };
        let Exchange::Answered { number, answer } = self.exchanges.recv().await.unwrap() else {
            panic!("no answer")
        };
        assert_eq!(number, sent.number);
        (sent, answer)
    }
}

fn sha256(bytes: &[u8]) -> String {
    let digits: Vec<String> =
        Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    digits.concat()
}

fn whole(status: &str, headers: &[&str], body: &str) -> Reply {
    let lines: Vec<String> = headers.iter().map(|header| format!("{header}\r\n")).collect();
    let lines = lines.concat();
    let length = body.len();
    Reply::Bytes(
        format!("HTTP/1.1 {status}\r\n{lines}Content-Length: {length}\r\n\r\n{body}").into(),
    )
}

fn chunk(text: &str) -> Vec<u8> {
    format!("{:x}\r\n{text}\r\n", text.len()).into()
}

const STREAM: &str =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
const ANSWER: &str = r#"{"type":"message","model":"m","usage":{"input_tokens":3,"cache_read_input_tokens":40,"output_tokens":2}}"#;

#[tokio::test]
async fn the_bytes_of_both_sides_are_equal_and_the_key_is_in_the_forwarded_header_alone() {
    let mut server = ModelServer::start().await;
    let mut place = Place::new(RelayOptions::new(server.upstream())).await;
    server.reply(whole("200 OK", &["X-Request-ID: 7", "content-type: application/json"], ANSWER));
    let body = format!(
        r#"{{ "model":"m","metadata":{{"user_id":"account-17"}},"messages":[{{"role":"user","content":"my key is {KEY}"}}] }}"#
    );
    let key = format!("X-Api-Key: {KEY}");
    let headers = ["User-Agent: claude-cli/2", &*key, "x-UNUSUAL: Ünï", "Accept: */*"];
    let answer = place.ask("/v1/messages?beta=true&key=abcdefgh1", &headers, body.as_bytes()).await;
    assert_eq!(answer.body, ANSWER.as_bytes());
    let answered: Vec<&str> = answer.head.iter().map(|line| &**line).collect();
    let length = format!("Content-Length: {}", ANSWER.len());
    assert_eq!(
        answered,
        ["HTTP/1.1 200 OK", "X-Request-ID: 7", "content-type: application/json", &*length]
    );

    let got = server.got.recv().await.unwrap();
    assert_eq!(got.body, body.as_bytes());
    let host = format!("Host: 127.0.0.1:{}", server.port);
    let length = format!("Content-Length: {}", body.len());
    let expected = [
        "POST /v1/messages?beta=true&key=abcdefgh1 HTTP/1.1",
        &*host,
        headers[0],
        &*key,
        headers[2],
        headers[3],
        &*length,
    ];
    assert_eq!(got.head, expected);

    let (sent, answer) = place.exchange().await;
    assert_eq!(
        (sent.sent_bytes, &*sent.sent_sha256),
        (body.len() as u64, &*sha256(body.as_bytes()))
    );
    let stored = String::from_utf8(sent.body.clone().unwrap().to_vec()).unwrap();
    assert_eq!(stored, body.replace("account-17", "[masked]").replace(KEY, convoke_redact::MARK));
    assert_eq!(sent.masked, ["metadata.user_id", "1 secrets"]);
    assert_eq!(sent.target, "/v1/messages?beta=true&key=[masked]");
    let usage = answer.facts.usage.unwrap();
    assert_eq!((answer.status, usage.input, usage.cached, usage.output), (Some(200), 43, 40, 2));
    let all = format!("{sent:?} {answer:?}");
    for secret in [KEY, "abcdefgh1", "account-17"] {
        assert!(!all.contains(secret), "{secret} is in {all}");
    }
}

#[tokio::test]
async fn an_answer_arrives_piece_by_piece() {
    let mut server = ModelServer::start().await;
    let mut place = Place::new(RelayOptions::new(server.upstream())).await;
    let (pieces, taken) = mpsc::unbounded_channel();
    server.reply(Reply::Pieces(taken));
    let mut stream = place.connect().await;
    let body = r#"{"model":"m","stream":true}"#;
    let head = place.head("POST", "/v1/responses", &["Content-Length: 27"]);
    // The request trickles too.
    for byte in [head.as_bytes(), body.as_bytes()].concat() {
        stream.write_all(&[byte]).await.unwrap();
        stream.flush().await.unwrap();
    }
    assert_eq!(server.got.recv().await.unwrap().body, body.as_bytes());
    pieces.send(STREAM.into()).unwrap();
    let mut line = String::new();
    while line != "\r\n" {
        line.clear();
        stream.read_line(&mut line).await.unwrap();
    }
    let events = [
        ": ping\n\n",
        "data: {\"type\":\"response.output_text.delta\",\"delta\":\"a\"}\n\n",
        "data: {\"type\":\"response.completed\",\"response\":{\"usage\":{\"input_tokens\":9,\"output_tokens\":1}}}\n\n",
    ];
    for event in events {
        // Each piece is sent only after the one before has arrived.
        pieces.send(chunk(event)).unwrap();
        assert_eq!(read_chunk(&mut stream).await.unwrap().unwrap(), event.as_bytes());
    }
    pieces.send(b"0\r\n\r\n".to_vec()).unwrap();
    assert_eq!(read_chunk(&mut stream).await.unwrap(), None);
    let (_, answer) = place.exchange().await;
    assert!(answer.facts.is_complete && answer.failure.is_none() && answer.first_byte.is_some());
    assert_eq!(answer.facts.usage.unwrap().input, 9);
}

#[tokio::test]
async fn large_bodies_pass_whole_in_both_directions() {
    let mut server = ModelServer::start().await;
    let mut options = RelayOptions::new(server.upstream());
    options.own_user_agents = vec!["own".to_owned()];
    options.max_body_bytes = 3 << 20;
    let mut place = Place::new(options).await;
    let text = "x".repeat(50 << 20);
    server.reply(whole("200 OK", &["content-type: application/octet-stream"], &text));
    let answer = place.ask("/v1/responses", &[], text.as_bytes()).await;
    assert!(answer.body == text.as_bytes());
    assert!(server.got.recv().await.unwrap().body == text.as_bytes());
    for (size, is_kept) in [(2 << 20, true), (4 << 20, false)] {
        // What is too large to be kept is forwarded and counted.
        let body = format!(r#"{{"model":"m","input":"{}"}}"#, &text[..size]);
        server.reply(whole("200 OK", &[], "{}"));
        place.ask("/v1/responses", &["User-Agent: own"], body.as_bytes()).await;
        assert!(server.got.recv().await.unwrap().body == body.as_bytes());
        let (sent, _) = place.exchange().await;
        assert_eq!(sent.sent_sha256, sha256(body.as_bytes()));
        assert_eq!((sent.body.is_some(), sent.sent_bytes), (is_kept, body.len() as u64));
    }
}

/// A path of each wire, and the beginning and end of a body around a long text.
const WIRES: [(&str, &str, &str); 4] = [
    ("/v1/responses", r#"{"model":"m","input":""#, r#""}"#),
    ("/v1/messages", r#"{"model":"m","messages":[{"role":"user","content":""#, r#""}]}"#),
    ("/v1/chat/completions", r#"{"model":"m","messages":[{"role":"user","content":""#, r#""}]}"#),
    (
        "/v1beta/models/m:streamGenerateContent",
        r#"{"contents":[{"role":"user","parts":[{"text":""#,
        r#""}]}]}"#,
    ),
];

async fn fifty_megabytes_are_recorded_whole((path, before, after): (&str, &str, &str)) {
    let mut server = ModelServer::start().await;
    let mut place = Place::new(RelayOptions::new(server.upstream())).await;
    let body = [before, &"line \\n".repeat(7_142_858), after].concat();
    server.reply(whole("200 OK", &[], "{}"));
    place.ask(path, &[], body.as_bytes()).await;
    assert!(server.got.recv().await.unwrap().body == body.as_bytes(), "{path}");
    let (sent, _) = place.exchange().await;
    assert_eq!(sent.sent_bytes, body.len() as u64, "{path}");
    assert!(sent.body.is_some_and(|stored| stored == body.as_bytes()), "{path}");
}

#[tokio::test]
async fn a_request_of_fifty_megabytes_is_recorded_whole() {
    fifty_megabytes_are_recorded_whole(WIRES[0]).await;
}

#[tokio::test]
#[ignore = "takes minutes"]
async fn a_request_of_fifty_megabytes_of_any_wire_is_recorded_whole() {
    for wire in WIRES {
        fifty_megabytes_are_recorded_whole(wire).await;
    }
}

#[tokio::test]
async fn an_answer_that_is_cut_is_cut_for_the_program() {
    let server = ModelServer::start().await;
    let mut place = Place::new(RelayOptions::new(server.upstream())).await;
    let (pieces, taken) = mpsc::unbounded_channel();
    server.reply(Reply::Pieces(taken));
    pieces.send(STREAM.into()).unwrap();
    pieces.send(chunk("data: {}\n\n")).unwrap();
    drop(pieces);
    let mut stream = place.connect().await;
    let head = place.head("POST", "/v1/messages", &["Content-Length: 2"]);
    stream.write_all(format!("{head}{{}}").as_bytes()).await.unwrap();
    let mut all = Vec::new();
    stream.read_to_end(&mut all).await.unwrap();
    let all = String::from_utf8(all).unwrap();
    assert!(all.contains("data: {}") && !all.ends_with("0\r\n\r\n"), "{all}");
    let (_, answer) = place.exchange().await;
    assert!(answer.failure.unwrap().contains("ended early"));
}

#[tokio::test]
async fn a_refusal_and_a_redirect_are_passed_on_and_nothing_is_sent_twice() {
    let mut server = ModelServer::start().await;
    let mut place = Place::new(RelayOptions::new(server.upstream())).await;
    let error = r#"{"type":"error","error":{"message":"slow down"}}"#;
    server.reply(whole("429 Too Many Requests", &["retry-after: 7"], error));
    let answer = place.ask("/v1/messages", &[], b"{}").await;
    assert_eq!(answer.head[..2], ["HTTP/1.1 429 Too Many Requests", "retry-after: 7"]);
    let (_, answer) = place.exchange().await;
    assert_eq!((answer.status, answer.facts.error.as_deref()), (Some(429), Some("slow down")));
    let location = "location: https://me:pw@new.example:8443/v1?key=secret";
    server.reply(whole("307 Temporary Redirect", &[location], ""));
    let answer = place.ask("/v1/messages", &[], b"{}").await;
    assert_eq!(answer.head[1], location);
    let (_, answer) = place.exchange().await;
    let reason = format!(
        "{} redirected the request to new.example:8443, and the relay follows no redirect; if the endpoint has moved, \
         set the program's base URL to its new address",
        server.upstream()
    );
    assert_eq!((answer.status, answer.failure.as_ref()), (Some(307), Some(&reason)));
    assert_eq!(place.relay.failure(), Some(reason));
    server.got.recv().await.unwrap();
    server.got.recv().await.unwrap();
    assert!(server.got.try_recv().is_err());
}

#[tokio::test]
async fn a_compressed_body_is_forwarded_as_it_is_and_stored_decoded() {
    let mut server = ModelServer::start().await;
    let mut place = Place::new(RelayOptions::new(server.upstream())).await;
    let pack = |text: &str| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(text.as_bytes()).unwrap();
        encoder.finish().unwrap()
    };
    let packed = pack(ANSWER);
    let mut reply = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-encoding: gzip\r\ncontent-length: {}\r\n\r\n",
        packed.len()
    )
    .into_bytes();
    reply.extend(&packed);
    server.reply(Reply::Bytes(reply));
    let body = r#"{"model":"m","messages":[]}"#;
    let answer = place.ask("/v1/messages", &["Content-Encoding: gzip"], &pack(body)).await;
    assert_eq!(answer.body, packed);
    assert_eq!(server.got.recv().await.unwrap().body, pack(body));
    let (sent, answer) = place.exchange().await;
    assert_eq!(sent.body.unwrap(), body.as_bytes());
    assert_eq!(sent.sent_sha256, sha256(&pack(body)));
    assert_eq!(answer.facts.usage.unwrap().cached, 40);
}

#[tokio::test]
async fn only_the_program_reaches_only_the_endpoint() {
    let mut server = ModelServer::start().await;
    let mut place = Place::new(RelayOptions::new(server.upstream())).await;
    let good = place.path.clone();
    let authority = good.rsplit('/').next().unwrap();
    let secret = good.split('/').nth(1).unwrap();
    for (path, headers, status) in [
        (format!("/{}/{authority}", "0".repeat(32)), vec![], "403"),
        (format!("/{secret}/example.com"), vec![], "403"),
        (format!("/{secret}/{authority}0"), vec![], "403"),
        (good.clone(), vec!["Origin: http://evil.example"], "403"),
        (good.clone(), vec!["Authorization: AWS4-HMAC-SHA256 Credential=x"], "403"),
        (good.clone(), vec!["Connection: Upgrade", "Upgrade: websocket"], "426"),
    ] {
        place.path.clone_from(&path);
        let answer = place.ask("/v1/messages", &headers, b"{}").await;
        assert!(answer.head[0].contains(status), "{path} {headers:?}: {answer:?}");
    }
    assert!(server.got.try_recv().is_err(), "something was forwarded");
    assert!(place.relay.failure().unwrap().contains("SigV4"));
    place.path = good;
    // A tool's program that inherits the address is forwarded, and not recorded.
    let mut options = RelayOptions::new(server.upstream());
    options.own_user_agents = vec!["claude-cli/".to_owned()];
    let mut own = Place::new(options).await;
    for agent in ["User-Agent: curl/8", "User-Agent: claude-cli/2.1"] {
        server.reply(whole("200 OK", &[], "{}"));
        own.ask("/v1/messages", &[agent], b"{}").await;
    }
    let (sent, _) = own.exchange().await;
    assert_eq!(sent.headers[0].1, "claude-cli/2.1");
    own.relay.shutdown().await;
    assert!(own.exchanges.try_recv().is_err());
}

#[tokio::test]
async fn requests_that_nobody_takes_do_not_pile_up() {
    let mut server = ModelServer::start().await;
    let mut place = Place::new(RelayOptions::new(server.upstream())).await;
    // The requests that are not reported whole, and those whose two exchanges wait in the queue.
    let (least, most) = (512, 512 + 64 / 2);
    let more = most + 40;
    for _ in 0..more {
        server.reply(whole("200 OK", &[], "{}"));
    }
    let (head, port) =
        (place.head("POST", "/v1/messages", &["Content-Length: 2"]), place.relay.port());
    let client = tokio::spawn(async move {
        let mut stream = BufReader::new(TcpStream::connect(("127.0.0.1", port)).await.unwrap());
        for _ in 0..more {
            stream.write_all(format!("{head}{{}}").as_bytes()).await.unwrap();
            read_message(&mut stream).await.unwrap();
        }
    });
    for _ in 0..least {
        server.got.recv().await.unwrap();
    }
    let mut forwarded = least;
    let pause = Duration::from_millis(500);
    while tokio::time::timeout(pause, server.got.recv()).await.is_ok() {
        forwarded += 1;
    }
    assert!(forwarded <= most, "{forwarded} requests were forwarded");
    assert!(!client.is_finished(), "the program waits");
    for _ in 0..2 * more {
        place.exchanges.recv().await.unwrap();
    }
    client.await.unwrap();
}

#[tokio::test]
async fn a_program_that_goes_away_ends_its_request_at_the_endpoint() {
    let mut server = ModelServer::start().await;
    let mut place = Place::new(RelayOptions::new(server.upstream())).await;
    let (ended, mut told) = mpsc::unbounded_channel();
    server.reply(Reply::Silence(ended));
    let mut stream = place.connect().await;
    let head = place.head("POST", "/v1/messages", &["Content-Length: 2"]);
    stream.write_all(format!("{head}{{}}").as_bytes()).await.unwrap();
    server.got.recv().await.unwrap();
    drop(stream);
    told.recv().await.unwrap();
    let (_, answer) = place.exchange().await;
    assert!(answer.failure.unwrap().contains("ended the request"));
}

#[tokio::test]
async fn an_endpoint_that_is_not_there_is_a_failure_with_a_reason() {
    let upstream = Upstream::parse("http://127.0.0.1:1").unwrap();
    let mut place = Place::new(RelayOptions::new(upstream)).await;
    let answer = place.ask("/v1/messages", &[], b"{}").await;
    assert!(answer.head[0].contains("502"));
    assert!(String::from_utf8(answer.body).unwrap().contains("cannot reach 127.0.0.1:1"));
    assert!(place.relay.failure().unwrap().contains("cannot reach"));
    // What was not sent is not recorded as sent.
    place.relay.shutdown().await;
    assert!(place.exchanges.try_recv().is_err());
}

#[tokio::test]
async fn an_endpoint_elsewhere_is_reached_over_tls_with_a_certificate_that_the_user_trusts() {
    let certified = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("ca.pem");
    std::fs::write(&file, certified.cert.pem()).unwrap();
    let key =
        rustls::pki_types::PrivateKeyDer::try_from(certified.signing_key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certified.cert.der().clone()], key)
        .unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let (mut server, told, replies) = ModelServer::channels(port);
    tokio::spawn(async move {
        let replies = Arc::new(tokio::sync::Mutex::new(replies));
        while let Ok((stream, _)) = listener.accept().await {
            if let Ok(stream) = acceptor.accept(stream).await {
                serve(stream, told.clone(), Arc::clone(&replies)).await;
            }
        }
    });
    let upstream = Upstream::parse(&format!("https://localhost:{port}/v1")).unwrap();
    let stranger = Place::new(RelayOptions::new(upstream.clone())).await;
    let refused = stranger.ask("/messages", &[], b"{}").await;
    assert!(refused.head[0].contains("502"), "{refused:?}");
    let mut options = RelayOptions::new(upstream);
    options.env = vec![("NODE_EXTRA_CA_CERTS".into(), file.into())];
    let mut place = Place::new(options).await;
    server.reply(whole("200 OK", &["content-type: application/json"], ANSWER));
    let answer = place.ask("/messages", &[], b"{\"model\":\"m\"}").await;
    assert_eq!(answer.body, ANSWER.as_bytes());
    assert_eq!(server.got.recv().await.unwrap().head[0], "POST /v1/messages HTTP/1.1");
    let (sent, _) = place.exchange().await;
    assert_eq!(sent.target, "/v1/messages");
}
