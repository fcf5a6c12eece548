//! `convoke check`: shows every error of a team file.

use std::io::Write as _;
use std::path::PathBuf;

use clap::Args;
use convoke_redact::Redactor;
use serde_json::{Value, json};

use crate::conversation::home::Home;
use crate::conversation::project::{
    Project, TEAM_FILE, TeamFileReport, UserConfiguration, find_team_file,
};
use crate::host_environment;
use crate::outcome::Outcome;
use crate::terminal::stdout;

/// Check a team file and show every error with its line and a fix.
///
/// Errors are written to standard error, and the exit code is 2 if there are any. Nothing is run or sent.
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
    let user = UserConfiguration::load(&Home::of(&host_environment))?;
    let found = || find_team_file(&host_environment).unwrap_or_else(|| TEAM_FILE.into());
    let path = arguments.file.clone().unwrap_or_else(found);
    let checked = Project::read(&path, &user);
    let mut out = stdout();
    if arguments.json {
        let errors = checked.as_ref().err().map(errors).unwrap_or_default();
        writeln!(out, "{}", json!({"file": path.display().to_string(), "errors": errors}))?;
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

/// Returns the errors as JSON.
fn errors(report: &TeamFileReport) -> Vec<Value> {
    let redactor = Redactor::default();
    let errors = report.errors.errors.iter();
    let json = errors.map(|error| {
        json!({
            "line": error.line,
            "column": error.column,
            "code": error.code.as_str(),
            "message": redactor.redact(&error.message),
            "fix": redactor.redact(&error.fix),
        })
    });
    json.collect()
}
