//! `convoke sessions migrate`.

use std::io::{BufRead as _, IsTerminal as _, Write as _, stdin};

use clap::Args;
use convoke_session::{AnyStore, Store as _, StoreError};
use serde_json::json;

use super::write_json;
use crate::conversation::store::{OWN_FILE, migrate, open_url, store_url};
use crate::figures::count;
use crate::host_environment;
use crate::outcome::{Outcome, UsageError};
use crate::terminal::{stderr, stdout};

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Migrate without asking: there is a backup
    #[arg(long, short)]
    yes: bool,
    /// Write JSON
    #[arg(long)]
    json: bool,
}

/// Migrates a shared store, once a person has confirmed that there is a backup.
pub(super) async fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    let host_environment = host_environment::of_process()?;
    let url = store_url(&host_environment)?;
    if url == OWN_FILE {
        let why = "pass --store URL: the file of this machine is migrated by the first command that opens it";
        return Err(UsageError(why.to_owned()).into());
    }
    let (found, format) = match open_url(&host_environment, &url).await {
        Ok(store) => {
            store.close().await;
            return up_to_date(arguments);
        }
        Err(error) => match error.downcast_ref() {
            Some(StoreError::OldDatabase { found, expected }) => (*found, *expected),
            _ => return Err(error),
        },
    };
    if !arguments.yes {
        explain(&url, found, format)?;
        if !stdin().is_terminal() || !stderr().is_terminal() {
            let why = "nothing was migrated: there is no terminal to ask on; make a backup, then pass --yes";
            return Err(UsageError(why.to_owned()).into());
        }
        if !is_confirmed()? {
            writeln!(stderr(), "Nothing was migrated.")?;
            return Ok(Outcome::Failed);
        }
    }
    migrate(&host_environment, &url).await?;
    let store = open_url(&host_environment, &url).await?;
    let sessions = count_sessions(&store).await;
    store.close().await;
    let sessions = sessions?;
    if arguments.json {
        write_json(&json!({
            "migrated": true, "from": found, "format": format, "sessions": sessions,
        }))?;
    } else {
        let sessions = count(sessions, "session");
        writeln!(stdout(), "migrated {sessions} from format {found} to format {format}")?;
    }
    Ok(Outcome::Done)
}

fn up_to_date(arguments: &Arguments) -> anyhow::Result<Outcome> {
    if arguments.json {
        write_json(&json!({"migrated": false}))?;
    } else {
        writeln!(stdout(), "nothing to migrate: the database has the format of this version")?;
    }
    Ok(Outcome::Done)
}

/// Returns the number of sessions, with those that can be restored.
async fn count_sessions(store: &AnyStore) -> Result<u64, StoreError> {
    let removed = store.removed_sessions().await?;
    Ok((store.sessions().await?.len() + removed.len()) as u64)
}

fn explain(url: &str, found: i64, format: i64) -> anyhow::Result<()> {
    writeln!(
        stderr(),
        "The database has tables of format {found}; this version of Convoke uses format {format}.\n\
         The migration converts every session in one transaction: everything, or nothing. Earlier versions\n\
         cannot use the database after it, so stop all commands and nodes, and make a backup first:\n\n    \
         pg_dump --format=custom --file=convoke.backup '{url}'\n"
    )?;
    Ok(())
}

fn is_confirmed() -> anyhow::Result<bool> {
    let mut out = stderr();
    write!(out, "There is a backup: migrate? [y/N] ")?;
    out.flush()?;
    let mut answer = String::new();
    stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
