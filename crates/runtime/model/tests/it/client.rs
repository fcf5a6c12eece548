//! The client against a server that fails in every way.

use std::ffi::OsString;
use std::time::{Duration, Instant};

use convoke_model::wire::{FinishReason, ParsedResponse};
use convoke_model::{CallError, CallEvent, CallLimits, Client, Endpoint, Key, Proxies};
use convoke_protocol::usage::Usage;
use convoke_protocol::verdict::FailureReason;
use convoke_rehearsal::{
    Answer, End, Limits, Rehearsal, Reply, RequestKind, Script, start, start_with,
};
use convoke_thread::config::Wire;
use convoke_thread::item::ResponseItem;
use serde_json::json;

use crate::raw_server::RawServer;

const WIRES: [Wire; 2] = [Wire::Responses, Wire::Chat];
const BODY: &str = r#"{"model":"m","stream":true,"stream_options":{"include_usage":true}}"#;

/// Limits that suffice on any machine.
fn patient() -> CallLimits {
    let minute = Duration::from_mins(1);
    CallLimits { connect: minute, idle: minute, total: 2 * minute, ..CallLimits::default() }
}

fn env(pairs: &[(&str, &str)]) -> Vec<(OsString, OsString)> {
    pairs.iter().map(|(name, value)| (name.into(), value.into())).collect()
}

fn client_at(base: &str, wire: Wire, limits: CallLimits) -> Client {
    let endpoint = Endpoint::new(base, wire).unwrap();
    Client::new(endpoint, None, &Proxies::default(), limits).unwrap()
}

fn client(server: &Rehearsal, wire: Wire, limits: CallLimits) -> Client {
    client_at(&format!("{}/v1", server.base_url()), wire, limits)
}

async fn events(client: &Client) -> Vec<CallEvent> {
    let path = match client.endpoint().wire {
        Wire::Responses => "/responses",
        Wire::Chat => "/chat/completions",
    };
    let mut call = client.call(path, BODY, &[]);
    let mut events = Vec::new();
    while let Some(event) = call.next().await {
        events.push(event);
    }
    events
}

fn answer(events: &[CallEvent]) -> &ParsedResponse {
    match events.last() {
        Some(CallEvent::Answered(answer)) => answer,
        other => panic!("no answer but {other:?}"),
    }
}

fn failure(events: &[CallEvent]) -> &CallError {
    match events.last() {
        Some(CallEvent::Failed(error)) => error,
        other => panic!("no failure but {other:?}"),
    }
}

fn said(answer: &ParsedResponse) -> String {
    let texts = answer.items.iter().filter_map(|item| match item {
        ResponseItem::Message(message) => Some(&message.content),
        _ => None,
    });
    texts.flatten().map(|part| part.text().to_owned()).collect()
}

fn retries(events: &[CallEvent]) -> Vec<(u32, Option<u16>, FailureReason)> {
    let retries = events.iter().filter_map(|event| match event {
        CallEvent::Retry { attempt, error, .. } => Some((*attempt, error.status(), error.reason())),
        _ => None,
    });
    retries.collect()
}

#[tokio::test]
async fn text_reasoning_calls_and_usage_stream_in_on_both_wires() {
    for wire in WIRES {
        let usage = convoke_rehearsal::Usage { input: 100, output: 7, cached: 60 };
        let reply = Reply::default()
            .think("The user ")
            .think("greets.")
            .say("Hel")
            .say("lo, 世界 👋")
            .call("read_file", json!({"path": "a"}))
            .with_usage(usage);
        let server = start(Script::new([reply.into()])).await.unwrap();
        let events = events(&client(&server, wire, patient())).await;
        let pieces = |events: &[CallEvent]| {
            let texts = events.iter().map(|event| match event {
                CallEvent::Text(text) => format!("T:{text}"),
                CallEvent::Thought(text) => format!("R:{text}"),
                _ => String::new(),
            });
            texts.collect::<Vec<_>>().join("|")
        };
        assert_eq!(pieces(&events), "R:The user |R:greets.|T:Hel|T:lo, 世界 👋|", "{wire:?}");
        let answer = answer(&events);
        assert_eq!(said(answer), "Hello, 世界 👋");
        let expected = Usage { input: 100, output: 7, cached: 60, ..Usage::default() };
        assert_eq!(answer.usage, Some(expected));
        assert_eq!(answer.model.as_deref(), Some("m"));
        let kinds: Vec<bool> = answer.items.iter().map(ResponseItem::is_tool_call).collect();
        assert_eq!(kinds, [false, false, true], "{:?}", answer.items);
        let sent = &server.model_calls()[0];
        assert_eq!(sent.body, BODY.as_bytes());
        assert_eq!(sent.header("accept"), Some("text/event-stream"));
        assert_eq!(sent.header("authorization"), None);
    }
}

