//! The form of JSON that the program hashes: without spaces and marks for the cache, the keys of objects in order.
//!
//! Texts and numbers are taken as they stand in the file, since the program writes them in the form that it hashes.

use std::borrow::Cow;
use std::cmp::Ordering;

use convoke_protocol::content::ContentHash;
use memchr::memchr2;
use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};

use super::record::text;

/// The depth below which a value is not hashed.
const MAX_DEPTH: usize = 128;

/// A JSON value, with its scalars as they are written.
#[derive(Debug)]
enum Node<'r> {
    Scalar(&'r str),
    List(Vec<Node<'r>>),
    Object(Vec<(&'r str, Node<'r>)>),
}

/// The hash of a message whose content is still growing.
#[derive(Debug, Clone)]
pub(super) struct MessageHash {
    hash: Sha256,
    blocks: usize,
}

impl MessageHash {
    /// Creates the hash of a message without content.
    pub fn new() -> Self {
        Self { hash: Sha256::new_with_prefix(r#"{"content":["#), blocks: 0 }
    }

    /// Adds content: blocks, or a text, which is a block of its own.
    pub fn add(&mut self, content: &RawValue) -> Option<()> {
        match parse(content.get())? {
            Node::List(blocks) => blocks.iter().for_each(|block| self.add_block(block)),
            Node::Scalar(text) if text.starts_with('"') => self.add_block(&text_block(text)),
            block => self.add_block(&block),
        }
        Some(())
    }

    fn add_block(&mut self, block: &Node<'_>) {
        if self.blocks > 0 {
            self.hash.update(",");
        }
        self.blocks += 1;
        write(block, &mut self.hash);
    }

    /// Returns the hash of the message as it is now.
    pub fn of_role(&self, role: &RawValue) -> ContentHash {
        let mut hash = self.hash.clone();
        hash.update(r#"],"role":"#);
        hash.update(role.get());
        hash.update("}");
        finished(hash)
    }
}

/// Returns the hash of a value.
pub(super) fn hash(value: &RawValue) -> Option<ContentHash> {
    let mut hash = Sha256::new();
    write(&parse(value.get())?, &mut hash);
    Some(finished(hash))
}

/// Returns the hashes that the program may have written for a message: a content that is a text is hashed as a block or
/// as it is.
pub(super) fn message_hashes(message: &RawValue) -> Option<[ContentHash; 2]> {
    let as_written = hash(message)?;
    let Node::Object(mut fields) = parse(message.get())? else { return None };
    for (name, value) in &mut fields {
        if let Node::Scalar(text) = value
            && *name == r#""content""#
            && text.starts_with('"')
        {
            *value = Node::List(vec![text_block(text)]);
        }
    }
    let mut hash = Sha256::new();
    write(&Node::Object(fields), &mut hash);
    Some([finished(hash), as_written])
}

fn text_block(text: &str) -> Node<'_> {
    Node::Object(vec![(r#""type""#, Node::Scalar(r#""text""#)), (r#""text""#, Node::Scalar(text))])
}

fn finished(hash: Sha256) -> ContentHash {
    <[u8; 32]>::from(hash.finalize()).into()
}

fn write(node: &Node<'_>, hash: &mut Sha256) {
    match node {
        Node::Scalar(scalar) => hash.update(scalar),
        Node::List(items) => {
            hash.update("[");
            for (place, item) in items.iter().enumerate() {
                if place > 0 {
                    hash.update(",");
                }
                write(item, hash);
            }
            hash.update("]");
        }
        Node::Object(fields) => {
            let mut kept: Vec<_> =
                fields.iter().filter(|(name, _)| *name != r#""cache_control""#).collect();
            kept.sort_by(|one, other| in_order(one.0, other.0));
            hash.update("{");
            for (place, (name, value)) in kept.into_iter().enumerate() {
                if place > 0 {
                    hash.update(",");
                }
                hash.update(name);
                hash.update(":");
                write(value, hash);
            }
            hash.update("}");
        }
    }
}

/// Compares names as JavaScript does: by UTF-16 code units.
fn in_order(one: &str, other: &str) -> Ordering {
    let decoded = |name| {
        let raw: Option<&RawValue> = serde_json::from_str(name).ok();
        text(raw).unwrap_or(Cow::Borrowed(""))
    };
    if one.is_ascii() && other.is_ascii() && !one.contains('\\') && !other.contains('\\') {
        return one[1..one.len() - 1].cmp(&other[1..other.len() - 1]);
    }
    decoded(one).encode_utf16().cmp(decoded(other).encode_utf16())
}

/// Parses JSON that is known to be valid; a value that is nested too deeply is none.
fn parse(json: &str) -> Option<Node<'_>> {
    let mut at = 0;
    node(json, &mut at, 0)
}

fn node<'r>(json: &'r str, at: &mut usize, depth: usize) -> Option<Node<'r>> {
    if depth > MAX_DEPTH {
        return None;
    }
    match peek(json, at)? {
        b'[' => {
            *at += 1;
            let mut items = Vec::new();
            while peek(json, at)? != b']' {
                items.push(node(json, at, depth + 1)?);
                if peek(json, at)? == b',' {
                    *at += 1;
                }
            }
            *at += 1;
            Some(Node::List(items))
        }
        b'{' => {
            *at += 1;
            let mut fields = Vec::new();
            while peek(json, at)? != b'}' {
                let name = string(json, at)?;
                (peek(json, at)? == b':').then_some(())?;
                *at += 1;
                fields.push((name, node(json, at, depth + 1)?));
                if peek(json, at)? == b',' {
                    *at += 1;
                }
            }
            *at += 1;
            Some(Node::Object(fields))
        }
        b'"' => string(json, at).map(Node::Scalar),
        _ => {
            let start = *at;
            let is_end =
                |byte: &u8| matches!(byte, b',' | b']' | b'}') || byte.is_ascii_whitespace();
            let length = json.as_bytes()[start..].iter().position(is_end);
            *at = length.map_or(json.len(), |length| start + length);
            (*at > start).then(|| Node::Scalar(&json[start..*at]))
        }
    }
}

/// Returns the next byte that is no space.
fn peek(json: &str, at: &mut usize) -> Option<u8> {
    let rest = &json.as_bytes()[*at..];
    let space = rest.iter().position(|byte| !byte.is_ascii_whitespace())?;
    *at += space;
    Some(rest[space])
}

/// Returns a text with its quotes.
fn string<'r>(json: &'r str, at: &mut usize) -> Option<&'r str> {
    let start = *at;
    (json.as_bytes().get(start) == Some(&b'"')).then_some(())?;
    let mut end = start + 1;
    loop {
        let rest = json.as_bytes().get(end..)?;
        end += memchr2(b'"', b'\\', rest)?;
        if json.as_bytes()[end] == b'"' {
            break;
        }
        end += 2;
    }
    *at = end + 1;
    Some(&json[start..*at])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(json: &str) -> Box<RawValue> {
        RawValue::from_string(json.to_owned()).unwrap()
    }

    #[test]
    fn keys_are_sorted_and_marks_of_the_cache_left_out_at_every_level() {
        let written = raw(
            r#"{"b": [{"z":1.50,"cache_control":{"type":"x"},"a":"\u00e9é\""}], "a":null,"A":[],"10":{},"9":-1e+21}"#,
        );
        let plain = r#"{"10":{},"9":-1e+21,"A":[],"a":null,"b":[{"a":"\u00e9é\"","z":1.50}]}"#;
        assert_eq!(hash(&written), Some(ContentHash::new(plain)));
        // By UTF-16 code units, a character outside the first plane stands before the end of that plane.
        let written = raw("{\"\u{ff5e}\":1,\"\u{10000}\":2}");
        assert_eq!(hash(&written), Some(ContentHash::new("{\"\u{10000}\":2,\"\u{ff5e}\":1}")));
    }

    #[test]
    fn a_text_is_hashed_in_both_forms() {
        let message = raw(r#"{"role":"user","content":"hi"}"#);
        let block = r#"{"content":[{"text":"hi","type":"text"}],"role":"user"}"#;
        let expected = [block, r#"{"content":"hi","role":"user"}"#].map(ContentHash::new);
        assert_eq!(message_hashes(&message), Some(expected));
        let mut growing = MessageHash::new();
        growing.add(&raw(r#""hi""#)).unwrap();
        assert_eq!(growing.of_role(&raw(r#""user""#)), expected[0]);
        growing.add(&raw(r#"[{"type":"text","text":"ho"}]"#)).unwrap();
        let joined = r#"{"content":[{"text":"hi","type":"text"},{"text":"ho","type":"text"}],"role":"user"}"#;
        assert_eq!(growing.of_role(&raw(r#""user""#)), ContentHash::new(joined));
    }

    #[test]
    fn a_deep_value_is_not_hashed() {
        let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
        let value = serde_json::from_str::<&RawValue>(&deep);
        assert!(value.is_err() || hash(value.unwrap()).is_none());
    }
}
