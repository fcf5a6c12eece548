//! What `convoke explain` says of one CLI, at the version that is installed here.

use std::path::Path;

use convoke_agent::Vendor;
use convoke_explain::{AgentReport, Edition, Session, VARIABLES, explain};
use convoke_files::Disk;

use crate::capture::UserHome;
use crate::host_environment::HostEnvironment;

/// Returns the edition whose rules apply to a version of a CLI; without a version, the newest.
pub fn edition(vendor: Vendor, version: Option<&str>) -> Edition {
    let newest = match vendor {
        Vendor::Claude => Edition::Claude325,
        Vendor::Codex => Edition::Codex0166,
        Vendor::Gemini => Edition::Gemini,
    };
    version.map_or(newest, |version| newest.nearest(version))
}

/// Returns the session of a CLI that is started here without arguments.
pub fn session(host_environment: &HostEnvironment) -> Session {
    let mut session = Session::new(&host_environment.cwd, &host_environment.home);
    let variables = VARIABLES.iter().filter_map(|name| {
        let value = host_environment.variable(name)?.to_str()?;
        Some(((*name).to_owned(), value.to_owned()))
    });
    session.variables = variables.collect();
    session
}

/// Returns what a CLI loads in a directory with a configuration, started with arguments, if it has the trust that it
/// asks for.
pub(crate) fn explained_with(
    vendor: Vendor,
    version: Option<&str>,
    cwd: &Path,
    configuration: &UserHome,
    arguments: &[String],
) -> Option<AgentReport> {
    let mut session = Session::new(cwd, &configuration.home);
    let directory = configuration.directory.display().to_string();
    let moved = vendor.facts().directory_variable.map(|name| (name.to_owned(), directory));
    session.variables.extend(moved);
    session.variables.insert("GEMINI_CLI_TRUST_WORKSPACE".to_owned(), "true".to_owned());
    arguments.clone_into(&mut session.arguments);
    explain(&Disk, &session, &[edition(vendor, version)]).agents.pop()
}

/// Returns what a CLI loads here.
pub(crate) fn explained(
    vendor: Vendor,
    version: Option<&str>,
    host_environment: &HostEnvironment,
) -> Option<AgentReport> {
    let edition = edition(vendor, version);
    explain(&Disk, &session(host_environment), &[edition]).agents.pop()
}
