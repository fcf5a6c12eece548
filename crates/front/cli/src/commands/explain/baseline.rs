//! `explain --baseline`: compares what agents load in the repository with a baseline that is kept in it.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context;
use convoke_changes::{ChangesError, UsersRepository};
use convoke_core::Diagnostic;
use convoke_explain::Edition;
use convoke_files::git::project_root;
use convoke_files::{Disk, absolute};
use convoke_gate::causes::Changes;
use convoke_gate::regression::PlaceTokens;
use convoke_gate::{
    Baseline, BaselineError, Cause, Comparison, Regression, compare, measure, places,
};
use serde_json::{Value, json};

use super::format::{Format, Found, cell, code, level};
use super::{Explain, directory};
use crate::conversation::change_recorder::git_host;
use crate::diagnostics::show;
use crate::figures::{number, signed};
use crate::findings::{Finding, Place};
use crate::host_environment;
use crate::outcome::{Outcome, UsageError};
use crate::terminal::{Paint, stdout};
use crate::tokens::TextTokens;

/// A repository, its baseline and what is compared with it.
struct Gate {
    root: PathBuf,
    repository: Option<UsersRepository>,
    /// The file as the user names it, and where it is.
    shown: String,
    file: PathBuf,
}

/// Runs `explain --baseline`.
pub(super) fn run(arguments: &Explain, file: &Path) -> anyhow::Result<Outcome> {
    let gate = Gate::find(arguments, file)?;
    let existing = gate.read(arguments.against.as_deref());
    let (baseline, editions) = match existing {
        Ok(baseline) => {
            let editions = chosen(&arguments.agent, &baseline.editions, arguments.update)?;
            (baseline, editions)
        }
        Err(BaselineError::Missing(_)) if arguments.update => {
            let newest = convoke_vendors::newest_editions().into_iter();
            let newest: Vec<Edition> = newest.filter(|it| !it.rules().is_optional).collect();
            (Baseline::default(), chosen(&arguments.agent, &newest, true)?)
        }
        Err(error) => return Err(UsageError(error.to_string()).into()),
    };
    let mut found = places::find(&gate.root)?;
    // A place stays one as long as its directory is there: what it loses must be seen.
    let known = baseline.places().map(|place| gate.root.join(place));
    found.extend(known.filter(|place| place.is_dir()).map(|it| absolute(&gate.root, &it)));
    let tokens = TextTokens::default();
    let measurement = measure(&Disk, &gate.root, &found, &editions, &|text| tokens.count(text));
    if arguments.update {
        let places = measurement.places.len();
        let new = Baseline::of(&measurement, baseline.budgets);
        let has_changed = new.write(&gate.file).context("cannot write the baseline")?;
        let what = if has_changed { "written" } else { "unchanged" };
        writeln!(stdout(), "{}: {what}, {}", gate.shown, directories(places))?;
        return Ok(Outcome::Done);
    }
    let comparison = compare(&baseline, &measurement);
    let causes = gate.causes(&comparison.regressions)?;
    let report = Report { gate: &gate, comparison: &comparison, causes };
    report.write(arguments.format())?;
    let is_worse = !comparison.regressions.is_empty();
    Ok(if is_worse { Outcome::Denied } else { Outcome::Done })
}

/// Returns the editions to measure: those of the baseline, as far as they are asked for.
fn chosen(
    asked: &[String],
    of_baseline: &[Edition],
    is_update: bool,
) -> Result<Vec<Edition>, UsageError> {
    if asked.is_empty() {
        return Ok(of_baseline.to_vec());
    }
    let mut chosen = Vec::new();
    for name in asked {
        let edition = convoke_vendors::edition(name.trim())
            .map_err(|unknown| UsageError(format!("--agent: {unknown}")))?;
        let of_agent = of_baseline.iter().find(|it| it.agent() == edition.agent());
        match of_agent {
            Some(known) if !is_update => chosen.push(*known),
            None if !is_update => {
                return Err(UsageError(format!(
                    "--agent: the baseline has no {}",
                    edition.agent()
                )));
            }
            _ => chosen.push(edition),
        }
    }
    chosen.sort();
    chosen.dedup();
    Ok(chosen)
}

impl Gate {
    fn find(arguments: &Explain, file: &Path) -> anyhow::Result<Self> {
        let here = std::env::current_dir().context("cannot determine the working directory")?;
        let start = directory(&here, &arguments.path, "PATH")?;
        let start = start.canonicalize().unwrap_or(start);
        let host = git_host(&host_environment::of_process()?);
        let repository = match UsersRepository::find(&host, &start) {
            // Only the causes need git.
            Err(ChangesError::NoGit) => None,
            found => found?,
        };
        let root = match &repository {
            Some(repository) => repository.root().to_owned(),
            None => project_root(&Disk, &start, None).unwrap_or(start),
        };
        let shown = file.display().to_string();
        Ok(Self { root, repository, shown, file: absolute(&here, file) })
    }

