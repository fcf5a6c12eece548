//! `convoke explain`: shows which instruction files Claude Code, Gemini CLI and Codex load here.

mod all_directories;
mod baseline;
mod findings;
mod fix;
pub(in crate::commands) mod format;
mod installed;
mod skills_view;
mod verified;
mod view;

use std::collections::BTreeMap;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use convoke_explain::{DirectoryReport, Edition, Session};
use convoke_files::clock::since_1970;
use convoke_files::{Disk, absolute};

use crate::conversation::home::Home;
use crate::diagnostics::Deny;
use crate::host_environment;
use crate::outcome::{Outcome, UsageError};
use crate::terminal::{Paint, rows, stdout};
use crate::tokens::TextTokens;

use format::{Format, Found};
use installed::Installed;
use view::View;

/// The rows of a terminal below which the report is brief.
const FEW_ROWS: usize = 40;

/// Show which instruction files and skills each agent loads here.
///
/// Shows also what is cut, and how to fix it. Nothing is run and nothing is sent: the rules were measured on the real programs, and only the
/// files that decide are read. --verify runs the installed programs offline and compares.
#[derive(Debug, Args)]
#[command(after_help = "Diagnostic codes and what to do about each: `convoke docs diagnostics`")]
pub struct Explain {
    /// The working directory of the agents
    #[arg(default_value = ".")]
    path: PathBuf,

    /// The agents: claude, gemini, codex, or one of claude@2.1.197, claude@2.1.325, codex@0.98, codex@0.166
    /// [default: the installed versions, else the newest known]
    #[arg(long, value_name = "AGENT", value_delimiter = ',')]
    agent: Vec<String>,

    /// The directory to use as the user's home
    #[arg(long, value_name = "DIR")]
    home: Option<PathBuf>,

    /// A file that the agent has read: some instructions are loaded only then; may be repeated
    #[arg(long, value_name = "FILE")]
    reads: Vec<PathBuf>,

    /// Run the installed programs offline, in private homes, and compare what they send with the report. The
    /// result is remembered until the program or one of the files changes.
    #[arg(long, conflicts_with = "reads")]
    verify: bool,

    /// Show the files, and each problem in a line [default on a terminal of less than 40 lines]
    #[arg(long, conflicts_with_all = ["format", "json", "full"])]
    brief: bool,

    /// Show everything: what is kept out and why, skills, fixes
    #[arg(long)]
    full: bool,

    /// Write the report in another format
    #[arg(long, value_name = "FORMAT", value_enum)]
    format: Option<Format>,

    /// The same as --format json
    #[arg(long, conflicts_with = "format")]
    json: bool,

    /// Compare the whole repository with this file, and exit with 3 if something got worse. The home and the machine do not count
    #[arg(long, value_name = "FILE", conflicts_with_all = ["verify", "reads", "home", "arguments"])]
    baseline: Option<PathBuf>,

    /// Write the baseline: accept what is loaded now
    #[arg(long, requires = "baseline")]
    update: bool,

    /// Read the baseline as it was where the work branched off this revision, which the work cannot change
    #[arg(long, value_name = "REVISION", requires = "baseline", conflicts_with = "update")]
    against: Option<String>,

    /// Explain every directory here in which somebody would start an agent: members of workspaces, and directories with
    /// instruction files
    #[arg(long, conflicts_with_all = ["verify", "baseline", "reads"])]
    all_dirs: bool,

    /// Show the links and names that would remove problems, as a diff; --yes makes them, and a second report proves that the
    /// problems are gone
    #[arg(long, conflicts_with_all = ["verify", "baseline", "all_dirs", "format", "json"])]
    fix: bool,

    /// Make the changes of --fix
    #[arg(long, requires = "fix")]
    yes: bool,

    #[command(flatten)]
    deny: Deny,

    /// The command-line arguments of the agents; each uses those that it knows
    #[arg(last = true, value_name = "AGENT_ARGS")]
    arguments: Vec<String>,
}

impl Explain {
    /// Returns the format, if it is not that for people.
    fn format(&self) -> Option<Format> {
        self.format.or(self.json.then_some(Format::Json))
    }

    fn is_brief(&self) -> bool {
        self.brief || !self.full && rows(&stdout()).is_some_and(|rows| rows < FEW_ROWS)
    }
}

/// Runs the command.
pub fn run(arguments: &Explain) -> anyhow::Result<Outcome> {
    match &arguments.baseline {
        Some(file) => baseline::run(arguments, file),
        None if arguments.all_dirs => all_directories::run(arguments),
        None if arguments.fix => fix::run(arguments),
        None => explain_one(arguments),
    }
}

