use serde_json::json;

use super::{Event, Record, Usage, read, read_rollout, write_event, write_start};
use crate::history::{Entry, Origin};
use crate::instructions::BaseSource;
use crate::item::ResponseItem;

fn item(value: serde_json::Value) -> ResponseItem {
    ResponseItem::try_from(value).unwrap()
}

fn record() -> Record {
    let call = json!({
        "type": "function_call", "id": "f", "name": "n", "arguments": "{}", "call_id": "c",
    });
    let usage = Usage { last: 3, total: 10 };
    Record {
        id: "t".to_owned(),
        cwd: Some("/r".into()),
        base_instructions: Some("base".to_owned()),
        base_source: BaseSource::Given,
        codex_version: None,
        events: vec![
            Event::Item(ResponseItem::user("a\nb").into()),
            Event::Turn { model: "m".to_owned() },
            Event::Item(item(call).into()),
            Event::Usage(usage),
            Event::Compacted {
                message: "s".to_owned(),
                history: Some(vec![ResponseItem::user("kept").into()]),
            },
            Event::RolledBack { turns: 2 },
        ],
    }
}

fn written(record: &Record) -> String {
    let lines = record.events.iter().map(write_event);
    let lines = std::iter::once(write_start(record)).chain(lines);
    lines.map(|line| line + "\n").collect()
}

#[test]
fn what_was_written_is_read_back() {
    let mut diagnostics = Vec::new();
    assert_eq!(read(&written(&record()), &mut diagnostics), Ok(record()));
    assert!(diagnostics.is_empty());
}

#[test]
fn a_torn_last_line_is_left_out_wherever_it_was_torn() {
    let text = written(&record());
    let last = text.trim_end().rfind('\n').unwrap() + 1;
    for end in last + 1..text.len() - 1 {
        let mut diagnostics = Vec::new();
        let found = read(&text[..end], &mut diagnostics).unwrap();
        assert_eq!(found.events, record().events[..5]);
        let codes: Vec<_> = diagnostics.iter().map(|it| it.code.name()).collect();
        assert_eq!(codes, ["record.torn"]);
    }
}

#[test]
fn a_session_of_codex_is_read_like_our_own() {
    let lines = [
        json!({"type": "session_meta", "payload": {"id": "t", "cwd": "/r", "base_instructions": {"text": "base"}}}),
        json!({"type": "response_item", "payload": {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "a\nb"}]}}),
        json!({"type": "event_msg", "payload": {"type": "user_message", "message": "a"}}),
        json!({"type": "turn_context", "payload": {"model": "m"}}),
        json!({"type": "event_msg", "payload": {"type": "token_count", "info": null}}),
        json!({"type": "event_msg", "payload": {"type": "token_count", "info": {"last_token_usage": {"total_tokens": 3}, "total_token_usage": {"total_tokens": 10}}}}),
        json!({"type": "compacted", "payload": {"message": "s"}}),
        json!({"type": "event_msg", "payload": {"type": "thread_rolled_back", "num_turns": 2}}),
    ];
    let lines: Vec<_> = lines.iter().map(ToString::to_string).collect();
    let text = lines.join("\n") + "\n";
    let mut diagnostics = Vec::new();
    let text = text + "{\"type\": \"resp";
    let found = read_rollout(&text, &mut diagnostics).unwrap();
    assert_eq!(read(&text, &mut Vec::new()).as_ref(), Ok(&found));
    let mut expected = record();
    expected.events[0] = Event::Item(Entry::new(ResponseItem::user("a\nb"), Origin::Codex));
    expected.base_source = BaseSource::History;
    expected.events.remove(2);
    expected.events[3] = Event::Compacted { message: "s".to_owned(), history: None };
    assert_eq!(found, expected);
    assert_eq!(found.last_model(), Some("m"));
    assert_eq!(diagnostics.len(), 1);
    assert_eq!(diagnostics[0].code.name(), "record.torn");
}

#[test]
fn a_broken_line_is_named_and_the_rest_is_read() {
    let mut lines: Vec<_> = written(&record()).lines().map(str::to_owned).collect();
    lines[1] = "{\"item\": {\"type\": \"message\"}}".to_owned();
    let mut diagnostics = Vec::new();
    let found = read(&(lines.join("\n") + "\n"), &mut diagnostics).unwrap();
    assert_eq!(found.events.len(), 5);
    assert_eq!(diagnostics[0].message, "line 2 was left out: a `message` item has no valid `role`");
}

#[test]
fn other_files_are_refused() {
    let cases = [
        ("", "it is empty"),
        ("{}\n", "the first line does not describe a thread"),
        ("{\"thread\":{\"version\":9}}\n", "unknown version 9"),
    ];
    for (text, reason) in cases {
        let refused = read(text, &mut Vec::new()).unwrap_err();
        assert!(refused.to_string().ends_with(reason), "{refused}");
    }
}

#[test]
fn a_first_line_that_was_cut_off_is_said_to_be() {
    for (text, expected) in [
        ("", "it is empty"),
        ("\n\n", "it is empty"),
        ("{\"timestamp\": \"2026-", "line 1 is not JSON, or was truncated after 20 bytes"),
    ] {
        let failed = read(text, &mut Vec::new()).unwrap_err().to_string();
        assert!(failed.ends_with(expected), "{failed}");
    }
}

#[test]
fn an_item_that_no_history_keeps_is_named_with_its_line() {
    let start = write_start(&record());
    let own = format!(
        "{start}\n{{\"item\":{{\"type\":\"new_thing\"}}}}\n{}\n",
        write_event(&Event::Item(ResponseItem::user("kept").into()))
    );
    let codex = concat!(
        r#"{"type":"session_meta","payload":{"id":"t"}}"#,
        "\n",
        r#"{"type":"response_item","payload":{"type":"new_thing"}}"#,
        "\n",
        r#"{"type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"kept"}]}}"#,
        "\n",
        r#"{"type":"response_item","payload":{"type":"message","role":"system","content":[]}}"#,
        "\n",
    );
    let unknown =
        "line 2 was left out: an item of unknown kind `new_thing` is not kept in the history";
    let system = "line 4 was left out: a system message is not kept in the history";
    let cases = [
        (own.as_str(), &[unknown][..], Origin::Unknown),
        (codex, &[unknown, system], Origin::Codex),
    ];
    for (text, expected, origin) in cases {
        let mut diagnostics = Vec::new();
        let found = read(text, &mut diagnostics).unwrap();
        let kept = Entry::new(ResponseItem::user("kept"), origin);
        assert_eq!(found.events, [Event::Item(kept)]);
        let messages: Vec<_> = diagnostics.iter().map(|it| &*it.message).collect();
        assert_eq!(messages, expected);
        assert!(diagnostics.iter().all(|it| it.code.name() == "item.dropped"));
        assert_eq!(diagnostics[0].line, Some(2));
    }
}
