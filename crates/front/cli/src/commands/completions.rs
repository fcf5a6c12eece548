//! `convoke completions` and `convoke man`: completions for shells, and manual pages.

use std::ffi::OsStr;
use std::io::Write as _;
use std::path::PathBuf;

use anyhow::Context as _;
use clap::builder::StyledStr;
use clap::{Args, CommandFactory, ValueEnum};
use clap_complete::CompletionCandidate;
use clap_complete::env::Shells;
use convoke_agent::clock::now;
use convoke_session::Store as _;

use crate::conversation::home::Home;
use crate::conversation::project::{Project, UserConfiguration, find_team_file};
use crate::conversation::sessions::{WorkingDirectory, open_store};
use crate::figures::{age, count};
use crate::host_environment;
use crate::outcome::Outcome;
use crate::terminal::{printable, stdout};

/// The variable with which a shell requests completions.
const VARIABLE: &str = "COMPLETE";
/// The maximum number of sessions that are offered.
const SESSIONS: usize = 20;

/// Print a script that completes commands, options, member names and session ids in a shell.
///
/// For bash, add this line to ~/.bashrc: source <(convoke completions bash). For zsh, to ~/.zshrc: source
/// <(convoke completions zsh). For fish: convoke completions fish > ~/.config/fish/completions/convoke.fish
#[derive(Debug, Args)]
pub struct Completions {
    /// The shell
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

/// A shell whose completions are supported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Shell {
    Bash,
    Zsh,
    Fish,
}

/// Runs `convoke completions`.
pub fn completions(arguments: &Completions) -> anyhow::Result<Outcome> {
    let name = match arguments.shell {
        Shell::Bash => "bash",
        Shell::Zsh => "zsh",
        Shell::Fish => "fish",
    };
    let shells = Shells::builtins();
    let completer = shells.completer(name).context("the shell is not supported")?;
    let mut script = Vec::new();
    completer.write_registration(VARIABLE, "convoke", "convoke", "convoke", &mut script)?;
    stdout().verbatim().write_all(&script)?;
    Ok(Outcome::Done)
}

/// Answers a shell's request for completions. Returns whether there was one.
pub fn answer_shell<C: CommandFactory>() -> bool {
    let arguments = std::env::args_os();
    let cwd = std::env::current_dir().ok();
    clap_complete::CompleteEnv::with_factory(C::command)
        .var(VARIABLE)
        .try_complete(arguments, cwd.as_deref())
        .unwrap_or_else(|error| {
            let _ = error.print();
            true
        })
}

/// Completes the name of a member.
pub fn members(typed: &OsStr) -> Vec<CompletionCandidate> {
    find_members()
        .unwrap_or_default()
        .into_iter()
        .filter(|name| begins(name, typed))
        .map(Into::into)
        .collect()
}

fn find_members() -> Option<Vec<String>> {
    let host_environment = host_environment::of_process().ok()?;
    let user = UserConfiguration::load(&Home::new(&host_environment)).ok()?;
    let project = Project::read(&find_team_file(&host_environment)?, &user).ok()?;
    let names = project.team.members.into_iter().map(|member| member.name.to_string());
    Some(names.filter(|name| printable(name) == *name).collect())
}

/// Completes the id of a session of this directory, or `last`.
pub fn sessions(typed: &OsStr) -> Vec<CompletionCandidate> {
    find_sessions()
        .unwrap_or_default()
        .into_iter()
        .filter(|(id, _)| begins(id, typed))
        .map(described)
        .collect()
}

fn find_sessions() -> Option<Vec<(String, String)>> {
    let host_environment = host_environment::of_process().ok()?;
    let here = WorkingDirectory::find(&host_environment);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
    let sessions = runtime
        .block_on(async { open_store(&host_environment).await.ok()?.sessions().await.ok() })?;
    let mut found = vec![("last".to_owned(), "the last session of this directory".to_owned())];
    for session in sessions.iter().filter(|session| here.has(session)).take(SESSIONS) {
        let age = age(now().since(session.updated_at));
        found.push((session.id.to_string(), format!("{age}, {}", count(session.turns, "turn"))));
    }
    Some(found)
}

fn begins(name: &str, typed: &OsStr) -> bool {
    typed.to_str().is_some_and(|typed| name.starts_with(typed))
}

fn described((value, help): (String, String)) -> CompletionCandidate {
    CompletionCandidate::new(value).help(Some(StyledStr::from(help)))
}

/// Print the manual page of the command, or write those of all commands into a directory.
#[derive(Debug, Args)]
pub struct Man {
    /// Write one page for each command into this directory
    #[arg(long, short, value_name = "DIR")]
    output: Option<PathBuf>,
}

/// Runs `convoke man`.
pub fn man<C: CommandFactory>(arguments: &Man) -> anyhow::Result<Outcome> {
    let command = C::command();
    let Some(directory) = &arguments.output else {
        let mut page = Vec::new();
        clap_mangen::Man::new(command).render(&mut page)?;
        stdout().verbatim().write_all(&page)?;
        return Ok(Outcome::Done);
    };
    std::fs::create_dir_all(directory)
        .with_context(|| format!("cannot create {}", directory.display()))?;
    clap_mangen::generate_to(command, directory)
        .with_context(|| format!("cannot write into {}", directory.display()))?;
    Ok(Outcome::Done)
}
