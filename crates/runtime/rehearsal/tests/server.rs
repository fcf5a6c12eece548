//! The server as its clients see it: over a socket, byte by byte.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fmt::Write as _;
use std::io::Write as _;
use std::time::{Duration, Instant};

use base64::Engine as _;
use convoke_rehearsal::script::Condition;
use convoke_rehearsal::{
    Answer, Answered, End, Limits, Rehearsal, Reply, RequestKind, Script, Usage, Wire, start,
    start_with,
};
use rustls::pki_types::pem::PemObject as _;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// The time limit for every wait: machines that build at the same time are slow.
const TIMEOUT: Duration = Duration::from_mins(2);

const WIRES: [Wire; 4] = [Wire::Responses, Wire::Chat, Wire::Messages, Wire::Gemini];

/// The request line's path and the body of a plain call.
fn call(wire: Wire, streamed: bool) -> (String, Value) {
    let body = json!({"model": "m", "stream": streamed});
    match wire {
        Wire::Responses => ("/v1/responses".into(), body),
        Wire::Chat => {
            let options = json!({"include_usage": true});
            (
                "/v1/chat/completions".into(),
                json!({"model": "m", "stream": streamed, "stream_options": options}),
            )
        }
        Wire::Messages => ("/v1/messages?beta=true".into(), body),
        Wire::Gemini if streamed => {
            ("/v1beta/models/m:streamGenerateContent?alt=sse".into(), json!({"contents": []}))
        }
        Wire::Gemini => ("/v1beta/models/m:generateContent".into(), json!({"contents": []})),
    }
}

/// An answer, as it came over the socket.
struct Received {
    status: u16,
    head: String,
    body: String,
    /// Whether the body came to the end that its framing promises.
    is_whole: bool,
}

/// Sends a request as a client would that was given the server's address.
async fn send(server: &Rehearsal, head: &str, body: &[u8]) -> Received {
    let address = server.address();
    let (method, target) = head.split_once(' ').unwrap();
    let secret = secret(server);
    let (target, proxy) = if target.starts_with('/') {
        (format!("/{secret}{target}"), String::new())
    } else {
        let login = base64::engine::general_purpose::STANDARD.encode(format!("convoke:{secret}"));
        (target.to_owned(), format!("proxy-authorization: Basic {login}\r\n"))
    };
    let head = format!(
        "{method} {target} HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\n{proxy}"
    );
    send_as_it_is(server, &head, body).await
}

/// Returns a path below the server's address.
fn own_path(server: &Rehearsal, path: &str) -> String {
    format!("/{}{path}", secret(server))
}

/// Returns the secret in the server's address.
fn secret(server: &Rehearsal) -> String {
    server.base_url().rsplit('/').next().unwrap().to_owned()
}

async fn send_as_it_is(server: &Rehearsal, head: &str, body: &[u8]) -> Received {
    let mut stream = TcpStream::connect(server.address()).await.unwrap();
    let length = body.len();
    let head = format!("{head}connection: close\r\ncontent-length: {length}\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(body).await.unwrap();
    let mut bytes = Vec::new();
    // A cut connection may show as a reset; what came before it counts.
    let _ = stream.read_to_end(&mut bytes).await;
    receive(&bytes)
}

async fn post(server: &Rehearsal, path: &str, body: &Value) -> Received {
    send(server, &format!("POST {path}"), body.to_string().as_bytes()).await
}

fn receive(bytes: &[u8]) -> Received {
    let text = String::from_utf8(bytes.to_vec()).unwrap();
    let (head, rest) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let status = head.split(' ').nth(1).map_or(0, |status| status.parse().unwrap());
    let (body, is_whole) = if head.to_ascii_lowercase().contains("transfer-encoding: chunked") {
        dechunk(rest)
    } else {
        (rest.to_owned(), true)
    };
    Received { status, head: head.to_owned(), body, is_whole }
}

fn dechunk(mut rest: &str) -> (String, bool) {
    let mut body = String::new();
    while let Some((size, after)) = rest.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).unwrap();
        if size == 0 {
            return (body, true);
        }
        let Some(chunk) = after.get(..size) else {
            break;
        };
        body.push_str(chunk);
        rest = after[size..].trim_start_matches("\r\n");
    }
    (body, false)
}