#[tokio::test]
async fn what_may_pass_is_tried_again_and_shown() {
    for wire in WIRES {
        let script = Script::new([
            Answer::error(429).with_header("retry-after", "0"),
            Answer::error(503),
            Reply::default().say("This is thrown aw").end(End::Cut).into(),
            Answer::say("Here it is."),
        ]);
        let server = start(script).await.unwrap();
        let events = events(&client(&server, wire, patient())).await;
        let expected = [
            (1, Some(429), FailureReason::RateLimit),
            (2, Some(503), FailureReason::Server),
            (3, None, FailureReason::Incomplete),
        ];
        assert_eq!(retries(&events), expected, "{wire:?}");
        assert_eq!(said(answer(&events)), "Here it is.");
        let bodies: Vec<_> = server.model_calls().into_iter().map(|call| call.body).collect();
        assert!(bodies.iter().all(|body| body == BODY.as_bytes()) && bodies.len() == 4);
    }
}

#[tokio::test]
async fn what_cannot_pass_is_not_tried_again() {
    for wire in WIRES {
        for (status, reason) in [
            (400, FailureReason::Request),
            (401, FailureReason::Auth),
            (403, FailureReason::Request),
            (404, FailureReason::Model),
        ] {
            let server = start(Script::new([Answer::error(status)])).await.unwrap();
            let events = events(&client(&server, wire, patient())).await;
            assert_eq!(failure(&events).reason(), reason);
            assert_eq!((events.len(), server.model_calls().len()), (1, 1));
        }
    }
}

#[tokio::test]
async fn attempts_are_bounded() {
    let script = Script::new([]).with_default(Answer::error(500));
    let server = start(script).await.unwrap();
    let limits = CallLimits { retries: 2, ..patient() };
    let events = events(&client(&server, Wire::Responses, limits)).await;
    assert_eq!(retries(&events).len(), 2);
    assert_eq!(failure(&events).status(), Some(500));
    assert_eq!(server.model_calls().len(), 3);
}

#[tokio::test]
async fn a_server_that_asks_to_wait_is_waited_for() {
    let script =
        Script::new([Answer::error(429).with_header("retry-after", "1.5"), Answer::say("Now.")]);
    let server = start(script).await.unwrap();
    let events = events(&client(&server, Wire::Chat, patient())).await;
    assert_eq!(said(answer(&events)), "Now.");
    let calls = server.model_calls();
    let waited = calls[1].after.checked_sub(calls[0].after).unwrap();
    assert!(waited >= Duration::from_millis(1500) && waited < Duration::from_mins(1), "{waited:?}");
}

#[tokio::test]
async fn a_wait_that_does_not_fit_into_the_time_is_a_failure_at_once() {
    let script = Script::new([Answer::error(429).with_header("retry-after", "180")]);
    let server = start(script).await.unwrap();
    let begun = Instant::now();
    let events = events(&client(&server, Wire::Chat, patient())).await;
    assert_eq!(failure(&events).reason(), FailureReason::RateLimit);
    assert!(begun.elapsed() < patient().total);
}

