//! Compares a request with the captured one: every key, in order, byte for byte.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

/// The placeholder of a thread's id in a capture.
pub(crate) const THREAD_ID: &str = "{thread id}";

/// Returns the first difference between the captured request and the built one; `id` is the thread's id.
pub(crate) fn difference(captured: &Value, path: &str, body: &Value, id: &str) -> Option<String> {
    let sent_to = captured["path"].as_str().unwrap_or("");
    if sent_to != format!("/v1{path}") {
        return Some(format!("it was sent to {sent_to}, and ours would go to {path}"));
    }
    let mut captured = captured["body"].clone();
    if let Some(key) = captured.get_mut("prompt_cache_key").filter(|key| **key == THREAD_ID) {
        *key = id.into();
    }
    values("body", &captured, body)
}

/// Returns whether two parts of a request count as equal.
pub(crate) fn alike(one: &Value, other: &Value) -> bool {
    values("", one, other).is_none()
}

fn values(at: &str, captured: &Value, ours: &Value) -> Option<String> {
    match (captured, ours) {
        (Value::Object(captured), Value::Object(ours)) => {
            let keys = |map: &serde_json::Map<String, Value>| {
                map.keys().cloned().collect::<Vec<_>>().join(", ")
            };
            if keys(captured) != keys(ours) {
                let (captured, ours) = (keys(captured), keys(ours));
                return Some(format!("{at} has the keys {captured}, and ours {ours}"));
            }
            captured
                .iter()
                .find_map(|(key, value)| values(&format!("{at}.{key}"), value, &ours[key]))
        }
        (Value::Array(captured), Value::Array(ours)) => {
            let pairs = captured.iter().zip(ours).enumerate();
            let different = pairs
                .map(|(index, (captured, ours))| values(&format!("{at}[{index}]"), captured, ours))
                .find_map(|difference| difference);
            different.or_else(|| {
                let (captured, ours) = (captured.len(), ours.len());
                (captured != ours).then(|| format!("{at} has {captured} entries, and ours {ours}"))
            })
        }
        (Value::String(captured), Value::String(ours)) => strings(at, captured, ours),
        _ if captured == ours => None,
        _ => Some(format!("{at} is {}, and ours {}", short(captured), short(ours))),
    }
}

fn strings(at: &str, captured: &str, ours: &str) -> Option<String> {
    if captured == ours {
        return None;
    }
    if let (Some(captured), Some(ours)) = (Picture::read(captured), Picture::read(ours)) {
        // The bytes of an encoded image depend on the encoder.
        return (captured != ours).then(|| format!("{at} is {captured:?}, and ours {ours:?}"));
    }
    let same = captured.bytes().zip(ours.bytes()).take_while(|(a, b)| a == b);
    let byte = same.count();
    let around = |text: &str| {
        let from = text.floor_char_boundary(byte.saturating_sub(30));
        let to = text.ceil_char_boundary((byte + 60).min(text.len()));
        text.get(from..to).unwrap_or("").to_owned()
    };
    let (captured, ours) = (around(captured), around(ours));
    Some(format!("{at} differs at byte {byte}: {captured:?}, and ours {ours:?}"))
}

/// The compared part of an image.
#[derive(Debug, PartialEq)]
struct Picture {
    kind: String,
    size: (u32, u32),
}

impl Picture {
    fn read(url: &str) -> Option<Self> {
        let (kind, encoded) = url.strip_prefix("data:image/")?.split_once(";base64,")?;
        let bytes = STANDARD.decode(encoded).ok()?;
        let image = image::load_from_memory(&bytes).ok()?;
        Some(Self { kind: kind.to_owned(), size: (image.width(), image.height()) })
    }
}

fn short(value: &Value) -> String {
    let text = value.to_string();
    let end = text.floor_char_boundary(120.min(text.len()));
    text[..end].to_owned()
}
