//! The sessions of other programs: where they are, and their names on the command line.

use std::ffi::OsString;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;
use convoke_core::name::shell_word;
use convoke_inspect::HostEnvironment;
use convoke_open::Catalog;
use convoke_open::archive::Archive;
use convoke_open::catalog::Readers;
use convoke_open::index::{Index, IndexError};
use convoke_redact::Redactor;
use convoke_source::{FoundSession, Home, SessionSource};

use crate::terminal::{printable, stderr};
use crate::user_settings::UserSettings;

/// Where sessions of other programs are looked for.
#[derive(Debug, Clone, Default, Args)]
pub struct HomeArgument {
    /// Look for the sessions of other programs in this home directory
    #[arg(long = "home", value_name = "DIR")]
    pub directory: Option<PathBuf>,
}

impl HomeArgument {
    /// Returns whether the sessions are the user's own, which the index and the archive are for.
    pub fn is_own(&self) -> bool {
        self.directory.is_none()
    }
}

/// Calls a function with the catalog of sessions in a home: the user's own, which variables may move, or another.
pub fn with_catalog<T>(
    home: &HomeArgument,
    use_catalog: impl FnOnce(&Catalog<'_>) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let own = |name: &str| std::env::var_os(name);
    let none = |_: &str| None::<OsString>;
    let host = crate::host_environment::of_process()?;
    let UserSettings { prices, sessions, .. } = UserSettings::read(&host)?;
    let sources: Vec<&'static dyn SessionSource> = convoke_vendors::sources().collect();
    let archive = home.is_own().then(|| archive(&host));
    let home = match &home.directory {
        Some(directory) => Home { directory, variable: &none },
        None => Home { directory: &host.home, variable: &own },
    };
    let readers = Readers { sources, archive };
    use_catalog(&Catalog { readers, home, excluded: sessions.exclude, prices })
}

/// Returns the user's copies of sessions.
pub fn archive(host: &HostEnvironment) -> Archive {
    let [_, data] = host.private_directories();
    Archive::new(data.join("kept"))
}

/// Returns the path of the user's index of sessions.
pub fn index_path(host: &HostEnvironment) -> PathBuf {
    let [_, data] = host.private_directories();
    data.join("index").join("sessions.db")
}

/// Opens the index of the user's sessions. Without it everything is read, so a failure is told and holds nobody up.
pub fn open_index(home: &HomeArgument) -> anyhow::Result<Option<Index>> {
    if !home.is_own() {
        return Ok(None);
    }
    let host = crate::host_environment::of_process()?;
    match Index::open(&index_path(&host), redactor(&host)) {
        Ok(index) => Ok(Some(index)),
        Err(error) => {
            tell_without_index(&error)?;
            Ok(None)
        }
    }
}

/// Returns what removes the user's secrets.
pub fn redactor(host: &HostEnvironment) -> Redactor {
    let environment: Vec<_> = host.environment.clone().into_iter().collect();
    Redactor::for_env(&environment)
}

/// Says that the index was not used.
pub fn tell_without_index(error: &IndexError) -> std::io::Result<()> {
    let reason = std::error::Error::source(error);
    let reason = reason.map_or_else(String::new, |reason| format!(": {reason}"));
    writeln!(stderr(), "{}; all files are read instead", printable(&format!("{error}{reason}")))
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
