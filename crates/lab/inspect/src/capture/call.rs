//! How a captured program is called, so that it sends its requests to the server of the capture.

use std::ffi::OsString;
use std::path::Path;

use convoke_agent::adapter::Preset;
use convoke_agent::adapter::acp::TypedStart;
use convoke_agent::endpoint::measured::{self as measured_start, Commands, Conditions};
use convoke_agent::endpoint::{OfflinePlace, VendorServices};
use convoke_agent::process::Dialogue;
use convoke_agent::turn_input::Trust;
use convoke_core::Diagnostic;
use convoke_rehearsal::Rehearsal;
use convoke_vendor::MeasuredCli;

use super::{CaptureError, CapturedAgent, Start, child, measured, split_prompt};
use crate::host_environment::HostEnvironment;

/// A call of a captured program.
pub(super) struct Call {
    pub(super) arguments: Vec<OsString>,
    /// The variables of its own; without a value, the variable is removed.
    pub(super) variables: Vec<(OsString, Option<OsString>)>,
    pub(super) dialogue: Box<dyn Dialogue>,
    /// The commands of the project that are not run.
    pub(super) withheld: Option<Diagnostic>,
}

/// What a call depends on.
pub(super) struct Caller<'c> {
    pub(super) agent: CapturedAgent,
    pub(super) trust: Trust,
    pub(super) place: OfflinePlace<'c>,
    pub(super) server: &'c Rehearsal,
    /// The private home.
    pub(super) home: &'c Path,
    /// The user's arguments.
    pub(super) words: &'c [String],
    pub(super) stdin: &'c str,
    pub(super) host_environment: &'c HostEnvironment,
}

impl Caller<'_> {
    /// Returns the call of the program.
    pub(super) fn call(&self, start: Start) -> Result<Call, CaptureError> {
        match (self.agent, start) {
            (CapturedAgent::Acp(preset), start) => self.acp(preset, start),
            (CapturedAgent::Cli(vendor), Start::Typed { is_trusted }) => {
                self.typed(vendor, is_trusted)
            }
            (CapturedAgent::Cli(vendor), Start::Measured { conditions, .. }) => {
                self.measured(vendor, conditions)
            }
        }
    }

    fn acp(&self, preset: &'static Preset, start: Start) -> Result<Call, CaptureError> {
        let Self { agent, host_environment, .. } = *self;
        let vendor = agent.vendor();
        let (mut users, prompt) = split_prompt(self.words.to_vec(), self.stdin);
        if self.trust == Trust::Untrusted {
            if let Some(path) = preset.followed_file(&host_environment.cwd) {
                return Err(CaptureError::WouldApply { agent, path });
            }
            if let Some(vendor) = vendor.filter(|_| !preset.is_adapter()) {
                let own = host_environment.user_home(vendor);
                measured::commands(vendor, &own, host_environment)?;
            }
        }
        // The other adapters take the address from variables, which count more than files.
        let pointed = vendor.filter(|it| preset.is_adapter() && it.facts().adapter_settings);
        if let Some(vendor) = pointed {
            let own = host_environment.user_home(vendor);
            let commands = match start {
                Start::Typed { is_trusted: true } => Commands::Run,
                _ => measured::commands(vendor, &own, host_environment)?,
            };
            let pointed = vendor.pointed_arguments(commands, &self.place, &users);
            users = pointed.map_err(CaptureError::Endpoint)?;
        }
        let started = TypedStart::new(preset, &users, &prompt, &host_environment.cwd);
        let arguments = started.args.into_iter().map(OsString::from).collect();
        let dialogue = Box::new(started.session);
        Ok(Call { arguments, variables: Vec::new(), dialogue, withheld: None })
    }

    fn typed(
        &self,
        vendor: &'static dyn MeasuredCli,
        is_trusted: bool,
    ) -> Result<Call, CaptureError> {
        let host_environment = self.host_environment;
        let own = host_environment.user_home(vendor);
        let mut withheld = None;
        if !is_trusted && measured::commands(vendor, &own, host_environment)? == Commands::Withheld
        {
            withheld = measured::commands_withheld(vendor, self.agent, host_environment)?;
        }
        let commands = if withheld.is_some() { Commands::Withheld } else { Commands::Run };
        let mut given = Vec::from_iter(vendor.withholding(commands));
        let pointed = vendor.pointed_arguments(commands, &self.place, self.words);
        given.extend(pointed.map_err(CaptureError::Endpoint)?);
        let given: Vec<OsString> = given.into_iter().map(OsString::from).collect();
        let (arguments, dialogue) = (vendor.headless(&given), child::one_shot(self.stdin));
        Ok(Call { arguments, variables: Vec::new(), dialogue, withheld })
    }

    fn measured(
        &self,
        vendor: &'static dyn MeasuredCli,
        conditions: Conditions,
    ) -> Result<Call, CaptureError> {
        let users = &self.host_environment.environment;
        let mut variables = measured_start::environment(vendor, conditions, users);
        if let Some(services) = vendor.vendor_services().filter(|_| conditions.as_vendors) {
            variables.push(self.answered_services(services)?);
        }
        let arguments =
            measured_start::arguments(vendor, conditions.commands, &self.place, self.words);
        let arguments = arguments.map_err(CaptureError::Endpoint)?;
        let arguments = arguments.into_iter().map(OsString::from).collect();
        let dialogue = child::one_shot(self.stdin);
        Ok(Call { arguments, variables, dialogue, withheld: None })
    }

    /// Lets the server answer for services of a vendor. Returns the variable with which a program trusts it.
    fn answered_services(
        &self,
        services: VendorServices,
    ) -> Result<(OsString, Option<OsString>), CaptureError> {
        let certificate = self.server.answer_for(services.hosts);
        let path = self.home.join("certificate.pem");
        std::fs::write(&path, certificate.map_err(CaptureError::Certificate)?)
            .map_err(CaptureError::Home)?;
        Ok((services.certificates.into(), Some(path.into())))
    }
}
