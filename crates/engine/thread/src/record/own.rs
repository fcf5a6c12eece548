//! Convoke's own record: a first line about the thread, then one line per event.

use convoke_core::diagnostic::Diagnostic;
use convoke_core::ledger;
use serde_json::{Value, json};

use super::{Event, NotARecord, Record, Usage, add, invalid, json_lines};
use crate::history::{Entry, Origin, Section, Sources};
use crate::instructions::BaseSource;
use crate::item::{Ids, ResponseItem};
use crate::json::JsonWriter;

/// The version that is written. Version 1, without origins, can be read too.
const VERSION: u64 = 2;
const VERSION_WITHOUT_ORIGINS: u64 = 1;

/// Writes the first line of a record, without its newline.
pub fn write_start(record: &Record) -> String {
    let start = json!({
        "version": VERSION,
        "id": record.id,
        "cwd": record.cwd,
        "baseInstructions": record.base_instructions,
        "baseSource": record.base_source.name(),
    });
    json!({"thread": start}).to_string()
}

/// Writes the line of an event, without its newline.
pub fn write_event(event: &Event) -> String {
    let value = match event {
        Event::Item(entry) => return write_entry(entry),
        Event::Turn { model } => json!({"turn": {"model": model}}),
        Event::Usage(usage) => json!({"usage": {"last": usage.last, "total": usage.total}}),
        Event::Compacted { message, history } => {
            let lines = history.iter().map(|it| it.iter().map(write_entry).collect::<Vec<_>>());
            let history: Option<String> = lines.map(|it| format!("[{}]", it.join(","))).next();
            let (message, history) = (json!(message), history.as_deref().unwrap_or("null"));
            return format!("{{\"compacted\":{{\"message\":{message},\"history\":{history}}}}}");
        }
        Event::RolledBack { turns } => json!({"rolledBack": {"turns": turns}}),
    };
    value.to_string()
}

/// Writes an item and its origin: the section, and the entries of its text if it was written fragment by
/// fragment.
fn write_entry(entry: &Entry) -> String {
    let mut out = JsonWriter::default();
    out.object();
    out.key("item");
    entry.item.write(&mut out, &mut Sources::unrecorded(), Ids::Written);
    let origin = match &entry.origin {
        Origin::Unknown => None,
        Origin::Codex => Some(json!({"program": "codex"})),
        Origin::Section(section) => Some(json!({"section": section.name()})),
        Origin::Fragments(section, entries) => {
            Some(json!({"section": section.name(), "entries": **entries}))
        }
    };
    if let Some(origin) = origin {
        out.key("origin");
        out.value(&origin);
    }
    out.end_object();
    out.into_text()
}

/// Reads a record written by [`write_start`] and [`write_event`].
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
        Some(VERSION | VERSION_WITHOUT_ORIGINS) => {}
        Some(other) => return Err(NotARecord(format!("unknown version {other}"))),
        None => return Err(NotARecord("the first line does not describe a thread".to_owned())),
    }
    let text = |key: &str| start[key].as_str().map(str::to_owned);
    Ok(Record {
        id: text("id").unwrap_or_default(),
        cwd: text("cwd").map(Into::into),
        base_instructions: text("baseInstructions"),
        base_source: start["baseSource"].as_str().and_then(BaseSource::parse).unwrap_or_default(),
        codex_version: None,
        events: Vec::new(),
    })
}

/// Reads a line written by [`write_event`].
pub fn read_event(line: &str) -> Result<Event, String> {
    serde_json::from_str(line).map_err(|wrong| wrong.to_string()).and_then(event)
}

fn event(line: Value) -> Result<Event, String> {
    let Value::Object(fields) = line else {
        return Err("not an object".to_owned());
    };
    if fields.contains_key("item") {
        return Ok(Event::Item(entry(Value::Object(fields))?));
    }
    let (kind, mut value) = fields.into_iter().next().ok_or("it is empty")?;
    let number = |value: &Value| value.as_u64().ok_or("a number is missing");
    Ok(match &*kind {
        "turn" => {
            Event::Turn { model: value["model"].as_str().ok_or("it names no model")?.to_owned() }
        }
        "usage" => {
            Event::Usage(Usage { last: number(&value["last"])?, total: number(&value["total"])? })
        }
        "compacted" => {
            let history = match value.get_mut("history").map(Value::take) {
                Some(Value::Array(items)) => {
                    Some(items.into_iter().map(entry).collect::<Result<_, _>>()?)
                }
                _ => None,
            };
            let message = value["message"].as_str().unwrap_or("").to_owned();
            Event::Compacted { message, history }
        }
        "rolledBack" => Event::RolledBack {
            turns: usize::try_from(number(&value["turns"])?).unwrap_or(usize::MAX),
        },
        other => return Err(format!("unknown kind `{other}`")),
    })
}

/// Reads an item, with or without its origin.
fn entry(mut value: Value) -> Result<Entry, String> {
    let origin = value.get_mut("origin").map(Value::take);
    let item = value.get_mut("item").map(Value::take).unwrap_or(value);
    let item = ResponseItem::try_from(item).map_err(|wrong| wrong.to_string())?;
    let origin = origin.and_then(origin_of).filter(|origin| origin.fits(&item));
    Ok(Entry::new(item, origin.unwrap_or_default()))
}

/// Reads an origin; one in the format of a later version counts as unknown.
fn origin_of(mut value: Value) -> Option<Origin> {
    if value["program"] == "codex" {
        return Some(Origin::Codex);
    }
    let section = Section::parse(value["section"].as_str()?)?;
    Some(match value.get_mut("entries").map(Value::take) {
        Some(entries) => {
            let entries: Vec<ledger::Entry<'static>> = serde_json::from_value(entries).ok()?;
            Origin::Fragments(section, entries.into())
        }
        None => Origin::Section(section),
    })
}
