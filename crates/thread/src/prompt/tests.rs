use serde_json::{Value, json};

use crate::config::Wire;
use crate::fixture::{World, body, say, say_with};
use crate::item::ResponseItem;
use crate::record::{Event, Record};
use crate::thread::{Outcome, Step, Thread, TurnOverrides};

/// Returns the request of a turn after a history.
fn request(world: &World, wire: Wire, tools: Vec<Value>, history: &[Value]) -> Value {
    let items = history.iter().map(|it| ResponseItem::try_from(it.clone()).unwrap());
    let record =
        Record { events: items.map(|it| Event::Item(it.into())).collect(), ..Record::default() };
    let mut config = world.config();
    config.provider.wire = wire;
    let mut thread = Thread::fork(world.setup(), config, &record, "f").unwrap();
    thread.set_tools(tools);
    body(&say(&mut thread, "go"))
}

fn shell(id: &str, output: &str) -> [Value; 2] {
    [
        json!({"type": "function_call", "name": "shell", "arguments": "{}", "call_id": id}),
        json!({"type": "function_call_output", "call_id": id, "output": output}),
    ]
}

fn patch_tool() -> Value {
    json!({"type": "custom", "name": "apply_patch", "format": {}})
}

fn text(kind: &str, role: &str, text: &str) -> Value {
    json!({"type": "message", "role": role, "content": [{"type": kind, "text": text}]})
}

#[test]
fn outputs_of_shells_are_rewritten_for_models_that_patch_in_free_text() {
    let json = |output: &str, metadata: &str| {
        format!("{{\"output\": {output:?}, \"metadata\": {{{metadata}}}}}")
    };
    let usual = "\"exit_code\": 0, \"duration_seconds\": 0.1";
    let cases = [
        (json("hi", usual), "Exit code: 0\nWall time: 0.1 seconds\nOutput:\nhi".to_owned()),
        (
            json("hi", "\"exit_code\": -1, \"duration_seconds\": 123456789.0, \"x\": 1"),
            "Exit code: -1\nWall time: 123456790 seconds\nOutput:\nhi".to_owned(),
        ),
        (
            json("Total output lines: 12\n\nbody", usual),
            "Exit code: 0\nWall time: 0.1 seconds\nTotal output lines: 12\nOutput:\nbody"
                .to_owned(),
        ),
        (
            json("Total output lines: x\nbody", usual),
            "Exit code: 0\nWall time: 0.1 seconds\nOutput:\nTotal output lines: x\nbody".to_owned(),
        ),
        ("plain".to_owned(), "plain".to_owned()),
        (json("hi", "\"exit_code\": 0.5, \"duration_seconds\": 1"), String::new()),
    ];
    let world = World::new("");
    for (output, expected) in cases {
        let history = shell("c", &output);
        let with = request(&world, Wire::Responses, vec![patch_tool()], &history);
        let expected = if expected.is_empty() { &output } else { &expected };
        assert_eq!(with["input"][1]["output"], **expected);
        let without = request(&world, Wire::Responses, Vec::new(), &history);
        assert_eq!(without["input"][1]["output"], output);
        // On Chat the model decides, not the tools.
        let chat = request(&world, Wire::Chat, Vec::new(), &history);
        assert_eq!(chat["messages"][2]["content"], **expected);
    }
}

#[test]
fn only_the_first_output_of_a_call_is_rewritten() {
    let output = "{\"output\":\"o\",\"metadata\":{\"exit_code\":0,\"duration_seconds\":1}}";
    let [call, answer] = shell("c", output);
    let history = [call, answer.clone(), answer];
    let body = request(&World::new(""), Wire::Responses, vec![patch_tool()], &history);
    assert!(body["input"][1]["output"].as_str().unwrap().starts_with("Exit code"));
    assert_eq!(body["input"][2]["output"], output);
}

#[test]
fn the_chat_wire_maps_the_same_prompt() {
    let mut history = vec![
        text("input_text", "user", "one"),
        text("output_text", "assistant", "same"),
        text("input_text", "user", "two"),
        text("output_text", "assistant", "same"),
        json!({"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]}),
    ];
    history.extend(shell("c1", "o1"));
    history.push(json!({"type": "message", "role": "user", "content": [
        {"type": "input_text", "text": "see"}, {"type": "input_image", "image_url": "data:x"},
    ]}));
    let tool = json!({
        "type": "function", "name": "f", "description": "d", "strict": false, "parameters": {},
    });
    let world = World::new("");
    let body = request(&world, Wire::Chat, vec![tool, patch_tool()], &history);
    let keys: Vec<_> = body.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["model", "messages", "stream", "tools"]);
    let messages = body["messages"].as_array().unwrap();
    let expected = [
        json!({"role": "system", "content": "plain base"}),
        json!({"role": "user", "content": "one"}),
        json!({"role": "assistant", "content": "same"}),
        json!({"role": "user", "content": "two"}),
        json!({"role": "assistant", "content": null, "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "shell", "arguments": "{}"}},
        ]}),
        json!({"role": "tool", "tool_call_id": "c1", "content": "o1"}),
        json!({"role": "user", "content": [
            {"type": "text", "text": "see"}, {"type": "image_url", "image_url": {"url": "data:x"}},
        ]}),
    ];
    assert_eq!(messages[..7], expected);
    assert_eq!(
        body["tools"].to_string(),
        r#"[{"type":"function","name":"f","function":{"parameters":{},"name":"f","description":"d","strict":false}}]"#
    );
}

