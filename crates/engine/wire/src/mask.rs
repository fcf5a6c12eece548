//! Masks: the fields of a request that identify an account, a machine or a session, and that are replaced
//! before a request is stored.

use std::ops::Range;

use convoke_protocol::wire::Wire;

use crate::parts::Node;

/// The value of a masked field.
pub const MASKED: &str = "[masked]";

/// Returns a body with its identifying fields masked, and their places. All other bytes stay as they are.
pub fn masked(wire: Wire, body: &[u8]) -> Result<(Vec<u8>, Vec<String>), serde_json::Error> {
    let root = Node::root(body)?;
    let mut found: Vec<(String, Range<usize>, bool)> = Vec::new();
    let mut add = |place: &str, node: Node<'_>| {
        let is_masked = node.text().is_some_and(|text| text == MASKED);
        if !node.is_null() && !is_masked {
            found.push((place.to_owned(), node.range(), node.is_text()));
        }
    };
    match wire {
        Wire::Messages => {
            add("metadata.user_id", root.field("metadata").field("user_id"));
            let first = root.field("system").items().next().map(|(_, block)| block.field("text"));
            let is_billing = |text: &str| text.starts_with("x-anthropic-billing-header");
            if let Some(first) = first.filter(|it| it.text().is_some_and(|it| is_billing(&it))) {
                add("system[0].text", first);
            }
        }
        Wire::Responses | Wire::Chat => {
            for field in ["client_metadata", "prompt_cache_key", "user", "safety_identifier"] {
                add(field, root.field(field));
            }
        }
        Wire::Gemini => {
            for field in ["project", "user_prompt_id"] {
                add(field, root.field(field));
            }
            add("request.session_id", root.field("request").field("session_id"));
        }
    }
    found.sort_by_key(|(_, range, _)| range.start);
    let mut stored = Vec::with_capacity(body.len());
    let mut at = 0;
    for (_, range, is_text) in &found {
        stored.extend_from_slice(&body[at..range.start]);
        let value = if *is_text { MASKED.to_owned() } else { format!("\"{MASKED}\"") };
        stored.extend_from_slice(value.as_bytes());
        at = range.end;
    }
    stored.extend_from_slice(&body[at..]);
    Ok((stored, found.into_iter().map(|(place, ..)| place).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(wire: Wire, body: &str) -> (String, Vec<String>) {
        let (stored, places) = masked(wire, body.as_bytes()).unwrap();
        (String::from_utf8(stored).unwrap(), places)
    }

    #[test]
    fn identifying_fields_are_replaced_and_nothing_else_changes() {
        for (wire, body, expected, places) in [
            (
                Wire::Messages,
                r#"{ "metadata": {"user_id": "{\"device_id\":\"d\"}"}, "system": [{"type":"text","text":"x-anthropic-billing-header: cch=1;"},{"text":"Be brief."}], "messages": [] }"#,
                r#"{ "metadata": {"user_id": "[masked]"}, "system": [{"type":"text","text":"[masked]"},{"text":"Be brief."}], "messages": [] }"#,
                vec!["metadata.user_id", "system[0].text"],
            ),
            (
                Wire::Responses,
                r#"{"prompt_cache_key":"t","input":"prompt_cache_key","client_metadata":{"a":1}}"#,
                r#"{"prompt_cache_key":"[masked]","input":"prompt_cache_key","client_metadata":"[masked]"}"#,
                vec!["client_metadata", "prompt_cache_key"],
            ),
            (
                Wire::Gemini,
                r#"{"project":"p","user_prompt_id":"u","request":{"session_id":"s","contents":[]}}"#,
                r#"{"project":"[masked]","user_prompt_id":"[masked]","request":{"session_id":"[masked]","contents":[]}}"#,
                vec!["project", "request.session_id", "user_prompt_id"],
            ),
            (Wire::Chat, r#"{"messages": []}"#, r#"{"messages": []}"#, vec![]),
        ] {
            let (stored, mut found) = shown(wire, body);
            found.sort();
            assert_eq!(
                (&*stored, found),
                (expected, places.into_iter().map(str::to_owned).collect())
            );
        }
        assert!(masked(Wire::Chat, b"{").is_err());
    }
}
