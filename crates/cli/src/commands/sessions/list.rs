//! `convoke sessions list`.

use std::io::Write as _;
use std::path::Path;

use clap::Args;
use convoke_protocol::id::Millis;
use convoke_protocol::session::{MemberCost, Summary};
use convoke_session::{AnyStore, Store as _};
use convoke_team::Team;
use serde_json::{Value, json};
use unicode_width::UnicodeWidthStr as _;

use super::{short, write_json};
use crate::conversation::sessions::WorkingDirectory;
use crate::figures::{begun, count, dollars, number, padded, shortened};
use crate::host_environment;
use crate::outcome::Outcome;
use crate::terminal::{Paint, printable, stdout, width};

/// The default of `--limit`.
const LIMIT: usize = 20;
/// The columns of a directory or of member names.
const COLUMN: usize = 24;
/// The minimum width of a conversation's beginning.
const BEGINNING: usize = 12;

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// List the sessions of every directory
    #[arg(long)]
    all: bool,
    /// The maximum number of sessions to list; by default 20, and every one with --json
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// Write JSON
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(arguments: &Arguments, store: &AnyStore) -> anyhow::Result<Outcome> {
    let here = WorkingDirectory::find(&host_environment::of_process()?);
    let all = store.sessions().await?;
    let is_empty = all.is_empty();
    let (mut sessions, elsewhere): (Vec<Summary>, Vec<Summary>) =
        all.into_iter().partition(|session| arguments.all || here.has(session));
    let found = sessions.len();
    let usual = if arguments.json { usize::MAX } else { LIMIT };
    sessions.truncate(arguments.limit.unwrap_or(usual));
    let mut rows = Vec::with_capacity(sessions.len());
    for session in sessions {
        rows.push(Row::read(session, store).await?);
    }
    if arguments.json {
        let rows: Vec<Value> = rows.iter().map(Row::to_json).collect::<Result<_, _>>()?;
        let elsewhere = elsewhere.len();
        write_json(
            &json!({"version": 1, "sessions": rows, "total": found, "elsewhere": elsewhere}),
        )?;
        return Ok(Outcome::Done);
    }
    let mut out = stdout();
    let (paint, columns) = (Paint::for_stream(&out), width(&out));
    for line in table(&rows, &here, store.now(), columns, paint) {
        writeln!(out, "{line}")?;
    }
    if is_empty {
        writeln!(out, "No sessions yet; `convoke run` starts one.")?;
    } else if found == 0 {
        writeln!(out, "No sessions of this directory; `convoke run` starts one.")?;
    }
    let hidden = [
        (found - rows.len(), "older", "--limit N"),
        (elsewhere.len(), "of other directories", "--all"),
    ];
    for (many, which, option) in hidden.into_iter().filter(|(many, ..)| *many > 0) {
        let text = format!("{} {which}: `{option}` lists them", count(many as u64, "session"));
        writeln!(out, "{}", paint.faint(&text))?;
    }
    Ok(Outcome::Done)
}

/// A session in the list.
struct Row {
    session: Summary,
    members: Vec<String>,
    costs: Vec<MemberCost>,
}

impl Row {
    async fn read(session: Summary, store: &AnyStore) -> anyhow::Result<Self> {
        let team = Team::parse(&store.session(session.id).await?.began.team);
        let members = team.iter().flat_map(Team::names).map(ToString::to_string).collect();
        let costs = store.costs(session.id).await?;
        Ok(Self { session, members, costs })
    }

    fn to_json(&self) -> serde_json::Result<Value> {
        let mut value = serde_json::to_value(&self.session)?;
        value["members"] = json!(self.members);
        value["costUsd"] = json!(self.cost_usd());
        Ok(value)
    }

    /// Returns the sum of the reported costs; `None` if none was reported.
    fn cost_usd(&self) -> Option<f64> {
        self.costs.iter().filter_map(|cost| cost.cost_usd).reduce(|sum, cost| sum + cost)
    }

    fn cells(&self, here: &WorkingDirectory, now: Millis) -> [String; 6] {
        let Summary { id, name, rehearsal, turns, waiting, updated_at, directory, .. } =
            &self.session;
        let mut turns = count(*turns, "turn");
        if *waiting > 0 {
            turns = format!("{turns}, {} waiting", number(*waiting));
        }
        let cost = match (self.cost_usd(), rehearsal) {
            (Some(cost), _) => dollars(cost),
            (None, Some(_)) => "rehearsal".to_owned(),
            (None, None) => "-".to_owned(),
        };
        let name = name.as_deref().unwrap_or_default();
        let members = self.members.join(", ");
        let who = if name.is_empty() { members } else { format!("{name}: {members}") };
        [
            short(*id),
            age(now.since(*updated_at)),
            shortened(&printable(&here.shown(Path::new(directory))), COLUMN),
            begun(&printable(&who), COLUMN),
            turns,
            cost,
        ]
    }
}

/// Returns the lines of the table: aligned columns, then the beginning of each conversation, if it fits. In a
/// narrow terminal a session takes two lines.
fn table(
    rows: &[Row],
    here: &WorkingDirectory,
    now: Millis,
    columns: usize,
    paint: Paint,
) -> Vec<String> {
    let cells: Vec<[String; 6]> = rows.iter().map(|row| row.cells(here, now)).collect();
    let widths: [usize; 6] = std::array::from_fn(|column| {
        cells.iter().map(|cells| cells[column].width()).max().unwrap_or(0)
    });
    let total: usize = widths.iter().sum::<usize>() + 2 * widths.len();
    let mut lines = Vec::new();
    for (row, cells) in rows.iter().zip(&cells) {
        let beginning = row.session.beginning.as_deref().unwrap_or_default();
        let [id, age, directory, who, turns, cost] = cells;
        if columns < total {
            lines.push(format!("{}  {age}  {directory}", paint.strong(id)));
            let rest = format!("  {who}  {turns}  {cost}");
            lines.push(paint.faint(&begun(&rest, columns)));
            continue;
        }
        let gap = |text: &str, width: usize| " ".repeat(width - text.width());
        let mut line = format!(
            "{}  {}{age}  {}  {}  {}  {}{cost}",
            paint.strong(id),
            gap(age, widths[1]),
            padded(directory, widths[2]),
            padded(who, widths[3]),
            paint.faint(&padded(turns, widths[4])),
            gap(cost, widths[5]),
        );
        if columns - total >= BEGINNING {
            line += "  ";
            line += &one_line(beginning, columns - total);
        }
        lines.push(line.trim_end().to_owned());
    }
    lines
}

/// Returns the beginning of a text on one line, at most `width` columns of it.
pub(in crate::commands) fn one_line(text: &str, width: usize) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    begun(&printable(&words.join(" ")), width)
}

/// Returns a number of milliseconds as the age of something.
pub(in crate::commands) fn age(millis: i64) -> String {
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
    fn ages_use_the_largest_unit_that_fits() {
        let ages = [-5, 59, 60, 3599, 7200, 86_400 * 12].map(|seconds| age(seconds * 1000));
        assert_eq!(
            ages,
            ["just now", "just now", "1 min ago", "59 min ago", "2 h ago", "12 d ago"]
        );
    }

    #[test]
    fn long_texts_are_cut_to_their_columns() {
        assert_eq!(begun("short", 5), "short");
        assert_eq!(begun("longer", 5), "long…");
        assert_eq!(begun("漢字漢字", 5), "漢字…");
        assert_eq!(shortened("/home/kim/project", 9), "…/project");
        assert_eq!(one_line("two\n  lines", 80), "two lines");
    }
}
