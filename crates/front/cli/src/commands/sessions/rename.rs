//! `convoke sessions rename`.

use std::io::Write as _;

use clap::Args;
use convoke_session::{AnyStore, Store as _};
use serde_json::json;

use super::{SessionArgument, write_json};
use crate::outcome::{AfterWork as _, Outcome, UsageError};
use crate::terminal::stdout;

/// The maximum number of characters of a name.
const MAX_NAME_CHARACTERS: usize = 200;

#[derive(Debug, Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    which: SessionArgument,
    /// The new name
    #[arg(value_name = "NAME")]
    name: String,
    /// Write JSON
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(arguments: &Arguments, store: &AnyStore) -> anyhow::Result<Outcome> {
    let name = arguments.name.trim();
    if name.is_empty()
        || name.contains(char::is_control)
        || name.chars().count() > MAX_NAME_CHARACTERS
    {
        let problem = format!("a name is one line of 1 to {MAX_NAME_CHARACTERS} characters");
        return Err(UsageError(problem).into());
    }
    let session = arguments.which.find(store).await?;
    store.rename(session, name).await?;
    if arguments.json {
        write_json(&json!({"session": session, "name": name}))
    } else {
        writeln!(stdout(), "renamed session {} to {name}", session.short())
    }
    .after("the session is renamed")?;
    Ok(Outcome::Done)
}
