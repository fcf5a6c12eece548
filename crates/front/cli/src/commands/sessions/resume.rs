//! `convoke sessions resume`.

use std::path::PathBuf;

use clap::Args;
use clap_complete::ArgValueCompleter;

use super::SessionArgument;
use crate::commands::completions;
use crate::commands::run;
use crate::conversation::{ConversationOptions, RecordOption, Rehearse};
use crate::diagnostics::Deny;

#[derive(Debug, Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    which: SessionArgument,
    /// Your message, in quotes or as words; without it the queued turns run
    #[arg(value_name = "TASK")]
    task: Vec<String>,
    /// The team file [default: the session's copy]
    #[arg(long, value_name = "FILE")]
    team: Option<PathBuf>,
    /// Run without an account; see `convoke run`
    #[arg(long, value_name = "WITH", num_args = 0..=1, require_equals = true, default_missing_value = "stand-in")]
    rehearse: Option<Rehearse>,
    /// Record the requests of programs to their models; see `convoke run`
    #[arg(long, value_name = "WHAT")]
    record: Option<RecordOption>,
    /// The recipient if your message names none [default: the first agent of the team]
    #[arg(long, value_name = "NAME", value_delimiter = ',', add = ArgValueCompleter::new(completions::members))]
    to: Vec<String>,
    /// Retry the last turn that failed or was cancelled
    #[arg(long)]
    retry: bool,
    /// Write one JSON event per line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    deny: Deny,
}

impl From<Arguments> for run::Arguments {
    fn from(arguments: Arguments) -> Self {
        let Arguments { which, task, team, rehearse, record, to, retry, json, deny } = arguments;
        let conversation = ConversationOptions {
            team,
            session: Some(which.id),
            rehearse,
            record,
            ..ConversationOptions::default()
        };
        Self { task, conversation, handover: None, to, retry, page: false, json, deny }
    }
}
