//! The views, as JSON and as HTML.

use convoke_agent::adapter::Step;
use convoke_protocol::id::{SessionId, TurnId};
use convoke_protocol::verdict::{Failure, FailureReason};
use convoke_session::{NewMessage, Store as _};
use serde_json::{Value, json};

use crate::test_server::TestServer;

/// Returns the sum of the figures of an attribute in the elements with a class.
fn sum_of(html: &str, class: &str) -> Vec<(u64, u64)> {
    let mut sums = Vec::new();
    for picture in html.split("<svg class=\"").skip(1).filter(|it| it.starts_with(class)) {
        let picture = &picture[..picture.find("</svg>").unwrap()];
        let mut figures = picture
            .split("data-bytes=\"")
            .skip(1)
            .map(|rest| rest[..rest.find('"').unwrap()].parse::<u64>().unwrap());
        sums.push((figures.next().unwrap(), figures.sum()));
    }
    sums
}

#[tokio::test]
async fn a_session_is_listed_searched_and_shown() {
    let server = TestServer::start().await;
    let session = server.conversation("What of the <b>parser</b>?").await;
    let list = server.json("/api/sessions").await;
    assert_eq!(list["sessions"][0]["id"], session.to_string());
    assert_eq!(list["sessions"][0]["members"], serde_json::json!(["kim", "max", "ada"]));
    assert_eq!(server.json("/api/sessions?q=parser").await["messages"][0]["number"], 1);
    assert_eq!(server.json("/api/sessions?q=lexer").await["total"], 0);
    let html = server.html("/api/sessions?q=parser").await;
    assert!(html.contains(&format!("/sessions/{session}?message=1#message-1")), "{html}");
    let shown = server.json(&format!("/api/sessions/{session}")).await;
    assert_eq!(shown["messages"][1]["turn"], 1, "{shown}");
    assert_eq!(shown["messages"][1]["message"]["content"], "Looks good to me.");
    let html = server.html(&format!("/api/sessions/{session}")).await;
    assert!(html.contains("&lt;b&gt;parser&lt;/b&gt;") && !html.contains("<b>parser"), "{html}");
    assert!(html.contains("id=\"composer\""));
}

/// Returns a conversation of 22 messages.
async fn long_conversation() -> (TestServer, SessionId) {
    let server = TestServer::with(Vec::new()).await;
    let session = server.conversation("One").await;
    let mut held = server.hold(Some(session)).await;
    for number in 0..10 {
        let message = NewMessage::from_person("kim", format!("{number}")).to(["max"]);
        held.coordinator.accept(message).await.unwrap();
        held.coordinator.run().await.unwrap();
    }
    (server, session)
}

#[tokio::test]
async fn pages_of_messages_follow_one_another() {
    let (server, session) = long_conversation().await;
    let path = format!("/api/sessions/{session}/messages");
    let mut before = 23;
    let mut seen = Vec::new();
    loop {
        let page = server.json(&format!("{path}?before={before}&limit=5")).await;
        let messages = page["messages"].as_array().unwrap();
        for message in messages.iter().rev() {
            seen.push(message["number"].as_u64().unwrap());
            // Every second message is the reply of a turn, in order.
            let number = message["number"].as_u64().unwrap();
            let turn = (number % 2 == 0).then_some(number / 2);
            assert_eq!(message["turn"].as_u64(), turn, "{message}");
        }
        before = messages[0]["number"].as_u64().unwrap();
        if page["hasEarlier"] == false {
            break;
        }
    }
    assert_eq!(seen, (1..=22).rev().collect::<Vec<_>>());
}

#[tokio::test]
async fn a_downloaded_prompt_has_the_stored_hash() {
    let server = TestServer::start().await;
    let session = server.conversation("Päckchen\r\n\ttabs  and \u{202e}direction").await;
    let attempt = server.store.attempts(session, TurnId(1)).await.unwrap().pop().unwrap();
    let base = format!("/api/sessions/{session}/turns/1");
    for (name, stored) in [("prompt", attempt.prompt), ("system", attempt.system.unwrap())] {
        let response = server.get(&format!("{base}/{name}")).await;
        let hash =
            convoke_protocol::content::Content::new(&*response.body).reference().hash.to_string();
        assert_eq!(hash, stored.hash.to_string(), "{name}");
        assert_eq!(response.header("x-content-sha256"), [hash]);
        assert!(response.header("content-disposition")[0].starts_with("attachment"));
    }
}

