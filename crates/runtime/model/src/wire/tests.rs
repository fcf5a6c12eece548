use convoke_thread::item::{ContentItem, FunctionCall};
use convoke_wire::sse::Data;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::client::CallError;

/// Parses events given by their data, and returns the deltas and the answer.
fn read(wire: Wire, events: &[Value]) -> (Vec<ResponseDelta>, ParsedResponse) {
    let mut reader = ResponseReader::new(wire, 1000);
    let mut heard = Vec::new();
    for event in events {
        let data = match event {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        reader.event(SseEvent { name: String::new(), data: Data::Whole(data) }, &mut heard);
    }
    (heard, reader.into_response())
}

fn chunk(delta: &Value) -> Value {
    json!({"choices": [{"index": 0, "delta": delta, "finish_reason": null}]})
}

fn calls(answer: &ParsedResponse) -> Vec<(&str, &str, &str)> {
    let calls = answer.items.iter().filter_map(|item| match item {
        ResponseItem::FunctionCall(FunctionCall { name, arguments, call_id, .. }) => {
            Some((call_id.as_str(), name.as_str(), arguments.as_str()))
        }
        _ => None,
    });
    calls.collect()
}

#[test]
fn a_bounded_text_is_cut_once_at_a_character_and_counts_the_rest() {
    let mut text = BoundedText::default();
    for piece in ["ab", "世界", "c"] {
        text.push(piece, 6);
    }
    assert_eq!((text.text.as_str(), text.cut), ("ab世", 4));
}

#[test]
fn calls_are_put_together_from_the_pieces_of_any_server() {
    // In pieces, by index, interleaved.
    let pieces = [
        json!({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "read", "arguments": ""}}]}),
        json!({"tool_calls": [{"index": 1, "id": "b", "function": {"name": "list", "arguments": "{"}}]}),
        json!({"tool_calls": [{"index": 0, "function": {"arguments": "{\"p\":"}}]}),
        json!({"tool_calls": [{"index": 1, "function": {"arguments": "}"}}]}),
        json!({"tool_calls": [{"index": 0, "function": {"arguments": "1}"}}]}),
    ];
    let (_, answer) = read(Wire::Chat, &pieces.each_ref().map(chunk));
    assert_eq!(calls(&answer), [("a", "read", "{\"p\":1}"), ("b", "list", "{}")]);
    // Whole, without an index; without an id; without arguments.
    let whole = [
        json!({"tool_calls": [{"id": "x", "function": {"name": "one", "arguments": "{}"}}]}),
        json!({"tool_calls": [{"id": "y", "function": {"name": "two"}}]}),
        json!({"tool_calls": [{"index": 5, "function": {"name": "three", "arguments": null}}]}),
    ];
    let (_, answer) = read(Wire::Chat, &whole.each_ref().map(chunk));
    let expected = [("x", "one", "{}"), ("y", "two", "{}"), ("call_5", "three", "{}")];
    assert_eq!(calls(&answer), expected);
}

