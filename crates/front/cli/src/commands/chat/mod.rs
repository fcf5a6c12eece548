//! `convoke chat`: an interactive conversation.

mod lines;

use std::io::{IsTerminal, Write as _, stdin};

use clap::{Args, ValueEnum};
use clap_complete::ArgValueCompleter;
use convoke_chat::{Host, Setup};
use convoke_protocol::id::MessageNumber;
use convoke_session::Store as _;

use crate::commands::completions;
use crate::commands::run::{Arguments as RunArguments, addressees, ask_about_trust};
use crate::commands::serve::page::{self, SessionPage};
use crate::conversation::attachments::ProjectAttachments;
use crate::conversation::project::Origin;
use crate::conversation::store::before_leaving;
use crate::conversation::{self, AgentBackend, Conversation, ConversationOptions, sample};
use crate::diagnostics::Deny;
use crate::host_environment;
use crate::outcome::{Outcome, UsageError};
use crate::program;
use crate::terminal::stdout;

/// Chat with a team, full screen.
///
/// Ctrl-C cancels the running turn, twice it quits; the session is saved in both cases. Without a terminal,
/// and with --json, each line of standard input is a message or a command.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  convoke chat --rehearse
  convoke chat --session last
  printf 'Is it safe?\\n/quit\\n' | convoke chat --json")]
pub struct Arguments {
    #[command(flatten)]
    conversation: ConversationOptions,
    /// The recipient of messages that name none [default: the first agent of the team]
    #[arg(long, value_name = "NAME", value_delimiter = ',', add = ArgValueCompleter::new(completions::members))]
    to: Vec<String>,
    /// When to ring the terminal's bell; `CONVOKE_BELL` sets the default
    #[arg(long, value_name = "WHEN", value_enum)]
    bell: Option<Bell>,
    /// Also serve a page of this conversation
    #[arg(long)]
    page: bool,
    /// Read lines, and write one JSON event per line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    deny: Deny,
}

/// Whether the bell rings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Bell {
    /// When a turn needs you
    On,
    /// Never
    Off,
}

impl Bell {
    fn from_argument(argument: Option<Self>) -> anyhow::Result<Self> {
        let Some(value) = std::env::var_os("CONVOKE_BELL") else {
            return Ok(argument.unwrap_or(Self::On));
        };
        let set = Self::from_str(&value.to_string_lossy(), true);
        let set = set.map_err(|_| UsageError("CONVOKE_BELL must be `on` or `off`".to_owned()));
        argument.map_or_else(|| Ok(set?), Ok)
    }
}

/// Returns the command of the user's editor.
fn editor() -> String {
    let set = ["VISUAL", "EDITOR"].into_iter().filter_map(|name| std::env::var(name).ok());
    set.into_iter().find(|command| !command.trim().is_empty()).unwrap_or_else(|| "vi".to_owned())
}

/// Runs `convoke chat`.
pub fn run(arguments: Arguments) -> anyhow::Result<Outcome> {
    let runtime = conversation::runtime()?;
    if !arguments.json && has_screen() {
        return runtime.block_on(run_conversation(&arguments));
    }
    let Arguments { conversation, to, page, json, deny, bell: _ } = arguments;
    let arguments = RunArguments {
        task: Vec::new(),
        conversation,
        handover: None,
        to,
        retry: false,
        page,
        json,
        deny,
    };
    runtime.block_on(lines::converse(&arguments))
}

/// Returns whether standard input and output are a terminal.
fn has_screen() -> bool {
    let is_dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
    stdin().is_terminal() && stdout().is_terminal() && !is_dumb
}

async fn run_conversation(arguments: &Arguments) -> anyhow::Result<Outcome> {
    let host_environment = host_environment::of_process()?;
    ask_about_trust(&arguments.conversation, &host_environment)?;
    let (observer, updates) = convoke_chat::updates();
    let (observer, page_observer) = page::shared(observer);
    let conversation =
        conversation::open(&arguments.conversation, &host_environment, observer).await?;
    let setup = match setup(arguments, &conversation).await {
        Ok(setup) => setup,
        Err(error) => {
            conversation.discard().await?;
            return Err(error);
        }
    };
    let remote = if arguments.page {
        let page = SessionPage::open(&host_environment, &conversation, &page_observer).await?;
        updates.note(format!("page: {}", page.url));
        Some(page.into_remote())
    } else {
        None
    };
    let session = conversation.coordinator.session().short();
    let option = conversation.option;
    let (store, id) =
        (conversation.coordinator.store().clone(), conversation.coordinator.session());
    let host = Host {
        attachments: Box::new(ProjectAttachments::new(&conversation, &host_environment)),
        editor: editor(),
        search_path: host_environment.search_path().to_variable(),
    };
    // The rehearsal servers end with the conversation.
    let Conversation { coordinator, rehearsal_servers, is_new, .. } = conversation;
    let closing = Box::pin(convoke_chat::run(coordinator, updates, setup, host, remote)).await?;
    drop(rehearsal_servers);
    let read = async { Ok(store.session(id).await?) };
    if is_new && before_leaving(read).await?.state.last_message == MessageNumber::default() {
        store.remove(id).await?;
        writeln!(stdout(), "no messages; the session was not saved")?;
        return Ok(arguments.deny.outcome(closing.codes));
    }
    store.close().await;
    let (program, store) = (program::name(), program::store_option());
    writeln!(
        stdout(),
        "session saved; continue with: `{program} chat --session {session}{option}{store}`"
    )?;
    Ok(arguments.deny.outcome(closing.codes))
}

/// Collects the initial state of a chat.
async fn setup(arguments: &Arguments, conversation: &Conversation) -> anyhow::Result<Setup> {
    let coordinator = &conversation.coordinator;
    let team = coordinator.team_agents().team();
    let suggestion =
        (conversation.project.origin == Origin::Sample).then(|| sample::QUESTION.to_owned());
    Ok(Setup {
        name: team.name.clone().unwrap_or_else(|| "a conversation".to_owned()),
        session: coordinator.session().short(),
        store_option: program::store_option(),
        team: coordinator.team_agents().team().clone(),
        speaker: conversation.speaker().await?,
        to: addressees(&arguments.to, conversation).await?,
        suggestion,
        label: (conversation.backend != AgentBackend::Agents).then_some("rehearsal"),
        diagnostics: conversation.diagnostics.clone(),
        rings: Bell::from_argument(arguments.bell)? == Bell::On,
    })
}