    /// Reads the baseline, or that of the commit from which the work began.
    fn read(&self, against: Option<&str>) -> Result<Baseline, BaselineError> {
        let Some(revision) = against else { return Baseline::read(&self.file) };
        let failed = |message: String| BaselineError::Io {
            path: self.file.clone(),
            source: std::io::Error::other(message),
        };
        let repository = self.repository.as_ref();
        let repository = repository.ok_or_else(|| failed("--against needs a repository".into()))?;
        let read = || -> anyhow::Result<Option<Vec<u8>>> {
            let base = repository
                .merge_base("HEAD", revision)?
                .with_context(|| format!("--against: HEAD and {revision} have no common commit"))?;
            Ok(repository.file(&base, &self.relative_file())?)
        };
        let bytes = read().map_err(|error| failed(format!("{error:#}")))?;
        let bytes = bytes.ok_or_else(|| BaselineError::Missing(self.file.clone()))?;
        let text = String::from_utf8(bytes).map_err(|error| failed(error.to_string()))?;
        Baseline::parse(Path::new(&self.shown), &text)
    }

    /// Returns the file as it is seen from the root.
    fn relative_file(&self) -> PathBuf {
        let real = self.file.canonicalize().unwrap_or_else(|_| self.file.clone());
        real.strip_prefix(&self.root).map_or(real.clone(), Path::to_owned)
    }

    fn causes(&self, regressions: &[Regression]) -> anyhow::Result<Vec<Cause>> {
        let Some(repository) = self.repository.as_ref().filter(|_| !regressions.is_empty()) else {
            return Ok(vec![Cause::default(); regressions.len()]);
        };
        let changes = Changes::since_baseline(repository, &self.relative_file())?;
        Ok(regressions.iter().map(|it| changes.cause(it)).collect::<Result<_, _>>()?)
    }
}

/// A comparison with the causes of its regressions.
struct Report<'r> {
    gate: &'r Gate,
    comparison: &'r Comparison,
    causes: Vec<Cause>,
}