#[tokio::test]
async fn the_pictures_add_up_to_what_was_sent() {
    let server = TestServer::start().await;
    let session = server.conversation("Hello").await;
    let base = format!("/api/sessions/{session}/turns/1");
    let used = server.json(&format!("{base}/ledger")).await["usedBytes"].as_u64().unwrap();
    for reading in ["parts", "exact"] {
        let html = server.html(&format!("{base}?reading={reading}")).await;
        for class in ["bar order\"", "treemap\""] {
            assert_eq!(sum_of(&html, class), [(used, used)], "{reading} {class}");
        }
        assert!(!html.contains("style="), "{html}");
    }
    let json = server.json(&base).await;
    let sent = json["prompt"].as_str().unwrap().len() + json["systemFlag"].as_str().unwrap().len();
    assert_eq!(used, sent as u64);
}

#[tokio::test]
async fn a_part_of_a_text_is_exact_and_white_space_is_shown_on_request() {
    let server = TestServer::start().await;
    let session = server.conversation("a  b\tc").await;
    let base = format!("/api/sessions/{session}/turns/1");
    let prompt = server.json(&base).await["prompt"].as_str().unwrap().to_owned();
    let at = prompt.find("a  b").unwrap();
    let path = format!("{base}/bytes?target=prompt&from={at}&to={}", at + 6);
    assert_eq!(server.json(&path).await["text"], "a  b\tc");
    assert_eq!(server.html(&path).await, "a  b\tc");
    let shown = server.html(&format!("{path}&whitespace=1")).await;
    assert_eq!(shown, "a<i>·</i><i>·</i>b<i>→</i>\tc");
}

#[tokio::test]
async fn two_prompts_are_compared() {
    let server = TestServer::start().await;
    let session = server.conversation("Hello").await;
    let mut held = server.hold(Some(session)).await;
    let message = NewMessage::from_person("kim", "And now?").to(["max"]);
    held.coordinator.accept(message).await.unwrap();
    held.coordinator.run().await.unwrap();
    let path = format!("/api/sessions/{session}/turns/2/diff/1");
    let json = server.json(&path).await;
    assert_eq!((&json["earlier"], &json["later"]), (&Value::from(1), &Value::from(2)));
    let reusable = json["reusableBytes"].as_u64().unwrap();
    let html = server.html(&path).await;
    assert!(html.contains(&format!("data-bytes=\"{reusable}\"")), "{html}");
    assert!(html.contains("The first difference"), "{html}");
    assert_eq!(server.get(&format!("/api/sessions/{session}/turns/2/diff/9")).await.status, 404);
}

#[tokio::test]
async fn what_a_model_was_given_comes_by_parts_and_is_searched() {
    let server = TestServer::start().await;
    let session = server.conversation("Look at the tokenizer").await;
    let base = format!("/api/sessions/{session}/turns/1");
    let rows = server.json(&format!("{base}/rows")).await["parts"].clone();
    let bytes = rows.as_array().unwrap().iter().map(|row| row["bytes"].as_u64().unwrap());
    let used = server.json(&format!("{base}/ledger")).await["usedBytes"].as_u64().unwrap();
    assert_eq!(bytes.sum::<u64>(), used);
    let found = server.json(&format!("{base}/find?q=TOKENIZER")).await["matches"].clone();
    let part = found[0]["part"].as_u64().unwrap();
    assert_eq!((found[0]["times"].as_u64(), found.as_array().unwrap().len()), (Some(1), 1));
    let raw = server.get(&format!("{base}/parts/{part}?raw=1")).await.body;
    assert!(raw.contains("Look at the tokenizer"), "{raw}");
    let html = server.html(&base).await;
    assert!(html.contains(&format!("id=\"part-{part}\"")), "{html}");
    assert!(html.contains(&format!("href=\"#part-{part}\"")), "{html}");
}

#[tokio::test]
async fn any_two_texts_are_compared_by_part() {
    let server = TestServer::start().await;
    let one = server.conversation("Hello").await;
    let other = server.conversation("Good morning").await;
    let path = format!("/api/compare?a=/sessions/{one}/turns/1&b=/sessions/{other}/turns/1");
    let json = server.json(&path).await;
    let boundary = json["boundary"].as_u64().unwrap();
    let states: Vec<&str> =
        json["rows"].as_array().unwrap().iter().map(|row| row["state"].as_str().unwrap()).collect();
    assert!(states.iter().take(usize::try_from(boundary).unwrap()).all(|it| *it == "unchanged"));
    assert!(states.iter().any(|it| *it != "unchanged"), "{states:?}");
    let html = server.html(&path).await;
    assert!(html.contains("class=\"boundary\""), "{html}");
    let foreign =
        format!("/api/compare?a=/sessions/{one}/turns/1&b=/programs/claude/one/requests/1");
    assert!(server.html(&foreign).await.contains("What changed"));
    for bad in ["a=/sessions/1&b=/x", "a=/sessions/x/turns/1&b=/explain", "a=1"] {
        assert!((400..500).contains(&server.get(&format!("/api/compare?{bad}")).await.status));
    }
}

