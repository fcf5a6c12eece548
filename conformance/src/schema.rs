//! Validates ledgers against their schema. For the tests of every crate that makes a ledger.

use serde_json::Value;

/// Validates a ledger against `docs/ledger.schema.json`; the error says what does not fit.
///
/// # Panics
///
/// Panics if the schema is not JSON.
pub fn check_ledger(ledger: &Value) -> Result<(), String> {
    let schema = include_str!("../../docs/ledger.schema.json");
    let schema: Value = serde_json::from_str(schema).expect("the schema is JSON");
    validate(&schema, &schema, ledger)
}

/// Implements the part of JSON Schema that our schema uses. An unknown keyword is an error.
fn validate(root: &Value, schema: &Value, value: &Value) -> Result<(), String> {
    const KNOWN: [&str; 18] = [
        "if",
        "then",
        "$schema",
        "$defs",
        "$ref",
        "title",
        "description",
        "type",
        "required",
        "properties",
        "additionalProperties",
        "const",
        "enum",
        "items",
        "minItems",
        "maxItems",
        "minimum",
        "oneOf",
    ];
    let refuse = |why: &str| Err(format!("{value} {why} {schema}"));
    let keywords = schema.as_object().expect("a schema").keys();
    for keyword in keywords {
        assert!(KNOWN.contains(&keyword.as_str()), "the schema uses the keyword {keyword}");
    }
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
    if let Some(condition) = schema.get("if")
        && validate(root, condition, value).is_ok()
    {
        validate(root, &schema["then"], value)?;
    }
    if let Some(object) = value.as_object() {
        for name in schema["required"].as_array().into_iter().flatten() {
            if !object.contains_key(name.as_str().expect("a name")) {
                return refuse(&format!("lacks {name} of"));
            }
        }
        let is_closed = schema["additionalProperties"] == false;
        assert!(is_closed || schema["type"] != "object", "the schema leaves a hole");
        let properties = schema["properties"].as_object();
        for (name, value) in object {
            match properties.and_then(|properties| properties.get(name)) {
                Some(schema) => validate(root, schema, value)?,
                None if is_closed => return refuse(&format!("has `{name}`, unknown to")),
                None => {}
            }
        }
    }
    let below = |limit: &str, of: u64| schema[limit].as_u64().is_some_and(|least| of < least);
    let above = |limit: &str, of: u64| schema[limit].as_u64().is_some_and(|most| of > most);
    if value.as_u64().is_some_and(|number| below("minimum", number)) {
        return refuse("is too small for");
    }
    if let Some(length) = value.as_array().map(|list| list.len() as u64)
        && (below("minItems", length) || above("maxItems", length))
    {
        return refuse("has not the length of");
    }
    if let (Some(items), Some(list)) = (schema.get("items"), value.as_array()) {
        list.iter().try_for_each(|item| validate(root, items, item))?;
    }
    Ok(())
}
