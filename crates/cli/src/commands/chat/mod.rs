//! `convoke chat`: the same conversation as `convoke run`, as long as a person likes.

mod lines;

use std::io::{IsTerminal, Write as _, stdin};

use clap::Args;
use clap_complete::ArgValueCompleter;
use convoke_chat::Setup;
use convoke_session::{MessageNumber, Store as _};

use crate::commands::completions;
use crate::commands::run::{Arguments as RunArguments, addressees};
use crate::commands::sessions::short;
use crate::conversation::project::Origin;
use crate::conversation::{self, AgentBackend, Conversation, ConversationOptions, sample};
use crate::diagnostics::Deny;
use crate::host_environment;
use crate::outcome::Outcome;
use crate::program;
use crate::terminal::stdout;

/// Holds a conversation between you and a team of agents in the whole terminal.
///
/// Ctrl-C once cancels the turn that is under way, twice leaves; both save. Where there is no terminal,
/// and with --json, each line of standard input is a message or a command.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  convoke chat --rehearse
  convoke chat --session last
  printf 'Is it safe?\\n/quit\\n' | convoke chat --json")]
pub struct Arguments {
    #[command(flatten)]
    conversation: ConversationOptions,
    /// Who is called when your text calls nobody; by default the first agent of the team
    #[arg(long, value_name = "NAME", value_delimiter = ',', add = ArgValueCompleter::new(completions::members))]
    to: Vec<String>,
    /// Read lines, and write one event a line, as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    deny: Deny,
}

/// Runs `convoke chat`.
pub fn run(arguments: Arguments) -> anyhow::Result<Outcome> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    if !arguments.json && has_screen() {
        return runtime.block_on(hold(&arguments));
    }
    let Arguments { conversation, to, json, deny } = arguments;
    let arguments = RunArguments { task: None, conversation, to, retry: false, json, deny };
    runtime.block_on(lines::converse(&arguments))
}

/// Tells whether a whole screen can be drawn and typed into.
fn has_screen() -> bool {
    let is_dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
    stdin().is_terminal() && stdout().is_terminal() && !is_dumb
}

async fn hold(arguments: &Arguments) -> anyhow::Result<Outcome> {
    let host_environment = host_environment::of_process()?;
    let (observer, updates) = convoke_chat::updates();
    let conversation =
        conversation::open(&arguments.conversation, &host_environment, observer).await?;
    let setup = match setup(&arguments.to, &conversation).await {
        Ok(setup) => setup,
        Err(error) => {
            conversation.discard().await?;
            return Err(error);
        }
    };
    let session = short(conversation.coordinator.session());
    let option = conversation.option;
    let (store, id) =
        (conversation.coordinator.store().clone(), conversation.coordinator.session());
    // The servers of a rehearsal end with the conversation.
    let Conversation { coordinator, rehearsal_servers, is_new, .. } = conversation;
    let closing = Box::pin(convoke_chat::hold(coordinator, updates, setup)).await?;
    drop(rehearsal_servers);
    if is_new && store.session(id).await?.state.last_message == MessageNumber::default() {
        store.remove(id).await?;
        writeln!(stdout(), "no messages; the session was not saved")?;
        return Ok(arguments.deny.outcome(closing.codes));
    }
    let program = program::name();
    writeln!(
        stdout(),
        "session saved; continue with: `{program} chat --session {session}{option}`"
    )?;
    Ok(arguments.deny.outcome(closing.codes))
}

/// Collects what a chat begins with.
async fn setup(to: &[String], conversation: &Conversation) -> anyhow::Result<Setup> {
    let coordinator = &conversation.coordinator;
    let team = coordinator.team_agents().team();
    let suggestion =
        (conversation.project.origin == Origin::Sample).then(|| sample::QUESTION.to_owned());
    Ok(Setup {
        name: team.name.clone().unwrap_or_else(|| "a conversation".to_owned()),
        session: short(coordinator.session()),
        team: coordinator.team_agents().team().clone(),
        speaker: conversation.speaker().await?,
        to: addressees(to, conversation).await?,
        suggestion,
        label: (conversation.backend != AgentBackend::Agents).then_some("rehearsal"),
        diagnostics: conversation.diagnostics.clone(),
    })
}
