//! The agents that a node offers.

use std::ffi::OsStr;

use convoke_agent::config::{AgentKind, Catalog};
use convoke_inspect::HostEnvironment;
use convoke_inspect::installed::version_on_disk;
use convoke_session::sharing::NodeOffer;

use crate::conversation::home::Home;
use crate::outcome::UsageError;

/// Returns the offer of a node: the agents that were asked for, or those whose programs are installed.
pub(super) fn offered(
    asked: &[String],
    host_environment: &HostEnvironment,
) -> anyhow::Result<NodeOffer> {
    let catalog = Home::new(host_environment).read_catalog()?;
    let mut offer = NodeOffer::default();
    if asked.is_empty() {
        for (name, definition) in catalog.iter() {
            let is_program = !matches!(definition.kind, AgentKind::Api | AgentKind::StandIn);
            if is_program && installed(&catalog, name, host_environment).is_some() {
                offer.agents.push(name.to_owned());
            }
        }
        if offer.agents.is_empty() {
            let problem = "no agent is installed on this machine; name those to run with --offer";
            return Err(UsageError(problem.to_owned()).into());
        }
    }
    for written in asked {
        let (name, version) = match written.split_once('@') {
            Some((name, version)) => (name, Some(version)),
            None => (&**written, None),
        };
        if catalog.get(name).is_none() {
            return Err(UsageError(format!("--offer: no agent has the name `{name}`")).into());
        }
        if let Some(version) = version {
            check_version(&catalog, name, version, host_environment)?;
        }
        offer.agents.push(name.to_owned());
    }
    for name in &offer.agents {
        if let Some(Some(version)) = installed(&catalog, name, host_environment) {
            offer.versions.push(format!("{name}@{version}"));
        }
    }
    Ok(offer)
}

/// Returns the version of an installed agent, if it is known.
#[expect(clippy::option_option, reason = "not installed, or of an unknown version")]
fn installed(
    catalog: &Catalog,
    name: &str,
    host_environment: &HostEnvironment,
) -> Option<Option<String>> {
    let definition = catalog.get(name)?;
    let program = host_environment.program(OsStr::new(definition.program()))?;
    let program = program.canonicalize().unwrap_or(program);
    Some(definition.vendor().and_then(|vendor| version_on_disk(&program, vendor)))
}

fn check_version(
    catalog: &Catalog,
    name: &str,
    wanted: &str,
    host_environment: &HostEnvironment,
) -> Result<(), UsageError> {
    let found = installed(catalog, name, host_environment);
    let is_right = |found: &String| {
        let rest = found.strip_prefix(wanted);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    match found {
        Some(Some(found)) if is_right(&found) => Ok(()),
        Some(Some(found)) => Err(UsageError(format!(
            "--offer {name}@{wanted}: the installed version of {name} is {found}"
        ))),
        Some(None) => Err(UsageError(format!(
            "--offer {name}@{wanted}: the version of {name} is unknown; offer {name} without one"
        ))),
        None => Err(UsageError(format!("--offer {name}@{wanted}: {name} is not installed"))),
    }
}
