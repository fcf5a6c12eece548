//! `explain --all-dirs`: every directory of a repository in which somebody would start an agent.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;

use convoke_core::Severity;
use convoke_explain::{DirectoryReport, Session, explain_each};
use convoke_files::Disk;
use convoke_gate::places;
use serde_json::json;

use super::format::{Format, Found, relative};
use super::installed::Installed;
use super::{Explain, chosen, format, session};
use crate::figures::{number, padded};
use crate::outcome::Outcome;
use crate::terminal::stdout;
use crate::tokens::TextTokens;

/// Runs `explain --all-dirs`.
pub(super) fn run(arguments: &Explain) -> anyhow::Result<Outcome> {
    let here = session(arguments)?;
    let top = here.cwd.canonicalize().unwrap_or_else(|_| here.cwd.clone());
    let places = places::find(&top)?;
    let in_place = |place| Session { cwd: place, ..here.clone() };
    let sessions: Vec<Session> = places.into_iter().map(in_place).collect();
    let installed = Installed::find();
    let editions = chosen(&arguments.agent, &installed)?;
    let editions: Vec<_> = editions.into_iter().map(|(edition, _)| edition).collect();
    let tokens = TextTokens::default();
    let explained = explain_each(&Disk, &sessions, &editions, &|mut report| {
        let tokens = of_agents(&report, &tokens);
        for file in report.agents.iter_mut().flat_map(|agent| &mut agent.loaded) {
            file.text = String::new();
        }
        Explained { report, tokens }
    });
    write(arguments.format(), &top, &explained)?;
    let given = explained.iter().flat_map(|it| &it.report.agents).flat_map(|it| &it.diagnostics);
    Ok(arguments.deny.outcome(given.map(|diagnostic| diagnostic.code.clone())))
}

/// The report on a directory, and the tokens that each program loads there.
struct Explained {
    report: DirectoryReport,
    tokens: Vec<u64>,
}

fn of_agents(report: &DirectoryReport, tokens: &TextTokens) -> Vec<u64> {
    let count = |agent: &convoke_explain::AgentReport| {
        let loaded = agent.loaded.iter().filter(|file| !file.is_pasted);
        loaded.map(|file| tokens.count(&file.text)).sum()
    };
    report.agents.iter().map(count).collect()
}

fn write(format: Option<Format>, top: &Path, explained: &[Explained]) -> anyhow::Result<()> {
    let mut out = std::io::BufWriter::new(stdout());
    match format {
        Some(Format::Json) => {
            let directories = explained.iter().map(|it| &it.report).collect::<Vec<_>>();
            let top = top.to_string_lossy();
            let report = json!({ "version": 1, "top": top, "directories": directories });
            serde_json::to_writer_pretty(&mut out, &report)?;
            writeln!(out)?;
        }
        Some(Format::Sarif) => {
            serde_json::to_writer_pretty(&mut out, &found(explained).sarif())?;
            writeln!(out)?;
        }
        Some(Format::Github) => out.write_all(found(explained).annotations().as_bytes())?,
        Some(Format::Markdown) => out.write_all(markdown(top, explained).as_bytes())?,
        None => out.write_all(text(top, explained).as_bytes())?,
    }
    Ok(out.flush()?)
}

/// Returns the findings of all directories; what several have is one.
fn found(explained: &[Explained]) -> Found {
    let mut found = Found::default();
    for Explained { report, .. } in explained {
        found.add_report(report);
    }
    found.without_repetitions()
}

fn problems(agent: &convoke_explain::AgentReport) -> usize {
    agent.diagnostics.iter().filter(|it| it.code.severity() != Severity::Note).count()
}

fn text(top: &Path, explained: &[Explained]) -> String {
    let name = |it: &Explained| relative(top, &it.report.cwd);
    let width = explained.iter().map(|it| name(it).chars().count()).max().unwrap_or_default();
    let mut out = String::new();
    for it in explained {
        let _ = write!(out, "{}", padded(&name(it), width.max("directory".len())));
        for (agent, tokens) in it.report.agents.iter().zip(&it.tokens) {
            let title = agent.edition.title();
            let lost = match problems(agent) {
                0 => String::new(),
                problems => format!(" ✗ {problems}"),
            };
            let files = agent.loaded.len();
            let _ = write!(
                out,
                "  {}",
                padded(&format!("{title} {files} files {} tok{lost}", number(*tokens)), 36)
            );
        }
        out.truncate(out.trim_end().len());
        out.push('\n');
    }
    let count = explained.len();
    let _ =
        writeln!(out, "{count} directories; tokens by o200k_base; `convoke explain DIR` shows one");
    out
}

fn markdown(top: &Path, explained: &[Explained]) -> String {
    let mut out = String::from(
        "| directory | program | files | tokens | problems |\n|---|---|--:|--:|--:|\n",
    );
    for it in explained {
        let place = format::code(&relative(top, &it.report.cwd));
        for (agent, tokens) in it.report.agents.iter().zip(&it.tokens) {
            let (title, files) = (agent.edition.title(), agent.loaded.len());
            let (tokens, problems) = (number(*tokens), problems(agent));
            let _ = writeln!(out, "| {place} | {title} | {files} | {tokens} | {problems} |");
        }
    }
    let findings = found(explained).markdown();
    if !findings.is_empty() {
        let _ = write!(out, "\n{findings}");
    }
    out
}
