//! `convoke trust`: which directories may choose what runs on this machine.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;
use convoke_agent::turn_input::Trust;
use convoke_redact::is_secret_name;
use serde_json::json;

use crate::conversation::home::Home;
use crate::conversation::project::{Project, TEAM_FILE};
use crate::conversation::trust::TrustedDirectories;
use crate::host_environment;
use crate::outcome::{Outcome, UsageError};
use crate::terminal::{Paint, stdout};

/// Lets the team file of a directory choose what runs: commands, arguments, environment variables,
/// working directories, permissions, and instruction files elsewhere.
///
/// Trust is for this one directory, not for what lies below it.
#[derive(Debug, Args)]
pub struct Arguments {
    /// The directory of the team file; by default this one
    #[arg(value_name = "DIR")]
    directory: Option<PathBuf>,
    /// Trust it no longer
    #[arg(long)]
    revoke: bool,
    /// List the directories that are trusted, and change nothing
    #[arg(long, conflicts_with_all = ["revoke", "directory"])]
    list: bool,
    /// Write JSON
    #[arg(long)]
    json: bool,
}

/// Runs `convoke trust`.
pub fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    let host_environment = host_environment::of_process()?;
    let home = Home::of(&host_environment);
    let mut trusted = TrustedDirectories::load(&home)?;
    if arguments.list {
        return list(&trusted, arguments);
    }
    let given = arguments.directory.as_deref().unwrap_or(&host_environment.cwd);
    let directory = real_directory(given, arguments)?;
    let changed =
        if arguments.revoke { trusted.remove(&directory) } else { trusted.add(directory.clone()) };
    if changed {
        trusted.save(&home)?;
    }
    let is_trusted = trusted.trust_of(&directory) == Trust::Trusted;
    let mut out = stdout();
    if arguments.json {
        let answer = json!({"directory": directory, "trusted": is_trusted, "changed": changed});
        writeln!(out, "{answer}")?;
        return Ok(Outcome::Done);
    }
    let shown = directory.display();
    let sentence = match (is_trusted, changed) {
        (true, true) => format!("{shown} is trusted now."),
        (true, false) => format!("{shown} was trusted already."),
        (false, true) => format!("{shown} is trusted no longer."),
        (false, false) => format!("{shown} was not trusted."),
    };
    writeln!(out, "{sentence}")?;
    if is_trusted {
        let paint = Paint::for_stream(&out);
        for line in what_it_chooses(&directory, &trusted)? {
            writeln!(out, "  {}", paint.warning(&line))?;
        }
    }
    Ok(Outcome::Done)
}

fn list(trusted: &TrustedDirectories, arguments: &Arguments) -> anyhow::Result<Outcome> {
    let mut out = stdout();
    if arguments.json {
        let directories: Vec<&Path> = trusted.iter().collect();
        writeln!(out, "{}", json!({"version": 1, "directories": directories}))?;
        return Ok(Outcome::Done);
    }
    if trusted.iter().next().is_none() {
        writeln!(out, "No directory is trusted.")?;
    }
    for directory in trusted.iter() {
        writeln!(out, "{}", directory.display())?;
    }
    Ok(Outcome::Done)
}

/// Returns the real path of a directory. One that is gone can still be revoked by its full path.
fn real_directory(given: &Path, arguments: &Arguments) -> Result<PathBuf, UsageError> {
    let shown = given.display();
    match given.canonicalize() {
        Ok(path) if path.is_dir() => Ok(path),
        Ok(_) => {
            Err(UsageError(format!("{shown} is no directory; name the directory of the team file")))
        }
        Err(_) if arguments.revoke && given.is_absolute() => Ok(given.to_owned()),
        Err(error) => Err(UsageError(format!("cannot read {shown}: {error}"))),
    }
}

/// Tells whether a file of the project really lies in it.
fn is_within(directory: &Path, file: &str) -> bool {
    directory.join(file).canonicalize().is_ok_and(|path| path.starts_with(directory))
}

/// Says what the team file there chooses that nobody else's may.
fn what_it_chooses(
    directory: &Path,
    trusted: &TrustedDirectories,
) -> Result<Vec<String>, UsageError> {
    let path = directory.join(TEAM_FILE);
    if !path.is_file() {
        return Ok(vec![format!("There is no {TEAM_FILE} in it yet.")]);
    }
    let project = Project::read(&path, trusted)?;
    let mut lines = Vec::new();
    for member in &project.team.members {
        let Some(settings) = member.agent() else { continue };
        let name = &member.name;
        let mut chooses = |setting: &str, value: String| {
            lines.push(format!("{name} may use {setting} = {value}"));
        };
        if let Some(command) = &settings.command {
            chooses("command", format!("{command:?}"));
        }
        if !settings.args.is_empty() {
            chooses("args", format!("{:?}", settings.args));
        }
        for (variable, value) in &settings.env {
            let is_secret = is_secret_name(variable);
            let shown = if is_secret { "[redacted]".to_owned() } else { format!("{value:?}") };
            chooses(&format!("env.{variable}"), shown);
        }
        if let Some(cwd) = &settings.cwd {
            chooses("cwd", format!("{cwd:?}"));
        }
        if let Some(address) = &settings.base_url {
            chooses("base-url", format!("{address:?}"));
        }
        if let Some(variable) = &settings.key_env {
            chooses("key-env", format!("{variable:?}"));
        }
        if let Some(tools) = settings.tools.as_ref().filter(|word| *word != "none") {
            chooses("tools", format!("{tools:?}"));
        }
        let outside = |file: &&String| !is_within(&project.directory, file);
        if let Some(file) = settings.instructions_file.as_ref().filter(outside) {
            chooses("instructions-file", format!("{file:?}"));
        }
        if let Some(sandbox) = settings.sandbox.as_ref().filter(|word| *word != "read-only") {
            chooses("sandbox", format!("{sandbox:?}"));
        }
    }
    Ok(lines)
}
