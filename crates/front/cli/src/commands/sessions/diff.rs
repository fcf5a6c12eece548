//! `convoke sessions diff`.

use std::io::{self, Write};

use clap::Args;
use convoke_protocol::id::TurnId;
use convoke_session::AnyStore;
use convoke_session::diff::{DiffError, DiffLine, LineChange, PromptDiff, TextDiff, diff};
use serde_json::json;

use super::turn::find_turn;
use super::{SessionArgument, parse_turn, write_json};
use crate::figures::{number, percent};
use crate::outcome::{Outcome, UsageError};
use crate::terminal::{Paint, printable, stdout};

/// The number of context lines around a change.
const AROUND: usize = 3;

#[derive(Debug, Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    which: SessionArgument,
    /// The earlier turn
    #[arg(value_name = "TURN", value_parser = parse_turn)]
    earlier: TurnId,
    /// The later turn, of the same member
    #[arg(value_name = "TURN", value_parser = parse_turn)]
    later: TurnId,
    /// Write JSON
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(arguments: &Arguments, store: &AnyStore) -> anyhow::Result<Outcome> {
    let session = arguments.which.find(store).await?;
    let Arguments { earlier, later, .. } = *arguments;
    for turn in [earlier, later] {
        find_turn(store, session, turn).await?;
    }
    let found = diff(store, session, earlier, later).await.map_err(|error| match error {
        DiffError::Store(error) => anyhow::Error::from(error),
        other => UsageError(other.to_string()).into(),
    })?;
    if arguments.json {
        let reusable = found.reusable_bytes();
        write_json(&json!({
            "session": session, "earlier": earlier, "later": later,
            "reusableBytes": reusable, "diff": found,
        }))?;
    } else {
        let mut out = stdout();
        let paint = Paint::for_stream(&out);
        show(&found, (earlier, later), paint, &mut out)?;
    }
    Ok(Outcome::Done)
}

fn show(
    found: &PromptDiff,
    (earlier, later): (TurnId, TurnId),
    paint: Paint,
    out: &mut impl Write,
) -> io::Result<()> {
    let before = found.system.earlier_bytes + found.prompt.earlier_bytes;
    let after = found.system.later_bytes + found.prompt.later_bytes;
    let reusable = found.reusable_bytes();
    let member = paint.strong(found.member.as_str());
    writeln!(
        out,
        "{member}: turn {earlier} ({} bytes) and turn {later} ({} bytes)",
        number(before),
        number(after)
    )?;
    writeln!(
        out,
        "{} bytes at the beginning are the same: {} of turn {earlier}, which a cache can reuse",
        number(reusable),
        percent(reusable, before)
    )?;
    for (name, text) in [("system text", &found.system), ("prompt", &found.prompt)] {
        if text.earlier_bytes + text.later_bytes == 0 {
            continue;
        }
        writeln!(out)?;
        if text.is_same() {
            writeln!(out, "{}: the same {} bytes", paint.strong(name), number(text.later_bytes))?;
            continue;
        }
        let TextDiff { earlier_bytes, later_bytes, common_prefix, lines } = text;
        let figures = format!(
            "{} → {} bytes, the first {} the same",
            number(*earlier_bytes),
            number(*later_bytes),
            number(*common_prefix)
        );
        writeln!(out, "{}: {}", paint.strong(name), paint.faint(&figures))?;
        show_lines(lines, paint, out)?;
    }
    Ok(())
}

/// Writes the changed lines with context.
fn show_lines(lines: &[DiffLine], paint: Paint, out: &mut impl Write) -> io::Result<()> {
    let changed: Vec<usize> =
        (0..lines.len()).filter(|&at| lines[at].change != LineChange::Same).collect();
    let mut shown = 0;
    for (at, line) in lines.iter().enumerate() {
        let next = changed.partition_point(|&change| change + AROUND < at);
        let is_near = changed.get(next).is_some_and(|&change| change <= at + AROUND);
        if !is_near {
            continue;
        }
        if at > shown {
            writeln!(out, "{}", paint.faint(&format!("  … {} lines the same", at - shown)))?;
        }
        shown = at + 1;
        let text = printable(&line.text);
        match line.change {
            LineChange::Same => writeln!(out, "  {text}")?,
            LineChange::Removed => writeln!(out, "{}", paint.bad(&format!("- {text}")))?,
            LineChange::Added => writeln!(out, "{}", paint.good(&format!("+ {text}")))?,
        }
    }
    if shown < lines.len() {
        writeln!(out, "{}", paint.faint(&format!("  … {} lines the same", lines.len() - shown)))?;
    }
    Ok(())
}
