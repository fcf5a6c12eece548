//! `convoke prompt`: the exact prompt that a member would get now.

mod conversation;
mod member;
mod output;

use std::path::PathBuf;

use anyhow::Context as _;
use clap::{ArgGroup, Args};
use convoke_core::{AgentContext, ContextManager, Hooks};
use convoke_team::Team;

use self::output::Shown;
use crate::diagnostics::Deny;
use crate::outcome::{Outcome, UsageError};

/// Shows the exact prompt that a member would get now; nothing is sent.
///
/// Standard output carries the prompt alone, to the byte.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("account").args(["explain", "json"]).multiple(true))]
pub struct Arguments {
    /// The member that the prompt is for
    #[arg(long = "for", value_name = "NAME")]
    member: String,
    /// The team file
    #[arg(long, value_name = "FILE", default_value = "convoke.toml")]
    team: PathBuf,
    /// The conversation, as a snapshot
    #[arg(long, value_name = "FILE", conflicts_with = "messages")]
    snapshot: Option<PathBuf>,
    /// The conversation, as one message a line; `-` reads standard input
    #[arg(long, value_name = "FILE")]
    messages: Option<PathBuf>,
    /// The message to answer, when it is not the newest
    #[arg(long, value_name = "ID")]
    in_reply_to: Option<String>,
    /// Show the system text that travels beside the prompt, in its place
    #[arg(long, conflicts_with = "json")]
    system: bool,
    /// Show where every byte came from and what was left out, on standard error
    #[arg(long)]
    explain: bool,
    /// Count tokens exactly too, with the encoding of OpenAI's current models
    #[arg(long, requires = "account")]
    exact_tokens: bool,
    /// Write the prompt, the system text, the ledger and the diagnostics as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    deny: Deny,
}

/// Assembles and shows the prompt.
pub fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    let team = read_team(arguments)?;
    let (member, settings) = member::find_agent(&team, &arguments.member)?;
    let instructions = member::read_instructions(settings, &arguments.team)?;

    let mut manager = ContextManager::new(team.context_options(member), Hooks::default());
    let mut diagnostics = conversation::load(&mut manager, &team, arguments)?;

    let names: Vec<&str> = member.display_name.as_deref().into_iter().collect();
    let context = AgentContext {
        agent_names: &names,
        role_summary: settings.role_summary.as_deref(),
        system_instruction: settings.instructions.as_deref(),
        instruction_file_text: instructions.as_deref(),
        instruction_file_path: settings.instructions_file.as_deref(),
        ..AgentContext::default()
    };
    let input = match &arguments.in_reply_to {
        None => manager.context_for_agent(&member.name, context),
        Some(id) => manager
            .context_for_reply(&id.as_str().into(), &member.name, context)
            .map_err(|error| UsageError(format!("--in-reply-to: {error}")))?,
    };
    diagnostics.extend(conversation::marker_diagnostics(&manager, &input, team.context.text));
    let mut prompt = manager
        .assemble_prompt(&settings.agent, &input)
        .with_context(|| format!("no prompt for {}", member.name))?;
    diagnostics.append(&mut prompt.diagnostics);
    prompt.diagnostics = diagnostics;

    let shown = if arguments.json {
        Shown::Json
    } else if arguments.system {
        Shown::System
    } else {
        Shown::Prompt
    };
    output::write(&prompt, shown, arguments)?;
    Ok(arguments.deny.outcome(prompt.diagnostics.iter().map(|diagnostic| diagnostic.code)))
}

fn read_team(arguments: &Arguments) -> anyhow::Result<Team> {
    let path = &arguments.team;
    let text = std::fs::read_to_string(path).map_err(|error| {
        UsageError(format!(
            "cannot read the team file {}: {error}; name one with --team FILE",
            path.display()
        ))
    })?;
    Ok(Team::parse(&text).map_err(|error| UsageError(format!("{}: {error}", path.display())))?)
}
