//! Turns with servers that respond unexpectedly.

use convoke_agent::config::ApiWire;
use convoke_protocol::agent_event::AgentEventKind;
use convoke_rehearsal::script::{Content, HttpError};
use convoke_rehearsal::{Answer, Reply, Script, Usage};

use crate::lab::{KEY, Lab};
use crate::raw_server::RawServer;

#[tokio::test]
async fn counts_that_no_server_can_mean_do_no_harm() {
    let usage = Usage { input: u64::MAX, output: u64::MAX, cached: u64::MAX };
    let counted = |text: &str| Answer::from(Reply::default().say(text).with_usage(usage));
    let script = Script::new([counted("One."), counted("SUMMARY"), counted("Two.")]);
    let lab = Lab::new(ApiWire::Responses, script).await.with_window(100_000);
    let first = lab.say("First", None).await;
    assert_eq!(first.reply(), "One.");
    // Whatever the count means, the thread counts as full, and the turn uses twice as much.
    assert_eq!(lab.say("Second", Some(&first)).await.reply(), "Two.");
}

#[tokio::test]
async fn a_rate_limit_is_no_full_context_whatever_its_words() {
    let mut limited = HttpError::new(429, "Too many tokens, please wait before trying again.");
    limited.headers.push(("retry-after".to_owned(), "0".to_owned()));
    let limited = Content::Error(limited).into();
    let script = Script::new([Answer::say("One."), limited, Answer::say("Two.")]);
    let lab = Lab::new(ApiWire::Chat, script).await;
    let first = lab.say("First", None).await;
    let second = lab.say("Second", Some(&first)).await;
    assert_eq!(second.story(), ["started", "retry 1 Some(429)", "text Two.", "finished done"]);
    let wait = second.events.iter().find_map(|event| match &event.kind {
        AgentEventKind::Retry { wait, .. } => *wait,
        _ => None,
    });
    assert!(wait.is_some_and(|wait| wait.as_secs() < 2), "{wait:?}");
}

#[tokio::test]
async fn a_key_in_ids_names_and_the_model_is_not_shown_and_not_stored() {
    let responses = "data: {\"type\":\"response.output_item.done\",\"item\":{\"type\":\"function_call\",\
        \"id\":\"@@AUTH@@\",\"call_id\":\"call @@AUTH@@\",\"name\":\"tool @@AUTH@@\",\"arguments\":\"{}\"}}\n\n\
        data: {\"type\":\"response.completed\",\"response\":{\"model\":\"model @@AUTH@@\"}}\n\n";
    let chat = "data: {\"model\":\"model @@AUTH@@\",\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\
        \"id\":\"call @@AUTH@@\",\"function\":{\"name\":\"tool @@AUTH@@\",\"arguments\":\"{}\"}}]},\
        \"finish_reason\":\"tool_calls\"}]}\n\ndata: [DONE]\n\n";
    for (wire, body) in [(ApiWire::Responses, responses), (ApiWire::Chat, chat)] {
        let server = RawServer::start("200 OK", "content-type: text/event-stream\r\n", body).await;
        let mut lab = Lab::new(wire, Script::new([])).await;
        lab.api.base_url = Some(format!("http://{}/v1", server.address));
        let taken = lab.say("Go", None).await;
        assert!(server.requests()[0].contains(KEY), "the server was sent the key");
        let story = taken.story().concat();
        assert!(story.contains("tool Bearer [redacted]"), "{story}");
        let stored = format!("{:?}", lab.store);
        let shown = format!("{:?} {:?}", taken.events, taken.outcome);
        assert!(!stored.contains(KEY) && !shown.contains(KEY), "{wire:?}");
        assert!(stored.contains("model Bearer [redacted]"), "{stored}");
    }
}

#[tokio::test]
async fn a_server_that_answers_in_another_dialect_is_named_and_asked_once() {
    let chat = "data: {\"object\":\"chat.completion.chunk\",\"choices\":[{\"delta\":{\"content\":\"Hi\"}}]}\n\ndata: [DONE]\n\n";
    let messages = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{}}\n\n";
    for (wire, body, named) in [
        (ApiWire::Responses, chat, "--wire chat"),
        (ApiWire::Responses, messages, "Anthropic's Messages API"),
        (ApiWire::Chat, messages, "Anthropic's Messages API"),
    ] {
        let server = RawServer::start("200 OK", "content-type: text/event-stream\r\n", body).await;
        let mut lab = Lab::new(wire, Script::new([])).await;
        lab.api.base_url = Some(format!("http://{}/v1", server.address));
        let taken = lab.say("Go", None).await;
        assert_eq!(server.requests().len(), 1, "{named}");
        let outcome = format!("{:?}", taken.outcome);
        assert!(outcome.contains(named), "{outcome}");
    }
}