#[tokio::test]
async fn silence_and_length_have_their_limits() {
    for wire in WIRES {
        let hang = || Answer::from(Reply::default().say("I am thi").end(End::Hang));
        let server = start(Script::new([hang(), hang()])).await.unwrap();
        let idle = CallLimits { idle: Duration::from_millis(200), retries: 0, ..patient() };
        let silent = events(&client(&server, wire, idle)).await;
        assert_eq!(*failure(&silent), CallError::Idle(Duration::from_millis(200)));
        let total = CallLimits { total: Duration::from_millis(300), ..patient() };
        let long = events(&client(&server, wire, total)).await;
        assert_eq!(*failure(&long), CallError::TimedOut(Duration::from_millis(300)));
        let slow = Script::new([Answer::say("late").after(Duration::from_mins(9))]);
        let slow = start(slow).await.unwrap();
        let never = events(&client(&slow, wire, total)).await;
        assert_eq!(*failure(&never), CallError::TimedOut(Duration::from_millis(300)));
    }
}

#[tokio::test]
async fn a_dropped_call_ends_at_once() {
    let hang = Reply::default().say("I am thi").end(End::Hang);
    let limits = Limits { grace: Duration::from_mins(1), ..Limits::default() };
    let server = start_with(Script::new([hang.into()]), limits).await.unwrap();
    let client = client(&server, Wire::Responses, patient());
    let mut call = client.call("/responses", BODY, &[]);
    assert_eq!(call.next().await, Some(CallEvent::Text("I am thi".to_owned())));
    tokio::select! {
        _ = call.next() => panic!("nothing more comes"),
        () = tokio::time::sleep(Duration::from_millis(50)) => {}
    }
    drop(call);
    // The server would wait a minute for a response that is still being read.
    let ended = tokio::time::timeout(Duration::from_secs(40), server.shutdown()).await;
    assert_eq!(ended.unwrap().len(), 1);
}

#[tokio::test]
async fn a_failure_in_the_stream_is_retried() {
    for wire in WIRES {
        let failed = Reply::default().say("Half").end(End::Failed);
        let server = start(Script::new([failed.into(), Answer::say("Whole.")])).await.unwrap();
        let events = events(&client(&server, wire, patient())).await;
        assert_eq!(retries(&events), [(1, None, FailureReason::Server)]);
        assert_eq!(said(answer(&events)), "Whole.");
    }
}

#[tokio::test]
async fn a_model_that_stops_early_says_why() {
    for wire in WIRES {
        for (end, stopped) in
            [(End::MaxTokens, FinishReason::OutputFull), (End::Refused, FinishReason::Refused)]
        {
            let reply = Reply::default().say("So far").end(end);
            let server = start(Script::new([reply.into()])).await.unwrap();
            let events = events(&client(&server, wire, patient())).await;
            assert_eq!(answer(&events).stopped, Some(stopped));
            assert_eq!(said(answer(&events)), "So far");
        }
    }
}

#[tokio::test]
async fn a_stream_that_ends_without_its_terminal_event_is_a_failure() {
    let headers = "content-type: text/event-stream\r\n";
    let cases = [
        (Wire::Responses, "data: {\"type\":\"response.output_text.delta\",\"delta\":\"Hi\"}\n\n"),
        (Wire::Chat, "data: {\"choices\":[{\"delta\":{\"content\":\"Hi\"}}]}\n\n"),
        (Wire::Responses, ""),
        (Wire::Chat, "data: [DONE]\n\n"),
        (Wire::Chat, "data: {\"choices\":[{\"delta\":{\"content\":\"Hi\"}}]}\n\ndata: [DONE]\n\n"),
    ];
    let limits = CallLimits { retries: 0, ..patient() };
    for (wire, body) in cases {
        let server = RawServer::start("200 OK", headers, body).await;
        let events = events(&client_at(&format!("http://{}", server.address), wire, limits)).await;
        let error = failure(&events);
        assert_eq!(error.reason(), FailureReason::Incomplete, "{body}");
        assert!(error.to_string().starts_with("the response stream ended early: "), "{error}");
    }
}

