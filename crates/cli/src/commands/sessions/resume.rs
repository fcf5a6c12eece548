//! `convoke sessions resume`.

use std::path::PathBuf;

use clap::Args;
use clap_complete::ArgValueCompleter;

use super::Which;
use crate::commands::completions;
use crate::commands::run;
use crate::conversation::{ConversationOptions, Rehearse};
use crate::diagnostics::Deny;

#[derive(Debug, Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    which: Which,
    /// What you say; without it the session just goes on
    #[arg(value_name = "TASK")]
    task: Option<String>,
    /// Another team file than the session's own
    #[arg(long, value_name = "FILE")]
    team: Option<PathBuf>,
    /// Needs no account; see `convoke run`
    #[arg(long, value_name = "WITH", num_args = 0..=1, require_equals = true, default_missing_value = "stand-in")]
    rehearse: Option<Rehearse>,
    /// Who is called when your text calls nobody; by default the first agent of the team
    #[arg(long, value_name = "NAME", value_delimiter = ',', add = ArgValueCompleter::new(completions::members))]
    to: Vec<String>,
    /// Try the turn again that failed or was cancelled last
    #[arg(long)]
    retry: bool,
    /// Write one event a line, as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    deny: Deny,
}

impl From<Arguments> for run::Arguments {
    fn from(arguments: Arguments) -> Self {
        let Arguments { which, task, team, rehearse, to, retry, json, deny } = arguments;
        let conversation = ConversationOptions { team, session: Some(which.id), rehearse };
        Self { task, conversation, to, retry, json, deny }
    }
}