fn rich_reply() -> Reply {
    Reply::default()
        .think("The user ")
        .think("greets.")
        .say("Hel")
        .say("lo, 世界 👋")
        .call("Bash", json!({"command": "ls"}))
        .call("apply_patch", json!("*** Begin Patch"))
        .with_usage(Usage { input: 100, output: 7, cached: 60 })
}

#[tokio::test]
async fn each_wire_streams_and_sends_whole() {
    for wire in WIRES {
        for streamed in [true, false] {
            let server = start(Script::new([rich_reply().into()])).await.unwrap();
            let (path, body) = call(wire, streamed);
            let received = post(&server, &path, &body).await;
            assert_eq!((received.status, received.is_whole), (200, true), "{wire}");
            let shown = if streamed {
                received.body
            } else {
                let value: Value = serde_json::from_str(&received.body).unwrap();
                serde_json::to_string_pretty(&value).unwrap()
            };
            let how = if streamed { "streamed" } else { "whole" };
            insta::assert_snapshot!(format!("{}_{how}", json!(wire).as_str().unwrap()), shown);
        }
    }
}

async fn fifty_megabytes_are_recorded_whole(wire: Wire) {
    let server = start(Script::default()).await.unwrap();
    let (path, mut body) = call(wire, true);
    // A field that the server does not read is recorded like any other.
    body["text"] = "line \n".repeat(7_142_858).into();
    assert_eq!(post(&server, &path, &body).await.status, 200, "{wire}");
    assert!(server.requests()[0].body == body.to_string().as_bytes(), "{wire}");
}

#[tokio::test]
async fn a_request_of_fifty_megabytes_is_recorded_whole() {
    fifty_megabytes_are_recorded_whole(Wire::Messages).await;
}

#[tokio::test]
#[ignore = "takes minutes"]
async fn a_request_of_fifty_megabytes_of_any_wire_is_recorded_whole() {
    for wire in WIRES {
        fifty_megabytes_are_recorded_whole(wire).await;
    }
}

#[tokio::test]
async fn gemini_streams_an_array_where_events_are_not_asked_for() {
    let server = start(Script::new([rich_reply().into()])).await.unwrap();
    let path = "/v1beta/models/m:streamGenerateContent";
    let received = post(&server, path, &json!({"contents": []})).await;
    let chunks: Vec<Value> = serde_json::from_str(&received.body).unwrap();
    assert_eq!(chunks.len(), 7);
    assert_eq!(chunks[6]["candidates"][0]["finishReason"], "STOP");
}

#[tokio::test]
async fn each_end_is_reported_as_on_the_wire() {
    let ends = [End::Done, End::MaxTokens, End::Refused, End::Failed, End::Cut];
    let mut table = String::new();
    for wire in WIRES {
        for end in ends {
            let reply = Reply::default().say("Hi").end(end);
            let server = start(Script::new([reply.clone().into(), reply.into()])).await.unwrap();
            let (path, body) = call(wire, true);
            let streamed = post(&server, &path, &body).await;
            let last =
                streamed.body.trim_end().rsplit("\n\n").find(|event| !event.contains("[DONE]"));
            let (path, body) = call(wire, false);
            let whole = post(&server, &path, &body).await;
            assert_eq!([streamed.is_whole, whole.is_whole], [end != End::Cut; 2]);
            let _ = writeln!(
                table,
                "{wire}, {end:?}\n  streamed: {}\n  whole, {}: {}",
                last.unwrap_or_default().replace('\n', " "),
                whole.status,
                whole.body,
            );
        }
    }
    insta::assert_snapshot!(table);
}

#[tokio::test]
async fn errors_carry_their_status_their_headers_and_the_vendors_object() {
    let mut table = String::new();
    for wire in WIRES {
        for status in [400, 401, 403, 404, 429, 500, 503, 529] {
            let answer = Answer::error(status).with_header("retry-after", "2");
            let server = start(Script::new([answer])).await.unwrap();
            let (path, body) = call(wire, true);
            let received = post(&server, &path, &body).await;
            assert_eq!(received.status, status);
            assert!(received.head.contains("retry-after: 2"), "{}", received.head);
            let _ = writeln!(table, "{wire} {status}: {}", received.body);
        }
    }
    insta::assert_snapshot!(table);
}