#[tokio::test]
async fn a_chat_server_may_end_its_stream_with_the_finish_reason() {
    let body =
        "data: {\"choices\":[{\"delta\":{\"content\":\"Hi\"},\"finish_reason\":\"stop\"}]}\n\n";
    let server = RawServer::start("200 OK", "content-type: text/event-stream\r\n", body).await;
    let client = client_at(&format!("http://{}", server.address), Wire::Chat, patient());
    assert_eq!(said(answer(&events(&client).await)), "Hi");
}

#[tokio::test]
async fn an_answer_that_is_no_stream_is_refused_in_words_and_not_asked_for_again() {
    let json = r#"{"choices":[{"message":{"role":"assistant","content":"hi"}}]}"#;
    let cases = [
        ("content-type: text/html\r\n", "<html>hello", "(content-type `text/html`);"),
        (
            "content-type: application/json; charset=utf-8\r\n",
            json,
            "(content-type `application/json`);",
        ),
        ("content-type: text/plain\r\n", "hello there\n", "(content-type `text/plain`);"),
        ("", "hello there\n", "not an event stream;"),
    ];
    for (headers, body, words) in cases {
        let server = RawServer::start("200 OK", headers, body).await;
        let at = format!("http://{}", server.address);
        let told = failure(&events(&client_at(&at, Wire::Chat, patient())).await).to_string();
        assert!(told.contains("not an event stream") && told.contains(words), "{told}");
        assert_eq!(server.requests().len(), 1, "{told}");
    }
}

#[tokio::test]
async fn a_stream_is_read_whatever_its_server_calls_it() {
    let body =
        "data: {\"choices\":[{\"delta\":{\"content\":\"Hi\"},\"finish_reason\":\"stop\"}]}\n\n";
    for headers in ["", "content-type: text/plain\r\n", "content-type: TEXT/EVENT-STREAM\r\n"] {
        let server = RawServer::start("200 OK", headers, body).await;
        let client = client_at(&format!("http://{}", server.address), Wire::Chat, patient());
        assert_eq!(said(answer(&events(&client).await)), "Hi");
    }
}

#[tokio::test]
async fn what_cannot_change_is_asked_for_once() {
    let stream = "content-type: text/event-stream\r\n";
    let index =
        "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":18446744073709551615}]}}]}\n\n";
    let moved = "location: https://me:hunter2@else.example/v1/responses?key=hunter2\r\n";
    let cases = [
        ("200 OK", stream, "data: {\"choices\":\"none\"}\n\n", "an event has an unexpected form"),
        ("200 OK", stream, index, "a call has the number 18446744073709551615"),
        ("400 Bad", "", r#"{"error":{"message":"hm","type":"server_error"}}"#, "hm (status 400)"),
        ("404 None", "", "404 page not found", "check `base-url` and `wire`: 404 page not found"),
        ("307 Moved", moved, "", "redirects to https://else.example/v1/responses, and"),
        ("429 Slow", "retry-after: 3600\r\n", "", "it asks to wait 3600 s"),
    ];
    for (status, headers, body, words) in cases {
        let server = RawServer::start(status, headers, body).await;
        let at = format!("http://{}", server.address);
        let told = failure(&events(&client_at(&at, Wire::Chat, patient())).await).to_string();
        assert!(told.contains(words) && !told.contains("hunter2"), "{told}");
        assert_eq!(server.requests().len(), 1, "{told}");
    }
}

#[tokio::test]
async fn the_key_goes_into_one_header_and_into_no_message() {
    let body = r#"{"error":{"message":"wrong key: @@AUTH@@","code":"invalid_api_key"}}"#;
    let server = RawServer::start("401 Unauthorized", "", body).await;
    let key = Key::from_env("K", &env(&[("K", "correct-horse-battery")])).unwrap();
    let endpoint = Endpoint::new(&format!("http://{}", server.address), Wire::Chat).unwrap();
    let client = Client::new(endpoint, Some(key), &Proxies::default(), patient()).unwrap();
    let events = events(&client).await;
    assert_eq!(failure(&events).to_string(), "wrong key: Bearer [redacted] (status 401)");
    assert!(server.requests()[0].contains("authorization: Bearer correct-horse-battery"));
    assert!(!format!("{client:?} {events:?}").contains("correct-horse"));
}

