use convoke_core::ledger::Source;

use super::{Ids, ResponseItem};
use crate::history::Sources;
use crate::json::{JsonWriter, entry};

fn read(json: &str) -> ResponseItem {
    serde_json::from_str(json).unwrap()
}

#[test]
fn every_kind_is_written_with_its_keys_in_order() {
    let cases = [
        (
            r#"{"id":"m","content":[{"text":"a","type":"output_text"}],"phase":"commentary","role":"assistant","type":"message"}"#,
            r#"{"type":"message","role":"assistant","content":[{"type":"output_text","text":"a"}],"phase":"commentary"}"#,
        ),
        (
            r#"{"type":"reasoning","id":"r","summary":[]}"#,
            r#"{"type":"reasoning","summary":[],"content":null,"encrypted_content":null}"#,
        ),
        (
            r#"{"type":"reasoning","id":"r","summary":[{"type":"summary_text","text":"s"}],"content":[{"type":"reasoning_text","text":"t"}],"encrypted_content":"E"}"#,
            r#"{"type":"reasoning","summary":[{"type":"summary_text","text":"s"}],"content":[{"type":"reasoning_text","text":"t"}],"encrypted_content":"E"}"#,
        ),
        (
            r#"{"type":"reasoning","summary":[],"content":[{"type":"text","text":"t"}],"encrypted_content":"E"}"#,
            r#"{"type":"reasoning","summary":[],"encrypted_content":"E"}"#,
        ),
        (
            r#"{"type":"local_shell_call","status":"completed","action":{"type":"exec","command":["ls"]}}"#,
            r#"{"type":"local_shell_call","call_id":null,"status":"completed","action":{"type":"exec","command":["ls"],"timeout_ms":null,"working_directory":null,"env":null,"user":null}}"#,
        ),
        (
            r#"{"call_id":"c","output":[{"type":"input_image","image_url":"u"}],"type":"function_call_output"}"#,
            r#"{"type":"function_call_output","call_id":"c","output":[{"type":"input_image","image_url":"u"}]}"#,
        ),
        (
            r#"{"type":"custom_tool_call","name":"n","input":"i","call_id":"c","status":"completed"}"#,
            r#"{"type":"custom_tool_call","status":"completed","call_id":"c","name":"n","input":"i"}"#,
        ),
        (
            r#"{"type":"web_search_call","action":{"query":"q","type":"search","extra":1}}"#,
            r#"{"type":"web_search_call","action":{"type":"search","query":"q"}}"#,
        ),
        (
            r#"{"type":"compaction_summary","encrypted_content":"E"}"#,
            r#"{"type":"compaction","encrypted_content":"E"}"#,
        ),
    ];
    for (given, expected) in cases {
        assert_eq!(serde_json::to_string(&read(given)).unwrap(), expected);
    }
}

#[test]
fn the_id_is_written_last_and_only_where_it_is_asked_for() {
    let call =
        read(r#"{"type":"function_call","id":"f","name":"n","arguments":"{}","call_id":"c"}"#);
    let mut out = JsonWriter::default();
    call.write(&mut out, &mut Sources::unrecorded(), Ids::Written);
    assert_eq!(
        out.into_text(),
        r#"{"type":"function_call","name":"n","arguments":"{}","call_id":"c","id":"f"}"#
    );
}

/// The model wrote these values, so they are not part of the envelope.
#[test]
fn all_that_the_model_wrote_in_a_call_has_it_as_the_source() {
    let calls = [
        r#"{"type":"web_search_call","action":{"type":"search","query":"q"}}"#,
        r#"{"type":"local_shell_call","status":"completed","action":{"type":"exec","command":["ls"],"working_directory":"/w","env":{"A":"b"},"user":"u"}}"#,
    ];
    let written = calls.map(|call| {
        let source = Source::Model { id: None, index: None };
        let mut sources = Sources::one(entry("model", source), false);
        let mut out = JsonWriter::default();
        read(call).write(&mut out, &mut sources, Ids::Omitted);
        let (text, ledger) = out.finish(&mut Vec::new());
        let entries = ledger.entries().filter(|it| it.section == "model");
        let ranges = entries.map(|it| {
            let at = |at: u64| usize::try_from(at).unwrap();
            text[at(it.range.start)..at(it.range.end)].to_owned()
        });
        ranges.collect::<Vec<_>>()
    });
    assert_eq!(written[0], [r#"{"type":"search","query":"q"}"#]);
    assert_eq!(written[1], ["ls", "/w", r#"{"A":"b"}"#, "u"]);
}

#[test]
fn an_unknown_kind_is_not_an_error_and_a_broken_one_names_its_field() {
    assert_eq!(read(r#"{"type":"new_thing","x":1}"#), ResponseItem::Other("new_thing".to_owned()));
    let broken = serde_json::from_str::<ResponseItem>(r#"{"type":"function_call","name":"n"}"#);
    assert_eq!(broken.unwrap_err().to_string(), "a `function_call` item has no valid `arguments`");
}
