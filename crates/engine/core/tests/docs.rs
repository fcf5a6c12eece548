//! The generated pages under `docs/` match the code.

#![expect(clippy::unwrap_used, reason = "this is a test")]

use std::borrow::Cow;

use convoke_conformance::check_ledger;
use convoke_core::ledger::{Ledger, Source};
use convoke_core::{AssemblerInput, Assemblers};
use serde_json::{Value, json};

/// Returns every kind of source, with all of its fields and with as few as it can have.
fn sources() -> Vec<Source<'static>> {
    let (id, index) = (Some(Cow::Borrowed("id")), Some(7));
    let all = vec![
        Source::Message { id: None, index: None },
        Source::Message { id: id.clone(), index },
        Source::file("AGENTS.md"),
        Source::File { path: "AGENTS.md".into(), lines: Some((1, 2)) },
        Source::setting("teamTask"),
        Source::convoke("header"),
        Source::Program { what: "shell".into() },
        Source::Tool { call: None, index: None },
        Source::Tool { call: id.clone(), index },
        Source::History { index: None },
        Source::History { index },
        Source::Model { id: None, index: None },
        Source::Model { id, index },
    ];
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/ledger.schema.json");
    let schema: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let defined = schema["$defs"]["source"]["oneOf"].as_array().unwrap();
    for definition in defined {
        let kind = &definition["properties"]["kind"]["const"];
        assert!(all.iter().any(|it| json!(it)["kind"] == *kind), "no source is of kind {kind}");
    }
    all
}

/// Every state and kind of source of a ledger is valid, and anything else is not.
#[test]
fn ledgers_are_as_their_schema_says() {
    let input = AssemblerInput::from_json(json!({
        "contextMessages": [{"from": "a", "content": "x".repeat(300)}, {"from": "b", "content": "y", "messageId": "m"}],
        "currentMessage": "z".repeat(300),
        "teamTask": "task",
        "systemInstruction": "system",
        "instructionFileText": "file\n".repeat(100),
        "instructionFilePath": "AGENTS.md",
    }))
    .unwrap();
    for max_bytes in [150, 200, 250, 400, 700, 1000, 1500, 5000] {
        let input = AssemblerInput { max_bytes, ..input.clone() };
        for agent in ["claude", "gemini", "plain"] {
            let Ok(output) = Assemblers::default().assemble(agent, &input) else { continue };
            let ledger = json!(output.ledger);
            check_ledger(&ledger).unwrap_or_else(|why| panic!("{why}\n{ledger:#}"));
        }
    }
    let entry = json!({
        "target": "prompt", "section": "s", "source": {"kind": "history"}, "state": "kept",
        "range": [0, 1], "keptBytes": 1, "cutBytes": 0, "tokensEstimate": 1, "rule": "fits",
    });
    let ledger = json!({"version": 2, "maxBytes": 1, "usedBytes": 1, "entries": [entry]});
    assert_eq!(check_ledger(&ledger), Ok(()));
    let mut old = ledger.clone();
    old["version"] = json!(1);
    old["entries"][0].as_object_mut().unwrap().remove("range");
    let read: Ledger<'_> = serde_json::from_value(old.clone()).unwrap();
    assert_eq!((check_ledger(&old), json!(read)), (Ok(()), old));
    for source in sources() {
        let mut ledger = ledger.clone();
        ledger["entries"][0]["source"] = json!(source);
        assert_eq!(check_ledger(&ledger), Ok(()), "{source:?}");
        let read: Source<'_> = serde_json::from_value(json!(source)).unwrap();
        assert_eq!(read, source);
    }
    let with = |pointer: &str, value: Value| {
        let mut ledger = ledger.clone();
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        let parent = ledger.pointer_mut(parent).unwrap().as_object_mut().unwrap();
        match value {
            Value::Null => parent.remove(key),
            value => parent.insert(key.to_owned(), value),
        };
        ledger
    };
    let wrong = [
        with("/version", json!(3)),
        with("/usedBytes", Value::Null),
        with("/maxBytes", json!("1")),
        with("/more", json!(1)),
        with("/unchangedBytes", json!("1")),
        with("/entries/0/range", Value::Null),
        with("/entries/0/range", json!([0, 1, 2])),
        with("/entries/0/more", json!(1)),
        with("/entries/0/source/kind", json!("rumour")),
        with("/entries/0/source/path", json!("/f")),
    ];
    for ledger in wrong {
        assert!(check_ledger(&ledger).is_err(), "{ledger}");
    }
}
