//! The pages under `docs/` that are made from the code say what the code says.

#![expect(clippy::expect_used, clippy::panic, reason = "this is a test")]

use std::path::Path;

use convoke_core::{AssemblerInput, Assemblers};
use serde_json::{Value, json};

fn docs(file: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(file)
}

/// Every state and kind of source that a ledger can have is valid, and what is not a ledger is not.
#[test]
fn ledgers_are_as_their_schema_says() {
    let schema: Value =
        serde_json::from_str(&std::fs::read_to_string(docs("ledger.schema.json")).unwrap())
            .unwrap();
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
            validate(&schema, &schema, &ledger).unwrap_or_else(|why| panic!("{why}\n{ledger:#}"));
        }
    }
    let wrong = [
        json!({"version": 2, "maxBytes": 1, "usedBytes": 0, "entries": []}),
        json!({"version": 1, "maxBytes": 1, "entries": []}),
        json!({"version": 1, "maxBytes": "1", "usedBytes": 0, "entries": []}),
        json!({"version": 1, "maxBytes": 1, "usedBytes": 0, "entries": [{"target": "prompt"}]}),
        json!({"version": 1, "maxBytes": 1, "usedBytes": 0, "entries": [], "more": 1}),
    ];
    for ledger in wrong {
        assert!(validate(&schema, &schema, &ledger).is_err(), "{ledger}");
    }
}

/// The part of JSON Schema that our schema uses.
fn validate(root: &Value, schema: &Value, value: &Value) -> Result<(), String> {
    let refuse = |why: &str| Err(format!("{value} {why} {schema}"));
    if let Some(reference) = schema["$ref"].as_str() {
        let target = root.pointer(reference.trim_start_matches('#')).expect("a definition");
        return validate(root, target, value);
    }
    if let Some(constant) = schema.get("const")
        && constant != value
    {
        return refuse("is not the constant of");
    }
    if let Some(allowed) = schema["enum"].as_array()
        && !allowed.contains(value)
    {
        return refuse("is none of");
    }
    if let Some(options) = schema["oneOf"].as_array() {
        let fitting = options.iter().filter(|option| validate(root, option, value).is_ok()).count();
        return if fitting == 1 { Ok(()) } else { refuse("does not fit exactly one of") };
    }
    let types: Vec<&str> = match &schema["type"] {
        Value::String(name) => vec![name],
        Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    let is = |name: &&str| match *name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => value.is_u64(),
        "null" => value.is_null(),
        other => panic!("the schema uses the type {other}"),
    };
    if !types.is_empty() && !types.iter().any(is) {
        return refuse("has not the type of");
    }
    if let (Some(properties), Some(object)) = (schema["properties"].as_object(), value.as_object())
    {
        for name in schema["required"].as_array().into_iter().flatten() {
            if !object.contains_key(name.as_str().expect("a name")) {
                return refuse(&format!("lacks {name} of"));
            }
        }
        for (name, value) in object {
            match properties.get(name) {
                Some(schema) => validate(root, schema, value)?,
                None => return refuse(&format!("has `{name}`, unknown to")),
            }
        }
    }
    if let (Some(items), Some(list)) = (schema.get("items"), value.as_array()) {
        list.iter().try_for_each(|item| validate(root, items, item))?;
    }
    Ok(())
}
