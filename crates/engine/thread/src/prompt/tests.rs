use convoke_conformance::ledger::Body;
use convoke_core::ledger::{ENVELOPE, Entry, Rule, Source, Target};
use serde_json::{Value, json};

use super::Request;
use crate::config::Wire;
use crate::fixture::{World, body, say, say_with};
use crate::history::Origin;
use crate::item::ResponseItem;
use crate::record::{self, Event, Record};
use crate::thread::{LastSituation, Step, Thread, TurnOutcome, TurnOverrides};

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
        // On Chat, the model decides, not the tools.
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
    assert!(matches!(step, Step::Done(TurnOutcome::Failed(reason)) if reason.contains("Chat")));
}

#[test]
fn azure_stores_responses_and_gets_the_ids() {
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

/// Returns the entries of a request without the envelope, each with its decoded text.
fn decoded(request: &Request) -> Vec<(Entry<'static>, String)> {
    assert!(request.ledger.covers(Target::Prompt, request.body.len() as u64));
    let shown = request.ledger.entries().filter(|entry| entry.section != ENVELOPE);
    let texts = shown.map(|entry| {
        let place = |at: u64| usize::try_from(at).unwrap();
        let raw = &request.body[place(entry.range.start)..place(entry.range.end)];
        let text = serde_json::from_str(&format!("\"{raw}\"")).unwrap_or_else(|_| raw.to_owned());
        (entry, text)
    });
    texts.collect()
}

fn sent(step: &Step) -> &Request {
    match step {
        Step::Send(request) => request,
        other => panic!("no request: {other:?}"),
    }
}

/// Runs a first turn with two documents, a skill and a long output. Returns its record as lines.
fn first_turn(world: &mut World) -> String {
    world.tree.write("/r/AGENTS.md", "Use \"tabs\".\n");
    world.tree.write("/r/sub/AGENTS.md", "Test\twell.\n");
    world.tree.write("/home/.codex/skills/s/SKILL.md", "---\nname: s\ndescription: d\n---\nbody");
    world.machine.cwd = "/r/sub".into();
    let mut thread = world.start();
    let mut lines = record::write_start(&thread.record_start()) + "\n";
    say(&mut thread, "go with $s");
    let [call, _] = shell("c", "");
    crate::fixture::answer(&mut thread, &[call], 1);
    let output = ResponseItem::function_output("c", "line of output\n".repeat(200));
    thread.tool_results(vec![output]).unwrap();
    crate::fixture::reply(&mut thread, "Done.", 1);
    for event in thread.take_events() {
        lines += &(record::write_event(&event) + "\n");
    }
    lines
}

#[test]
fn a_thread_keeps_the_source_of_every_byte_from_turn_to_turn() {
    let mut world = World::new("");
    let lines = first_turn(&mut world);
    let record = record::read(&lines, &mut Vec::new()).unwrap();
    let situation = LastSituation::default();
    let mut thread = Thread::continued(world.setup(), world.config(), &record, &situation).unwrap();
    let step = say(&mut thread, "and now?");
    let entries = decoded(sent(&step));
    let of_thread = entries.iter().filter(|(entry, _)| entry.rule == Rule::FromThread);
    let of_thread: Vec<_> =
        of_thread.map(|(entry, text)| (&*entry.section, kind(&entry.source), &**text)).collect();
    let skill = "---\nname: s\ndescription: d\n---\nbody";
    for expected in [
        ("user-instructions", "/r/AGENTS.md".to_owned(), "Use \"tabs\".\n"),
        ("user-instructions", "/r/sub/AGENTS.md".to_owned(), "Test\twell.\n"),
        ("environment", "cwd".to_owned(), "/r/sub"),
        ("user", "message".to_owned(), "go with $s"),
        ("skill", "/home/.codex/skills/s/SKILL.md".to_owned(), skill),
        ("model", "model".to_owned(), "{}"),
        ("model", "model".to_owned(), "Done."),
    ] {
        assert!(of_thread.contains(&expected), "{expected:?} is not in {of_thread:#?}");
    }
    // A text that was truncated when it was recorded is truncated again, and both ends come from the tool.
    let output: Vec<_> = entries.iter().filter(|(entry, _)| entry.section == "tool").collect();
    let [(head, start), (mark, _), (tail, end)] = &output[..] else { panic!("{output:?}") };
    let whole = "line of output\n".repeat(200);
    assert!(whole.starts_with(start) && whole.ends_with(end));
    assert_eq!((kind(&head.source), kind(&tail.source)), ("c".to_owned(), "c".to_owned()));
    assert_eq!(mark.source, Source::convoke("mark"));
    assert_eq!(head.cut_bytes, (whole.len() - start.len() - end.len()) as u64);
    assert!(!entries.iter().any(|(entry, _)| matches!(entry.source, Source::History { .. })));
    // Also on the Chat wire.
    let mut config = world.config();
    config.provider.wire = Wire::Chat;
    let mut thread = Thread::continued(world.setup(), config, &record, &situation).unwrap();
    let chat = decoded(sent(&say(&mut thread, "and now?"))).len();
    assert_eq!(chat, entries.len());
}

/// For all scenarios, `tests/scenarios` checks the same.
#[test]
fn a_byte_that_moves_between_two_entries_is_noticed() {
    let mut world = World::new("");
    let lines = first_turn(&mut world);
    let record = record::read(&lines, &mut Vec::new()).unwrap();
    for wire in [Wire::Responses, Wire::Chat] {
        let mut config = world.config();
        config.provider.wire = wire;
        let mut thread = Thread::resume(world.setup(), config, &record).unwrap();
        thread.set_tools(vec![json!({"type": "function", "name": "f"})]);
        let step = say(&mut thread, "and now?");
        let request = sent(&step);
        let output = "line of output\n".repeat(200);
        let expected = |entry: &Value, text: &str| match entry["source"]["kind"].as_str() {
            Some("tool") if output.starts_with(text) || output.ends_with(text) => Ok(()),
            _ if TEXTS.contains(&text) => Ok(()),
            _ => Err(entry["source"].to_string()),
        };
        let ledger = json!(request.ledger);
        let body = Body { body: &request.body, ledger: &ledger, expected: &expected };
        let moves = body.check().unwrap();
        assert!(moves > 50, "{moves}");
    }
}

/// Every text of that request but the output of the tool.
const TEXTS: [&str; 25] = [
    "plain base",
    "<permissions instructions>",
    "\n",
    "read restricted",
    "on-request with rules\napproved: ",
    "</permissions instructions>",
    "# AGENTS.md instructions for /r/sub\n\n<INSTRUCTIONS>\n",
    "Use \"tabs\".\n",
    "\n\n",
    "Test\twell.\n",
    "## Skills\nintro\n### Available skills\n- s: d (file: /home/.codex/skills/s/SKILL.md)\n### How to use skills\nhow",
    "\n</INSTRUCTIONS>",
    "<environment_context>\n  <cwd>",
    "/r/sub",
    "</cwd>\n  <shell>",
    "bash",
    "</shell>\n</environment_context>",
    "go with $s",
    "<skill>\n<name>s</name>\n<path>/home/.codex/skills/s/SKILL.md</path>\n",
    "---\nname: s\ndescription: d\n---\nbody",
    "\n</skill>",
    "{}",
    "…22 chars truncated…",
    "Done.",
    "and now?",
];

#[test]
fn a_record_that_says_nothing_of_origins_is_history() {
    let mut world = World::new("");
    let lines = first_turn(&mut world);
    let without_origins = lines.lines().map(|line| {
        let mut line: Value = serde_json::from_str(line).unwrap();
        line.as_object_mut().unwrap().shift_remove("origin");
        if line.get("thread").is_some() {
            line["thread"]["version"] = 1.into();
        }
        line.to_string() + "\n"
    });
    let record = record::read(&without_origins.collect::<String>(), &mut Vec::new()).unwrap();
    let mut thread = Thread::resume(world.setup(), world.config(), &record).unwrap();
    let step = say(&mut thread, "and now?");
    let entries = decoded(sent(&step));
    let of_thread = entries.iter().filter(|(entry, _)| entry.rule == Rule::FromThread);
    let mut sections: Vec<_> = of_thread.map(|(entry, _)| &*entry.section).collect();
    sections.dedup();
    assert_eq!(sections, ["instructions", "history", "model"]);
}

#[test]
fn an_origin_that_does_not_cover_its_item_is_unknown() {
    let mut world = World::new("");
    let lines = first_turn(&mut world);
    let broken = lines.replace("\"range\":[0,", "\"range\":[1,");
    assert_ne!(broken, lines);
    let record = record::read(&broken, &mut Vec::new()).unwrap();
    let fragments = record.events.iter().filter(|event| {
        matches!(event, Event::Item(entry) if matches!(entry.origin, Origin::Fragments(..)))
    });
    assert_eq!(fragments.count(), 0);
}

#[test]
fn the_ledger_of_a_request_is_as_its_schema_says() {
    let mut world = World::new("");
    let lines = first_turn(&mut world);
    let record = record::read(&lines, &mut Vec::new()).unwrap();
    for wire in [Wire::Responses, Wire::Chat] {
        let mut config = world.config();
        config.provider.wire = wire;
        let mut thread = Thread::resume(world.setup(), config, &record).unwrap();
        thread.set_tools(vec![json!({"type": "function", "name": "f"})]);
        let step = say(&mut thread, "and now?");
        let mut ledger = sent(&step).ledger.clone();
        ledger.unchanged_bytes = Some(7);
        assert_eq!(convoke_conformance::check_ledger(&json!(ledger)), Ok(()));
    }
}

fn kind(source: &Source<'_>) -> String {
    match source {
        Source::File { path, .. } => path.to_string(),
        Source::Setting { name } => name.to_string(),
        Source::Tool { call, .. } => call.as_deref().unwrap_or("tool").to_owned(),
        Source::Message { .. } => "message".to_owned(),
        Source::Model { .. } => "model".to_owned(),
        other => format!("{other:?}"),
    }
}
