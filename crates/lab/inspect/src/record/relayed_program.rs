//! A program that is pointed to a relay of its own.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

use convoke_agent::Cli;
use convoke_agent::launch::{ConfinedEnvironment, ObservedState, OwnNetwork};
use convoke_agent::process::guardian::Guardian;
use convoke_agent::relayed::{CliStart, ModelEndpoint, RedirectedStart, RelayAddress};
use convoke_agent::turn_input::Trust;
use convoke_relay::{Relay, RelayOptions, Upstream};
use convoke_wire::Exchange;
use tokio::sync::mpsc::Receiver;

use crate::host_environment::HostEnvironment;
use crate::installed::{version_by_asking, version_on_disk};
use crate::question::{Question, QuestionError, TIME_LIMIT};

/// The time for the question about a region: enough to start a program on a busy machine and to wait for the network.
const REGION_TIME_LIMIT: Duration = Duration::from_secs(45);

/// A program as it would be started.
#[derive(Debug, Clone)]
pub(crate) struct Program {
    pub path: PathBuf,
    pub vendor: &'static dyn Cli,
    /// Whether it is an adapter that runs the CLI.
    pub is_adapter: bool,
    pub arguments: Vec<String>,
    pub env: Vec<(OsString, OsString)>,
    pub cwd: PathBuf,
    pub trust: Trust,
    pub reach: Reach,
    pub redirect: Redirect,
    /// The guardian of the program while it is asked.
    pub guardian: Guardian,
}

/// The hosts that a program can connect to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Everything.
    Anywhere,
    /// The relay alone, which opens tunnels to its sign-in hosts.
    RelayOnly,
}

/// The way in which a program is pointed to a relay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Redirect {
    /// By the settings that count most.
    BySettings,
    /// By settings that do not appear in its requests, where that is possible.
    Unseen,
}

/// A relay, and the program as it is started to use it.
pub(crate) struct Relayed {
    pub relay: Relay,
    pub exchanges: Receiver<Exchange>,
    pub pointed: RedirectedStart,
    /// Whether it has a key that its settings do not select, which it refuses beside a base URL.
    pub key_is_unselected: bool,
}

impl Relayed {
    /// Refuses a key that the program would refuse beside a base URL.
    pub fn check_key(&self) -> Result<(), &'static str> {
        if self.key_is_unselected {
            return Err("Gemini CLI takes a key from the environment beside a base URL only if \
                 `security.auth.selectedType` in ~/.gemini/settings.json is \"gemini-api-key\"");
        }
        Ok(())
    }
}

impl Program {
    /// Starts a relay to the endpoint that the program would use; the error is why it cannot be relayed.
    pub async fn relayed(&self, private_dir: &Path) -> Result<Relayed, String> {
        let program = self.clone();
        let found = tokio::task::spawn_blocking(move || program.endpoint()).await;
        let (endpoint, version) = found.map_err(|error| error.to_string())??;
        let upstream = Upstream::parse(&endpoint.base_url)
            .map_err(|error| format!("{error} ({})", endpoint.base_url))?;
        let tunnel_hosts = match self.reach {
            Reach::Anywhere => Vec::new(),
            Reach::RelayOnly => endpoint.sign_in_hosts.iter().map(|it| (*it).to_owned()).collect(),
        };
        let options = RelayOptions {
            env: self.env.clone(),
            own_user_agents: self
                .vendor
                .facts()
                .own_user_agents
                .iter()
                .map(|it| (*it).to_owned())
                .collect(),
            tunnel_hosts,
            ..RelayOptions::new(upstream)
        };
        let started = Relay::start(options).await;
        let (relay, exchanges) = started.map_err(|error| error.to_string())?;
        let (base_url, proxy) = (relay.base_url(), relay.proxy_url());
        let proxy = (self.reach == Reach::RelayOnly).then_some(&*proxy);
        let address = RelayAddress { base_url: &base_url, proxy };
        let started = self.started(version.as_deref());
        let pointed = match self.redirect {
            Redirect::BySettings => endpoint.point(&started, address, private_dir),
            Redirect::Unseen => endpoint.point_unseen(&started, &base_url, private_dir),
        };
        let pointed = pointed.map_err(|error| error.to_string())?;
        Ok(Relayed { relay, exchanges, pointed, key_is_unselected: endpoint.key_is_unselected })
    }