impl Report<'_> {
    fn write(&self, format: Option<Format>) -> anyhow::Result<()> {
        let mut out = stdout();
        match format {
            Some(Format::Json) => {
                serde_json::to_writer_pretty(&mut out, &self.json())?;
                writeln!(out)?;
            }
            Some(Format::Sarif) => {
                serde_json::to_writer_pretty(&mut out, &self.found().sarif())?;
                writeln!(out)?;
            }
            Some(Format::Github) => out.write_all(self.found().annotations().as_bytes())?,
            Some(Format::Markdown) => out.write_all(self.markdown().as_bytes())?,
            None => {
                out.write_all(self.text(Paint::for_stream(&out)).as_bytes())?;
                show(&self.notes())?;
            }
        }
        Ok(out.flush()?)
    }

    fn regressions(&self) -> impl Iterator<Item = (&Regression, &Cause)> {
        self.comparison.regressions.iter().zip(&self.causes)
    }

    /// Returns the newer editions as notes.
    fn notes(&self) -> Vec<Diagnostic> {
        let newer = self.comparison.newer.iter();
        let note = newer.map(|edition| {
            let message = format!("the rules of {edition} are known; the baseline has older ones");
            Diagnostic::new(convoke_gate::diagnostics::BASELINE_EDITION_NEW, message)
        });
        note.collect()
    }

    fn text(&self, paint: Paint) -> String {
        let mut out = String::new();
        for (regression, cause) in self.regressions() {
            let code = regression.kind.code();
            let _ = writeln!(out, "{}  {}", paint.bad(code.name()), regression.message());
            if let Some(what) = what_did_it(cause) {
                let _ = writeln!(out, "  {what}");
            }
            let _ = writeln!(out, "  → {}", code.fix());
        }
        let (places, worse) = (self.places(), self.comparison.regressions.len());
        let verdict = match worse {
            0 => "nothing got worse".to_owned(),
            1 => "1 regression".to_owned(),
            worse => format!("{worse} regressions"),
        };
        let _ = writeln!(out, "{}: {verdict} in {}", self.gate.shown, directories(places));
        out
    }

    fn places(&self) -> usize {
        let mut places: Vec<&str> = self.comparison.places.iter().map(|it| &*it.place).collect();
        places.dedup();
        places.len()
    }

    fn found(&self) -> Found {
        let mut found = Found::default();
        for (regression, cause) in self.regressions() {
            let code = regression.kind.code();
            found.add_rule(&code);
            let by = cause.commit.as_ref().map(|it| format!(" (since {} {})", it.id, it.subject));
            let titles: Vec<String> = regression.agents.iter().map(ToString::to_string).collect();
            found.findings.push(Finding {
                rule: code.name().to_owned(),
                level: level(code.severity()),
                message: format!("{}{}", regression.message(), by.unwrap_or_default()),
                place: Some(Place {
                    file: cause.file.clone().unwrap_or_else(|| self.gate.shown.clone()),
                    line: cause.line,
                }),
                key: format!(
                    "{} {} {}",
                    regression.subject,
                    titles.join(" "),
                    regression.places.join(" ")
                ),
            });
        }
        for note in self.notes() {
            found.add_rule(&note.code);
            found.findings.push(Finding {
                rule: note.code.name().to_owned(),
                level: level(note.code.severity()),
                key: note.message.clone(),
                message: note.message,
                place: Some(Place { file: self.gate.shown.clone(), line: None }),
            });
        }
        found
    }

    fn markdown(&self) -> String {
        let mut out = String::new();
        let verdict = match self.comparison.regressions.len() {
            0 => "nothing got worse".to_owned(),
            1 => "1 regression".to_owned(),
            worse => format!("{worse} regressions"),
        };
        let _ = writeln!(out, "### What coding agents load here: {verdict}\n");
        for (regression, cause) in self.regressions() {
            let name = code(regression.kind.code().name());
            let _ = write!(out, "- {name}: {}", cell(&regression.message()));
            let by = what_did_it(cause).map(|what| format!(" — {}", cell(&what)));
            let _ = writeln!(out, "{}", by.unwrap_or_default());
        }
        let is_changed = |it: &&PlaceTokens| it.before != Some(it.after);
        let changed: Vec<&PlaceTokens> = self.comparison.places.iter().filter(is_changed).collect();
        if !changed.is_empty() {
            let _ = writeln!(
                out,
                "\n| directory | program | tokens before | after | change |\n|---|---|--:|--:|--:|"
            );
        }
        for PlaceTokens { place, agent, before, after } in changed.iter().take(MAX_ROWS) {
            let (place, title) = (code(place), agent.title());
            let (old, change) = match before {
                Some(before) => (number(*before), signed(*before, *after)),
                None => ("–".to_owned(), "new".to_owned()),
            };
            let _ = writeln!(out, "| {place} | {title} | {old} | {} | {change} |", number(*after));
        }
        if changed.len() > MAX_ROWS {
            let _ = writeln!(out, "\nand {} more rows", changed.len() - MAX_ROWS);
        }
        out
    }

    fn json(&self) -> Value {
        let regressions = self.regressions().map(|(regression, cause)| {
            let commit = cause.commit.as_ref();
            let commit = commit.map(|it| json!({ "id": it.id, "subject": it.subject }));
            json!({
                "code": regression.kind.code().name(),
                "message": regression.message(),
                "subject": regression.subject,
                "agents": regression.agents.iter().map(|it| it.agent()).collect::<Vec<_>>(),
                "directories": regression.places,
                "tokensBefore": regression.tokens.map(|it| it.0),
                "tokensAfter": regression.tokens.map(|it| it.1),
                "file": cause.file,
                "line": cause.line,
                "commit": commit,
                "fix": regression.kind.code().fix(),
            })
        });
        let directories = self.comparison.places.iter().map(|it| {
            json!({
                "directory": it.place,
                "agent": it.agent.agent(),
                "rulesOf": it.agent,
                "tokensBefore": it.before,
                "tokensAfter": it.after,
            })
        });
        json!({
            "version": 1,
            "baseline": self.gate.shown,
            "regressions": regressions.collect::<Vec<_>>(),
            "newEditions": self.comparison.newer,
            "directories": directories.collect::<Vec<_>>(),
        })
    }
}

fn directories(count: usize) -> String {
    if count == 1 {
        "1 directory".to_owned()
    } else {
        format!("{} directories", number(count as u64))
    }
}

/// The maximum number of rows of the table in a comment.
const MAX_ROWS: usize = 50;

/// Names the line and the commit.
fn what_did_it(cause: &Cause) -> Option<String> {
    let file = cause.file.as_ref()?;
    let place = cause.line.map_or_else(|| file.clone(), |line| format!("{file}:{line}"));
    Some(match &cause.commit {
        Some(commit) => format!("{place}, by {} {}", commit.id, commit.subject),
        None => format!("{place}, not committed yet"),
    })
}
