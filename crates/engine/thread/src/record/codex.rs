//! Parses Codex's session files (`sessions/YYYY/MM/DD/rollout-*.jsonl`).

use convoke_core::diagnostic::Diagnostic;
use serde_json::Value;

use super::{Event, NotARecord, Record, Usage, add, invalid, json_lines};
use crate::history::{Entry, Origin};
use crate::instructions::BaseSource;
use crate::item::ResponseItem;

/// Reads a session file of Codex.
pub fn read_rollout(text: &str, diagnostics: &mut Vec<Diagnostic>) -> Result<Record, NotARecord> {
    let mut record: Option<Record> = None;
    for (index, mut line) in json_lines(text, diagnostics) {
        let payload = line.get_mut("payload").map_or(Value::Null, Value::take);
        let kind = line.get("type").and_then(Value::as_str).unwrap_or("");
        let Some(record) = &mut record else {
            if kind != "session_meta" {
                return Err(NotARecord(format!("line {} is not a session_meta", index + 1)));
            }
            record = Some(started(&payload));
            continue;
        };
        match event(kind, payload) {
            Ok(Some(event)) => add(record, event, index, diagnostics),
            Ok(None) => {}
            Err(reason) => diagnostics.push(invalid(index, &reason)),
        }
    }
    record.ok_or_else(|| NotARecord::without_start(text))
}

fn started(meta: &Value) -> Record {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    Record {
        id: text(&meta["id"]).unwrap_or_default(),
        cwd: meta["cwd"].as_str().map(Into::into),
        base_instructions: text(&meta["base_instructions"]["text"]),
        base_source: BaseSource::History,
        codex_version: text(&meta["cli_version"]),
        events: Vec::new(),
    }
}

fn event(kind: &str, payload: Value) -> Result<Option<Event>, String> {
    Ok(match kind {
        "response_item" => Some(Event::Item(entry(payload)?)),
        "turn_context" => {
            let model = payload["model"].as_str().ok_or("it names no model")?;
            let model = model.to_owned();
            Some(Event::Turn { model })
        }
        "compacted" => Some(Event::Compacted {
            message: payload["message"].as_str().unwrap_or("").to_owned(),
            history: history(&payload["replacement_history"])?,
        }),
        "event_msg" => match payload["type"].as_str() {
            Some("token_count") => {
                let tokens = |which: &str| payload["info"][which]["total_tokens"].as_u64();
                let usage = tokens("last_token_usage").zip(tokens("total_token_usage"));
                usage.map(|(last, total)| Event::Usage(Usage { last, total }))
            }
            Some("thread_rolled_back") => {
                let turns = payload["num_turns"].as_u64().unwrap_or(0);
                let turns = usize::try_from(turns).unwrap_or(usize::MAX);
                Some(Event::RolledBack { turns })
            }
            _ => None,
        },
        _ => None,
    })
}

fn history(value: &Value) -> Result<Option<Vec<Entry>>, String> {
    let Some(items) = value.as_array() else {
        return Ok(None);
    };
    let entries: Result<Vec<_>, _> = items.iter().map(|item| entry(item.clone())).collect();
    entries.map(Some)
}

/// Reads an item. The file does not record its origin.
fn entry(value: Value) -> Result<Entry, String> {
    let item = ResponseItem::try_from(value).map_err(|wrong| wrong.to_string())?;
    Ok(Entry::new(item, Origin::Codex))
}