#[tokio::test]
async fn proxies_come_from_the_environment_and_never_stand_before_this_machine() {
    let proxy = start(Script::default()).await.unwrap();
    let address = proxy.proxy_url();
    let limits = CallLimits { retries: 0, ..patient() };
    let call = async |base: &str, pairs: &[(&str, &str)]| {
        let endpoint = Endpoint::new(base, Wire::Chat).unwrap();
        let proxies = Proxies::from_env(&env(pairs));
        events(&Client::new(endpoint, None, &proxies, limits).unwrap()).await
    };
    let away = "http://model.invalid/v1";
    let refused = call(away, &[("HTTP_PROXY", &address)]).await;
    assert_eq!(failure(&refused).status(), Some(403));
    let host = "model.invalid".to_owned();
    assert_eq!(proxy.requests()[0].kind, RequestKind::Elsewhere { host });

    // An address of this machine that does not look like one, because a name would have to be looked up.
    let server = start(Script::default()).await.unwrap();
    let unnamed = format!("http://0.0.0.0:{}/v1", server.address().port());
    let proxied = call(&unnamed, &[("ALL_PROXY", &address), ("NO_PROXY", "other")]).await;
    assert_eq!(failure(&proxied).status(), Some(403));
    assert_eq!(proxy.requests().len(), 2);
    let direct = call(&unnamed, &[("ALL_PROXY", &address), ("NO_PROXY", "other,0.0.0.0")]).await;
    // The server is reached, and refuses a host that is not its own.
    assert_eq!(failure(&direct).status(), Some(403));
    assert_eq!((proxy.requests().len(), server.refused()), (2, 1));

    let here = format!("{}/v1", server.base_url());
    let answered = call(&here, &[("http_proxy", &address), ("HTTPS_PROXY", &address)]).await;
    assert_eq!(said(answer(&answered)), Script::DEFAULT_TEXT);
    assert_eq!(proxy.requests().len(), 2);
}

#[tokio::test]
async fn a_server_that_is_not_there_and_one_without_tls_are_distinguished_from_answers() {
    // Bound, so that no other process gets the port, but not listening.
    let held = tokio::net::TcpSocket::new_v4().unwrap();
    held.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let gone = held.local_addr().unwrap();
    let limits = CallLimits { retries: 1, ..patient() };
    let nobody = events(&client_at(&format!("http://{gone}/v1"), Wire::Chat, limits)).await;
    assert_eq!(retries(&nobody), [(1, None, FailureReason::Unreachable)]);
    assert!(failure(&nobody).to_string().contains("cannot reach"), "{nobody:?}");

    let server = start(Script::default()).await.unwrap();
    let plain = format!("https://{}/v1", server.address());
    let failed = events(&client_at(&plain, Wire::Chat, patient())).await;
    assert!(matches!(failure(&failed), CallError::Tls(_)), "{failed:?}");
}

#[tokio::test]
async fn an_answer_over_its_limits_is_cut_or_refused() {
    for wire in WIRES {
        let reply = Reply::default().say("x".repeat(600)).say("y".repeat(600));
        let server = start(Script::new([reply.clone().into(), reply.into()])).await.unwrap();
        let limits = CallLimits { reply_bytes: 1000, ..patient() };
        let cut = events(&client(&server, wire, limits)).await;
        let answer = answer(&cut);
        assert_eq!((said(answer).len(), answer.cut_bytes), (1000, 200), "{wire:?}");
        let limits = CallLimits { answer_bytes: 1000, ..patient() };
        let flood = events(&client(&server, wire, limits)).await;
        assert_eq!(*failure(&flood), CallError::Flood(1000));
    }
}

#[tokio::test]
async fn an_event_that_is_too_long_loses_nothing_that_streamed_in_before() {
    let reply = Reply::default().say("x".repeat(300)).say("y".repeat(300));
    let server = start(Script::new([reply.into()])).await.unwrap();
    let limits = CallLimits { event_bytes: 500, ..patient() };
    let events = events(&client(&server, Wire::Responses, limits)).await;
    assert_eq!(said(answer(&events)).len(), 600);
}
