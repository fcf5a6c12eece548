//! The sessions of other programs: where they are, and their names on the command line.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::Args;
use convoke_core::name::shell_word;
use convoke_open::Catalog;
use convoke_source::{FoundSession, Home, SessionSource};

/// Where sessions of other programs are looked for.
#[derive(Debug, Clone, Default, Args)]
pub struct HomeArgument {
    /// Look for the sessions of other programs in this home directory
    #[arg(long = "home", value_name = "DIR")]
    pub directory: Option<PathBuf>,
}

/// Calls a function with the catalog of sessions in a home: the user's own, which variables may move, or another.
pub fn with_catalog<T>(
    home: &HomeArgument,
    use_catalog: impl FnOnce(&Catalog<'_>) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let own = |name: &str| std::env::var_os(name);
    let none = |_: &str| None::<OsString>;
    let host = crate::host_environment::of_process()?;
    let sources: Vec<&'static dyn SessionSource> = convoke_vendors::sources().collect();
    let home = match &home.directory {
        Some(directory) => Home { directory, variable: &none },
        None => Home { directory: &host.home, variable: &own },
    };
    use_catalog(&Catalog { sources, home, excluded: Vec::new() })
}

/// Returns whether a name is of another program's session.
pub fn is_named(name: &str) -> bool {
    let program = name.split_once(':').map(|(program, _)| program);
    let mut known = convoke_vendors::sources().map(SessionSource::program);
    known.any(|it| program == Some(it)) || Path::new(name).exists()
}

/// Returns the command with which a program goes on with its own session, if it has one.
pub fn resume_command(session: &FoundSession) -> Option<String> {
    let source = convoke_vendors::sources().find(|it| it.program() == session.program);
    let command = source.and_then(SessionSource::resume_command)?;
    Some(format!("{command} {}", shell_word(&session.id)))
}

/// Returns the name of a session with the beginning of its id.
pub fn short_name(session: &FoundSession) -> String {
    let id: String = session.id.chars().take(8).collect();
    format!("{}:{id}", session.program)
}