fn explain_one(arguments: &Explain) -> anyhow::Result<Outcome> {
    let session = session(arguments)?;
    let installed = Installed::find();
    let mut report = explain(&session, &arguments.agent, &installed)?;
    let host_environment = host_environment::of_process()?;
    let skipped = if arguments.verify {
        if report.agents.len() > 1 && !arguments.arguments.is_empty() {
            let one = "--verify: arguments of an agent can be verified with one --agent only";
            return Err(UsageError(one.into()).into());
        }
        verified::verify_all(&mut report, &session, &installed, &host_environment)?
    } else {
        verified::recall(&mut report, &session, &Home::new(&host_environment));
        verified::Skipped::new()
    };

    let mut out = BufWriter::new(stdout());
    match arguments.format() {
        Some(Format::Json) => {
            serde_json::to_writer_pretty(&mut out, &report).context("cannot write the report")?;
            writeln!(out)?;
        }
        Some(Format::Sarif) => {
            let log = Found::in_report(&report).sarif();
            serde_json::to_writer_pretty(&mut out, &log).context("cannot write the report")?;
            writeln!(out)?;
        }
        Some(Format::Github) => {
            out.write_all(Found::in_report(&report).annotations().as_bytes())?;
        }
        Some(Format::Markdown) => {
            out.write_all(format::markdown(&report, &TextTokens::default()).as_bytes())?;
        }
        None => {
            let view = View {
                report: &report,
                home: &session.home,
                installed: &installed,
                paint: Paint::for_stream(&stdout()),
                width: view::width(&stdout()),
                is_brief: arguments.is_brief(),
            };
            out.write_all(view.render().as_bytes())?;
            let verification = verified::section(&report, &skipped, Paint::for_stream(&stdout()));
            out.write_all(verification.as_bytes())?;
        }
    }
    out.flush()?;
    let given = report.agents.iter().flat_map(|agent| &agent.diagnostics);
    let differs = report.agents.iter().any(|agent| agent.verified == Some(false));
    Ok(match arguments.deny.outcome(given.map(|diagnostic| diagnostic.code.clone())) {
        Outcome::Done if arguments.verify && differs => Outcome::Failed,
        outcome => outcome,
    })
}

/// Returns the files that agents load in a directory, by default those of the installed agents, with earlier
/// verification results.
pub(in crate::commands) fn report(
    path: PathBuf,
    agent: Vec<String>,
) -> anyhow::Result<DirectoryReport> {
    let arguments = Explain {
        path,
        agent,
        home: None,
        reads: Vec::new(),
        verify: false,
        brief: false,
        full: true,
        format: None,
        json: true,
        baseline: None,
        update: false,
        against: None,
        all_dirs: false,
        fix: false,
        yes: false,
        deny: Deny::default(),
        arguments: Vec::new(),
    };
    let session = session(&arguments)?;
    let mut report = explain(&session, &arguments.agent, &Installed::find())?;
    verified::recall(&mut report, &session, &Home::new(&host_environment::of_process()?));
    Ok(report)
}

/// Explains the chosen agents under the versions that are installed.
fn explain(
    session: &Session,
    agents: &[String],
    installed: &Installed,
) -> anyhow::Result<DirectoryReport> {
    let chosen = chosen(agents, installed)?;
    let editions: Vec<_> = chosen.iter().map(|(edition, _)| *edition).collect();
    let mut report = convoke_explain::explain(&Disk, session, &editions);
    for (agent, (_, version)) in report.agents.iter_mut().zip(chosen) {
        if let Some(version) = version {
            version.clone_into(&mut agent.version);
        }
    }
    Ok(report)
}

fn session(arguments: &Explain) -> Result<Session, UsageError> {
    let here = std::env::current_dir()
        .map_err(|error| UsageError(format!("cannot determine the working directory: {error}")))?;
    let cwd = directory(&here, &arguments.path, "PATH")?;
    let home = match &arguments.home {
        Some(home) => directory(&here, home, "--home")?,
        None => std::env::home_dir()
            .filter(|home| home.is_absolute())
            .map(|home| absolute(&here, &home))
            .ok_or_else(|| UsageError("HOME is not set; pass --home DIR".into()))?,
    };
    let home = home.canonicalize().unwrap_or(home);
    let mut session = Session::new(cwd, home);
    let variables = convoke_vendors::loading_variables().filter_map(|name| {
        let value = std::env::var(name).ok()?;
        Some((name.to_owned(), value))
    });
    session.variables = variables.collect::<BTreeMap<_, _>>();
    session.arguments.clone_from(&arguments.arguments);
    session.now_ms = Some(since_1970().as_secs_f64() * 1000.0);
    session.reads = arguments.reads.iter().map(|file| absolute(&here, file)).collect();
    Ok(session)
}

fn directory(here: &Path, path: &Path, what: &str) -> Result<PathBuf, UsageError> {
    let full = absolute(here, path);
    let shown = path.display();
    match std::fs::metadata(&full) {
        Ok(found) if found.is_dir() => Ok(full),
        Ok(_) => Err(UsageError(format!(
            "{what}: {shown} is not a directory; pass the working directory of the agents"
        ))),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            Err(UsageError(format!("{what}: {shown} does not exist")))
        }
        Err(error) => Err(UsageError(format!("{what}: {shown} cannot be opened: {error}"))),
    }
}

/// Returns the editions to explain, each with the installed version that it was chosen for.
fn chosen<'a>(
    names: &[String],
    installed: &'a Installed,
) -> Result<Vec<(Edition, Option<&'a str>)>, UsageError> {
    let of_installed = |edition| (installed.nearest(edition), installed.version(edition));
    if names.is_empty() {
        let is_shown = |it: &Edition| !it.rules().is_optional || installed.version(*it).is_some();
        let shown = convoke_vendors::newest_editions().into_iter().filter(is_shown);
        return Ok(shown.map(of_installed).collect());
    }
    let mut chosen: Vec<(Edition, Option<&str>)> = Vec::new();
    for name in names {
        let named = convoke_vendors::edition(name.trim());
        let edition = named.map_err(|unknown| UsageError(format!("--agent: {unknown}")))?;
        let choice = if name.contains('@') { (edition, None) } else { of_installed(edition) };
        if !chosen.iter().any(|(edition, _)| *edition == choice.0) {
            chosen.push(choice);
        }
    }
    Ok(chosen)
}
