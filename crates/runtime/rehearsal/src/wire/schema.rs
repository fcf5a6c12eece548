//! Answers to side requests. A CLI may ask a model for a small JSON object (which model suits this prompt? is this a
//! new topic?), with a schema and no tools. Scripts do not cover such requests; the answer is the smallest value that
//! the schema allows.

use serde_json::{Map, Value, json};

/// Returns the smallest value that a schema allows.
pub(crate) fn instance(schema: &Value) -> Value {
    within(schema, 16)
}

/// Returns it up to a depth, because a schema may contain itself.
fn within(schema: &Value, depth: usize) -> Value {
    if depth == 0 {
        return Value::Null;
    }
    if let Some(value) = schema.get("const") {
        return value.clone();
    }
    if let Some(value) = schema["enum"].as_array().and_then(|values| values.first()) {
        return value.clone();
    }
    if let Some(first) = ["anyOf", "oneOf", "allOf"]
        .iter()
        .find_map(|key| schema[*key].as_array().and_then(|of| of.first()))
    {
        return within(first, depth - 1);
    }
    let kind = match &schema["type"] {
        Value::Array(kinds) => kinds.first().and_then(Value::as_str),
        kind => kind.as_str(),
    };
    // Gemini writes the names of types in capitals.
    match kind.unwrap_or("object").to_ascii_lowercase().as_str() {
        "string" => json!(""),
        "integer" | "number" => schema.get("minimum").cloned().unwrap_or(json!(1)),
        "boolean" => json!(false),
        "array" => {
            let least = schema["minItems"].as_u64().unwrap_or(0).min(16);
            (0..least).map(|_| within(&schema["items"], depth - 1)).collect()
        }
        "null" => Value::Null,
        _ => object(schema, depth),
    }
}

fn object(schema: &Value, depth: usize) -> Value {
    let required = schema["required"].as_array().into_iter().flatten();
    let fields = required.filter_map(Value::as_str);
    let fields = fields.map(|name| {
        let field = within(&schema["properties"][name], depth - 1);
        (name.to_owned(), field)
    });
    Value::Object(fields.collect::<Map<_, _>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_value_has_what_is_required_and_nothing_else() {
        let schema = json!({
            "type": "OBJECT",
            "properties": {
                "choice": {"type": "string", "enum": ["flash", "pro"]},
                "reasons": {"type": "array", "items": {"type": "string"}, "minItems": 1},
                "score": {"type": ["integer", "null"], "minimum": 1},
                "note": {"type": "string"},
            },
            "required": ["choice", "reasons", "score"],
        });
        assert_eq!(instance(&schema), json!({"choice": "flash", "reasons": [""], "score": 1}));
    }

    #[test]
    fn a_schema_that_contains_itself_ends() {
        let mut schema = json!({"type": "object", "required": ["next"], "properties": {}});
        for _ in 0..40 {
            let inner = schema.clone();
            schema = json!({"type": "object", "required": ["next"], "properties": {"next": inner}});
        }
        assert!(instance(&schema).to_string().len() < 1000);
    }
}
