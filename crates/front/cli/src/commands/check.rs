//! `convoke check`: shows every error of a team file.

use std::io::{self, Write};
use std::path::PathBuf;

use clap::Args;
use convoke_redact::Redactor;
use serde_json::{Value, json};

use crate::conversation::home::Home;
use crate::conversation::project::{
    Project, TEAM_FILE, TeamFileReport, UserConfiguration, find_team_file,
};
use crate::host_environment;
use crate::outcome::{Outcome, UsageError};
use crate::program;
use crate::terminal::stdout;

/// Check a team file and show every error with its line and a fix.
///
/// Errors are written to standard error, and the exit code is 2 if there are any. Your own agents.toml and
/// permissions.toml are checked first. Nothing is run or sent.
#[derive(Debug, Args)]
pub struct Arguments {
    /// The team file [default: convoke.toml here or in a parent directory, up to the repository's root]
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// Also write the errors as JSON to standard output
    #[arg(long)]
    json: bool,
}

/// Runs `convoke check`.
pub fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    let host_environment = host_environment::of_process()?;
    let mut out = stdout();
    let user = UserConfiguration::load(&Home::new(&host_environment)).inspect_err(|error| {
        // A mistake in the user's own files is reported in the same form.
        if let Some(report) = error.downcast_ref::<TeamFileReport>().filter(|_| arguments.json) {
            let _ = write_json(&mut out, &report.file, &errors(report));
        }
    })?;
    let found = arguments.file.clone().or_else(|| find_team_file(&host_environment));
    let Some(path) = found else {
        let program = program::name();
        return Err(UsageError(format!(
            "no {TEAM_FILE} here or in a directory above, up to the repository's root; name a file, or write one with `{program} init`"
        ))
        .into());
    };
    let checked = Project::read(&path, &user);
    if arguments.json {
        let errors = checked.as_ref().err().map(errors).unwrap_or_default();
        write_json(&mut out, &path.display().to_string(), &errors)?;
    } else if let Ok(project) = &checked {
        let count = match project.team.members.len() {
            1 => "1 member".to_owned(),
            count => format!("{count} members"),
        };
        writeln!(out, "{}: no errors, {count}", path.display())?;
    }
    checked?;
    Ok(Outcome::Done)
}

fn write_json(out: &mut impl Write, file: &str, errors: &[Value]) -> io::Result<()> {
    writeln!(out, "{}", json!({"file": file, "errors": errors}))
}

/// Returns the errors as JSON.
fn errors(report: &TeamFileReport) -> Vec<Value> {
    let redactor = Redactor::default();
    let errors = report.errors.errors.iter();
    let json = errors.map(|error| {
        json!({
            "line": error.line,
            "column": error.column,
            "code": error.code.name(),
            "message": redactor.redact(&error.message),
            "fix": redactor.redact(&error.fix),
        })
    });
    json.collect()
}
