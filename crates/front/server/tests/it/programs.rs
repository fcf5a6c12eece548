//! The views of other programs' sessions.

use convoke_server::other_sessions::MAX_SHOWN;
use serde_json::json;

use crate::test_server::TestServer;
use crate::test_sessions::{HOSTILE, OTHER_ROUTES};

#[tokio::test]
async fn hostile_texts_of_other_programs_are_text_in_every_view() {
    let server = TestServer::start().await;
    for path in OTHER_ROUTES.iter().filter(|path| !path.ends_with("/state")) {
        let html = server.html(path).await;
        for bad in ["<img", "<script", "</script>", "onerror=\"", "\u{1b}", "\u{202e}", "style="] {
            let found = html.find(bad).map(|at| &html[at.saturating_sub(200)..]);
            assert_eq!(found, None, "{path}: {bad:?}");
        }
        assert!(html.contains("&lt;/script&gt;"), "{path}: {html}");
    }
}

#[tokio::test]
async fn sessions_are_listed_beside_convokes_own() {
    let server = TestServer::start().await;
    let start = server.html("/api/sessions").await;
    assert!(start.contains("data-load=\"/api/programs?from=0\""), "{start}");
    let list = server.json("/api/programs").await;
    assert_eq!((&list["total"], &list["next"]), (&json!(1), &json!(null)), "{list}");
    assert_eq!(list["sessions"][0]["title"], HOSTILE);
    let html = server.html("/api/programs").await;
    assert!(html.contains("<a class=\"row\" href=\"/programs/claude/one\">"), "{html}");
    assert!(html.contains("2 requests") && html.contains("12.4k tokens"), "{html}");
}

#[tokio::test]
async fn a_session_shows_its_requests_and_what_was_said_and_done() {
    let server = TestServer::start().await;
    let path = "/api/programs/claude/one";
    let json = server.json(path).await;
    assert_eq!(json["steps"][0]["kind"]["kind"], "person", "{json}");
    assert_eq!(json["requestRows"][1]["number"], 2);
    let html = server.html(path).await;
    for part in [
        "href=\"/programs/claude/one/requests/2\"",
        "data-more=\"/api/programs/claude/one/requests?before=1\"",
        "data-more=\"/api/programs/claude/one/steps?at=1&amp;number=1\"",
        "data-more=\"/api/programs/claude/one/text?number=4&amp;part=text&amp;from=65536\"",
        "data-state=\"9-5\"",
        "3 parts replaced by a summary",
        "status 529",
        "<span class=\"l removed\" data-old=\"1\">&lt;/script&gt;",
    ] {
        assert!(html.contains(part), "{part}");
    }
    assert_eq!(server.json(&format!("{path}/state")).await, json!({"bytes": 9, "changedAt": 5}));
    let steps = server.html(&format!("{path}/steps?at=1&number=3")).await;
    assert!(steps.contains("step-2\"") && !steps.contains("step-3\""), "{steps}");
}

#[tokio::test]
async fn a_request_shows_its_grade_its_window_and_its_ledger() {
    let server = TestServer::start().await;
    let path = "/api/programs/claude/one/requests/1";
    let json = server.json(path).await;
    assert_eq!((&json["rebuilt"], &json["of"]), (&json!("partial"), &json!(2)), "{json}");
    assert_eq!(json["ledger"]["entries"].as_array().unwrap().len(), 305);
    let html = server.html(path).await;
    for part in [
        "something of the conversation is missing",
        "id=\"part-0\"",
        "data-chunk=\"/api/programs/claude/one/requests/1/parts?chunk=7\"",
        "data-more=\"/api/programs/claude/one/requests/1/rows?sort=sent&amp;from=120\"",
        "data-more=\"/api/programs/claude/one/requests/1/parts/3?from=16384\"",
        "href=\"/programs/claude/one/requests/2\"",
        "&quot;command&quot;: &quot;ls -l&quot;",
    ] {
        assert!(html.contains(part), "{part}");
    }
    assert!(html.len() < 512 << 10, "{}", html.len());
    let later = server.html(&format!("{path}/parts?chunk=7")).await;
    assert!(later.contains("id=\"part-280\"") && later.contains("id=\"part-303\""), "{later}");
    let largest = server.html(&format!("{path}/rows?sort=size")).await;
    assert!(largest.starts_with("<li class=\"k-results\" data-part=\"3\">"), "{largest}");
}

#[tokio::test]
async fn long_texts_come_in_pieces() {
    let server = TestServer::start().await;
    for (path, size) in [
        ("/api/programs/claude/one/requests/1/parts/3?", MAX_SHOWN + 10),
        ("/api/programs/claude/one/text?number=4&part=output&", HOSTILE.len() + 2 * MAX_SHOWN),
    ] {
        let mut text = String::new();
        loop {
            let piece = server.json(&format!("{path}from={}", text.len())).await;
            text += piece["text"].as_str().unwrap();
            if piece["rest"] == 0 {
                break;
            }
        }
        assert_eq!(text.len(), size, "{path}");
    }
}

#[tokio::test]
async fn usage_is_shown_by_day_program_model_and_project() {
    let server = TestServer::start().await;
    let all = server.json("/api/usage?days=0").await;
    assert_eq!((&all["total"]["requests"], &all["days"][0]["costUsd"]), (&json!(2), &json!(0.75)));
    let html = server.html("/api/usage?days=0").await;
    for part in ["By day", "By program", "By model", "By project", "12.4k", "$0.75"] {
        assert!(html.contains(part), "{part}: {html}");
    }
    assert!(server.html("/api/usage").await.contains("Nothing was counted in this time."));
}

#[tokio::test]
async fn what_is_not_there_is_not_found() {
    let server = TestServer::start().await;
    for path in [
        "/api/programs/claude/two",
        "/api/programs/nobody/one",
        "/api/programs/claude/two/state",
        "/api/programs/claude/one/requests/3",
        "/api/programs/claude/one/requests/1/parts/304",
    ] {
        assert_eq!(server.get(path).await.status, 404, "{path}");
    }
    for path in [
        "/api/programs/claude/one/requests/x",
        "/api/programs/claude/one/steps",
        "/api/programs/claude/one/text?number=1&part=other",
    ] {
        assert_eq!(server.get(path).await.status, 400, "{path}");
    }
    assert_eq!(server.get("/programs/claude/one").await.status, 200);
}