#[tokio::test]
async fn the_list_is_filtered_by_its_address() {
    let server = TestServer::start().await;
    server.conversation("Hello").await;
    for (query, own, others) in [
        ("", 1, true),
        ("program=convoke", 1, false),
        ("program=claude", 0, true),
        ("state=idle&days=7", 1, false),
        ("state=failed", 0, false),
        ("project=nowhere", 0, true),
        ("days=&project=", 1, true),
    ] {
        let path = format!("/api/sessions?{query}");
        assert_eq!(server.json(&path).await["total"], own, "{query}");
        let html = server.html(&path).await;
        assert_eq!(html.contains("data-load=\"/api/programs"), others, "{query}: {html}");
    }
    assert_eq!(server.json("/api/programs?program=codex").await["total"], 0);
    assert_eq!(server.get("/api/sessions?days=x").await.status, 400);
}

#[tokio::test]
async fn missing_views_are_reported() {
    let server = TestServer::start().await;
    let session = server.conversation("Hello").await;
    for path in [
        "/api/sessions/nothing".to_owned(),
        "/api/sessions/01890a5d-ac96-774b-bcce-b302099a8057".to_owned(),
        format!("/api/sessions/{session}/turns/9"),
        format!("/api/sessions/{session}/turns/1?attempt=9"),
        format!("/api/sessions/{session}/turns/1/requests/1"),
        "/api/nothing".to_owned(),
    ] {
        let response = server.get(&path).await;
        assert_eq!(response.status, 404, "{path}: {response:?}");
        assert!(!response.json()["error"].as_str().unwrap().is_empty());
    }
}

#[tokio::test]
async fn hostile_texts_are_text_in_every_view() {
    let hostile = "</script><script>window.x=1</script><img src=x onerror=\"window.x=1\"> \u{1b}[2J \u{202e}gnp";
    let long = "x".repeat(768 << 10);
    let reply = format!("{hostile} {long}");
    let server = TestServer::with(vec![vec![Step::Say(reply)]]).await;
    let session = server.conversation(&format!("{hostile} {long}")).await;
    let base = format!("/api/sessions/{session}");
    for path in ["", "/turns", "/turns/1", "/turns/1/steps", "/changes", "/cache"] {
        let html = server.html(&format!("{base}{path}")).await;
        for bad in ["<script", "<img", "\u{1b}", "\u{202e}"] {
            assert!(!html.contains(bad), "{path} contains {bad}");
        }
        assert!(html.len() < 1 << 20, "{path} has {} bytes", html.len());
    }
    let document = server.get(&format!("{base}/export?form=html")).await.body;
    assert!(!document.contains("<script") && !document.contains("<img"));
    assert!(document.len() > 768 << 10, "a document is whole");
}

#[tokio::test]
async fn a_document_loads_nothing_and_runs_no_script() {
    let server = TestServer::start().await;
    let session = server.conversation("Hello").await;
    let response = server.get(&format!("/api/sessions/{session}/export?form=html")).await;
    let html = response.body;
    assert!(html.starts_with("<!DOCTYPE html>") && html.ends_with("</html>"), "{html}");
    for foreign in ["<script", "src=", "http://", "https://", "href=\"/", "<link", "url("] {
        assert!(!html.contains(foreign), "{foreign}");
    }
    assert!(html.contains("default-src 'none'"));
    assert!(html.contains("Looks good to me.") && html.contains("Be brief."));
}

#[tokio::test]
async fn explain_is_a_page() {
    let server = TestServer::start().await;
    std::fs::write(server.directory.path().join("AGENTS.md"), "Use tabs.\n").unwrap();
    let json = server.json("/api/explain").await;
    assert_eq!(json["version"], 1);
    let html = server.html("/api/explain").await;
    assert!(html.contains("AGENTS.md"), "{html}");
}

#[tokio::test]
async fn the_list_comes_in_pages() {
    let server = TestServer::with(Vec::new()).await;
    let mut sessions = Vec::new();
    for number in 0..5 {
        sessions.push(server.conversation(&format!("Number {number}")).await.to_string());
    }
    let mut seen = Vec::new();
    let mut from = 0;
    loop {
        let page = server.json(&format!("/api/sessions?from={from}&limit=2")).await;
        assert_eq!(page["total"], 5);
        let rows = page["sessions"].as_array().unwrap();
        seen.extend(rows.iter().map(|row| row["id"].as_str().unwrap().to_owned()));
        match page["next"].as_u64() {
            Some(next) => from = next,
            None => break,
        }
    }
    seen.sort();
    sessions.sort();
    assert_eq!(seen, sessions);
    let html = server.html("/api/sessions?limit=2").await;
    assert!(html.contains("from=2") && html.contains("5 sessions"), "{html}");
}

