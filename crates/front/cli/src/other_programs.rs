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

/// The characters of a short id, unless more are needed to tell it from others.
const SHORT: usize = 8;

/// Returns the name of a session with the beginning of its id.
pub fn short_name(session: &FoundSession) -> String {
    short_name_among(session, &[])
}

/// Returns the name of a session with as much of its id as distinguishes it from others of its program.
pub fn short_name_among(session: &FoundSession, others: &[(&str, String)]) -> String {
    let FoundSession { program, id, .. } = session;
    let of_program = others.iter().filter(|(other, it)| other == program && it != id);
    let same = |other: &str| id.chars().zip(other.chars()).take_while(|(a, b)| a == b).count();
    let shared = of_program.map(|(_, other)| same(other)).max();
    let length = shared.map_or(SHORT, |shared| SHORT.max(shared + 1));
    let id: String = id.chars().take(length).collect();
    format!("{program}:{id}")
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use convoke_protocol::id::Millis;

    use super::*;

    #[test]
    fn a_short_name_grows_until_it_names_one_session() {
        let session = FoundSession {
            program: "codex",
            id: "01a1e832-02aa".to_owned(),
            path: PathBuf::new(),
            files: Vec::new(),
            parent: None,
            changed_at: Millis(0),
            bytes: 0,
            cwd: None,
        };
        let among = |others: &[(&str, &str)]| {
            let others: Vec<_> = others.iter().map(|(it, id)| (*it, (*id).to_owned())).collect();
            short_name_among(&session, &others)
        };
        assert_eq!(among(&[("codex", "01a1e831-ed28")]), "codex:01a1e832");
        assert_eq!(among(&[("claude", "01a1e832-02ab")]), "codex:01a1e832");
        assert_eq!(among(&[("codex", "01a1e832-0100")]), "codex:01a1e832-02");
    }
}
