//! `convoke usage`: tokens, cache and dollars of all sessions.

mod own_usage;

use std::io::Write as _;
use std::path::Path;

use clap::{Args, ValueEnum};
use convoke_core::figures::rounded_percent;
use convoke_open::prices::TABLE;
use convoke_open::usage::{self, By, Query, Row, Table};
use convoke_protocol::id::Millis;
use convoke_protocol::usage::Usage;
use jiff::civil::Date;
use jiff::tz::TimeZone;

use self::own_usage::OwnSessions;
use crate::figures::{begun, count, dollars, number, padded};
use crate::other_programs::{HomeArgument, open_index, tell_without_index, with_catalog};
use crate::outcome::Outcome;
use crate::terminal::{Paint, ProgressLine, printable, stderr, stdout, width, write_json};

/// The columns of a bar.
const BAR: usize = 20;

/// Show the tokens, the cache and the cost of all sessions, of every program.
///
/// Each response of a model counts once, however often it was copied by forks and resumed sessions. Costs are at the prices
/// of the providers' APIs; a model of unknown price is not in the sum, and is named.
#[derive(Debug, Args)]
pub struct Arguments {
    /// What to group by; several are separated by commas
    #[arg(long, value_enum, value_delimiter = ',', default_value = "day")]
    by: Vec<ByArgument>,
    /// Count from this day on: 2026-11-01
    #[arg(long, value_name = "DAY", value_parser = parse_day)]
    since: Option<Date>,
    /// Count up to this day
    #[arg(long, value_name = "DAY", value_parser = parse_day)]
    until: Option<Date>,
    /// Count only the sessions of this directory and below
    #[arg(long)]
    here: bool,
    #[command(flatten)]
    home: HomeArgument,
    /// Read all files instead of those that have changed
    #[arg(long)]
    no_index: bool,
    /// Write JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum ByArgument {
    Day,
    Week,
    Month,
    /// The program
    Agent,
    Model,
    Project,
    Session,
}

impl From<ByArgument> for By {
    fn from(by: ByArgument) -> Self {
        match by {
            ByArgument::Day => Self::Day,
            ByArgument::Week => Self::Week,
            ByArgument::Month => Self::Month,
            ByArgument::Agent => Self::Agent,
            ByArgument::Model => Self::Model,
            ByArgument::Project => Self::Project,
            ByArgument::Session => Self::Session,
        }
    }
}

/// Parses a day.
fn parse_day(written: &str) -> Result<Date, String> {
    written.parse().map_err(|_| "a day is written 2026-11-01".to_owned())
}

/// Runs `convoke usage`.
pub fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    let by: Vec<By> = arguments.by.iter().map(|by| By::from(*by)).collect();
    let zone = TimeZone::system();
    let midnight = |day: Date| -> anyhow::Result<Millis> {
        Ok(Millis(day.to_zoned(zone.clone())?.timestamp().as_millisecond()))
    };
    let since = arguments.since.map(midnight).transpose()?;
    let until = arguments.until.map(|day| midnight(day.tomorrow()?)).transpose()?;
    let query = Query { by: by.clone(), since, until, zone };
    let progress = ProgressLine::begin("reading sessions");
    let table = count_all(arguments, &query)?;
    drop(progress);
    if arguments.json {
        write_json(&table.to_json(&by))?;
    } else {
        write_table(&table, &by)?;
    }
    for problem in &table.problems {
        let source = std::error::Error::source(problem);
        let reason = source.map_or_else(String::new, |reason| format!(": {reason}"));
        writeln!(stderr(), "{}{}", printable(&problem.to_string()), printable(&reason))?;
    }
    Ok(Outcome::Done)
}

