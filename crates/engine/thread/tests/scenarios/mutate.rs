//! Shows that the comparison can fail: every capture is changed, and every change must be detected.

use std::fmt;

use serde_json::Value;

use crate::compare::{THREAD_ID, alike, difference};
use crate::scenario::Scenario;

/// The number of changes made and detected, by kind.
#[derive(Default)]
pub(crate) struct MutationCounts {
    made: usize,
    missed: Vec<String>,
}

impl MutationCounts {
    /// Changes each captured request in each way that applies to it.
    pub(crate) fn check(&mut self, scenario: &Scenario) {
        let name = scenario.text("name").unwrap_or("?");
        for (index, request) in scenario.requests().iter().enumerate() {
            let path = request["path"].as_str().unwrap_or("");
            let path = path.strip_prefix("/v1").unwrap_or(path);
            let body = &request["body"];
            if difference(request, path, body, THREAD_ID).is_some() {
                self.missed.push(format!("{name} {} differs from itself", index + 1));
            }
            for (kind, mutated) in mutations(body) {
                self.made += 1;
                if difference(request, path, &mutated, THREAD_ID).is_none() {
                    self.missed.push(format!("{name} {}: {kind}", index + 1));
                }
            }
        }
    }

    pub(crate) fn unnoticed(&self) -> usize {
        self.missed.len()
    }
}

impl fmt::Display for MutationCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for missed in &self.missed {
            writeln!(f, "UNNOTICED {missed}")?;
        }
        let noticed = self.made.saturating_sub(self.missed.len());
        write!(f, "{noticed} of {} mutations of captures were noticed", self.made)
    }
}

fn mutations(body: &Value) -> Vec<(String, Value)> {
    let mut mutations = Vec::new();
    let items = ["input", "messages"].into_iter().find(|key| body[*key].is_array());
    if let Some(key) = items {
        let count = body[key].as_array().map_or(0, Vec::len);
        for index in 0..count {
            mutations.extend(changed_byte(body, key, index));
            let mut dropped = body.clone();
            if let Some(items) = dropped[key].as_array_mut() {
                items.remove(index);
            }
            mutations.push((format!("{key}[{index}] dropped"), dropped));
            if index > 0 && !alike(&body[key][index], &body[key][index - 1]) {
                let mut swapped = body.clone();
                if let Some(items) = swapped[key].as_array_mut() {
                    items.swap(index, index - 1);
                }
                mutations.push((format!("{key}[{index}] swapped"), swapped));
            }
        }
    }
    for key in body.as_object().into_iter().flat_map(serde_json::Map::keys) {
        let mut changed = body.clone();
        changed[key] = match &body[key] {
            Value::String(text) => Value::String(format!("{text}~")),
            Value::Bool(truth) => Value::Bool(!truth),
            _ => Value::String("~".to_owned()),
        };
        mutations.push((format!("{key} changed"), changed));
        let mut removed = body.clone();
        if let Some(fields) = removed.as_object_mut() {
            fields.shift_remove(key);
        }
        mutations.push((format!("{key} removed"), removed));
    }
    mutations
}

/// Changes the last byte of the first text of an item.
fn changed_byte(body: &Value, key: &str, index: usize) -> Option<(String, Value)> {
    let mut changed = body.clone();
    let text = first_text(&mut changed[key][index])?;
    let last = text.pop()?;
    text.push(if last == '~' { '!' } else { '~' });
    Some((format!("a byte of {key}[{index}] changed"), changed))
}

/// Finds a text with content; types and roles come last.
fn first_text(item: &mut Value) -> Option<&mut String> {
    let keys = ["content", "output", "text", "arguments", "input", "encrypted_content"];
    let key = keys.into_iter().find(|key| match &item[*key] {
        Value::String(text) => !text.is_empty(),
        Value::Array(parts) => parts.iter().any(|part| part["text"].is_string()),
        _ => false,
    });
    match item.get_mut(key.unwrap_or("type"))? {
        Value::String(text) => Some(text),
        Value::Array(parts) => {
            let mut texts = parts.iter_mut().filter_map(|part| match part.get_mut("text") {
                Some(Value::String(text)) if !text.is_empty() => Some(text),
                _ => None,
            });
            texts.next()
        }
        _ => None,
    }
}
