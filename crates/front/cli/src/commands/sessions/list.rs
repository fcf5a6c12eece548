//! `convoke sessions list`.

use std::io::Write as _;
use std::path::Path;

use clap::Args;
use convoke_open::summary::Summary as OtherSummary;
use convoke_protocol::id::{Millis, SessionId};
use convoke_protocol::session::{MemberCost, Summary};
use convoke_session::{AnyStore, Store as _};
use convoke_source::{FoundSession, SourceError};
use convoke_team::Team;
use serde_json::{Value, json};
use unicode_width::UnicodeWidthStr as _;

use super::write_json;
use crate::conversation::sessions::WorkingDirectory;
use crate::figures::{age, begun, count, dollars, number, one_line, padded, shortened};
use crate::host_environment;
use crate::other_programs::{HomeArgument, short_name_among, with_catalog};
use crate::outcome::Outcome;
use crate::terminal::{Paint, ProgressLine, printable, stderr, stdout, width};

/// The program of Convoke's own sessions.
pub(in crate::commands) const OWN: &str = "convoke";
/// The default of `--limit`.
const LIMIT: usize = 20;
/// The columns of a directory or of member names.
const COLUMN: usize = 24;
/// The title of the first column, and the width that it keeps in a narrow terminal.
const SUBJECT: &str = "SUBJECT";
const MIN_SUBJECT: usize = 24;
/// The spaces between two columns.
const GAP: usize = 2;

