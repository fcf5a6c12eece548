//! The result of `convoke explain` for one CLI, at the version that is installed here.

use std::path::Path;

use convoke_agent::diagnostics::AGENT_INSTRUCTIONS_UNREAD;
use convoke_agent::turn_input::Trust;
use convoke_core::Diagnostic;
use convoke_explain::{AgentReport, Edition, Loaded, Session, explain};
use convoke_files::Disk;
use convoke_vendor::{MeasuredCli, UserHome};

use crate::host_environment::HostEnvironment;

/// Returns the edition whose rules apply to a version of a CLI; without a version, the newest.
pub fn edition(vendor: &'static dyn MeasuredCli, version: Option<&str>) -> Edition {
    let newest = vendor.loading_rules().newest();
    version.map_or(newest, |version| newest.nearest(version))
}

/// Returns the session of a CLI that is started here without arguments.
pub fn session(host_environment: &HostEnvironment) -> Session {
    let mut session = Session::new(&host_environment.cwd, &host_environment.home);
    let variables = convoke_vendors::loading_variables().filter_map(|name| {
        let value = host_environment.variable(name)?.to_str()?;
        Some((name.to_owned(), value.to_owned()))
    });
    session.variables = variables.collect();
    session
}

/// Explains what a CLI loads in a directory with a configuration, started with arguments, if it is trusted.
pub(crate) fn explained_with(
    vendor: &'static dyn MeasuredCli,
    version: Option<&str>,
    cwd: &Path,
    configuration: &UserHome,
    arguments: &[String],
) -> Option<AgentReport> {
    let mut session = Session::new(cwd, &configuration.home);
    let directory = configuration.directory.display().to_string();
    let moved = vendor.facts().directory_variable.map(|name| (name.to_owned(), directory));
    session.variables.extend(moved);
    let trusted = vendor.loading(Trust::Trusted).variables.into_iter();
    session.variables.extend(trusted.map(|(name, value)| (name.to_owned(), value.to_owned())));
    arguments.clone_into(&mut session.arguments);
    explain(&Disk, &session, &[edition(vendor, version)]).agents.pop()
}

/// Explains what a CLI loads here.
pub(crate) fn explained(
    vendor: &'static dyn MeasuredCli,
    version: Option<&str>,
    host_environment: &HostEnvironment,
) -> Option<AgentReport> {
    let edition = edition(vendor, version);
    explain(&Disk, &session(host_environment), &[edition]).agents.pop()
}

/// The instruction files that a CLI loads in a turn of Convoke.
#[derive(Debug)]
pub struct TurnInstructions {
    /// The files that it loads.
    pub report: AgentReport,
    /// The files that it would load if the directory were trusted.
    pub withheld: Vec<Loaded>,
    vendor: &'static dyn MeasuredCli,
}

impl TurnInstructions {
    /// Explains a turn in the working directory of a host.
    pub fn new(
        vendor: &'static dyn MeasuredCli,
        version: Option<&str>,
        trust: Trust,
        host_environment: &HostEnvironment,
    ) -> Option<Self> {
        let explained = |trust| {
            let start = vendor.loading(trust);
            let mut session = session(host_environment);
            session.arguments.extend(start.args.into_iter().map(str::to_owned));
            let variables = start.variables.into_iter();
            session.variables.extend(variables.map(|(name, value)| (name.into(), value.into())));
            explain(&Disk, &session, &[edition(vendor, version)]).agents.pop()
        };
        let report = explained(trust)?;
        let mut withheld = Vec::new();
        if trust == Trust::Untrusted {
            let loaded = explained(Trust::Trusted)?.loaded.into_iter();
            let is_loaded = |file: &Loaded| report.loaded.iter().any(|it| it.path == file.path);
            withheld.extend(loaded.filter(|file| !is_loaded(file)));
        }
        Some(Self { report, withheld, vendor })
    }

    /// Returns a diagnostic about the files that are withheld.
    pub fn diagnostic(&self) -> Option<Diagnostic> {
        let first = &self.withheld.first()?.path;
        let more = match self.withheld.len() - 1 {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let message = format!(
            "{} is started without {}{more}: the directory is not trusted",
            self.vendor,
            first.display()
        );
        let diagnostic = Diagnostic::new(AGENT_INSTRUCTIONS_UNREAD, message);
        let count = self.withheld.len() as u64;
        Some(diagnostic.with_count(count).at_path(first.to_string_lossy()))
    }
}