    fn started<'s>(&'s self, version: Option<&'s str>) -> CliStart<'s> {
        let Self { vendor, is_adapter, arguments, env, cwd, trust, .. } = self;
        let (vendor, is_adapter, trust) = (*vendor, *is_adapter, *trust);
        let etc = Path::new("/etc");
        CliStart { vendor, is_adapter, arguments, env, cwd, trust, version, etc }
    }

    /// Returns the version of the CLI, on which the settings that it obeys depend.
    fn version(&self, host: &HostEnvironment) -> Result<Option<String>, QuestionError> {
        if self.is_adapter {
            return Ok(None);
        }
        let real = self.path.canonicalize().unwrap_or_else(|_| self.path.clone());
        match version_on_disk(&real, self.vendor) {
            Some(version) => Ok(Some(version)),
            None => version_by_asking(&self.path, self.vendor, host, &self.guardian),
        }
    }

    /// Returns the arguments with which an adapter runs the CLI itself.
    fn cli(&self) -> &'static [&'static str] {
        if self.is_adapter { self.vendor.facts().adapter_cli } else { &[] }
    }

    /// Returns the endpoint and the version, after the programs that know of them were asked.
    fn endpoint(&self) -> Result<(ModelEndpoint, Option<String>), String> {
        let environment = self.confined_environment()?;
        let host = self.host();
        let users_directory = host.user_home(self.vendor).directory;
        let question = |network| Question {
            path: &self.path,
            arguments: &[],
            environment: environment.clone(),
            cwd: &self.cwd,
            vendor: Some(self.vendor),
            state: ObservedState::UsersOwn { directory: &users_directory, network },
            time_limit: TIME_LIMIT,
        };
        let mut status = || {
            let Some(arguments) = self.vendor.facts().sign_in.status else { return Ok(None) };
            let arguments = &[self.cli(), arguments].concat();
            let question = Question { arguments, ..question(OwnNetwork::Nothing) };
            Ok(Some(question.ask(&host, &self.guardian)?.output))
        };
        let version = self
            .version(&host)
            .map_err(|error| format!("cannot ask {} for its version: {error}", self.vendor))?;
        let started = self.started(version.as_deref());
        let endpoint = self.vendor.relayed_endpoint(&started, &mut status);
        let endpoint = endpoint.map_err(|error| error.to_string())?;
        let region = self.vendor.region_question().filter(|_| endpoint.may_be_bound);
        if let Some(mut region) = region {
            let arguments = &[self.cli(), region.arguments()].concat();
            let time_limit = REGION_TIME_LIMIT;
            let question = Question { arguments, time_limit, ..question(OwnNetwork::Direct) };
            let opening = region.opening();
            let asked =
                question.converse(opening, &mut |line| region.next(line), &host, &self.guardian);
            asked.map_err(|error| region.unknown(&error.to_string()))?;
            region.result()?;
        }
        Ok((endpoint, version))
    }

    /// Returns the program's own variables, home and working directory.
    fn host(&self) -> HostEnvironment {
        let environment: BTreeMap<OsString, OsString> = self.env.iter().cloned().collect();
        let home = environment.get(OsStr::new("HOME")).map(PathBuf::from).unwrap_or_default();
        HostEnvironment { environment, home, cwd: self.cwd.clone() }
    }

    /// Returns the environment in which the program is asked, as in a project that is not trusted.
    fn confined_environment(&self) -> Result<ConfinedEnvironment, String> {
        let host = self.host();
        let confined = host.confined(host.environment.clone(), Some(self.vendor));
        confined.map_err(|error| error.to_string())
    }
}