#[tokio::test]
async fn an_answer_waits_before_its_first_byte_and_between_its_chunks() {
    let reply = Reply::default().say("a").wait(Duration::from_millis(150)).say("b");
    let answer = Answer::from(reply).after(Duration::from_millis(150));
    for streamed in [true, false] {
        let server = start(Script::new([answer.clone()])).await.unwrap();
        let (path, body) = call(Wire::Messages, streamed);
        let begun = Instant::now();
        post(&server, &path, &body).await;
        assert!(begun.elapsed() >= Duration::from_millis(300));
    }
}

#[tokio::test]
async fn a_hanging_answer_sends_its_beginning_and_ends_with_the_server() {
    let reply = Reply::default().say("Half an ans").end(End::Hang);
    let server = start(Script::new([reply.into()])).await.unwrap();
    let mut stream = TcpStream::connect(server.address()).await.unwrap();
    let body = r#"{"stream":true}"#;
    let request = format!(
        "POST {} HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        own_path(&server, "/v1/messages"),
        server.address(),
        body.len()
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut bytes = Vec::new();
    while !String::from_utf8_lossy(&bytes).contains("Half an ans") {
        let read = stream.read_buf(&mut bytes).await.unwrap();
        assert_ne!(read, 0);
    }
    let silence = tokio::time::timeout(Duration::from_millis(200), stream.read_buf(&mut bytes));
    assert!(silence.await.is_err(), "nothing more comes, and the connection stays open");

    let ended = tokio::time::timeout(TIMEOUT, server.shutdown()).await.unwrap();
    assert_eq!(ended.len(), 1);
    assert!(!receive(&bytes).is_whole);
}

#[tokio::test]
async fn shutdown_lets_an_answer_under_way_end() {
    let reply = Reply::default().say("a").wait(Duration::from_millis(200)).say("the end");
    let limits = Limits { grace: TIMEOUT, ..Limits::default() };
    let server = start_with(Script::new([reply.into()]), limits).await.unwrap();
    let address = server.address();
    let path = own_path(&server, "/v1/messages");
    let reading = tokio::spawn(async move {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = format!(
            "POST {path} HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\n\
             content-length: 15\r\n\r\n{{\"stream\":true}}"
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).await.unwrap();
        receive(&bytes)
    });
    assert!(server.has_model_calls(1, TIMEOUT).await);
    server.shutdown().await;
    let received = reading.await.unwrap();
    assert!(received.is_whole && received.body.contains("the end"));
}

#[tokio::test]
async fn a_request_is_kept_to_the_byte_and_its_secrets_are_not() {
    let server = start(Script::default()).await.unwrap();
    let mut text = "é世👋\"\\\u{0}".repeat(50_000);
    text.push_str("/compact @/etc/hostname");
    let body = format!("{{\"model\": \"m\",\n \"x\": {}}}", json!(text));
    let head = format!(
        "POST {} HTTP/1.1\r\nx-api-key: hunter2\r\nauthorization: Bearer hunter2\r\n\
         x-session-token: hunter2\r\nx-oai-attestation: hunter2\r\nx-app: cli\r\nhost: {}\r\ncontent-type: application/json\r\n",
        own_path(&server, "/v1/messages?key=hunter2&beta=true"),
        server.address()
    );
    send_as_it_is(&server, &head, body.as_bytes()).await;

    let requests = server.shutdown().await;
    let request = &requests[0];
    assert_eq!(request.body, body.as_bytes());
    assert_eq!(request.header("X-App"), Some("cli"));
    assert_eq!(request.header("x-api-key"), Some("[redacted: 7 bytes]"));
    assert_eq!(request.target, "/v1/messages?key=[redacted:7]&beta=true");
    assert!(!format!("{request:?}").contains("hunter2"));
}

#[tokio::test]
async fn answers_are_given_in_order_to_the_calls_that_they_fit() {
    let for_gemini = Condition { wire: Some(Wire::Gemini), ..Condition::default() };
    let for_titles = Condition { contains: Some("a title".into()), ..Condition::default() };
    let script = Script::new([
        Answer::say("one").when(for_gemini),
        Answer::say("two"),
        Answer::say("three").when(for_titles),
        Answer::say("four"),
    ])
    .with_default(Answer::say("nothing left"));
    let server = start(script).await.unwrap();
    let mut given = Vec::new();
    for (wire, ask) in [
        (Wire::Chat, "hello"),
        (Wire::Chat, "write a title"),
        (Wire::Gemini, "hello"),
        (Wire::Messages, "hello"),
        (Wire::Messages, "hello"),
    ] {
        let (path, mut body) = call(wire, false);
        body["ask"] = json!(ask);
        let received = post(&server, &path, &body).await.body;
        let words = ["one", "two", "three", "four", "nothing left"];
        given.push(words.into_iter().find(|word| received.contains(word)).unwrap());
    }
    assert_eq!(given, ["two", "three", "one", "four", "nothing left"]);
}

#[tokio::test]
async fn an_aside_gets_a_value_of_its_schema_and_leaves_the_script_alone() {
    let server = start(Script::new([Answer::say("for the turn")])).await.unwrap();
    let schema = json!({
        "type": "OBJECT", "required": ["model_choice"],
        "properties": {"model_choice": {"type": "STRING", "enum": ["flash", "pro"]}},
    });
    let body = json!({"contents": [], "generationConfig": {"responseSchema": schema}});
    let aside = post(&server, "/v1beta/models/lite:generateContent", &body).await;
    let aside: Value = serde_json::from_str(&aside.body).unwrap();
    assert_eq!(
        aside["candidates"][0]["content"]["parts"][0]["text"],
        r#"{"model_choice":"flash"}"#
    );
    let (path, body) = call(Wire::Gemini, true);
    assert!(post(&server, &path, &body).await.body.contains("for the turn"));
    let answered: Vec<_> = server.requests().iter().map(|request| request.answered).collect();
    assert_eq!(answered, [Answered::Schema, Answered::Script { answer: 0 }]);
}

#[tokio::test]
async fn the_small_requests_around_a_call_are_answered() {
    let server = start(Script::default()).await.unwrap();
    let mut table = String::new();
    for (head, body) in [
        ("HEAD /", ""),
        ("GET /v1/models", ""),
        ("GET /v1/models HTTP/1.1\r\nanthropic-version: 2023-06-01\r\nx:", ""),
        ("GET /v1beta/models", ""),
        ("GET /v1/models/any-name", ""),
        ("GET /v1beta/models/any-name", ""),
        ("POST /v1/responses/input_tokens", "twelve bytes"),
        ("POST /v1/messages/count_tokens?beta=true", "twelve bytes"),
        ("POST /v1beta/models/m:countTokens", "twelve bytes"),
        ("GET /v1/responses HTTP/1.1\r\nupgrade: websocket\r\nx:", ""),
        ("POST /api/event_logging/batch", "{}"),
        ("POST /v1/videos", "{}"),
        ("POST /v1/complete HTTP/1.1\r\nanthropic-version: 2023-06-01\r\nx:", "{}"),
        ("POST /v1beta/corpora", "{}"),
        ("GET /v1/messages", ""),
        ("POST /v1/messages", "{not json"),
        ("POST /v1/responses", ""),
        ("CONNECT example.com:443", ""),
        ("GET http://example.com/x", ""),
    ] {
        let received = send(&server, head, body.as_bytes()).await;
        let head = head.lines().next().unwrap();
        let _ = writeln!(table, "{head}: {} {}", received.status, received.body);
    }
    for request in server.shutdown().await {
        let _ = writeln!(table, "{} {} {:?}", request.method, request.target, request.kind);
    }
    insta::assert_snapshot!(table);
}

#[tokio::test]
async fn what_is_too_large_is_refused() {
    let limits = Limits { body_bytes: 100, recorded_bytes: 150, ..Limits::default() };
    let server = start_with(Script::default(), limits).await.unwrap();
    let body = |size: usize| json!({"x": "x".repeat(size - 8)});
    let statuses = [
        post(&server, "/v1/messages", &body(101)).await.status,
        post(&server, "/v1/messages", &body(100)).await.status,
        post(&server, "/v1/messages", &body(51)).await.status,
        post(&server, "/v1/messages", &body(50)).await.status,
    ];
    assert_eq!(statuses, [413, 200, 507, 200]);
    assert_eq!(server.requests().len(), 2);
}

/// Sends a body that was packed.
async fn send_packed(server: &Rehearsal, path: &str, encoding: &str, body: &[u8]) -> Received {
    let head = format!("POST {path} HTTP/1.1\r\ncontent-encoding: {encoding}\r\nx: y\r\nz:");
    send(server, &head, body).await
}

#[tokio::test]
async fn a_body_that_was_packed_is_recorded_as_it_was_before() {
    let server = start(Script::default()).await.unwrap();
    let plain = json!({"model": "m", "input": "你好 ".repeat(1000)}).to_string();
    let gzip = {
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packed.write_all(plain.as_bytes()).unwrap();
        packed.finish().unwrap()
    };
    let level = ruzstd::encoding::CompressionLevel::Fastest;
    let zstd = ruzstd::encoding::compress_to_vec(plain.as_bytes(), level);
    let both = ruzstd::encoding::compress_to_vec(gzip.as_slice(), level);
    for (encoding, body) in [("gzip", &gzip), ("zstd", &zstd), ("gzip, ZSTD", &both)] {
        assert_eq!(send_packed(&server, "/v1/responses", encoding, body).await.status, 200);
        let last = server.model_calls().pop().unwrap();
        assert!(last.body == plain.as_bytes(), "{encoding}");
    }
}

#[tokio::test]
async fn a_body_that_cannot_be_unpacked_is_refused_as_the_vendor_would() {
    let limits = Limits { body_bytes: 10_000, ..Limits::default() };
    let server = start_with(Script::default(), limits).await.unwrap();
    let level = ruzstd::encoding::CompressionLevel::Fastest;
    let bomb = ruzstd::encoding::compress_to_vec(vec![b' '; 1 << 20].as_slice(), level);
    let mut table = String::new();
    for (path, encoding, body) in [
        ("/v1/messages", "br", &b"{}"[..]),
        ("/v1/responses", "gzip", b"no gzip"),
        ("/v1beta/models/m:generateContent", "zstd", b"no zstd"),
        ("/v1/messages", "zstd", &bomb),
    ] {
        let received = send_packed(&server, path, encoding, body).await;
        let _ = writeln!(table, "{path} {encoding}: {} {}", received.status, received.body);
    }
    assert!(server.requests().is_empty());
    insta::assert_snapshot!(table);
}

#[tokio::test]
async fn a_client_that_waits_to_be_asked_for_its_body_is_asked() {
    let server = start(Script::default()).await.unwrap();
    let mut stream = TcpStream::connect(server.address()).await.unwrap();
    let (path, body) = call(Wire::Messages, false);
    let body = body.to_string();
    let head = format!(
        "POST {} HTTP/1.1\r\nhost: {}\r\nexpect: 100-continue\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n",
        own_path(&server, &path),
        server.address(),
        body.len()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut go_on = [0; 25];
    let asked = tokio::time::timeout(Duration::from_mins(1), stream.read_exact(&mut go_on));
    asked.await.unwrap().unwrap();
    assert_eq!(&go_on, b"HTTP/1.1 100 Continue\r\n\r\n");
    stream.write_all(body.as_bytes()).await.unwrap();
    let mut answer = [0; 15];
    stream.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 200 OK");
}

#[tokio::test]
async fn one_connection_carries_many_calls_and_many_connections_their_own() {
    let server = start(Script::default()).await.unwrap();
    let address = server.address();
    let secret = secret(&server);
    let clients = (0..20).map(|_| secret.clone()).map(|secret| async move {
        let mut stream = TcpStream::connect(address).await.unwrap();
        for wire in WIRES {
            let (path, body) = call(wire, false);
            let body = body.to_string();
            let length = body.len();
            let request = format!(
                "POST /{secret}{path} HTTP/1.1\r\nhost: {address}\r\n\
                 content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
            );
            stream.write_all(request.as_bytes()).await.unwrap();
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(stream.read_u8().await.unwrap());
            }
            let head = String::from_utf8(head).unwrap();
            assert!(head.starts_with("HTTP/1.1 200"), "{head}");
            let length = head.split("content-length: ").nth(1).unwrap();
            let length = length.split("\r\n").next().unwrap().parse().unwrap();
            stream.read_exact(&mut vec![0; length]).await.unwrap();
        }
    });
    let mut tasks = tokio::task::JoinSet::new();
    clients.for_each(|client| drop(tasks.spawn(client)));
    tasks.join_all().await;
    assert_eq!(server.model_calls().len(), 80);
}

#[tokio::test]
async fn noise_on_the_socket_harms_nobody() {
    let server = start(Script::default()).await.unwrap();
    for noise in
        [&b"\x16\x03\x01\x02\x00"[..], b"\r\n\r\n", b"POST", b"", b"GET / HTTP/9.9\r\n\r\n"]
    {
        let mut stream = TcpStream::connect(server.address()).await.unwrap();
        stream.write_all(noise).await.unwrap();
        stream.shutdown().await.unwrap();
        let _ = stream.read_to_end(&mut Vec::new()).await;
    }
    assert!(server.requests().is_empty());
    let (path, body) = call(Wire::Chat, false);
    assert_eq!(post(&server, &path, &body).await.status, 200);
    assert!(matches!(server.requests()[0].kind, RequestKind::ModelCall(_)));
}

#[tokio::test]
async fn the_server_listens_on_the_loopback_interface_and_stops_when_dropped() {
    let server = start(Script::default()).await.unwrap();
    let address = server.address();
    assert!(address.ip().is_loopback());
    let secret = secret(&server);
    assert_eq!(server.base_url(), format!("http://{address}/{secret}"));
    assert_eq!(server.proxy_url(), format!("http://convoke:{secret}@{address}"));
    assert!(secret.len() == 32 && secret.bytes().all(|byte| byte.is_ascii_hexdigit()));
    let another = start(Script::default()).await.unwrap();
    assert!(!another.base_url().ends_with(&secret));
    drop(server);
    let refused = async { while TcpStream::connect(address).await.is_ok() {} };
    tokio::time::timeout(TIMEOUT, refused).await.unwrap();
}

/// Any page that a browser shows can send requests to a port of this machine.
#[tokio::test]
async fn nobody_can_plant_a_request_without_the_address() {
    let server = start(Script::default()).await.unwrap();
    let (address, secret) = (server.address(), secret(&server));
    let own = format!("host: {address}\r\n");
    let json = "content-type: application/json\r\n";
    let body = json!({"model": "m", "messages": [{"role": "user", "content": "planted"}]});
    let foreign = "Basic Y29udm9rZTpndWVzc2Vk";
    for (head, status) in [
        (format!("POST /v1/messages HTTP/1.1\r\n{own}{json}"), 404),
        (format!("POST /{secret}x/v1/messages HTTP/1.1\r\n{own}{json}"), 404),
        (format!("POST /{} HTTP/1.1\r\n{own}{json}", "0".repeat(32)), 404),
        (format!("POST http://{address}/v1/messages HTTP/1.1\r\n{own}{json}"), 404),
        // DNS can make a foreign name lead here.
        (
            format!(
                "POST /{secret}/v1/messages HTTP/1.1\r\nhost: evil.example:{}\r\n{json}",
                address.port()
            ),
            403,
        ),
        (format!("POST /{secret}/v1/messages HTTP/1.1\r\nhost: {}\r\n{json}", address.ip()), 403),
        (format!("POST /{secret}/v1/messages HTTP/1.1\r\n{json}"), 403),
        (
            format!(
                "POST /{secret}/v1/messages HTTP/1.1\r\n{own}{json}origin: https://evil.example\r\n"
            ),
            403,
        ),
        (format!("POST /{secret}/v1/messages HTTP/1.1\r\n{own}{json}origin: null\r\n"), 403),
        (
            format!(
                "OPTIONS /{secret}/v1/messages HTTP/1.1\r\n{own}origin: https://evil.example\r\n"
            ),
            403,
        ),
        (
            format!(
                "POST /{secret}/v1/messages HTTP/1.1\r\n{own}content-type: text/plain;charset=UTF-8\r\n"
            ),
            415,
        ),
        (
            format!(
                "POST /{secret}/v1/messages HTTP/1.1\r\n{own}content-type: multipart/form-data; boundary=x\r\n"
            ),
            415,
        ),
        (format!("POST /{secret}/v1/messages HTTP/1.1\r\n{own}"), 415),
        (
            format!("POST http://example.com/v1/messages HTTP/1.1\r\nhost: example.com\r\n{json}"),
            407,
        ),
        (
            format!(
                "CONNECT example.com:443 HTTP/1.1\r\nhost: example.com:443\r\nproxy-authorization: {foreign}\r\n"
            ),
            407,
        ),
    ] {
        let received = send_as_it_is(&server, &head, body.to_string().as_bytes()).await;
        assert_eq!(received.status, status, "{head}");
        assert!(!received.head.to_ascii_lowercase().contains("access-control"), "{head}");
    }
    assert_eq!((server.requests().len(), server.refused()), (0, 15));

    for path in ["", "/", "?x=1", "/v1/messages"] {
        let head = format!("POST /{secret}{path} HTTP/1.1\r\n{own}{json}");
        send_as_it_is(&server, &head, body.to_string().as_bytes()).await;
    }
    let targets: Vec<String> =
        server.requests().into_iter().map(|request| request.target).collect();
    assert_eq!(targets, ["/", "/", "/?x=1", "/v1/messages"]);
}

/// Opens a tunnel to a host through the server as a proxy, and returns the status of the answer.
async fn tunnel(server: &Rehearsal, host: &str) -> (String, TcpStream) {
    let url = server.proxy_url();
    let user = url.strip_prefix("http://").and_then(|rest| rest.split_once('@')).unwrap().0;
    let credentials = base64::engine::general_purpose::STANDARD.encode(user);
    let mut stream = TcpStream::connect(server.address()).await.unwrap();
    let request = format!(
        "CONNECT {host}:443 HTTP/1.1\r\nhost: {host}:443\r\nproxy-authorization: Basic {credentials}\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    (String::from_utf8(head).unwrap()[9..12].to_owned(), stream)
}

/// Asks a host over TLS, and returns the first line of the answer.
async fn ask(
    stream: TcpStream,
    host: &'static str,
    trusted: &str,
) -> Result<String, std::io::Error> {
    let mut roots = rustls::RootCertStore::empty();
    roots
        .add(rustls::pki_types::CertificateDer::from_pem_slice(trusted.as_bytes()).unwrap())
        .unwrap();
    let config = rustls::ClientConfig::builder_with_provider(std::sync::Arc::new(
        rustls::crypto::ring::default_provider(),
    ));
    let config = config.with_safe_default_protocol_versions().unwrap();
    let config = config.with_root_certificates(roots).with_no_client_auth();
    let connector = tokio_rustls::TlsConnector::from(std::sync::Arc::new(config));
    let mut stream = connector.connect(host.try_into().unwrap(), stream).await?;
    let request = format!("GET /settings HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer.lines().next().unwrap_or_default().to_owned())
}

#[tokio::test]
async fn hosts_that_are_answered_for_have_nothing_and_others_stay_refused() {
    let server = start(Script::default()).await.unwrap();
    assert_eq!(tunnel(&server, "vendor.example").await.0, "403");
    let certificate = server.answer_for(&["vendor.example"]).unwrap();

    let (status, stream) = tunnel(&server, "vendor.example").await;
    assert_eq!(status, "200");
    let answer = ask(stream, "vendor.example", &certificate).await.unwrap();
    assert_eq!(answer, "HTTP/1.1 404 Not Found");

    let (_, stream) = tunnel(&server, "vendor.example").await;
    let foreign = rcgen::generate_simple_self_signed(["vendor.example".to_owned()]).unwrap();
    ask(stream, "vendor.example", &foreign.cert.pem()).await.unwrap_err();

    assert_eq!(tunnel(&server, "other.example").await.0, "403");
    let statuses: Vec<u16> = server.requests().iter().map(|request| request.status).collect();
    assert_eq!(statuses, [403, 200, 200, 403]);
    tokio::time::timeout(TIMEOUT, server.shutdown()).await.unwrap();
}
