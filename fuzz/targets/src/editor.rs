use convoke_agent::stream::acp::Message;
use convoke_agent::stream::lines::{Line, LineSplitter};
use serde_json::Value;

const LINE_LIMIT: usize = 4000;

/// Reads any input of an editor: a message is JSON that has what it is parsed as, and pieces of the input give the same
/// messages as the whole.
pub fn editor(input: &[u8]) -> bool {
    let whole = messages(input, input.len().max(1));
    for size in [1, 7, 61] {
        assert_eq!(messages(input, size), whole, "pieces of {size} bytes");
    }
    whole.iter().any(|message| message.starts_with("request"))
}

fn messages(input: &[u8], size: usize) -> Vec<String> {
    let mut found = Vec::new();
    let mut line = |line: Line<'_>| {
        assert!(line.bytes.len() <= LINE_LIMIT, "{} bytes of a line", line.bytes.len());
        let text = String::from_utf8_lossy(line.bytes);
        let json = serde_json::from_str::<Value>(&text).unwrap_or_default();
        found.push(match Message::parse(&text) {
            Some(Message::Request { id, method, .. }) => {
                assert_eq!((&json["id"], json["method"].as_str()), (&id, Some(&*method)));
                format!("request {id} {method}")
            }
            Some(Message::Notification { method, .. }) => {
                assert!(json["id"].is_null() && json["method"] == *method);
                format!("notification {method}")
            }
            Some(Message::Response { id, outcome }) => {
                assert!(json["id"] == id && json["method"].is_null());
                format!("response {id} {}", outcome.is_ok())
            }
            None => format!("noise, {} left out", line.left_out),
        });
    };
    let mut lines = LineSplitter::json(LINE_LIMIT);
    for piece in input.chunks(size) {
        lines.push(piece, &mut line);
    }
    lines.finish(&mut line);
    found
}
