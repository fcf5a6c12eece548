//! `explain --fix`: makes the changes that remove problems, and proves by a second report that they are gone.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::os::unix::fs::symlink;
use std::path::Path;

use anyhow::Context;
use convoke_explain::DirectoryReport;
use convoke_explain::fix::{FileChange, Fix, fixes};
use convoke_files::{Disk, FileKind, Files as _};

use super::format::relative;
use super::installed::Installed;
use super::{Explain, explain, session};
use crate::outcome::Outcome;
use crate::terminal::{printable, stdout};

/// Runs `explain --fix`.
pub(super) fn run(arguments: &Explain) -> anyhow::Result<Outcome> {
    let session = session(arguments)?;
    let installed = Installed::find();
    let report = explain(&session, &arguments.agent, &installed)?;
    let root = report.repository.clone().unwrap_or_else(|| report.cwd.clone());
    let planned = fixes(&Disk, &report);
    let mut out = stdout();
    if planned.is_empty() {
        writeln!(out, "nothing that can be fixed by links and names")?;
        return Ok(Outcome::Done);
    }
    for fix in &planned {
        out.write_all(shown(&root, fix).as_bytes())?;
    }
    if !arguments.yes {
        writeln!(out, "nothing was changed; --yes applies this")?;
        return Ok(Outcome::Done);
    }
    for fix in &planned {
        let path = fix.change.path().display();
        apply(&fix.change).with_context(|| format!("cannot change {path}"))?;
    }
    let after = explain(&session, &arguments.agent, &installed)?;
    let left: Vec<&Fix> = planned.iter().filter(|fix| has_problem(&after, fix)).collect();
    for fix in &left {
        writeln!(out, "{} is still there for {}", fix.code, fix.agent)?;
    }
    let gone = planned.len() - left.len();
    writeln!(out, "{gone} of {} problems are gone", planned.len())?;
    Ok(if left.is_empty() { Outcome::Done } else { Outcome::Failed })
}

/// Returns whether a report has the problem that a change was to remove.
fn has_problem(report: &DirectoryReport, fix: &Fix) -> bool {
    let agents = report.agents.iter().filter(|agent| agent.agent == fix.agent);
    let mut diagnostics = agents.flat_map(|agent| &agent.diagnostics);
    diagnostics.any(|it| it.code == fix.code && it.path == fix.concerns)
}

/// Makes a change. Nothing that is there is overwritten.
fn apply(change: &FileChange) -> io::Result<()> {
    match change {
        FileChange::Link { path, target } => {
            if let Some(parent) = path.parent() {
                std::fs::create_dir_all(parent)?;
            }
            symlink(target, path)
        }
        FileChange::Rename { from, to } => {
            if Disk.entry_kind(to).is_ok() {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            std::fs::rename(from, to)
        }
        FileChange::RemoveBlank { path } => {
            if !Disk.read_text(path, FileKind::Instructions)?.trim().is_empty() {
                return Err(io::Error::other("it is not blank any more"));
            }
            std::fs::remove_file(path)
        }
    }
}

/// Shows a change as a diff in the form of git.
fn shown(root: &Path, fix: &Fix) -> String {
    let name = |path: &Path| printable(&relative(root, path)).into_owned();
    let mut out = format!("# {}: {}\n", fix.agent, fix.code);
    let _ = match &fix.change {
        FileChange::Link { path, target } => {
            let (path, target) = (name(path), printable(&target.to_string_lossy()).into_owned());
            writeln!(
                out,
                "diff --git a/{path} b/{path}\nnew file mode 120000\n--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+{target}\n\\ No newline at end of file"
            )
        }
        FileChange::Rename { from, to } => {
            let (from, to) = (name(from), name(to));
            writeln!(
                out,
                "diff --git a/{from} b/{to}\nsimilarity index 100%\nrename from {from}\nrename to {to}"
            )
        }
        FileChange::RemoveBlank { path } => {
            let path = name(path);
            writeln!(out, "diff --git a/{path} b/{path}\ndeleted file mode 100644")
        }
    };
    out
}