/// Counts the sessions of other programs and Convoke's own.
fn count_all(arguments: &Arguments, query: &Query) -> anyhow::Result<Table> {
    let here = arguments.here.then(std::env::current_dir).transpose()?;
    let is_here = |at: Option<&str>| {
        here.as_ref().is_none_or(|here| at.is_some_and(|at| Path::new(at).starts_with(here)))
    };
    let index = if arguments.no_index { None } else { open_index(&arguments.home)? };
    with_catalog(&arguments.home, |catalog| {
        let mut found = catalog.list();
        let mut index = index;
        if let Some(index) = index.as_mut().filter(|_| found.problems.is_empty()) {
            index.prune(&found.sessions)?;
        }
        let mut own = OwnSessions::default();
        if arguments.home.is_own() {
            own = own_usage::read(&found.sessions, &catalog.prices)?;
            own.sessions.retain(|session| is_here(session.directory.as_deref()));
        }
        found.sessions.retain(|session| is_here(session.cwd.as_deref()));
        let counted = usage::responses(catalog, &found.sessions, index.as_mut());
        let (mut counted, problems) = counted.or_else(|error| {
            tell_without_index(&error)?;
            Ok::<_, anyhow::Error>(usage::responses(catalog, &found.sessions, None)?)
        })?;
        let sessions = found.sessions.len() + own.sessions.len();
        counted.extend(own.sessions.into_iter().map(|session| session.counted));
        let mut table = usage::table(counted, query);
        table.sessions = sessions;
        table.problems = problems;
        table.problems.extend(found.problems);
        Ok(table)
    })
}

fn write_table(table: &Table, by: &[By]) -> anyhow::Result<()> {
    let mut out = stdout();
    let (paint, columns) = (Paint::for_stream(&out), width(&out));
    if table.rows.is_empty() {
        writeln!(out, "No requests were counted in {}.", count(table.sessions as u64, "session"))?;
        return Ok(());
    }
    let names: Vec<String> =
        table.rows.iter().map(|row| printable(&row.key.join("  ")).into_owned()).collect();
    let widest = names.iter().map(String::len).max().unwrap_or(0).clamp(5, 44);
    let largest = table.rows.iter().map(|row| total(row.usage)).max().unwrap_or(1).max(1);
    let title = by.iter().map(|by| by.field()).collect::<Vec<_>>().join("  ");
    let head = format!(
        "{}  {:>8}  {:>13}  {:>7}  {:>11}  {:>10}",
        padded(&title, widest),
        "requests",
        "input",
        "cached",
        "output",
        "cost"
    );
    writeln!(out, "{}", paint.faint(&head))?;
    for (row, name) in table.rows.iter().zip(&names) {
        let mut line = figures(&begun(name, widest), widest, row);
        if columns > line.len() + BAR + 2 {
            let filled = usize::try_from(total(row.usage) * BAR as u64 / largest).unwrap_or(BAR);
            line += "  ";
            line += &"█".repeat(filled.max(1));
        }
        writeln!(out, "{line}")?;
    }
    writeln!(out, "{}", paint.strong(&figures("total", widest, &table.total)))?;
    let sessions = count(table.sessions as u64, "session");
    let mut note = format!("{sessions}; at API prices ({TABLE})");
    if table.total.cost.unknown > 0 {
        let unknown = count(table.total.cost.unknown, "request");
        note = format!("{note}; the price of {unknown} is unknown and not in the sum");
    }
    writeln!(out, "{}", paint.faint(&note))?;
    Ok(())
}

fn total(usage: Usage) -> u64 {
    usage.input.saturating_add(usage.output)
}

fn figures(name: &str, widest: usize, row: &Row) -> String {
    let cost = match (row.cost.known, row.cost.unknown) {
        (0, _) => "unknown".to_owned(),
        (_, 0) => dollars(row.cost.amount),
        _ => format!("{}+", dollars(row.cost.amount)),
    };
    format!(
        "{}  {:>8}  {:>13}  {:>7}  {:>11}  {cost:>10}",
        padded(name, widest),
        number(row.requests),
        number(row.usage.input),
        rounded_percent(row.usage.cached, row.usage.input.max(1)),
        number(row.usage.output),
    )
}