#[derive(Debug, Default, Args)]
pub(super) struct Arguments {
    /// List the sessions of every directory
    #[arg(long)]
    all: bool,
    /// List only the sessions of this program; `convoke` for its own
    #[arg(long, value_name = "PROGRAM")]
    agent: Option<String>,
    /// The maximum number of sessions to list; by default 20, and every one with --json
    #[arg(long, value_name = "N", value_parser = parse_count)]
    limit: Option<usize>,
    #[command(flatten)]
    home: HomeArgument,
    /// Write JSON
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(arguments: &Arguments, store: &AnyStore) -> anyhow::Result<Outcome> {
    let here = WorkingDirectory::find(&host_environment::of_process()?);
    let is_wanted = |program| arguments.agent.as_deref().is_none_or(|wanted| wanted == program);
    // The home of somebody else has no sessions of this store.
    let own = if is_wanted(OWN) && arguments.home.directory.is_none() {
        store.sessions().await?
    } else {
        Vec::new()
    };
    let own_ids = own.iter().map(|session| session.id).collect();
    let mut shorts = ShortIds { own: own_ids, others: Vec::new() };
    let mut problems = Vec::new();
    let mut all: Vec<Listed> = own.into_iter().map(Listed::Own).collect();
    with_catalog(&arguments.home, |catalog| {
        let found = catalog.list();
        shorts.others = found.sessions.iter().map(|it| (it.program, it.id.clone())).collect();
        let found_sessions = found.sessions.into_iter().filter(|it| is_wanted(it.program));
        all.extend(found_sessions.map(|session| Listed::Other(Box::new(session))));
        problems = found.problems;
        Ok(())
    })?;
    all.sort_by_key(|session| std::cmp::Reverse(session.changed_at()));
    let is_empty = all.is_empty();
    let (mut sessions, elsewhere): (Vec<Listed>, Vec<Listed>) =
        all.into_iter().partition(|session| arguments.all || session.is_of(&here));
    let found = sessions.len();
    let usual = if arguments.json { usize::MAX } else { LIMIT };
    sessions.truncate(arguments.limit.unwrap_or(usual));
    let progress = ProgressLine::begin("reading sessions");
    let rows = read(sessions, arguments, store, &mut problems).await?;
    drop(progress);
    tell(&problems)?;
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
    let shown = rows.iter().map(|row| (row.subject(), row.columns(&here, store.now(), &shorts)));
    for line in table(&shown.collect::<Vec<_>>(), columns, paint) {
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

/// Tells which sessions of other programs could not be read.
pub(super) fn tell(problems: &[SourceError]) -> anyhow::Result<()> {
    for problem in problems {
        let reason = std::error::Error::source(problem);
        let reason = reason.map_or_else(String::new, |reason| format!(": {reason}"));
        writeln!(stderr(), "{}", printable(&format!("{problem}{reason}")))?;
    }
    Ok(())
}

/// Parses a number of sessions.
fn parse_count(written: &str) -> Result<usize, String> {
    written.parse().map_err(|_| "it is not a number, such as 50".to_owned())
}

/// A session that was found and not read yet.
enum Listed {
    Own(Summary),
    Other(Box<FoundSession>),
}

impl Listed {
    fn changed_at(&self) -> i64 {
        match self {
            Self::Own(session) => session.updated_at.0,
            Self::Other(session) => session.changed_at.0,
        }
    }

    fn is_of(&self, here: &WorkingDirectory) -> bool {
        match self {
            Self::Own(session) => here.has(session),
            Self::Other(session) => session.cwd.as_deref().is_some_and(|cwd| here.is_near(cwd)),
        }
    }
}

/// Reads what the list shows of sessions.
async fn read(
    sessions: Vec<Listed>,
    arguments: &Arguments,
    store: &AnyStore,
    problems: &mut Vec<SourceError>,
) -> anyhow::Result<Vec<Row>> {
    let mut rows = Vec::with_capacity(sessions.len());
    for session in sessions {
        match session {
            Listed::Own(session) => rows.push(Row::read(session, store).await?),
            Listed::Other(found) => {
                with_catalog(&arguments.home, |catalog| {
                    match convoke_open::summary::read(catalog, &found) {
                        Ok(summary) => rows.push(Row::Other(found, Box::new(summary))),
                        Err(problem) => problems.push(problem),
                    }
                    Ok(())
                })?;
            }
        }
    }
    Ok(rows)
}

/// A session in the list.
enum Row {
    Own { session: Summary, members: Vec<String>, costs: Vec<MemberCost> },
    Other(Box<FoundSession>, Box<OtherSummary>),
}

impl Row {
    async fn read(session: Summary, store: &AnyStore) -> anyhow::Result<Self> {
        let team = Team::parse(&store.session(session.id).await?.began.team);
        let members = team.iter().flat_map(Team::names).map(ToString::to_string).collect();
        let costs = store.costs(session.id).await?;
        Ok(Self::Own { session, members, costs })
    }

    fn to_json(&self) -> serde_json::Result<Value> {
        match self {
            Self::Own { session, members, costs } => {
                let mut value = serde_json::to_value(session)?;
                value["agent"] = json!(OWN);
                value["cwd"] = json!(session.directory);
                value["title"] = json!(session.beginning);
                value["members"] = json!(members);
                value["costUsd"] = json!(cost_usd(costs));
                Ok(value)
            }
            Self::Other(found, summary) => Ok(summary.to_json(found)),
        }
    }

    /// Returns the beginning of the conversation, on one line.
    fn subject(&self) -> String {
        let beginning = match self {
            Self::Own { session, .. } => session.beginning.as_deref(),
            Self::Other(_, summary) => summary.title.as_deref(),
        };
        let subject = one_line(beginning.unwrap_or_default(), usize::MAX);
        if subject.is_empty() { "(no message)".to_owned() } else { subject }
    }

    /// Returns the columns of the table but the subject.
    fn columns(&self, here: &WorkingDirectory, now: Millis, shorts: &ShortIds) -> Columns {
        let (session, at, directory, who, turns, cost) = match self {
            Self::Own { session, members, costs } => own_cells(session, members, costs, shorts),
            Self::Other(found, summary) => other_cells(found, summary, shorts),
        };
        Columns {
            session,
            age: age(now.since(at)),
            turns,
            cost,
            who: begun(&printable(&who), COLUMN),
            directory: shortened(&printable(&here.shown(Path::new(&directory))), COLUMN),
        }
    }
}

/// The ids that people type, each long enough to name one session.
struct ShortIds {
    own: Vec<SessionId>,
    /// The sessions of other programs, each with its program.
    others: Vec<(&'static str, String)>,
}

impl ShortIds {
    fn of(&self, id: SessionId) -> String {
        id.short_among(&self.own)
    }

    fn of_other(&self, session: &FoundSession) -> String {
        short_name_among(session, &self.others)
    }
}

/// What the table shows of a session beside its subject.
struct Columns {
    session: String,
    age: String,
    turns: String,
    cost: String,
    who: String,
    directory: String,
}

impl Columns {
    /// The titles, in the order in which columns are dropped from the end where the terminal is narrow.
    const TITLES: [&str; 6] = ["SESSION", "CHANGED", "TURNS", "COST", "WHO", "DIRECTORY"];

    fn cells(&self) -> [&str; 6] {
        let Self { session, age, turns, cost, who, directory } = self;
        [session, age, turns, cost, who, directory]
    }
}

type Cells = (String, Millis, String, String, String, String);

fn own_cells(
    session: &Summary,
    members: &[String],
    costs: &[MemberCost],
    shorts: &ShortIds,
) -> Cells {
    let Summary { id, name, rehearsal, turns, waiting, updated_at, directory, .. } = session;
    let mut turns = count(*turns, "turn");
    if *waiting > 0 {
        turns = format!("{turns}, {} waiting", number(*waiting));
    }
    let cost = match (cost_usd(costs), rehearsal) {
        (Some(cost), _) => dollars(cost),
        (None, Some(_)) => "rehearsal".to_owned(),
        (None, None) => "-".to_owned(),
    };
    let name = name.as_deref().unwrap_or_default();
    let members = members.join(", ");
    let who = if name.is_empty() { members } else { format!("{name}: {members}") };
    (shorts.of(*id), *updated_at, directory.clone(), who, turns, cost)
}

fn other_cells(found: &FoundSession, summary: &OtherSummary, shorts: &ShortIds) -> Cells {
    let cost = match summary.cost.known {
        0 => "-".to_owned(),
        _ => dollars(summary.cost.amount),
    };
    let directory = summary.cwd.clone().or_else(|| found.cwd.clone()).unwrap_or_default();
    let model = summary.model.clone().unwrap_or_default();
    let at = summary.ended_at.unwrap_or(found.changed_at);
    (shorts.of_other(found), at, directory, model, count(summary.requests, "request"), cost)
}

/// Returns the sum of the reported costs; `None` if none was reported.
fn cost_usd(costs: &[MemberCost]) -> Option<f64> {
    costs.iter().filter_map(|cost| cost.cost_usd).reduce(|sum, cost| sum + cost)
}

/// Returns the lines of the table: the subjects, then as many columns as fit beside them.
fn table(rows: &[(String, Columns)], columns: usize, paint: Paint) -> Vec<String> {
    if rows.is_empty() {
        return Vec::new();
    }
    let mut widths = Columns::TITLES.map(str::len);
    for (_, row) in rows {
        for (width, cell) in widths.iter_mut().zip(row.cells()) {
            *width = (*width).max(cell.width());
        }
    }
    let longest = rows.iter().map(|(subject, _)| subject.width()).max().unwrap_or(0);
    let least = longest.clamp(SUBJECT.len(), MIN_SUBJECT);
    let mut left = columns.saturating_sub(least);
    let shown = widths.iter().take_while(|width| {
        let fits = **width + GAP <= left;
        left = left.saturating_sub(**width + GAP);
        fits
    });
    let shown = shown.count();
    let used: usize = widths[..shown].iter().map(|width| width + GAP).sum();
    let subject_width = longest.max(SUBJECT.len()).min(columns.saturating_sub(used).max(least));
    let line = |subject: &str, cells: [&str; 6]| {
        let mut line = padded(&begun(subject, subject_width), subject_width);
        for ((cell, width), title) in cells.iter().zip(widths).zip(Columns::TITLES).take(shown) {
            let cell = if title == "COST" {
                format!("{}{cell}", " ".repeat(width - cell.width()))
            } else {
                padded(cell, width)
            };
            line += &" ".repeat(GAP);
            line += &cell;
        }
        line.trim_end().to_owned()
    };
    let mut lines = vec![paint.faint(&line(SUBJECT, Columns::TITLES))];
    lines.extend(rows.iter().map(|(subject, row)| line(subject, row.cells())));
    lines
}
