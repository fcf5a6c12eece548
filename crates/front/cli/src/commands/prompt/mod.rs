//! `convoke prompt`: shows the exact prompt that a member would get now.

mod conversation;
mod member;
mod output;
mod stored;

use std::path::PathBuf;

use anyhow::Context as _;
use clap::{ArgGroup, Args};
use clap_complete::ArgValueCompleter;
use convoke_agent::adapter::escaping;
use convoke_core::{AgentContext, AssemblerOutput, ContextManager, ContextOptions, Hooks};

use self::output::PromptOutput;
use crate::commands::completions;
use crate::conversation::home::Home;
use crate::conversation::project::{Project, TEAM_FILE, UserConfiguration, find_team_file};
use crate::diagnostics::Deny;
use crate::host_environment;
use crate::outcome::{Outcome, UsageError};

/// Show the exact prompt that a member would get now.
///
/// Nothing is sent. Standard output is the prompt, byte for byte, and nothing else.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("account").args(["explain", "json"]).multiple(true))]
pub struct Arguments {
    /// The member whose prompt is shown
    #[arg(long = "for", value_name = "NAME", add = ArgValueCompleter::new(completions::members))]
    member: String,
    /// The team file [default: convoke.toml here or in a parent directory, up to the repository's root]
    #[arg(long, value_name = "FILE")]
    team: Option<PathBuf>,
    /// Use the conversation of a stored session: its id, the beginning of it, or `last`
    #[arg(
        long,
        value_name = "ID",
        conflicts_with_all = ["snapshot", "messages", "in_reply_to"],
        add = ArgValueCompleter::new(completions::sessions)
    )]
    session: Option<String>,
    /// Use the conversation of a snapshot
    #[arg(long, value_name = "FILE", conflicts_with = "messages")]
    snapshot: Option<PathBuf>,
    /// Use the messages of a file, one per line; `-` reads standard input
    #[arg(long, value_name = "FILE")]
    messages: Option<PathBuf>,
    /// The message to answer [default: the newest]
    #[arg(long, value_name = "ID")]
    in_reply_to: Option<String>,
    /// Show the system text instead of the prompt
    #[arg(long, conflicts_with = "json")]
    system: bool,
    /// Print the ledger on standard error: the source of every byte, and what was left out
    #[arg(long)]
    explain: bool,
    /// Also count tokens exactly, with the encoding of OpenAI's current models
    #[arg(long, requires = "account")]
    exact_tokens: bool,
    /// Write the prompt, the system text, the ledger and the diagnostics as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    deny: Deny,
}

/// Runs `convoke prompt`.
pub fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    let prompt = match &arguments.session {
        Some(written) => stored::assemble(arguments, written)?,
        None => assemble(arguments)?,
    };
    let shown = if arguments.json {
        PromptOutput::Json
    } else if arguments.system {
        PromptOutput::System
    } else {
        PromptOutput::Prompt
    };
    output::write(&prompt, shown, arguments)?;
    Ok(arguments.deny.outcome(prompt.diagnostics.iter().map(|diagnostic| diagnostic.code.clone())))
}

/// Assembles a prompt from a team file and the conversation that the arguments name.
fn assemble(arguments: &Arguments) -> anyhow::Result<AssemblerOutput<'static>> {
    let (project, user) = read_project(arguments)?;
    let team = &project.team_with_formats(&user.catalog);
    let (member, settings) = member::find_agent(team, &arguments.member)?;
    let instructions = project.read_instructions(settings)?;

    let options =
        ContextOptions { escaping: escaping(&settings.agent), ..team.context_options(member) };
    let mut manager = ContextManager::new(options.into(), Hooks::default());
    let mut diagnostics = conversation::load(&mut manager, team, arguments)?;

    let briefing = team.briefing_for(member);
    let names: Vec<&str> = member.display_name.as_deref().into_iter().collect();
    let context = AgentContext {
        agent_names: &names,
        role_summary: settings.role_summary.as_deref(),
        system_instruction: settings.instructions.as_deref(),
        briefing: briefing.as_deref(),
        instruction_file_text: instructions.as_deref(),
        instruction_file_path: settings.instructions_file.as_deref(),
        ..AgentContext::default()
    };
    let input = match &arguments.in_reply_to {
        None => manager.context_for_agent(member.name.as_str(), context),
        Some(id) => manager
            .context_for_reply(&id.as_str().into(), member.name.as_str(), context)
            .map_err(|error| UsageError(format!("--in-reply-to: {error}")))?,
    };
    diagnostics.extend(conversation::marker_diagnostics(&manager, &input, team.context.text));
    let mut prompt = manager
        .assemble_prompt(&settings.agent, &input)
        .with_context(|| format!("no prompt for {}", member.name))?
        .into_owned();
    diagnostics.append(&mut prompt.diagnostics);
    prompt.diagnostics = diagnostics;
    Ok(prompt)
}

fn read_project(arguments: &Arguments) -> anyhow::Result<(Project, UserConfiguration)> {
    let host_environment = host_environment::of_process()?;
    let user = UserConfiguration::load(&Home::new(&host_environment))?;
    let found = || find_team_file(&host_environment).unwrap_or_else(|| TEAM_FILE.into());
    let path = arguments.team.clone().unwrap_or_else(found);
    Ok((Project::read(&path, &user)?, user))
}
