//! Each rule of the guard, with the request that it refuses and one that it lets pass.

use convoke_server::Scope;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::client::{TIMEOUT, send};
use crate::test_server::TestServer;
use crate::test_sessions::OTHER_ROUTES;

/// Returns the status of a request with these header lines.
async fn status(server: &TestServer, first: &str, headers: &[&str]) -> u16 {
    let lines = headers.join("\r\n");
    let request = format!("{first} HTTP/1.1\r\nConnection: close\r\n{lines}\r\n\r\n");
    let response = send(server.port, &request).await;
    assert!(!response.head.to_ascii_lowercase().contains("access-control-"), "{response:?}");
    response.status
}

#[tokio::test]
async fn every_route_checks_its_host() {
    let server = TestServer::start().await;
    let session = server.conversation("Hello").await;
    let token = format!("Authorization: Bearer {}", server.token);
    let port = server.port;
    let mut routes =
        vec!["/".to_owned(), "/api/sessions".to_owned(), format!("/api/sessions/{session}/stream")];
    routes.extend(OTHER_ROUTES.map(str::to_owned));
    for path in &routes {
        let get = format!("GET {path}");
        for host in [
            format!("evil.example:{port}"),
            "127.0.0.1".to_owned(),
            format!("127.0.0.1:{port}.evil.example"),
            format!("127.0.0.1.evil.example:{port}"),
            String::new(),
        ] {
            assert_eq!(
                status(&server, &get, &[&format!("Host: {host}"), &token]).await,
                403,
                "{path} {host}"
            );
        }
        let own = format!("Host: 127.0.0.1:{port}");
        assert_eq!(
            status(&server, &get, &[&own, "Host: evil.example", &token]).await,
            403,
            "two hosts"
        );
        assert_ne!(status(&server, &get, &[&token]).await, 200, "no host");
        let absolute = format!("GET http://evil.example{path}");
        assert_eq!(status(&server, &absolute, &[&own, &token]).await, 403, "an absolute target");
    }
    for host in ["127.0.0.1", "localhost", "LOCALHOST", "[::1]"] {
        let host = format!("Host: {host}:{port}");
        assert_eq!(status(&server, "GET /api/sessions", &[&host, &token]).await, 200, "{host}");
    }
}

#[tokio::test]
async fn a_further_host_is_accepted_exactly() {
    let hosts = vec!["box.example.org".to_owned()];
    let server = TestServer::scoped(Vec::new(), Scope::All, hosts).await;
    let token = format!("Authorization: Bearer {}", server.token);
    for (host, expected) in [
        ("box.example.org".to_owned(), 200),
        (format!("box.example.org:{}", server.port), 200),
        ("a.box.example.org".to_owned(), 403),
        ("box.example.org.evil.example".to_owned(), 403),
        ("box.example.org:1".to_owned(), 403),
    ] {
        let lines = [&*format!("Host: {host}"), &*token];
        assert_eq!(status(&server, "GET /api/sessions", &lines).await, expected, "{host}");
    }
    let lines = ["Host: box.example.org", "Origin: https://box.example.org", &token];
    assert_eq!(status(&server, "GET /api/sessions", &lines).await, 200);
}

#[tokio::test]
async fn cross_origin_requests_are_refused() {
    let server = TestServer::start().await;
    let host = format!("Host: 127.0.0.1:{}", server.port);
    let token = format!("Authorization: Bearer {}", server.token);
    for origin in [
        "null".to_owned(),
        "http://evil.example".to_owned(),
        format!("http://127.0.0.1:{}", server.port.wrapping_add(1)),
        format!("https://127.0.0.1:{}", server.port),
        "http://127.0.0.1".to_owned(),
    ] {
        let origin = format!("Origin: {origin}");
        let others = OTHER_ROUTES.map(|path| format!("GET {path}"));
        let paths = ["GET /api/sessions", "GET /", "OPTIONS /api/sessions"];
        for path in paths.into_iter().chain(others.iter().map(|path| &**path)) {
            assert_eq!(
                status(&server, path, &[&host, &origin, &token]).await,
                403,
                "{path} {origin}"
            );
        }
    }
    let own = format!("Origin: http://127.0.0.1:{}", server.port);
    assert_eq!(status(&server, "GET /api/sessions", &[&host, &own, &token]).await, 200);
    let site = "Sec-Fetch-Site: cross-site";
    assert_eq!(status(&server, "GET /api/sessions", &[&host, site, &token]).await, 403);
}

#[tokio::test]
async fn data_needs_the_token_in_its_header() {
    let server = TestServer::start().await;
    let session = server.conversation("Hello").await;
    let host = format!("Host: 127.0.0.1:{}", server.port);
    let token = &server.token;
    let paths = [
        "/api/sessions".to_owned(),
        format!("/api/sessions/{session}"),
        format!("/api/sessions/{session}/stream"),
        format!("/api/sessions/{session}/turns/1/prompt"),
        "/api/explain".to_owned(),
        "/api/nothing".to_owned(),
    ];
    for path in paths.into_iter().chain(OTHER_ROUTES.map(str::to_owned)) {
        let get = format!("GET {path}");
        let wrong = format!("{}0", &token[1..]);
        assert_eq!(status(&server, &get, &[&host]).await, 401, "{path}");
        for given in [
            format!("Authorization: Bearer {wrong}"),
            format!("Authorization: Basic {token}"),
            format!("Authorization: {token}"),
            format!("Cookie: token={token}"),
        ] {
            assert_eq!(status(&server, &get, &[&host, &given]).await, 401, "{path} {given}");
        }
        let mark = if path.contains('?') { '&' } else { '?' };
        let query = format!("GET {path}{mark}token={token}");
        assert_eq!(status(&server, &query, &[&host]).await, 401, "{query}");
    }
    let upgrade = ["Upgrade: websocket", "Sec-WebSocket-Version: 13"];
    assert_eq!(status(&server, "GET /api/sessions", &[&host, upgrade[0], upgrade[1]]).await, 401);
}

