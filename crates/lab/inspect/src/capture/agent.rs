//! The agents whose requests can be captured: the known CLIs, and the ACP agents that are known by name.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::Path;
use std::str::FromStr;

use convoke_agent::Cli;
use convoke_agent::adapter::Preset;
use convoke_agent::config::Definition;
use convoke_agent::endpoint::{self, EndpointError, ModelServer};
use convoke_vendor::MeasuredCli;
use serde::{Serialize, Serializer};

/// An agent whose requests can be captured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CapturedAgent {
    /// A CLI, which takes its prompt from its arguments or its standard input.
    Cli(&'static dyn MeasuredCli),
    /// A program that speaks the Agent Client Protocol.
    Acp(&'static Preset),
}

impl CapturedAgent {
    fn of_cli(cli: &dyn Cli) -> Option<Self> {
        convoke_vendors::measured(cli).map(Self::Cli)
    }

    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cli(vendor) => vendor.facts().command,
            Self::Acp(preset) => preset.name,
        }
    }

    /// Returns the vendor whose CLI it runs.
    pub fn vendor(self) -> Option<&'static dyn MeasuredCli> {
        match self {
            Self::Cli(vendor) => Some(vendor),
            Self::Acp(preset) => preset.vendor.and_then(convoke_vendors::measured),
        }
    }

    /// Returns the npm package that installs it.
    pub(crate) fn package(self) -> &'static str {
        match self {
            Self::Cli(vendor) => vendor.facts().package,
            Self::Acp(preset) => preset.package,
        }
    }

    /// Recognises the agent of a program. One that is both a CLI and an ACP agent is the CLI.
    pub(super) fn of(program: &Path) -> Option<Self> {
        let name = program.file_stem().and_then(OsStr::to_str)?;
        let programs = convoke_vendors::programs();
        let is_cli = programs.cli(name).is_ok();
        let mut presets = programs.presets.iter();
        let preset = presets.find(|preset| preset.command == name && !is_cli);
        preset.map(|preset| Self::Acp(preset)).or_else(|| Self::of_cli(programs.cli_of(program)?))
    }

    /// Writes the settings that point it to a server into a private home.
    pub(super) fn configure(self, base_url: &str, home: &Path) -> Result<(), EndpointError> {
        match self {
            Self::Cli(vendor) => endpoint::configure(vendor, base_url, home),
            Self::Acp(preset) => {
                endpoint::configure_agent(&Definition::of_preset(preset), base_url, home)
            }
        }
    }

    /// Returns the variables that point it to a server and to a private home.
    pub(super) fn environment(
        self,
        server: ModelServer<'_>,
        home: &Path,
    ) -> Vec<(OsString, OsString)> {
        let own = match self {
            Self::Cli(vendor) => endpoint::environment(vendor, server, home),
            Self::Acp(preset) => {
                let definition = Definition::of_preset(preset);
                let pointed = endpoint::agent_environment(&definition, server, home);
                let started = preset.env.iter().map(|(name, value)| (*name, value.into()));
                started.chain(pointed.into_iter().flatten()).collect()
            }
        };
        own.into_iter().map(|(name, value)| (name.into(), value)).collect()
    }
}

impl fmt::Display for CapturedAgent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Serialize for CapturedAgent {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// A name that no agent has.
#[derive(Debug, thiserror::Error)]
#[error("unknown agent `{name}`; use one of {known}", name = .0, known = names())]
pub struct UnknownAgent(String);

impl FromStr for CapturedAgent {
    type Err = UnknownAgent;

    fn from_str(name: &str) -> Result<Self, UnknownAgent> {
        let programs = convoke_vendors::programs();
        let preset = programs.preset(name).map(Self::Acp);
        let found = preset.or_else(|| Self::of_cli(programs.cli(name).ok()?));
        found.ok_or_else(|| UnknownAgent(name.to_owned()))
    }
}

/// Returns the names of all agents whose requests can be captured.
pub(super) fn names() -> String {
    let programs = convoke_vendors::programs();
    let clis = programs.clis.iter().map(|cli| cli.facts().command);
    let names: Vec<&str> = clis.chain(programs.presets.iter().map(|it| it.name)).collect();
    let (last, others) = names.split_last().unwrap_or((&"", &[]));
    format!("{} and {last}", others.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_is_recognised_by_its_program() {
        for (program, agent) in [
            ("/bin/claude", Some("claude")),
            ("/bin/gemini", Some("gemini")),
            ("/bin/claude-agent-acp", Some("claude-acp")),
            ("/bin/codex-acp", Some("codex-acp")),
            ("/bin/copilot", Some("copilot")),
            ("/bin/true", None),
        ] {
            let found = CapturedAgent::of(Path::new(program)).map(CapturedAgent::name);
            assert_eq!(found, agent, "{program}");
        }
        assert_eq!("gemini-acp".parse::<CapturedAgent>().unwrap().name(), "gemini-acp");
        assert!("another".parse::<CapturedAgent>().is_err());
    }
}