#[test]
fn what_is_null_is_absent_and_arguments_may_be_json_themselves() {
    let call =
        json!({"index": 0, "id": "a", "function": {"name": "list", "arguments": {"path": "."}}});
    let events = [
        json!({"choices": [{"index": null, "delta": {"content": "Hello"}}]}),
        json!({"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]}),
        json!({"choices": [{"index": 0, "delta": null, "finish_reason": "stop"}]}),
        json!({"choices": null, "usage": {"prompt_tokens": 3, "completion_tokens": 2}}),
        json!("[DONE]"),
    ];
    let (heard, answer) = read(Wire::Chat, &events);
    assert_eq!(heard, [ResponseDelta::Text("Hello".to_owned()), ResponseDelta::Over]);
    assert_eq!(calls(&answer), [("a", "list", "{\"path\":\".\"}")]);
    assert_eq!(answer.usage.map(|usage| (usage.input, usage.output)), Some((3, 2)));

    let arguments = json!({"path": "."});
    let item =
        json!({"type": "function_call", "call_id": "a", "name": "list", "arguments": arguments});
    let events = [
        json!({"type": "response.something_new.delta", "delta": {"not": "text"}}),
        json!({"type": "response.output_item.done", "item": item}),
        json!({"type": "response.completed", "response": null}),
    ];
    let (heard, answer) = read(Wire::Responses, &events);
    assert_eq!(heard, [ResponseDelta::Over]);
    assert_eq!(calls(&answer), [("a", "list", "{\"path\":\".\"}")]);
}

#[test]
fn json_of_another_form_is_distinguished_from_what_is_no_json() {
    for (wire, event, is_shape) in [
        (Wire::Chat, json!({"choices": 1}), true),
        (Wire::Responses, json!({"type": "response.output_text.delta", "delta": 1}), true),
        (Wire::Chat, json!("{\"choices\":"), false),
        (Wire::Responses, json!("nonsense"), false),
    ] {
        let (heard, _) = read(wire, std::slice::from_ref(&event));
        let [ResponseDelta::Failed(error)] = &heard[..] else { panic!("{heard:?}") };
        assert_eq!(matches!(error, CallError::Shape(_)), is_shape, "{error}");
        assert_eq!(error.is_passing(), !is_shape, "{error}");
    }
}

#[test]
fn the_number_of_a_call_is_bounded() {
    let far = json!({"tool_calls": [{"index": u64::MAX, "id": "a"}, {"id": "b"}]});
    let (heard, _) = read(Wire::Chat, &[chunk(&far)]);
    assert!(matches!(&heard[..], [ResponseDelta::Failed(CallError::OverLimit(_))]), "{heard:?}");
}

fn call_item(number: usize) -> Value {
    json!({"type": "response.output_item.done", "item": {
        "type": "function_call", "call_id": format!("call_{number}"), "name": "list", "arguments": "{}"}})
}

fn failure(heard: &[ResponseDelta]) -> &CallError {
    match heard.iter().find(|heard| matches!(heard, ResponseDelta::Failed(_))) {
        Some(ResponseDelta::Failed(error)) => error,
        _ => panic!("{heard:?}"),
    }
}

#[test]
fn calls_are_bounded_on_either_wire() {
    let whole = |number: usize| {
        let function = json!({"name": "list", "arguments": "{}"});
        chunk(&json!({"tool_calls": [{"id": format!("call_{number}"), "function": function}]}))
    };
    let readers: [(Wire, &dyn Fn(usize) -> Value); 2] =
        [(Wire::Chat, &whole), (Wire::Responses, &call_item)];
    for (wire, call) in readers {
        let (heard, answer) = read(wire, &(0..256).map(call).collect::<Vec<_>>());
        assert_eq!((heard.len(), calls(&answer).len()), (0, 256), "{wire:?}");
        let (heard, answer) = read(wire, &(0..300).map(call).collect::<Vec<_>>());
        let error = failure(&heard).to_string();
        assert!(error.contains("exceeds a limit: "), "{error}");
        assert!(error.contains("more than 256 tool calls"), "{error}");
        assert_eq!(calls(&answer).len(), 256, "{wire:?}");
    }
    // Also if they arrive only at the end.
    let output: Vec<Value> = (0..300).map(|number| call_item(number)["item"].take()).collect();
    let (heard, _) = read(
        Wire::Responses,
        &[json!({"type": "response.completed", "response": {"output": output}})],
    );
    assert!(matches!(failure(&heard), CallError::OverLimit(_)));
}

#[test]
fn all_texts_of_an_answer_share_one_limit() {
    let part = json!({"type": "output_text", "text": "x".repeat(400)});
    let message = json!({"type": "message", "role": "assistant", "content": [part]});
    let said = json!({"type": "response.output_item.done", "item": message});
    let delta = json!({"type": "response.output_text.delta", "delta": "x".repeat(400)});
    let summary = json!([{"type": "summary_text", "text": "y".repeat(400)}]);
    let reasoning = json!({"type": "reasoning", "id": "r", "summary": summary});
    let thought = json!({"type": "response.output_item.done", "item": reasoning});
    let thinks = json!({"type": "response.reasoning_text.delta", "delta": "y".repeat(400)});
    let round = [delta, said, thinks, thought];
    let events: Vec<Value> = (0..100).flat_map(|_| round.clone()).collect();
    let (heard, answer) = read(Wire::Responses, &events);
    let kept: u64 = answer.items.iter().map(ResponseItem::text_bytes).sum();
    assert_eq!((kept, answer.cut_bytes), (2_000, 2 * 39_000));
    let shown = |is_text: bool| -> usize {
        let shown = heard.iter().map(|heard| match heard {
            ResponseDelta::Text(text) if is_text => text.len(),
            ResponseDelta::Thought(text) if !is_text => text.len(),
            _ => 0,
        });
        shown.sum()
    };
    assert_eq!((shown(true), shown(false)), (1_000, 1_000));

    let chunks = vec![chunk(&json!({"content": "é".repeat(300)})); 10];
    let (heard, answer) = read(Wire::Chat, &chunks);
    let shown: usize = heard
        .iter()
        .map(|heard| if let ResponseDelta::Text(text) = heard { text.len() } else { 0 })
        .sum();
    assert_eq!((shown, answer.items[0].text_bytes(), answer.cut_bytes), (1_000, 1_000, 5_000));
}

#[test]
fn arguments_share_one_limit_and_are_never_cut() {
    let long = json!({"text": "x".repeat(600)});
    let pieces = [0, 1].map(|index| {
        let function = json!({"name": "search", "arguments": long.to_string()});
        chunk(&json!({"tool_calls": [{"index": index, "id": "a", "function": function}]}))
    });
    let (heard, _) = read(Wire::Chat, &pieces);
    assert_eq!(*failure(&heard), CallError::Flood(1000));
    let items = [0, 1].map(|number| {
        let mut event = call_item(number);
        event["item"]["arguments"] = long.to_string().into();
        event
    });
    let (heard, _) = read(Wire::Responses, &items);
    assert_eq!(*failure(&heard), CallError::Flood(1000));
    let reasoning = json!({"type": "reasoning", "id": "r", "summary": [], "encrypted_content": "x".repeat(1001)});
    let (heard, _) =
        read(Wire::Responses, &[json!({"type": "response.output_item.done", "item": reasoning})]);
    assert_eq!(*failure(&heard), CallError::Flood(1000));
}

#[test]
fn ids_and_names_are_bounded() {
    let long = "n".repeat(257);
    let name = json!({"name": &long});
    let pieces = vec![
        chunk(&json!({"tool_calls": [{"index": 0, "function": {"name": "n".repeat(100)}}]})),
        chunk(&json!({"tool_calls": [{"index": 0, "function": name}]})),
    ];
    let id = chunk(&json!({"tool_calls": [{"index": 0, "id": &long}]}));
    let item = |field: &str| {
        let mut event = call_item(0);
        event["item"][field] = long.clone().into();
        event
    };
    for (wire, events) in [
        (Wire::Chat, pieces),
        (Wire::Chat, vec![id]),
        (Wire::Responses, vec![item("id")]),
        (Wire::Responses, vec![item("call_id")]),
        (Wire::Responses, vec![item("name")]),
    ] {
        let (heard, _) = read(wire, &events);
        assert!(failure(&heard).to_string().contains("the limit is 256"), "{heard:?}");
    }
    let model = json!({"type": "response.created", "response": {"model": &long}});
    for (wire, event) in [(Wire::Chat, json!({"model": &long})), (Wire::Responses, model)] {
        let (_, answer) = read(wire, &[event]);
        assert_eq!(answer.model.map(|model| model.len()), Some(256));
    }
}

#[test]
fn thoughts_have_several_names_on_the_chat_wire() {
    let pieces = [
        json!({"reasoning_content": "a"}),
        json!({"reasoning": "b"}),
        json!({"reasoning": {"text": "c"}, "content": null}),
        json!({"content": "said", "tool_calls": null}),
    ];
    let (heard, answer) = read(Wire::Chat, &pieces.each_ref().map(chunk));
    let thought = |text: &str| ResponseDelta::Thought(text.to_owned());
    let said = ResponseDelta::Text("said".to_owned());
    assert_eq!(heard, [thought("a"), thought("b"), thought("c"), said]);
    assert_eq!(answer.items.len(), 2);
}

#[test]
fn an_error_in_the_middle_of_a_stream_is_reported_on_either_wire() {
    let error = json!({"message": "too long for the context window", "code": 400});
    let chat = [chunk(&json!({"content": "x"})), json!({"error": error})];
    let responses = [json!({"type": "error", "message": "boom", "code": "server_error"})];
    let failed =
        json!({"type": "response.failed", "response": {"error": {"code": "rate_limit_exceeded"}}});
    for (wire, events, reason) in [
        (Wire::Chat, &chat[..], convoke_protocol::verdict::FailureReason::ContextFull),
        (Wire::Responses, &responses[..], convoke_protocol::verdict::FailureReason::Server),
        (Wire::Responses, &[failed][..], convoke_protocol::verdict::FailureReason::RateLimit),
    ] {
        let (heard, _) = read(wire, events);
        match heard.last() {
            Some(ResponseDelta::Failed(error)) => assert_eq!(error.reason(), reason),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn an_item_that_is_unusable_leaves_the_text_that_streamed_in() {
    let events = [
        json!({"type": "response.output_text.delta", "delta": "Hello"}),
        json!({"type": "response.output_item.done", "item": {"type": "message"}}),
        json!({"type": "response.output_item.done", "item": {"type": "a_new_kind"}}),
        json!({"type": "response.completed", "response": {}}),
    ];
    let (heard, answer) = read(Wire::Responses, &events);
    assert_eq!(heard.last(), Some(&ResponseDelta::Over));
    let text = ContentItem::OutputText("Hello".to_owned());
    assert_eq!(answer.items, [ResponseItem::message("assistant", vec![text])]);
}

#[test]
fn a_refusal_is_text_and_stops_the_model() {
    let part = json!({"type": "refusal", "refusal": "I will not."});
    let item = json!({"type": "message", "role": "assistant", "content": [part]});
    let events = [
        json!({"type": "response.output_item.done", "item": item}),
        json!({"type": "response.completed", "response": {}}),
    ];
    let (_, answer) = read(Wire::Responses, &events);
    assert_eq!(answer.items.len(), 1);
    assert_eq!(answer.items[0].text_bytes(), 11);
    assert_eq!(answer.stopped, Some(FinishReason::Refused));
    let said = json!({"choices": [{"delta": {"refusal": "I will not."}, "finish_reason": "stop"}]});
    let (_, answer) = read(Wire::Chat, &[said, json!("[DONE]")]);
    assert_eq!(answer.items[0].text_bytes(), 11);
    assert_eq!(answer.stopped, Some(FinishReason::Refused));
}

#[test]
fn items_that_come_only_at_the_end_count() {
    let content = json!([{"type": "output_text", "text": "All at once."}]);
    let output = json!([{"type": "message", "role": "assistant", "content": content}]);
    let events = [json!({"type": "response.completed", "response": {"output": output}})];
    let (_, answer) = read(Wire::Responses, &events);
    assert_eq!(answer.items[0].text_bytes(), 12);
}

proptest! {
    #[test]
    fn no_stream_of_bytes_makes_a_reader_panic(pieces: Vec<Vec<u8>>, chat: bool) {
        let wire = if chat { Wire::Chat } else { Wire::Responses };
        let mut sse = SseReader::new(64);
        let mut reader = ResponseReader::new(wire, 16);
        let mut events = VecDeque::new();
        for piece in &pieces {
            sse.push(b"\ndata: ", &mut events);
            sse.push(piece, &mut events);
        }
        events.extend(sse.finish());
        let mut heard = Vec::new();
        for event in events {
            reader.event(event, &mut heard);
        }
        reader.into_response();
    }

    #[test]
    fn no_json_makes_a_reader_panic(text in "[a-z\"{}:\\[\\],0-9 ]{0,80}", chat: bool) {
        let wire = if chat { Wire::Chat } else { Wire::Responses };
        read(wire, &[json!(text), json!({"type": text, "choices": text})]);
    }
}