#[tokio::test]
async fn the_shell_needs_no_token_and_holds_no_data() {
    let server = TestServer::start().await;
    let session = server.conversation("A secret of the conversation").await;
    let host = format!("Host: 127.0.0.1:{}", server.port);
    let mut shells = Vec::new();
    for path in ["/".to_owned(), format!("/sessions/{session}"), "/explain".to_owned()] {
        let request = format!("GET {path} HTTP/1.1\r\n{host}\r\nConnection: close\r\n\r\n");
        let response = send(server.port, &request).await;
        assert_eq!(response.status, 200, "{response:?}");
        shells.push(response.body);
    }
    assert!(shells.iter().all(|shell| *shell == shells[0] && !shell.contains("secret")));
    assert!(!shells[0].contains(&server.token));
    let script = shells[0].split('"').find(|part| part.ends_with("/app.js")).unwrap();
    let request = format!("GET {script} HTTP/1.1\r\n{host}\r\nConnection: close\r\n\r\n");
    let response = send(server.port, &request).await;
    assert_eq!(
        (response.status, response.header("content-type")),
        (200, vec!["text/javascript; charset=utf-8"])
    );
}

#[tokio::test]
async fn every_response_restricts_what_a_page_may_do() {
    let server = TestServer::start().await;
    for path in ["/", "/api/sessions", "/nothing", "/assets/0/app.js"] {
        let response = server.get(path).await;
        let policy = response.header("content-security-policy");
        assert_eq!(policy.len(), 1, "{path}: {response:?}");
        assert!(policy[0].starts_with("default-src 'none'; script-src 'self'"), "{policy:?}");
        assert!(policy[0].contains("frame-ancestors 'none'") && !policy[0].contains("unsafe"));
        assert_eq!(response.header("x-content-type-options"), ["nosniff"]);
        assert_eq!(response.header("x-frame-options"), ["DENY"]);
        assert_eq!(response.header("referrer-policy"), ["no-referrer"]);
        assert!(!response.head.to_ascii_lowercase().contains("access-control-"), "{response:?}");
    }
}

#[tokio::test]
async fn an_action_is_json_or_refused() {
    let server = TestServer::start().await;
    let session = server.conversation("Hello").await;
    let path = format!("/api/sessions/{session}/rename");
    let body = json!({"name": "other"}).to_string();
    for kind in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""] {
        let request = format!(
            "POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nAuthorization: Bearer {}\r\n\
             Content-Type: {kind}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
            server.port,
            server.token,
            body.len()
        );
        assert_eq!(send(server.port, &request).await.status, 403, "{kind}");
    }
    assert_eq!(server.post(&path, &json!({"name": "other"})).await.status, 200);
    assert_eq!(server.post(&path, &json!({"name": "other", "and": 1})).await.status, 422);
    assert_eq!(server.json(&format!("/api/sessions/{session}")).await["name"], "other");
}

#[tokio::test]
async fn a_body_over_the_limit_is_refused() {
    let server = TestServer::start().await;
    let session = server.conversation("Hello").await;
    let body = json!({"person": "kim", "text": "x".repeat(5 << 20)});
    let response = server.post(&format!("/api/sessions/{session}/say"), &body).await;
    assert_eq!(response.status, 413, "{}", response.head);
}

#[tokio::test]
async fn a_head_over_the_limit_is_refused() {
    let server = TestServer::start().await;
    let request = format!(
        "GET / HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nX-Long: {}\r\nConnection: close\r\n\r\n",
        server.port,
        "x".repeat(64 << 10)
    );
    assert_ne!(send(server.port, &request).await.status, 200);
}

#[tokio::test]
async fn a_client_that_does_not_finish_its_head_is_disconnected() {
    let server = TestServer::start().await;
    let mut stream = TcpStream::connect(("127.0.0.1", server.port)).await.unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: ").await.unwrap();
    let mut bytes = Vec::new();
    // The connection must end, with or without a response.
    let _ = tokio::time::timeout(TIMEOUT, stream.read_to_end(&mut bytes)).await.expect("an end");
}

#[tokio::test]
async fn a_page_of_one_session_shows_no_other() {
    let server = TestServer::start().await;
    let (one, other) = (server.conversation("One").await, server.conversation("Other").await);
    let scoped = TestServer::scoped(Vec::new(), Scope::One(one), Vec::new()).await;
    assert_eq!(scoped.get(&format!("/api/sessions/{other}")).await.status, 404);
    let say = json!({"person": "kim", "text": "Hello"});
    assert_eq!(scoped.post(&format!("/api/sessions/{other}/say"), &say).await.status, 404);
    assert_eq!(scoped.get("/api/explain").await.status, 403);
    for path in OTHER_ROUTES {
        assert_eq!(scoped.get(path).await.status, 403, "{path}");
    }
    assert_eq!(scoped.post("/api/sessions", &json!({})).await.status, 403);
}
