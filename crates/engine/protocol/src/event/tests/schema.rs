//! The JSON schema of an event in the documentation, which follows from the samples of every kind.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::GOLDEN;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/event.schema.json");
/// The fields whose values tell which other fields there are; the last one of `stopped` only.
const KINDS: [&str; 3] = ["/type", "/event/event/kind", "/reason"];

#[test]
fn the_schema_in_the_documentation_is_that_of_the_events() {
    let samples: Vec<Value> =
        GOLDEN.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let schema = serde_json::to_string_pretty(&schema(&samples)).unwrap() + "\n";
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(PAGE, &schema).unwrap();
    }
    assert_eq!(
        std::fs::read_to_string(PAGE).unwrap_or_default(),
        schema,
        "UPDATE_DOCS=1 updates the schema"
    );
}

fn schema(samples: &[Value]) -> Value {
    let mut kinds: BTreeMap<[Option<&str>; 3], Vec<&Value>> = BTreeMap::new();
    for sample in samples {
        kinds.entry(names(sample)).or_default().push(sample);
    }
    let kinds = kinds.into_iter().map(|(names, samples)| {
        let mut kind = schema_of(&samples);
        for (place, name) in KINDS.iter().zip(names) {
            let place = place.replace('/', "/properties/");
            if let (Some(name), Some(at)) = (name, kind.pointer_mut(&place)) {
                *at = json!({ "const": name });
            }
        }
        kind
    });
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Convoke event",
        "description": "A line of `convoke run --json`, of an exported log, and of the page's stream. Fields are only added. \
            An event without a number is not in the log.",
        "oneOf": kinds.collect::<Vec<_>>(),
    })
}

fn names(sample: &Value) -> [Option<&str>; 3] {
    let mut names = KINDS.map(|place| sample.pointer(place)?.as_str());
    names[2] = names[2].filter(|_| sample["type"] == "stopped");
    names
}

/// Returns the schema of values of one kind. A field is required if all have it.
fn schema_of(values: &[&Value]) -> Value {
    let types: BTreeSet<&str> = values.iter().map(|value| type_of(value)).collect();
    let types: Vec<&str> = types.into_iter().collect();
    let mut schema = Map::new();
    match types.as_slice() {
        // The samples have no value of it.
        [] | ["null"] => return Value::Bool(true),
        [one] => schema.insert("type".to_owned(), json!(one)),
        several => schema.insert("type".to_owned(), json!(several)),
    };
    let objects: Vec<&Map<String, Value>> =
        values.iter().filter_map(|value| value.as_object()).collect();
    if !objects.is_empty() {
        let mut fields: Vec<&String> = Vec::new();
        for field in objects.iter().flat_map(|object| object.keys()) {
            if !fields.contains(&field) {
                fields.push(field);
            }
        }
        let is_in_all = |field: &&String| objects.iter().all(|object| object.contains_key(*field));
        let required: Vec<&String> = fields.iter().copied().filter(is_in_all).collect();
        let of = |field: &String| {
            schema_of(&objects.iter().filter_map(|object| object.get(field)).collect::<Vec<_>>())
        };
        let properties: Map<String, Value> =
            fields.iter().map(|field| ((*field).clone(), of(field))).collect();
        schema.insert("required".to_owned(), json!(required));
        schema.insert("properties".to_owned(), properties.into());
    }
    let items: Vec<&Value> = values.iter().filter_map(|value| value.as_array()).flatten().collect();
    if !items.is_empty() {
        schema.insert("items".to_owned(), schema_of(&items));
    }
    schema.into()
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}
