//! Starts a CLI so that it sends the same requests as it would for its user.

use std::collections::BTreeMap;
use std::ffi::OsString;

use super::{EndpointError, OfflinePlace, is_setting};
use crate::cli::Cli;

/// The conditions of a measured run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Conditions {
    /// Whether commands named in settings (hooks, MCP servers) are run.
    pub commands: Commands,
    /// Whether the program treats the server as its vendor's. It may then ask for the vendor's settings first.
    pub as_vendors: bool,
}

/// Whether commands named in settings are run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Commands {
    /// Run, as the program would.
    Run,
    /// Not run, where the program would not ask its user first.
    Withheld,
}

/// Returns the arguments of one turn with the prompt on standard input: Convoke's, then the user's.
pub fn arguments(
    cli: &dyn Cli,
    commands: Commands,
    place: &OfflinePlace<'_>,
    users: &[String],
) -> Result<Vec<String>, EndpointError> {
    let users = cli.pointed_arguments(commands, place, users)?;
    Ok(cli.measured_arguments(commands, users))
}

/// Returns the variables to set in addition to those of [`super::environment`]; one without a value is removed.
pub fn environment(
    cli: &dyn Cli,
    conditions: Conditions,
    users: &BTreeMap<OsString, OsString>,
) -> Vec<(OsString, Option<OsString>)> {
    let settings = users.iter().filter(|(name, _)| is_setting(cli, name));
    let settings = settings.map(|(name, value)| (name.clone(), Some(value.clone())));
    let own = cli.measured_variables(conditions, users).into_iter();
    settings.chain(own.map(|(name, value)| (name.into(), value))).collect()
}
