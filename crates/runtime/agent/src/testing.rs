//! Made-up programs for tests.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;

use convoke_protocol::verdict::Failure;

use crate::adapter::{Context, Preset, ProgramCall, start_failure};
use crate::cli::{Cli, Facts, Programs, SettingVariables, SignIn, State, TurnProgram};
use crate::endpoint::measured::{Commands, Conditions};
use crate::endpoint::{Endpoint, EndpointError, ModelServer};
use crate::relayed::{CannotRelay, CliStart, ModelEndpoint, RedirectedStart, Relayable};

/// A CLI of which only the facts matter.
#[derive(Debug)]
pub(crate) struct MadeUp(&'static Facts);

pub(crate) static ONE: MadeUp = MadeUp(&Facts {
    command: "one",
    directory: ".one",
    directory_variable: Some("ONE_HOME"),
    state: State { directories: &["sessions"], files: &[], existing: &[] },
    nested: &["ONE_NESTED"],
    ..FACTS
});

pub(crate) static OTHER: MadeUp = MadeUp(&Facts {
    command: "other",
    directory: ".other",
    directory_variable: Some("OTHER_HOME"),
    ..FACTS
});

static PRESET: Preset = Preset {
    name: "preset",
    directory: &[".config/preset"],
    state: &[".local/share/preset", ".cache/preset"],
    ..Preset::BASE
};

pub(crate) const PROGRAMS: Programs = Programs { clis: &[&ONE, &OTHER], presets: &[&PRESET] };

const FACTS: Facts = Facts {
    command: "",
    other_names: &[],
    package: "@made-up/none",
    versions: &[],
    directory: "",
    directory_variable: None,
    home_variable: None,
    beside: &[],
    configuration: &[],
    shared_configuration: &[],
    state: State { directories: &[], files: &[], existing: &[] },
    followed: &[],
    hosts: &[],
    address_variable: "",
    own_user_agents: &[],
    settings: SettingVariables { prefixes: &[], names: &[], except: &[] },
    nested: &[],
    events: &[],
    model_option: "",
    trial_model: None,
    has_protocols: false,
    tail: None,
    missing_is_empty: false,
    adapter_settings: false,
    adapter_cli: &[],
    sign_in: SignIn {
        keys: &[],
        variables: &[],
        ignored_keys: &[],
        clouds: &[],
        credentials: &[],
        status: None,
        how: "",
    },
};

impl Cli for MadeUp {
    fn facts(&self) -> &'static Facts {
        self.0
    }

    fn is_signed_in(&self, _code: Option<i32>, _said: &str) -> Option<bool> {
        None
    }
}

impl TurnProgram for MadeUp {
    fn call(&self, _context: &Context<'_>) -> Result<ProgramCall, Failure> {
        Err(start_failure("made up"))
    }
}

impl Endpoint for MadeUp {
    fn server_variables(
        &self,
        _server: ModelServer<'_>,
        _home: &Path,
    ) -> Vec<(&'static str, OsString)> {
        Vec::new()
    }

    fn write_settings(&self, _base_url: &str, _directory: &Path) -> Result<(), EndpointError> {
        Ok(())
    }

    fn headless(&self, arguments: &[OsString]) -> Vec<OsString> {
        arguments.to_vec()
    }

    fn measured_arguments(&self, _commands: Commands, users: Vec<String>) -> Vec<String> {
        users
    }

    fn measured_variables(
        &self,
        _conditions: Conditions,
        _users: &BTreeMap<OsString, OsString>,
    ) -> Vec<(&'static str, Option<OsString>)> {
        Vec::new()
    }
}

impl Relayable for MadeUp {
    fn relayed_endpoint(
        &self,
        _started: &CliStart<'_>,
        _status: &mut dyn FnMut() -> Result<Option<String>, crate::launch::AskError>,
    ) -> Result<ModelEndpoint, CannotRelay> {
        Err(CannotRelay::SignIn("made up"))
    }

    fn pointed(
        &self,
        _started: &CliStart<'_>,
        _settings: &[String],
        _base_url: &str,
        _proxies: &[(&'static str, OsString)],
        _private_dir: &Path,
    ) -> Result<RedirectedStart, CannotRelay> {
        Err(CannotRelay::SignIn("made up"))
    }
}