#[tokio::test]
async fn a_message_is_shown_wherever_it_is() {
    let (server, session) = long_conversation().await;
    let path = format!("/api/sessions/{session}?limit=6&message=9");
    let page = server.json(&path).await;
    let numbers: Vec<u64> = page["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|message| message["number"].as_u64().unwrap())
        .collect();
    assert_eq!(numbers, [6, 7, 8, 9, 10, 11]);
    assert_eq!((&page["hasEarlier"], &page["hasLater"]), (&true.into(), &true.into()));
    let html = server.html(&path).await;
    // Later messages are announced, and not shown after the gap.
    assert!(html.contains("data-gap") && html.contains("data-last=\"22\""), "{html}");
    let end = server.html(&format!("/api/sessions/{session}?limit=6&message=22")).await;
    assert!(!end.contains("data-gap") && end.contains("message-22"), "{end}");
}

#[tokio::test]
async fn events_have_their_times() {
    let tool =
        Step::Tool { name: "read".to_owned(), input: "{}".to_owned(), output: "x".to_owned() };
    let server = TestServer::with(vec![vec![tool, Step::Say("Done.".to_owned())]]).await;
    let session = server.conversation("Hello").await;
    let path = format!("/api/sessions/{session}/turns/1/steps");
    let attempt = server.store.attempts(session, TurnId(1)).await.unwrap().pop().unwrap();
    let ended = attempt.ended.unwrap().at.0;
    let events = server.json(&path).await["events"].as_array().unwrap().clone();
    assert!(events.len() > 2, "{events:?}");
    let times: Vec<i64> = events.iter().map(|event| event["at"].as_i64().unwrap()).collect();
    assert!(times.is_sorted(), "{times:?}");
    assert!(times.iter().all(|at| (attempt.began_at.0..=ended).contains(at)), "{times:?}");
    let html = server.html(&path).await;
    assert!(html.contains("time-line") && html.contains(">tools<"), "{html}");
}

#[tokio::test]
async fn turns_of_any_members_and_attempts_of_one_turn_are_compared() {
    let failure = Failure::new(FailureReason::Incomplete, "it broke");
    let turns = vec![vec![Step::Fail(failure)], vec![Step::Say("Now it works.".to_owned())]];
    let server = TestServer::with(turns).await;
    let session = server.conversation("Hello").await;
    let mut held = server.hold(Some(session)).await;
    held.coordinator.retry(TurnId(1)).await.unwrap();
    held.coordinator.run().await.unwrap();
    let message = NewMessage::from_person("kim", "And you?").to(["ada"]);
    held.coordinator.accept(message).await.unwrap();
    held.coordinator.run().await.unwrap();
    let base = format!("/api/sessions/{session}/turns");
    let same = server.json(&format!("{base}/1/diff/1?attempt=2&other=1")).await;
    assert_eq!((&same["attempts"], &same["firstDifference"]), (&json!([1, 2]), &Value::Null));
    let whole = server.json(&format!("{base}/1")).await["ledger"]["usedBytes"].clone();
    assert_eq!(same["reusableBytes"], whole);
    let other = server.json(&format!("{base}/2/diff/1")).await;
    assert_eq!((&other["earlier"], &other["later"]), (&json!(1), &json!(2)));
    let first = &other["firstDifference"];
    assert!(first["byte"].is_u64() && !first["cause"].as_str().unwrap().is_empty(), "{first}");
    let html = server.html(&format!("{base}/1/diff/2")).await;
    assert!(html.contains("turn 1 of max and turn 2 of ada"), "{html}");
    assert!(html.contains(first["cause"].as_str().unwrap()), "{html}");
}

/// Every view of the page has the same address below `/api`, as JSON and as HTML.
#[tokio::test]
async fn every_view_has_a_json_form() {
    let server = TestServer::start().await;
    let session = server.conversation("Hello").await;
    let base = format!("/sessions/{session}");
    let views = [
        "",
        "/turns",
        "/turns/1",
        "/turns/1?reading=exact&whitespace=1&attempt=1",
        "/turns/1/parts",
        "/turns/1/rows?sort=size",
        "/turns/1/find?q=brief",
        "/waterfall",
        "/changes?layout=split",
        "/turns/1/diff/1",
        "/turns/1/requests",
        "/turns/1/steps",
        "/turns/1/changes",
        "/changes",
        "/cost",
        "/cache",
    ];
    let views = views.map(|view| format!("{base}{view}"));
    let compared = format!("/compare?a={base}/turns/1&b={base}/turns/1");
    for view in views.iter().map(String::as_str).chain(["/explain", &compared]) {
        assert_eq!(server.get(view).await.status, 200, "{view}");
        assert!(server.json(&format!("/api{view}")).await.is_object(), "{view}");
        let html = server.html(&format!("/api{view}")).await;
        assert!(html.is_empty() || html.starts_with('<'), "{view}: {html}");
    }
}
