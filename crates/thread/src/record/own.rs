//! Our own record: a first line about the thread, then one line for each event.

use convoke_core::diagnostic::Diagnostic;
use serde_json::{Value, json};

use super::{Event, NotARecord, Record, Usage, add, invalid, json_lines};
use crate::item::{ResponseItem, WithId};

const VERSION: u64 = 1;

/// Writes the first line of a record, without its newline.
pub fn write_start(record: &Record) -> String {
    let start = json!({
        "version": VERSION,
        "id": record.id,
        "cwd": record.cwd,
        "baseInstructions": record.base_instructions,
    });
    json!({"thread": start}).to_string()
}

/// Writes the line of an event, without its newline.
pub fn write_event(event: &Event) -> String {
    let items = |items: &[ResponseItem]| items.iter().map(|item| json!(WithId(item))).collect();
    let value = match event {
        Event::Item(item) => json!({"item": WithId(item)}),
        Event::Turn { model } => json!({"turn": {"model": model}}),
        Event::Usage(usage) => json!({"usage": {"last": usage.last, "total": usage.total}}),
        Event::Compacted { message, history } => {
            let history: Option<Value> = history.as_deref().map(items);
            json!({"compacted": {"message": message, "history": history}})
        }
        Event::RolledBack { turns } => json!({"rolledBack": {"turns": turns}}),
    };
    value.to_string()
}

/// Reads a record that [`write_start`] and [`write_event`] wrote.
pub(super) fn read(text: &str, diagnostics: &mut Vec<Diagnostic>) -> Result<Record, NotARecord> {
    let mut record: Option<Record> = None;
    for (index, line) in json_lines(text, diagnostics) {
        let Some(record) = &mut record else {
            record = Some(started(&line["thread"])?);
            continue;
        };
        match event(line) {
            Ok(event) => add(record, event, index, diagnostics),
            Err(reason) => diagnostics.push(invalid(index, &reason)),
        }
    }
    record.ok_or_else(|| NotARecord::without_start(text))
}

fn started(start: &Value) -> Result<Record, NotARecord> {
    match start["version"].as_u64() {
        Some(VERSION) => {}
        Some(other) => return Err(NotARecord(format!("version {other} is not known"))),
        None => return Err(NotARecord("its first line is about no thread".to_owned())),
    }
    let text = |key: &str| start[key].as_str().map(str::to_owned);
    Ok(Record {
        id: text("id").unwrap_or_default(),
        cwd: text("cwd").map(Into::into),
        base_instructions: text("baseInstructions"),
        events: Vec::new(),
    })
}

/// Reads a line that [`write_event`] wrote.
pub fn read_event(line: &str) -> Result<Event, String> {
    serde_json::from_str(line).map_err(|wrong| wrong.to_string()).and_then(event)
}

fn event(line: Value) -> Result<Event, String> {
    let Value::Object(fields) = line else {
        return Err("it is no object".to_owned());
    };
    let (kind, mut value) = fields.into_iter().next().ok_or("it is empty")?;
    let number = |value: &Value| value.as_u64().ok_or("a number is missing");
    Ok(match &*kind {
        "item" => Event::Item(item(value)?),
        "turn" => {
            Event::Turn { model: value["model"].as_str().ok_or("it names no model")?.to_owned() }
        }
        "usage" => {
            Event::Usage(Usage { last: number(&value["last"])?, total: number(&value["total"])? })
        }
        "compacted" => {
            let history = match value.get_mut("history").map(Value::take) {
                Some(Value::Array(items)) => {
                    Some(items.into_iter().map(item).collect::<Result<_, _>>()?)
                }
                _ => None,
            };
            let message = value["message"].as_str().unwrap_or("").to_owned();
            Event::Compacted { message, history }
        }
        "rolledBack" => Event::RolledBack {
            turns: usize::try_from(number(&value["turns"])?).unwrap_or(usize::MAX),
        },
        other => return Err(format!("`{other}` is not known")),
    })
}

fn item(value: Value) -> Result<ResponseItem, String> {
    ResponseItem::try_from(value).map_err(|wrong| wrong.to_string())
}
