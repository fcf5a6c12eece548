//! `convoke sessions list`.

use std::io::Write as _;

use clap::Args;
use convoke_agent::id::now;
use convoke_session::{Millis, SqliteStore, Store as _, Summary};
use serde_json::json;

use super::{short, write_json};
use crate::figures::{count, number};
use crate::outcome::Outcome;
use crate::terminal::{Paint, printable, stdout};

/// The number of characters of the first message that are shown.
const BEGINNING: usize = 48;

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Write JSON
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(arguments: &Arguments, store: &SqliteStore) -> anyhow::Result<Outcome> {
    let sessions = store.sessions().await?;
    if arguments.json {
        write_json(&json!({"version": 1, "sessions": sessions}))?;
        return Ok(Outcome::Done);
    }
    let mut out = stdout();
    let paint = Paint::for_stream(&out);
    if sessions.is_empty() {
        writeln!(out, "There are no sessions yet; `convoke run` starts one.")?;
    }
    let now = now();
    for session in &sessions {
        writeln!(out, "{}", line(session, now, paint))?;
    }
    Ok(Outcome::Done)
}

fn line(session: &Summary, now: Millis, paint: Paint) -> String {
    let Summary { id, name, rehearsal, messages, turns, waiting, beginning, .. } = session;
    let beginning = beginning_of(beginning.as_deref().unwrap_or_default());
    let waiting = match waiting {
        0 => String::new(),
        waiting => format!(", {} queued", number(*waiting)),
    };
    let rehearsal = if rehearsal.is_some() { ", rehearsal" } else { "" };
    format!(
        "{}  {:>10}  {}  {}  {}",
        paint.strong(&short(*id)),
        age(now.saturating_sub(session.updated_at)),
        printable(name.as_deref().unwrap_or("-")),
        paint.faint(&format!(
            "{}, {}{waiting}{rehearsal}",
            count(*messages, "message"),
            count(*turns, "turn")
        )),
        beginning
    )
}

/// Returns the beginning of a text as one line.
pub(in crate::commands) fn beginning_of(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let line = words.join(" ");
    let line = printable(&line);
    let cut: String = line.chars().take(BEGINNING).collect();
    let more = if cut.len() < line.len() { "…" } else { "" };
    format!("{cut}{more}")
}

/// Formats the age of a time.
pub(in crate::commands) fn age(millis: Millis) -> String {
    match millis / 1000 {
        ..60 => "just now".to_owned(),
        seconds @ 60..3600 => format!("{} min ago", seconds / 60),
        seconds @ 3600..86_400 => format!("{} h ago", seconds / 3600),
        seconds => format!("{} d ago", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_told_in_the_largest_unit_that_fits() {
        let ages = [-5, 59, 60, 3599, 7200, 86_400 * 12].map(|seconds| age(seconds * 1000));
        assert_eq!(
            ages,
            ["just now", "just now", "1 min ago", "59 min ago", "2 h ago", "12 d ago"]
        );
    }
}
