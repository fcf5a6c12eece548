//! `convoke changes`: what each turn of a session changed.

use std::io::Write as _;

use clap::Args;
use convoke_changes::{Author, Changes, Record};
use convoke_session::TurnId;
use serde_json::{Value, json};

use super::sessions::{parse_turn, write_json};
use crate::conversation::change_recorder::{change_lines, changes_of, counts};
use crate::conversation::sessions::{find, open_store};
use crate::host_environment;
use crate::outcome::{Outcome, UsageError};
use crate::terminal::{Paint, stdout};

/// Shows what each turn changed in the working directory, and what you changed between two turns.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  convoke changes
  convoke changes last --turn 3
  convoke undo --turn 3")]
pub struct Arguments {
    /// The session: its id, either end of it, or `last`
    #[arg(value_name = "ID", default_value = "last")]
    id: String,
    /// One turn only, with its diff
    #[arg(long, value_name = "N", value_parser = parse_turn)]
    turn: Option<TurnId>,
    /// Write JSON
    #[arg(long)]
    json: bool,
}

/// Runs `convoke changes`.
pub fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    let host_environment = host_environment::of_process()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let session = runtime
        .block_on(async { find(&open_store(&host_environment).await?, &arguments.id).await })?;
    let changes = changes_of(&host_environment);
    let mut records = changes.records(&session.to_string())?;
    if let Some(turn) = arguments.turn {
        records.retain(|record| record.turn.turn == turn.0);
    }
    if arguments.json {
        let turns: Result<Vec<Value>, _> =
            records.iter().map(|record| record_json(&changes, record)).collect();
        write_json(&json!({"session": session, "turns": turns?}))?;
    } else if arguments.turn.is_some() {
        write_diff(&changes, &records)?;
    } else {
        list(&changes, &records)?;
    }
    Ok(Outcome::Done)
}

/// Writes the diff of records.
pub(super) fn write_diff(changes: &Changes, records: &[Record]) -> anyhow::Result<()> {
    let mut out = stdout();
    let mut is_empty = true;
    for record in records {
        for diff in changes.diffs(&record.directory, &record.changes)? {
            is_empty = false;
            out.write_all(diff.text.as_bytes())?;
        }
    }
    if is_empty {
        return Err(UsageError("no change of that turn is recorded".to_owned()).into());
    }
    Ok(())
}

fn list(changes: &Changes, records: &[Record]) -> anyhow::Result<()> {
    let mut out = stdout();
    let paint = Paint::for_stream(&out);
    if records.iter().all(|record| record.changes.is_empty()) {
        writeln!(out, "no changes are recorded")?;
    }
    for record in records.iter().filter(|record| !record.changes.is_empty()) {
        let title = paint.strong(&title(record));
        writeln!(out, "{title}  {}", counts(changes, record))?;
        for line in change_lines(changes, &record.directory, &record.changes)? {
            writeln!(out, "  {line}")?;
        }
    }
    Ok(())
}

fn title(record: &Record) -> String {
    let turn = record.turn.turn;
    match (record.by, record.undoes) {
        (_, Some(_)) => format!("undo of turn {turn}"),
        (Author::Agent, None) => {
            let interrupted = if record.interrupted { ", interrupted" } else { "" };
            format!("turn {turn}, {}{interrupted}", record.turn.member)
        }
        (Author::Person, None) => format!("you, before turn {turn}"),
    }
}

fn record_json(changes: &Changes, record: &Record) -> anyhow::Result<Value> {
    let files: Vec<Value> = changes
        .diffs(&record.directory, &record.changes)?
        .iter()
        .map(|diff| {
            json!({
                "path": diff.path.to_string(),
                "status": diff.status.as_str(),
                "added": diff.lines.map(|lines| lines.added),
                "removed": diff.lines.map(|lines| lines.removed),
                "bytes": diff.bytes,
            })
        })
        .collect();
    let member = (record.by == Author::Agent).then_some(&record.turn.member);
    Ok(json!({
        "turn": record.turn.turn,
        "attempt": record.turn.attempt,
        "member": member,
        "by": record.by,
        "undo": record.undoes.is_some(),
        "interrupted": record.interrupted,
        "directory": record.directory,
        "files": files,
    }))
}