#[test]
fn thoughts_travel_on_chat_with_the_call_that_they_led_to() {
    let world = World::new("");
    let mut config = world.config();
    config.provider.wire = Wire::Chat;
    let mut thread = Thread::start(world.setup(), config, "t").unwrap();
    say(&mut thread, "go");
    let thought = json!({"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]});
    let [call, output] = shell("c", "o");
    let second = json!({"type": "function_call", "name": "g", "arguments": "{}", "call_id": "d"});
    crate::fixture::answer(&mut thread, &[thought, call, second], 1);
    let results = [output, json!({"type": "function_call_output", "call_id": "d", "output": "p"})];
    let results = results.into_iter().map(|it| ResponseItem::try_from(it).unwrap());
    let body = body(&thread.tool_results(results.collect()).unwrap());
    let calls = &body["messages"][4];
    assert_eq!(calls["tool_calls"].as_array().unwrap().len(), 2);
    assert_eq!(calls["reasoning"], "hm");
}

#[test]
fn a_schema_is_sent_with_its_turn_and_refused_on_chat() {
    let schema = TurnOverrides {
        output_schema: Some(json!({"type": "object"})),
        ..TurnOverrides::default()
    };
    let world = World::new("");
    let mut thread = world.start();
    let body = body(&say_with(&mut thread, "go", &schema));
    assert_eq!(
        body["text"].to_string(),
        r#"{"format":{"type":"json_schema","strict":true,"schema":{"type":"object"},"name":"codex_output_schema"}}"#
    );
    let mut config = world.config();
    config.provider.wire = Wire::Chat;
    let mut thread = Thread::start(world.setup(), config, "t").unwrap();
    let step = say_with(&mut thread, "go", &schema);
    assert!(matches!(step, Step::Done(Outcome::Failed(reason)) if reason.contains("Chat")));
}

#[test]
fn azure_stores_responses_and_is_told_the_ids() {
    let config = "model_provider = \"m\"\n[model_providers.m]\nname = \"m\"\nwire_api = \"responses\"\n\
                  base_url = \"https://x.openai.azure.com/v1\"\n";
    let call = json!({"type": "function_call", "id": "fc", "name": "f", "arguments": "{}", "call_id": "c"});
    let body = request(&World::new(config), Wire::Responses, Vec::new(), &[call]);
    assert_eq!(body["store"], true);
    assert_eq!(body["input"][0]["id"], "fc");
}

#[test]
fn a_ledger_names_the_file_of_every_byte() {
    let mut world = World::new("project_doc_max_bytes = 4\n");
    world.tree.write("/r/AGENTS.md", "abcdef");
    let mut thread = world.start();
    let Step::Send(request) = say(&mut thread, "go") else {
        panic!("no request");
    };
    let ledger = serde_json::to_value(&request.ledger).unwrap();
    let entries = ledger["entries"].as_array().unwrap();
    let file = entries.iter().find(|it| it["source"]["kind"] == "file").unwrap();
    let range = &file["range"];
    assert_eq!(
        file.to_string(),
        format!(
            r#"{{"target":"prompt","section":"user-instructions","source":{{"kind":"file","path":"/r/AGENTS.md"}},"state":"cut","range":{range},"keptBytes":4,"cutBytes":2,"tokensEstimate":1,"rule":"end cut: 6 bytes needed, 4 available"}}"#
        )
    );
    let place = |index: usize| usize::try_from(range[index].as_u64().unwrap()).unwrap();
    assert_eq!(&request.body[place(0)..place(1)], "abcd");
    let mut sections: Vec<_> = entries.iter().map(|it| it["section"].as_str().unwrap()).collect();
    sections.retain(|section| *section != "envelope");
    sections.dedup();
    let expected = ["instructions", "permissions", "user-instructions", "environment", "user"];
    assert_eq!(sections, expected);
}
